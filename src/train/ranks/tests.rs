//! Any number of ranks learns what one does.

use std::time::Duration;

use super::*;
use crate::comm::{Host, run};
use crate::device::cpu::Cpu;
use crate::device::{ArenaPlan, Device};
use crate::field::Layout;
use crate::io::checkpoint::Tensors;
use crate::model::{Architecture, Geometry, Parameter};
use crate::train::band::Band;
use crate::train::fixture::{self, LEADS, difference, download, norm, plan};
use crate::train::progress::Progress;
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;

const BATCH: usize = 24;
const HIDDEN: usize = 24;
const STEPS: u64 = 5;

/// What follows from the gradients.
#[derive(Clone, Copy, PartialEq)]
enum Optimiser {
    AdamW,
    /// With this rate.
    Descent(f64),
}

/// A grid, and a network on it.
struct Case {
    layout: Layout,
    architecture: Architecture,
}

impl Case {
    fn new(latitudes: Vec<f64>, columns: usize, width: f64, architecture: Architecture) -> Self {
        // Components of the wind turn around across a pole.
        Self { layout: fixture::layout(latitudes, columns, width, ["msl", "u850"]), architecture }
    }

    /// A region of 9 rows, two layers with everything that parts of the units can have.
    fn region() -> Self {
        let plain = fixture::architecture(vec![HIDDEN; 2]);
        let architecture = Architecture { peepholes: true, layer_norm: true, dropout: 0.25, ..plain };
        Self::new((0..9).map(|j| 20.0 + 5.0 * f64::from(j)).collect(), 2, 5.0, architecture)
    }

    /// A globe whose poles lie between rows, in patches: 8 rows and an odd one, of 2; two layers, of which one reads the other.
    fn patches() -> Self {
        let architecture =
            Architecture { patch: 2, peepholes: true, ..fixture::architecture(vec![HIDDEN; 2]) };
        Self::new((0..17).map(|j| -85.0 + 10.0 * f64::from(j)).collect(), 4, 90.0, architecture)
    }

    /// A globe with rows on its poles, and kernels that reach two rows.
    fn wide() -> Self {
        let architecture =
            Architecture { kernel: 5, layer_norm: true, ..fixture::architecture(vec![HIDDEN]) };
        Self::new((0..13).map(|j| -90.0 + 15.0 * f64::from(j)).collect(), 2, 180.0, architecture)
    }
}

/// Every array as it comes out: the gradients of the first step, and the weights after five.
struct Learned {
    parameters: Vec<Parameter>,
    /// Weights of the network that has not learned.
    fresh: Vec<Vec<f64>>,
    gradients: Vec<Vec<f64>>,
    weights: Vec<Vec<f64>>,
    /// Of each step.
    losses: Vec<f64>,
}

/// Of so many parts of the samples, the rows and the channels.
type Mesh = [usize; 3];

fn plan_of([_, domain, channel]: Mesh, shared: Shared) -> ParallelPlan {
    // Pieces that fit no array.
    ParallelPlan { domain, channel, bucket_bytes: 1000, shared, ..ParallelPlan::ALONE }
}

/// A training on a mesh; the first rank tells.
fn learn<T: Real>(case: &Case, mesh: Mesh, optimiser: Optimiser, shared: Shared) -> Learned {
    let limit = Duration::from_secs(60);
    let each = run(vec![(); mesh.iter().product()], limit, |(), meeting| {
        let mut communicator = Host::new(meeting);
        let mut cpu = Cpu::new(Some(1))?;
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, plan_of(mesh, shared))?;
        let learned = of_rank::<T>(&mut ranks, &mut cpu, case, optimiser)?;
        ranks.close(&mut cpu)?;
        Ok(learned)
    });
    // The first ranks hold the parts of the units.
    let each = each.unwrap();
    let joined = |of: fn(&Learned) -> &Vec<Vec<f64>>| {
        let array = |(n, parameter): (usize, &Parameter)| {
            let parts: Vec<Vec<f64>> = each[..mesh[2]].iter().map(|part| of(part)[n].clone()).collect();
            parameter.join(&parts)
        };
        each[0].parameters.iter().enumerate().map(array).collect()
    };
    let (fresh, gradients, weights) =
        (joined(|l| &l.fresh), joined(|l| &l.gradients), joined(|l| &l.weights));
    let (parameters, losses) = (each[0].parameters.clone(), each[0].losses.clone());
    Learned { parameters, fresh, gradients, weights, losses }
}

/// A network with what it takes to learn.
fn open<T: Real>(
    ranks: &Ranks<'_, T>,
    device: &mut dyn Device<T>,
    case: &Case,
) -> Result<(Workspace<T>, Band)> {
    let (plan, part) = (plan(BATCH), ranks.part());
    let geometry = Geometry::of(&case.layout);
    let rows = case.architecture.bands(&geometry, part.rows.of)?.remove(part.rows.number);
    let band = Band::new(rows, &case.layout, 0);
    let weights = Weights::new(&plan.loss, &case.layout, None)?.band(&band);
    let mut arena = ArenaPlan::default();
    let workspace = Workspace::<T>::plan(
        &mut arena,
        &plan,
        &case.architecture,
        &geometry.band(&band.rows),
        &weights,
        BATCH / part.samples.of,
        ranks.plan.shard(part),
    )?;
    device.allocate(&arena)?;
    workspace.start(&weights, plan.seed, device);
    Ok((workspace, band))
}

/// Adds up the gradients of a step and gives its loss.
fn gradients<T: Real>(
    ranks: &mut Ranks<'_, T>,
    device: &mut dyn Device<T>,
    (workspace, band): (&Workspace<T>, &Band),
    case: &Case,
    step: u64,
) -> Result<f64> {
    let share = ranks.share();
    let own = BATCH / share.of;
    let network = &workspace.network;
    workspace.zero_gradients(device);
    network.draw_dropout(device, 9, step, share.number * own);
    let first = share.number * own;
    let frames = fixture::frames(&case.layout, step, first..first + own);
    fixture::upload(device, network.slots().frames, &band.cut(&frames, case.layout.channels()));
    workspace.forward(device, ranks, LEADS);
    let weights = lead_weights(&plan(BATCH).loss, LEADS);
    let losses = workspace.loss(device, &weights, 1.0);
    workspace.backward(device, ranks, LEADS, true);
    let mut loss = [losses.iter().zip(weights).map(|(loss, weight)| ranks.once(loss * weight)).sum()];
    ranks.total(&mut loss)?;
    Ok(loss[0])
}

fn of_rank<T: Real>(
    ranks: &mut Ranks<'_, T>,
    device: &mut dyn Device<T>,
    case: &Case,
    optimiser: Optimiser,
) -> Result<Learned> {
    let (workspace, band) = open(ranks, device, case)?;
    let network = &workspace.network;
    let arrays = |device: &dyn Device<T>, gradients: bool| -> Vec<Vec<f64>> {
        let slot = |p: &Parameter| if gradients { p.gradient } else { p.slot };
        network.parameters().iter().map(|p| p.to_checkpoint(&download(device, slot(p)))).collect()
    };
    let fresh = arrays(device, false);
    let (mut first, mut losses) = (Vec::new(), Vec::new());
    for step in 1..=STEPS {
        losses.push(gradients(ranks, device, (&workspace, &band), case, step)?);
        if step == 1 {
            first = arrays(device, true);
        }
        match optimiser {
            Optimiser::AdamW => {
                workspace.update(device, 0.01, 1.0, step);
                workspace.share_weights(device, ranks);
            }
            Optimiser::Descent(rate) => {
                let (slot, gradient) = (network.weights(), download(device, network.gradients()));
                let moved =
                    download(device, slot).into_iter().zip(gradient).map(|(w, g)| T::of(w - rate * g));
                device.upload(slot, &moved.collect::<Vec<T>>());
            }
        }
    }
    Ok(Learned {
        parameters: network.parameters().to_vec(),
        fresh,
        gradients: first,
        weights: arrays(device, false),
        losses,
    })
}

/// Of the arrays whose number passes.
fn worst(found: &[Vec<f64>], expected: &[Vec<f64>], passes: impl Fn(usize) -> bool) -> f64 {
    (0..found.len()).filter(|&i| passes(i)).map(|i| difference(&found[i], &expected[i])).fold(0.0, f64::max)
}

#[test]
fn every_rank_goes_on_with_its_own_choices() {
    let all = run(vec![(); 3], Duration::from_secs(60), |(), meeting| {
        let mut communicator = Host::new(meeting);
        let plan = ParallelPlan::ALONE;
        let mut cpu = Cpu::<f32>::new(Some(1))?;
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, plan)?;
        let own = ranks.share().number;
        ranks.choices([("convolution".to_owned(), format!("plan \"{own}\""))].into())
    });
    let mut choices = all.unwrap().remove(2).into_iter();
    let progress = Progress {
        choices: choices.next().unwrap(),
        other_choices: choices.collect(),
        ..Progress::default()
    };
    let of = |rank| progress.choices_of(rank)["convolution"].as_str();
    assert_eq!([of(0), of(1), of(2)], ["plan \"0\"", "plan \"1\"", "plan \"2\""]);
    assert_eq!(of(3), of(0), "a rank that was not there follows the first");
}

#[test]
fn a_mesh_numbers_channels_first_then_bands_then_samples() {
    let plan = ParallelPlan { domain: 3, channel: 2, shared: Shared::Moments, ..ParallelPlan::ALONE };
    let part = plan.part(17, 24).unwrap();
    let share = |number, of| Share { number, of };
    assert_eq!(part, Part { samples: share(2, 4), rows: share(2, 3), units: share(1, 2) });
    assert_eq!(part.replica(), share(8, 12));
    let error = plan.part(0, 8).unwrap_err();
    assert!(
        error.to_string().contains("8 ranks are no multiple of") && error.advice().unwrap().contains("12")
    );
    // Those that hold the same weights meet.
    let sums = run(vec![(); 12], Duration::from_secs(60), |(), meeting| {
        let mut communicator = Host::new(meeting);
        let mut cpu = Cpu::<f64>::new(Some(1))?;
        let own = Communicator::<f64>::rank(&communicator);
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, plan)?;
        let mut sum = [own as f64];
        ranks.replicas().total(&mut sum)?;
        assert_eq!(ranks.replicas().rank(), ranks.part().replica().number);
        ranks.close(&mut cpu)?;
        Ok(sum[0])
    });
    assert_eq!(sums.unwrap(), [30.0, 36.0].repeat(6));
}

/// All meshes of so many ranks, except that of one.
fn meshes(sizes: &[usize]) -> Vec<Mesh> {
    let parts = |size: usize| (1..=size).filter(move |&n| size.is_multiple_of(n));
    let of = |size: usize| {
        let each = parts(size).map(move |data| (data, size / data));
        each.flat_map(move |(data, rest)| parts(rest).map(move |domain| [data, domain, rest / domain]))
    };
    sizes.iter().flat_map(|&size| of(size)).collect()
}

const SIZES: [usize; 5] = [2, 3, 4, 6, 8];

/// Every mesh of these learns what one rank does, in float64.
fn learns_the_same_in_float64(case: &Case, meshes: impl Iterator<Item = Mesh>) {
    let one = learn::<f64>(case, [1; 3], Optimiser::AdamW, Shared::Nothing);
    for mesh in meshes {
        let many = learn::<f64>(case, mesh, Optimiser::AdamW, Shared::Moments);
        let worst = worst(&many.weights, &one.weights, |_| true);
        println!("{mesh:?}, float64, five AdamW steps: {worst:.1e}");
        // Sums in another order, each 1e-16 off, through a division by the root of a square.
        assert!(worst < 1e-9, "{mesh:?}: {worst:e}");
        assert!(difference(&many.losses, &one.losses) < 1e-9, "{mesh:?}: {:?}", many.losses);
    }
}

fn cases() -> [Case; 3] {
    [Case::region(), Case::patches(), Case::wide()]
}

/// What a case cannot be divided into is refused elsewhere.
fn can_be(case: &Case, [_, domain, channel]: Mesh) -> bool {
    let bands = case.architecture.bands(&Geometry::of(&case.layout), domain);
    bands.is_ok() && case.architecture.check_units(channel).is_ok()
}

#[test]
fn every_mesh_learns_what_one_rank_learns_in_float64() {
    // Each mesh with one of the cases, in turns.
    let cases = cases();
    let case_of = |n: usize, mesh| (n..).map(|n| n % 3).find(|&case| can_be(&cases[case], mesh));
    let of: Vec<_> =
        meshes(&SIZES).into_iter().enumerate().map(|(n, mesh)| (case_of(n, mesh), mesh)).collect();
    for (number, case) in cases.iter().enumerate() {
        let own = of.iter().filter(|(case, _)| *case == Some(number));
        learns_the_same_in_float64(case, own.map(|(_, mesh)| *mesh));
    }
}

#[test]
#[ignore = "minutes: each mesh with every case"]
fn every_mesh_learns_what_one_rank_learns_in_float64_in_every_case() {
    for case in cases() {
        let meshes = meshes(&SIZES).into_iter().filter(|&mesh| can_be(&case, mesh));
        learns_the_same_in_float64(&case, meshes);
    }
}

#[test]
fn who_updates_what_changes_no_bit() {
    let case = Case::patches();
    for mesh in [[2, 1, 1], [3, 2, 1], [2, 1, 2]] {
        let [shared, own] = [Shared::Moments, Shared::Nothing]
            .map(|shared| learn::<f64>(&case, mesh, Optimiser::AdamW, shared));
        assert!(shared.weights == own.weights, "{mesh:?}");
    }
}

/// Every mesh of these learns what one rank does, in float32.
fn learns_the_same_in_float32(case: &Case, meshes: impl Iterator<Item = Mesh>) {
    let one = learn::<f32>(case, [1; 3], Optimiser::Descent(0.1), Shared::Nothing);
    let starts_at_zero = |i: usize| norm(one.fresh[i].iter().copied()) == 0.0;
    for mesh in meshes {
        let many = learn::<f32>(case, mesh, Optimiser::Descent(0.1), Shared::Nothing);
        let gradients = worst(&many.gradients, &one.gradients, |_| true);
        let weights = worst(&many.weights, &one.weights, |i| !starts_at_zero(i));
        // These are nothing but gradients added up, and no more exact.
        let sums = worst(&many.weights, &one.weights, starts_at_zero);
        println!("{mesh:?}, float32: gradients {gradients:.1e}, weights {weights:.1e}, from zero {sums:.1e}");
        assert!(gradients < 1e-5 && weights < 1e-6 && sums < 1e-5, "{mesh:?}");
    }
}

#[test]
fn a_mesh_learns_what_one_rank_learns_in_float32() {
    learns_the_same_in_float32(
        &Case::region(),
        [[2, 1, 1], [1, 3, 1], [1, 8, 1], [1, 1, 2], [2, 2, 2]].into_iter(),
    );
    learns_the_same_in_float32(&Case::wide(), [[4, 1, 1], [2, 2, 1]].into_iter());
}

#[test]
#[ignore = "minutes: each mesh with every case"]
fn every_mesh_learns_what_one_rank_learns_in_float32_in_every_case() {
    for case in cases() {
        let meshes = meshes(&SIZES).into_iter().filter(|&mesh| can_be(&case, mesh));
        learns_the_same_in_float32(&case, meshes);
    }
}

/// Updates `steps` from what is kept to what can be kept.
fn go_on(
    case: &Case,
    (mesh, shared): (Mesh, Shared),
    from: Option<&Tensors>,
    steps: std::ops::RangeInclusive<u64>,
) -> Tensors {
    let each = run(vec![(); mesh.iter().product()], Duration::from_secs(60), |(), meeting| {
        let mut communicator = Host::new(meeting);
        let mut cpu = Cpu::<f32>::new(Some(1))?;
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, plan_of(mesh, shared))?;
        let (workspace, band) = open(&ranks, &mut cpu, case)?;
        if let Some(tensors) = from {
            workspace.read_tensors(&mut cpu, &mut ranks, tensors)?;
        }
        for step in steps.clone() {
            gradients(&mut ranks, &mut cpu, (&workspace, &band), case, step)?;
            workspace.update(&mut cpu, 0.01, 1.0, step);
            workspace.share_weights(&mut cpu, &mut ranks);
            workspace.average(&mut cpu, 0.5);
        }
        let tensors = workspace.to_tensors(&mut cpu, &mut ranks);
        ranks.close(&mut cpu)?;
        Ok(tensors)
    });
    // Each has written its part.
    each.unwrap().into_iter().flatten().collect()
}

#[test]
fn what_one_mesh_has_kept_another_continues() {
    let case = Case::patches();
    let one = go_on(&case, ([1; 3], Shared::Nothing), None, 1..=3);
    let mut kept = None;
    let meshes = [([2, 2, 1], Shared::Weights), ([1, 1, 1], Shared::Nothing), ([1, 2, 3], Shared::Gradients)];
    for (step, mesh) in meshes.into_iter().enumerate() {
        let step = step as u64 + 1;
        kept = Some(go_on(&case, mesh, kept.as_ref(), step..=step));
    }
    let kept = kept.unwrap();
    assert_eq!(kept.len(), one.len());
    for (name, tensor) in &one {
        assert_eq!(kept[name].shape, tensor.shape);
        let of = |tensors: &Tensors| -> Vec<f64> {
            tensors[name].as_f32().unwrap().iter().map(|&x| f64::from(x)).collect()
        };
        // Adam divides small gradients by their own size, rounding included.
        let difference = difference(&of(&kept), &of(&one));
        assert!(difference < 1e-3, "{name}: {difference:e}");
    }
}
