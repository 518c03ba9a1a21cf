//! Forecasts that are published as Zarr stores, too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use zarrs::array::Array;
use zarrs::filesystem::FilesystemStore;

use crate::centre::Centre;

const STORES: &str = "zarr = true\nkeep = { cycles = 2 }";

/// Stores and their lists, by name.
pub fn stores(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| name.contains(".zarr") && name != "latest.zarr").collect();
    names.sort();
    names
}

/// The numbers of a variable.
pub fn read(store: &Path, name: &str) -> Vec<u32> {
    let storage = Arc::new(FilesystemStore::new(store).unwrap());
    let array = Array::open(storage, &format!("/{name}")).unwrap();
    let values: Vec<f32> = array.retrieve_array_subset(&array.subset_all()).unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap()
}

#[test]
fn a_store_comes_and_goes_with_its_file_and_holds_the_same_numbers() {
    let centre = Centre::new("warm", STORES);
    (10..14).for_each(|day| centre.bring_day("inbox", day));
    centre.serve_once("serve.toml");
    let out = centre.folder().join("out/waves");
    let kept = ["20010113T0000.zarr", "20010114T0000.zarr"];
    assert_eq!(stores(&out), kept.map(|name| [name.to_string(), format!("{name}.sha256")]).concat());
    assert_eq!(std::fs::read_link(out.join("latest.zarr")).unwrap(), Path::new(kept[1]));
    for ((file, variable), bits) in centre.published("") {
        let store = out.join(file.replace(".nc", ".zarr"));
        assert!(read(&store, &variable) == bits, "{file} {variable}");
    }
    // Whoever copies a store can see whether it is whole.
    let check = Command::new("sha256sum")
        .args(["--check", "--quiet"])
        .args(kept.map(|name| format!("{name}.sha256")))
        .current_dir(&out)
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    let entry = manifest(&out)["forecasts"][0]["zarr"].take();
    assert_eq!(entry["store"], kept[1]);
    let sum = Command::new("sha256sum").arg(out.join(entry["checksums"].as_str().unwrap())).output().unwrap();
    assert!(String::from_utf8_lossy(&sum.stdout).starts_with(entry["sha256"].as_str().unwrap()));
    assert_eq!(std::fs::read_dir(out.join(".staging")).unwrap().count(), 0);
}

#[test]
fn a_store_made_again_replaces_ones_own_and_never_that_of_somebody_else() {
    let centre = Centre::new("warm", STORES);
    (10..13).for_each(|day| centre.bring_day("inbox", day));
    centre.serve_once("serve.toml");
    let store: PathBuf = centre.folder().join("out/waves/20010113T0000.zarr");
    let bits = read(&store, "msl");
    let again = |more: &[&str]| {
        let output = centre.run(&["cycles", "rerun", "serve.toml", "waves", "2001-01-13"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = centre.run(&[&["serve", "serve.toml", "--once"], more].concat());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = again(&[]);
    assert!(told.contains("is published as") && read(&store, "msl") == bits, "{told}");
    // Half of it, as somebody might leave it.
    std::fs::remove_dir_all(store.join("msl")).unwrap();
    let told = again(&["--set", "serve.retry={ attempts = 1 }"]);
    assert!(told.contains("20010113T0000.zarr is there, and was not written by this service"), "{told}");
    assert!(!store.join("msl").exists());
    // Without it, the cycle is made as if nothing had been.
    std::fs::remove_dir_all(&store).unwrap();
    let told = again(&[]);
    assert!(told.contains("is published as") && read(&store, "msl") == bits, "{told}");
}
