//! However ranks share what they learn, they learn what one does, and in less memory.

use std::time::Duration;

use super::*;
use crate::comm::{Host, run};
use crate::device::cpu::Cpu;
use crate::error::Result;
use crate::model::{Architecture, Geometry};
use crate::train::fixture::{self, LEADS, difference, download};
use crate::train::plan::TrainPlan;
use crate::train::ranks::{ParallelPlan, Ranks};
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;

const BATCH: usize = 24;
const HIDDEN: usize = 24;

/// What is trained, and how.
#[derive(Clone, Copy)]
pub struct Case {
    pub parallel: ParallelPlan,
    pub layers: usize,
    pub accumulate: usize,
    pub recompute: bool,
    pub steps: u64,
    /// Noise to learn by heart: the same batch in all steps.
    pub repeats: bool,
}

impl Case {
    pub fn of(shared: Shared, wire: Wire) -> Self {
        // Pieces that fit no array.
        let parallel = ParallelPlan { bucket_bytes: 1000, shared, wire, ..ParallelPlan::ALONE };
        Self { parallel, layers: 3, accumulate: 1, recompute: false, steps: 5, repeats: false }
    }

    fn plan(&self) -> TrainPlan {
        let Self { accumulate, recompute, .. } = *self;
        TrainPlan { accumulate, recompute, ..fixture::plan(BATCH) }
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Learned {
    /// Average, weights and both moments, block after block.
    pub arrays: Vec<Vec<f64>>,
    /// Of all ranks, by step.
    pub losses: Vec<f64>,
    pub norm: f64,
    /// A forecast of the averaged network.
    pub forecast: Vec<f64>,
    /// Elements of the arena.
    pub memory: usize,
    /// Sent by one rank in the last step.
    pub sent: u64,
}

/// A training on so many ranks; the first one tells.
pub fn learn<T: Real>(size: usize, case: Case) -> Learned {
    let limit = Duration::from_secs(60);
    let each = run(vec![(); size], limit, |(), meeting| {
        let mut communicator = Host::new(meeting);
        let mut cpu = Cpu::new(Some(1))?;
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, case.parallel)?;
        let learned = of_rank::<T>(&mut ranks, &mut cpu, case)?;
        ranks.close(&mut cpu)?;
        Ok(learned)
    });
    each.unwrap().remove(0)
}

fn of_rank<T: Real>(ranks: &mut Ranks<'_, T>, device: &mut dyn Device<T>, case: Case) -> Result<Learned> {
    let plan = case.plan();
    let layout = fixture::layout(vec![40.0, 45.0], 3, 5.0, ["msl", "z500"]);
    let architecture = Architecture {
        layer_norm: true,
        peepholes: true,
        dropout: 0.25,
        ..fixture::architecture(vec![HIDDEN; case.layers])
    };
    let share = ranks.share();
    let own = BATCH / share.of;
    let weights = Weights::new(&plan.loss, &layout, None)?;
    let mut arena = ArenaPlan::default();
    let geometry = Geometry::of(&layout);
    let sharding = ranks.plan.shard(ranks.part());
    let workspace =
        Workspace::<T>::plan(&mut arena, &plan, &architecture, &geometry, &weights, own, sharding)?;
    device.allocate(&arena)?;
    workspace.start(&weights, plan.seed, device);
    let network = &workspace.network;
    let (mut losses, mut norm) = (Vec::new(), 0.0);
    for step in 1..=case.steps {
        workspace.zero_gradients(device);
        let mut loss = 0.0;
        for part in 0..case.accumulate {
            let batch = if case.repeats { 0 } else { step * 10 + part as u64 };
            network.draw_dropout(device, 9, batch, share.number * own);
            let first = share.number * own;
            let frames = fixture::frames(&layout, batch, first..first + own);
            fixture::upload(device, network.slots().frames, &frames);
            workspace.forward(device, ranks, LEADS);
            loss += workspace.loss(device, &lead_weights(&plan.loss, LEADS), 1.0).iter().sum::<f64>();
            workspace.backward(device, ranks, LEADS, part + 1 == case.accumulate);
        }
        let (squares, are_pieces) = workspace.squares(device);
        let mut sums = [loss, squares];
        ranks.total(&mut sums)?;
        losses.push(sums[0]);
        norm = if are_pieces { sums[1] } else { squares }.sqrt();
        workspace.update(device, 0.01, 1.0, step);
        workspace.share_weights(device, ranks);
        workspace.average(device, 0.5);
    }
    let mut arrays = Vec::new();
    for kind in 0..4 {
        for block in workspace.cut.blocks() {
            arrays.push(match workspace.whole(device, ranks, kind, block) {
                Some(slot) => download(device, slot),
                None => {
                    let start = workspace.cut.start(block);
                    let range = start..start + workspace.cut.length(block);
                    workspace.moments.read(device, kind - 2, range).into_iter().map(T::wide).collect()
                }
            });
        }
    }
    let averaged = &workspace.averaged;
    let frames = averaged.slots().frames;
    // The same for every sample, of which others have other numbers.
    let field = layout.grid.points() * layout.channels();
    let value = |i: usize| T::of((i % field % 7) as f64 / 7.0);
    device.upload(frames, &(0..frames.len()).map(value).collect::<Vec<_>>());
    workspace.forecast(device, ranks, false);
    (0..2).for_each(|_| workspace.forecast(device, ranks, true));
    let mut forecast = download(device, averaged.slots().predictions);
    forecast.truncate(field);
    ranks.barrier()?;
    let sent = workspace.line.sent();
    Ok(Learned { arrays, losses, norm, forecast, memory: arena.elements(), sent })
}

/// The worst relative L2 difference of any array, and of norm and forecast.
fn worst(found: &Learned, expected: &Learned) -> f64 {
    assert_eq!(found.arrays.len(), expected.arrays.len());
    let arrays = found.arrays.iter().zip(&expected.arrays).map(|(a, b)| difference(a, b));
    let others =
        [difference(&[found.norm], &[expected.norm]), difference(&found.forecast, &expected.forecast)];
    arrays.chain(others).fold(0.0, f64::max)
}

const STAGES: [Shared; 3] = [Shared::Moments, Shared::Gradients, Shared::Weights];

#[test]
fn ranks_that_share_learn_what_one_learns() {
    let one = learn::<f64>(1, Case::of(Shared::Nothing, Wire::Exact));
    for size in [2, 3, 4, 6, 8] {
        for shared in STAGES {
            let worst = worst(&learn::<f64>(size, Case::of(shared, Wire::Exact)), &one);
            println!("{size} ranks, {shared:?}, float64, five AdamW steps: {worst:.1e}");
            // Sums in another order, each 1e-16 off, through a division by the root of a square.
            assert!(worst < 1e-9, "{size} ranks, {shared:?}: {worst:e}");
        }
    }
}

#[test]
fn nothing_changes_what_is_learned_by_recomputing_accumulating_or_offloading() {
    let with = |case: Case, offload| Case { parallel: ParallelPlan { offload, ..case.parallel }, ..case };
    for (recompute, accumulate, layers) in [(true, 1, 3), (false, 2, 3), (true, 2, 2), (false, 1, 1)] {
        let of = Case::of(Shared::Nothing, Wire::Exact);
        let case = |shared| Case {
            recompute,
            accumulate,
            layers,
            steps: 2,
            parallel: ParallelPlan { shared, ..of.parallel },
            ..of
        };
        let one = learn::<f64>(1, case(Shared::Nothing));
        assert_eq!(learn::<f64>(1, with(case(Shared::Nothing), true)).arrays, one.arrays, "the same bits");
        for shared in [Shared::Gradients, Shared::Weights] {
            let three = learn::<f64>(3, case(shared));
            let worst = worst(&three, &one);
            assert!(worst < 1e-9, "{recompute} {accumulate} {layers} {shared:?}: {worst:e}");
            if shared == Shared::Weights {
                let offloaded = learn::<f64>(3, with(case(shared), true));
                assert_eq!(offloaded.arrays, three.arrays, "the same bits");
            }
        }
    }
}

#[test]
fn what_is_shared_needs_no_memory() {
    let of = |size, shared, offload| {
        let case = Case { layers: 4, steps: 1, ..Case::of(shared, Wire::Exact) };
        let case = Case { parallel: ParallelPlan { offload, ..case.parallel }, ..case };
        learn::<f32>(size, case).memory as f64
    };
    // Of one layer, and of the smallest, which reads fields; blocks of other sizes are small against them.
    let layer = (9 * 2 * HIDDEN * 4 * HIDDEN) as f64;
    let first = (9 * (2 + HIDDEN) * 4 * HIDDEN) as f64;
    let all = 3.0 * layer + first;
    let ranks = 8.0;
    let memory = STAGES.map(|shared| of(8, shared, false));
    let saved = [of(8, Shared::Nothing, false) - memory[0], memory[0] - memory[1], memory[1] - memory[2]];
    // Both moments of 7 of 8; 7 of 8 gradients, for room for those of one layer and for its sum; weights and averages, for
    // room for two layers.
    let expected = [
        2.0 * all * (1.0 - 1.0 / ranks),
        all * (1.0 - 1.0 / ranks) - layer - layer / ranks,
        2.0 * all * (1.0 - 1.0 / ranks) - 2.0 * layer,
    ];
    for (saved, expected) in saved.iter().zip(expected) {
        println!("saved {saved} of {all} weights, expected {expected}");
        assert!((saved - expected).abs() < 0.05 * all, "{saved} instead of {expected}");
    }
    let offloaded = of(8, Shared::Weights, false) - of(8, Shared::Weights, true);
    // They are so few that all of them visit the device at once.
    assert_eq!(offloaded, 0.0);
    let mut arena = ArenaPlan::default();
    crate::train::moments::Moments::<f32>::plan(&mut arena, 10 << 20, true);
    assert_eq!(arena.elements(), 2 << 20);
}

#[test]
fn pieces_are_of_one_length_and_together_the_whole() {
    for of in [1, 2, 3, 8, 64] {
        let lengths = [64, 640, 6400, 0, 128];
        let cuts: Vec<Cut> = (0..of).map(|number| Cut::new(&lengths, Share { number, of })).collect();
        for (block, &length) in lengths.iter().enumerate() {
            let mut end = 0;
            for cut in &cuts {
                let own = cut.own(block);
                assert_eq!(own.start, end);
                assert!(own.len() <= cut.piece(block));
                end = own.end;
            }
            assert_eq!(end, length);
        }
        // Never more than what is cut, and what fills up the last pieces.
        assert!(of * cuts[0].pieces() <= lengths.iter().sum::<usize>() + lengths.len() * of * 64);
    }
    let alone = Cut::new(&[64, 640], Share::ALL);
    assert_eq!((alone.pieces(), alone.start_of_piece(1)), (704, alone.start(1)));
}
