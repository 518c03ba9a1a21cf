//! Between the points of a reanalysis, where wind and height stand together, and the staggered grid of the model.
//!
//! - Rows of cell centres (0.5, 1.5, ... spacings from a pole) are the model's own: height stays, wind is averaged onto
//!   the faces, the mean of two neighbours.
//! - Rows that begin and end on a pole: the model has a row between each two of them, one less. Height is the mean of two,
//!   wind across rows stands on the rows already.
//! - Other rows that cover the globe, like Gaussian ones: the model has as many, and cubic polynomials through four
//!   neighbours lead from one to the other; beyond a pole follows the row across it.
//! - A box of evenly spaced points has its cells about the points.
//!
//! Averages damp short waves, so that only changes return: [`Mapping::forecast`] adds what the model has changed to the
//! analysis, and at lead 0 is the analysis.

use super::{Fields, Sphere};
use crate::error::{Error, Result};
use crate::grid::{COORDINATE_TOLERANCE, Grid};

/// Wind and height at the points of a reanalysis grid, each `[rows, columns]`, southern row first.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// Eastward wind [m s⁻¹].
    pub u: Vec<f64>,
    /// Northward wind [m s⁻¹].
    pub v: Vec<f64>,
    /// Height [m].
    pub h: Vec<f64>,
}

/// The way from one grid to a model's, and back.
#[derive(Debug, Clone)]
pub struct Mapping {
    sphere: Sphere,
    /// Rows of points, and longitudes of its columns [radians].
    rows: usize,
    longitudes: Vec<f64>,
    /// Whether the first and the last row of points lie on the poles.
    pole_rows: bool,
    /// From rows of points to rows of centres (h and u) and of south faces (v).
    to_centres: Resampling,
    to_faces: Resampling,
    from_centres: Resampling,
    from_faces: Resampling,
}

/// For each row, the rows that it is the weighted sum of.
#[derive(Debug, Clone)]
struct Resampling(Vec<Vec<Term>>);

#[derive(Debug, Clone, Copy)]
struct Term {
    row: usize,
    /// Half the columns further on; components of vectors change sign.
    across: bool,
    weight: f64,
}

impl Mapping {
    /// From the points of `grid` to a model on a sphere of radius `a` [m].
    pub fn new(grid: &Grid, a: f64) -> Result<Self> {
        if !grid.is_periodic() {
            return Self::of_box(grid, a);
        }
        let (rows, columns) = (grid.rows(), grid.columns());
        if !(grid.touches_south_pole() && grid.touches_north_pole()) {
            return Err(Error::input(format!(
                "a band around the earth has no boundary to start from: {} reaches no pole in the south or in the north",
                grid.describe()
            ))
            .hint("give the whole globe, or cut out a box"));
        }
        let step = 360.0 / columns as f64;
        if let Some(w) =
            grid.longitude.windows(2).find(|w| (w[1] - w[0] - step).abs() > 2.0 * COORDINATE_TOLERANCE)
        {
            return Err(Error::input(format!(
                "finite differences need evenly spaced longitudes, found a step from {} to {}",
                w[0], w[1]
            )));
        }
        let even = |first: f64, step: f64| {
            let off = |(j, y): (usize, &f64)| (y - first - step * j as f64).abs();
            grid.latitude.iter().enumerate().map(off).all(|off| off < COORDINATE_TOLERANCE)
        };
        let pole_rows = rows > 1 && even(-90.0, 180.0 / (rows - 1) as f64);
        let coincide = even(-90.0 + 90.0 / rows as f64, 180.0 / rows as f64);
        let sphere = Sphere {
            west: grid.longitude[0].to_radians(),
            ..Sphere::global(if pole_rows { rows - 1 } else { rows }, columns, a)?
        };
        let cells = sphere.rows;
        let faces = face_nodes(&sphere);
        let (to_centres, to_faces, from_centres, from_faces);
        if pole_rows {
            to_centres = Resampling((0..cells).map(|j| mean(j, j + 1)).collect());
            to_faces = Resampling((0..cells).map(|j| if j == 0 { vec![] } else { mean(j, j) }).collect());
            // The rows on the poles are made of the nearest whole row, see `at_poles`.
            let inner = |terms: &dyn Fn(usize) -> Vec<Term>| {
                Resampling((0..rows).map(|j| if j == 0 || j == cells { vec![] } else { terms(j) }).collect())
            };
            from_centres = inner(&|j| mean(j - 1, j));
            from_faces = inner(&|j| mean(j, j));
        } else if coincide {
            to_centres = Resampling((0..cells).map(|j| mean(j, j)).collect());
            to_faces = Resampling((0..cells).map(|j| if j == 0 { vec![] } else { mean(j - 1, j) }).collect());
            from_centres = to_centres.clone();
            let between = |j: usize| {
                let halves = [&faces[j + 2], &faces[j + 3]].into_iter().flat_map(|face| &face.terms);
                halves.map(|term| Term { weight: term.weight / 2.0, ..*term }).collect()
            };
            from_faces = Resampling((0..cells).map(between).collect());
        } else {
            let points = centre_nodes(&grid.latitude.iter().map(|y| y.to_radians()).collect::<Vec<_>>());
            let centres: Vec<f64> = (0..cells as isize).map(|j| sphere.latitude(j)).collect();
            let at = |nodes: &[Node], latitude: f64| cubic(nodes, latitude);
            to_centres = Resampling(centres.iter().map(|&y| at(&points, y)).collect());
            let face = |j: usize| match j {
                0 => vec![],
                j => at(&points, sphere.face_latitude(j as isize)),
            };
            to_faces = Resampling((0..cells).map(face).collect());
            let centres = centre_nodes(&centres);
            let back = |nodes: &[Node]| {
                Resampling(grid.latitude.iter().map(|y| at(nodes, y.to_radians())).collect())
            };
            (from_centres, from_faces) = (back(&centres), back(&faces));
        }
        let longitudes = grid.longitude.iter().map(|x| x.to_radians()).collect();
        Ok(Self { sphere, rows, longitudes, pole_rows, to_centres, to_faces, from_centres, from_faces })
    }

    /// Cells about the points of a box; beyond its edges the outermost values stand in.
    fn of_box(grid: &Grid, a: f64) -> Result<Self> {
        let sphere = Sphere::regional(grid, a)?;
        let rows = sphere.rows;
        let same = Resampling((0..rows).map(|j| mean(j, j)).collect());
        Ok(Self {
            rows,
            longitudes: grid.longitude.iter().map(|x| x.to_radians()).collect(),
            pole_rows: false,
            to_centres: same.clone(),
            to_faces: Resampling((0..rows).map(|j| mean(j.max(1) - 1, j)).collect()),
            from_centres: same,
            from_faces: Resampling((0..rows).map(|j| mean(j, (j + 1).min(rows - 1))).collect()),
            sphere,
        })
    }

    /// The model's grid.
    pub fn sphere(&self) -> &Sphere {
        &self.sphere
    }

    /// The analysis on the model's grid.
    pub fn to_model(&self, points: &Points) -> Result<Fields> {
        let expected = self.rows * self.sphere.columns;
        for (name, values) in [("u", &points.u), ("v", &points.v), ("h", &points.h)] {
            if values.len() != expected {
                let found = values.len();
                return Err(Error::input(format!(
                    "{name} has {found} values where the grid has {expected} points"
                )));
            }
            if let Some(k) = values.iter().position(|x| !x.is_finite()) {
                let (row, column) = (k / self.sphere.columns, k % self.sphere.columns);
                return Err(Error::input(format!(
                    "the physics needs a value everywhere, and {name} is {} in row {row}, column {column}",
                    values[k]
                ))
                .hint("fill missing values in, or cut out a box without any"));
            }
        }
        let n = self.sphere.columns;
        // West faces lie between the column before and the column.
        let u = self.beside(&self.to_centres.apply(&points.u, n, -1.0), |i| match self.sphere.global {
            true => (i + n - 1) % n,
            false => i.max(1) - 1,
        });
        let (v, h) = (self.to_faces.apply(&points.v, n, -1.0), self.to_centres.apply(&points.h, n, 1.0));
        Ok(Fields { u, v, h })
    }

    /// The analysis, plus what has changed in the model between `start`, which was made of it, and `now`.
    pub fn forecast(&self, analysis: &Points, start: &Fields, now: &Fields) -> Points {
        let change = |now: &[f64], start: &[f64]| now.iter().zip(start).map(|(a, b)| a - b).collect();
        let change = self.to_points(&Fields {
            u: change(&now.u, &start.u),
            v: change(&now.v, &start.v),
            h: change(&now.h, &start.h),
        });
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
        Points {
            u: sum(&analysis.u, &change.u),
            v: sum(&analysis.v, &change.v),
            h: sum(&analysis.h, &change.h),
        }
    }

    /// Fields of the model at the points.
    fn to_points(&self, fields: &Fields) -> Points {
        let n = self.sphere.columns;
        let centred = self.beside(&fields.u, |i| match self.sphere.global {
            true => (i + 1) % n,
            false => (i + 1).min(n - 1),
        });
        let mut points = Points {
            u: self.from_centres.apply(&centred, n, -1.0),
            v: self.from_faces.apply(&fields.v, n, -1.0),
            h: self.from_centres.apply(&fields.h, n, 1.0),
        };
        if self.pole_rows {
            self.at_poles(&centred, fields, &mut points);
        }
        points
    }

    /// Values on the poles: the mean of the nearest row, and the one vector that is most like the wind of the nearest rows.
    fn at_poles(&self, centred_u: &[f64], fields: &Fields, points: &mut Points) {
        let (n, last) = (self.sphere.columns, self.sphere.rows - 1);
        // `sign` is that of the latitude; the last row of faces between centres is the one before the last centres.
        for (pole, centre, face, sign) in [(0, 0, 1, -1.0), (last + 1, last, last, 1.0)] {
            let (u, v) = (&centred_u[centre * n..][..n], &fields.v[face * n..][..n]);
            let (mut x, mut y) = (0.0, 0.0);
            for ((u, v), longitude) in u.iter().zip(v).zip(&self.longitudes) {
                let (sine, cosine) = longitude.sin_cos();
                x -= (u * sine + sign * v * cosine) / n as f64;
                y += (u * cosine - sign * v * sine) / n as f64;
            }
            let h = fields.h[centre * n..][..n].iter().sum::<f64>() / n as f64;
            for (i, longitude) in self.longitudes.iter().enumerate() {
                let (sine, cosine) = longitude.sin_cos();
                points.u[pole * n + i] = y * cosine - x * sine;
                points.v[pole * n + i] = -sign * (x * cosine + y * sine);
                points.h[pole * n + i] = h;
            }
        }
    }

    /// The mean of each column and the one beside it.
    fn beside(&self, x: &[f64], column: impl Fn(usize) -> usize) -> Vec<f64> {
        let n = self.sphere.columns;
        x.chunks_exact(n)
            .flat_map(|row| (0..n).map(|i| (row[i] + row[column(i)]) / 2.0).collect::<Vec<_>>())
            .collect()
    }
}

impl Resampling {
    /// `across` multiplies what comes from beyond a pole.
    fn apply(&self, x: &[f64], n: usize, across: f64) -> Vec<f64> {
        let mut y = vec![0.0; self.0.len() * n];
        for (row, terms) in y.chunks_exact_mut(n).zip(&self.0) {
            for term in terms {
                let from = &x[term.row * n..][..n];
                let (shift, weight) =
                    if term.across { (n / 2, across * term.weight) } else { (0, term.weight) };
                for (i, y) in row.iter_mut().enumerate() {
                    *y += weight * from[(i + shift) % n];
                }
            }
        }
        y
    }
}

/// A row whose latitude is known [radians], and what stands on it.
struct Node {
    latitude: f64,
    terms: Vec<Term>,
}

impl Node {
    fn row(latitude: f64, row: usize, across: bool) -> Self {
        Self { latitude, terms: vec![Term { row, across, weight: 1.0 }] }
    }
}

/// Rows of centres, and two more beyond each pole.
fn centre_nodes(latitudes: &[f64]) -> Vec<Node> {
    let (pi, last) = (std::f64::consts::PI, latitudes.len() - 1);
    let south = (0..2).rev().map(|j| Node::row(-pi - latitudes[j], j, true));
    let inner = latitudes.iter().enumerate().map(|(j, &y)| Node::row(y, j, false));
    let north = (0..2).map(|j| Node::row(pi - latitudes[last - j], last - j, true));
    south.chain(inner).chain(north).collect()
}

/// Rows of south faces from pole to pole, and two more beyond each. The wind on a pole is the mean of both sides: the
/// faces there have no length and hold 0, which is not the wind.
fn face_nodes(sphere: &Sphere) -> Vec<Node> {
    let last = sphere.rows as isize;
    let node = |j: isize| {
        let latitude = sphere.face_latitude(j);
        match j {
            j if j < 0 => Node::row(latitude, -j as usize, true),
            j if j > last => Node::row(latitude, (2 * last - j) as usize, true),
            j if j == 0 || j == last => {
                let row = if j == 0 { 1 } else { last as usize - 1 };
                let half = |across| Term { row, across, weight: 0.5 };
                Node { latitude, terms: vec![half(false), half(true)] }
            }
            j => Node::row(latitude, j as usize, false),
        }
    };
    (-2..=last + 2).map(node).collect()
}

/// The mean of two rows, or one row.
fn mean(a: usize, b: usize) -> Vec<Term> {
    let term = |row, weight| Term { row, across: false, weight };
    if a == b { vec![term(a, 1.0)] } else { vec![term(a, 0.5), term(b, 0.5)] }
}

/// The polynomial through the four nodes about a latitude, of Lagrange.
fn cubic(nodes: &[Node], latitude: f64) -> Vec<Term> {
    let above = nodes.partition_point(|node| node.latitude <= latitude);
    let four = &nodes[above.clamp(2, nodes.len() - 2) - 2..][..4];
    let mut terms = Vec::new();
    for node in four {
        let factor = |other: &Node| (latitude - other.latitude) / (node.latitude - other.latitude);
        let others = four.iter().filter(|other| other.latitude != node.latitude);
        let weight: f64 = others.map(factor).product();
        terms.extend(node.terms.iter().map(|term| Term { weight: weight * term.weight, ..*term }));
    }
    terms
}

#[cfg(test)]
mod tests;
