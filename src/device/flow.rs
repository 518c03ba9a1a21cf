//! What the operations on fields of a C grid are told: three fields, the measures of the rows, and what becomes of the
//! tendency.
//!
//! A cell holds h at its centre, u on its west face, v on its south face; vorticity stands at its south-west corner.
//! Every array is `[rows + 2 HALO, columns + 2 HALO]`.

use super::Slot;

/// Cells of halo on each side of every field here.
pub const HALO: usize = 2;

/// The three fields of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Triple {
    pub u: Slot,
    pub v: Slot,
    pub h: Slot,
}

/// What the fluxes of absolute potential vorticity conserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FluxForm {
    /// Energy and potential enstrophy (Arakawa and Lamb 1981, doi:10.1175/1520-0493(1981)109<0018:APEAEC>2.0.CO;2).
    #[default]
    ArakawaLamb,
    /// Energy (Sadourny 1975, doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2).
    Energy,
    /// Potential enstrophy (Sadourny 1975).
    Enstrophy,
}

/// The vector-invariant equations of a shallow rotating layer over a bottom b:
///
/// ```text
/// du/dt = +q G - d(K + g (h + b))/dx      q = (curl(u, v) + f) / h
/// dv/dt = -q F - d(K + g (h + b))/dy      K = (u^2 + v^2) / 2
/// dh/dt = -div(F, G)                      (F, G) = h (u, v)
/// ```
///
/// discretised as [`FluxForm`] says, then smoothed along the rows that have a [`Filter`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    pub rows: usize,
    pub columns: usize,
    pub form: FluxForm,
    pub g: f64,
    /// The fields h hold the departure of the thickness from this.
    pub depth: f64,
    /// Height of a row.
    pub dy: f64,
    /// Whether the first row's south faces, and the last row's north faces, lie on a pole. There v and its tendency are
    /// 0, and q is that of the cap of half a row about the pole; nothing beyond it is read.
    pub poles: [bool; 2],
    /// Area of that cap.
    pub cap_area: f64,
    /// `[rows + 2 HALO, RowMeasures::COUNT]`, see [`RowMeasures`].
    pub table: Slot,
    /// f at the corners; as long as a field, or `[rows + 2 HALO]` where it depends on the row alone.
    pub f: Slot,
    /// b at the centres, or flat.
    pub b: Option<Slot>,
}

/// What becomes of the tendency k. Interiors are written, halos stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FlowOutput {
    /// `next = base + a k` and `sum = b k` (or `sum += b k`): a stage of a Runge-Kutta scheme. `base` may be the state
    /// that k is computed from.
    Stage { base: Triple, next: Triple, a: f64, sum: Triple, b: f64, write: super::Write },
    /// `x = x + (sum + b k)`: the last stage.
    Last { x: Triple, sum: Triple, b: f64 },
    /// k
    Tendency(Triple),
    /// The fluxes `+q G` and `-q F` alone as u and v, and K as h; not filtered.
    Rotational(Triple),
}

/// The measures of one row of cells, in the units of u times those of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowMeasures {
    /// Width of its cells at their centres.
    pub dxu: f64,
    /// Length of its south faces, and of its north faces.
    pub dxv: [f64; 2],
    /// Area of a cell.
    pub area: f64,
    /// Area about its south-west corners.
    pub corner_area: f64,
    /// Of the centres and west faces.
    pub filter: Filter,
    /// Of the south faces.
    pub face_filter: Filter,
}

impl Flow {
    pub fn len(&self) -> usize {
        (self.rows + 2 * HALO) * (self.columns + 2 * HALO)
    }

    pub fn is_empty(&self) -> bool {
        false
    }
}

/// The implicit smoothing `(1 + nu d_i^4) y = x` of a cyclic row: `1 + nu d^4 = |c (1 - z E) (1 - z / E)|^2`, E the shift by
/// one column, `|z| < 1`. A wave k of N is multiplied by `1 / (1 + 16 nu sin^4(pi k / N))`.
///
/// `1 / (1 - z E)` is the product over m of `1 + Z E^s`, `s = 2^m`, `Z = z^s`. So y comes from x in as many passes as it
/// takes until Z is below [`NEGLIGIBLE`](Self::NEGLIGIBLE), each an average of five columns s apart:
///
/// ```text
/// y_i = x_i + c1 (x_{i-s} - 2 x_i + x_{i+s}) + c2 (x_{i-2s} - 2 x_i + x_{i+2s})
/// c1 = a (1 + b) / (1 + a + b)^2,  c2 = b / (1 + a + b)^2,  a = 2 Re Z,  b = |Z|^2
/// ```
///
/// There is no recurrence along the row, every pass keeps the sum of the row, and nothing depends on the number of
/// columns.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Filter {
    /// Real and imaginary part of z; 0 for no smoothing.
    pub z: [f64; 2],
}

impl Filter {
    /// Where the product ends: such a Z changes a wave by less than 5 Z of itself.
    pub const NEGLIGIBLE: f64 = 5e-4;

    /// The filter with which `sin(pi k / N)` times the factor of a wave never exceeds `rho`, `nu = 27 / (4096 rho^4)`; none
    /// where rho is 1 or more.
    pub fn bounded_by(rho: f64) -> Self {
        if rho >= 1.0 {
            return Self::default();
        }
        // z is the smaller root of z + 1/z = 2 - i / sqrt(nu); with z + 1/z = 2 + d: sqrt(z) - 1/sqrt(z) = -sqrt(d), and
        // so sqrt(z) = sqrt(1 + d/4) - sqrt(d/4), taken as 1 over the sum.
        let quarter = 16.0 * rho * rho / 27.0_f64.sqrt();
        let square_root = |[x, y]: [f64; 2]| {
            let modulus = x.hypot(y);
            [((modulus + x) / 2.0).sqrt(), ((modulus - x) / 2.0).sqrt().copysign(y)]
        };
        let (p, q) = (square_root([1.0, -quarter]), square_root([0.0, -quarter]));
        let sum = [p[0] + q[0], p[1] + q[1]];
        let square = sum[0] * sum[0] + sum[1] * sum[1];
        let root = [sum[0] / square, -sum[1] / square];
        Self { z: Self::square(root) }
    }

    /// nu: `(z - 1)^2 / z` is `-i / sqrt(nu)`.
    pub fn strength(&self) -> f64 {
        let [x, y] = self.z;
        (x * x + y * y) / ((1.0 - x) * (1.0 - x) + y * y).powi(2)
    }

    /// The square of a complex number.
    pub fn square([x, y]: [f64; 2]) -> [f64; 2] {
        [x * x - y * y, 2.0 * x * y]
    }

    /// `[c1, c2]` of the pass with this Z.
    pub fn weights([x, y]: [f64; 2]) -> [f64; 2] {
        let (a, b) = (2.0 * x, x * x + y * y);
        let sum = (1.0 + a + b) * (1.0 + a + b);
        [a * (1.0 + b) / sum, b / sum]
    }
}

impl RowMeasures {
    /// Numbers of one row in the table.
    pub const COUNT: usize = 14;

    /// The row of the table: products that the kernels would form for every cell otherwise.
    ///
    /// Fluxes are `F' = (h_i + h_{i-1}) u` and `G' = (h_j + h_{j-1}) v dxv / dy`, which are F and G over `dy / 2`.
    pub fn coefficients(&self, dy: f64) -> [f64; Self::COUNT] {
        let Self { dxu, dxv: [south, north], area, corner_area, filter, face_filter } = *self;
        [
            south / dy,
            dxu * dy / (4.0 * area),
            south * dy / (4.0 * area),
            north * dy / (4.0 * area),
            dy / (2.0 * area),
            dxu / dy,
            area / (4.0 * dy),
            corner_area / dy,
            1.0 / dxu,
            dy / (2.0 * dxu),
            filter.z[0],
            filter.z[1],
            face_filter.z[0],
            face_filter.z[1],
        ]
    }
}

/// How fast things happen in the cells of a flow, as a time step is held against it:
/// `by_u |u| + by_v |v| + by_root sqrt(depth + h)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    pub rows: usize,
    pub columns: usize,
    pub x: Triple,
    pub depth: f64,
    /// `[rows, 3]`: by u, by v, by the root.
    pub factors: Slot,
}

/// Damping of the shortest waves: `to -= weight (D4_i x + D4_j x)` in the interior, `D4 = (1, -4, 6, -4, 1)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Biharmonic {
    pub rows: usize,
    pub columns: usize,
    pub weight: f64,
    /// Its halo is read.
    pub x: Slot,
    /// Another slot than x.
    pub to: Slot,
    /// Whether row 0, and the first row beyond the last, lie on a pole: there the mean of the two neighbouring rows
    /// stands in for x, and nothing is added.
    pub on_pole: [bool; 2],
}
