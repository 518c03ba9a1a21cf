//! Every operation on one device against another: the test of a GPU wherever there is one, and the first aid of
//! `wxsim doctor --check`.
//!
//! A case plans some slots, which begin with the same numbers on both devices, does one operation, and names what is to be
//! compared and how many roundings it may differ by. To add one: a function in one of the files here, and a line in its
//! list.

mod elementary;
mod incoming;
mod network;
mod packed;
mod physics;

use super::{ArenaPlan, Device, Real, Slot};
use crate::error::Result;

/// What a device did in one case.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// A method of [`Device`].
    pub operation: &'static str,
    /// The worst difference of any output from the oracle's, as a share of that output's largest number; infinite where
    /// something is not finite that should be.
    pub error: f64,
    /// What arithmetic explains.
    pub tolerance: f64,
    /// Why there is no error to tell.
    pub failure: Option<String>,
}

impl Outcome {
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.error <= self.tolerance
    }
}

/// How exactly a device computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Bits of the significands of the numbers that cases begin with: both devices hold them exactly.
    bits: u32,
    /// Largest relative error of one rounding.
    rounding: f64,
    /// The same where an activation is stored.
    storing: f64,
}

impl Precision {
    pub const DOUBLE: Self = Self { bits: 24, rounding: f64::EPSILON / 2.0, storing: f64::EPSILON / 2.0 };
    pub const SINGLE: Self =
        Self { bits: 24, rounding: f32::EPSILON as f64 / 2.0, storing: f32::EPSILON as f64 / 2.0 };
    /// Factors that lose nothing when 11 bits of them are read.
    pub const TF32: Self = Self { bits: 11, ..Self::SINGLE };
    /// Its elementary functions are those that take the fewest instructions: some 16 roundings each.
    pub const BF16: Self = Self { bits: 8, rounding: 16.0 * Self::SINGLE.rounding, storing: 1.0 / 256.0 };
    pub const FP16: Self = Self { bits: 11, storing: 1.0 / 2048.0, ..Self::BF16 };
}

/// Numbers that a case computed, and by how many roundings they may be off.
struct Output {
    values: Vec<f64>,
    tolerance: f64,
}

/// A device on which a case is run.
pub struct Bench<'a, T: Real> {
    pub device: &'a mut dyn Device<T>,
    precision: Precision,
    outputs: Vec<Output>,
}

impl<T: Real> Bench<'_, T> {
    /// Slots of these lengths, full of noise, in place of all that were there.
    pub fn slots<const N: usize>(&mut self, lengths: [usize; N]) -> Result<[Slot; N]> {
        Ok(self.mixed(lengths, [])?.0)
    }

    /// As [`slots`](Self::slots), and some that hold activations.
    pub fn mixed<const N: usize, const M: usize>(
        &mut self,
        exact: [usize; N],
        activations: [usize; M],
    ) -> Result<([Slot; N], [Slot; M])> {
        let mut plan = ArenaPlan::default();
        let slots = (exact.map(|len| plan.slot(len)), activations.map(|len| plan.activations(len)));
        self.start(&plan, &[&slots.0[..], &slots.1[..]].concat())?;
        Ok(slots)
    }

    /// Allocates a plan and fills slots with noise.
    pub fn start(&mut self, plan: &ArenaPlan, slots: &[Slot]) -> Result<()> {
        self.device.allocate(plan)?;
        for (seed, &slot) in slots.iter().enumerate() {
            self.fill(slot, seed as u64);
        }
        Ok(())
    }

    /// Fills a slot with noise.
    pub fn fill(&mut self, slot: Slot, seed: u64) {
        self.upload(slot, &noise(slot.len(), seed, self.precision.bits));
    }

    pub fn upload(&mut self, slot: Slot, values: &[f64]) {
        self.device.upload(slot, &values.iter().map(|&x| T::of(x)).collect::<Vec<_>>());
    }

    /// Compares a slot; `roundings` is how many roundings of its largest number arithmetic may leave, besides that of
    /// storing it.
    pub fn compare(&mut self, slot: Slot, roundings: f64) {
        let stored = if slot.is_activation() { 1.0 } else { 0.0 };
        self.compare_rounded(slot, stored, roundings);
    }

    pub fn compare_all(&mut self, slots: &[Slot], roundings: f64) {
        slots.iter().for_each(|&slot| self.compare(slot, roundings));
    }

    /// As [`compare`](Self::compare), of what was as much as `stored` times rounded to an activation on its way.
    pub fn compare_rounded(&mut self, slot: Slot, stored: f64, roundings: f64) {
        let mut values = vec![T::default(); slot.len()];
        self.device.download(slot, &mut values);
        let tolerance = stored * self.precision.storing + roundings * self.precision.rounding;
        self.outputs.push(Output { values: values.into_iter().map(Real::wide).collect(), tolerance });
    }

    /// Compares numbers that the device gave.
    pub fn compare_values(&mut self, values: Vec<f64>, roundings: f64) {
        self.outputs.push(Output { values, tolerance: roundings * self.precision.rounding });
    }

    /// Compares a number that the device gave; relative to its size.
    pub fn compare_number(&mut self, value: f64, tolerance: f64) {
        self.outputs.push(Output { values: vec![value], tolerance });
    }
}

/// One operation on one shape, for both kinds of numbers.
struct Case {
    operation: &'static str,
    single: fn(&mut Bench<'_, f32>) -> Result<()>,
    double: fn(&mut Bench<'_, f64>) -> Result<()>,
}

/// `case!(relax)`: the function of that name in the file, which checks the operation of that name;
/// `case!(convolve: wide)`: the function `wide`.
macro_rules! case {
    ($operation:ident) => {
        case!($operation: $operation)
    };
    ($operation:ident: $function:ident) => {
        $crate::device::check::Case {
            operation: stringify!($operation),
            single: $function::<f32>,
            double: $function::<f64>,
        }
    };
}
use case;

fn cases() -> impl Iterator<Item = Case> {
    let network = incoming::cases().into_iter().chain(network::cases());
    elementary::cases().into_iter().chain(network).chain(packed::cases()).chain(physics::cases())
}

/// The numbers that a device can be checked with.
pub trait Checked: Real {
    #[doc(hidden)]
    fn run(case: &CaseRef<'_>, bench: &mut Bench<'_, Self>) -> Result<()>;
}

/// A case, without its fields.
#[doc(hidden)]
pub struct CaseRef<'a>(&'a Case);

impl Checked for f32 {
    fn run(case: &CaseRef<'_>, bench: &mut Bench<'_, Self>) -> Result<()> {
        (case.0.single)(bench)
    }
}

impl Checked for f64 {
    fn run(case: &CaseRef<'_>, bench: &mut Bench<'_, Self>) -> Result<()> {
        (case.0.double)(bench)
    }
}

/// Every case on `device`, against `oracle`: the worst outcome of each operation, in the order of the lists.
pub fn check<T: Checked>(
    oracle: &mut dyn Device<f64>,
    device: &mut dyn Device<T>,
    precision: Precision,
) -> Vec<Outcome> {
    let mut worst: Vec<Outcome> = Vec::new();
    for case in cases() {
        let outcome = compare(&case, oracle, device, precision);
        match worst.iter_mut().find(|known| known.operation == case.operation) {
            Some(known) if share(&outcome) > share(known) => *known = outcome,
            Some(_) => {}
            None => worst.push(outcome),
        }
    }
    worst
}

/// How much of its tolerance an outcome uses.
fn share(outcome: &Outcome) -> f64 {
    if outcome.failure.is_some() { f64::INFINITY } else { outcome.error / outcome.tolerance }
}

fn compare<T: Checked>(
    case: &Case,
    oracle: &mut dyn Device<f64>,
    device: &mut dyn Device<T>,
    precision: Precision,
) -> Outcome {
    let exact = outputs(case, oracle, precision);
    let found = outputs(case, device, precision);
    let mut outcome =
        Outcome { operation: case.operation, error: 0.0, tolerance: precision.rounding, failure: None };
    match (exact, found) {
        (Err(error), _) | (_, Err(error)) => outcome.failure = Some(crate::error::chain(&error)),
        (Ok(exact), Ok(found)) => {
            for (exact, found) in exact.iter().zip(&found) {
                let error = difference(&exact.values, &found.values);
                let tolerance = found.tolerance;
                if error / tolerance >= outcome.error / outcome.tolerance {
                    (outcome.error, outcome.tolerance) = (error, tolerance);
                }
            }
        }
    }
    outcome
}

fn outputs<T: Checked>(case: &Case, device: &mut dyn Device<T>, precision: Precision) -> Result<Vec<Output>> {
    let mut bench = Bench { device, precision, outputs: Vec::new() };
    T::run(&CaseRef(case), &mut bench)?;
    bench.device.finish()?;
    Ok(bench.outputs)
}

/// The largest difference as a share of the largest number.
fn difference(exact: &[f64], found: &[f64]) -> f64 {
    let largest = exact.iter().filter(|x| x.is_finite()).fold(0.0_f64, |most, x| most.max(x.abs()));
    let mut worst = 0.0_f64;
    for (&exact, &found) in exact.iter().zip(found) {
        if exact.is_nan() && found.is_nan() {
            continue;
        }
        let apart = (exact - found).abs();
        if apart.is_nan() {
            return f64::INFINITY;
        }
        worst = worst.max(apart);
    }
    if worst == 0.0 { 0.0 } else { worst / largest }
}

/// Numbers in [-1, 1) that look random, with significands of so many bits.
fn noise(len: usize, seed: u64, bits: u32) -> Vec<f64> {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let half = f64::from(1_u32 << (bits - 1));
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> (64 - bits)) as f64 / half - 1.0
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::Cpu;
    use crate::device::cuda::{Compute, Cuda};

    fn assert_all_pass(what: &str, outcomes: &[Outcome]) {
        for outcome in outcomes {
            println!("{what}: {:26} {:9.2e} of {:9.2e}", outcome.operation, outcome.error, outcome.tolerance);
        }
        for outcome in outcomes {
            assert!(outcome.passed(), "{what}: {outcome:?}");
        }
    }

    #[test]
    fn single_precision_on_the_processor_is_off_by_roundings_alone() {
        let oracle = &mut Cpu::<f64>::new(Some(1)).unwrap();
        let outcomes = check(oracle, &mut Cpu::<f32>::new(Some(2)).unwrap(), Precision::SINGLE);
        assert_all_pass("cpu, single", &outcomes);
        // A check that finds no difference at all compares nothing.
        assert!(outcomes.iter().filter(|outcome| outcome.error > 0.0).count() > outcomes.len() / 2);
    }

    #[test]
    fn every_operation_of_the_gpu_agrees_with_the_processor() {
        if let Err(error) = Cuda::<f32>::new(0, Compute::Single) {
            return println!("SKIPPED: {}", crate::error::chain(&error));
        }
        let oracle = &mut Cpu::<f64>::new(None).unwrap();
        let mut gpu = Cuda::<f64>::new(0, Compute::Single).unwrap();
        assert_all_pass("gpu, double", &check(oracle, &mut gpu, Precision::DOUBLE));
        let computed = [
            (Compute::Single, Precision::SINGLE),
            (Compute::Bf16, Precision::BF16),
            (Compute::Fp16, Precision::FP16),
        ];
        for (compute, precision) in computed {
            let mut gpu = Cuda::<f32>::new(0, compute).unwrap();
            assert_all_pass(&format!("gpu, {compute:?}"), &check(oracle, &mut gpu, precision));
        }
    }
}
