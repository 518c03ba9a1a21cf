//! Engines that TensorRT for RTX builds without a GPU: for the cards, of the precision, with the inputs and outputs that were
//! asked for. `.ci/tensorrt cargo test --features tensorrt-rtx --test engines` runs this.
#![cfg(all(feature = "tensorrt-rtx", not(feature = "tensorrt")))]

mod made;
mod waves;

use std::process::Command;

use made::kinds;
use waves::Place;
use wxsim::export::onnx::{self, Extent, Form};
use wxsim::export::quantise::Ranges;
use wxsim::export::tensorrt::{self, Batch, BuildPlan, Built, Capability};
use wxsim::export::{Precision, Trained};

const CARDS: [Capability; 4] = [Capability(8, 0), Capability(8, 6), Capability(8, 9), Capability(12, 0)];
const UP_TO_8: Batch = Batch { least: 1, usual: 1, most: 8 };

fn trained(kind: &made::Kind) -> Trained {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step-1");
    kind.save(&path);
    Trained::open(&path).unwrap()
}

/// Ranges that random weights keep.
fn trained_ranges(trained: &Trained) -> Ranges {
    Ranges { input: 4.0, hidden: vec![1.0; trained.architecture.hidden.len()] }
}

fn build(trained: &Trained, precision: Precision, targets: &[Capability], batch: Batch) -> (Vec<u8>, Built) {
    let ranges = precision.is_quantised().then(|| trained_ranges(trained));
    let graph = onnx::encode(trained, precision, Extent::Step, Form::Native, ranges.as_ref()).unwrap();
    let plan = BuildPlan { precision, targets: targets.to_vec(), batch };
    let built = tensorrt::build(&graph, "a test", &plan).unwrap_or_else(|error| {
        panic!("{}; {}", wxsim::error::chain(&error), error.advice().unwrap_or_default())
    });
    (graph, built)
}

#[test]
fn every_kind_of_network_becomes_an_engine_in_every_precision() {
    for kind in kinds() {
        let trained = trained(&kind);
        for (precision, computes) in [
            (Precision::Fp32, "float"),
            (Precision::Tf32, "float"),
            (Precision::Fp16, "half"),
            (Precision::Bf16, "bf16"),
        ] {
            let (graph, Built { engine, card }) = build(&trained, precision, &CARDS, UP_TO_8);
            let what = format!("{} in {precision}", kind.name);
            // The gates of each layer, and the head.
            assert_eq!(card.convolutions, vec![computes; kind.architecture.hidden.len() + 1], "{what}");
            let named = |input: bool| {
                card.bindings
                    .iter()
                    .filter(|b| b.input == input)
                    .map(|b| b.name.as_str())
                    .collect::<Vec<&str>>()
            };
            for name in ["x", "h_0", "c_0", "h_1", "c_1"] {
                assert!(named(true).contains(&name), "{what}: {name}");
            }
            assert_eq!(named(true).contains(&"climatology"), kind.anomalies, "{what}");
            assert_eq!(named(false), ["y", "h_0_next", "c_0_next", "h_1_next", "c_1_next"], "{what}");
            let (rows, columns, channels) = kind.layout().shape();
            assert_eq!(card.bindings[0].shape, [-1, rows as i64, columns as i64, channels as i64], "{what}");
            assert!(card.bindings.iter().all(|binding| binding.kind == "float"), "{what}");
            for target in CARDS {
                card.check(&engine, &graph, &card.library, target).unwrap();
            }
            let error = card.check(&engine, &graph, &card.library, Capability(9, 0)).unwrap_err();
            assert!(error.to_string().contains("this GPU has 9.0"), "{error}");
        }
    }
}

#[test]
fn eight_bits_become_an_engine_too() {
    let kind = &kinds()[0];
    let trained = trained(kind);
    for (precision, cards) in [(Precision::Int8, &CARDS[..]), (Precision::Fp8, &CARDS[2..])] {
        let (_, Built { card, .. }) = build(&trained, precision, cards, UP_TO_8);
        // Of input and h of each layer, and the head; what they read was quantised and comes back.
        let convolutions = 2 * kind.architecture.hidden.len() + 1;
        assert_eq!(card.convolutions.len(), convolutions, "{precision}");
        let count = |kind: &str| card.layers.get(kind).copied().unwrap_or(0);
        assert_eq!((count("quantize"), count("dequantize")), (convolutions, 2 * convolutions), "{precision}");
    }
}

#[test]
fn an_engine_for_one_card_and_one_batch_is_another_one_than_for_many() {
    let trained = trained(&kinds()[0]);
    let one = Batch { least: 1, usual: 1, most: 1 };
    let mut sizes = Vec::new();
    for target in CARDS {
        for batch in [one, UP_TO_8] {
            let (_, Built { engine, card }) = build(&trained, Precision::Fp32, &[target], batch);
            assert_eq!((&card.targets[..], card.batch), (&[target][..], batch));
            println!("{target}, {batch} forecasts at once: {} bytes", engine.len());
            sizes.push(engine.len());
        }
    }
    assert!(sizes.iter().all(|&size| size > 10_000), "{sizes:?}");
}

#[test]
fn a_card_that_the_library_does_not_know_is_refused_in_words() {
    let trained = trained(&kinds()[0]);
    let graph = onnx::encode(&trained, Precision::Fp32, Extent::Step, Form::Native, None).unwrap();
    let plan = |targets: &[Capability]| BuildPlan {
        precision: Precision::Fp32,
        targets: targets.to_vec(),
        batch: UP_TO_8,
    };
    let error = tensorrt::build(&graph, "a test", &plan(&[Capability(9, 0)])).err().unwrap();
    assert!(error.to_string().contains("no engine for compute capability 9.0"), "{error}");
    let error = tensorrt::build(b"no graph", "a test", &plan(&CARDS)).err().unwrap();
    assert!(error.to_string().contains("cannot be built"), "{error}");
}

#[test]
fn the_program_builds_an_engine_and_refuses_to_run_it_where_there_is_no_driver() {
    let place = Place::new();
    let output = place.train("run", &["--set", "train.rollout=[[1, 1]]"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wxsim"));
        command.current_dir(place.folder.path()).args(arguments).env("WXSIM_LIBCUDA", place.folder.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let root = format!("data.root='{}'", place.folder.path().display());
    let export = ["export", "run", "--tensorrt", "--precision", "fp16", "--set", &root, "--target"];
    let (code, text) = run(&[&export[..], &["8.9,12.0"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("for compute capability 8.9 and 12.0 and 1:1:8 forecasts at once"), "{text}");
    for file in ["step-fp16.onnx", "step-fp16.parity.json", "step-fp16.engine", "step-fp16.engine.json"] {
        assert!(place.run("run").join("export").join(file).is_file(), "{file}");
    }
    let init = place.folder.path().join("waves.nc");
    let forecast =
        ["forecast", "--model", "run", "--lead", "2d", "--out", "out", "--init", init.to_str().unwrap()];
    let (code, text) = run(&[&forecast[..], &["--provider", "tensorrt", "--precision", "fp16"]].concat());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no CUDA driver"), "{text}");
}
