//! Moving numbers, passes over whole slots, halos.

use super::super::{Beyond, Boundary, Channel, Company, Device, Edge, Edges, Real, Slot, Stagger};
use super::{Bench, Case, case};
use crate::error::{Error, Result};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(upload),
        case!(zero),
        case!(copy),
        case!(start_copy),
        case!(scale),
        case!(lerp),
        case!(relax),
        case!(sum_of_squares),
        case!(halo_fill),
        case!(halo_adjoint),
        case!(halo_fill: halo_fill_of_many_channels),
        case!(halo_adjoint: halo_adjoint_of_many_channels),
        case!(halo_fill: halo_fill_of_a_ring),
        case!(halo_adjoint: halo_adjoint_of_a_ring),
    ]
}

/// Several blocks and a rest.
const N: usize = 70_001;

fn upload<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x] = bench.slots([N])?;
    bench.compare(x, 0.5);
    Ok(())
}

fn zero<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x] = bench.slots([N])?;
    bench.device.zero(x.part(3, 1001));
    bench.compare(x, 0.5);
    Ok(())
}

fn copy<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x, y] = bench.slots([N, N])?;
    bench.device.copy(x.part(5, 777), y.part(1, 777));
    bench.compare(y, 0.5);
    Ok(())
}

fn start_copy<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let ([x], [act]) = bench.mixed([N], [N])?;
    for _ in 0..2 {
        bench.device.start_copy(&[x.part(3, 1001), act.part(5, 777)]);
        // What comes after is not copied.
        bench.device.scale(x, 0.5);
        bench.device.zero(act.part(0, 100));
        let copied = bench.device.copied(true)?.unwrap_or_default();
        bench.device.upload(x.part(1, 1001), &copied[..1001]);
        bench.device.upload(act.part(64, 777), &copied[1001..]);
    }
    bench.compare(x, 1.0);
    bench.compare(act, 0.5);
    Ok(())
}

fn scale<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x] = bench.slots([N])?;
    bench.device.scale(x, 0.3);
    // The factor and the product.
    bench.compare(x, 2.0);
    Ok(())
}

fn lerp<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x, target] = bench.slots([N, N])?;
    bench.device.lerp(x, target, 0.1);
    bench.compare(x, 3.0);
    Ok(())
}

fn relax<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x, target, weights] = bench.slots([N, N, N])?;
    let mut whole = vec![1.0; 7];
    whole[3] = 0.0;
    bench.upload(weights.part(0, 7), &whole);
    // Where the weight is 1, x is not looked at.
    bench.upload(x.part(0, 2), &[f64::NAN, f64::INFINITY]);
    bench.device.relax(x, target, weights);
    bench.compare(x, 4.0);
    Ok(())
}

fn sum_of_squares<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x] = bench.slots([N])?;
    let sum = bench.device.sum_of_squares(x);
    // Taken in float64 on every device: at most one rounding for each of N positive numbers.
    bench.compare_number(sum, N as f64 * f64::EPSILON);
    Ok(())
}

/// Both poles, each kind of stagger and parity.
fn around_the_poles<T: Real>(bench: &mut Bench<'_, T>, fill: bool) -> Result<()> {
    let edges = Edges { periodic: true, rows: [Edge::Pole { row_on_pole: false }; 2] };
    let even = Channel::centre(false);
    let channels = [
        even,
        Channel::centre(true),
        Channel { odd: true, stagger: Stagger::West },
        Channel { odd: true, stagger: Stagger::South },
        Channel { odd: false, stagger: Stagger::South },
    ];
    halo(bench, &edges, [2, 7, 10, 2], &channels, fill)
}

fn halo<T: Real>(
    bench: &mut Bench<'_, T>,
    edges: &Edges,
    [images, rows, columns, width]: [usize; 4],
    channels: &[Channel],
    fill: bool,
) -> Result<()> {
    let map = edges.map(images, rows, columns, width, channels)?;
    let (_, [x]) = bench.mixed([], [images * map.cells * channels.len()])?;
    if fill {
        bench.device.halo_fill(&map, x);
        bench.compare(x, 0.5);
    } else {
        bench.device.halo_adjoint(&map, x);
        // A corner of a region is copied to a square: sums of so many.
        bench.compare(x, ((width + 1) * (width + 1)) as f64);
    }
    Ok(())
}

/// A region, with channels for whole vectors.
fn of_many_channels<T: Real>(bench: &mut Bench<'_, T>, fill: bool) -> Result<()> {
    let edges = Edges { periodic: false, rows: [Edge::Replicate; 2] };
    halo(bench, &edges, [3, 5, 9, 3], &[Channel::centre(false); 24], fill)
}

fn halo_fill<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    around_the_poles(bench, true)
}

fn halo_adjoint<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    around_the_poles(bench, false)
}

fn halo_fill_of_many_channels<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    of_many_channels(bench, true)
}

fn halo_adjoint_of_many_channels<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    of_many_channels(bench, false)
}

/// A device that is its own neighbour on both sides.
struct Ring;

impl<T: Real> Company<T> for Ring {
    fn swap(&mut self, device: &mut dyn Device<T>, fields: &[Beyond]) {
        for beyond in fields {
            if let [Some(before), Some(behind)] = beyond {
                device.copy(before[0], behind[1]);
                device.copy(behind[0], before[1]);
            }
        }
    }

    fn deal(&mut self, device: &mut dyn Device<T>, given: &[Slot], got: &[Slot]) {
        given.iter().zip(got).for_each(|(&from, &to)| device.copy(from, to));
    }

    fn gather(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        device.copy(from, to);
    }

    fn scatter(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        device.copy(from, to);
    }

    fn spread(&mut self, _: &mut dyn Device<T>, _: Slot, _: usize) {}

    fn add_up(&mut self, _: &mut dyn Device<T>, _: Slot) {}

    fn fail(&mut self, _: &Error) {}

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Bands of a grid that closes in both directions: several images, whose rows are packed, and one, whose rows are not.
fn ring<T: Real>(bench: &mut Bench<'_, T>, fill: bool) -> Result<()> {
    let edges = Edges { periodic: true, rows: [Edge::Neighbour; 2] };
    for (images, channels) in [(3, 24), (1, 5)] {
        let map = edges.map(images, 7, 10, 2, &vec![Channel::centre(false); channels])?;
        let ([room], [x]) = bench.mixed([map.room()], [images * map.cells * channels])?;
        let map = map.with_room(room);
        *bench.device.company() = Some(Box::new(Ring));
        if fill {
            bench.device.halo_fill(&map, x);
        } else {
            bench.device.halo_adjoint(&map, x);
        }
        *bench.device.company() = None;
        // Sums of up to two columns of three rows.
        bench.compare(x, if fill { 0.5 } else { 6.0 });
    }
    Ok(())
}

fn halo_fill_of_a_ring<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    ring(bench, true)
}

fn halo_adjoint_of_a_ring<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    ring(bench, false)
}
