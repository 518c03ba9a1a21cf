//! A training that is killed and resumed gives the same bits as one that was not: the real program, real signals.

mod waves;

use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use waves::Place;
use wxsim::io::checkpoint;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until the run has `lines` lines of metrics.
fn wait_for_lines(place: &Place, run: &str, lines: usize) {
    let start = Instant::now();
    while place.metrics(run).lines().count() < lines {
        assert!(start.elapsed() < Duration::from_secs(120), "no {lines} lines of metrics");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_run_killed_at_many_moments_gives_the_same_bits_as_one_that_was_not() {
    let place = Place::new();
    let start = Instant::now();
    assert_success(&place.train("whole", &[]));
    let duration = start.elapsed();
    let curve = place.curve("whole");
    assert!(curve.len() > 40 && curve.iter().any(|line| line["kind"] == "validation"));

    let mut random = 7_u64;
    let mut killed = 0;
    for attempt in 0..10 {
        // The number of threads changes nothing.
        let mut child = place.start_or_resume_on("killed", ["1", "2", "3"][attempt % 3]);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = 0.7 * (random >> 40) as f64 / (1_u64 << 24) as f64;
        std::thread::sleep(duration.mul_f64(share));
        if child.try_wait().unwrap().is_none() {
            killed += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(killed > 0, "every process was done before it was killed");
    assert_success(&place.start_or_resume("killed").wait_with_output().unwrap());
    place.assert_same("killed", "whole");
}

#[test]
fn sigterm_and_ctrl_c_save_and_say_how_to_resume() {
    let place = Place::new();
    assert_success(&place.train("whole", &[]));
    for (lines, name) in [(4, "-TERM"), (17, "-INT")] {
        let child = place.start_or_resume("stopped");
        wait_for_lines(&place, "stopped", lines);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(130), "{name}: {text}");
        assert!(text.contains("stopped and saved after update"), "{text}");
        let command = "wxsim train waves.toml --resume --run stopped";
        assert!(text.contains(command), "{text}");
    }
    assert_success(&place.train("stopped", &["--resume"]));
    place.assert_same("stopped", "whole");
    let again = place.train("stopped", &["--resume"]);
    assert_success(&again);
    place.assert_same("stopped", "whole");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_with_a_warning() {
    let place = Place::new();
    assert_success(&place.train("whole", &[]));
    let child = place.start_or_resume("damaged");
    wait_for_lines(&place, "damaged", 9);
    signal(&child, "-TERM");
    child.wait_with_output().unwrap();
    let (step, newest) = checkpoint::steps(&place.run("damaged").join("checkpoints")).unwrap().pop().unwrap();
    let file = newest.join("tensors.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let output = place.train("damaged", &["--resume"]);
    assert_success(&output);
    let text = stderr(&output);
    assert!(text.contains(&format!("step-{step} is damaged")), "{text}");
    place.assert_same("damaged", "whole");
}

#[test]
fn a_run_is_neither_overwritten_nor_shared_nor_resumed_with_other_settings() {
    let place = Place::new();
    let refused = |more: &[&str], text: &str| {
        let output = place.train("run", more);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    };
    refused(&["--resume"], "there is no run");
    // Long enough to be still there when the second one comes.
    let long = ["--set", "train.rollout=[[100000, 1]]", "--set", "train.patience=100000"];
    let child = place.command("run", &long).spawn().unwrap();
    wait_for_lines(&place, "run", 1);
    refused(&["--resume"], "another training");
    signal(&child, "-TERM");
    child.wait_with_output().unwrap();
    refused(&[], "already holds a run");
    refused(&["--resume", "--set", "train.batch=5"], "table [train]");
    refused(&["--resume", "--set", "model.hidden=[5]"], "table [model]");
}

#[test]
fn a_loss_that_is_not_finite_stops_with_its_place_or_is_skipped_and_counted() {
    let place = Place::new();
    // Weights of this size overflow float32 within a few updates.
    let diverge =
        ["--set", "train.learning_rate=1e30", "--set", "train.warm_up=0", "--set", "train.clip_norm=0.0"];
    let output = place.train("stops", &diverge);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("2001-") && text.contains("is not finite"), "{text}");

    let skip = ["--set", "train.non_finite=skip", "--set", "train.skip_limit=3"];
    let output = place.train("skips", &[&diverge[..], &skip].concat());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("more than 3 updates in a row were skipped"), "{text}");
    let skipped = place.curve("skips").iter().filter(|line| line["skipped"] == true).count();
    assert_eq!(skipped, 3);
}
