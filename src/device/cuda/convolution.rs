//! Convolutions: by the plan of a library that won a trial, or by our own kernels.

use super::super::{Convolution, Real, Slot, Write};
use super::cudnn::{Cudnn, Direction, Problem};
use super::memory::check_disjoint;
use super::modules::Grid;
use super::prepared::Turned;
use super::{Cuda, head, own, prepared};
use crate::error::Result;

/// Bytes that a library's fast plans read at once.
const VECTOR: usize = 16;

/// Numbers that a thread copies, of which every library's vector has whole ones.
const LANES: usize = 4;

pub(super) fn forward<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    x: Slot,
    w: Slot,
    y: Slot,
    write: Write,
) -> Result<()> {
    check(s, x, w, y);
    check_disjoint(&[x, w], &[y]);
    let at = |slot| cuda.arena.address(slot);
    if let Some((cudnn, problem)) = library(cuda, Direction::Forward, s, y, write)? {
        let turned = prepared::get(cuda, w, Turned::new(s, problem.shape.inputs))?;
        let x = padded(cuda, s, &problem, x)?;
        return Cudnn::convolve(cuda, cudnn, &problem, [x, turned, at(y)]);
    }
    if !y.is_activation() && head::suits::<T>(s) {
        return head::forward(cuda, s, [x, w, y].map(at), write);
    }
    own::forward(cuda, s, [x, w, y].map(at), y.is_activation(), write)
}

pub(super) fn input_gradient<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    dy: Slot,
    w: Slot,
    dx: Slot,
) -> Result<()> {
    check(s, dx, w, dy);
    check_disjoint(&[dy, w], &[dx]);
    let at = |slot| cuda.arena.address(slot);
    if let Some((cudnn, problem)) = library(cuda, Direction::InputGradient, s, dy, Write::Overwrite)? {
        let turned = prepared::get(cuda, w, Turned::new(s, problem.shape.inputs))?;
        if problem.shape.inputs == s.inputs {
            return Cudnn::convolve(cuda, cudnn, &problem, [at(dx), turned, at(dy)]);
        }
        let wide = cuda.scratch(scratch_bytes(cuda, &problem))?;
        Cudnn::convolve(cuda, cudnn, &problem, [wide, turned, at(dy)])?;
        return unpad(cuda, s, &problem, wide, dx);
    }
    if !dy.is_activation() && head::suits::<T>(s) {
        return head::input_gradient(cuda, s, [dx, w, dy].map(at));
    }
    own::input_gradient(cuda, s, [dx, w, dy].map(at), dy.is_activation())
}

pub(super) fn weight_gradient<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    x: Slot,
    dy: Slot,
    dw: Slot,
) -> Result<()> {
    check(s, x, dw, dy);
    check_disjoint(&[x, dy], &[dw]);
    let at = |slot| cuda.arena.address(slot);
    if let Some((cudnn, problem)) = library(cuda, Direction::WeightGradient, s, dy, Write::Overwrite)? {
        let shape = Turned::new(s, problem.shape.inputs);
        // Behind the padded x, if there is one.
        let x_bytes = if problem.shape.inputs == s.inputs { 0 } else { scratch_bytes(cuda, &problem) };
        let turned = cuda.scratch(x_bytes + shape.len() * cuda.sizes()[1])? + x_bytes as u64;
        let x = padded(cuda, s, &problem, x)?;
        Cudnn::convolve(cuda, cudnn, &problem, [x, turned, at(dy)])?;
        return prepared::add_turned(cuda, turned, at(dw), shape);
    }
    if !dy.is_activation() && head::suits::<T>(s) {
        return head::weight_gradient(cuda, s, [x, dw, dy].map(at));
    }
    own::weight_gradient(cuda, s, [x, dw, dy].map(at), dy.is_activation())
}

/// The library, if there is one that this device's numbers suit, and the problem as it sees it. It has one precision for
/// all operands: a y that is kept in full precision is ours.
fn library<'a, T: Real>(
    cuda: &'a Cuda<T>,
    direction: Direction,
    shape: &Convolution,
    y: Slot,
    write: Write,
) -> Result<Option<(&'a Cudnn, Problem)>> {
    let Some((cudnn, storage)) = cuda.cudnn.as_ref().filter(|_| y.is_activation()) else {
        return Ok(None);
    };
    // Its fast plans read 16 bytes at a time.
    let inputs = shape.inputs.next_multiple_of(VECTOR / storage.bytes());
    let shape = Convolution { inputs, ..*shape };
    let problem = Problem { direction, shape, storage: *storage, adds: write == Write::Add };
    Ok(Cudnn::solves(cuda, cudnn, &problem)?.then_some((cudnn, problem)))
}

/// The address of x with as many inputs as the library wants: its own, or in scratch memory.
fn padded<T: Real>(cuda: &Cuda<T>, s: &Convolution, problem: &Problem, x: Slot) -> Result<u64> {
    let inputs = problem.shape.inputs;
    if inputs == s.inputs {
        return Ok(cuda.arena.address(x));
    }
    let wide = cuda.scratch(scratch_bytes(cuda, problem))?;
    let n = problem.shape.x_len() / LANES;
    let launch = cuda.kernel("pad_channels").slot(x).address(wide).int(s.inputs).int(inputs);
    launch.int(usize::from(s.inputs.is_multiple_of(LANES))).long(n).run(Grid::over(n))?;
    Ok(wide)
}

/// Of x with as many inputs as the library wants, in whole vectors.
fn scratch_bytes<T: Real>(cuda: &Cuda<T>, problem: &Problem) -> usize {
    (problem.shape.x_len() * cuda.sizes()[1]).next_multiple_of(256)
}

/// Copies the gradient that the library made to where it belongs.
fn unpad<T: Real>(cuda: &Cuda<T>, s: &Convolution, problem: &Problem, wide: u64, dx: Slot) -> Result<()> {
    let n = s.x_len() / s.inputs * s.inputs.div_ceil(LANES);
    let launch = cuda.kernel("unpad_channels").address(wide).slot(dx).int(s.inputs);
    let launch = launch.int(problem.shape.inputs).int(usize::from(s.inputs.is_multiple_of(LANES)));
    launch.long(n).run(Grid::over(n))
}

/// Our own kernels on the operands of a library: w `[output, tap, input]` in the precision of activations.
pub(super) fn own_turned<T: Real>(
    cuda: &Cuda<T>,
    problem: &Problem,
    [x, turned, y]: [u64; 3],
    weights: u64,
) -> Result<()> {
    let s = &problem.shape;
    let shape = Turned::new(s, s.inputs);
    let write = if problem.adds { Write::Add } else { Write::Overwrite };
    match problem.direction {
        Direction::Forward => own::forward(cuda, s, [x, weights, y], true, write),
        Direction::InputGradient => own::input_gradient(cuda, s, [x, weights, y], true),
        Direction::WeightGradient => {
            own::weight_gradient(cuda, s, [x, weights, y], true)?;
            prepared::turn(cuda, weights, turned, shape)
        }
    }
}

fn check(s: &Convolution, x: Slot, w: Slot, y: Slot) {
    assert!(s.kernel % 2 == 1, "a kernel of {} has no middle", s.kernel);
    assert!(s.y_len() > 0 && s.inputs > 0, "{s:?} is empty");
    assert_eq!(x.len(), s.x_len(), "x of {s:?}");
    assert_eq!(w.len(), s.w_len(), "w of {s:?}");
    assert_eq!(y.len(), s.y_len(), "y of {s:?}");
}
