//! Zonal energy spectra: how much a forecast blurs.
//!
//! Along a latitude circle of length `C = 2 pi R cos(lat)` with `L` columns, `F_k = (1/L) sum x_l e^{-2 pi i k l/L}`
//! and `S_0 = C |F_0|^2`, `S_k = 2 C |F_k|^2`, at wavelength `C/k`. With an even `L` the Nyquist wave counts once, so
//! that `sum S_k = C mean(x^2)` (Parseval); WeatherBench 2 counts it twice ([`Nyquist::Twice`]).
//!
//! A row that does not close around the earth has no waves of its own: its straight line (least squares) is taken
//! away and a Hann taper of mean square 1 applied, and `C` is its length, columns times spacing.

use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use crate::grid::Grid;

/// WeatherBench 2's radius of the earth [m].
pub const RADIUS: f64 = 6_367_500.0;

/// Rows between these latitudes, on both hemispheres, make the mean curve [degrees].
pub const BAND: (f64, f64) = (30.0, 60.0);

/// How often the shortest wave of an even number of columns counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nyquist {
    /// As Parseval's theorem has it.
    #[default]
    Once,
    /// As WeatherBench 2 does.
    Twice,
}

/// The transform of one grid, and the wavelengths at which its rows meet.
pub struct Zonal {
    fft: Arc<dyn Fft<f64>>,
    columns: usize,
    /// Hann taper for rows that do not close, of mean square 1.
    taper: Option<Vec<f64>>,
    nyquist: Nyquist,
    /// Row and its length [m]; those of the band.
    rows: Vec<(usize, f64)>,
    /// Common wavelengths [m], decreasing: those of the band's longest row, as far as the shortest row reaches.
    wavelengths: Vec<f64>,
}

impl std::fmt::Debug for Zonal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zonal")
            .field("columns", &self.columns)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Zonal {
    /// `None` where the grid has no row in the band, or too few columns to speak of waves.
    pub fn new(grid: &Grid, nyquist: Nyquist) -> Option<Self> {
        let columns = grid.columns();
        if columns < 8 {
            return None;
        }
        let spacing = (grid.longitude[columns - 1] - grid.longitude[0]) / (columns - 1) as f64;
        let width = if grid.is_periodic() { 360.0 } else { spacing * columns as f64 };
        let in_band = |latitude: f64| (BAND.0..=BAND.1).contains(&latitude.abs());
        let rows: Vec<(usize, f64)> = (0..grid.rows())
            .filter(|&j| in_band(grid.latitude[j]))
            .map(|j| (j, width.to_radians() * RADIUS * grid.latitude[j].to_radians().cos()))
            .collect();
        let longest = rows.iter().map(|r| r.1).fold(0.0, f64::max);
        let shortest = rows.iter().map(|r| r.1).fold(f64::INFINITY, f64::min);
        // Row r carries wavelengths C_r .. C_r/(L/2): only what every row has needs no extrapolation.
        let half = columns / 2;
        let wavelengths: Vec<f64> = (1..=half)
            .map(|k| longest / k as f64)
            .filter(|&w| w <= shortest * 1.000_001 && w >= longest / half as f64 * 0.999_999)
            .collect();
        if rows.is_empty() || wavelengths.is_empty() {
            return None;
        }
        Some(Self {
            fft: FftPlanner::new().plan_fft_forward(columns),
            columns,
            taper: (!grid.is_periodic()).then(|| hann(columns)),
            nyquist,
            rows,
            wavelengths,
        })
    }

    /// Common wavelengths [m], decreasing.
    pub fn wavelengths(&self) -> &[f64] {
        &self.wavelengths
    }

    /// Mean over the band of the rows' spectra at the common wavelengths, linear in wavenumber between a row's own;
    /// `field` is `[lat * lon]`. `None` when a value of the band is missing.
    pub fn band_mean(&self, field: &[f64]) -> Option<Vec<f64>> {
        let mut mean = vec![0.0; self.wavelengths.len()];
        for &(row, length) in &self.rows {
            let values = &field[row * self.columns..(row + 1) * self.columns];
            if values.iter().any(|v| v.is_nan()) {
                return None;
            }
            let spectrum = self.row(values, length);
            for (sum, wavelength) in mean.iter_mut().zip(&self.wavelengths) {
                let k = length / wavelength;
                let below = (k.floor() as usize).clamp(1, spectrum.len() - 2);
                let part = (k - below as f64).clamp(0.0, 1.0);
                *sum += spectrum[below] * (1.0 - part) + spectrum[below + 1] * part;
            }
        }
        let rows = self.rows.len() as f64;
        mean.iter_mut().for_each(|s| *s /= rows);
        Some(mean)
    }

    /// `S_k`, k = 0 to L/2, of one row of the given length [m].
    pub fn row(&self, values: &[f64], length: f64) -> Vec<f64> {
        let mut line: Vec<Complex<f64>> = match &self.taper {
            None => values.iter().map(|&x| Complex::new(x, 0.0)).collect(),
            Some(taper) => {
                let (offset, slope) = straight_line(values);
                let rest = values.iter().enumerate().map(|(l, x)| x - offset - slope * l as f64);
                rest.zip(taper).map(|(x, t)| Complex::new(x * t, 0.0)).collect()
            }
        };
        self.fft.process(&mut line);
        let n = self.columns;
        let once = |k: usize| k == 0 || (2 * k == n && self.nyquist == Nyquist::Once);
        (0..=n / 2)
            .map(|k| {
                let energy = line[k].norm_sqr() / (n * n) as f64;
                length * energy * if once(k) { 1.0 } else { 2.0 }
            })
            .collect()
    }
}

/// `sin^2` over the row, scaled to mean square 1.
fn hann(n: usize) -> Vec<f64> {
    let shape = |l: usize| (std::f64::consts::PI * (l as f64 + 0.5) / n as f64).sin().powi(2);
    let square = (0..n).map(|l| shape(l).powi(2)).sum::<f64>() / n as f64;
    (0..n).map(|l| shape(l) / square.sqrt()).collect()
}

/// Least-squares offset and slope over the index.
fn straight_line(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let centre = (n - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / n;
    let covariance: f64 = values.iter().enumerate().map(|(l, x)| (l as f64 - centre) * (x - mean)).sum();
    let slope = covariance / (n * (n * n - 1.0) / 12.0);
    (mean - slope * centre, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(columns: usize) -> Grid {
        let latitude = (0..8).map(|j| -78.75 + 22.5 * f64::from(j)).collect();
        let longitude = (0..columns).map(|i| 360.0 / columns as f64 * i as f64).collect();
        Grid::new(latitude, longitude).unwrap()
    }

    /// Golden case of the physics notes, agreed with WeatherBench 2's formula in numpy; radius 6371 km there.
    #[test]
    fn the_golden_row_has_the_golden_spectrum() {
        let phi = 11.25_f64.to_radians();
        let row: Vec<f64> = (0..16)
            .map(|i| {
                let la = (22.5 * f64::from(i)).to_radians();
                280.0 + 10.0 * (2.0 * la).sin() * phi.cos() + 3.0 * la.cos() * phi.sin().powi(2)
            })
            .collect();
        let length = std::f64::consts::TAU * 6_371_000.0 * phi.cos();
        let spectrum = Zonal::new(&global(16), Nyquist::Once).unwrap().row(&row, length);
        for (found, golden) in spectrum.iter().zip([3.078_062_79e12, 2.559_274_26e5, 1.888_336_10e9]) {
            // the golden values are given to nine digits
            assert!((found / golden - 1.0).abs() < 3e-9, "{found} {golden}");
        }
        let square = row.iter().map(|x| x * x).sum::<f64>() / 16.0;
        assert!((spectrum.iter().sum::<f64>() / (length * square) - 1.0).abs() < 1e-13);
        assert!((length * square / 3.079_951_386e12 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_nyquist_wave_counts_once_unless_weatherbench_is_asked_for() {
        for (columns, nyquist, expected) in
            [(16, Nyquist::Once, 1.0), (16, Nyquist::Twice, 2.0), (15, Nyquist::Once, 1.0)]
        {
            let row: Vec<f64> = (0..columns).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
            let spectrum = Zonal::new(&global(columns), nyquist).unwrap().row(&row, 1.0);
            assert!((spectrum.iter().sum::<f64>() - expected).abs() < 1e-12, "{columns}");
        }
    }

    #[test]
    fn a_regional_row_loses_its_slope_and_keeps_its_variance() {
        let latitude = (0..21).map(|j| 30.0 + 1.5 * f64::from(j)).collect();
        let longitude = (0..24).map(|i| 340.0 + 1.5 * f64::from(i)).collect();
        let zonal = Zonal::new(&Grid::new(latitude, longitude).unwrap(), Nyquist::Once).unwrap();
        let slope: Vec<f64> = (0..24).map(|l| 5.0 + 3.0 * f64::from(l)).collect();
        assert!(zonal.row(&slope, 1.0).iter().all(|s| s.abs() < 1e-20));
        // white noise of variance 1 (here: its expectation over all single-point impulses) keeps its variance,
        // but for the two degrees of freedom that the line takes
        let mut total = 0.0;
        for l in 0..24 {
            let mut row = vec![0.0; 24];
            row[l] = 1.0;
            total += zonal.row(&row, 1.0).iter().sum::<f64>();
        }
        assert!((0.9..1.0).contains(&total), "{total}");
        assert!(zonal.wavelengths().windows(2).all(|w| w[1] < w[0]));
        assert!(zonal.band_mean(&vec![f64::NAN; 21 * 24]).is_none());
    }
}
