//! A full disk.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::centre::{Centre, forecasts};

/// A small disk of its own, where this process may mount one.
pub struct Disk(PathBuf);

impl Disk {
    pub fn new(folder: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(&folder).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("SKIPPED: this user may not mount a small disk");
        None
    }

    pub fn grow(&self, size: &str) {
        let options = format!("remount,{size}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_loses_no_cycle() {
    let quick = "retry = { attempts = 2, first = '1s', longest = '1s' }";
    let centre = Centre::new("warm", quick);
    let Some(disk) = Disk::new(centre.folder().join("out"), "size=600k") else { return };
    let published = |cycles: &[Value]| cycles.iter().filter(|cycle| cycle["state"] == "published").count();
    (10..50).for_each(|day| centre.bring_day("inbox", day));
    let is_full = |cycles: &[Value]| {
        cycles.iter().any(|cycle| cycle["reason"].as_str().is_some_and(|r| r.starts_with("the disk is full")))
    };
    centre.serve_until(&["serve", "serve.toml"], is_full);
    let fitted = published(&centre.cycles("serve.toml"));
    assert!((1..38).contains(&fitted), "{fitted}");
    // Old ones make room for new ones where that is allowed; where there is room, nothing is lost.
    disk.grow("size=8m");
    centre.serve_once("serve.toml");
    assert_eq!(published(&centre.cycles("serve.toml")), 39);
    assert_eq!(forecasts(&centre.folder().join("out/waves")).len(), 39);
    drop(disk);

    let room = format!("{quick}\nkeep = {{ at_least = 3 }}");
    centre.configure("serve.toml", "3", "warm", &room);
    let Some(_disk) = Disk::new(centre.folder().join("out3"), "size=600k") else { return };
    (10..50).for_each(|day| centre.bring_day("inbox3", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("is removed: the disk is full"), "{told}");
    assert_eq!(published(&centre.cycles("serve.toml")), 39);
    let left = forecasts(&centre.folder().join("out3/waves")).len();
    assert!((3..39).contains(&left), "{left}");
}
