//! `wxsim plot` on real files: pictures that decode, and refusals that say what to do.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

/// A file of the shared data; `None`, said loudly, where the folder is absent.
fn shared(path: &str) -> Option<PathBuf> {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data")).join(path);
    if !file.exists() {
        eprintln!("SKIPPED: {} is absent", file.display());
        return None;
    }
    Some(file)
}

fn plot(folder: &Path, arguments: &[&str]) -> Output {
    Command::cargo_bin("wxsim").unwrap().current_dir(folder).arg("plot").args(arguments).output().unwrap()
}

fn decoded(path: &Path) -> (png::OutputInfo, Option<u32>) {
    let mut decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path).unwrap()));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let frames = reader.info().animation_control().map(|a| a.num_frames);
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    (reader.next_frame(&mut pixels).unwrap(), frames)
}

#[test]
fn a_reanalysis_field_becomes_a_picture_named_after_it() {
    let Some(file) = shared("era-interim-europe/mslp_ei.nc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = plot(folder.path(), &[file.to_str().unwrap(), "--time", "2008-10-20T12", "--width", "300"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    let (info, _) = decoded(&folder.path().join("mslp_ei-msl-20081020T1200.png"));
    assert!(info.width > 300 && info.height > info.width);
}

#[test]
fn an_animation_has_as_many_frames_as_asked_for() {
    let Some(file) = shared("era-interim-europe/mslp_ei.nc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file.to_str().unwrap();
    let flags = [file, "--animate", "apng", "--frames", "3", "--width", "120", "--out", "a.png"];
    assert!(plot(folder.path(), &flags).status.success());
    assert_eq!(decoded(&folder.path().join("a.png")).1, Some(3));
    let flags = [file, "--animate", "gif", "--frames", "4", "--width", "120", "--out", "a.gif"];
    assert!(plot(folder.path(), &flags).status.success());
    let bytes = std::fs::read(folder.path().join("a.gif")).unwrap();
    let mut gif = gif::DecodeOptions::new().read_info(bytes.as_slice()).unwrap();
    let mut frames = 0;
    while gif.read_next_frame().unwrap().is_some() {
        frames += 1;
    }
    assert_eq!(frames, 4);
}

#[test]
fn wrong_requests_are_refused_with_what_the_file_has() {
    let Some(file) = shared("era-interim-europe/mslp_ei.nc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file.to_str().unwrap();
    for (flags, says) in [
        (vec!["--variable", "rain"], "it has msl"),
        (vec!["--time", "1990-01-01"], "the nearest is --time 2000-01-01T12:00Z"),
        (vec!["--time", "someday"], "is not a date"),
        (vec!["--lead", "24h"], "has no lead times"),
        (vec!["--range", "9:1"], "LOW:HIGH"),
        (vec!["--contours", "few"], "contour interval"),
        (vec!["--out", "map.jpg"], "name it map.png"),
        (vec!["--animate", "gif", "--out", "map.png"], "name it map.gif"),
        (vec!["--seconds", "0"], "cannot stay"),
    ] {
        let output = plot(folder.path(), &[&[file], flags.as_slice()].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(says), "{flags:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn panels_and_missing_values_of_a_global_file_are_drawn() {
    let Some(file) = shared("era5-global-1deg/era5_global_1deg_8steps.nc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let flags = [file.to_str().unwrap(), "--variable", "msl,u10", "--width", "200", "--out", "g.png"];
    let output = plot(folder.path(), &flags);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(decoded(&folder.path().join("g.png")).0.width > 400);
}
