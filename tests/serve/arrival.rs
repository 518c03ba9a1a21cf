//! Files arrive, whole, broken, twice; cycles are made once, and again when somebody asks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::centre::{Centre, forecasts, states};

#[test]
fn what_arrives_is_forecast_once_and_what_is_broken_is_named() {
    let centre = Centre::new("warm", "");
    (10..14).for_each(|day| centre.bring_day("inbox", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("warm, from the cycle of"), "{told}");
    let published = |day: &str| (format!("2001-01-{day}"), "published".to_string());
    assert_eq!(states(&centre.cycles("serve.toml")), ["12", "13", "14"].map(published));
    let before = centre.published("");
    assert_eq!(before.len(), 6);
    let latest = std::fs::read_link(centre.folder().join("out/waves/latest.nc")).unwrap();
    assert_eq!(latest, Path::new("20010114T0000.nc"));

    // The same days again, one with other values; files that are none; missing values; another grid.
    centre.bring("inbox", "again.nc", 12, |_, x| x);
    centre.bring("inbox", "other.nc", 13, |_, x| x + 1.0);
    centre.bring("inbox", "hole.nc", 14, |i, x| if i == 5 { f32::NAN } else { x });
    let whole = std::fs::read(centre.folder().join("inbox/day012.nc")).unwrap();
    std::fs::write(centre.folder().join("inbox/half.nc"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(centre.folder().join("inbox/text.nc"), "not a file of fields").unwrap();
    // Units that are not said, and a number that no weather has; a name that no library opens.
    centre.bring("inbox", "hecto.nc", 15, |_, x| x / 100.0);
    centre.bring("inbox", "spike.nc", 16, |i, x| if i == 3 { 1e20 } else { x });
    let odd = OsStr::from_bytes(b"odd\xff\n.nc");
    std::fs::copy(centre.folder().join("inbox/day012.nc"), centre.folder().join("inbox").join(odd)).unwrap();
    let told = centre.serve_once("serve.toml");
    for says in [
        "again.nc brings nothing new",
        "other.nc brings nothing new",
        "came with other values",
        "half.nc is rejected",
        "text.nc is rejected",
        "hole.nc is rejected: waves: msl at 2001-01-15T00:00Z: 1 of 24 values are missing",
        "hecto.nc is rejected: waves: msl, whose mean lies ",
        "spike.nc is rejected: waves: msl, whose mean lies ",
        "odd\u{fffd}\u{fffd}.nc is rejected: waves: its name is not UTF-8",
    ] {
        assert!(told.contains(says), "'{says}' is not in: {told}");
    }
    assert_eq!(centre.cycles("serve.toml").len(), 3);
    assert!(centre.published("") == before);
    // What is settled is not looked at again.
    let told = centre.serve_once("serve.toml");
    assert!(!told.contains("rejected") && !told.contains("nothing new"), "{told}");
    // Nothing is left of what was rejected.
    assert_eq!(std::fs::read_dir(centre.folder().join("state/incoming")).unwrap().count(), 0);
}

#[test]
fn a_cycle_made_again_starts_from_the_same_state_and_gives_the_same_numbers() {
    let centre = Centre::new("warm", "");
    (10..14).for_each(|day| centre.bring_day("inbox", day));
    centre.serve_once("serve.toml");
    let before = centre.published("");
    let published = centre.cycles("serve.toml")[2]["published"].as_i64().unwrap();
    let output = centre.run(&["cycles", "rerun", "serve.toml", "waves", "2001-01-14"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(centre.cycles("serve.toml")[2]["state"], "waiting");
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("begins on cpu (again)"), "{told}");
    assert!(centre.published("") == before);
    // It took no longer because its analysis is old.
    assert!(centre.cycles("serve.toml")[2]["input"].as_i64().unwrap() >= published);

    // A file of somebody else stands where the forecast should go.
    let theirs = centre.folder().join("out/waves/20010113T0000.nc");
    std::fs::write(&theirs, "theirs").unwrap();
    centre.run(&["cycles", "rerun", "serve.toml", "waves", "2001-01-13"]);
    let output = centre.run(&["serve", "serve.toml", "--once"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("was not written by this service") && told.contains("is given up"), "{told}");
    assert!(output.status.code() == Some(1) && told.contains("error: a cycle has failed"), "{told}");
    let staging = std::fs::read_dir(centre.folder().join("out/waves/.staging")).unwrap();
    assert_eq!(staging.count(), 0, "nothing is left of what is not published");
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
    assert_eq!(centre.cycles("serve.toml")[1]["state"], "failed");
    let output = centre.run(&["cycles", "rerun", "serve.toml", "waves", "2005-01-13"]);
    assert_eq!(output.status.code(), Some(2));

    // What cannot work is told before it is needed.
    let output = centre.run(&["serve", "serve.toml", "--once", "--set", "serve.devices.names=['cuda:99']"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("cuda:99 cannot compute the model waves"), "{told}");
    let output = centre.run(&["cycles", "serve.toml", "--model", "wave"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_cycle_that_waits_keeps_the_analyses_that_it_needs_however_old_they_are() {
    let centre = Centre::new("warm", "keep = { analyses = '2d' }");
    // The newest come first, and what comes after them is older than what is kept.
    (30..32).for_each(|day| centre.bring("inbox", &format!("a{day}.nc"), day, |_, x| x));
    (10..16).for_each(|day| centre.bring_day("inbox", day));
    centre.serve_once("serve.toml");
    let cycles = centre.cycles("serve.toml");
    assert!(cycles.iter().all(|cycle| cycle["state"] == "published"), "{cycles:?}");
    assert!(cycles.len() > 1, "{cycles:?}");
}

#[test]
fn models_that_read_the_same_share_what_is_decoded() {
    let centre = Centre::new("warm", "");
    let path = centre.folder().join("serve.toml");
    let twin = "[[serve.models]]\nname = 'twin'\nrun = 'run'\nlead = '3d'\nstart = 'warm'\n";
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + twin).unwrap();
    (10..13).for_each(|day| centre.bring_day("inbox", day));
    let told = centre.serve_once("serve.toml");
    assert_eq!(told.matches("2 fields of 2001-01-12").count(), 2, "for both: {told}");
    let analysis = |model: &str| {
        let folder = centre.folder().join("state/analyses").join(model);
        let first = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(first).unwrap())
    };
    assert_eq!(analysis("waves"), analysis("twin"), "one file with two names");
    let published = |model: &str| forecasts(&centre.folder().join("out").join(model)).len();
    assert_eq!((published("waves"), published("twin")), (2, 2));
}

#[test]
fn settings_and_services_that_cannot_be_are_refused() {
    let centre = Centre::new("cold", "");
    let refused = |arguments: &[&str], says: &str| {
        let output = centre.run(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(says), "{arguments:?}: {told}");
    };
    refused(&["serve", "serve.toml", "--set", "serve.inbox.folder=nowhere"], "serve.inbox.folder");
    refused(&["serve", "serve.toml", "--set", "serve.schedule.cron=x"], "serve.schedule.cron");
    refused(&["serve", "waves.toml"], "serve.models is empty");
    refused(&["serve", "serve.toml", "--rehearse", "soon"], "is not a date");
    refused(&["serve", "serve.toml", "--speed", "2"], "--rehearse");
    // Nothing that was refused has left anything behind.
    refused(&["cycles", "serve.toml"], "nothing was served yet");
    refused(&["serve", "serve.toml", "--canary", "nowhere"], "nowhere");
    let mut first = centre.command(&["serve", "serve.toml"]).spawn().unwrap();
    let begun = Instant::now();
    while !centre.folder().join("state/ledger.sqlite").is_file() && begun.elapsed() < Duration::from_secs(30)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(&["serve", "serve.toml", "--once"], "another service works in");
    first.kill().unwrap();
    first.wait().unwrap();
}
