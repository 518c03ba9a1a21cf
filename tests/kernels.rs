//! The GPU's kernels, without a GPU: every one compiles for every card that its file names, keeps its numbers in registers
//! where that decides about its speed, and no operation is without a kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use wxsim::device::cuda::{Numbers, Nvrtc, SOURCES, Source, compile};

/// Ampere, Hopper, Blackwell: what every operation has a kernel for.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90a", "sm_100"];

/// Operations that are calls of the driver, or nothing at all.
const WITHOUT_KERNEL: [&str; 21] = [
    "describe",
    "allocate",
    "bytes",
    "room",
    "choices",
    "choose",
    "cuda",
    "company",
    "repeat",
    "aside",
    "join",
    "finish",
    "upload",
    "download",
    "start_copy",
    "copied",
    "stage",
    "hand_over",
    "beside",
    "zero",
    "copy",
];

/// Whether there is a compiler. Its absence is a failure where WXSIM_REQUIRE_NVRTC says that it must be there.
fn compiler_is_there() -> bool {
    match Nvrtc::get() {
        Ok(nvrtc) => {
            println!("NVRTC {}.{} of {}", nvrtc.version.0, nvrtc.version.1, nvrtc.path.display());
            true
        }
        Err(error) => {
            let sentence = format!("{error}; {}", error.advice().unwrap_or_default());
            assert!(std::env::var_os("WXSIM_REQUIRE_NVRTC").is_none(), "{sentence}");
            println!("SKIPPED: {sentence}");
            false
        }
    }
}

/// Bytes that each kernel stores to and loads from memory for want of registers, from the log of the assembler.
fn spills(log: &str) -> BTreeMap<String, u64> {
    let mut kernel = String::new();
    let mut spills = BTreeMap::new();
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            kernel = name.trim().to_owned();
        } else if line.contains("bytes spill stores") {
            let bytes = line.split(',').filter(|part| part.contains("spill"));
            let number = |part: &str| part.trim().split(' ').next().and_then(|n| n.parse::<u64>().ok());
            spills.insert(kernel.clone(), bytes.filter_map(number).sum());
        }
    }
    spills
}

#[test]
fn every_kernel_compiles_for_every_card_that_it_names_and_the_hot_ones_do_not_spill() {
    if !compiler_is_there() {
        return;
    }
    for source in SOURCES {
        let hot = source.header("hot");
        for architecture in source.header("architectures") {
            // Without activations, 16 bits of them make no difference.
            let has_activations =
                source.text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "act");
            for numbers in Numbers::ALL.into_iter().filter(|numbers| has_activations || !numbers.is_narrow())
            {
                let what = format!("{} for {architecture}, {numbers:?}", source.name);
                let output = compile(source, architecture, numbers).unwrap_or_else(|error| {
                    panic!("{what}: {}", wxsim::error::chain(&error));
                });
                assert_eq!(&output.cubin[..4], b"\x7fELF", "{what}");
                assert!(!output.log.contains("warning"), "{what}: {}", output.log);
                let spills = spills(&output.log);
                for (kernel, _) in source.kernels() {
                    let spilled = spills.get(kernel);
                    assert!(
                        spilled.is_some(),
                        "{what}: the compiler says nothing of {kernel}: {}",
                        output.log
                    );
                    if hot.contains(&kernel) && numbers != Numbers::Double {
                        assert_eq!(spilled, Some(&0), "{what}: {kernel} spills");
                    }
                }
            }
        }
    }
}

#[test]
fn headers_name_the_architectures_and_only_kernels_that_there_are() {
    for source in SOURCES {
        assert_eq!(source.header("architectures"), ARCHITECTURES, "{}", source.name);
        let kernels: Vec<&str> = source.kernels().into_iter().map(|(name, _)| name).collect();
        for hot in source.header("hot") {
            assert!(kernels.contains(&hot), "{} has no kernel {hot}", source.name);
        }
    }
    let mut all: Vec<&str> = SOURCES.iter().flat_map(Source::kernels).map(|(name, _)| name).collect();
    all.sort_unstable();
    let kernels = all.len();
    all.dedup();
    assert_eq!(all.len(), kernels, "two kernels have one name");
}

#[test]
fn every_operation_of_a_device_has_a_kernel() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/mod.rs");
    let text = fs::read_to_string(path).unwrap();
    let (_, of_trait) = text.split_once("pub trait Device<T: Real>").unwrap();
    let operations: Vec<&str> = of_trait
        .split("\n    fn ")
        .skip(1)
        .filter_map(|method| method.split_once('(').map(|(name, _)| name))
        .collect();
    assert!(operations.contains(&"relax"), "the trait is read: {operations:?}");
    let with_kernel: Vec<&str> = SOURCES.iter().flat_map(|source| source.header("operations")).collect();
    for operation in &operations {
        let ways =
            usize::from(WITHOUT_KERNEL.contains(operation)) + usize::from(with_kernel.contains(operation));
        assert_eq!(ways, 1, "{operation} has no kernel, or is listed twice");
    }
    for name in with_kernel {
        assert!(operations.contains(&name), "{name} is no operation of a device");
    }
}
