//! A device that computes nothing and adds up what its operations would take.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Card, Event};
use crate::device::{
    Above, AdamW, ArenaPlan, Biharmonic, Cell, CellGradients, Company, Convolution, Counting, Daylight,
    Decode, Departures, Device, Elliptic, Ends, Flow, FlowOutput, HaloMap, Int8Kernel, Interpolation,
    Jacobian, LayerNorm, Leapfrog, Loss, Picking, Placement, Rates, Readout, RowSmoothing, Sequence, Slot,
    Sum, Triple, Write, company,
};
use crate::error::Result;

/// Seconds so far, and what was asked of others meanwhile; copies of a clock show the same.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<Hands>);

#[derive(Debug, Default)]
struct Hands {
    seconds: AtomicU64,
    /// What is done now is done at the side, on this lane.
    lane: Mutex<Option<usize>>,
    events: Mutex<Vec<Event>>,
}

impl Clock {
    pub fn seconds(&self) -> f64 {
        f64::from_bits(self.0.seconds.load(Ordering::Relaxed))
    }

    fn add(&self, seconds: f64) {
        self.0.seconds.store((self.seconds() + seconds).to_bits(), Ordering::Relaxed);
    }

    /// The lane at the side on which things are done now.
    pub fn lane(&self) -> Option<usize> {
        *self.0.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, lane: Option<usize>) {
        *self.0.lane.lock().unwrap_or_else(PoisonError::into_inner) = lane;
    }

    /// What the device has asked of others, in order.
    pub fn events(&self) -> Vec<Event> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn note(&self, event: Event) {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Counts the operations of trainings; those of the physics are free.
pub struct Meter {
    card: Card,
    clock: Clock,
    company: Option<Box<dyn Company<f32>>>,
}

/// Of a convolution.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Direction {
    Forward,
    InputGradient,
    WeightGradient,
}

/// Bytes of a number that is kept as it is.
const EXACT: f64 = 4.0;

/// Outputs of a tile, in both directions.
const TILE: usize = 128;

impl Meter {
    pub fn new(card: Card) -> Self {
        Self { card, clock: Clock::default(), company: None }
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// One pass over so many bytes.
    fn pass(&self, bytes: f64) {
        self.clock.add(self.card.launch + bytes / self.card.bandwidth);
    }

    fn bytes_of(&self, slot: Slot) -> f64 {
        slot.len() as f64 * if slot.is_activation() { self.card.activation } else { EXACT }
    }

    fn slots(&self, slots: &[Slot]) {
        self.pass(slots.iter().map(|&slot| self.bytes_of(slot)).sum());
    }

    fn convolution(&self, direction: Direction, s: &Convolution, y: Slot, write: Write) {
        let card = &self.card;
        let all = s.x_len() as f64 * card.activation + self.bytes_of(y);
        // From many units to few numbers: memory counts, not arithmetic.
        if !y.is_activation() {
            return self.pass(all);
        }
        // The gradient of the input is that of its halo, too.
        let points = s.images * s.rows * s.columns;
        let padded = s.x_len() / s.inputs;
        let (rate, rows, columns) = match direction {
            Direction::Forward => (card.convolution[0], points, s.outputs),
            Direction::InputGradient => (card.convolution[1], padded, s.inputs),
            Direction::WeightGradient => (card.convolution[2], s.kernel * s.kernel * s.inputs, s.outputs),
        };
        let made = if direction == Direction::InputGradient { padded } else { points };
        let inputs = s.inputs.next_multiple_of(8);
        let flops = 2.0 * made as f64 * (s.kernel * s.kernel * inputs * s.outputs) as f64;
        // Multiprocessors without a tile wait; sums over points are split until there are tiles for all.
        let tiles = (rows.div_ceil(TILE) * columns.div_ceil(TILE)) as f64;
        let rounds = (tiles / card.multiprocessors as f64).ceil() * card.multiprocessors as f64;
        let busy = if direction == Direction::WeightGradient { 1.0 } else { tiles / rounds };
        // Narrow tiles read more for each number that they make, and few inputs fill no vectors.
        let narrow = match (direction, s.inputs) {
            (_, ..32) => 0.45,
            (Direction::InputGradient, 32..=64) => 0.6,
            (Direction::InputGradient, 65..128) => 0.7,
            _ => 1.0,
        };
        let mut seconds = (flops / (rate * busy * narrow)).max(all / card.bandwidth);
        if write == Write::Add && self.bytes_of(y) > card.cache {
            seconds += self.bytes_of(y) / card.bandwidth;
        }
        self.clock.add(card.convolution_launch + seconds);
        if inputs != s.inputs {
            self.pass((s.x_len() + s.x_len() / s.inputs * inputs) as f64 * card.activation);
        }
    }
}

impl Device<f32> for Meter {
    fn describe(&self) -> String {
        format!("{}, not asked", self.card.name)
    }

    fn company(&mut self) -> &mut Option<Box<dyn Company<f32>>> {
        &mut self.company
    }

    fn allocate(&mut self, _: &ArenaPlan) -> Result<()> {
        Ok(())
    }

    fn bytes(&self, plan: &ArenaPlan) -> usize {
        let parts = plan.parts();
        parts.exact * EXACT as usize + parts.activations * self.card.activation as usize
    }

    fn repeat(&mut self, _: Sequence, work: &mut dyn FnMut(&mut dyn Device<f32>)) {
        work(self);
    }

    /// At the side there is no room: the card is busy. Only what it waits for goes on beside.
    fn aside(&mut self, lane: usize, work: &mut dyn FnMut(&mut dyn Device<f32>)) {
        self.clock.enter(Some(lane));
        work(self);
        self.clock.enter(None);
    }

    fn join(&mut self, lane: usize) {
        self.clock.note(Event::Join { at: self.clock.seconds(), lane: Some(lane) });
    }

    fn upload(&mut self, to: Slot, _: &[f32]) {
        self.clock.add(self.bytes_of(to) / self.card.host);
    }

    fn download(&self, from: Slot, values: &mut [f32]) {
        self.clock.add(self.bytes_of(from) / self.card.host);
        values.fill(0.0);
    }

    // Beside the work.
    fn start_copy(&mut self, _: &[Slot]) {}

    fn copied(&mut self, _: bool) -> Result<Option<Vec<f32>>> {
        Ok(Some(Vec::new()))
    }

    fn stage(&mut self, _: Slot, _: &[f32]) {}
    fn decode(&mut self, _: &Decode<'_>) {}
    fn daylight(&mut self, _: &Daylight<'_>) {}

    fn hand_over(&mut self, copies: &[(Slot, Slot)]) {
        copies.iter().for_each(|&(from, to)| self.slots(&[from, to]));
    }

    fn zero(&mut self, slot: Slot) {
        self.slots(&[slot]);
    }

    fn copy(&mut self, from: Slot, to: Slot) {
        self.slots(&[from, to]);
    }

    fn halo_fill(&mut self, map: &HaloMap, x: Slot) {
        self.pass(0.0);
        company::fill(self, map, x);
    }

    fn halo_adjoint(&mut self, map: &HaloMap, dx: Slot) {
        company::adjoint(self, map, dx);
        self.pass(0.0);
    }

    fn convolve(&mut self, shape: &Convolution, _: Slot, _: Slot, y: Slot, write: Write) {
        self.convolution(Direction::Forward, shape, y, write);
    }

    fn convolve_input_gradient(&mut self, shape: &Convolution, dy: Slot, _: Slot, _: Slot) {
        self.convolution(Direction::InputGradient, shape, dy, Write::Overwrite);
    }

    fn convolve_weight_gradient(&mut self, shape: &Convolution, _: Slot, dy: Slot, _: Slot) {
        self.convolution(Direction::WeightGradient, shape, dy, Write::Overwrite);
    }

    fn convolve_int8(&mut self, shape: &Convolution, _: Slot, _: &Int8Kernel, _: f32, y: Slot, write: Write) {
        self.convolution(Direction::Forward, shape, y, write);
    }

    fn round(&mut self, _: Counting, x: Slot) {
        self.slots(&[x, x]);
    }

    fn round_adjoint(&mut self, _: Counting, x: Slot, dx: Slot) {
        self.slots(&[x, dx]);
    }

    fn round_columns(&mut self, _: usize, _: f32, w: Slot, rounded: Slot) {
        self.slots(&[w, w, rounded]);
    }

    fn place(&mut self, p: &Placement) {
        let placed = (p.images * p.rows * p.columns * p.channels) as f64;
        self.pass(placed * (EXACT + self.card.activation));
    }

    fn place_adjoint(&mut self, p: &Placement) {
        self.place(p);
    }

    fn cell_forward(&mut self, cell: &Cell, h: Slot, map: &HaloMap, above: Option<&Above>) {
        let gates = self.bytes_of(cell.gates) * if cell.keeps_gates { 2.0 } else { 1.0 };
        let states = self.bytes_of(cell.c) * if cell.c_before.is_some() { 2.0 } else { 1.0 };
        let up = above.map_or(0.0, |above| self.bytes_of(above.slot));
        self.pass(gates + states + self.bytes_of(h) + up);
        company::fill(self, map, h);
    }

    fn cell_backward(&mut self, cell: &Cell, map: &HaloMap, gradients: &CellGradients) {
        if let Some(h) = gradients.h {
            company::adjoint(self, map, h);
        }
        let states = self.bytes_of(cell.c) * if cell.c_before.is_some() { 4.0 } else { 3.0 };
        let above = gradients.above.map(|above| above.slot);
        let read: f64 = gradients.h.into_iter().chain(above).map(|slot| self.bytes_of(slot)).sum();
        self.pass(2.0 * self.bytes_of(cell.gates) + states + read);
        // The sums of all blocks.
        self.pass(0.0);
    }

    fn layer_norm_forward(&mut self, norm: &LayerNorm) {
        self.slots(&[norm.gates, norm.gates, norm.normalised]);
    }

    fn layer_norm_backward(&mut self, norm: &LayerNorm, _: Slot, _: Slot) {
        // Read once more by the sums over points.
        self.slots(&[norm.gates, norm.gates, norm.gates, norm.normalised, norm.normalised]);
    }

    fn layer_norm_moments(&mut self, norm: &LayerNorm, moments: Slot) {
        self.slots(&[norm.gates, moments]);
    }

    fn layer_norm_forward_among(&mut self, norm: &LayerNorm, moments: Slot) {
        self.slots(&[norm.gates, norm.gates, norm.normalised, moments]);
    }

    fn layer_norm_sums(&mut self, norm: &LayerNorm, sums: Slot, _: Slot) {
        self.slots(&[norm.gates, norm.normalised, sums]);
        // Read once more by the sums over points.
        self.slots(&[norm.gates, norm.normalised]);
    }

    fn layer_norm_backward_among(&mut self, norm: &LayerNorm, sums: Slot, _: usize, _: Slot) {
        self.slots(&[norm.gates, norm.gates, norm.normalised, sums]);
        self.slots(&[norm.gates]);
    }

    fn mix(&mut self, _: Slot, _: Slot, prediction: Slot, mixed: Slot) {
        self.slots(&[prediction, mixed]);
    }

    fn mix_adjoint(&mut self, _: Slot, dmixed: Slot, dprediction: Slot) {
        self.slots(&[dmixed, dprediction, dprediction]);
    }

    fn readout(&mut self, readout: &Readout, base: Option<Slot>, fields: Slot) {
        self.slots(&[readout.y, base.unwrap_or(Slot::EMPTY), fields]);
    }

    fn readout_adjoint(&mut self, _: &Readout, dfields: Slot, dy: Slot, _: Slot) {
        self.slots(&[dfields, dy]);
        self.slots(&[dy]);
    }

    fn loss(&mut self, loss: &Loss) {
        self.slots(&[loss.prediction, loss.truth, loss.gradient.unwrap_or(Slot::EMPTY)]);
        self.pass(0.0);
    }

    fn adamw(&mut self, step: &AdamW) {
        let each = self.bytes_of(step.gradient);
        self.pass(7.0 * each);
        // Weights in the library's order, and their gradients in ours.
        self.pass(3.0 * each);
    }

    fn sum_of_squares(&self, slot: Slot) -> f64 {
        self.slots(&[slot]);
        1.0
    }

    fn scale(&mut self, x: Slot, _: f64) {
        self.slots(&[x, x]);
    }

    fn lerp(&mut self, x: Slot, target: Slot, _: f64) {
        self.slots(&[x, x, target]);
    }

    fn relax(&mut self, x: Slot, target: Slot, weights: Slot) {
        self.slots(&[x, x, target, weights]);
    }

    fn pack(&mut self, x: Slot, packed: Slot) {
        self.slots(&[x, packed]);
    }

    fn unpack(&mut self, packed: Slot, _: usize, x: Slot) {
        self.slots(&[packed, x]);
    }

    fn pick(&mut self, picking: &Picking) {
        self.slots(&[picking.x, picking.residual, picking.residual, picking.residual, picking.picked]);
    }

    fn lay_out(&mut self, picked: Slot, _: usize, _: usize, x: Slot) {
        self.slots(&[picked, x]);
    }

    fn flow(&mut self, _: &Flow, _: Triple, _: &FlowOutput) {}
    fn biharmonic(&mut self, _: &Biharmonic) {}
    fn fastest_rate(&self, _: &Rates) -> f64 {
        0.0
    }
    fn waves_forward(&mut self, _: Ends, _: usize, _: Slot, _: Slot) {}
    fn waves_backward(&mut self, _: Ends, _: usize, _: Slot) {}
    fn solve_waves(&mut self, _: &Elliptic, _: Range<usize>, _: Slot) {}
    fn leapfrog_predict(&mut self, _: &Leapfrog) {}
    fn leapfrog_correct(&mut self, _: &Leapfrog) {}
    fn depart(&mut self, _: &Departures) {}
    fn interpolate(&mut self, _: &Interpolation) {}
    fn sum(&mut self, sum: &Sum) {
        sum.terms.iter().for_each(|term| self.slots(&[sum.y.slot, term.x.slot]));
    }
    fn jacobian(&mut self, _: &Jacobian) {}
    fn smooth_rows(&mut self, _: &RowSmoothing) {}
}
