//! Transforms of rows on the GPU and what is solved of their waves: tables and launches.

use std::f64::consts::PI;
use std::ops::Range;

use super::super::{Elliptic, Ends, Real, Slot};
use super::Cuda;
use super::driver::{Gpu, Memory};
use super::memory::check_disjoint;
use super::modules::Grid;
use super::rows::Lines;
use crate::error::Result;

/// Columns of a block that solves.
const COLUMNS: usize = 8;

/// The transforms whose tables are on the GPU.
#[derive(Default)]
pub(super) struct Tables {
    known: Vec<(Ends, usize, Table)>,
}

/// The tables of rows of one length with one kind of ends.
struct Table {
    /// Of the complex transform.
    length: usize,
    /// Holds all three.
    memory: Memory,
    half_turns: u64,
    radices: u64,
}

impl Table {
    fn new<T: Real>(gpu: &Gpu, ends: Ends, columns: usize) -> Result<Self> {
        let length = match ends {
            Ends::Periodic => columns,
            Ends::Dirichlet => 2 * (columns + 1),
            Ends::Neumann => 2 * columns,
        };
        let mut bytes = Vec::new();
        turns::<T>(&mut bytes, length, 2.0 * PI / length as f64);
        let half_turns = bytes.len() as u64;
        if ends == Ends::Neumann {
            turns::<T>(&mut bytes, columns, PI / (2 * columns) as f64);
        }
        let radices_at = bytes.len() as u64;
        bytes.extend(radices(length).into_iter().chain([1]).flat_map(|radix| (radix as u32).to_le_bytes()));
        let memory = Memory::holding(gpu, &bytes)?;
        let (half_turns, radices) = (memory.start() + half_turns, memory.start() + radices_at);
        Ok(Self { length, memory, half_turns, radices })
    }
}

/// Appends `exp(-i k angle)`, k = 0 to count - 1.
fn turns<T: Real>(bytes: &mut Vec<u8>, count: usize, angle: f64) {
    for k in 0..count {
        let (sin, cos) = (-angle * k as f64).sin_cos();
        for x in [cos, sin] {
            match size_of::<T>() {
                4 => bytes.extend((x as f32).to_le_bytes()),
                _ => bytes.extend(x.to_le_bytes()),
            }
        }
    }
}

/// Factors of a length in the order of the passes. Odd ones come first: what the first passes write then lies in different
/// banks of shared memory.
fn radices(length: usize) -> Vec<usize> {
    let (mut rest, mut factors) = (length, Vec::new());
    let mut prime = 3;
    while rest.is_multiple_of(2) {
        rest /= 2;
    }
    let twos = (length / rest).trailing_zeros() as usize;
    while rest > 1 {
        if prime * prime > rest {
            prime = rest;
        }
        while rest.is_multiple_of(prime) {
            factors.push(prime);
            rest /= prime;
        }
        prime += 2;
    }
    factors.reverse();
    // Eights, as far as no two is left alone.
    let fours = match twos % 3 {
        0 => 0,
        1 if twos > 1 => 2,
        1 => 0,
        _ => 1,
    };
    factors.extend(std::iter::repeat_n(8, (twos - 2 * fours) / 3));
    factors.extend(std::iter::repeat_n(4, fours));
    if twos == 1 {
        factors.push(2);
    }
    factors
}

impl Tables {
    fn get<T: Real>(&mut self, gpu: &Gpu, ends: Ends, columns: usize) -> Result<&Table> {
        let index = match self.known.iter().position(|known| (known.0, known.1) == (ends, columns)) {
            Some(index) => index,
            None => {
                self.known.push((ends, columns, Table::new::<T>(gpu, ends, columns)?));
                self.known.len() - 1
            }
        };
        Ok(&self.known[index].2)
    }

    pub fn clear(&mut self) {
        self.known.clear();
    }
}

/// As the kernels count them.
fn number(ends: Ends) -> usize {
    match ends {
        Ends::Periodic => 0,
        Ends::Dirichlet => 1,
        Ends::Neumann => 2,
    }
}

pub(super) fn forward<T: Real>(
    cuda: &Cuda<T>,
    ends: Ends,
    columns: usize,
    from: Slot,
    to: Slot,
) -> Result<()> {
    assert!(from.len() == to.len() && to.len().is_multiple_of(columns), "amplitudes for each row");
    check_disjoint(&[if from == to { Slot::EMPTY } else { from }], &[to]);
    transform(cuda, "waves_forward", ends, columns, &[from, to])
}

pub(super) fn backward<T: Real>(cuda: &Cuda<T>, ends: Ends, columns: usize, x: Slot) -> Result<()> {
    transform(cuda, "waves_backward", ends, columns, &[x])
}

/// The systems of all waves at these places at once.
pub(super) fn solve<T: Real>(
    cuda: &Cuda<T>,
    elliptic: &Elliptic,
    places: Range<usize>,
    x: Slot,
) -> Result<()> {
    let (rows, columns) = (elliptic.rows(), places.len());
    let count = elliptic.ends().waves(elliptic.columns());
    assert_eq!(x.len(), rows * columns, "one amplitude for each row and place");
    assert!(places.end <= elliptic.columns(), "places of a row");
    let Elliptic { pivots, carries, shares, .. } = *elliptic;
    assert!(
        pivots.len() == rows * count && carries.len() == pivots.len(),
        "one pivot for each wave of a row"
    );
    assert!([0, rows].contains(&shares.len()), "one share for each row");
    check_disjoint(&[pivots, carries, shares], &[x]);
    let shares = if places.start == 0 { shares } else { Slot::EMPTY };
    let launch = cuda.kernel("solve_waves").slot(x).slot(pivots).slot(carries).slot(shares);
    let launch = launch.int(rows).int(columns).int(places.start).int(count).int(count);
    launch.run(Grid::blocks(columns.div_ceil(COLUMNS)))
}

fn transform<T: Real>(
    cuda: &Cuda<T>,
    kernel: &'static str,
    ends: Ends,
    columns: usize,
    slots: &[Slot],
) -> Result<()> {
    let mut tables = cuda.waves.borrow_mut();
    let table = tables.get::<T>(&cuda.gpu, ends, columns)?;
    let rows = slots[0].len() / columns;
    let lines = Lines::new(cuda, kernel, rows.div_ceil(2), 4 * table.length * size_of::<T>())?;
    let launch = slots.iter().fold(cuda.kernel(kernel), |launch, &slot| launch.slot(slot));
    let launch = launch.address(table.memory.start()).address(table.half_turns).address(table.radices);
    let launch = launch.address(lines.memory(cuda)?).int(rows).int(columns).int(table.length);
    launch.int(number(ends)).run(lines.grid)
}

#[cfg(test)]
mod tests {
    use super::radices;

    #[test]
    fn a_length_is_the_product_of_its_radices_and_those_of_grids_are_short() {
        for length in 1..3000 {
            let factors = radices(length);
            assert_eq!(factors.iter().product::<usize>(), length);
            assert!(!factors.contains(&1), "{length}: {factors:?}");
            assert!(factors.iter().filter(|&&radix| radix == 2).count() <= 1, "{length}: {factors:?}");
        }
        assert_eq!(radices(1440), [5, 3, 3, 8, 4]);
        assert_eq!(radices(512), [8, 8, 8]);
        assert_eq!(radices(128), [8, 4, 4]);
        assert_eq!(radices(2 * 127), [127, 2]);
    }
}
