//! What is lost on the wire does not keep ranks from learning, and takes fewer bytes.

use super::*;
use crate::train::zero::Shared;
use crate::train::zero::tests::{Case, Learned, learn};

const WIRES: [Wire; 2] = [Wire::Bf16, Wire::Largest { keep: 205 }];

/// Forty updates on one batch that is learned by heart.
fn by_heart(size: usize, shared: Shared, wire: Wire) -> Learned {
    learn::<f32>(size, Case { layers: 2, steps: 40, repeats: true, ..Case::of(shared, wire) })
}

#[test]
fn lossy_wires_learn_as_much() {
    let exact = by_heart(3, Shared::Nothing, Wire::Exact);
    let (first, last) = (exact.losses[0], exact.losses[39]);
    assert!(last < 0.6 * first, "{first} {last}");
    for wire in WIRES {
        for shared in [Shared::Nothing, Shared::Gradients, Shared::Weights] {
            let lossy = by_heart(3, shared, wire);
            let lossy_last = lossy.losses[39];
            println!("{wire:?}, {shared:?}: {first:.4} to {lossy_last:.4}, {last:.4} where nothing is lost");
            // Of what the lossless training has learned: roundings of 1/256 of single gradients; of 5 % of them at a time, the
            // rest comes twenty updates later.
            let bound = if wire == Wire::Bf16 { 0.02 } else { 0.35 };
            assert!((lossy_last - last).abs() < bound * (first - last), "{wire:?} {shared:?}");
        }
    }
}

#[test]
fn fewer_bytes_are_sent_and_all_are_counted() {
    let sent = |shared, wire| {
        let case = Case { layers: 2, steps: 1, ..Case::of(shared, wire) };
        let bytes = learn::<f32>(4, case).sent as f64;
        println!("{wire:?}, {shared:?}: {bytes} bytes");
        bytes
    };
    // 4 ranks: 2 x 3/4 of the gradients, 4 bytes each, in blocks that are filled up.
    let gradients = (9 * (26 + 48) * 96 + 2 * 14 * 24 + 64 * 2) as f64;
    let exact = sent(Shared::Nothing, Wire::Exact);
    assert!((exact / (1.5 * 4.0 * gradients) - 1.0).abs() < 0.05, "{exact} {gradients}");
    assert!((sent(Shared::Gradients, Wire::Exact) / exact - 0.5).abs() < 0.05);
    let (half, quarter) = (sent(Shared::Nothing, Wire::Bf16), sent(Shared::Gradients, Wire::Bf16));
    // Buckets of 250 numbers, filled up to 256.
    assert!((half / exact - 0.5).abs() < 0.03 && (quarter / exact - 0.25).abs() < 0.03);
    // To 3 others, 8 bytes for each pair.
    let pairs = sent(Shared::Gradients, Wire::Largest { keep: 41 });
    let expected = 3.0 * 8.0 * 0.01 * gradients;
    assert!(pairs > expected && pairs < 1.1 * expected + 3.0 * 8.0 * 3.0 * 41.0, "{pairs} {expected}");
    assert_eq!(learn::<f32>(1, Case::of(Shared::Nothing, Wire::Bf16)).sent, 0, "nobody to send to");
}

#[test]
fn what_is_kept_back_is_sent_later() {
    use crate::comm::{Host, run};
    use crate::device::cpu::Cpu;
    // Two ranks, gradients of one size each, of which a quarter is sent at a time: all of them in four updates.
    let sums = run(vec![(); 2], std::time::Duration::from_secs(20), |(), meeting| {
        let mut ranks = Host::new(meeting);
        let own = Communicator::<f32>::rank(&ranks) as f32;
        let (len, wire) = (Picking::BLOCK, Wire::Largest { keep: Picking::BLOCK / 4 });
        let mut arena = ArenaPlan::default();
        let block = arena.slot(len);
        let line = Line::plan::<f32>(&mut arena, wire, 2, &[len], len, false);
        let mut device = Cpu::<f32>::new(Some(1))?;
        device.allocate(&arena)?;
        let mut sums = vec![0.0; len];
        for update in 0..4 {
            let value = if update == 0 { 1.0 + own } else { 0.0 };
            device.upload(block, &vec![value; len]);
            line.add_up(&mut device, &mut ranks, block, 0);
            let mut sum = vec![0.0; len];
            device.download(block, &mut sum);
            assert_eq!(sum.iter().filter(|&&x| x != 0.0).count(), len / 4);
            sums.iter_mut().zip(sum).for_each(|(all, sum)| *all += sum);
        }
        Ok(sums)
    });
    assert!(sums.unwrap().iter().flatten().all(|&sum| sum == 3.0));
}
