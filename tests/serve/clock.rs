//! A clock that is set forward and back under a running service, by libfaketime: the world's clock is not ours to set.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::centre::{Centre, states};
use crate::page::Watched;

/// The library. Its absence is a failure where WXSIM_REQUIRE_FAKETIME says that it must be there.
fn library() -> Option<PathBuf> {
    let usual = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    let path = std::env::var_os("WXSIM_FAKETIME").map_or_else(|| usual.into(), PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    assert!(std::env::var_os("WXSIM_REQUIRE_FAKETIME").is_none(), "{} is absent", path.display());
    println!("SKIPPED: {} is absent: no clock is set", path.display());
    None
}

/// A clock for programs that are started with it.
pub struct FalseClock {
    library: PathBuf,
    offset: PathBuf,
}

impl FalseClock {
    /// What it shows is written into a file.
    pub fn new(offset: PathBuf) -> Option<Self> {
        let clock = Self { library: library()?, offset };
        clock.set(0);
        Some(clock)
    }

    /// So many seconds ahead of the world's from now on.
    pub fn set(&self, offset: i64) {
        let new = self.offset.with_extension("new");
        std::fs::write(&new, format!("{offset:+}\n")).unwrap();
        std::fs::rename(&new, &self.offset).unwrap();
    }

    /// So that it shows a date now.
    fn show(&self, date: &str) {
        let then: i64 = chrono::DateTime::parse_from_rfc3339(date).unwrap().timestamp();
        self.set(then - chrono::Utc::now().timestamp());
    }

    pub fn wear(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", &self.offset);
        // Only the clock on the wall: time that goes by, and the times of files, are what they are.
        command
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1");
    }
}

impl Drop for FalseClock {
    /// Removes what the library leaves behind of programs that were killed.
    fn drop(&mut self) {
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().map_while(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of = ["faketime_shm_", "sem.faketime_sem_"].iter().find_map(|start| name.strip_prefix(start));
            if of.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

#[test]
fn a_clock_that_is_set_forward_and_back_loses_no_cycle_and_makes_none_twice() {
    let times =
        "schedule = { cycles = ['00'], cutoff = '12h', wait = '13h', late = 'skip', catch_up = '3d' }";
    let centre = Centre::new("cold", times);
    let Some(clock) = FalseClock::new(centre.folder().join("clock")) else { return };
    clock.show("2001-02-11T00:10:00Z");
    (40..42).for_each(|day| centre.bring_day("inbox", day));
    let service = Watched::start(&centre, &["serve.toml"], |command| clock.wear(command));
    let wait = |what: &str, is_so: &dyn Fn(&[Value]) -> bool| {
        let begun = Instant::now();
        while !is_so(&centre.cycles("serve.toml")) {
            let so_far = centre.cycles("serve.toml");
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {so_far:?}\n{}", service.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let published = |count: usize| {
        move |cycles: &[Value]| cycles.iter().filter(|cycle| cycle["state"] == "published").count() == count
    };
    wait("the first", &published(1));
    // Two days ahead, where two cycles are given up in vain, and back again.
    clock.show("2001-02-13T20:00:00Z");
    wait("given up", &|cycles| cycles.iter().filter(|cycle| cycle["state"] == "missing").count() == 2);
    clock.show("2001-02-12T00:10:00Z");
    wait("taken back", &|cycles| cycles.len() == 2 && cycles.iter().all(|cycle| cycle["state"] != "missing"));
    centre.bring_day("inbox", 42);
    wait("the second", &published(2));
    // A day back, while the next day comes.
    clock.show("2001-02-11T06:00:00Z");
    centre.bring_day("inbox", 43);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(service.ask("/readyz").0, 200);
    assert_eq!(centre.cycles("serve.toml").len(), 2);
    clock.show("2001-02-13T00:10:00Z");
    wait("the third", &published(3));
    let all = ["11", "12", "13"].map(|day| (format!("2001-02-{day}"), "published".to_string()));
    assert_eq!(states(&centre.cycles("serve.toml")), all);
    assert_eq!(service.log().matches("is published as").count(), 3, "{}", service.log());
}
