//! The gradients of the whole network against central differences in float64.

use wxsim::device::cpu::Cpu;
use wxsim::device::{ArenaPlan, Device, Edge, Loss, Slot};
use wxsim::model::{Architecture, Arithmetic, Batch, Geometry, Network, Parameter, Purpose, Ranges};

const BATCH: usize = 2;
const LEADS: usize = 3;

/// A network, a loss on its predictions, and random numbers everywhere.
struct Setting {
    network: Network<f64>,
    device: Cpu<f64>,
    loss: Loss,
}

/// Numbers in [-1, 1) that look random and are the same everywhere.
fn noise(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

impl Setting {
    fn new(architecture: &Architecture, geometry: &Geometry, huber: Option<f64>) -> Self {
        Self::planned(architecture, geometry, huber, Purpose::Train)
    }

    fn planned(
        architecture: &Architecture,
        geometry: &Geometry,
        huber: Option<f64>,
        purpose: Purpose,
    ) -> Self {
        Self::computing(architecture, geometry, huber, purpose, Arithmetic::Plain)
    }

    fn computing(
        architecture: &Architecture,
        geometry: &Geometry,
        huber: Option<f64>,
        purpose: Purpose,
        arithmetic: Arithmetic,
    ) -> Self {
        let mut plan = ArenaPlan::default();
        let batch = Batch { samples: BATCH, lead_steps: LEADS };
        let network =
            Network::plan_in(&mut plan, architecture, geometry, batch, purpose, arithmetic).unwrap();
        let slots = *network.slots();
        let points = geometry.rows * geometry.columns * architecture.prognostic;
        let truth = slots.frames.part(architecture.input_frames * BATCH * points, LEADS * BATCH * points);
        let loss = Loss {
            leads: LEADS,
            images: BATCH,
            rows: geometry.rows,
            columns: geometry.columns,
            channels: architecture.prognostic,
            huber,
            scale: 1.0 / (BATCH * points) as f64,
            prediction: slots.predictions,
            truth,
            row_weights: plan.slot(geometry.rows),
            channel_weights: plan.slot(architecture.prognostic),
            lead_weights: plan.slot(LEADS),
            mask: Some(plan.slot(points)),
            values: plan.slot(LEADS),
            gradient: Some(slots.prediction_gradients),
        };
        let mut device = Cpu::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        network.prepare(&mut device);
        network.draw_dropout(&mut device, 5, 0, 0);
        for (seed, slot) in [slots.frames, slots.forcings, slots.statics].into_iter().enumerate() {
            device.upload(slot, &noise(slot.len(), seed as u64 + 1));
        }
        let positive = |slot: Slot, seed| noise(slot.len(), seed).iter().map(|x| x + 1.5).collect::<Vec<_>>();
        for (seed, slot) in [slots.tendency_scale, loss.row_weights, loss.channel_weights, loss.lead_weights]
            .into_iter()
            .enumerate()
        {
            device.upload(slot, &positive(slot, seed as u64 + 10));
        }
        let mask: Vec<f64> = (0..points).map(|i| f64::from(u8::from(i % 5 != 3))).collect();
        device.upload(loss.mask.unwrap(), &mask);
        // Truth, prediction, and a bit of both.
        device.upload(slots.sampling, &[1.0, 0.0, 0.3, 0.0]);
        // Larger than at the start of a training, so that nothing is nearly linear.
        for (seed, parameter) in network.parameters().iter().enumerate() {
            let fan = parameter.len() as f64 / parameter.shape[0] as f64;
            let scale = if parameter.decay { 1.5 / fan.sqrt() } else { 0.5 };
            let offset = if parameter.name.ends_with("gain") { 1.0 } else { 0.0 };
            let values: Vec<f64> =
                noise(parameter.len(), seed as u64 + 20).iter().map(|x| x * scale + offset).collect();
            parameter.write(&mut device, parameter.slot, &values);
        }
        Self { network, device, loss }
    }

    /// Sum over the leads of weight times value.
    fn evaluate(&mut self) -> f64 {
        self.network.forward(&mut self.device, LEADS);
        self.device.loss(&self.loss);
        let read = |slot: Slot| {
            let mut values = vec![0.0; slot.len()];
            self.device.download(slot, &mut values);
            values
        };
        read(self.loss.values)
            .iter()
            .zip(read(self.loss.lead_weights))
            .map(|(value, weight)| value * weight)
            .sum()
    }

    /// Compares the gradient of every parameter with central differences, for at most `most` elements of each and for
    /// all its elements moved together.
    fn check(&mut self, most: usize) {
        self.evaluate();
        self.device.zero(self.network.gradients());
        self.network.backward(&mut self.device, LEADS);
        let parameters = self.network.parameters().to_vec();
        for (seed, parameter) in parameters.iter().enumerate() {
            let len = parameter.len();
            let mut gradient = vec![0.0; len];
            self.device.download(parameter.gradient, &mut gradient);
            let mut values = vec![0.0; len];
            self.device.download(parameter.slot, &mut values);
            // Every array matters; and within kernels nearly every element.
            let still = gradient.iter().filter(|&&g| g == 0.0).count();
            assert_eq!(still, 0, "{} of {len} gradients of {} are zero", still, parameter.name);
            let rms = (gradient.iter().map(|g| g * g).sum::<f64>() / len as f64).sqrt();

            let mut moves: Vec<Vec<f64>> = vec![noise(len, seed as u64 + 50)];
            for element in (0..len).step_by(len.div_ceil(most)) {
                let mut single = vec![0.0; len];
                single[element] = 1.0;
                moves.push(single);
            }
            for direction in moves {
                let slope: f64 = direction.iter().zip(&gradient).map(|(d, g)| d * g).sum();
                // The fourth-order difference: its error is h^4 times a fifth derivative, the rounding 1e-16 / h.
                let step = 5e-5;
                let mut at = |shift: f64| {
                    let moved: Vec<f64> =
                        values.iter().zip(&direction).map(|(v, d)| v + shift * d * step).collect();
                    self.device.upload(parameter.slot, &moved);
                    self.evaluate()
                };
                let difference = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * step);
                self.device.upload(parameter.slot, &values);
                let error = (difference - slope).abs() / slope.abs().max(rms);
                assert!(
                    error < 1e-6,
                    "{}: gradient {slope:.12e}, difference {difference:.12e}, relative error {error:.1e}",
                    parameter.name
                );
            }
        }
    }
}

fn architecture() -> Architecture {
    Architecture {
        prognostic: 2,
        statics: 1,
        forcings: 1,
        hidden: vec![3, 2],
        kernel: 3,
        patch: 2,
        layer_norm: false,
        peepholes: true,
        residual: true,
        input_frames: 2,
        dropout: 0.0,
    }
}

/// Five rows: the patch pads them to six.
fn regional() -> Geometry {
    Geometry { rows: 5, columns: 6, periodic: false, north_south: [Edge::Replicate; 2], odd: vec![false; 2] }
}

fn global() -> Geometry {
    let north_south = [Edge::Pole { row_on_pole: false }; 2];
    Geometry { rows: 5, columns: 8, periodic: true, north_south, odd: vec![false, true] }
}

#[test]
fn gradients_with_peepholes_patches_and_sampling_are_those_of_central_differences_on_a_region() {
    Setting::new(&architecture(), &regional(), None).check(8);
}

#[test]
fn gradients_across_the_poles_are_those_of_central_differences() {
    Setting::new(&architecture(), &global(), None).check(6);
}

#[test]
fn gradients_through_layer_normalisation_are_those_of_central_differences() {
    // Two units would normalise to plus and minus one whatever their values.
    let hidden = vec![4, 3];
    Setting::new(&Architecture { layer_norm: true, hidden, ..architecture() }, &global(), None).check(6);
}

#[test]
fn gradients_through_dropout_are_those_of_central_differences() {
    // Seven of ten units speak, but not all draws leave a unit of each layer to every sample.
    let hidden = vec![5, 4];
    Setting::new(
        &Architecture { dropout: 0.2, hidden, peepholes: false, ..architecture() },
        &regional(),
        None,
    )
    .check(6);
}

#[test]
fn gradients_without_patch_and_residual_and_with_a_huber_loss_are_those_of_central_differences() {
    let geometry = Geometry {
        rows: 4,
        columns: 4,
        periodic: true,
        north_south: [Edge::Pole { row_on_pole: true }, Edge::Replicate],
        odd: vec![false, true],
    };
    let architecture = Architecture { patch: 1, residual: false, statics: 0, forcings: 0, ..architecture() };
    // Wide enough that the finite differences do not cross the kink for the few errors near it: the loss is once
    // differentiable there, so a crossing costs h times the share of such points, below the tolerance only if none.
    Setting::new(&architecture, &geometry, Some(0.8)).check(6);
}

#[test]
fn gradients_pass_through_rounding_and_stop_where_numbers_are_cut_off() {
    // Steps so small that what is left of rounding is the cut: some inputs and some h lie beyond these ranges.
    let most = 2.0_f32.powi(44);
    let hidden = vec![4, 3];
    let architecture = Architecture { hidden, ..architecture() };
    for geometry in [regional(), global()] {
        let ranges = Ranges { input: 0.9, hidden: vec![0.25, 0.3] };
        let arithmetic = Arithmetic::Rounded { ranges, most };
        Setting::computing(&architecture, &geometry, None, Purpose::Train, arithmetic).check(6);
    }
}

#[test]
fn gates_that_are_computed_again_give_the_same_gradients() {
    let wide = Architecture { layer_norm: true, hidden: vec![4, 3], dropout: 0.2, ..architecture() };
    let short = Architecture { input_frames: 1, ..architecture() };
    for architecture in [architecture(), wide, short] {
        let gradients = |purpose| {
            let mut setting = Setting::planned(&architecture, &global(), None, purpose);
            setting.evaluate();
            setting.network.backward(&mut setting.device, LEADS);
            let parameters = setting.network.parameters().to_vec();
            let read = |parameter: &Parameter| {
                let mut values = vec![0.0; parameter.len()];
                setting.device.download(parameter.gradient, &mut values);
                values
            };
            parameters.iter().map(read).collect::<Vec<_>>()
        };
        let (kept, again) = (gradients(Purpose::Train), gradients(Purpose::Recompute));
        for (kept, again) in kept.iter().flatten().zip(again.iter().flatten()) {
            // Sums over the steps in another order.
            assert!((kept - again).abs() <= 1e-13 * (1.0 + kept.abs()), "{kept} and {again}");
        }
    }
}

#[test]
fn one_input_frame_and_one_prediction_train_without_recurrence() {
    let architecture = Architecture { input_frames: 1, hidden: vec![3], peepholes: false, ..architecture() };
    let mut setting = Setting::new(&architecture, &regional(), None);
    setting.network.forward(&mut setting.device, 1);
    setting.device.loss(&Loss {
        leads: 1,
        prediction: setting.loss.prediction.part(0, setting.loss.prediction.len() / LEADS),
        truth: setting.loss.truth.part(0, setting.loss.truth.len() / LEADS),
        gradient: setting.loss.gradient.map(|g| g.part(0, g.len() / LEADS)),
        values: setting.loss.values.part(0, 1),
        ..setting.loss
    });
    setting.network.backward(&mut setting.device, 1);
    for parameter in setting.network.parameters() {
        let norm = setting.device.sum_of_squares(parameter.gradient);
        // The recurrent kernel has nothing to read: h starts as zero.
        assert_eq!(norm > 0.0, parameter.name != "layers.0.hidden.weight", "{}", parameter.name);
    }
}
