//! Whole networks on the CPU: what must hold beside the gradients.

use wxsim::device::cpu::{Cpu, Instructions};
use wxsim::device::{AdamW, ArenaPlan, Device, Edge, Loss, Real, Slot};
use wxsim::model::{Architecture, Geometry, Network, Purpose};

const BATCH: usize = 3;
const LEADS: usize = 2;

/// Odd in every way: 17 and more units, channels that no vector likes, rows that no patch divides.
fn architecture() -> Architecture {
    Architecture {
        prognostic: 3,
        statics: 1,
        forcings: 2,
        hidden: vec![20, 17],
        kernel: 3,
        patch: 2,
        layer_norm: true,
        peepholes: true,
        residual: true,
        input_frames: 2,
        dropout: 0.3,
    }
}

fn geometry() -> Geometry {
    let north_south = [Edge::Pole { row_on_pole: true }; 2];
    Geometry { rows: 9, columns: 8, periodic: true, north_south, odd: vec![false, true, false] }
}

fn noise(len: usize, seed: u64) -> Vec<f64> {
    (0..len).map(|i| ((i as f64 + 1.0) * (12.9898 + seed as f64)).sin()).collect()
}

fn upload<T: Real>(device: &mut dyn Device<T>, slot: Slot, values: &[f64]) {
    device.upload(slot, &values.iter().map(|&x| T::of(x)).collect::<Vec<_>>());
}

fn download<T: Real>(device: &dyn Device<T>, slot: Slot) -> Vec<f64> {
    let mut values = vec![T::default(); slot.len()];
    device.download(slot, &mut values);
    values.into_iter().map(Real::wide).collect()
}

/// Predictions and all gradients of one training step.
fn train<T: Real>(mut device: Cpu<T>, architecture: &Architecture) -> [Vec<f64>; 2] {
    let mut plan = ArenaPlan::default();
    let network =
        Network::<T>::plan(&mut plan, architecture, &geometry(), BATCH, LEADS, Purpose::Train).unwrap();
    device.allocate(&plan).unwrap();
    network.prepare(&mut device);
    network.initialise(&mut device, 3);
    if architecture.dropout > 0.0 {
        network.draw_dropout(&mut device, 3, 8, 0);
    }
    let slots = network.slots();
    for (seed, slot) in [slots.frames, slots.forcings, slots.statics].into_iter().enumerate() {
        upload(&mut device, slot, &noise(slot.len(), seed as u64));
    }
    network.forward(&mut device, LEADS);
    upload(&mut device, slots.prediction_gradients, &noise(slots.prediction_gradients.len(), 9));
    network.backward(&mut device, LEADS);
    [download(&device, slots.predictions), download(&device, network.gradients())]
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let [one, two] = [1, 2].map(|threads| train(Cpu::<f32>::new(Some(threads)).unwrap(), &architecture()));
    assert_eq!(one, two);
}

#[test]
fn every_set_of_instructions_agrees_with_float64() {
    let exact = train(Cpu::<f64>::new(Some(1)).unwrap(), &architecture());
    for set in Instructions::ALL.into_iter().filter(|set| set.is_available()) {
        let found = train(Cpu::<f32>::with_instructions(Some(2), set).unwrap(), &architecture());
        for (what, (found, exact)) in ["predictions", "gradients"].iter().zip(found.iter().zip(&exact)) {
            let largest = exact.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            let worst = found.iter().zip(exact).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
            // Sums of up to 1000 products, through three steps of two layers: some hundred roundings of 6e-8.
            assert!(worst < 2e-5 * largest, "{set}: {what} off by {:.1e}", worst / largest);
        }
    }
}

#[test]
fn a_forecast_step_by_step_is_the_rollout_of_training() {
    for dropout in [0.0, 0.3] {
        let architecture = Architecture { dropout, ..architecture() };
        let mut plan = ArenaPlan::default();
        let network = |plan: &mut ArenaPlan, purpose| {
            Network::<f64>::plan(plan, &architecture, &geometry(), BATCH, 3, purpose).unwrap()
        };
        let training = network(&mut plan, Purpose::Train);
        let forecast = network(&mut plan, Purpose::Forecast);
        let device = &mut Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        training.prepare(device);
        forecast.prepare(device);
        training.initialise(device, 1);
        device.copy(training.weights(), forecast.weights());
        let (from, to) = (training.slots(), forecast.slots());
        for (seed, slot) in [from.frames, from.forcings, from.statics].into_iter().enumerate() {
            upload(device, slot, &noise(slot.len(), seed as u64));
        }
        training.forward(device, 3);
        device.copy(from.statics, to.statics);
        device.copy(from.frames.part(0, to.frames.len()), to.frames);
        device.copy(from.forcings.part(0, to.forcings.len()), to.forcings);
        // What a forecast left behind must not matter.
        forecast.warm_up(device);
        forecast.step(device);
        forecast.warm_up(device);
        let expected = download(device, from.predictions);
        for (lead, expected) in expected.chunks(to.predictions.len()).enumerate() {
            let each = forecast.step_forcings().len();
            device.copy(from.forcings.part((1 + lead) * each, each), forecast.step_forcings());
            forecast.step(device);
            for (found, expected) in download(device, to.predictions).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "lead {lead}: {found} and {expected}");
            }
        }
    }
}

#[test]
fn the_untrained_forecast_is_nearly_persistence() {
    let architecture = Architecture { dropout: 0.0, ..architecture() };
    let [predictions, _] = train(Cpu::<f64>::new(Some(1)).unwrap(), &architecture);
    let each = predictions.len() / LEADS;
    let last = &noise((architecture.input_frames + LEADS) * each, 0)[each..2 * each];
    for (prediction, state) in predictions[..each].iter().zip(last) {
        // |head| <= sum over 17 units of 0.1 / sqrt(17) |h|, and |h| < 1.
        assert!((prediction - state).abs() < 0.42);
    }
    let moved = predictions[..each].iter().zip(last).map(|(p, s)| (p - s).powi(2)).sum::<f64>() / each as f64;
    assert!(moved.sqrt() < 0.05 && moved > 0.0, "{}", moved.sqrt());
}

#[test]
fn shapes_that_do_not_fit_are_refused_by_name() {
    let refused = |architecture: &Architecture, geometry: &Geometry| {
        let plan = &mut ArenaPlan::default();
        Network::<f32>::plan(plan, architecture, geometry, 1, 1, Purpose::Forecast).err().unwrap().to_string()
    };
    let patch = Architecture { patch: 4, ..architecture() };
    let twelve = Geometry { columns: 12, ..geometry() };
    assert!(refused(&patch, &twelve).contains("half the longitudes"));
    let regional = Geometry { periodic: false, north_south: [Edge::Replicate; 2], columns: 10, ..geometry() };
    assert!(refused(&patch, &regional).contains("does not divide the 10 columns"));
    let odd_columns = Geometry { columns: 13, ..geometry() };
    let fine = Architecture { patch: 1, ..architecture() };
    assert!(refused(&fine, &odd_columns).contains("even number of columns, found 13"));
    let parities = Geometry { odd: vec![false], ..geometry() };
    assert!(refused(&fine, &parities).contains("parities of 1"));
}

#[test]
fn dropout_repeats_itself_by_step_and_can_be_switched_off() {
    let architecture = Architecture { hidden: vec![40], dropout: 0.3, ..architecture() };
    let mut plan = ArenaPlan::default();
    let network = Network::<f64>::plan(&mut plan, &architecture, &geometry(), 2, 1, Purpose::Train).unwrap();
    let device = &mut Cpu::<f64>::new(Some(1)).unwrap();
    device.allocate(&plan).unwrap();
    network.prepare(device);
    network.initialise(device, 1);
    upload(device, network.slots().frames, &noise(network.slots().frames.len(), 1));
    let mut predict = |step: Option<u64>| {
        match step {
            Some(step) => network.draw_dropout(device, 4, step, 0),
            None => network.without_dropout(device),
        }
        network.forward(device, 1);
        download(device, network.slots().predictions)
    };
    let (all, first, second) = (predict(None), predict(Some(1)), predict(Some(2)));
    assert_eq!(first, predict(Some(1)));
    assert!(first != second && first != all);
    assert_eq!(all, predict(None));
}

/// A device with some slots of the given lengths.
fn slots<const N: usize>(lengths: [usize; N]) -> (Cpu<f32>, [Slot; N]) {
    let mut plan = ArenaPlan::default();
    let slots = lengths.map(|len| plan.slot(len));
    let mut device = Cpu::new(Some(2)).unwrap();
    device.allocate(&plan).unwrap();
    (device, slots)
}

#[test]
fn adamw_does_what_its_formula_says() {
    let n = 40_001; // more than one chunk, and a rest
    let (mut device, [parameter, gradient, first, second, settings]) = slots([n, n, n, n, 4]);
    let (p, g) = (noise(n, 1), noise(n, 2));
    upload(&mut device, parameter, &p);
    upload(&mut device, gradient, &g);
    let step = AdamW {
        beta1: 0.9,
        beta2: 0.99,
        epsilon: 1e-8,
        decay: 0.1,
        parameter,
        gradient,
        first,
        second,
        settings,
    };
    let mut expected: Vec<[f64; 3]> = p.iter().map(|&p| [p, 0.0, 0.0]).collect();
    for t in 1..=3 {
        let (c1, c2) = (1.0 / (1.0 - 0.9_f64.powi(t)), 1.0 / (1.0 - 0.99_f64.powi(t)));
        upload(&mut device, settings, &[0.01, 0.5, c1, c2]);
        device.adamw(&step);
        for ([p, m, v], g) in expected.iter_mut().zip(&g) {
            let g = 0.5 * g;
            *m = 0.9 * *m + 0.1 * g;
            *v = 0.99 * *v + 0.01 * g * g;
            *p -= 0.01 * (*m * c1 / ((*v * c2).sqrt() + 1e-8) + 0.1 * *p);
        }
    }
    for (found, [expected, ..]) in download(&device, parameter).iter().zip(&expected) {
        // A few roundings of numbers below 1, of 6e-8 each.
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn sums_scales_and_averages_run_over_whole_slots() {
    let n = 33_333;
    let (mut device, [x, target]) = slots([n, n]);
    let values: Vec<f64> = (0..n).map(|i| (i % 7) as f64).collect();
    upload(&mut device, x, &values);
    upload(&mut device, target, &vec![2.0; n]);
    // Whole numbers and halves: exact.
    assert_eq!(device.sum_of_squares(x), values.iter().map(|v| v * v).sum::<f64>());
    device.scale(x, 0.5);
    assert!(download(&device, x).iter().zip(&values).all(|(found, v)| *found == 0.5 * v));
    device.lerp(x, target, 0.25);
    assert!(download(&device, x).iter().zip(&values).all(|(found, v)| *found == 0.375 * v + 0.5));
}

#[test]
fn the_loss_ignores_masked_points_and_is_linear_beyond_the_huber_width() {
    // Two leads of one image of one row, two columns, two channels.
    let (mut device, [prediction, truth, rows, channels, leads, mask, values, gradient]) =
        slots([8, 8, 1, 2, 2, 4, 2, 8]);
    upload(&mut device, prediction, &[1.0, 0.5, 3.0, 0.0, -3.0, 0.0, 0.0, 0.0]);
    upload(&mut device, truth, &[0.0, 0.0, 0.0, f64::NAN, 0.0, 0.0, 0.0, f64::NAN]);
    upload(&mut device, rows, &[2.0]);
    upload(&mut device, channels, &[1.0, 0.5]);
    upload(&mut device, leads, &[1.0, 0.25]);
    upload(&mut device, mask, &[1.0, 1.0, 1.0, 0.0]);
    let loss = Loss {
        leads: 2,
        images: 1,
        rows: 1,
        columns: 2,
        channels: 2,
        huber: Some(2.0),
        scale: 0.5,
        prediction,
        truth,
        row_weights: rows,
        channel_weights: channels,
        lead_weights: leads,
        mask: Some(mask),
        values,
        gradient: Some(gradient),
    };
    device.loss(&loss);
    // 0.5 * (2 * 1 + 1 * 0.25 + 2 * (2 * 2 * 3 - 4)); the second lead 0.5 * 2 * 8.
    assert_eq!(download(&device, values), [9.125, 8.0]);
    // scale * weight * 2 e, with e at most 2; the second lead a quarter.
    assert_eq!(download(&device, gradient), [2.0, 0.5, 4.0, 0.0, -1.0, 0.0, 0.0, 0.0]);
    device.loss(&Loss { huber: None, ..loss });
    assert_eq!(download(&device, values), [0.5 * (2.0 + 0.25 + 18.0), 9.0]);
}

#[test]
fn only_patches_tell_a_turned_globe_from_another() {
    /// Predictions where everything that the network sees is turned by so many columns.
    fn predictions(architecture: &Architecture, turn: usize) -> Vec<f64> {
        let (mut plan, geometry) = (ArenaPlan::default(), geometry());
        let network =
            Network::<f64>::plan(&mut plan, architecture, &geometry, BATCH, LEADS, Purpose::Train).unwrap();
        let device = &mut Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        network.prepare(device);
        network.initialise(device, 3);
        let slots = network.slots();
        let channels = [architecture.prognostic, architecture.forcings, architecture.statics];
        let inputs = [slots.frames, slots.forcings, slots.statics].into_iter().zip(channels);
        for (seed, (slot, channels)) in inputs.enumerate() {
            let mut values = noise(slot.len(), seed as u64);
            turn_rows(&mut values, geometry.columns * channels, turn * channels);
            upload(device, slot, &values);
        }
        network.forward(device, LEADS);
        let mut predictions = download(device, slots.predictions);
        turn_rows(&mut predictions, geometry.columns * channels[0], (geometry.columns - turn) * channels[0]);
        predictions
    }
    fn turn_rows(values: &mut [f64], row: usize, by: usize) {
        values.chunks_exact_mut(row).for_each(|row| row.rotate_left(by));
    }
    let worst = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
    for (patch, turn, same) in [(1, 3, true), (2, 2, true), (2, 3, false)] {
        let architecture = Architecture { patch, dropout: 0.0, ..architecture() };
        let apart = worst(&predictions(&architecture, 0), &predictions(&architecture, turn));
        // The same sums in the same order, or those of other neighbours.
        assert!(if same { apart < 1e-12 } else { apart > 1e-4 }, "patch {patch}, turn {turn}: {apart:.1e}");
    }
}
