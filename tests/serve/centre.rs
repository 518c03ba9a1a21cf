//! An operations centre: a trained network, files of single days to serve, and a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::waves::Place;

/// These tests write files outside of the lock under which the library reads: one at a time.
static FILES: Mutex<()> = Mutex::new(());

/// Of the data.
const DAYS: usize = 100;

/// A trained network, files of single days to serve, and a configuration.
pub struct Centre {
    _files: MutexGuard<'static, ()>,
    pub place: Place,
}

impl Centre {
    pub fn new(start: &str, more: &str) -> Self {
        let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::new();
        let output = place.train("run", &["--set", "train.rollout=[[1, 1]]"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let centre = Self { _files: files, place };
        centre.configure("serve.toml", "", start, more);
        centre
    }

    pub fn folder(&self) -> &Path {
        self.place.folder.path()
    }

    /// A service whose folders end with `suffix`.
    pub fn configure(&self, name: &str, suffix: &str, start: &str, more: &str) {
        std::fs::create_dir_all(self.folder().join(format!("inbox{suffix}"))).unwrap();
        let text = format!(
            "[serve]\nout = 'out{suffix}'\nstate = 'state{suffix}'\ninbox = {{ folder = 'inbox{suffix}', poll = '1s' }}\n\
             devices = {{ names = ['cpu'] }}\nhttp = {{ enabled = false }}\n{more}\n\
             [[serve.models]]\nname = 'waves'\nrun = 'run'\nlead = '3d'\nstart = '{start}'\n"
        );
        std::fs::write(self.folder().join(name), text).unwrap();
    }

    /// The analysis of a day of the data, which begin anew when they end, changed, put into an inbox under a name.
    pub fn bring(&self, inbox: &str, name: &str, day: usize, change: impl Fn(usize, f32) -> f32) {
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
                let field: Vec<f32> =
                    source.variable(variable).unwrap().get_values((day % DAYS, .., ..)).unwrap();
                let field: Vec<f32> = field.iter().enumerate().map(|(i, x)| change(i, *x)).collect();
                let mut out = file.add_variable::<f32>(variable, &["time", "latitude", "longitude"]).unwrap();
                out.put_attribute("units", units).unwrap();
                out.put_values(&field, ..).unwrap();
            }
        }
        std::fs::rename(&hidden, self.folder().join(inbox).join(name)).unwrap();
    }

    pub fn bring_day(&self, inbox: &str, day: usize) {
        self.bring(inbox, &format!("day{day:03}.nc"), day, |_, x| x);
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wxsim"));
        command.current_dir(self.folder()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    #[track_caller]
    pub fn serve_once(&self, config: &str) -> String {
        let output = self.run(&["serve", config, "--once"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        told
    }

    /// Serves until `is_done` says so of its cycles, then asks it to stop.
    pub fn serve_until(&self, arguments: &[&str], is_done: impl Fn(&[Value]) -> bool) -> String {
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
    pub fn cycles(&self, config: &str) -> Vec<Value> {
        let output = self.run(&["cycles", config, "--json", "--last", "1000"]);
        let mut cycles: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        cycles.reverse();
        cycles
    }

    /// The data of every published forecast, by the name of its file and of the variable.
    pub fn published(&self, suffix: &str) -> BTreeMap<(String, String), Vec<u32>> {
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

pub fn forecasts(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "nc") && !path.is_symlink());
    paths.sort();
    paths
}

pub fn states(cycles: &[Value]) -> Vec<(String, String)> {
    let word = |cycle: &Value, key: &str| cycle[key].as_str().unwrap_or_default().to_string();
    cycles.iter().map(|cycle| (word(cycle, "init")[..10].to_string(), word(cycle, "state"))).collect()
}
