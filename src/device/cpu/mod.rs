//! The CPU as a device: one arena, one thread pool, the fastest instructions that this machine has.
//!
//! Every operation splits its work the same way whatever the number of threads, so that results are equal bit for bit
//! with one thread or many.

mod biharmonic;
mod cell;
mod convolution;
mod direct;
mod elliptic;
mod fields;
mod flow;
mod flow_rows;
mod halo;
mod incoming;
mod instructions;
mod int8;
mod jacobian;
#[cfg(test)]
mod lanes;
mod layer_norm;
mod leapfrog;
mod loss;
mod naive;
mod optimiser;
mod packed;
mod prepared;
mod product;
mod rates;
mod simd;
mod smoothing;
mod storage;
mod sum;
mod threads;
mod transport;
mod vector;
mod waves;
mod winograd;

use std::ops::Range;

pub use instructions::Instructions;

use super::{
    Above, AdamW, ArenaPlan, Biharmonic, Cell, CellGradients, Company, Convolution, Counting, Daylight,
    Decode, Departures, Device, Elliptic, Ends, Flow, FlowOutput, HaloMap, Int8Kernel, Interpolation,
    Jacobian, LayerNorm, Leapfrog, Loss, Picking, Placement, Rates, Readout, Real, RowSmoothing, Sequence,
    Slot, Sum, Triple, Write, company,
};
use crate::error::{Error, Result};
use prepared::Prepared;
use storage::{Arena, Workspace};
use threads::Threads;
use waves::KnownWaves;
pub use waves::{Fourier, fourier};

/// A processor and its arena.
pub struct Cpu<T: Real> {
    arena: Arena<T>,
    threads: Threads,
    instructions: Instructions,
    prepared: Prepared,
    int8: int8::Int8,
    workspace: Workspace<f32>,
    /// Work rows of stencils.
    rows: Workspace<T>,
    waves: KnownWaves<T>,
    company: Option<Box<dyn Company<T>>>,
    /// What was copied and not asked for yet.
    copied: Option<Vec<T>>,
}

impl<T: Real> Cpu<T> {
    /// The fastest instructions of this machine on `threads` threads, or on all cores.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        Self::with_instructions(threads, Instructions::best())
    }

    /// As [`new`](Self::new), but restricted to `instructions`: to compare the paths with each other.
    pub fn with_instructions(threads: Option<usize>, instructions: Instructions) -> Result<Self> {
        instructions.check()?;
        let threads = Threads::new(threads)?;
        Ok(Self {
            arena: Arena::default(),
            threads,
            instructions,
            prepared: Prepared::default(),
            int8: int8::Int8::default(),
            workspace: Workspace::default(),
            rows: Workspace::default(),
            waves: KnownWaves::default(),
            company: None,
            copied: None,
        })
    }

    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    pub fn instructions(&self) -> Instructions {
        self.instructions
    }

    #[cfg(test)]
    fn lanes(&self, work: impl FnOnce(&mut lanes::Lanes)) {
        work(&mut self.arena.lanes.lock().unwrap());
    }
}

impl<T: Real> Device<T> for Cpu<T> {
    fn describe(&self) -> String {
        let count = self.threads.count();
        format!("cpu ({}, {count} thread{})", self.instructions, if count == 1 { "" } else { "s" })
    }

    fn company(&mut self) -> &mut Option<Box<dyn Company<T>>> {
        &mut self.company
    }

    fn allocate(&mut self, plan: &ArenaPlan) -> Result<()> {
        self.prepared.clear();
        self.int8.clear();
        self.arena = Arena::default();
        self.arena = Arena::of(plan.parts())?;
        Ok(())
    }

    fn bytes(&self, plan: &ArenaPlan) -> usize {
        plan.elements() * size_of::<T>()
    }

    fn repeat(&mut self, _: Sequence, work: &mut dyn FnMut(&mut dyn Device<T>)) {
        #[cfg(test)]
        self.lanes(|lanes| lanes.begin());
        work(self);
        #[cfg(test)]
        self.lanes(|lanes| lanes.end());
    }

    #[cfg_attr(not(test), allow(unused_variables))]
    fn aside(&mut self, lane: usize, work: &mut dyn FnMut(&mut dyn Device<T>)) {
        #[cfg(test)]
        self.lanes(|lanes| lanes.enter(lane));
        work(self);
        #[cfg(test)]
        self.lanes(|lanes| lanes.leave());
    }

    #[cfg_attr(not(test), allow(unused_variables))]
    fn join(&mut self, lane: usize) {
        #[cfg(test)]
        self.lanes(|lanes| lanes.join(lane));
    }

    fn upload(&mut self, to: Slot, values: &[T]) {
        self.arena.write(to).copy_from_slice(values);
    }

    fn download(&self, from: Slot, values: &mut [T]) {
        values.copy_from_slice(self.arena.read(from));
    }

    fn start_copy(&mut self, slots: &[Slot]) {
        self.copied = Some(slots.iter().flat_map(|&slot| self.arena.read(slot)).copied().collect());
    }

    fn copied(&mut self, wait: bool) -> Result<Option<Vec<T>>> {
        match self.copied.take() {
            None if wait => Err(Error::run("no copy to the host is under way")),
            copied => Ok(copied),
        }
    }

    fn stage(&mut self, to: Slot, values: &[T]) {
        self.upload(to, values);
    }

    fn decode(&mut self, decode: &Decode<'_>) {
        let bases = decode.bases.as_ref().map_or(Slot::EMPTY, |bases| bases.fields);
        let (read, [fields]) = self.arena.views([bases, slot_or_empty(decode.mask)], [decode.fields]);
        incoming::decode(&self.threads, decode, read, fields);
    }

    fn daylight(&mut self, daylight: &Daylight<'_>) {
        incoming::daylight(&self.threads, daylight, self.arena.write(daylight.fields));
    }

    fn hand_over(&mut self, copies: &[(Slot, Slot)]) {
        copies.iter().for_each(|&(from, to)| self.copy(from, to));
    }

    fn zero(&mut self, slot: Slot) {
        self.arena.write(slot).fill(T::default());
    }

    fn copy(&mut self, from: Slot, to: Slot) {
        let ([from], [to]) = self.arena.views([from], [to]);
        to.copy_from_slice(from);
    }

    fn halo_fill(&mut self, map: &HaloMap, x: Slot) {
        halo::fill(&self.threads, map, self.arena.write(x));
        company::fill(self, map, x);
    }

    fn halo_adjoint(&mut self, map: &HaloMap, dx: Slot) {
        company::adjoint(self, map, dx);
        halo::adjoint(&self.threads, map, self.arena.write(dx));
    }

    fn convolve(&mut self, shape: &Convolution, x: Slot, w: Slot, y: Slot, write: Write) {
        convolution::forward(self, shape, x, w, y, write);
    }

    fn convolve_input_gradient(&mut self, shape: &Convolution, dy: Slot, w: Slot, dx: Slot) {
        convolution::input_gradient(self, shape, dy, w, dx);
    }

    fn convolve_weight_gradient(&mut self, shape: &Convolution, x: Slot, dy: Slot, dw: Slot) {
        convolution::weight_gradient(self, shape, x, dy, dw);
    }

    fn convolve_int8(
        &mut self,
        shape: &Convolution,
        x: Slot,
        kernel: &Int8Kernel,
        step: f32,
        y: Slot,
        write: Write,
    ) {
        int8::convolve(self, shape, x, kernel, step, y, write);
    }

    fn round(&mut self, counting: Counting, x: Slot) {
        int8::round(&self.threads, counting, self.arena.write(x));
    }

    fn round_adjoint(&mut self, counting: Counting, x: Slot, dx: Slot) {
        let ([x], [dx]) = self.arena.views([x], [dx]);
        int8::round_adjoint(&self.threads, counting, x, dx);
    }

    fn round_columns(&mut self, outputs: usize, most: f32, w: Slot, rounded: Slot) {
        let ([w], [rounded]) = self.arena.views([w], [rounded]);
        int8::round_columns(&self.threads, outputs, most, w, rounded);
    }

    fn place(&mut self, placement: &Placement) {
        let ([fields], [image]) = self.arena.views([placement.fields], [placement.image]);
        fields::place(&self.threads, placement, fields, image);
    }

    fn place_adjoint(&mut self, placement: &Placement) {
        let ([image], [fields]) = self.arena.views([placement.image], [placement.fields]);
        fields::place_adjoint(&self.threads, placement, image, fields);
    }

    fn cell_forward(&mut self, cell: &Cell, h: Slot, map: &HaloMap, above: Option<&Above>) {
        // A forecast keeps one cell state and updates it in place.
        let in_place = cell.c_before == Some(cell.c);
        let c_before = if in_place { Slot::EMPTY } else { slot_or_empty(cell.c_before) };
        let factors = slot_or_empty(above.and_then(|above| above.factors));
        let h_slot = h;
        let ([bias, peepholes, c_before, factors], [gates, c, h, up]) = self.arena.views(
            [cell.bias, slot_or_empty(cell.peepholes), c_before, factors],
            [cell.gates, cell.c, h, above.map_or(Slot::EMPTY, |above| above.slot)],
        );
        let inputs = cell::Inputs { bias, peepholes, c_before, in_place, factors };
        let outputs =
            cell::Outputs { gates, c, h, above: up, above_halo: above.map_or(0, |above| above.halo) };
        cell::forward(&self.threads, self.instructions, cell, &inputs, outputs);
        self.halo_fill(map, h_slot);
    }

    fn cell_backward(&mut self, cell: &Cell, map: &HaloMap, gradients: &CellGradients) {
        if let Some(h) = gradients.h {
            self.halo_adjoint(map, h);
        }
        let above = gradients.above;
        let ([peepholes, c_before, c, dh, above_dh, factors], [gates, dc, dbias, dpeepholes]) =
            self.arena.views(
                [
                    slot_or_empty(cell.peepholes),
                    slot_or_empty(cell.c_before),
                    cell.c,
                    slot_or_empty(gradients.h),
                    slot_or_empty(above.map(|above| above.slot)),
                    slot_or_empty(above.and_then(|above| above.factors)),
                ],
                [cell.gates, gradients.c, gradients.bias, slot_or_empty(gradients.peepholes)],
            );
        let above_halo = above.map_or(0, |above| above.halo);
        let inputs =
            cell::BackwardInputs { peepholes, c_before, c, dh, above: above_dh, above_halo, factors };
        let outputs = cell::BackwardOutputs { gates, dc, dbias, dpeepholes };
        cell::backward(&self.threads, self.instructions, cell, &inputs, outputs);
    }

    fn layer_norm_forward(&mut self, norm: &LayerNorm) {
        let ([bias, gain], [gates, normalised, inverse]) =
            self.arena.views([norm.bias, norm.gain], [norm.gates, norm.normalised, norm.inverse_deviation]);
        layer_norm::forward(
            &self.threads,
            self.instructions,
            norm,
            [bias, gain],
            [gates, normalised, inverse],
        );
    }

    fn layer_norm_backward(&mut self, norm: &LayerNorm, dbias: Slot, dgain: Slot) {
        let ([gain, normalised, inverse], [gates, dbias, dgain]) = self
            .arena
            .views([norm.gain, norm.normalised, norm.inverse_deviation], [norm.gates, dbias, dgain]);
        layer_norm::backward(
            &self.threads,
            self.instructions,
            norm,
            [gain, normalised, inverse],
            [gates, dbias, dgain],
        );
    }

    fn layer_norm_moments(&mut self, norm: &LayerNorm, moments: Slot) {
        let (read, [moments]) = self.arena.views([norm.gates, norm.bias], [moments]);
        layer_norm::moments(&self.threads, self.instructions, norm, read, moments);
    }

    fn layer_norm_forward_among(&mut self, norm: &LayerNorm, moments: Slot) {
        let (read, written) = self
            .arena
            .views([norm.bias, norm.gain, moments], [norm.gates, norm.normalised, norm.inverse_deviation]);
        layer_norm::forward_among(&self.threads, self.instructions, norm, read, written);
    }

    fn layer_norm_sums(&mut self, norm: &LayerNorm, sums: Slot, dgain: Slot) {
        let (read, written) = self.arena.views([norm.gain, norm.normalised, norm.gates], [sums, dgain]);
        layer_norm::sums_of_gradient(&self.threads, self.instructions, norm, read, written);
    }

    fn layer_norm_backward_among(&mut self, norm: &LayerNorm, sums: Slot, parts: usize, dbias: Slot) {
        let (read, written) =
            self.arena.views([norm.gain, norm.normalised, norm.inverse_deviation, sums], [norm.gates, dbias]);
        layer_norm::backward_among(&self.threads, self.instructions, norm, parts, read, written);
    }

    fn mix(&mut self, share: Slot, truth: Slot, prediction: Slot, mixed: Slot) {
        let ([share, truth, prediction], [mixed]) = self.arena.views([share, truth, prediction], [mixed]);
        fields::mix(share, truth, prediction, mixed);
    }

    fn mix_adjoint(&mut self, share: Slot, dmixed: Slot, dprediction: Slot) {
        let ([share, dmixed], [dprediction]) = self.arena.views([share, dmixed], [dprediction]);
        fields::mix_adjoint(share, dmixed, dprediction);
    }

    fn readout(&mut self, readout: &Readout, base: Option<Slot>, fields: Slot) {
        let ([y, bias, scale, base], [fields]) = self
            .arena
            .views([readout.y, readout.bias, slot_or_empty(readout.scale), slot_or_empty(base)], [fields]);
        fields::readout(&self.threads, readout, [y, bias, scale, base], fields);
    }

    fn readout_adjoint(&mut self, readout: &Readout, dfields: Slot, dy: Slot, dbias: Slot) {
        let ([dfields, scale], [dy, dbias]) =
            self.arena.views([dfields, slot_or_empty(readout.scale)], [dy, dbias]);
        fields::readout_adjoint(readout, dfields, scale, dy, dbias);
    }

    fn loss(&mut self, loss: &Loss) {
        let ([prediction, truth, rows, channels, leads, mask], [values, gradient]) = self.arena.views(
            [
                loss.prediction,
                loss.truth,
                loss.row_weights,
                loss.channel_weights,
                loss.lead_weights,
                slot_or_empty(loss.mask),
            ],
            [loss.values, slot_or_empty(loss.gradient)],
        );
        let inputs = loss::Inputs { prediction, truth, rows, channels, leads, mask };
        loss::loss(&self.threads, loss, &inputs, values, gradient);
    }

    fn adamw(&mut self, step: &AdamW) {
        let ([gradient, settings], [parameter, first, second]) =
            self.arena.views([step.gradient, step.settings], [step.parameter, step.first, step.second]);
        optimiser::adamw(
            &self.threads,
            self.instructions,
            step,
            [gradient, settings],
            [parameter, first, second],
        );
    }

    fn sum_of_squares(&self, slot: Slot) -> f64 {
        optimiser::sum_of_squares(&self.threads, self.instructions, self.arena.read(slot))
    }

    fn scale(&mut self, x: Slot, factor: f64) {
        optimiser::scale(&self.threads, self.instructions, self.arena.write(x), factor);
    }

    fn lerp(&mut self, x: Slot, target: Slot, weight: f64) {
        let ([target], [x]) = self.arena.views([target], [x]);
        optimiser::lerp(&self.threads, self.instructions, x, target, weight);
    }

    fn relax(&mut self, x: Slot, target: Slot, weights: Slot) {
        let ([target, weights], [x]) = self.arena.views([target, weights], [x]);
        optimiser::relax(&self.threads, self.instructions, x, target, weights);
    }

    fn pack(&mut self, x: Slot, packed: Slot) {
        let ([x], [packed]) = self.arena.views([x], [packed]);
        packed::pack(&self.threads, x, packed);
    }

    fn unpack(&mut self, packed: Slot, parts: usize, x: Slot) {
        let ([packed], [x]) = self.arena.views([packed], [x]);
        packed::unpack(&self.threads, packed, parts, x);
    }

    fn pick(&mut self, picking: &Picking) {
        let ([x], [residual, picked]) = self.arena.views([picking.x], [picking.residual, picking.picked]);
        packed::pick(&self.threads, picking, x, residual, picked);
    }

    fn lay_out(&mut self, picked: Slot, keep: usize, parts: usize, x: Slot) {
        let ([picked], [x]) = self.arena.views([picked], [x]);
        packed::lay_out(&self.threads, picked, keep, parts, x);
    }

    fn flow(&mut self, flow: &Flow, x: Triple, output: &FlowOutput) {
        let none = Triple { u: Slot::EMPTY, v: Slot::EMPTY, h: Slot::EMPTY };
        let (base, next, sum) = match *output {
            FlowOutput::Stage { base, next, sum, .. } => (base, next, sum),
            FlowOutput::Last { x, sum, .. } => (sum, x, none),
            FlowOutput::Tendency(k) | FlowOutput::Rotational(k) => (none, k, none),
        };
        let b = slot_or_empty(flow.b);
        let ([u, v, h, table, f, b, base_u, base_v, base_h], [next_u, next_v, next_h, sum_u, sum_v, sum_h]) =
            self.arena.views(
                [x.u, x.v, x.h, flow.table, flow.f, b, base.u, base.v, base.h],
                [next.u, next.v, next.h, sum.u, sum.v, sum.h],
            );
        let inputs = flow::Inputs { u, v, h, table, f, b, base: [base_u, base_v, base_h] };
        let outputs = flow::Outputs { next: [next_u, next_v, next_h], sum: [sum_u, sum_v, sum_h] };
        let work = self.rows.numbers(flow::blocks(flow, self.threads.count()).1);
        flow::flow(&self.threads, self.instructions, flow, output, &inputs, outputs, work);
    }

    fn biharmonic(&mut self, damping: &Biharmonic) {
        let ([x], [to]) = self.arena.views([damping.x], [damping.to]);
        biharmonic::biharmonic(&self.threads, self.instructions, damping, x, to);
    }

    fn fastest_rate(&self, rates: &Rates) -> f64 {
        let reads = [rates.x.u, rates.x.v, rates.x.h, rates.factors].map(|slot| self.arena.read(slot));
        rates::fastest_rate(&self.threads, self.instructions, rates, reads)
    }

    fn waves_forward(&mut self, ends: Ends, columns: usize, from: Slot, to: Slot) {
        let waves = self.waves.get(ends, columns);
        if from == to {
            return waves.forward_in_place(&self.threads, self.arena.write(to));
        }
        let ([from], [to]) = self.arena.views([from], [to]);
        waves.forward(&self.threads, from, to);
    }

    fn waves_backward(&mut self, ends: Ends, columns: usize, x: Slot) {
        self.waves.get(ends, columns).backward(&self.threads, self.arena.write(x));
    }

    fn solve_waves(&mut self, elliptic: &Elliptic, places: Range<usize>, x: Slot) {
        let ([pivots, carries, shares], [x]) =
            self.arena.views([elliptic.pivots, elliptic.carries, elliptic.shares], [x]);
        let tables = elliptic::Tables { pivots, carries, shares };
        elliptic::solve_waves(&self.threads, self.instructions, elliptic, &tables, places, x);
    }

    fn depart(&mut self, departures: &Departures) {
        let ([u, v], [places]) = self.arena.views([departures.u, departures.v], [departures.places]);
        transport::departures(&self.threads, departures, [u, v], places);
    }

    fn interpolate(&mut self, interpolation: &Interpolation) {
        let ([places, from], [to]) =
            self.arena.views([interpolation.places, interpolation.from], [interpolation.to]);
        transport::interpolate(&self.threads, interpolation, places, from, to);
    }

    fn sum(&mut self, sum: &Sum) {
        assert!(sum.terms.len() <= Sum::MOST, "a sum of at most {} terms", Sum::MOST);
        let mut reads = [Slot::EMPTY; 2 * Sum::MOST];
        for (pair, term) in reads.chunks_exact_mut(2).zip(sum.terms) {
            pair[0] = term.x.slot;
            pair[1] = slot_or_empty(term.factors);
        }
        let (reads, [y]) = self.arena.views(reads, [sum.y.slot]);
        let terms = [0, 1, 2, 3].map(|term| (reads[2 * term], reads[2 * term + 1]));
        sum::sum(&self.threads, self.instructions, sum, y, &terms);
    }

    fn leapfrog_predict(&mut self, step: &Leapfrog) {
        let (before, now, k) = (step.before, step.now, step.tendency);
        let ([bu, bv, bh, u, v, h, ku, kv, kh, table], [unknown]) = self.arena.views(
            [before.u, before.v, before.h, now.u, now.v, now.h, k.u, k.v, k.h, step.flow.table],
            [step.unknown],
        );
        let inputs = leapfrog::Inputs { before: [bu, bv, bh], now: [u, v, h], tendency: [ku, kv, kh], table };
        leapfrog::predict(&self.threads, self.instructions, step, &inputs, unknown);
    }

    fn leapfrog_correct(&mut self, step: &Leapfrog) {
        let (before, now, k) = (step.before, step.now, step.tendency);
        let (read, [bu, bv, bh, u, v, h]) = self.arena.views(
            [k.u, k.v, step.flow.table, step.unknown, slot_or_empty(step.south)],
            [before.u, before.v, before.h, now.u, now.v, now.h],
        );
        let (before, now) = ([bu, bv, bh], [u, v, h]);
        leapfrog::correct(&self.threads, self.instructions, step, read, before, now);
    }

    fn jacobian(&mut self, jacobian: &Jacobian) {
        let (reads, [k]) = self.arena.views([jacobian.p, jacobian.q, jacobian.table], [jacobian.k]);
        jacobian::jacobian(&self.threads, self.instructions, jacobian, reads, k);
    }

    fn smooth_rows(&mut self, smoothing: &RowSmoothing) {
        let ([filters], [x]) = self.arena.views([smoothing.filters], [smoothing.x.slot]);
        let work = self.rows.numbers(jacobian::work_len(smoothing));
        jacobian::smooth_rows(&self.threads, self.instructions, smoothing, filters, x, work);
    }
}

fn slot_or_empty(slot: Option<Slot>) -> Slot {
    slot.unwrap_or(Slot::EMPTY)
}
