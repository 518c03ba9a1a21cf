//! The program as a user meets it.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::CommandCargoExt;

pub fn wxsim(folder: &Path, arguments: &[&str]) -> Output {
    Command::cargo_bin("wxsim").unwrap().current_dir(folder).args(arguments).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub fn succeeds(folder: &Path, arguments: &[&str]) -> Output {
    let output = wxsim(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

/// Exit code 2, nothing on stdout, and every one of `says` on stderr.
#[track_caller]
pub fn is_refused(folder: &Path, arguments: &[&str], says: &[&str]) {
    let output = wxsim(folder, arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    for part in says {
        assert!(stderr.contains(part), "{arguments:?} does not say '{part}': {stderr}");
    }
}
