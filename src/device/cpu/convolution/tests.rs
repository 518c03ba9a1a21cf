//! Every direction on every instruction path against sums in float64.

use super::super::super::{ArenaPlan, Convolution, Device, Real, Write};
use super::super::{Cpu, Instructions};

/// Odd rows, columns and channels; few and many channels; every kernel from 1 to 9; sizes around the register tiles.
fn shapes() -> Vec<Convolution> {
    let shape = |images, rows, columns, inputs, outputs, kernel| Convolution {
        images,
        rows,
        columns,
        inputs,
        outputs,
        kernel,
    };
    vec![
        shape(1, 1, 1, 1, 1, 1),
        shape(2, 5, 7, 3, 64, 3),
        shape(1, 6, 12, 32, 128, 3),
        shape(3, 4, 13, 16, 64, 5),
        shape(1, 9, 8, 12, 72, 7),
        shape(1, 3, 2, 5, 17, 9),
        shape(2, 7, 5, 32, 3, 1),
        shape(1, 2, 25, 7, 100, 3),
        shape(2, 3, 6, 33, 65, 3),
    ]
}

fn numbers(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Exact in float32, so that both precisions start from the same numbers.
            f64::from((state >> 40) as i32 - (1 << 23)) / f64::from(1 << 23)
        })
        .collect()
}

struct Results {
    forward: Vec<f64>,
    added: Vec<f64>,
    input_gradient: Vec<f64>,
    weight_gradient: Vec<f64>,
}

fn run<T: Real>(shape: &Convolution, threads: usize, instructions: Instructions) -> Results {
    let mut plan = ArenaPlan::default();
    let (x, w, y, y2) = (
        plan.slot(shape.x_len()),
        plan.slot(shape.w_len()),
        plan.slot(shape.y_len()),
        plan.slot(shape.y_len()),
    );
    let (dx, dw) = (plan.slot(shape.x_len()), plan.slot(shape.w_len()));
    let mut device = Cpu::<T>::with_instructions(Some(threads), instructions).unwrap();
    device.allocate(&plan).unwrap();
    let put = |device: &mut Cpu<T>, slot, values: Vec<f64>| {
        device.upload(slot, &values.into_iter().map(T::of).collect::<Vec<_>>());
    };
    put(&mut device, x, numbers(shape.x_len(), 1));
    put(&mut device, w, numbers(shape.w_len(), 2));
    put(&mut device, y, vec![f64::NAN; shape.y_len()]);
    put(&mut device, y2, numbers(shape.y_len(), 3));
    put(&mut device, dx, vec![f64::NAN; shape.x_len()]);
    put(&mut device, dw, numbers(shape.w_len(), 4));
    device.convolve(shape, x, w, y, Write::Overwrite);
    device.convolve_input_gradient(shape, y2, w, dx);
    device.convolve_weight_gradient(shape, x, y2, dw);
    device.convolve(shape, x, w, y2, Write::Add);
    let get = |slot: crate::device::Slot| {
        let mut values = vec![T::default(); slot.len()];
        device.download(slot, &mut values);
        values.into_iter().map(Real::wide).collect::<Vec<_>>()
    };
    Results { forward: get(y), added: get(y2), input_gradient: get(dx), weight_gradient: get(dw) }
}

/// Root mean square difference relative to the root mean square of `exact`.
fn distance(ours: &[f64], exact: &[f64]) -> f64 {
    assert!(ours.iter().all(|value| value.is_finite()), "something was not written");
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    (square(&mut ours.iter().zip(exact).map(|(a, b)| a - b)) / square(&mut exact.iter().copied())).sqrt()
}

#[test]
fn every_direction_agrees_with_float64_on_every_instruction_path() {
    // A sum of n products rounds to about sqrt(n) / 4 units of 6e-8, so 2e-6 for the longest here; Winograd's transforms
    // multiply that by up to 10 at 8 points. A single wrong number among some thousand is an error of 1e-2.
    const TOLERANCE: f64 = 5e-6;
    for shape in shapes() {
        let exact = run::<f64>(&shape, 1, Instructions::Portable);
        for instructions in Instructions::ALL.into_iter().filter(|set| set.is_available()) {
            let ours = run::<f32>(&shape, 2, instructions);
            for (what, ours, exact) in [
                ("forward", &ours.forward, &exact.forward),
                ("added", &ours.added, &exact.added),
                ("input gradient", &ours.input_gradient, &exact.input_gradient),
                ("weight gradient", &ours.weight_gradient, &exact.weight_gradient),
            ] {
                let distance = distance(ours, exact);
                assert!(distance < TOLERANCE, "{what} {shape:?} {instructions}: {distance:.2e}");
            }
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    for shape in shapes() {
        for instructions in Instructions::ALL.into_iter().filter(|set| set.is_available()) {
            let one = run::<f32>(&shape, 1, instructions);
            for threads in [2, 3] {
                let many = run::<f32>(&shape, threads, instructions);
                assert_eq!(one.forward, many.forward, "forward {shape:?} {instructions}");
                assert_eq!(one.added, many.added, "added {shape:?} {instructions}");
                assert_eq!(
                    one.input_gradient, many.input_gradient,
                    "input gradient {shape:?} {instructions}"
                );
                assert_eq!(
                    one.weight_gradient, many.weight_gradient,
                    "weight gradient {shape:?} {instructions}"
                );
            }
        }
    }
}

#[test]
fn both_gradients_are_transposes_of_the_forward_pass() {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for shape in shapes() {
        let results = run::<f64>(&shape, 2, Instructions::best());
        let (x, w, y) = (numbers(shape.x_len(), 1), numbers(shape.w_len(), 2), numbers(shape.y_len(), 3));
        let forward = dot(&results.forward, &y);
        // dw was added to what stood there.
        let weights = dot(&w, &results.weight_gradient) - dot(&w, &numbers(shape.w_len(), 4));
        // The three are sums of the same products in another order.
        let tolerance = f64::EPSILON * shape.flops();
        assert!((dot(&x, &results.input_gradient) - forward).abs() < tolerance, "input gradient {shape:?}");
        assert!((weights - forward).abs() < tolerance, "weight gradient {shape:?}");
    }
}
