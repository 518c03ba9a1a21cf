//! Good and bad files in a wild order, a disk that is full, and a service that is killed again and again.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::centre::{Centre, forecasts};
use crate::clock::FalseClock;
use crate::disk::Disk;
use crate::steady::steady;
use crate::zarr::{read, stores};

/// SplitMix64, so that a storm can be made again.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A storm over a centre.
struct Storm<'a> {
    centre: &'a Centre,
    /// Of its folders.
    suffix: String,
    dice: Dice,
    clock: Option<FalseClock>,
    kills: usize,
}

const QUICK: &str =
    "zarr = true\nkeep = { analyses = '60d' }\nretry = { attempts = 9, first = '1s', longest = '2s' }";

impl<'a> Storm<'a> {
    fn new(centre: &'a Centre, seed: u64) -> Self {
        let suffix = format!("-{seed}");
        centre.configure(&format!("storm{suffix}.toml"), &suffix, "warm", QUICK);
        let clock = FalseClock::new(centre.folder().join(format!("clock{suffix}")));
        Self { centre, suffix, dice: Dice(seed), clock, kills: 0 }
    }

    fn config(&self) -> String {
        format!("storm{}.toml", self.suffix)
    }

    fn inbox(&self) -> String {
        format!("inbox{}", self.suffix)
    }

    fn start(&self) -> Child {
        let mut command = self.centre.command(&["serve", &self.config()]);
        // Nobody reads what it says, and it must not wait for that.
        command.stderr(std::process::Stdio::null());
        self.clock.iter().for_each(|clock| clock.wear(&mut command));
        command.spawn().unwrap()
    }

    fn kill(&mut self, mut service: Child) {
        service.kill().unwrap();
        service.wait().unwrap();
        self.kills += 1;
    }

    /// Something that no service should be given.
    fn rubbish(&mut self, day: usize) {
        let (centre, inbox) = (self.centre, self.inbox());
        let path = |name: &str| centre.folder().join(&inbox).join(format!("{name}{day}.nc"));
        let mut whole = std::fs::read(centre.folder().join(format!("{inbox}/day{day:03}.nc"))).unwrap();
        match self.dice.below(8) {
            0 => centre.bring(&inbox, &format!("again{day}.nc"), day, |_, x| x),
            1 => centre.bring(&inbox, &format!("nan{day}.nc"), day + 20, |_, _| f32::INFINITY),
            2 => {
                whole.truncate(self.dice.below(whole.len() as u64) as usize);
                std::fs::write(path("half"), &whole).unwrap();
            }
            3 => {
                for _ in 0..20 {
                    let at = self.dice.below(whole.len() as u64) as usize;
                    whole[at] = self.dice.below(256) as u8;
                }
                // Damage that is not seen would be another analysis: of a day that nobody else brings.
                std::fs::write(path("zz").with_extension("grb"), &whole).unwrap();
            }
            4 => crash(centre, &inbox, &format!("crash{day}.nc")),
            5 => grid(&path("grid")),
            _ => {}
        }
    }

    /// Throws good and bad files at a service, and kills it.
    fn rage(&mut self, days: std::ops::Range<usize>) {
        let mut left: Vec<usize> = days.collect();
        let mut service: Option<Child> = None;
        while !left.is_empty() {
            let running = service.take().unwrap_or_else(|| self.start());
            // Mostly in order, sometimes not.
            let next = self.dice.below(3.min(left.len() as u64)) as usize;
            let next = if self.dice.below(4) > 0 { 0 } else { next };
            let day = left.remove(next);
            self.centre.bring_day(&self.inbox(), day);
            self.rubbish(day);
            if self.dice.below(4) == 0 {
                let offset = self.dice.below(400_000) as i64 - 200_000;
                self.clock.iter().for_each(|clock| clock.set(offset));
            }
            std::thread::sleep(Duration::from_millis(self.dice.below(400)));
            if self.dice.below(3) == 0 { self.kill(running) } else { service = Some(running) }
        }
        if let Some(service) = service {
            self.kill(service);
        }
    }

    /// Every good cycle is published once, whole, with the numbers of an undisturbed service that was given the same
    /// accepted files in the same order.
    fn judge(&self) {
        let (centre, suffix) = (self.centre, &self.suffix);
        centre.serve_once(&self.config());
        let cycles = centre.cycles(&self.config());
        let lost: Vec<&Value> = cycles.iter().filter(|cycle| cycle["state"] != "published").collect();
        assert!(lost.is_empty(), "{lost:?}");
        let out = centre.folder().join(format!("out{suffix}/waves"));
        assert_eq!(forecasts(&out).len(), cycles.len());
        let manifest = std::fs::read(out.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["forecasts"].as_array().unwrap().len(), cycles.len());
        assert_eq!(std::fs::read_dir(out.join(".staging")).unwrap().count(), 0);
        // As many stores, all whole, with the numbers of the files.
        assert_eq!(stores(&out).len(), 2 * cycles.len());
        let lists = stores(&out).into_iter().filter(|name| name.ends_with(".sha256"));
        let mut check = Command::new("sha256sum");
        let check = check.args(["--check", "--quiet"]).args(lists).current_dir(&out).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
        for ((file, variable), bits) in centre.published(suffix) {
            assert!(read(&out.join(file.replace(".nc", ".zarr")), &variable) == bits, "{file} {variable}");
        }

        let calm = format!("{suffix}-calm");
        centre.configure("calm.toml", &calm, "warm", QUICK);
        for file in accepted(&centre.folder().join(format!("state{suffix}/ledger.sqlite"))) {
            let name = Path::new(&file).file_name().unwrap().to_owned();
            let to = centre.folder().join(format!("inbox{calm}")).join(name);
            std::fs::copy(centre.folder().join(&file), to).unwrap();
            centre.serve_once("calm.toml");
        }
        let (stormy, calm) = (centre.published(suffix), centre.published(&calm));
        assert_eq!(stormy.keys().collect::<Vec<_>>(), calm.keys().collect::<Vec<_>>());
        assert!(stormy == calm, "the numbers differ");
    }
}

/// A file of many days without values: it takes long to be decoded, and has nothing to give, whether its process is
/// killed or not.
fn crash(centre: &Centre, inbox: &str, name: &str) {
    let hidden = centre.folder().join(inbox).join(format!(".{name}"));
    {
        let mut file = netcdf::create(&hidden).unwrap();
        for (dimension, units, values) in [
            ("time", "days since 1901-01-01", (0..1000).map(f64::from).collect::<Vec<f64>>()),
            ("latitude", "degrees_north", vec![40.0, 45.0, 50.0, 55.0]),
            ("longitude", "degrees_east", (0..6).map(|i| f64::from(i) * 5.0).collect()),
        ] {
            file.add_dimension(dimension, values.len()).unwrap();
            let mut variable = file.add_variable::<f64>(dimension, &[dimension]).unwrap();
            variable.put_attribute("units", units).unwrap();
            variable.put_values(&values, ..).unwrap();
        }
        let mut out = file.add_variable::<f32>("msl", &["time", "latitude", "longitude"]).unwrap();
        out.put_attribute("units", "Pa").unwrap();
        out.put_values(&vec![f32::NAN; 24_000], ..).unwrap();
    }
    std::fs::rename(&hidden, centre.folder().join(inbox).join(name)).unwrap();
}

/// A good file that lies on another grid.
fn grid(path: &Path) {
    let hidden = path.with_file_name(".grid.nc");
    {
        let mut file = netcdf::create(&hidden).unwrap();
        for (dimension, units, values) in [
            ("time", "days since 2001-01-01", vec![50.0]),
            ("latitude", "degrees_north", vec![10.0, 20.0, 30.0]),
            ("longitude", "degrees_east", vec![0.0, 10.0, 20.0]),
        ] {
            file.add_dimension(dimension, values.len()).unwrap();
            let mut variable = file.add_variable::<f64>(dimension, &[dimension]).unwrap();
            variable.put_attribute("units", units).unwrap();
            variable.put_values(&values, ..).unwrap();
        }
        let mut out = file.add_variable::<f32>("msl", &["time", "latitude", "longitude"]).unwrap();
        out.put_attribute("units", "Pa").unwrap();
        out.put_values(&[101_000.0_f32; 9], ..).unwrap();
    }
    std::fs::rename(&hidden, path).unwrap();
}

/// Sends processes that decode `crash*.nc` the signal that a library does that crashes, until it is told to end; how many.
fn crash_decoders(end: &AtomicBool) -> usize {
    let mut killed = 0;
    while !end.load(Ordering::SeqCst) {
        for entry in std::fs::read_dir("/proc").unwrap().map_while(Result::ok) {
            let Ok(words) = std::fs::read(entry.path().join("cmdline")) else { continue };
            let words = String::from_utf8_lossy(&words).into_owned();
            if words.contains("decode-analysis") && words.contains("/crash") {
                let process = entry.file_name().to_string_lossy().into_owned();
                killed += usize::from(
                    Command::new("kill").args(["-SEGV", &process]).output().unwrap().status.success(),
                );
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    killed
}

/// With a decoder that crashes on some files.
fn with_crashes<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let crashing = scope.spawn(|| crash_decoders(&end));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        end.store(true, Ordering::SeqCst);
        let killed = crashing.join().unwrap();
        (result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), killed)
    })
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
    let centre = Centre::new("warm", "");
    let mut storm = Storm::new(&centre, 1);
    let ((), _) = with_crashes(|| storm.rage(20..28));
    assert!(storm.kills > 0);
    storm.judge();
}

#[test]
fn a_decoder_that_crashes_takes_nothing_with_it() {
    let centre = Centre::new("warm", "");
    crash(&centre, "inbox", "crash0.nc");
    (10..12).for_each(|day| centre.bring_day("inbox", day));
    let (told, killed) = with_crashes(|| centre.serve_once("serve.toml"));
    assert!(
        killed > 0 && told.contains("crash0.nc is rejected: waves: decoding crashed (signal: 11"),
        "{told}"
    );
    assert_eq!(centre.published("").len(), 2, "{told}");
}

/// `WXSIM_SOAK_MINUTES=60 cargo test --test serve -- --ignored --nocapture soak`
#[test]
#[ignore = "for as long as WXSIM_SOAK_MINUTES says"]
fn soak() {
    let minutes = std::env::var("WXSIM_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let long = Duration::from_secs_f64(60.0 * minutes);
    let centre = Centre::new("warm", "");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        // One service goes on all the time, others are killed beside it.
        let steady = scope.spawn(|| steady(&centre, long, 60));
        let (mut storms, mut kills, mut crashes) = (0, 0, 0);
        while begun.elapsed() < long && !steady.is_finished() {
            let mut storm = Storm::new(&centre, 100 + storms);
            // Every other one on a disk that is soon full, and larger at the end.
            let out = centre.folder().join(format!("out{}", storm.suffix));
            let disk = if storms % 2 == 1 { Disk::new(out, "size=2m") } else { None };
            crashes += with_crashes(|| storm.rage(5..40)).1;
            disk.iter().for_each(|disk| disk.grow("size=64m"));
            storm.judge();
            (storms, kills) = (storms + 1, kills + storm.kills);
            println!(
                "{storms} storms, {kills} kills, {crashes} crashes in {:.0} s",
                begun.elapsed().as_secs_f64()
            );
        }
        steady.join().unwrap();
    });
}
