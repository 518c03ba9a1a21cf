//! An exported graph, run by ONNX Runtime, forecasts what wxsim forecasts; and the program says when it does not, or when
//! nobody looked.

mod made;
mod waves;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use made::kinds;
use waves::Place;
use wxsim::device::cpu::Cpu;
use wxsim::export::onnx::{self, Extent, Form};
use wxsim::export::parity;
use wxsim::export::quantise::{Calibration, Method, Ranges};
use wxsim::export::{Int8, OnnxForecaster, OnnxRuntime, Precision, Trained};
use wxsim::runner::{Native, NetworkStepper, Provider};

/// ONNX Runtime. Its absence is a failure where WXSIM_REQUIRE_ONNX says that it must be there.
fn runtime() -> Option<OnnxRuntime> {
    match OnnxRuntime::open() {
        Ok(runtime) => Some(runtime),
        Err(error) => {
            let sentence = format!("{error}; {}", error.advice().unwrap_or_default());
            assert!(std::env::var_os("WXSIM_REQUIRE_ONNX").is_none(), "{sentence}");
            println!("SKIPPED: {sentence}");
            None
        }
    }
}

/// The ranges of the activations in a forecast.
fn ranges(trained: &Arc<Trained>, kind: &made::Kind) -> Ranges {
    let mut network = Native::new(trained.clone(), Box::new(Cpu::new(Some(1)).unwrap())).unwrap();
    let mut calibration = Calibration::new(trained);
    let analyses = kind.analyses();
    network.start(&analyses).unwrap();
    let mut valid = analyses[analyses.len() - 1].valid;
    for _ in 0..8 {
        let kept = network.standing(valid).unwrap();
        calibration.add(trained, valid, &kept.fields, &kept.memories);
        network.step(valid).unwrap();
        valid = valid.after(trained.info.step);
    }
    calibration.ranges(Method::Percentile).unwrap()
}

/// The worst RMS error of any variable as a share of its spread, after one step and after all.
fn apart(
    kind: &made::Kind,
    runtime: &OnnxRuntime,
    precision: Precision,
    extent: Extent,
    steps: usize,
) -> [f64; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step-1");
    kind.save(&path);
    let trained = Arc::new(Trained::open(&path).unwrap());
    let form = if precision == Precision::Bf16 { Form::Emulated } else { Form::Native };
    let ranges = precision.is_quantised().then(|| ranges(&trained, kind));
    let graph = onnx::encode(&trained, precision, extent, form, ranges.as_ref()).unwrap();
    let mut exported = OnnxForecaster::new(trained.clone(), runtime, &graph, extent, 1).unwrap();
    let mut own = NetworkStepper::of(trained, Box::new(Cpu::new(Some(1)).unwrap())).unwrap();
    let rows = parity::measure(&mut own, &mut exported, &[kind.analyses()], steps).unwrap();
    let worst =
        |rows: &mut dyn Iterator<Item = &parity::Row>| rows.map(parity::Row::share).fold(0.0, f64::max);
    let first = rows[0].lead_hours;
    [worst(&mut rows.iter().filter(|row| row.lead_hours == first)), worst(&mut rows.iter())]
}

#[test]
fn every_kind_of_network_forecasts_the_same_from_its_graph() {
    let Some(runtime) = runtime() else { return };
    for kind in kinds() {
        let [first, all] = apart(&kind, &runtime, Precision::Fp32, Extent::Step, 40);
        println!("{}: {first:.1e} after a step, {all:.1e} within 40", kind.name);
        // A step rounds a few dozen times by 6e-8, and a geopotential of 54 000 keeps 4e-6 of its deviation; random
        // weights let such a difference grow by less than a hundred over 40 steps.
        assert!(first < 2e-5 && all < 2e-3, "{}: {first:.1e}, {all:.1e}", kind.name);
    }
}

#[test]
fn a_whole_forecast_in_one_graph_is_the_same_forecast() {
    let Some(runtime) = runtime() else { return };
    for kind in kinds() {
        let [first, all] = apart(&kind, &runtime, Precision::Fp32, Extent::Forecast(3), 3);
        // Between its steps nothing is turned into physical units and back.
        assert!(first < 2e-5 && all < 5e-5, "{}: {first:.1e}, {all:.1e}", kind.name);
    }
}

#[test]
fn fewer_bits_differ_by_their_rounding() {
    let Some(runtime) = runtime() else { return };
    for (precision, unit) in [
        (Precision::Fp16, 4.9e-4),
        (Precision::Bf16, 3.9e-3),
        (Precision::Int8, 1.0 / 127.0),
        (Precision::Fp8, 1.0 / 16.0),
    ] {
        for kind in kinds() {
            let [first, _] = apart(&kind, &runtime, precision, Extent::Step, 1);
            println!("{} in {precision}: {first:.1e}", kind.name);
            // Rounded inputs, weights and sums of three convolutions one behind the other, whose errors add up at random. A
            // tendency is a twentieth of the state, and its error too.
            assert!(first < 2.0 * unit && first > 2e-3 * unit, "{} in {precision}: {first:.1e}", kind.name);
        }
    }
}

#[test]
fn a_network_in_whole_numbers_forecasts_as_its_graph_does() {
    let Some(runtime) = runtime() else { return };
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("step-1");
        kind.save(&path);
        let trained = Arc::new(Trained::open(&path).unwrap());
        let int8 = Int8::of(&trained, ranges(&trained, &kind)).unwrap();
        let graph =
            onnx::encode(&trained, Precision::Int8, Extent::Step, Form::Native, Some(&int8.ranges)).unwrap();
        let mut exported = OnnxForecaster::new(trained.clone(), &runtime, &graph, Extent::Step, 1).unwrap();
        let native = |threads| {
            let device = Box::new(Cpu::new(Some(threads)).unwrap());
            NetworkStepper::alone(trained.clone(), Native::in_int8(trained.clone(), device, &int8).unwrap())
        };
        let rows = parity::measure(&mut native(1), &mut exported, &[kind.analyses()], 10).unwrap();
        let worst = |lead: f64| {
            rows.iter().filter(|row| row.lead_hours <= lead).map(parity::Row::share).fold(0.0, f64::max)
        };
        let (first, all) = (worst(rows[0].lead_hours), worst(f64::INFINITY));
        println!("{}: {first:.1e} after a step, {all:.1e} within 10", kind.name);
        // Both count in the same steps, and a step rounds a few dozen times by 6e-8. Where that takes a number to the other side
        // of a half, one of some hundred terms is off by 1/127: now and then, and a tenth of it in the state at most.
        assert!(first < 2e-5 && all < 1e-3, "{}: {first:.1e}, {all:.1e}", kind.name);
        let same = parity::measure(&mut native(1), &mut native(3), &[kind.analyses()], 3).unwrap();
        assert!(same.iter().all(|row| row.max == 0.0), "{}", kind.name);
    }
}

#[test]
fn whole_numbers_come_back_from_their_file_and_serve_no_other_network() {
    let folder = tempfile::tempdir().unwrap();
    let open = |kind: &made::Kind, name: &str| {
        let path = folder.path().join(name);
        kind.save(&path);
        Arc::new(Trained::open(&path).unwrap())
    };
    let all = kinds();
    let (trained, other) = (open(&all[0], "step-1"), open(&all[1], "step-2"));
    let int8 = Int8::of(&trained, ranges(&trained, &all[0])).unwrap();
    let path = folder.path().join("step-int8.safetensors");
    std::fs::write(&path, int8.encode(&trained).unwrap()).unwrap();
    assert_eq!(Int8::read(&path, &trained).unwrap(), int8);
    let refusal = |path: &Path, trained: &Trained| {
        let error = Int8::read(path, trained).unwrap_err();
        assert_eq!(error.advice(), Some("make it with: wxsim export RUN --onnx --precision int8"));
        wxsim::error::chain(&error)
    };
    assert!(refusal(&path, &other).contains("another network"));
    assert!(refusal(&folder.path().join("nothing"), &trained).contains("cannot read"));
    let bytes = std::fs::read(&path).unwrap();
    for length in (0..bytes.len()).step_by(97) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        refusal(&path, &trained);
    }
}

#[test]
fn the_checker_of_onnx_accepts_every_graph() {
    let folder = tempfile::tempdir().unwrap();
    let python = match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) => PathBuf::from(environment).join("bin/python"),
        None => "python3".into(),
    };
    let script =
        "import sys, onnx\nfor name in sys.argv[1:]: onnx.checker.check_model(name, full_check=True)";
    let there = Command::new(&python).args(["-c", "import onnx"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("WXSIM_REQUIRE_ONNX").is_none(), "{} has no onnx", python.display());
        println!("SKIPPED: {} has no package onnx", python.display());
        return;
    }
    let mut files = Vec::new();
    for (number, kind) in kinds().iter().enumerate() {
        let path = folder.path().join(format!("step-{number}"));
        kind.save(&path);
        let trained = Arc::new(Trained::open(&path).unwrap());
        let ranges = ranges(&trained, kind);
        for precision in Precision::ALL {
            for extent in [Extent::Step, Extent::Forecast(2)] {
                let graph = onnx::encode(&trained, precision, extent, Form::Native, Some(&ranges)).unwrap();
                let file = folder.path().join(format!("{number}-{precision}-{extent:?}.onnx"));
                std::fs::write(&file, graph).unwrap();
                files.push(file);
            }
        }
    }
    let output = Command::new(python).args(["-c", script]).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn export(place: &Place, more: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wxsim"));
    command.current_dir(place.folder.path()).args(["export", "run", "--onnx", "--set"]);
    command.arg(format!("data.root='{}'", place.folder.path().display())).args(more);
    command.envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn the_program_writes_the_graph_and_the_comparison_and_says_when_it_fails() {
    let place = Place::new();
    let output = place.train("run", &["--set", "train.rollout=[[1, 2]]"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let graph = place.run("run").join("export/step-fp32.onnx");

    // What cannot be done is refused before anything is written.
    for (more, says) in [
        (&["--calibration", "entropy"][..], "fp32 cuts no activations off"),
        (&["--unrolled", "1001"], "1001 are more than 1000"),
        (&["--tensorrt", "--target", "9.9"], "TensorRT"),
    ] {
        let output = export(&place, more, &[]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(says) && !graph.exists(), "{text}");
    }

    let empty = tempfile::tempdir().unwrap();
    let nothing = [("WXSIM_ONNXRUNTIME", empty.path().to_str().unwrap())];
    let output = export(&place, &[], &nothing);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("nothing has checked it") && text.contains("hint: name a folder"), "{text}");
    assert!(graph.is_file());

    if runtime().is_none() {
        return;
    }
    let output = export(&place, &[], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("msl") && table.contains("RMS/spread"), "{table}");
    let report = std::fs::read_to_string(graph.with_extension("parity.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((report["passed"].as_bool(), report["rows"].as_array().unwrap().len()), (Some(true), 80));

    // Scored like any other forecast, it has the network's own scores: pressure keeps 1e5 / 900 * 6e-8 of its deviation.
    let mut verify = Command::new(env!("CARGO_BIN_EXE_wxsim"));
    verify.current_dir(place.folder.path()).args(["verify", "--model", "run", "--json", "--lead", "2d"]);
    verify.args(["--baseline", "persistence", "--graph", graph.to_str().unwrap()]);
    verify.args(["--set", "data.split.validation=['2001-03-22', '2001-04-01']"]);
    verify.args(["--set", "data.split.test=['2001-04-01', '2001-04-11']"]);
    verify.args(["--set", &format!("data.root='{}'", place.folder.path().display())]);
    let output = verify.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let scores: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let differences = scores["differences"].as_array().unwrap();
    let of = |name: &str| {
        let of_it = differences.iter().filter(|d| d["competitor"] == name);
        of_it.map(|d| d["skill"].as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let (own, exported) = (of("convlstm"), of("convlstm step-fp32"));
    assert!(!own.is_empty() && own.len() == exported.len());
    assert!(own.iter().zip(&exported).all(|(a, b)| (a - b).abs() < 1e-4), "{own:?} {exported:?}");

    // In whole numbers, once they are there.
    let mut forecast = Command::new(env!("CARGO_BIN_EXE_wxsim"));
    forecast.current_dir(place.folder.path()).args(["forecast", "--model", "run", "--lead", "2d"]);
    forecast.args(["--device", "cpu", "--precision", "int8", "--out", "forecasts", "--init", "waves.nc"]);
    let output = forecast.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("wxsim export RUN --onnx --precision int8"), "{text}");
    let output = export(&place, &["--precision", "int8", "--set", "export.bounds.int8=1"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = forecast.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("convolutions in int8"), "{text}");

    let output = export(&place, &["--set", "export.bounds.fp32=1e-12"], &[]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the bound is 1.0e-12"), "{text}");
}
