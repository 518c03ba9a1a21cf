//! The operational loop as an operations centre meets it: files arrive, whole, broken, late, twice; the program is killed;
//! every good cycle is published once, whole, with the numbers of an undisturbed service.

mod waves;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use waves::Place;

/// These tests write files outside of the lock under which the library reads: one at a time.
static FILES: Mutex<()> = Mutex::new(());

/// A trained network, files of single days to serve, and a configuration.
struct Centre {
    _files: MutexGuard<'static, ()>,
    place: Place,
}

impl Centre {
    fn new(start: &str, more: &str) -> Self {
        let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::new();
        let output = place.train("run", &["--set", "train.rollout=[[1, 1]]"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let centre = Self { _files: files, place };
        centre.configure("serve.toml", "", start, more);
        centre
    }

    fn folder(&self) -> &Path {
        self.place.folder.path()
    }

    /// A service whose folders end with `suffix`.
    fn configure(&self, name: &str, suffix: &str, start: &str, more: &str) {
        std::fs::create_dir_all(self.folder().join(format!("inbox{suffix}"))).unwrap();
        let text = format!(
            "[serve]\nout = 'out{suffix}'\nstate = 'state{suffix}'\ninbox = {{ folder = 'inbox{suffix}', poll = '1s' }}\n\
             devices = {{ names = ['cpu'] }}\nhttp = {{ enabled = false }}\n{more}\n\
             [[serve.models]]\nname = 'waves'\nrun = 'run'\nlead = '3d'\nstart = '{start}'\n"
        );
        std::fs::write(self.folder().join(name), text).unwrap();
    }

    /// The analysis of a day of the data, changed, put into an inbox under a name.
    fn bring(&self, inbox: &str, name: &str, day: usize, change: impl Fn(usize, f32) -> f32) {
        let source = netcdf::open(self.folder().join("waves.nc")).unwrap();
        let hidden = self.folder().join(inbox).join(format!(".{name}"));
        {
            let mut file = netcdf::create(&hidden).unwrap();
            for (dimension, length) in [("time", 1), ("latitude", 4), ("longitude", 6)] {
                file.add_dimension(dimension, length).unwrap();
                let all: Vec<f64> = source.variable(dimension).unwrap().get_values(..).unwrap();
                let values = if dimension == "time" { vec![day as f64] } else { all };
                let units = match dimension {
                    "time" => "days since 2001-01-01",
                    "latitude" => "degrees_north",
                    _ => "degrees_east",
                };
                let mut variable = file.add_variable::<f64>(dimension, &[dimension]).unwrap();
                variable.put_attribute("units", units).unwrap();
                variable.put_values(&values, ..).unwrap();
            }
            for (variable, units) in [("msl", "Pa"), ("t2m", "K")] {
                let field: Vec<f32> = source.variable(variable).unwrap().get_values((day, .., ..)).unwrap();
                let field: Vec<f32> = field.iter().enumerate().map(|(i, x)| change(i, *x)).collect();
                let mut out = file.add_variable::<f32>(variable, &["time", "latitude", "longitude"]).unwrap();
                out.put_attribute("units", units).unwrap();
                out.put_values(&field, ..).unwrap();
            }
        }
        std::fs::rename(&hidden, self.folder().join(inbox).join(name)).unwrap();
    }

    fn bring_day(&self, inbox: &str, day: usize) {
        self.bring(inbox, &format!("day{day:03}.nc"), day, |_, x| x);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wxsim"));
        command.current_dir(self.folder()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    #[track_caller]
    fn serve_once(&self, config: &str) -> String {
        let output = self.run(&["serve", config, "--once"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        told
    }

    /// Serves until `is_done` says so of its cycles, then asks it to stop.
    fn serve_until(&self, arguments: &[&str], is_done: impl Fn(&[Value]) -> bool) -> String {
        let mut service = self.command(arguments).spawn().unwrap();
        let begun = Instant::now();
        while !is_done(&self.cycles("serve.toml")) {
            if begun.elapsed() > Duration::from_secs(60) || service.try_wait().unwrap().is_some() {
                let _ = service.kill();
                let told = service.wait_with_output().unwrap();
                panic!("{}\n{:?}", String::from_utf8_lossy(&told.stderr), self.cycles("serve.toml"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Command::new("kill").arg(service.id().to_string()).status().unwrap();
        let output = service.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        told
    }

    /// Oldest first.
    fn cycles(&self, config: &str) -> Vec<Value> {
        let output = self.run(&["cycles", config, "--json", "--last", "1000"]);
        let mut cycles: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        cycles.reverse();
        cycles
    }

    /// The data of every published forecast, by the name of its file and of the variable.
    fn published(&self, suffix: &str) -> BTreeMap<(String, String), Vec<u32>> {
        let mut all = BTreeMap::new();
        for path in forecasts(&self.folder().join(format!("out{suffix}/waves"))) {
            let file = netcdf::open(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            for variable in ["msl", "t2m"] {
                let values: Vec<f32> = file.variable(variable).unwrap().get_values(..).unwrap();
                let bits = values.iter().map(|x| x.to_bits()).collect();
                all.insert((name.clone(), variable.to_string()), bits);
            }
        }
        all
    }
}

fn forecasts(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "nc") && !path.is_symlink());
    paths.sort();
    paths
}

fn states(cycles: &[Value]) -> Vec<(String, String)> {
    let word = |cycle: &Value, key: &str| cycle[key].as_str().unwrap_or_default().to_string();
    cycles.iter().map(|cycle| (word(cycle, "init")[..10].to_string(), word(cycle, "state"))).collect()
}

#[test]
fn what_arrives_is_forecast_once_and_what_is_broken_is_named() {
    let centre = Centre::new("warm", "");
    (10..14).for_each(|day| centre.bring_day("inbox", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("warm, from the cycle of"), "{told}");
    let published = |day: &str| (format!("2001-01-{day}"), "published".to_string());
    assert_eq!(states(&centre.cycles("serve.toml")), ["12", "13", "14"].map(published));
    let before = centre.published("");
    assert_eq!(before.len(), 6);
    let latest = std::fs::read_link(centre.folder().join("out/waves/latest.nc")).unwrap();
    assert_eq!(latest, Path::new("20010114T0000.nc"));

    // The same days again, one with other values; files that are none; missing values; another grid.
    centre.bring("inbox", "again.nc", 12, |_, x| x);
    centre.bring("inbox", "other.nc", 13, |_, x| x + 1.0);
    centre.bring("inbox", "hole.nc", 14, |i, x| if i == 5 { f32::NAN } else { x });
    let whole = std::fs::read(centre.folder().join("inbox/day012.nc")).unwrap();
    std::fs::write(centre.folder().join("inbox/half.nc"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(centre.folder().join("inbox/text.nc"), "not a file of fields").unwrap();
    let told = centre.serve_once("serve.toml");
    for says in [
        "again.nc brings nothing new",
        "other.nc brings nothing new",
        "came with other values",
        "half.nc is rejected",
        "text.nc is rejected",
        "hole.nc is rejected: waves: msl at 2001-01-15T00:00Z: 1 of 24 values are missing",
    ] {
        assert!(told.contains(says), "'{says}' is not in: {told}");
    }
    assert_eq!(centre.cycles("serve.toml").len(), 3);
    assert!(centre.published("") == before);
    // What is settled is not looked at again.
    let told = centre.serve_once("serve.toml");
    assert!(!told.contains("rejected") && !told.contains("nothing new"), "{told}");
    // Nothing is left of what was rejected.
    assert_eq!(std::fs::read_dir(centre.folder().join("state/incoming")).unwrap().count(), 0);
}

#[test]
fn a_cycle_made_again_starts_from_the_same_state_and_gives_the_same_numbers() {
    let centre = Centre::new("warm", "");
    (10..14).for_each(|day| centre.bring_day("inbox", day));
    centre.serve_once("serve.toml");
    let before = centre.published("");
    let output = centre.run(&["cycles", "rerun", "serve.toml", "waves", "2001-01-14"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(centre.cycles("serve.toml")[2]["state"], "waiting");
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("begins on cpu (again)"), "{told}");
    assert!(centre.published("") == before);

    // A file of somebody else stands where the forecast should go.
    let theirs = centre.folder().join("out/waves/20010113T0000.nc");
    std::fs::write(&theirs, "theirs").unwrap();
    centre.run(&["cycles", "rerun", "serve.toml", "waves", "2001-01-13"]);
    let quick =
        ["serve", "serve.toml", "--once", "--set", "serve.retry.attempts=2", "--set", "serve.retry.first=1s"];
    let output = centre.run(&quick);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("was not written by this service") && told.contains("is given up"), "{told}");
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
    assert_eq!(centre.cycles("serve.toml")[1]["state"], "failed");
    let output = centre.run(&["cycles", "rerun", "serve.toml", "waves", "2005-01-13"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_timetable_waits_for_its_analysis_and_then_does_what_the_policy_says() {
    let schedule = |late: &str| {
        format!(
            "schedule = {{ cycles = ['00'], cutoff = '12h', wait = '13h', late = '{late}', bridge = '3d' }}"
        )
    };
    let centre = Centre::new("cold", &schedule("newest"));
    // Day 42 does not come.
    [40, 41, 43].into_iter().for_each(|day| centre.bring_day("inbox", day));
    // Day 41 is 2001-02-11. A second is three hours.
    let rehearse = ["serve", "serve.toml", "--rehearse", "2001-02-11T00", "--speed", "10800"];
    let done = |cycles: &[Value]| cycles.iter().filter(|cycle| cycle["state"] == "published").count() >= 2;
    centre.serve_until(&rehearse, done);
    let cycles = centre.cycles("serve.toml");
    assert_eq!(cycles[0]["start"], "cold");
    assert_eq!(cycles[1]["start"], "first guess, from the analyses up to 2001-02-11T00:00Z");
    assert_eq!(cycles[1]["late"], true);

    centre.configure("serve.toml", "2", "cold", &schedule("skip"));
    [40, 41].into_iter().for_each(|day| centre.bring_day("inbox2", day));
    let done = |cycles: &[Value]| cycles.iter().any(|cycle| cycle["state"] == "missing");
    let told = centre.serve_until(&rehearse, done);
    assert!(told.contains("no analysis came within 13h"), "{told}");
}

#[test]
fn settings_and_services_that_cannot_be_are_refused() {
    let centre = Centre::new("cold", "");
    let refused = |arguments: &[&str], says: &str| {
        let output = centre.run(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(says), "{arguments:?}: {told}");
    };
    refused(&["serve", "serve.toml", "--set", "serve.inbox.folder=nowhere"], "serve.inbox.folder");
    refused(&["serve", "serve.toml", "--set", "serve.schedule.cron=x"], "serve.schedule.cron");
    refused(&["serve", "waves.toml"], "serve.models is empty");
    refused(&["serve", "serve.toml", "--rehearse", "soon"], "is not a date");
    refused(&["serve", "serve.toml", "--speed", "2"], "--rehearse");
    // Nothing that was refused has left anything behind.
    refused(&["cycles", "serve.toml"], "nothing was served yet");
    refused(&["serve", "serve.toml", "--canary", "nowhere"], "nowhere");
    let mut first = centre.command(&["serve", "serve.toml"]).spawn().unwrap();
    let begun = Instant::now();
    while !centre.folder().join("state/ledger.sqlite").is_file() && begun.elapsed() < Duration::from_secs(30)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(&["serve", "serve.toml", "--once"], "another service works in");
    first.kill().unwrap();
    first.wait().unwrap();
}

/// A small disk of its own, where this process may mount one.
struct Disk(PathBuf);

impl Disk {
    fn new(folder: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(&folder).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("SKIPPED: this user may not mount a small disk");
        None
    }

    fn grow(&self, size: &str) {
        let options = format!("remount,{size}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_loses_no_cycle() {
    let quick = "retry = { attempts = 2, first = '1s', longest = '1s' }";
    let centre = Centre::new("warm", quick);
    let Some(disk) = Disk::new(centre.folder().join("out"), "size=600k") else { return };
    let published = |cycles: &[Value]| cycles.iter().filter(|cycle| cycle["state"] == "published").count();
    (10..50).for_each(|day| centre.bring_day("inbox", day));
    let is_full = |cycles: &[Value]| {
        cycles.iter().any(|cycle| cycle["reason"].as_str().is_some_and(|r| r.starts_with("the disk is full")))
    };
    centre.serve_until(&["serve", "serve.toml"], is_full);
    let fitted = published(&centre.cycles("serve.toml"));
    assert!((1..38).contains(&fitted), "{fitted}");
    // Old ones make room for new ones where that is allowed; where there is room, nothing is lost.
    disk.grow("size=8m");
    centre.serve_once("serve.toml");
    assert_eq!(published(&centre.cycles("serve.toml")), 39);
    assert_eq!(forecasts(&centre.folder().join("out/waves")).len(), 39);
    drop(disk);

    let room = format!("{quick}\nkeep = {{ at_least = 3 }}");
    centre.configure("serve.toml", "3", "warm", &room);
    let Some(_disk) = Disk::new(centre.folder().join("out3"), "size=600k") else { return };
    (10..50).for_each(|day| centre.bring_day("inbox3", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("is removed: the disk is full"), "{told}");
    assert_eq!(published(&centre.cycles("serve.toml")), 39);
    let left = forecasts(&centre.folder().join("out3/waves")).len();
    assert!((3..39).contains(&left), "{left}");
}

#[test]
fn a_page_shows_what_is_served_and_a_monitor_is_told() {
    let centre = Centre::new("warm", "levels = { latency_p99 = '1h', error_rate = 0.0 }");
    (10..13).for_each(|day| centre.bring_day("inbox", day));
    let mut service = centre
        .command(&["serve", "serve.toml", "--set", "serve.http={ enabled = true, address = '127.0.0.1:0' }"])
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(service.stderr.take().unwrap()));
    let address =
        lines.find_map(|line| line.unwrap().strip_prefix("status: http://").map(str::to_string)).unwrap();
    // Somebody has to read on, or the service would wait.
    std::thread::spawn(move || lines.for_each(drop));
    let address = address.trim_end_matches('/').to_string();
    let ask = |path: &str| -> (u16, String) {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    };
    let begun = Instant::now();
    let metrics = loop {
        let (_, text) = ask("/metrics");
        if text.contains("wxsim_cycles_total{model=\"waves\",outcome=\"published\"} 2")
            || begun.elapsed() > Duration::from_secs(60)
        {
            break text;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(metrics.contains("wxsim_latency_seconds_count{model=\"waves\"} 2"), "{metrics}");
    assert!(metrics.contains("wxsim_drift{model=\"waves\",quantity=\"msl\"}"), "{metrics}");
    assert_eq!((ask("/healthz").0, ask("/readyz").0), (200, 200));
    std::thread::sleep(Duration::from_millis(1500));
    let (status, page) = ask("/");
    assert!(status == 200 && page.contains("2001-01-13T00:00Z") && page.contains("day012.nc"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    // Nothing of where things lie, and nothing but maps of models.
    assert!(!page.contains(&*centre.folder().to_string_lossy()) && !page.contains("inbox/"), "{page}");
    let (status, picture) = ask("/map/waves.png");
    assert!(status == 200 && picture.contains("content-type: image/png"), "{picture}");
    for path in
        ["/map/other.png", "/map/..%2f..%2fstate%2fledger.sqlite", "/map/waves", "/state/ledger.sqlite"]
    {
        assert_eq!(ask(path).0, 404, "{path}");
    }
    service.kill().unwrap();
    service.wait().unwrap();
}

#[test]
fn a_better_canary_takes_the_place_of_the_model_and_a_worse_one_does_not() {
    let centre = Centre::new("cold", "canary = { of = 'waves', run = 'better', share = 1.0, block = '1d' }");
    // The model that is served has seen one epoch; this one has seen enough.
    let output =
        centre.place.train("better", &["--set", "train.rollout=[[30, 1]]", "--set", "train.patience=100"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (10..40).for_each(|day| centre.bring_day("inbox", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("waves is served by better from now on: its squared error is smaller"), "{told}");
    assert!(centre.folder().join("out/waves.canary.better/latest.nc").exists());
    // It stays so after a restart, and a canary that is judged does not come again.
    centre.bring_day("inbox", 40);
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("has been promoted"), "{told}");
    let path = centre.folder().join("out/waves/20010210T0000.nc");
    let origin = match netcdf::open(&path).unwrap().attribute("wxsim_origin").unwrap().value().unwrap() {
        netcdf::AttributeValue::Str(text) => text,
        other => panic!("{other:?}"),
    };
    assert!(origin.contains("better/"), "{origin}");

    let worse = "canary = { of = 'waves', run = 'run', share = 1.0, block = '1d' }";
    centre.configure("serve.toml", "4", "cold", worse);
    let text = std::fs::read_to_string(centre.folder().join("serve.toml")).unwrap();
    let text = text.replace("name = 'waves'\nrun = 'run'", "name = 'waves'\nrun = 'better'");
    std::fs::write(centre.folder().join("serve.toml"), text).unwrap();
    (10..40).for_each(|day| centre.bring_day("inbox4", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("run does not take the place of waves: its squared error is larger"), "{told}");
}

/// SplitMix64, so that a storm can be made again.
struct Storm(u64);

impl Storm {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Throws good and bad files at a service in a wild order, and kills it, for `days` days of analyses.
fn storm(days: std::ops::Range<usize>, seed: u64) {
    let quick = "retry = { attempts = 9, first = '1s', longest = '2s' }";
    let centre = Centre::new("warm", quick);
    let mut storm = Storm(seed);
    let mut left: Vec<usize> = days.clone().collect();
    let whole = |day: usize| std::fs::read(centre.folder().join(format!("inbox/day{day:03}.nc"))).unwrap();
    let mut service: Option<Child> = None;
    let mut kills = 0;
    while !left.is_empty() {
        let running =
            service.get_or_insert_with(|| centre.command(&["serve", "serve.toml"]).spawn().unwrap());
        // Mostly in order, sometimes not.
        let next = storm.below(3.min(left.len() as u64)) as usize;
        let next = if storm.below(4) > 0 { 0 } else { next };
        let day = left.remove(next);
        centre.bring_day("inbox", day);
        match storm.below(6) {
            0 => centre.bring("inbox", &format!("again{day}.nc"), day, |_, x| x),
            1 => centre.bring("inbox", &format!("nan{day}.nc"), day + 20, |_, _| f32::INFINITY),
            2 => {
                let bytes = whole(day);
                let length = storm.below(bytes.len() as u64) as usize;
                std::fs::write(centre.folder().join(format!("inbox/half{day}.nc")), &bytes[..length])
                    .unwrap();
            }
            3 => {
                let mut bytes = whole(day);
                for _ in 0..20 {
                    let at = storm.below(bytes.len() as u64) as usize;
                    bytes[at] = storm.below(256) as u8;
                }
                // Damage that is not seen would be another analysis: of a day that nobody else brings.
                std::fs::write(centre.folder().join(format!("inbox/zz{day}.grb")), &bytes).unwrap();
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(storm.below(400)));
        if storm.below(3) == 0 {
            running.kill().unwrap();
            running.wait().unwrap();
            (service, kills) = (None, kills + 1);
        }
    }
    if let Some(mut service) = service {
        service.kill().unwrap();
        service.wait().unwrap();
    }
    assert!(kills > 0);
    centre.serve_once("serve.toml");
    let cycles = centre.cycles("serve.toml");
    let unpublished: Vec<&Value> = cycles.iter().filter(|cycle| cycle["state"] != "published").collect();
    assert!(unpublished.is_empty(), "{unpublished:?}");
    // Every cycle has one file, and every file is whole and that of its cycle.
    let files = forecasts(&centre.folder().join("out/waves"));
    assert_eq!(files.len(), cycles.len());
    let manifest = std::fs::read(centre.folder().join("out/waves/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["forecasts"].as_array().unwrap().len(), cycles.len());
    assert_eq!(std::fs::read_dir(centre.folder().join("out/waves/.staging")).unwrap().count(), 0);

    // An undisturbed service, given the same accepted files in the same order.
    centre.configure("calm.toml", "-calm", "warm", quick);
    for file in accepted(&centre.folder().join("state/ledger.sqlite")) {
        let name = Path::new(&file).file_name().unwrap().to_owned();
        std::fs::copy(centre.folder().join(&file), centre.folder().join("inbox-calm").join(name)).unwrap();
        centre.serve_once("calm.toml");
    }
    let (stormy, calm) = (centre.published(""), centre.published("-calm"));
    assert_eq!(stormy.keys().collect::<Vec<_>>(), calm.keys().collect::<Vec<_>>());
    assert!(stormy == calm, "the numbers differ");
}

/// The files that brought something, in the order in which they were accepted.
fn accepted(ledger: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(ledger).unwrap();
    let mut query = connection.prepare("SELECT DISTINCT source, number FROM field ORDER BY number").unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn killed_and_fed_with_rubbish_it_publishes_every_good_cycle_once_with_the_same_numbers() {
    storm(20..28, 1);
}

/// `WXSIM_SOAK_MINUTES=60 cargo test --release --test serve -- --ignored soak`
#[test]
#[ignore = "for as long as WXSIM_SOAK_MINUTES says"]
fn soak() {
    let minutes = std::env::var("WXSIM_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let begun = Instant::now();
    let mut seed = 100;
    while begun.elapsed() < Duration::from_secs_f64(60.0 * minutes) {
        storm(5..40, seed);
        seed += 1;
        eprintln!("{} storms in {:.0} s", seed - 100, begun.elapsed().as_secs_f64());
    }
}
