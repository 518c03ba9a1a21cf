//! The program as a user meets it: exit codes, and what stands on stderr when something is wrong.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong input or usage, 3 a quality gate failed.

mod program;

use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::CommandCargoExt;
use tempfile::TempDir;
use wxsim::config::{Config, Overrides};

use program::{is_refused, succeeds, text, wxsim};

const CONFIG: &str = r#"
[data]
step = "6h"
sources = [{ glob = "t2m.nc", variable = "t2m" }]
split.train = ["2000-01-01", "2000-01-07"]
split.validation = ["2000-01-07", "2000-01-09"]
split.test = ["2000-01-09", "2000-01-13"]

[input]
anomalies = false

[model]
hidden = [4]
kernel = 3

[train]
batch = 4
rollout = [[1, 1]]

[forecast]
lead = "12h"
"#;

const ROWS: usize = 6;

/// Twelve days of a six-hourly field of 6 rows.
fn write_field(path: &Path, units: &str, columns: usize) {
    write_field_since(path, units, columns, "2000-01-01", |_| 1.0);
}

/// From another day on; `factor` falsifies the fields by their number.
fn write_field_since(path: &Path, units: &str, columns: usize, day: &str, factor: impl Fn(usize) -> f32) {
    let since = format!("hours since {day}");
    let times = 48;
    let mut file = netcdf::create_with(path, netcdf::Options::_64BIT_OFFSET).unwrap();
    for (name, length) in [("time", times), ("latitude", ROWS), ("longitude", columns)] {
        file.add_dimension(name, length).unwrap();
    }
    for (name, unit) in
        [("time", since.as_str()), ("latitude", "degrees_north"), ("longitude", "degrees_east")]
    {
        file.add_variable::<f64>(name, &[name]).unwrap().put_attribute("units", unit).unwrap();
    }
    let mut field = file.add_variable::<f32>("t2m", &["time", "latitude", "longitude"]).unwrap();
    field.put_attribute("units", units).unwrap();
    file.enddef().unwrap();
    let mut put = |name: &str, values: Vec<f64>| {
        file.variable_mut(name).unwrap().put_values(&values, ..).unwrap();
    };
    put("time", (0..times).map(|k| 6.0 * k as f64).collect());
    put("latitude", (0..ROWS).map(|j| 40.0 + j as f64).collect());
    put("longitude", (0..columns).map(|i| 10.0 + i as f64).collect());
    let points = ROWS * columns;
    let wave = |i: usize| {
        factor(i / points) * (280.0 + 5.0 * ((i / points) as f32 * 2.2).sin() + (i % points) as f32 * 0.1)
    };
    let values: Vec<f32> = (0..times * points).map(wave).collect();
    file.variable_mut("t2m").unwrap().put_values(&values, ..).unwrap();
}

/// A folder with a good file, and files that are wrong in one way each.
fn workplace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_field(&at("t2m.nc"), "K", 8);
    write_field(&at("wind.nc"), "m s-1", 8);
    write_field(&at("wide.nc"), "K", 10);
    let whole = std::fs::read(at("t2m.nc")).unwrap();
    std::fs::write(at("cut.nc"), &whole[..3000]).unwrap();
    std::fs::write(at("c.toml"), CONFIG).unwrap();
    folder
}

fn train_with(folder: &Path, from: &str, to: &str) -> String {
    let changed = CONFIG.replace(from, to);
    assert_ne!(changed, CONFIG);
    std::fs::write(folder.join("changed.toml"), changed).unwrap();
    let output = wxsim(folder, &["train", "changed.toml"]);
    assert_eq!(output.status.code(), Some(2));
    text(&output.stderr)
}

#[test]
fn training_on_files_that_do_not_fit_is_refused_with_the_reason() {
    let folder = workplace();
    for (from, to, says) in [
        (r#"variable = "t2m""#, r#"variable = "q""#, "there is no variable 'q', only t2m"),
        ("t2m.nc", "wind.nc", "unit 'm s-1' does not fit 2 metre temperature, which is in K"),
        ("t2m.nc", "gone.nc", "no file matches 'gone.nc'"),
        ("t2m.nc", "cut.nc", "cut.nc: variable 't2m' is cut off: expected a file of at least"),
        ("2000-01-13", "2000-02-31", "split.test"),
        (r#"step = "6h""#, r#"step = "7h""#, "7h"),
    ] {
        let stderr = train_with(folder.path(), from, to);
        assert!(stderr.contains(says), "{to} does not say '{says}': {stderr}");
    }
}

#[test]
fn inspect_refuses_missing_truncated_and_unusable_files() {
    let folder = workplace();
    is_refused(folder.path(), &["inspect", "gone.nc"], &["gone.nc: there is no such file"]);
    is_refused(folder.path(), &["inspect", "cut.nc"], &["is cut off", "hint: the file is truncated"]);
    // What is wrong with this one stands on the page itself.
    let output = wxsim(folder.path(), &["inspect", "wind.nc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("does not fit"), "{}", text(&output.stdout));
}

#[test]
fn settings_that_do_not_exist_or_do_not_fit_are_named() {
    let folder = workplace();
    let train = |setting: &str, says: &[&str]| {
        is_refused(folder.path(), &["train", "c.toml", "--set", setting], says);
    };
    train("train.bach=3", &["there is no setting 'train.bach'", "the nearest is 'batch'"]);
    train("train.batch=many", &["train.batch: ", "many"]);
    train("train.batch=0", &["train.batch must be at least 1"]);
    train("train.batch", &["'train.batch' is not a setting", "--set train.batch=8"]);
    let stderr = train_with(folder.path(), "kernel = 3", "kernal = 3");
    assert!(stderr.contains("there is no setting 'model.kernal'"), "{stderr}");
    assert!(stderr.contains("the nearest is 'kernel'"), "{stderr}");
    is_refused(folder.path(), &["train", "gone.toml"], &["gone.toml cannot be read"]);
    train("verify.bootstrap.resamples=0", &["verify.bootstrap"]);
    train("forecast.lead=7h", &["forecast.lead", "7h is not a whole number of steps of 6h"]);
    train("data.step=0h", &["data.step: 0h is no time between two states"]);
    let levelled = r#"data.sources=[{ glob = "t2m.nc", variable = "t2m", level = 500 }]"#;
    train(levelled, &["'t2m' is 2 metre temperature, which lies on no pressure level"]);
    assert!(!folder.path().join("runs").exists(), "a refused training leaves a run behind");
}

#[test]
fn a_training_that_was_refused_is_started_again_with_other_settings() {
    let folder = workplace();
    let here = folder.path();
    for setting in ["model.kernel=4", "model.kernel=999999999", "model.hidden=[99999999999999]"] {
        is_refused(here, &["train", "c.toml", "--set", setting], &["[model]"]);
        assert!(!here.join("runs/c/config.toml").exists(), "{setting} left a run");
    }
    // Found only when the windows are counted.
    is_refused(here, &["train", "c.toml", "--set", "train.batch=1000"], &["a batch needs 1000"]);
    succeeds(here, &["train", "c.toml"]);
}

#[test]
fn one_field_in_another_unit_is_refused_with_its_date() {
    let folder = workplace();
    let odd = folder.path().join("odd.nc");
    write_field_since(&odd, "K", 8, "2000-01-01", |time| if time == 5 { 0.01 } else { 1.0 });
    let stderr = train_with(folder.path(), "t2m.nc", "odd.nc");
    assert!(stderr.contains("2000-01-02T06:00Z: the mean of t2m is 2.7"), "{stderr}");
}

#[test]
fn new_analyses_outside_the_spans_of_training_start_forecasts() {
    let folder = workplace();
    let here = folder.path();
    write_field_since(&here.join("new.nc"), "K", 8, "2001-05-01", |_| 1.0);
    write_field_since(&here.join("test.nc"), "K", 8, "2000-01-09", |_| 1.0);
    succeeds(here, &["train", "c.toml"]);
    let forecast = ["forecast", "--model", "runs/c", "--out", "f", "--init"];
    let output = succeeds(here, &[&forecast[..], &["new.nc"]].concat());
    assert_eq!(text(&output.stdout).trim(), "f/20010512T1800.nc");
    succeeds(here, &[&forecast[..], &["test.nc", "--init-time", "2000-01-10"]].concat());
    let far = [&forecast[..], &["new.nc", "--lead", "99999999999d"]].concat();
    is_refused(here, &far, &["the most are"]);
}

#[test]
fn a_full_disk_fails_with_a_sentence_and_leaves_no_file() {
    let folder = workplace();
    let here = folder.path();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let wxsim = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("wxsim").unwrap();
        command.current_dir(here).args(arguments);
        command
    };
    let output = wxsim(&["inspect", "t2m.nc"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).starts_with("error: cannot write to standard output"));

    succeeds(here, &["train", "c.toml"]);
    // The library cannot close a file that it could not write; its cleaning at the end must not crash on it.
    let program = wxsim(&[]).get_program().to_owned();
    for blocks in ["8", "20"] {
        let output = Command::new("sh")
            .current_dir(here)
            .args(["-c", "ulimit -f $1; trap '' XFSZ; exec \"$0\" forecast --model runs/c --out f"])
            .arg(&program)
            .arg(blocks)
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{blocks}: {stderr}");
        assert!(stderr.contains("cannot write f/") && stderr.contains("disk is full"), "{stderr}");
        assert_eq!(std::fs::read_dir(here.join("f")).unwrap().count(), 0);
    }
}

#[test]
fn a_run_is_trained_once_forecasts_from_fitting_analyses_and_is_scored() {
    let folder = workplace();
    let here = folder.path();
    let output = succeeds(here, &["train", "c.toml"]);
    assert_eq!(text(&output.stdout), "", "progress belongs on stderr");
    assert!(text(&output.stderr).contains("[data]"), "the resolved configuration is shown");
    is_refused(here, &["train", "c.toml"], &["runs/c already holds a run", "--resume"]);
    is_refused(here, &["train", "c.toml", "--resume", "--set", "train.batch=2"], &["[train] is not the one"]);
    succeeds(here, &["train", "c.toml", "--resume"]);

    let forecast = |more: &[&str], says: &[&str]| {
        let arguments = [&["forecast", "--model", "runs/c", "--out", "f"], more].concat();
        is_refused(here, &arguments, says);
    };
    forecast(&["--init", "wide.nc"], &["works on the grid 6 x 8", "6 x 10"]);
    forecast(&["--init-time", "2001-01-10"], &["no forecast can start at 2001-01-10T00:00Z", "nearest"]);
    forecast(&["--lead", "7h"], &["7h is not a whole number of steps of 6h"]);
    is_refused(here, &["forecast", "--model", "runs/d", "--out", "f"], &["runs/d is not a run"]);
    assert!(!here.join("f").exists(), "a refused forecast leaves a folder behind");

    let output =
        succeeds(here, &["forecast", "--model", "runs/c", "--init-time", "2000-01-10", "--out", "f"]);
    let file = "f/20000110T0000.nc";
    assert_eq!(text(&output.stdout).trim(), file);
    is_refused(here, &["verify", file], &["there is nothing to compare the forecasts with", "--truth"]);
    let damped = ["verify", file, "--truth", "t2m.nc", "--baseline", "damped"];
    is_refused(here, &damped, &["has to be fitted on training data"]);
    let output = succeeds(here, &["verify", file, "--truth", "t2m.nc", "--report", "r"]);
    assert!(text(&output.stdout).contains("persistence"));
    for name in ["report.html", "scores.json", "scores.csv"] {
        assert!(here.join("r").join(name).is_file(), "{name}");
    }
}

#[test]
fn a_training_span_too_short_for_a_climatology_leaves_out_what_needs_one() {
    let folder = workplace();
    let here = folder.path();
    succeeds(here, &["train", "c.toml"]);
    let verify = ["verify", "--model", "runs/c", "--lead", "12h"];
    let output = succeeds(here, &verify);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stderr.contains("do not cover the year") && stderr.contains("left out: climatology"), "{stderr}");
    assert!(stdout.contains("persistence") && stdout.contains("no anomaly correlation"), "{stdout}");
    // 16 dates from the 9th on; the last one has no later analysis inside the span.
    assert!(
        stdout.contains(" 15 initial times") && stderr.contains("15 initial times in"),
        "{stdout}{stderr}"
    );
    succeeds(here, &[&verify[..], &["--baseline", "persistence"]].concat());
    let asked = [&verify[..], &["--baseline", "persistence,damped"]].concat();
    is_refused(here, &asked, &["damped persistence has to be fitted", "do not cover the year"]);
}

#[test]
fn a_lead_beyond_the_forecasts_and_forecasts_without_truth_are_named() {
    let folder = workplace();
    let here = folder.path();
    succeeds(here, &["train", "c.toml"]);
    let forecast = ["forecast", "--model", "runs/c", "--out", "f", "--init-time"];
    succeeds(here, &[&forecast[..], &["2000-01-09..2000-01-13"]].concat());
    let mut files: Vec<String> = std::fs::read_dir(here.join("f"))
        .unwrap()
        .map(|file| format!("f/{}", file.unwrap().file_name().into_string().unwrap()))
        .collect();
    files.sort();
    let verify = |files: &[String], more: &[&str]| -> Vec<String> {
        let first = ["verify", "c.toml"].map(String::from).to_vec();
        [first, files.to_vec(), more.iter().map(|m| m.to_string()).collect()].concat()
    };
    let refused = |arguments: Vec<String>, says: &str| {
        is_refused(here, &arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[says]);
    };
    refused(verify(&files, &["--lead", "1d"]), "--lead 1d lies beyond the forecasts, which end at 12h");
    refused(verify(&files[15..], &[]), "none of 1 forecasts has an analysis to be held against");
    let arguments = verify(&files, &[]);
    let output = succeeds(here, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(text(&output.stderr).contains("1 of 16 forecasts have no analysis"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(" 15 initial times"), "{}", text(&output.stdout));
    // A network beside files that end earlier: only common leads count, and that is said.
    let mut both = verify(&files, &["--model", "runs/c", "--lead", "18h"]);
    both.remove(1);
    let output = succeeds(here, &both.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(text(&output.stderr).contains("forecasts of forecast end at 12h"), "{}", text(&output.stderr));
}

#[test]
fn verify_without_forecasts_and_plot_of_an_unknown_variable_say_what_there_is() {
    let folder = workplace();
    is_refused(folder.path(), &["verify", "c.toml"], &["there is nothing to verify", "name forecast files"]);
    is_refused(folder.path(), &["plot", "t2m.nc", "-v", "q"], &["t2m.nc has no variable 'q'", "it has t2m"]);
}

#[test]
fn usage_errors_are_told_from_failures() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["forekast"][..], &["train"], &["train", "a.toml", "--threads", "0"], &["config"]] {
        assert_eq!(wxsim(folder.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert!(text(&succeeds(folder.path(), &["--version"]).stdout).starts_with("wxsim "));
}

#[test]
fn the_printed_defaults_are_a_valid_configuration_of_the_same_settings() {
    let folder = tempfile::tempdir().unwrap();
    let printed = text(&succeeds(folder.path(), &["config", "--defaults"]).stdout);
    let config = Config::from_text(&printed, &Overrides::default()).unwrap();
    assert_eq!(config, Config::default());
    std::fs::write(folder.path().join("defaults.toml"), &printed).unwrap();
    assert_eq!(text(&succeeds(folder.path(), &["config", "defaults.toml"]).stdout), printed);
}

#[test]
fn completions_and_man_pages_are_made_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&succeeds(folder.path(), &["completions", shell]).stdout);
        assert!(script.contains("forecast") && script.contains("inspect"), "{shell}");
    }
    succeeds(folder.path(), &["man", "pages"]);
    for name in ["wxsim.1", "wxsim-train.1", "wxsim-forecast.1", "wxsim-verify.1", "wxsim-inspect.1"] {
        let page = std::fs::read_to_string(folder.path().join("pages").join(name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
}

#[test]
fn a_reader_that_stops_reading_ends_inspect_quietly() {
    let folder = workplace();
    let mut child = Command::cargo_bin("wxsim")
        .unwrap()
        .current_dir(folder.path())
        .args(["inspect", "t2m.nc", "wide.nc"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before anything is written, as by `| head -0`.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "", "no word about a broken pipe, and no panic");
    assert_ne!(output.status.code(), Some(101));
}
