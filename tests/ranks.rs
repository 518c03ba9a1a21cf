//! Several ranks train as one does: the real program.

mod waves;

use std::net::TcpListener;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use waves::Place;
use wxsim::io::checkpoint;

fn succeeds(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

/// Both curves have the same lines, and their numbers differ by no more than this share.
fn assert_close(found: &[Value], expected: &[Value], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        for name in ["kind", "step", "epoch", "learning_rate", "truth_probability", "best"] {
            assert_eq!(found[name], expected[name], "{name} in {found}");
        }
        for name in ["loss", "gradient_norm", "score"] {
            if let (Some(a), Some(b)) = (found[name].as_f64(), expected[name].as_f64()) {
                assert!((a - b).abs() <= tolerance * b.abs(), "{name}: {a} instead of {b} in {found}");
            } else {
                assert_eq!(found[name], expected[name]);
            }
        }
    }
}

#[test]
fn ranks_train_and_validate_as_one_does_and_go_on_with_another_number() {
    let place = Place::new();
    succeeds(&place.train("one", &[]));
    let expected = place.curve("one");
    // Float32 in another order, through 60 updates of Adam.
    let tolerance = 1e-3;
    for ranks in ["2", "4"] {
        let text = succeeds(&place.train(ranks, &["--ranks", ranks]));
        assert!(text.contains(&format!("device: {ranks} x cpu")), "{text}");
        assert_close(&place.curve(ranks), &expected, tolerance);
    }
    // Stopped on two ranks by an epoch's end, continued on four, then on one.
    let stop = |run: &str, ranks: &str, more: &[&str], lines: usize| {
        let mut child = place.command(run, &[more, &["--ranks", ranks]].concat()).spawn().unwrap();
        while place.metrics(run).lines().count() < lines && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    };
    stop("moved", "2", &[], 12);
    stop("moved", "4", &["--resume"], 30);
    let text = succeeds(&place.train("moved", &["--resume"]));
    assert!(text.contains("the number of ranks was 2 and is 1"), "{text}");
    assert_close(&place.curve("moved"), &expected, tolerance);
}

#[test]
fn ranks_stop_together_and_continue_with_the_same_bits() {
    let place = Place::new();
    succeeds(&place.train("whole", &["--ranks", "2"]));
    let child = place.command("stopped", &["--ranks", "2"]).spawn().unwrap();
    while place.metrics("stopped").lines().count() < 17 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("wxsim train waves.toml --resume --run stopped --ranks 2"), "{text}");
    succeeds(&place.train("stopped", &["--resume", "--ranks", "2"]));
    place.assert_same("stopped", "whole");
}

#[test]
fn shared_moments_change_no_bit_and_are_whole_in_checkpoints() {
    let place = Place::new();
    succeeds(&place.train("whole", &["--ranks", "2"]));
    let shared = ["--ranks", "2", "--set", "parallel.zero=1"];
    let mut child = place.command("shared", &shared).spawn().unwrap();
    while place.metrics("shared").lines().count() < 17 {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    succeeds(&place.train("shared", &[&["--resume"], &shared[..]].concat()));
    place.assert_same("shared", "whole");
}

/// Kills a training after so many lines of its curve.
fn kill_after(place: &Place, run: &str, more: &[&str], lines: usize) {
    let mut child = place.command(run, more).spawn().unwrap();
    while place.metrics(run).lines().count() < lines && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn ranks_that_share_everything_write_their_parts_and_any_number_goes_on() {
    let place = Place::new();
    succeeds(&place.train("one", &[]));
    let stage = |zero: &'static str, ranks: &'static str| {
        ["--ranks", ranks, "--set", zero, "--set", "parallel.offload=true"]
    };
    for zero in ["parallel.zero=2", "parallel.zero=3"] {
        let run = &zero[zero.len() - 1..];
        kill_after(&place, run, &stage(zero, "4"), 12);
        let newest = checkpoint::steps(&place.run(run).join("checkpoints")).unwrap().pop().unwrap().1;
        let parts = std::fs::read_dir(&newest).unwrap().filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .into_string()
                .unwrap()
                .strip_suffix("-of-4.safetensors")
                .map(str::to_owned)
        });
        if checkpoint::is_complete(&newest) {
            assert_eq!(parts.count(), 4);
        }
        // With two ranks, then with one that shares nothing.
        kill_after(&place, run, &[&["--resume"], &stage(zero, "2")[..]].concat(), 30);
        succeeds(&place.train(run, &["--resume"]));
        assert_close(&place.curve(run), &place.curve("one"), 1e-3);
    }
    // A part that is lost is named, and the checkpoint before is taken.
    let four = ["--ranks", "4", "--set", "parallel.zero=3"];
    succeeds(&place.train("four", &four));
    assert_close(&place.curve("four"), &place.curve("one"), 1e-3);
    let newest = checkpoint::steps(&place.run("four").join("checkpoints")).unwrap().pop().unwrap().1;
    std::fs::remove_file(newest.join("tensors-3-of-4.safetensors")).unwrap();
    let text = succeeds(&place.train("four", &[&["--resume"], &four[..]].concat()));
    assert!(text.contains("tensors-3-of-4.safetensors") && text.contains("going back"), "{text}");
    assert_close(&place.curve("four"), &place.curve("one"), 1e-3);
}

#[test]
fn a_lossy_wire_goes_on_with_the_same_bits_and_says_what_it_forgets() {
    let place = Place::new();
    let sparse = ["--ranks", "2", "--set", "parallel.wire={ top_k = 0.05 }"];
    succeeds(&place.train("whole", &sparse));
    kill_after(&place, "killed", &sparse, 17);
    let text = succeeds(&place.train("killed", &[&["--resume"], &sparse[..]].concat()));
    assert!(!text.contains("forgotten"), "{text}");
    place.assert_same("killed", "whole");
    let line = &place.curve("whole")[0];
    assert!(line["wire_bytes"].as_u64().unwrap() > 0, "{line}");

    kill_after(&place, "moved", &sparse, 17);
    let more = ["--resume", "--ranks", "4", "--set", "parallel.wire={ top_k = 0.05 }"];
    let text = succeeds(&place.train("moved", &more));
    assert!(text.contains("are forgotten: the checkpoint has those of 2 ranks"), "{text}");
}

#[test]
fn meshes_train_and_validate_as_one_device_does() {
    let place = Place::new();
    succeeds(&place.train("one", &[]));
    let expected = place.curve("one");
    let (bands, units) = ("parallel.domain=2", "parallel.channel=2");
    for (run, ranks, settings) in [
        ("bands", "2", &[bands][..]),
        ("recompute", "4", &[bands, "train.recompute=true"]),
        ("units", "2", &[units]),
        ("mesh", "8", &[bands, units, "parallel.zero=3"]),
    ] {
        let mut flags = vec!["--ranks", ranks];
        flags.extend(settings.iter().flat_map(|set| ["--set", set]));
        let mut child = place.command(run, &flags).spawn().unwrap();
        while place.metrics(run).lines().count() < 12 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // It goes on as it was, or on one device.
        flags.push("--resume");
        let alone = ["--resume"];
        succeeds(&place.train(run, if ranks == "2" { &alone } else { &flags }));
        assert_close(&place.curve(run), &expected, 1e-3);
    }
    let output = place.train("many", &["--ranks", "8", "--set", "parallel.domain=8"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("4 rows cannot be cut into 8 bands") && text.contains("4 bands are the most"),
        "{text}"
    );
    let output = place.train("odd", &["--ranks", "3", "--set", bands]);
    assert_eq!(output.status.code(), Some(2));
    let output = place.train("thirds", &["--ranks", "3", "--set", "parallel.channel=3"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("[4] hidden channels are no multiple of 3 in every layer"), "{text}");
}

#[test]
fn a_batch_that_cannot_be_shared_is_refused_once() {
    let place = Place::new();
    let output = place.train("three", &["--ranks", "3"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("3 ranks cannot share a batch of 4 windows equally"), "{text}");
    assert!(text.contains("error: 3 ranks"), "what all ranks say is said once: {text}");
    let output = place.train("both", &["--ranks", "2", "--device", "cuda:0"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Starts one of several processes that train together.
fn start_rank(place: &Place, run: &str, address: &str, rank: usize, more: &[&str]) -> Child {
    let mut command = place.command(run, &[more, &["--device", "cpu"]].concat());
    command.env("WXSIM_RANK", rank.to_string()).env("WXSIM_SIZE", "2").env("WXSIM_ADDRESS", address);
    command.spawn().unwrap()
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("127.0.0.1:{}", listener.local_addr().unwrap().port())
}

#[test]
fn processes_train_as_threads_do_and_end_together() {
    let place = Place::new();
    succeeds(&place.train("threads", &["--ranks", "2"]));
    let address = free_address();
    let children = [0, 1].map(|rank| start_rank(&place, "processes", &address, rank, &[]));
    let texts = children.map(|child| succeeds(&child.wait_with_output().unwrap()));
    place.assert_same("processes", "threads");
    assert!(
        texts[0].contains("device: 2 x cpu") && !texts[1].contains("device:"),
        "the first speaks for all"
    );

    // One is killed: the other says so, soon, and the run goes on from its last checkpoint.
    for killed in [1, 0] {
        let run = format!("killed-{killed}");
        let address = free_address();
        let mut children = [0, 1].map(|rank| start_rank(&place, &run, &address, rank, &[]));
        while place.metrics(&run).lines().count() < 7 {
            std::thread::sleep(Duration::from_millis(2));
        }
        children[killed].kill().unwrap();
        let start = Instant::now();
        let mut outputs = children.map(|child| child.wait_with_output().unwrap()).into_iter();
        let other = outputs.nth(1 - killed).unwrap();
        let text = String::from_utf8_lossy(&other.stderr);
        assert_eq!(other.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("rank {killed} is gone")) && text.contains("--resume"), "{text}");
        assert!(start.elapsed() < Duration::from_secs(20));
        succeeds(&place.train(&run, &["--resume", "--ranks", "2"]));
        place.assert_same(&run, "threads");
    }
}

#[test]
fn the_bench_measures_every_size_and_refuses_one_rank() {
    let bench = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wxsim"));
        command
            .args(["bench", "comm", "--device", "cpu", "--repeats", "1", "--json"])
            .args(more)
            .output()
            .unwrap()
    };
    let output = bench(&["--ranks", "3"]);
    succeeds(&output);
    let rows: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 5);
    assert!(rows.iter().all(|row| row["ranks"] == 3 && row["gigabytes_per_second"].as_f64().unwrap() > 0.0));
    assert_eq!(bench(&[]).status.code(), Some(2));
}

#[test]
fn a_training_is_planned_for_numbers_of_gpus_that_share_its_batches() {
    let place = Place::new();
    let plan = |more: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_wxsim"))
            .current_dir(place.folder.path())
            .args(["plan", "waves.toml", "--json"])
            .args(more)
            .output()
            .unwrap()
    };
    let lines = |output: Output| -> Vec<Value> {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let strong = lines(plan(&["--gpus", "1..4", "--as-configured"]));
    let of = |lines: &[Value], key: &str| lines.iter().map(|l| l[key].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of(&strong, "ranks"), [1.0, 2.0, 4.0]);
    assert_eq!(of(&strong, "samples"), [4.0; 3]);
    let wire = of(&strong, "wire_bytes");
    // Around a ring each GPU sends 2 (N - 1) / N of the gradients.
    assert!(wire[0] == 0.0 && wire[1] > 0.0 && (wire[2] / wire[1] - 1.5).abs() < 1e-12, "{wire:?}");
    let (efficiency, memory) = (of(&strong, "efficiency"), of(&strong, "memory"));
    assert!(
        (efficiency[0] - 1.0).abs() < 1e-12 && efficiency[1] < 1.0 && efficiency[2] < efficiency[1],
        "{efficiency:?}"
    );
    assert!(memory[0] > memory[1] && memory[1] > memory[2], "{memory:?}");
    let weak = lines(plan(&["--gpus", "1,3", "--weak", "--as-configured"]));
    assert_eq!(of(&weak, "samples"), [4.0, 12.0]);

    // Every way, the fastest first, and one of them the best.
    let ways = lines(plan(&["--gpus", "4", "--lossy"]));
    let seconds = of(&ways, "seconds");
    assert!(seconds.is_sorted() && ways.len() >= 4 * 3, "{ways:?}");
    assert_eq!(ways.iter().filter(|way| way["best"] == true).count(), 1);
    let way = |zero: u64, wire: &str, key: &str| {
        let is_it = |w: &&Value| w["zero"] == zero && w["wire"] == wire && w["data"] == 4;
        let found = ways.iter().find(is_it).unwrap();
        found[key].as_f64().unwrap()
    };
    let memory = [0, 1, 2].map(|zero| way(zero, "float32", "memory"));
    // Of so small a network the buckets of shared gradients weigh as much as the gradients.
    assert!(memory[0] > memory[1] && memory[0] > memory[2], "{memory:?}");
    assert!(way(0, "bfloat16", "wire_bytes") < 0.7 * way(0, "float32", "wire_bytes"));

    // Rows and channels divide activations, too, and channels divide the weights; both are exchanged at every step.
    let mesh = |domain: u64, channel: u64, key: &str| {
        let is_it = |w: &&Value| {
            w["domain"] == domain && w["channel"] == channel && w["zero"] == 0 && w["wire"] == "float32"
        };
        ways.iter().find(is_it).unwrap()[key].as_f64().unwrap()
    };
    let all = [[1, 1], [4, 1], [1, 4], [2, 2], [1, 2], [2, 1]];
    for [domain, channel] in all {
        assert!(mesh(domain, channel, "seconds") > 0.0 && mesh(domain, channel, "wire_bytes") > 0.0);
    }
    // A quarter of the weights, and no gradients on the wire, but all h: more bytes of so many points.
    assert!(mesh(1, 4, "wire_bytes") > mesh(1, 1, "wire_bytes"));
    assert!(mesh(1, 2, "wire_bytes") < mesh(1, 4, "wire_bytes"));
    let configured = plan(&["--gpus", "4", "--as-configured", "--set", "parallel.channel=2"]);
    let configured = lines(configured);
    assert_eq!((of(&configured, "channel"), of(&configured, "data")), (vec![2.0], vec![2.0]));

    let refused = plan(&["--gpus", "3", "--as-configured"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("3 GPUs cannot share batches of 4 samples evenly"), "{text}");
}
