//! What an operations centre copies is valid by its own validator, where this machine has it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/ops").join(name)
}

/// `None` where the validator is not there.
fn validate(program: &str, arguments: &[&str], name: &str) -> Option<()> {
    let output = match Command::new(program).args(arguments).arg(file(name)).output() {
        Ok(output) => output,
        Err(_) => {
            eprintln!("SKIPPED: there is no {program} to check {name}");
            return None;
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    // The unit names a program that is not installed here.
    let told: Vec<&str> = told.lines().filter(|line| !line.contains("is not executable")).collect();
    assert!(told.is_empty(), "{name}: {told:?}");
    Some(())
}

#[test]
fn the_unit_of_systemd_is_valid() {
    validate("systemd-analyze", &["verify", "--man=no"], "wxsim-serve.service");
}

#[test]
fn the_batch_scripts_are_shell() {
    for name in ["slurm.sh", "serve-slurm.sh"] {
        validate("bash", &["-n"], name);
    }
}

#[test]
fn the_manifests_are_yaml_of_kinds_that_there_are() {
    let script = "import sys, yaml\nfor d in yaml.safe_load_all(open(sys.argv[1])):\n assert {'apiVersion', 'kind', 'metadata', 'spec'} <= set(d), d\n";
    let has_yaml =
        Command::new("python3").args(["-c", "import yaml"]).output().is_ok_and(|o| o.status.success());
    for name in ["kubernetes.yaml", "serve-cronjob.yaml"] {
        if has_yaml {
            validate("python3", &["-c", script], name);
        } else {
            eprintln!("SKIPPED: there is no PyYAML to check {name}");
        }
    }
}

#[test]
fn their_commands_are_commands_of_this_program() {
    for (name, command) in [
        ("wxsim-serve.service", "wxsim serve /srv/wxsim/serve.toml"),
        ("serve-cronjob.yaml", "\"serve.toml\", \"--once\""),
    ] {
        let text = std::fs::read_to_string(file(name)).unwrap();
        assert!(text.contains(command), "{name}");
    }
    for arguments in [["serve", "nowhere.toml", "--once"], ["serve", "/srv/wxsim/serve.toml", "--once"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_wxsim")).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // Understood, but the file is not there.
        assert!(output.status.code() == Some(2) && told.contains("cannot be read"), "{told}");
    }
}
