//! `wxsim prepare`: killed, continued, and the same numbers in the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wxsim::io::{FileInfo, Reader, inspect_file};

const STEPS: usize = 120;
const ROWS: usize = 90;
const COLUMNS: usize = 180;

/// Packed numbers in chunks of (100, 10, 10), some of them missing.
fn write_awkward(path: &Path) {
    let mut file = netcdf::create(path).unwrap();
    file.add_unlimited_dimension("time").unwrap();
    file.add_dimension("lat", ROWS).unwrap();
    file.add_dimension("lon", COLUMNS).unwrap();
    file.add_attribute("title", "an awkward archive").unwrap();
    let mut time = file.add_variable::<i32>("time", &["time"]).unwrap();
    time.put_attribute("units", "hours since 1990-01-01 00:00:00").unwrap();
    time.put_values(&(0..STEPS as i32).map(|n| 6 * n).collect::<Vec<i32>>(), 0..STEPS).unwrap();
    let mut latitude = file.add_variable::<f32>("lat", &["lat"]).unwrap();
    latitude.put_attribute("units", "degrees_north").unwrap();
    latitude.put_values(&(0..ROWS).map(|n| 89.0 - 2.0 * n as f32).collect::<Vec<f32>>(), ..).unwrap();
    let mut longitude = file.add_variable::<f32>("lon", &["lon"]).unwrap();
    longitude.put_attribute("units", "degrees_east").unwrap();
    longitude.put_values(&(0..COLUMNS).map(|n| 2.0 * n as f32).collect::<Vec<f32>>(), ..).unwrap();
    let mut field = file.add_variable::<i16>("t2m", &["time", "lat", "lon"]).unwrap();
    field.set_chunking(&[100, 10, 10]).unwrap();
    field.set_compression(1, true).unwrap();
    field.set_fill_value(-32_767_i16).unwrap();
    field.put_attribute("units", "K").unwrap();
    field.put_attribute("scale_factor", 0.01_f64).unwrap();
    field.put_attribute("add_offset", 273.15_f64).unwrap();
    let stored: Vec<i16> = (0..STEPS * ROWS * COLUMNS)
        .map(|n| if n % 1013 == 0 { -32_767 } else { ((n * 7919) % 5000) as i16 - 2500 })
        .collect();
    field.put_values(&stored, (0..STEPS, .., ..)).unwrap();
    file.close().unwrap();
}

fn command(config: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wxsim"));
    command.arg("prepare").arg(config).arg("--out").arg(out).args(["--all", "--memory", "1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn pieces(out: &Path) -> Vec<PathBuf> {
    let pattern = out.join("1-t2m/*.nc");
    let mut paths: Vec<PathBuf> =
        glob::glob(pattern.to_str().unwrap()).unwrap().map(|p| p.unwrap()).collect();
    paths.sort();
    paths
}

fn fields(info: &FileInfo) -> Vec<u32> {
    let variable = info.variable("t2m").unwrap();
    let mut values = vec![0.0; variable.times.len() * variable.grid.points()];
    Reader::open(info).unwrap().read_many(variable, 0, 0..variable.times.len(), &mut values).unwrap();
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn a_killed_run_goes_on_and_gives_the_original_numbers_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("awkward.nc");
    write_awkward(&source);
    let config = folder.path().join("europe.toml");
    let sources = format!("[[data.sources]]\nglob = \"{}\"\nvariable = \"t2m\"\n", source.display());
    std::fs::write(&config, sources).unwrap();
    let out = folder.path().join("prepared");

    let mut killed = command(&config, &out).spawn().unwrap();
    let start = Instant::now();
    while pieces(&out).is_empty() && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let first = pieces(&out)[0].clone();
    let written = std::fs::metadata(&first).unwrap().modified().unwrap();

    let finished = command(&config, &out).output().unwrap();
    assert!(finished.status.success());
    assert_eq!(std::fs::metadata(&first).unwrap().modified().unwrap(), written, "a whole piece is kept");
    let leftovers = std::fs::read_dir(out.join("1-t2m"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part"));
    assert_eq!(leftovers.count(), 0);

    let original = inspect_file(&source).unwrap();
    let rewritten: Vec<FileInfo> = pieces(&out).iter().map(|path| inspect_file(path).unwrap()).collect();
    assert!(rewritten.len() > 3, "{} pieces", rewritten.len());
    let expected = original.variable("t2m").unwrap();
    for info in &rewritten {
        let variable = info.variable("t2m").unwrap();
        assert_eq!(variable.chunks, Some(vec![1, ROWS, COLUMNS]));
        assert_eq!(variable.packing, expected.packing);
        assert_eq!(variable.grid, expected.grid);
    }
    let times: Vec<_> = rewritten.iter().flat_map(|info| info.variables[0].times.clone()).collect();
    assert_eq!(times, expected.times);
    assert!(rewritten.iter().flat_map(fields).collect::<Vec<u32>>() == fields(&original), "all values");

    // The configuration that was written reads the new files.
    let printed = String::from_utf8(finished.stdout).unwrap();
    let text = std::fs::read_to_string(printed.trim()).unwrap();
    assert!(text.contains("1-t2m/*.nc"), "{text}");

    std::fs::write(&source, b"changed").unwrap();
    assert!(!command(&config, &out).output().unwrap().status.success(), "other files are not mixed in");
}
