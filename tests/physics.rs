//! `wxsim physics`, and the physics among the baselines of `wxsim verify`, on real data.

mod program;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use program::{is_refused, succeeds, text};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A folder with a configuration for the blizzard of January 1996, which is in the repository. A box without missing
/// corners; three fields that are missing are interpolated.
fn storm() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        r#"
        [data]
        root = "{ROOT}/data"
        step = "6h"
        missing = "interpolate"
        sources = [
            {{ glob = "storm1996.nc", variable = "msl" }},
            {{ glob = "storm1996.nc", variable = "t2m" }},
            {{ glob = "storm1996.nc", variable = "u", level = 500 }},
            {{ glob = "storm1996.nc", variable = "v", level = 500 }},
        ]
        grid = {{ south = 20, north = 60, west = -122.5, east = -70 }}
        split.train = ["1996-01-05", "1996-01-05T12"]
        split.test = ["1996-01-05T12", "1996-01-21"]

        [forecast]
        lead = "2d"

        [verify]
        regions = [{{ name = "inner", south = 30, north = 50, west = -112.5, east = -80 }}]
        "#
    );
    std::fs::write(folder.path().join("storm.toml"), config).unwrap();
    folder
}

/// The same for two years and a half of daily weather over Europe, on the coarser of the two grids.
fn europe() -> Option<TempDir> {
    let data = Path::new(ROOT).join("../shared/data/era-interim-europe-2.5deg");
    if !data.is_dir() {
        eprintln!("SKIPPED: no real data at {}", data.display());
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        r#"
        [data]
        root = "{}"
        step = "1d"
        sources = [
            {{ glob = "mslp_ei.nc", variable = "msl" }},
            {{ glob = "t850_ei.nc", variable = "t", level = 850 }},
            {{ glob = "z500_ei.nc", variable = "z", level = 500 }},
        ]
        split.train = ["2000-01-01", "2002-01-01"]
        split.test = ["2002-01-01", "2002-07-01"]

        [forecast]
        lead = "2d"

        [physics]
        calibration_starts = 200

        [verify]
        bootstrap = {{ resamples = 100 }}
        "#,
        data.display()
    );
    std::fs::write(folder.path().join("europe.toml"), config).unwrap();
    Some(folder)
}

struct Scores(Value);

impl Scores {
    fn of(folder: &Path, arguments: &[&str]) -> (Self, String) {
        let output = succeeds(folder, &[arguments, &["--json"]].concat());
        (Self(serde_json::from_slice(&output.stdout).unwrap()), text(&output.stderr))
    }

    fn competitors(&self) -> Vec<&str> {
        self.0["competitors"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
    }

    /// The value of a weighted score; `None` where its place is empty. Panics where there is no place.
    #[track_caller]
    fn value(&self, competitor: &str, quantity: &str, metric: &str, hours: f64, region: &str) -> Option<f64> {
        let entries = self.0["entries"].as_array().unwrap();
        let found = entries.iter().find(|e| {
            e["competitor"] == competitor
                && e["quantity"] == quantity
                && e["metric"] == metric
                && e["lead_hours"] == hours
                && e["region"] == region
                && e["weighted"] == true
        });
        found.unwrap_or_else(|| panic!("no {metric} of {competitor}, {quantity} at {hours} h"))["value"]
            .as_f64()
    }

    fn notes(&self) -> String {
        self.0["notes"].to_string()
    }
}

#[test]
fn published_cases_print_their_figures_and_leave_a_file_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let steady = ["physics", "--case", "williamson2", "--rows", "32", "--angle", "45"];
    let output = succeeds(here, &steady);
    let table = text(&output.stdout);
    assert!(
        table.starts_with("williamson2: steady flow around a tilted axis, axis tilted by 45 degrees"),
        "{table}"
    );
    let row = |name: &str| -> Vec<f64> {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().skip(1).take(3).map(|x| x.parse().unwrap()).collect()
    };
    for (found, known) in row("5").iter().zip(row("known")) {
        // The same scheme; only the filter beside the poles is made in another way.
        assert!((found / known - 1.0).abs() < 0.05, "{table}");
    }

    let wave = ["physics", "--case", "williamson6", "--rows", "16", "--lead", "1d", "--out", "out", "--json"];
    let output =
        succeeds(here, &[&wave[..], &["--set", "physics.shallow_water.scheme=semi_implicit"]].concat());
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Half a percent of 8000 m at 16 rows.
    assert!(outcome["figures"][0]["heights"][0].as_f64().unwrap() < 200.0, "{outcome}");
    assert!(outcome["figures"][0]["drift"][0].as_f64().unwrap().abs() < 1e-12, "{outcome}");
    let written: Vec<&str> =
        outcome["written"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert_eq!(written, ["out/20000101T0000.nc", "out/williamson6.png"]);
    let inspected = text(&succeeds(here, &["inspect", written[0]]).stdout);
    assert!(inspected.contains("2 of 1d") && inspected.contains("u (eastward_wind)"), "{inspected}");
    assert!(std::fs::read(here.join(written[1])).unwrap().starts_with(b"\x89PNG"));

    for case in ["williamson1", "williamson5", "galewsky", "rossby-haurwitz"] {
        let table =
            text(&succeeds(here, &["physics", "--case", case, "--rows", "16", "--lead", "1d"]).stdout);
        assert!(table.starts_with(&format!("{case}: ")) && table.contains("\n     1 "), "{table}");
    }
}

#[test]
fn ranks_share_a_layer_of_the_globe_and_find_what_one_device_finds() {
    let folder = tempfile::tempdir().unwrap();
    let figures = |scheme: &str, more: &[&str]| {
        let case =
            ["physics", "--case", "williamson5", "--rows", "16", "--lead", "1d", "--json", "--set", scheme];
        let output = succeeds(folder.path(), &[&case[..], more].concat());
        serde_json::from_str::<Value>(&text(&output.stdout)).unwrap()
    };
    for scheme in ["rk4", "semi_implicit"] {
        let scheme = format!("physics.shallow_water.scheme=\"{scheme}\"");
        // Bands of an even number of rows: the same bits.
        assert_eq!(figures(&scheme, &["--ranks", "2"]), figures(&scheme, &["--device", "cpu"]));
    }
    let refused = |arguments: &[&str], parts: &[&str]| {
        is_refused(folder.path(), &[&["physics", "--case"], arguments].concat(), parts);
    };
    refused(
        &["galewsky", "--rows", "8", "--ranks", "5"],
        &["8 rows cannot be shared by 5 devices", "2 are the most"],
    );
    refused(&["williamson1", "--ranks", "2"], &["nothing is shared", "--ranks 2"]);
    // A step that is too long ends all of them, with the reason of the one that saw it.
    let broken =
        ["physics", "--case", "williamson6", "--rows", "32", "--set", "physics.time_step=2h", "--ranks", "3"];
    let output = program::wxsim(folder.path(), &broken);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("would have been stable") && !error.contains("waited"), "{error}");
}

#[test]
fn what_cannot_be_started_is_refused_with_what_to_do() {
    let folder = storm();
    let here = folder.path();
    let refused =
        |arguments: &[&str], says: &[&str]| is_refused(here, &[&["physics"], arguments].concat(), says);
    refused(&["--out", "f"], &["there is nothing to start from", "--case"]);
    refused(&["storm.toml"], &["it is not said where the files go", "--out"]);
    refused(&["storm.toml", "--out", "f", "--lead", "7h"], &["7h is not a whole number of steps of 6h"]);
    refused(&["storm.toml", "--out", "f", "--set", "physics.modl=x"], &["the nearest is 'model'"]);
    refused(&["storm.toml", "--out", "f", "--set", "physics.level=850"], &["physics.level"]);
    let advection = ["--set", "physics.model=advection", "--set", "physics.boundary=driven"];
    refused(&[&["storm.toml", "--out", "f"], &advection[..]].concat(), &["no boundary that could be driven"]);
    refused(&["--case", "williamson5", "--angle", "10"], &["cannot be tilted"]);
    refused(&["--case", "williamson3"], &["williamson2"]);
    refused(&["--angle", "10", "--out", "f"], &["--case"]);
    refused(&["storm.toml", "--case", "galewsky"], &["cannot be used with"]);
    let whole = format!("{ROOT}/data/storm1996.nc");
    refused(
        &["--init", &whole, "--out", "f"],
        &["has no value at 20 N", "data.grid = { south = 20, north = 60, west = 237.5, east = 290 }"],
    );
    assert!(!here.join("f").exists(), "a refused forecast leaves a folder behind");
    // Too long a step ends the run, and says what would have been stable.
    let long = ["physics", "--case", "williamson6", "--rows", "32", "--set", "physics.time_step=2h"];
    let output = program::wxsim(here, &long);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("would have been stable"), "{}", text(&output.stderr));
}

#[test]
fn a_storm_is_forecast_into_a_whole_file_of_what_the_physics_forecasts() {
    let folder = storm();
    let here = folder.path();
    let arguments = ["physics", "storm.toml", "--init-time", "1996-01-07", "--lead", "1d", "--out", "f"];
    let output = succeeds(here, &[&arguments[..], &["--json"]].concat());
    assert_eq!(text(&output.stdout).trim(), r#"["f/19960107T0000.nc"]"#);
    assert!(text(&output.stderr).contains("barotropic model at 500 hPa"), "{}", text(&output.stderr));
    let inspected = text(&succeeds(here, &["inspect", "f/19960107T0000.nc"]).stdout);
    assert!(inspected.contains("5 of 6h") && inspected.contains("t2m"), "{inspected}");
    assert!(!inspected.contains("msl"), "what is not forecast has no place in the file: {inspected}");
    let files: Vec<PathBuf> =
        std::fs::read_dir(here.join("f")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    // Files of the physics are verified like any other, with or beside forecasts of more quantities.
    let verify = ["verify", "storm.toml", "f/19960107T0000.nc", "--baseline", "persistence"];
    let (scores, _) = Scores::of(here, &verify);
    assert!(scores.value("forecast", "wind500", "vector_rmse", 24.0, "all").is_some());
}

#[test]
fn physics_beats_persistence_through_two_days_of_the_blizzard_by_as_much_as_is_known() {
    let folder = storm();
    let verify = ["verify", "storm.toml", "--baseline", "persistence,physics"];
    let (scores, stderr) = Scores::of(folder.path(), &verify);
    assert_eq!(scores.competitors(), ["physics", "persistence"], "the physics is what is judged");
    assert!(stderr.contains("do not cover the year") && stderr.contains("no calibrated physics"), "{stderr}");
    // Persistence by ten lines of NumPy from the same starts, and what an independent program measured of physics and
    // persistence from two starts more and from one with an interpolated wind [m/s].
    for (hours, persistence, known) in [
        (12.0, 14.592495, [8.48, 14.29]),
        (24.0, 20.347869, [12.56, 19.85]),
        (48.0, 22.937587, [18.65, 22.62]),
    ] {
        let of = |name| scores.value(name, "wind500", "vector_rmse", hours, "inner").unwrap();
        println!("{hours} h: {:.2} {:.2}", of("physics"), of("persistence"));
        assert!((of("persistence") / persistence - 1.0).abs() < 1e-6, "{hours} h: {}", of("persistence"));
        let [ours, theirs] = [of("physics") / of("persistence"), known[0] / known[1]];
        assert!((ours / theirs - 1.0).abs() < 0.02, "{hours} h: {ours} for {theirs}");
    }
    assert_eq!(scores.value("physics", "msl", "rmse", 24.0, "all"), None);
    assert!(scores.notes().contains("physics does not forecast msl"), "{}", scores.notes());
}

#[test]
fn physics_raw_and_calibrated_stands_in_every_score_of_europe() {
    let Some(folder) = europe() else { return };
    let here = folder.path();
    // The physics as a baseline, of forecasts that were made by itself.
    let forecast = ["physics", "europe.toml", "--init-time", "2002-01-01..2002-03-01", "--out", "f"];
    succeeds(here, &forecast);
    let mut files: Vec<String> = std::fs::read_dir(here.join("f"))
        .unwrap()
        .map(|file| format!("f/{}", file.unwrap().file_name().into_string().unwrap()))
        .collect();
    files.sort();
    let mut verify =
        vec!["verify", "europe.toml", "--baseline", "climatology,damped,physics", "--report", "r"];
    verify.extend(files.iter().map(String::as_str));
    let (scores, _) = Scores::of(here, &verify);
    let names = ["forecast", "climatology", "damped persistence", "physics", "calibrated physics"];
    assert_eq!(scores.competitors(), names);
    for hours in [24.0, 48.0] {
        let of = |name| scores.value(name, "z500", "rmse", hours, "all").unwrap();
        // Files hold float32, as the states do.
        assert!((of("forecast") / of("physics") - 1.0).abs() < 1e-5, "{} {}", of("forecast"), of("physics"));
        assert!(of("calibrated physics") < of("physics"));
    }
    let page = std::fs::read_to_string(here.join("r/report.html")).unwrap();
    assert!(page.contains("calibrated physics") && page.contains("two coefficients per variable and lead"));

    // Over more starts than that the calibrated form beats damped persistence.
    let judged = ["verify", "europe.toml", "--baseline", "damped,physics"];
    let (scores, stderr) = Scores::of(here, &judged);
    assert!(stderr.contains("from 200 of 730 training dates"), "{stderr}");
    assert_eq!(scores.competitors(), ["physics", "calibrated physics", "damped persistence"]);
    for quantity in ["z500", "t850"] {
        let of = |name| scores.value(name, quantity, "rmse", 24.0, "all").unwrap();
        println!("{quantity}: {:.4} {:.4}", of("calibrated physics"), of("damped persistence"));
        assert!(of("calibrated physics") < 0.97 * of("damped persistence"), "{quantity}");
    }
    assert_eq!(scores.value("calibrated physics", "msl", "rmse", 24.0, "all"), None);

    // A hindcast is called one in every table, and is much better than a forecast could be.
    let driven = [&judged[..], &["--set", "physics.boundary=driven"]].concat();
    let (told, stderr) = Scores::of(here, &driven);
    assert!(stderr.contains("no forecast could have known"), "{stderr}");
    assert_eq!(told.competitors()[0], "driven physics (hindcast)");
    let [told, untold] = [
        told.value("driven physics (hindcast)", "z500", "rmse", 24.0, "all").unwrap(),
        scores.value("physics", "z500", "rmse", 24.0, "all").unwrap(),
    ];
    assert!(told < 0.6 * untold, "{told} {untold}");
    // No gate takes the one for the other, and what cannot be had is refused where it was asked for.
    let gate =
        "verify.gates=[{ quantity = 'z500', lead = '1d', baseline = 'physics', skill_at_least = 0.0 }]";
    let verify =
        ["verify", "europe.toml", "--baseline", "physics", "--set", "physics.boundary=driven", "--set", gate];
    let output = program::wxsim(here, &verify);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let only_msl = ["verify", "europe.toml", "--baseline", "physics", "--set", "data.quantities=['msl']"];
    is_refused(here, &only_msl, &["the physics can forecast nothing of msl"]);
}

#[test]
fn a_nature_run_does_not_overlook_a_month_that_is_gone_nor_a_changed_restart() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let run = ["physics", "--nature-run", "--years", "1", "--model-rows", "16", "--out", "planet"];
    succeeds(here, &run);
    let (month, restart) = (here.join("planet/2001-03.nc"), here.join("planet/restart.json"));
    let kept = std::fs::read(&month).unwrap();
    std::fs::write(&month, "no longer NetCDF").unwrap();
    is_refused(here, &run, &["2001-03.nc was written before and is gone or damaged", "put it back"]);
    std::fs::write(&month, kept).unwrap();
    succeeds(here, &run);
    let standing = std::fs::read_to_string(&restart).unwrap();
    std::fs::write(&restart, standing.replace("\"months\":12", "\"months\":11")).unwrap();
    is_refused(here, &run, &["restart.json was changed: 11 months do not end after"]);
}
