//! `wxsim inspect` as a program: exit codes, what goes where, and the warning about awkward chunks.

use std::path::Path;

use assert_cmd::Command;

/// Steps, rows and columns: two hundred steps of 64 kB, so that inflating all of them for one takes 50 ms.
const SHAPE: [usize; 3] = [200, 181, 181];

fn write(path: &Path, chunk: [usize; 3]) {
    let mut file = netcdf::create(path).unwrap();
    let axes = [
        ("time", "hours since 2000-01-01", 6.0),
        ("lat", "degrees_north", 0.25),
        ("lon", "degrees_east", 0.25),
    ];
    for ((name, units, spacing), length) in axes.into_iter().zip(SHAPE) {
        file.add_dimension(name, length).unwrap();
        let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
        axis.put_attribute("units", units).unwrap();
        axis.put_values(&(0..length).map(|i| spacing * i as f64).collect::<Vec<f64>>(), ..).unwrap();
    }
    let mut field = file.add_variable::<i16>("t2m", &["time", "lat", "lon"]).unwrap();
    field.set_chunking(&chunk).unwrap();
    field.set_compression(1, true).unwrap();
    field.put_attribute("units", "K").unwrap();
    field.put_attribute("scale_factor", 0.01).unwrap();
    field.put_attribute("add_offset", 273.15).unwrap();
    let stored: Vec<i16> = (0..SHAPE.iter().product()).map(|i| (i % 181) as i16).collect();
    field.put_values(&stored, ..).unwrap();
    file.close().unwrap();
}

fn wxsim(arguments: &[&str], folder: &Path) -> (i32, String, String) {
    let mut command = Command::cargo_bin("wxsim").unwrap();
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_good_file_is_described_on_stdout_and_nothing_is_said_on_stderr() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("good.nc"), [1, 181, 181]);
    let (code, page, errors) = wxsim(&["inspect", "good.nc"], folder.path());
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(page.contains("t2m (air_temperature)") && page.contains("200 of 6h"), "{page}");
    assert!(!page.contains("prepare"), "{page}");
    let (code, json, _) = wxsim(&["inspect", "good.nc", "--json"], folder.path());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json[0]["variables"][0]["name"].as_str()), (0, Some("t2m")));
}

#[test]
fn files_that_cannot_be_used_end_with_2_and_a_remedy_and_the_others_are_still_described() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text.nc"), "not a NetCDF file").unwrap();
    std::fs::write(folder.path().join("damaged.nc"), b"\x89HDF\r\n\x1a\n and nothing more").unwrap();
    for name in ["text.nc", "damaged.nc", "absent.nc"] {
        let (code, page, errors) = wxsim(&["inspect", name], folder.path());
        assert_eq!((code, page.as_str()), (2, ""), "{errors}");
        assert!(errors.contains(name) && !errors.contains("HDF5-DIAG"), "{errors}");
    }
    write(&folder.path().join("good.nc"), [1, 181, 181]);
    let (code, page, errors) = wxsim(&["inspect", "text.nc", "damaged.nc", "good.nc"], folder.path());
    assert_eq!(code, 2);
    assert!(page.contains("t2m (air_temperature)") && page.contains("damaged.nc"), "{page}");
    assert!(errors.contains("2 of 3 files cannot be used"), "{errors}");
    assert_eq!(wxsim(&["inspect"], folder.path()).0, 2);
}

#[test]
fn chunks_that_make_one_step_expensive_are_pointed_out_by_inspect_and_by_train() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("awkward.nc"), [200, 91, 91]);
    let (code, page, _) = wxsim(&["inspect", "awkward.nc"], folder.path());
    assert_eq!(code, 0);
    assert!(page.contains("in chunks of 200 x 91 x 91") && page.contains("wxsim prepare"), "{page}");

    // Without a validation span the training ends as soon as it has looked at the files.
    let config = "[data]\nstep = \"6h\"\nsources = [{ glob = \"awkward.nc\", variable = \"t2m\" }]\n\
                  split.train = [\"2000-01-01\", \"2000-02-01\"]\n";
    std::fs::write(folder.path().join("my.toml"), config).unwrap();
    let (_, _, errors) = wxsim(&["train", "my.toml"], folder.path());
    assert!(errors.contains("awkward.nc: 't2m' is stored in chunks"), "{errors}");
    assert!(errors.contains("wxsim prepare my.toml --out prepared/my"), "{errors}");
}

#[test]
fn a_file_whose_lock_a_child_process_still_holds_is_read() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("locked.nc"), [1, 181, 181]);
    // What a child process that was started while this file was being written does to it.
    let held = std::fs::File::open(folder.path().join("locked.nc")).unwrap();
    held.lock().unwrap();
    let mut command = Command::cargo_bin("wxsim").unwrap();
    command.args(["inspect", "locked.nc"]).current_dir(folder.path()).env_remove("HDF5_USE_FILE_LOCKING");
    command.assert().success();
}
