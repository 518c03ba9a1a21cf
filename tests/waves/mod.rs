//! A small data set and the real program on it.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use wxsim::io::checkpoint;

/// Two variables on 4 x 6 points over 100 days: waves that move east, with a little noise.
pub fn write_data(folder: &Path) {
    let mut file = netcdf::create(folder.join("waves.nc")).unwrap();
    for (name, length) in [("time", 100), ("latitude", 4), ("longitude", 6)] {
        file.add_dimension(name, length).unwrap();
    }
    let mut coordinate = |name: &str, units: &str, values: Vec<f64>| {
        let mut variable = file.add_variable::<f64>(name, &[name]).unwrap();
        variable.put_attribute("units", units).unwrap();
        variable.put_values(&values, ..).unwrap();
    };
    coordinate("time", "days since 2001-01-01", (0..100).map(f64::from).collect());
    coordinate("latitude", "degrees_north", vec![40.0, 45.0, 50.0, 55.0]);
    coordinate("longitude", "degrees_east", (0..6).map(|i| f64::from(i) * 5.0).collect());
    for (name, units, mean, deviation) in [("msl", "Pa", 101_000.0, 900.0), ("t2m", "K", 280.0, 6.0)] {
        let mut noise = 1_u64;
        let values: Vec<f32> = (0..100 * 4 * 6)
            .map(|index| {
                let (day, row, column) = (index / 24, index / 6 % 4, index % 6);
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let phase = f64::from(day) * 0.7 - f64::from(column) + f64::from(row) * 0.3;
                let random = (noise >> 40) as f64 / (1_u64 << 24) as f64 - 0.5;
                (mean + deviation * (phase.sin() + 0.3 * random)) as f32
            })
            .collect();
        let mut variable = file.add_variable::<f32>(name, &["time", "latitude", "longitude"]).unwrap();
        variable.put_attribute("units", units).unwrap();
        variable.put_values(&values, ..).unwrap();
    }
}

/// Everything that has a state is switched on: dropout, scheduled sampling, a curriculum, accumulation, averaging.
pub const CONFIG: &str = r#"
    [data]
    step = "1d"
    sources = [{ glob = "waves.nc", variable = "msl" }, { glob = "waves.nc", variable = "t2m" }]
    split.train = ["2001-01-01", "2001-03-22"]
    split.validation = ["2001-03-22", "2001-04-11"]
    [input]
    anomalies = false
    statics = ["cos_latitude"]
    forcings = ["day_of_year"]
    [model]
    hidden = [4]
    kernel = 3
    dropout = 0.2
    [train]
    rollout = [[3, 1], [5, 2]]
    batch = 4
    accumulate = 2
    warm_up = 5
    ema_decay = 0.9
    sampling = { start = 0.8, end = 0.2, epochs = 6 }
    patience = 4
    save_every = 2
"#;

pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_data(folder.path());
        std::fs::write(folder.path().join("waves.toml"), CONFIG).unwrap();
        Self { folder }
    }

    pub fn run(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, run: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wxsim"));
        command.current_dir(self.folder.path()).args(["train", "waves.toml", "--run", run]).args(more);
        if !more.contains(&"--threads") {
            command.args(["--threads", "1"]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn train(&self, run: &str, more: &[&str]) -> Output {
        self.command(run, more).output().unwrap()
    }

    /// Starts the training, or goes on with it where it has a folder.
    pub fn start_or_resume(&self, run: &str) -> Child {
        self.start_or_resume_on(run, "1")
    }

    pub fn start_or_resume_on(&self, run: &str, threads: &str) -> Child {
        let resume: &[&str] = if self.run(run).exists() { &["--resume"] } else { &[] };
        self.command(run, &[resume, &["--threads", threads]].concat()).spawn().unwrap()
    }

    pub fn metrics(&self, run: &str) -> String {
        std::fs::read_to_string(self.run(run).join("metrics.jsonl")).unwrap_or_default()
    }

    /// The curve without what the clock says.
    pub fn curve(&self, run: &str) -> Vec<Value> {
        let lines = self.metrics(run);
        let without_clock = |line: &str| {
            let mut value: Value = serde_json::from_str(line).unwrap();
            let object = value.as_object_mut().unwrap();
            assert!(object.remove("time").is_some() && object.remove("samples_per_second").is_some());
            object.remove("input");
            value
        };
        lines.lines().map(without_clock).collect()
    }

    /// Curve, weights and best equal bit for bit.
    pub fn assert_same(&self, run: &str, other: &str) {
        assert_eq!(self.curve(run), self.curve(other));
        let last = |run: &str| {
            let (step, path) = checkpoint::steps(&self.run(run).join("checkpoints")).unwrap().pop().unwrap();
            (step, checkpoint::load(&path).unwrap().tensors)
        };
        assert!(last(run) == last(other), "the last checkpoints differ");
        let best = |run: &str| std::fs::read_link(self.run(run).join("best")).unwrap();
        assert_eq!(best(run), best(other));
    }
}
