//! Semi-Lagrangian transport. The geometry is in double precision whatever the fields are: a place is found once and
//! used for all fields, and rounding it would move them.

use super::super::transport::{Departures, Interpolation, Lattice};
use super::super::{Edge, Real};
use super::threads::Threads;

/// Sines and cosines of the latitudes and longitudes of a lattice.
struct Directions {
    rows: Vec<(f64, f64)>,
    columns: Vec<(f64, f64)>,
}

impl Directions {
    fn of(lattice: &Lattice) -> Self {
        let along = |n: usize, first: f64, step: f64| {
            (0..n).map(|i| (first + step * i as f64).sin_cos()).collect::<Vec<_>>()
        };
        Self {
            rows: along(lattice.rows, lattice.first, lattice.dp),
            columns: along(lattice.columns, 0.0, lattice.dl),
        }
    }

    /// The point of a row and column on the unit sphere.
    fn point(&self, j: usize, i: usize) -> [f64; 3] {
        let ((sp, cp), (sl, cl)) = (self.rows[j], self.columns[i]);
        [cp * cl, cp * sl, sp]
    }

    /// `u` eastward and `v` northward at a row and column as a vector in space.
    fn vector(&self, j: usize, i: usize, u: f64, v: f64) -> [f64; 3] {
        let ((sp, cp), (sl, cl)) = (self.rows[j], self.columns[i]);
        [-u * sl - v * sp * cl, u * cl - v * sp * sl, v * cp]
    }
}

/// `velocity` is u and v.
pub(super) fn departures<T: Real>(threads: &Threads, d: &Departures, velocity: [&[T]; 2], places: &mut [T]) {
    let lattice = &d.lattice;
    let directions = Directions::of(lattice);
    threads.chunks(places, 2 * lattice.columns, |j, places| {
        for (i, place) in places.chunks_exact_mut(2).enumerate() {
            let offset = departure(d, &directions, velocity, j, i);
            place[0] = T::of(offset[0]);
            place[1] = T::of(offset[1]);
        }
    });
}

/// Rows and columns from the point of arrival to that of departure.
fn departure<T: Real>(
    d: &Departures,
    directions: &Directions,
    [u, v]: [&[T]; 2],
    j: usize,
    i: usize,
) -> [f64; 2] {
    let lattice = &d.lattice;
    let x = directions.point(j, i);
    let moved = |j: usize, i: usize| {
        let at = j * lattice.columns + i;
        directions.vector(j, i, d.scale * u[at].wide(), d.scale * v[at].wide())
    };
    let mut middle = x;
    let mut motion = moved(j, i);
    for iteration in 0..d.iterations {
        if iteration > 0 {
            let [rows, columns] = offset(lattice, directions, j, i, middle);
            motion = linear(lattice, j as f64 + rows, i as f64 + columns, moved);
        }
        middle = unit([x[0] - motion[0] / 2.0, x[1] - motion[1] / 2.0, x[2] - motion[2] / 2.0]);
    }
    let twice = 2.0 * (x[0] * middle[0] + x[1] * middle[1] + x[2] * middle[2]);
    let start = [0, 1, 2].map(|c| twice * middle[c] - x[c]);
    let place = offset(lattice, directions, j, i, start);
    if place.iter().all(|p| p.is_finite()) { place } else { [f64::NAN; 2] }
}

fn unit(x: [f64; 3]) -> [f64; 3] {
    let length = (x[0] * x[0] + x[1] * x[1] + x[2] * x[2]).sqrt();
    x.map(|c| c / length)
}

/// Rows and columns from a point of the lattice to a point of the sphere.
fn offset(lattice: &Lattice, directions: &Directions, j: usize, i: usize, point: [f64; 3]) -> [f64; 2] {
    let [x, y, z] = point;
    let (sl, cl) = directions.columns[i];
    // Longitude from the meridian of the point, and latitude in a form that is exact at the poles too.
    let east = (cl * y - sl * x).atan2(cl * x + sl * y);
    let north = z.atan2(x.hypot(y)) - (lattice.first + lattice.dp * j as f64);
    [north / lattice.dp, east / lattice.dl]
}

/// Within the lattice where an edge is replicated.
fn inside(lattice: &Lattice, row: f64, column: f64) -> (f64, f64) {
    let low = if lattice.edges.rows[0] == Edge::Replicate { row.max(0.0) } else { row };
    let last = (lattice.rows - 1) as f64;
    let row = if lattice.edges.rows[1] == Edge::Replicate { low.min(last) } else { low };
    let column =
        if lattice.edges.periodic { column } else { column.clamp(0.0, (lattice.columns - 1) as f64) };
    (row, column)
}

/// Vectors of the four points around a place, linear between them.
fn linear(lattice: &Lattice, row: f64, column: f64, vector: impl Fn(usize, usize) -> [f64; 3]) -> [f64; 3] {
    let (row, column) = inside(lattice, row, column);
    let (j0, i0) = (row.floor(), column.floor());
    let (fj, fi) = (row - j0, column - i0);
    let mut sum = [0.0; 3];
    for (dj, wj) in [(0, 1.0 - fj), (1, fj)] {
        let (j, shift) = lattice.source_row(j0 as isize + dj);
        for (di, wi) in [(0, 1.0 - fi), (1, fi)] {
            let value = vector(j, lattice.source_column(i0 as isize + di + shift));
            sum.iter_mut().zip(value).for_each(|(s, c)| *s += wj * wi * c);
        }
    }
    sum
}

pub(super) fn interpolate<T: Real>(
    threads: &Threads,
    p: &Interpolation,
    places: &[T],
    from: &[T],
    to: &mut [T],
) {
    let (rows, columns) = (p.lattice.rows, p.lattice.columns);
    threads.chunks(to, columns, |line, to| {
        let (field, j) = (line / rows, line % rows);
        let from = &from[field * rows * columns..][..rows * columns];
        let places = &places[2 * j * columns..][..2 * columns];
        for (i, (place, to)) in places.chunks_exact(2).zip(to).enumerate() {
            *to = cubic(p, j, i, [place[0].wide(), place[1].wide()], from);
        }
    });
}

/// The value at `place` rows and columns from a point.
fn cubic<T: Real>(p: &Interpolation, j: usize, i: usize, place: [f64; 2], from: &[T]) -> T {
    let lattice = &p.lattice;
    let (j0, fj) = split(j, place[0], lattice.edges.rows.map(|e| e == Edge::Replicate), lattice.rows);
    let (i0, fi) = split(i, place[1], [!lattice.edges.periodic; 2], lattice.columns);
    let (wj, wi) = (weights::<T>(fj), weights::<T>(fi));
    // Rows and columns of the stencil, and how far those of a row are shifted across a pole.
    let columns: [isize; 4] = [-1, 0, 1, 2].map(|d| i0 + d);
    let mut lines = [[T::default(); 4]; 4];
    for (d, line) in lines.iter_mut().enumerate() {
        let (row, shift) = lattice.source_row(j0 + d as isize - 1);
        let row = &from[row * lattice.columns..][..lattice.columns];
        if shift == 0 && columns[0] >= 0 && columns[3] < lattice.columns as isize {
            line.copy_from_slice(&row[columns[0] as usize..][..4]);
        } else {
            *line = columns.map(|c| row[lattice.source_column(c + shift)]);
        }
    }
    let mut value = T::default();
    for (line, wj) in lines.iter().zip(wj) {
        let along = line[0] * wi[0] + line[1] * wi[1] + line[2] * wi[2] + line[3] * wi[3];
        value += wj * along;
    }
    if p.limited {
        let around = [lines[1][1], lines[1][2], lines[2][1], lines[2][2]];
        let (mut low, mut high) = (around[0], around[0]);
        for x in around {
            low = if x < low { x } else { low };
            high = if x > high { x } else { high };
        }
        // Comparisons with NaN are false, so that NaN passes.
        value = if value < low { low } else { value };
        value = if value > high { high } else { value };
    }
    value
}

/// The last point of `length` not beyond `at + offset`, and how far beyond it that is; `held` within the first and the
/// last point.
fn split(at: usize, offset: f64, held: [bool; 2], length: usize) -> (isize, f64) {
    let (at, last) = (at as isize, length as isize - 1);
    let whole = offset.floor();
    let (point, fraction) = (at + whole as isize, offset - whole);
    if offset.is_nan() {
        // From nowhere, and not from the edge.
        (at, offset)
    } else if held[0] && point < 0 {
        (0, 0.0)
    } else if held[1] && point >= last {
        (last, 0.0)
    } else {
        (point, fraction)
    }
}

/// Of the points -1, 0, 1 and 2 at `f` in [0, 1).
fn weights<T: Real>(f: f64) -> [T; 4] {
    let (a, b, c) = (f + 1.0, f - 1.0, f - 2.0);
    [-f * b * c / 6.0, a * b * c / 2.0, -a * f * c / 2.0, a * f * b / 6.0].map(T::of)
}
