//! Imports go one way. The table is the map of the README: which room may use which, besides the vocabulary.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// In the order in which they may use each other: upward only.
const VOCABULARY: &[&str] =
    &["error", "constants", "time", "grid", "variable", "field", "climatology", "stepper"];

/// Room, and the rooms that it may use besides the vocabulary. `device` and `comm` may use of the vocabulary only `error`.
const ROOMS: &[(&str, &[&str])] = &[
    ("device", &[]),
    ("comm", &["device"]),
    ("io", &[]),
    ("preprocess", &["io", "device"]),
    ("model", &["device"]),
    ("train", &["model", "preprocess", "io", "comm", "device"]),
    ("export", &["model", "preprocess", "io", "device"]),
    ("runner", &["model", "preprocess", "export", "io", "device"]),
    ("shallow_water", &["device"]),
    ("forecast", &["preprocess", "io"]),
    ("verify", &["io", "comm"]),
    ("plan", &["model", "comm", "device"]),
    ("report", &["verify"]),
    ("serve", &["forecast", "runner", "verify", "preprocess", "io", "report"]),
];

/// The edge may use everything.
const EDGE: &[&str] = &["config", "cli", "commands", "main", "lib"];

/// Rooms, or parts of them, whose files may contain `unsafe`.
const MAY_BE_UNSAFE: &[&str] = &["device", "comm", "export/tensorrt"];

const LINES_AT_MOST: usize = 800;

fn sources() -> Vec<(String, PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let inside = path.strip_prefix(&root).unwrap().to_path_buf();
            let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
            let room = first.trim_end_matches(".rs").to_string();
            let text = fs::read_to_string(&path).unwrap();
            (room, inside, text)
        })
        .collect()
}

/// The modules that a text names as `crate::module`, comments left out.
fn uses(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for part in line.split("crate::").skip(1) {
            // `use crate::{error::Result, grid::Grid}`
            let names: Vec<&str> = match part.strip_prefix('{') {
                Some(list) => list.split(',').map(str::trim).collect(),
                None => vec![part],
            };
            for name in names {
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
                found.insert(name[..end].to_string());
            }
        }
    }
    found.remove("");
    found
}

#[test]
fn every_room_uses_only_what_the_map_allows() {
    let rooms: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    let mut broken = Vec::new();
    for (room, path, text) in sources() {
        for used in uses(&text) {
            let allowed = used == room
                || EDGE.contains(&room.as_str())
                || match VOCABULARY.iter().position(|v| *v == used) {
                    Some(place) => match VOCABULARY.iter().position(|v| *v == room) {
                        Some(own) => place < own,
                        None => used == "error" || !["device", "comm"].contains(&room.as_str()),
                    },
                    None => rooms.get(room.as_str()).is_some_and(|may| may.contains(&used.as_str())),
                };
            if !allowed {
                broken.push(format!("{} uses crate::{used}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "edges that the map does not allow:\n{}", broken.join("\n"));
}

#[test]
fn every_module_has_a_place_in_the_map() {
    let rooms: BTreeSet<&str> = ROOMS
        .iter()
        .map(|(room, _)| *room)
        .chain(VOCABULARY.iter().copied())
        .chain(EDGE.iter().copied())
        .collect();
    for (room, path, _) in sources() {
        assert!(rooms.contains(room.as_str()), "{} belongs to no room", path.display());
    }
}

#[test]
fn the_readme_maps_every_room() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    for (room, _) in ROOMS {
        assert!(readme.contains(&format!("`{room}/`")), "README.md does not say what {room}/ is for");
    }
}

#[test]
fn unsafe_stays_in_its_rooms_and_says_why_it_is_safe() {
    for (_, path, text) in sources() {
        let may = MAY_BE_UNSAFE.iter().any(|room| path.starts_with(room));
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let is_unsafe =
                code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
            assert!(!is_unsafe || may, "{}:{}: unsafe outside its rooms", path.display(), number + 1);
        }
        if text.contains("unsafe {") {
            assert!(text.contains("SAFETY"), "{}: unsafe without a SAFETY line", path.display());
        }
    }
}

#[test]
fn constants_of_nature_are_written_once() {
    for (_, path, text) in sources() {
        if path == Path::new("constants.rs") {
            continue;
        }
        let code: String = text.split("#[cfg(test)]").next().unwrap_or("").to_string();
        for (number, line) in code.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for constant in ["9.80", "9.81", "273.15", "6.371", "6371"] {
                assert!(
                    !code.contains(constant),
                    "{}:{}: {constant} belongs in constants.rs",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for (_, path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES_AT_MOST, "{} has {lines} lines", path.display());
    }
}
