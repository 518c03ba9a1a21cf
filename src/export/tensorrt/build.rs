//! Builds engines.

use std::collections::BTreeMap;

use trtx::builder::Builder;
use trtx::builder_config::BuilderConfig;
use trtx::{BuilderFlag, DataType, LayerType, NetworkDefinition, OnnxParser, OptProfileSelector};

use super::card::sha256;
use super::library::{self, failed};
use super::{Binding, BuildPlan, Built, Capability, EngineCard};
use crate::error::{Error, Result};
use crate::export::Precision;

/// The cards to build for, where there is all that building takes.
pub fn ready(plan: &BuildPlan) -> Result<Vec<Capability>> {
    let library = library::open()?;
    if !library.parses {
        return Err(
            Error::run(format!("{} is here without its parser of ONNX", library.name)).hint(library::REMEDY)
        );
    }
    let targets = targets(&plan.targets)?;
    check(&targets)?;
    Ok(targets)
}

pub fn build(graph: &[u8], origin: &str, plan: &BuildPlan) -> Result<Built> {
    let targets = ready(plan)?;
    let cannot = |error| failed("the engine cannot be built", error);
    let logger = library::logger()?;
    let mut builder = Builder::new(logger).map_err(cannot)?;
    let mut config = builder.create_config().map_err(cannot)?;
    aim(&mut config, &targets)?;
    match plan.precision {
        Precision::Fp32 => config.clear_flag(BuilderFlag::kTF32),
        _ => config.set_flag(BuilderFlag::kTF32),
    }
    let network = builder.create_network(0).map_err(cannot)?;
    let mut parser = OnnxParser::new(network, logger).map_err(cannot)?;
    parser.parse(graph).map_err(cannot)?;
    let network = parser.network_mut();
    let bindings = bindings(network).map_err(cannot)?;

    let mut profile = builder.creata_optimization_profile().map_err(cannot)?;
    let sizes = [
        (OptProfileSelector::kMIN, plan.batch.least),
        (OptProfileSelector::kOPT, plan.batch.usual),
        (OptProfileSelector::kMAX, plan.batch.most),
    ];
    for binding in bindings.iter().filter(|binding| binding.input) {
        for (which, batch) in sizes {
            let mut shape = binding.shape.clone();
            shape[0] = batch as i64;
            let shape = trtx::trtx_sys::Dims64::from_slice(&shape);
            profile.set_dimensions(&binding.name, which, &shape).map_err(cannot)?;
        }
    }
    config.add_optimization_profile(&mut profile).map_err(cannot)?;
    let (layers, convolutions) = layers(network).map_err(cannot)?;
    let engine = builder.build_serialized_network(network, &mut config).map_err(cannot)?;
    let engine = engine.as_ref().to_vec();
    let card = EngineCard {
        library: library::open()?.name,
        targets,
        precision: plan.precision.name().into(),
        batch: plan.batch,
        run: origin.into(),
        graph_sha256: sha256(graph),
        engine_sha256: sha256(&engine),
        bindings,
        layers,
        convolutions,
    };
    Ok(Built { engine, card })
}

/// The cards that were asked for, or that of this machine.
fn targets(wanted: &[Capability]) -> Result<Vec<Capability>> {
    if !wanted.is_empty() {
        return Ok(wanted.to_vec());
    }
    let card = crate::device::cuda::cards()
        .and_then(|cards| cards.into_iter().next().unwrap_or_else(|| Err(Error::run("there is no GPU"))))
        .map_err(|error| error.context("an engine is built for a GPU, and this machine's cannot be told"))?;
    Ok(vec![Capability(card.capability.0, card.capability.1)])
}

/// TensorRT for RTX builds for any card that it knows.
#[cfg(not(feature = "tensorrt"))]
fn aim(config: &mut BuilderConfig<'_>, targets: &[Capability]) -> Result<()> {
    let cannot = |error| failed("the engine cannot be built for these cards", error);
    config.set_nb_compute_capabilities(targets.len() as i32).map_err(cannot)?;
    for (index, &target) in targets.iter().enumerate() {
        config.set_compute_capability(known(target)?, index as i32).map_err(cannot)?;
    }
    Ok(())
}

#[cfg(not(feature = "tensorrt"))]
fn check(targets: &[Capability]) -> Result<()> {
    targets.iter().try_for_each(|&target| known(target).map(|_| ()))
}

#[cfg(not(feature = "tensorrt"))]
fn known(target: Capability) -> Result<trtx::ComputeCapability> {
    use trtx::ComputeCapability as Known;
    match target {
        Capability(7, 5) => Ok(Known::kSM75),
        Capability(8, 0) => Ok(Known::kSM80),
        Capability(8, 6) => Ok(Known::kSM86),
        Capability(8, 9) => Ok(Known::kSM89),
        Capability(12, 0) => Ok(Known::kSM120),
        other => {
            Err(Error::input(format!("TensorRT for RTX builds no engine for compute capability {other}"))
                .hint("it knows 7.5, 8.0, 8.6, 8.9 and 12.0; other cards need the feature tensorrt"))
        }
    }
}

/// The full library builds for the card that it is on, which it looks for itself.
#[cfg(feature = "tensorrt")]
fn aim(_config: &mut BuilderConfig<'_>, _targets: &[Capability]) -> Result<()> {
    Ok(())
}

#[cfg(feature = "tensorrt")]
fn check(targets: &[Capability]) -> Result<()> {
    let here = self::targets(&[])?;
    if targets != here {
        return Err(Error::input(format!(
            "TensorRT builds engines on the card that they are for, which is one of compute capability {}",
            here[0]
        ))
        .hint("leave out --target, and export on that machine"));
    }
    Ok(())
}

fn bindings(network: &NetworkDefinition<'_>) -> trtx::Result<Vec<Binding>> {
    let mut all = Vec::new();
    for (input, count) in [(true, network.nb_inputs()), (false, network.nb_outputs())] {
        for index in 0..count {
            let tensor = if input { network.input(index)? } else { network.output(index)? };
            all.push(Binding {
                name: tensor.name(network)?,
                input,
                shape: tensor.dimensions(network)?,
                kind: kind(tensor.data_type(network)),
            });
        }
    }
    Ok(all)
}

/// How many layers of each kind there are, and what the convolutions give.
fn layers(network: &NetworkDefinition<'_>) -> trtx::Result<(BTreeMap<String, usize>, Vec<String>)> {
    let (mut layers, mut convolutions) = (BTreeMap::new(), Vec::new());
    for index in 0..network.nb_layers() {
        let layer = network.layer(index)?;
        let which = layer.layer_type_dynamic();
        *layers.entry(format!("{which:?}").trim_start_matches('k').to_lowercase()).or_insert(0) += 1;
        if which == LayerType::kCONVOLUTION {
            convolutions.push(kind(layer.output(network, 0)?.data_type(network)));
        }
    }
    Ok((layers, convolutions))
}

/// `float`, `half`, `bf16`
fn kind(of: DataType) -> String {
    format!("{of:?}").trim_start_matches('k').to_lowercase()
}
