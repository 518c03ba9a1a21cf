//! The program on GRIB2 files.

use std::path::PathBuf;

use wxsim::io::inspect_file;

use crate::messages::{Message, SMALL, grid, section, wrap};
use crate::program::{is_refused, succeeds, text};
use crate::{equal, field, northward, read, variable};

const CONFIG: &str = r#"
[data]
step = "6h"
sources = [{ glob = "data/t.*", variable = "t", level = 500 }]
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

/// Twelve days of temperature, six-hourly.
fn analyses(year: u16) -> Vec<Message> {
    (0..48_u16)
        .map(|n| {
            let wave = |i: u32| 700 + 60 * (u32::from(n) * 3 % 7) + 5 * i;
            Message {
                reference: [year, 1, 1 + n / 4, n % 4 * 6],
                stored: (0..20).map(wave).collect(),
                ..Message::temperature(0)
            }
        })
        .collect()
}

#[test]
fn a_model_is_trained_on_grib_as_on_the_netcdf_made_of_it_and_forecasts_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("data")).unwrap();
    let bytes = |year| analyses(year).iter().flat_map(Message::bytes).collect::<Vec<u8>>();
    std::fs::write(here.join("data/t.grib2"), bytes(2000)).unwrap();
    std::fs::write(here.join("now.grib2"), bytes(2001)).unwrap();
    std::fs::write(here.join("c.toml"), CONFIG).unwrap();
    succeeds(here, &["train", "c.toml"]);
    let output = succeeds(here, &["forecast", "--model", "runs/c", "--out", "f", "--init", "now.grib2"]);
    assert_eq!(text(&output.stdout).trim(), "f/20010112T1800.nc");
    let info = inspect_file(&here.join("f/20010112T1800.nc")).unwrap();
    let last = &analyses(2001)[47];
    let analysis = read(&info, "t", 0, 0);
    assert!(equal(&analysis, &field(last, &northward(&last.stored))), "the first state is the analysis");

    // Rewritten as NetCDF it holds the same, and the run learns the same.
    succeeds(here, &["prepare", "c.toml", "--all", "--out", "prepared"]);
    let pieces: Vec<PathBuf> =
        std::fs::read_dir(here.join("prepared/1-t")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(pieces.len(), 1, "{pieces:?}");
    let (grib, netcdf) =
        (inspect_file(&here.join("data/t.grib2")).unwrap(), inspect_file(&pieces[0]).unwrap());
    let (old, new) = (variable(&grib, "t"), variable(&netcdf, "t"));
    assert_eq!((&old.grid, &old.times, &old.levels), (&new.grid, &new.times, &new.levels));
    assert_eq!((&old.units, &old.quantity_name), (&new.units, &new.quantity_name));
    for time in [0, 17, 47] {
        assert!(equal(&read(&grib, "t", time, 0), &read(&netcdf, "t", time, 0)));
    }
    succeeds(here, &["train", "prepared/c.toml", "--run", "runs/again"]);
    let weights = |run: &str| {
        let best = std::fs::canonicalize(here.join(run).join("best")).unwrap();
        std::fs::read(best.join("tensors.safetensors")).unwrap()
    };
    assert!(weights("runs/c") == weights("runs/again"), "the same data give the same weights");
}

#[test]
fn inspect_describes_a_grib_file_and_refuses_what_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("t.grib2"), Message::temperature(0).bytes()).unwrap();
    let output = text(&succeeds(here, &["inspect", "t.grib2"]).stdout);
    assert!(output.contains("GRIB2,") && output.contains("t (air_temperature)"), "{output}");
    let json = text(&succeeds(here, &["inspect", "t.grib2", "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["format"], "GRIB2");
    assert_eq!(json[0]["variables"][0]["levels"][0], 500.0);
    let reduced = wrap(0, &[section(3, &grid(&SMALL))].concat());
    std::fs::write(here.join("bad.grib2"), reduced).unwrap();
    is_refused(here, &["inspect", "bad.grib2"], &["message 1 has a section 3", "behind its section 0"]);
}
