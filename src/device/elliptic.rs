//! Elliptic equations whose coefficients vary with the row alone: what the operation is told, and how its tables are made.
//!
//! Waves along the rows make the equation fall apart into one tridiagonal system for each wavenumber k:
//!
//! ```text
//! south[j] x[j-1] - (west[j] lam_k + south[j] + south[j+1] + diagonal[j]) x[j] + south[j+1] x[j+1] = right[j]
//! ```
//!
//! (Swarztrauber 1974, doi:10.1137/0711071, solves Poisson's equation on the sphere in this way.)

use std::f64::consts::PI;
use std::ops::Range;

use super::{ArenaPlan, Device, Placement, Real, Slot, with_company};

/// What lies beyond the first and the last column, and with it the waves along a row of N points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ends {
    /// The other end: sines and cosines, `lam_k = 4 sin^2(pi k / N)`, k = 0 to N/2.
    Periodic,
    /// Zero: sines, `lam_k = 4 sin^2(pi k / (2 (N + 1)))`, k = 1 to N.
    Dirichlet,
    /// The same value: cosines, `lam_k = 4 sin^2(pi k / (2 N))`, k = 0 to N - 1.
    Neumann,
}

impl Ends {
    /// How many different `lam_k` there are for rows of `columns` points.
    pub fn waves(self, columns: usize) -> usize {
        match self {
            Ends::Periodic => columns / 2 + 1,
            Ends::Dirichlet | Ends::Neumann => columns,
        }
    }

    /// The eigenvalue of minus the second difference along a row, for the `wave`-th of its waves, counted from 0.
    pub fn eigenvalue(self, columns: usize, wave: usize) -> f64 {
        let (k, n) = (wave as f64, columns as f64);
        let half_angle = match self {
            Ends::Periodic => PI * k / n,
            Ends::Dirichlet => PI * (k + 1.0) / (2.0 * (n + 1.0)),
            Ends::Neumann => PI * k / (2.0 * n),
        };
        4.0 * half_angle.sin().powi(2)
    }
}

/// The equation on points `[rows, columns]`. `west` and `south` are positive (`south` may be zero at either end: nothing
/// flows through that edge; otherwise x is zero beyond it), `diagonal` is not negative.
#[derive(Debug, Clone, PartialEq)]
pub struct Coefficients {
    pub columns: usize,
    pub ends: Ends,
    /// `[rows]`: coupling of neighbours along a row.
    pub west: Vec<f64>,
    /// `[rows + 1]`: coupling of each row to the one before it, and of the last to what lies beyond.
    pub south: Vec<f64>,
    /// `[rows]`
    pub diagonal: Vec<f64>,
    /// `[rows]`: area of a point. Where the equation leaves a constant free, right sides have their area mean removed
    /// and so has the solution.
    pub area: Vec<f64>,
    pub smoothing: Option<Smoothing>,
}

/// Makes the couplings of short waves weaker: those of wave k are multiplied by `S_k = 1 / (1 + nu lam_k^2)`, which is what
/// the smoothing `(1 + nu d_i^4) y = x` of a row makes of the wave, and the diagonal is divided by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Smoothing {
    /// `[rows]`: nu of the couplings along the row and of the diagonal.
    pub centres: Vec<f64>,
    /// `[rows + 1]`: nu of the couplings between rows.
    pub faces: Vec<f64>,
}

impl Coefficients {
    pub fn rows(&self) -> usize {
        self.west.len()
    }

    /// Whether a constant solves the equation with a right side of zero.
    pub fn is_singular(&self) -> bool {
        self.ends != Ends::Dirichlet
            && self.south[0] == 0.0
            && self.south[self.rows()] == 0.0
            && self.diagonal.iter().all(|&d| d == 0.0)
    }

    /// Both `[rows, waves]`: the reciprocals of the pivots of Gaussian elimination from the first row to the last, and
    /// `south[j+1]` times them.
    ///
    /// A pivot is `south[j+1]` plus an excess to which every row adds something that is not negative: nothing cancels,
    /// so that each is exact to a few roundings however weak the diagonal. The singular wave's last pivot is zero; a
    /// zero in place of its reciprocal sets the last row to zero.
    fn pivots(&self) -> [Vec<f64>; 2] {
        let (rows, waves) = (self.rows(), self.ends.waves(self.columns));
        let (mut pivots, mut carries) = (vec![0.0; rows * waves], vec![0.0; rows * waves]);
        for k in 0..waves {
            let lam = self.ends.eigenvalue(self.columns, k);
            let factor = |nu: f64| 1.0 / (1.0 + nu * lam * lam);
            let of = |at: &dyn Fn(&Smoothing) -> f64| self.smoothing.as_ref().map_or(1.0, |s| factor(at(s)));
            // Before the first row: x = 0 where that row is coupled to anything.
            let mut share = 1.0;
            for j in 0..rows {
                let centre = of(&|smoothing| smoothing.centres[j]);
                let [south, north] = [j, j + 1].map(|j| self.south[j] * of(&|smoothing| smoothing.faces[j]));
                let excess = self.west[j] * lam * centre + self.diagonal[j] / centre + south * share;
                let pivot = north + excess;
                let reciprocal = if pivot > 0.0 { 1.0 / pivot } else { 0.0 };
                share = excess * reciprocal;
                pivots[j * waves + k] = reciprocal;
                // Not `north * reciprocal`, which would not be 1 where there is no excess.
                carries[j * waves + k] = if pivot > 0.0 { north / pivot } else { 0.0 };
            }
        }
        [pivots, carries]
    }
}

/// One equation, and the slots of its tables: [`new`](Self::new) with the plan, [`upload`](Self::upload) once the device
/// is allocated, then [`solve`](Self::solve) as often as wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Elliptic {
    pub coefficients: Coefficients,
    /// `[rows, waves]`: reciprocals of pivots.
    pub pivots: Slot,
    /// `[rows, waves]`: what of a row goes into the next.
    pub carries: Slot,
    /// `[rows]`: shares of the whole area, of a singular equation; else empty.
    pub shares: Slot,
    /// Where other devices hold some of the rows.
    cut: Option<Box<Cut>>,
}

/// Bands of rows that devices hold, each of which solves for some of the waves of all rows.
#[derive(Debug, Clone, PartialEq)]
struct Cut {
    /// Of all devices, in their order.
    bands: Vec<Range<usize>>,
    own: usize,
    /// `[devices, rows here, places of a device]`
    here: Slot,
    /// `[rows, places of this device]`
    solved: Slot,
}

impl Elliptic {
    pub fn new(plan: &mut ArenaPlan, coefficients: Coefficients) -> Self {
        let (rows, columns) = (coefficients.rows(), coefficients.columns);
        assert!(rows > 0 && columns > 0, "an equation on no points");
        assert_eq!(coefficients.south.len(), rows + 1, "one coupling for each row and one beyond");
        assert_eq!(coefficients.diagonal.len(), rows, "one diagonal for each row");
        assert_eq!(coefficients.area.len(), rows, "one area for each row");
        if let Some(smoothing) = &coefficients.smoothing {
            let lengths = [smoothing.centres.len(), smoothing.faces.len()];
            assert_eq!(lengths, [rows, rows + 1], "smoothing of each row and of what lies between");
        }
        let [pivots, carries] = [(); 2].map(|()| plan.slot(rows * coefficients.ends.waves(columns)));
        let shares = if coefficients.is_singular() { plan.slot(rows) } else { Slot::EMPTY };
        Self { coefficients, pivots, carries, shares, cut: None }
    }

    /// Of the rows of band `own`, where the device's [company](Device::company) holds the others.
    pub fn of_band(
        plan: &mut ArenaPlan,
        coefficients: Coefficients,
        bands: &[Range<usize>],
        own: usize,
    ) -> Self {
        let whole = Self::new(plan, coefficients);
        if bands.len() == 1 {
            return whole;
        }
        let here = plan.slot(bands[own].len() * whole.columns());
        let places = places(whole.columns(), bands.len(), own);
        let solved = plan.slot(whole.rows() * places.len());
        Self { cut: Some(Box::new(Cut { bands: bands.to_vec(), own, here, solved })), ..whole }
    }

    /// Overwrites x, of the points that are here, with the solution; x may be `right`.
    pub fn solve<T: Real>(&self, device: &mut dyn Device<T>, right: Slot, x: Slot) {
        let (ends, columns) = (self.ends(), self.columns());
        device.waves_forward(ends, columns, right, x);
        match &self.cut {
            None => device.solve_waves(self, 0..columns, x),
            Some(cut) => cut.solve(device, self, x),
        }
        device.waves_backward(ends, columns, x);
    }

    pub fn rows(&self) -> usize {
        self.coefficients.rows()
    }

    pub fn columns(&self) -> usize {
        self.coefficients.columns
    }

    pub fn ends(&self) -> Ends {
        self.coefficients.ends
    }

    /// Writes the tables, made in double precision.
    pub fn upload<T: Real>(&self, device: &mut dyn Device<T>) {
        let narrow = |values: &[f64]| values.iter().map(|&value| T::of(value)).collect::<Vec<T>>();
        let [pivots, carries] = self.coefficients.pivots();
        device.upload(self.pivots, &narrow(&pivots));
        device.upload(self.carries, &narrow(&carries));
        if !self.shares.is_empty() {
            let whole: f64 = self.coefficients.area.iter().sum();
            let shares: Vec<f64> = self.coefficients.area.iter().map(|area| area / whole).collect();
            device.upload(self.shares, &narrow(&shares));
        }
    }
}

/// Which places of a row of amplitudes are the `number`-th device's of so many.
fn places(columns: usize, of: usize, number: usize) -> Range<usize> {
    columns * number / of..columns * (number + 1) / of
}

impl Cut {
    /// Solves for the amplitudes of the rows here, in place: each device gets some places of all rows, and gives them back.
    fn solve<T: Real>(&self, device: &mut dyn Device<T>, elliptic: &Elliptic, amplitudes: Slot) {
        let (columns, rows) = (elliptic.columns(), self.bands[self.own].len());
        let of = |number: usize| places(columns, self.bands.len(), number);
        let own = of(self.own);
        let numbers = 0..self.bands.len();
        let here: Vec<Slot> =
            numbers.clone().map(|n| self.here.part(rows * of(n).start, rows * of(n).len())).collect();
        let solved = |n: usize| {
            let band = &self.bands[n];
            self.solved.part(band.start * own.len(), band.len() * own.len())
        };
        let solved: Vec<Slot> = numbers.clone().map(solved).collect();
        let placement = |n: usize| Placement {
            images: rows,
            rows: 1,
            columns: 1,
            channels: of(n).len(),
            patch: 1,
            fields: here[n],
            field_images: rows,
            image: amplitudes,
            halo: 0,
            image_channels: columns,
            first_channel: of(n).start,
        };
        let placements: Vec<Placement> = numbers.map(placement).filter(|p| p.channels > 0).collect();
        placements.iter().for_each(|placement| device.place_adjoint(placement));
        with_company(device, |company, device| company.deal(device, &here, &solved));
        device.solve_waves(elliptic, own, self.solved);
        with_company(device, |company, device| company.deal(device, &solved, &here));
        placements.iter().for_each(|placement| device.place(placement));
    }
}
