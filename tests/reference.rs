//! The equations against PyTorch: the files of `tests/reference/make_reference.py`, forward and every gradient.

use std::collections::BTreeMap;
use wxsim::device::cpu::Cpu;
use wxsim::device::{
    Above, ArenaPlan, Boundary, Cell, CellGradients, Channel, Convolution, Device, Edge, Edges, Loss,
    Placement, Real, Slot, Write,
};
use wxsim::model::{Architecture, Geometry, Network, Purpose, gate_channel};

/// Relative to the largest element of an array. Float64: a few hundred roundings of 1e-16.
const DOUBLE: f64 = 1e-13;
/// Float32: 1.2e-7 times the roundings that add up along three steps of two layers; measured below 2e-6.
const SINGLE: f64 = 1e-5;

/// Name to shape and values.
type File = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

fn file(name: &str) -> File {
    let path = format!("{}/tests/reference/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |data: &[u8]| data.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    tensors
        .iter()
        .map(|(name, view)| (name.to_string(), (view.shape().to_vec(), numbers(view.data()))))
        .collect()
}

fn upload<T: Real>(device: &mut dyn Device<T>, slot: Slot, values: &[f64]) {
    device.upload(slot, &values.iter().map(|&x| T::of(x)).collect::<Vec<_>>());
}

fn download<T: Real>(device: &dyn Device<T>, slot: Slot) -> Vec<f64> {
    let mut values = vec![T::default(); slot.len()];
    device.download(slot, &mut values);
    values.into_iter().map(Real::wide).collect()
}

fn compare(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let worst = found.iter().zip(expected).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
    assert!(
        worst <= tolerance * largest,
        "{what}: off by {:.1e} of the largest, {largest:.3}",
        worst / largest
    );
}

/// Whole network: predictions, loss, gradients of predictions and parameters.
fn unroll<T: Real>(name: &str, architecture: &Architecture, tolerance: f64) {
    let file = file(name);
    let (rows, columns, batch, leads) = (5, 6, 2, 2);
    let geometry =
        Geometry { rows, columns, periodic: false, north_south: [Edge::Replicate; 2], odd: vec![false; 2] };
    let mut plan = ArenaPlan::default();
    let network =
        Network::<T>::plan(&mut plan, architecture, &geometry, batch, leads, Purpose::Train).unwrap();
    let slots = *network.slots();
    let state = batch * rows * columns * 2;
    let loss = Loss {
        leads,
        images: batch,
        rows,
        columns,
        channels: 2,
        huber: None,
        scale: 1.0 / (batch * rows * columns) as f64,
        prediction: slots.predictions,
        truth: slots.frames.part(2 * state, leads * state),
        row_weights: plan.slot(rows),
        channel_weights: plan.slot(2),
        lead_weights: plan.slot(leads),
        mask: None,
        values: plan.slot(leads),
        gradient: Some(slots.prediction_gradients),
    };
    let device = &mut Cpu::<T>::new(Some(1)).unwrap();
    device.allocate(&plan).unwrap();
    network.prepare(device);
    for (key, slot) in [
        ("frames", slots.frames),
        ("statics", slots.statics),
        ("forcings", slots.forcings),
        ("tendency_scale", slots.tendency_scale),
        ("sampling", slots.sampling),
        ("row_weights", loss.row_weights),
        ("channel_weights", loss.channel_weights),
        ("lead_weights", loss.lead_weights),
    ] {
        upload(device, slot, &file[key].1);
    }
    for parameter in network.parameters() {
        let (shape, values) = &file[&parameter.name];
        assert_eq!(*shape, parameter.shape, "{}", parameter.name);
        let values: Vec<T> = values.iter().map(|&x| T::of(x)).collect();
        parameter.write(device, parameter.slot, &values);
    }

    network.forward(device, leads);
    compare("predictions", &download(device, slots.predictions), &file["predictions"].1, tolerance);
    device.loss(&loss);
    compare("loss", &download(device, loss.values), &file["values"].1, tolerance);
    network.backward(device, leads);
    let gradients = download(device, slots.prediction_gradients);
    compare("prediction gradients", &gradients, &file["prediction_gradients"].1, tolerance);
    for parameter in network.parameters() {
        let gradient: Vec<f64> =
            parameter.read(device, parameter.gradient).into_iter().map(Real::wide).collect();
        let expected = &file[&format!("gradient.{}", parameter.name)].1;
        compare(&format!("gradient of {}", parameter.name), &gradient, expected, tolerance);
    }
}

fn plain() -> Architecture {
    Architecture {
        prognostic: 2,
        statics: 1,
        forcings: 1,
        hidden: vec![4, 3],
        kernel: 3,
        patch: 1,
        layer_norm: false,
        peepholes: false,
        residual: true,
        input_frames: 2,
        dropout: 0.0,
    }
}

#[test]
fn three_steps_of_two_layers_agree_with_pytorch() {
    unroll::<f64>("unroll", &plain(), DOUBLE);
    unroll::<f32>("unroll", &plain(), SINGLE);
}

#[test]
fn layer_normalisation_peepholes_and_patches_agree_with_pytorch() {
    let architecture = Architecture { layer_norm: true, peepholes: true, patch: 2, ..plain() };
    unroll::<f64>("unroll_norm_peephole_patch", &architecture, DOUBLE);
    unroll::<f32>("unroll_norm_peephole_patch", &architecture, SINGLE);
}

#[test]
fn one_cell_of_seventeen_units_agrees_with_pytorch() {
    one_cell::<f64>(DOUBLE);
    one_cell::<f32>(SINGLE);
}

/// One cell by its operations, since a network starts from zero.
fn one_cell<T: Real>(tolerance: f64) {
    let file = file("cell");
    let (images, rows, columns, inputs, hidden) = (2, 3, 5, 2, 17);
    let points = images * rows * columns;
    let of_x = Convolution { images, rows, columns, inputs, outputs: 4 * hidden, kernel: 3 };
    let of_h = Convolution { inputs: hidden, kernel: 1, ..of_x };
    let edges = Edges { periodic: false, rows: [Edge::Replicate; 2] };
    let map = edges.map(images, rows, columns, 1, &[Channel::centre(false); 2]).unwrap();

    let mut plan = ArenaPlan::default();
    let mut slot = |len| plan.slot(len);
    let x_fields = slot(points * inputs);
    let [x, dx] = [0; 2].map(|_| slot(of_x.x_len()));
    let [h, dh, dh1, h1, c, dc, c1] = [0; 7].map(|_| slot(points * hidden));
    let [wx, dwx] = [0; 2].map(|_| slot(of_x.w_len()));
    let [wh, dwh] = [0; 2].map(|_| slot(of_h.w_len()));
    let [bias, dbias] = [0; 2].map(|_| slot(4 * hidden));
    let [peephole, dpeephole] = [0; 2].map(|_| slot(3 * hidden));
    let gates = slot(points * 4 * hidden);
    let device = &mut Cpu::<T>::new(Some(1)).unwrap();
    device.allocate(&plan).unwrap();

    // Checkpoint order to device order and back, written out once more.
    let place = |gate: usize, unit: usize, input: usize, point: usize, inputs: usize, taps: usize| {
        let checkpoint = ((gate * hidden + unit) * inputs + input) * taps + point;
        (checkpoint, (point * inputs + input) * 4 * hidden + gate_channel(gate, unit, hidden))
    };
    let pairs = |inputs: usize, taps: usize| {
        let mut pairs = Vec::new();
        for gate in 0..4 {
            for unit in 0..hidden {
                for input in 0..inputs {
                    pairs.extend((0..taps).map(|point| place(gate, unit, input, point, inputs, taps)));
                }
            }
        }
        pairs
    };
    let kernels = [
        ("input.weight", wx, dwx, pairs(inputs, 9)),
        ("hidden.weight", wh, dwh, pairs(hidden, 1)),
        ("bias", bias, dbias, pairs(1, 1)),
    ];
    for (name, slot, _, pairs) in &kernels {
        let mut values = vec![0.0; slot.len()];
        pairs.iter().for_each(|&(from, to)| values[to] = file[*name].1[from]);
        upload(device, *slot, &values);
    }
    upload(device, peephole, &file["peephole"].1);
    for (name, slot) in [("x", x_fields), ("h", h), ("c", c), ("dh1", dh1), ("dc1", dc)] {
        upload(device, slot, &file[name].1);
    }

    let placement = Placement {
        images,
        rows,
        columns,
        channels: inputs,
        patch: 1,
        fields: x_fields,
        field_images: images,
        image: x,
        halo: 1,
        image_channels: inputs,
        first_channel: 0,
    };
    device.place(&placement);
    device.halo_fill(&map, x);
    device.convolve(&of_x, x, wx, gates, Write::Overwrite);
    device.convolve(&of_h, h, wh, gates, Write::Add);
    let cell = Cell {
        images,
        rows,
        columns,
        hidden,
        halo: 0,
        gates,
        keeps_gates: true,
        bias,
        peepholes: Some(peephole),
        c_before: Some(c),
        c: c1,
    };
    let without = edges.map(images, rows, columns, 0, &vec![Channel::centre(false); hidden]).unwrap();
    device.cell_forward(&cell, h1, &without, None);
    compare("h1", &download(device, h1), &file["h1"].1, tolerance);
    compare("c1", &download(device, c1), &file["c1"].1, tolerance);

    let above = Some(Above { slot: dh1, halo: 0, factors: None });
    device.cell_backward(
        &cell,
        &without,
        &CellGradients { h: None, above, c: dc, bias: dbias, peepholes: Some(dpeephole) },
    );
    compare("dc", &download(device, dc), &file["dc"].1, tolerance);
    device.convolve_input_gradient(&of_x, gates, wx, dx);
    device.halo_adjoint(&map, dx);
    device.place_adjoint(&Placement { image: dx, ..placement });
    compare("dx", &download(device, x_fields), &file["dx"].1, tolerance);
    device.convolve_input_gradient(&of_h, gates, wh, dh);
    compare("dh", &download(device, dh), &file["dh"].1, tolerance);
    device.convolve_weight_gradient(&of_x, x, gates, dwx);
    device.convolve_weight_gradient(&of_h, h, gates, dwh);
    for (name, _, slot, pairs) in &kernels {
        let device_values = download(device, *slot);
        let mut values = vec![0.0; slot.len()];
        pairs.iter().for_each(|&(to, from)| values[to] = device_values[from]);
        compare(name, &values, &file[&format!("gradient.{name}")].1, tolerance);
    }
    compare("peephole", &download(device, dpeephole), &file["gradient.peephole"].1, tolerance);
}
