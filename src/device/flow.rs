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
/// discretised as [`FluxForm`] says, then smoothed along the rows whose filter factor is not 0:
/// `(1 - mu d_i^2) y = x`, `mu = r / (1 - r)^2`, as the product over m of
/// `y_i = x_i + p / (1 + p)^2 (x_{i-s} - 2 x_i + x_{i+s})`, `s = 2^m`, `p = r^s`, until `p` is below
/// [`NEGLIGIBLE`](Self::NEGLIGIBLE). Each factor keeps the sum of a row.
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
    /// k without the terms that are linear in (u, v, h) but for those of f: `-g dh/dx` and `-g dh/dy` are left out of
    /// du and dv, and `-depth div(u, v)` of dh. For schemes that treat these implicitly.
    Nonlinear(Triple),
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
    /// Filter factor r of the centres and west faces, 0 for none.
    pub filter: f64,
    /// Of the south faces.
    pub face_filter: f64,
}

impl Flow {
    /// Where the product of the filter ends: a factor with such a p changes a wave by less than 4 p of itself.
    pub const NEGLIGIBLE: f64 = 1e-3;

    pub fn len(&self) -> usize {
        (self.rows + 2 * HALO) * (self.columns + 2 * HALO)
    }

    pub fn is_empty(&self) -> bool {
        false
    }
}

impl RowMeasures {
    /// Numbers of one row in the table.
    pub const COUNT: usize = 12;

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
            filter,
            face_filter,
        ]
    }

    /// The filter factor r with which a wave's response is `1 / (1 + s^2 / (4 rho^2))`, `s = sin(pi k / N)`: s times it
    /// never exceeds rho. None for `rho >= 1`.
    pub fn filter_factor(rho: f64) -> f64 {
        if rho >= 1.0 {
            return 0.0;
        }
        let square = rho * rho;
        // The smaller root of r + 1/r = 2 + 1/mu, mu = 1 / (16 rho^2); its product with the larger one is 1.
        1.0 / (1.0 + 8.0 * square + 4.0 * rho * (1.0 + 4.0 * square).sqrt())
    }
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
