//! A long run of the [`planet`](super::planet) at high resolution, as the analyses of a coarser grid: data to train on.

use std::f64::consts::{FRAC_PI_2, TAU};
use std::sync::Arc;

use ndarray::Array3;

use super::layer::{RUNGE_KUTTA_LIMIT, dividing_step};
use super::planet::{self, HOUR};
use super::{Fields, Layer, ShallowWater, Sphere};
use crate::constants::{EARTH_RADIUS, STANDARD_GRAVITY};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::field::Layout;
use crate::variable::Quantity;

/// The planet at one resolution.
pub struct NatureRun {
    model: ShallowWater<f32>,
    jets: Fields,
    /// Since the start [h].
    hours: u64,
}

impl NatureRun {
    /// `rows` rows and twice as many columns.
    pub fn new(rows: usize, device: Box<dyn Device<f32>>) -> Result<Self> {
        Self::on(Sphere::global(rows, 2 * rows, EARTH_RADIUS)?, device)
    }

    /// On the cells of a globe.
    pub fn on(sphere: Sphere, device: Box<dyn Device<f32>>) -> Result<Self> {
        let layer = planet::planet(sphere)?;
        let jets = planet::jets(&layer.sphere);
        let deepest = jets.h.iter().copied().fold(0.0, f64::max);
        let dt = dividing_step(layer.longest_step(RUNGE_KUTTA_LIMIT, deepest), HOUR);
        Ok(Self { model: ShallowWater::new(layer, dt, device)?, jets, hours: 0 })
    }

    pub fn layer(&self) -> &Layer {
        self.model.layer()
    }

    /// The jets with the small disturbance that `seed` stands for.
    pub fn seeded(&self, seed: u64) -> Fields {
        let sphere = &self.layer().sphere;
        let mut fields = self.jets.clone();
        let mut random = Random(seed);
        let waves: Vec<[f64; 3]> = (0..24)
            .map(|n| {
                [f64::from(n % 8 + 1), TAU * random.uniform(), (2.0 * random.uniform() - 1.0) * FRAC_PI_2]
            })
            .collect();
        for (k, h) in fields.h.iter_mut().enumerate() {
            let y = sphere.latitude((k / sphere.columns) as isize);
            let x = sphere.longitude((k % sphere.columns) as isize);
            // Nothing at the poles, where waves along a row are none.
            let wave = |&[m, phase, centre]: &[f64; 3]| {
                (m * x + phase).cos() * (-((y - centre) / 0.3).powi(2)).exp()
            };
            *h += 10.0 * y.cos().powi(2) * waves.iter().map(wave).sum::<f64>();
        }
        fields
    }

    /// Goes on from a state.
    pub fn start(&mut self, fields: &Fields, hours: u64) -> Result<()> {
        self.hours = hours;
        self.model.start(fields)
    }

    /// Advances by whole hours.
    pub fn advance(&mut self, hours: u64) -> Result<()> {
        let steps = (HOUR / self.model.dt()).round() as usize;
        for _ in 0..hours {
            self.model
                .advance(steps)
                .map_err(|e| e.context(format!("after {} hours of the nature run", self.hours)))?;
            let mut fields = self.model.fields();
            planet::restore(&mut fields, &self.jets);
            self.model.start(&fields)?;
            self.hours += 1;
        }
        Ok(())
    }

    pub fn fields(&self) -> Fields {
        self.model.fields()
    }

    /// Since the start [h].
    pub fn hours(&self) -> u64 {
        self.hours
    }

    /// What analyses of cells `coarsen` times as large hold: geopotential of the surface and wind at their centres.
    pub fn layout(&self, coarsen: usize) -> Result<Arc<Layout>> {
        let sphere = &self.layer().sphere;
        if coarsen == 0 || !sphere.rows.is_multiple_of(coarsen) || sphere.rows / coarsen < 8 {
            return Err(Error::input(format!("{} rows cannot be made {coarsen} times coarser", sphere.rows))
                .hint("choose a divisor that leaves at least 8 rows"));
        }
        let grid = Sphere::global(sphere.rows / coarsen, sphere.columns / coarsen, sphere.a)?.grid()?;
        // Its cells begin where the first of ours begins: their centres lie half a width further on.
        let shift = sphere.dl.to_degrees() * (coarsen - 1) as f64 / 2.0;
        let longitude = grid.longitude.iter().map(|x| x + shift).collect();
        let grid = crate::grid::Grid::new(grid.latitude, longitude)?;
        Ok(Arc::new(Layout { grid, quantities: quantities() }))
    }

    /// The state as such an analysis, `[lat, lon, channel]`: means over the area of a cell.
    pub fn analysis(&self, coarsen: usize) -> Result<Array3<f32>> {
        let (layout, fields) = (self.layout(coarsen)?, self.fields());
        let bottom = self.orography();
        let [u, v] = centred(&self.layer().sphere, &fields);
        let surface: Vec<f64> =
            fields.h.iter().zip(bottom).map(|(h, b)| STANDARD_GRAVITY * (h + b)).collect();
        let channels = [surface, u, v].map(|field| self.coarsened(&field, coarsen));
        Ok(Array3::from_shape_fn(layout.shape(), |(j, i, c)| channels[c][j * layout.grid.columns() + i]))
    }

    /// Height of the ground in such cells [m], `[lat, lon]`.
    pub fn coarse_orography(&self, coarsen: usize) -> Vec<f32> {
        self.coarsened(self.orography(), coarsen)
    }

    pub(super) fn orography(&self) -> &[f64] {
        self.layer().orography.as_deref().unwrap_or(&[])
    }

    fn coarsened(&self, field: &[f64], coarsen: usize) -> Vec<f32> {
        let sphere = &self.layer().sphere;
        let mut means = Vec::with_capacity(field.len() / (coarsen * coarsen));
        for rows in (0..sphere.rows).step_by(coarsen) {
            for columns in (0..sphere.columns).step_by(coarsen) {
                let (mut sum, mut area) = (0.0, 0.0);
                for j in rows..rows + coarsen {
                    let cell = sphere.area(j as isize);
                    sum += cell * field[j * sphere.columns + columns..][..coarsen].iter().sum::<f64>();
                    area += cell * coarsen as f64;
                }
                means.push((sum / area) as f32);
            }
        }
        means
    }
}

/// Geopotential of the surface, eastward and northward wind.
fn quantities() -> Vec<Quantity> {
    ["z", "u", "v"].map(|name| Quantity::new(name, None)).to_vec()
}

/// Both components of the wind at the centres of the cells.
pub(super) fn centred(sphere: &Sphere, fields: &Fields) -> [Vec<f64>; 2] {
    let n = sphere.columns;
    let each = |value: &dyn Fn(usize, usize) -> f64| {
        (0..sphere.rows).flat_map(|j| (0..n).map(move |i| value(j, i))).collect()
    };
    [
        each(&|j, i| (fields.u[j * n + i] + fields.u[j * n + (i + 1) % n]) / 2.0),
        each(&|j, i| {
            // Beyond the last row lies the pole, where no face has a length.
            let north = if j + 1 < sphere.rows { fields.v[(j + 1) * n + i] } else { 0.0 };
            (fields.v[j * n + i] + north) / 2.0
        }),
    ]
}

/// Steele, Lea and Flood 2014 (SplitMix64), doi:10.1145/2714064.2660195.
struct Random(u64);

impl Random {
    /// In [0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::Cpu;

    fn run(rows: usize) -> NatureRun {
        NatureRun::new(rows, Box::new(Cpu::new(Some(1)).unwrap())).unwrap()
    }

    #[test]
    fn a_run_that_goes_on_from_its_fields_is_the_run_that_was_not_interrupted() {
        let mut whole = run(16);
        let start = whole.seeded(7);
        whole.start(&start, 0).unwrap();
        whole.advance(6).unwrap();
        let kept = whole.fields();
        whole.advance(6).unwrap();
        let mut resumed = run(16);
        resumed.start(&kept, 6).unwrap();
        resumed.advance(6).unwrap();
        assert_eq!(resumed.fields(), whole.fields());
        assert_eq!(resumed.hours(), 12);
        assert_ne!(whole.seeded(8), start);
    }

    #[test]
    fn analyses_are_means_over_their_cells() {
        let mut fine = run(32);
        fine.start(&fine.seeded(1), 0).unwrap();
        let (layout, analysis) = (fine.layout(2).unwrap(), fine.analysis(2).unwrap());
        assert_eq!(layout.shape(), (16, 32, 3));
        assert!(layout.grid.is_periodic() && !layout.grid.has_pole_rows());
        assert!((layout.grid.longitude[0] - 2.8125).abs() < 1e-9);
        let sphere = Sphere::global(16, 32, 1.0).unwrap();
        let mean = |values: Vec<f64>, sphere: &Sphere| sphere.mean(&values);
        let coarse: Vec<f64> =
            analysis.index_axis(ndarray::Axis(2), 0).iter().map(|z| f64::from(*z)).collect();
        let fields = fine.fields();
        let surface: Vec<f64> =
            fields.h.iter().zip(fine.orography()).map(|(h, b)| STANDARD_GRAVITY * (h + b)).collect();
        let (coarse, fine_mean) = (mean(coarse, &sphere), mean(surface, &fine.layer().sphere));
        // Each of 512 means was rounded to float32.
        assert!((coarse / fine_mean - 1.0).abs() < 1e-7, "{coarse} {fine_mean}");
        assert!(fine.layout(3).is_err() && fine.layout(8).is_err() && fine.layout(0).is_err());
    }

    #[test]
    #[ignore = "a minute in the release profile"]
    fn the_weather_is_turbulent_and_changes_within_days() {
        let mut planet = run(64);
        planet.start(&planet.seeded(1), 0).unwrap();
        planet.advance(24 * 60).unwrap();
        let states: Vec<Array3<f32>> = (0..1200)
            .map(|_| {
                planet.advance(6).unwrap();
                planet.analysis(2).unwrap()
            })
            .collect();
        let count = states.len() as f32;
        let mean = states.iter().fold(Array3::zeros(states[0].dim()), |sum: Array3<f32>, s| sum + s) / count;
        let sphere = Sphere::global(32, 64, 1.0).unwrap();
        let square = |a: &Array3<f32>, b: &Array3<f32>| {
            let z =
                |x: &Array3<f32>| x.index_axis(ndarray::Axis(2), 0).iter().map(|z| f64::from(*z)).collect();
            let (a, b): (Vec<f64>, Vec<f64>) = (z(a), z(b));
            sphere.mean(&a.iter().zip(&b).map(|(x, y)| (x - y).powi(2)).collect::<Vec<_>>())
        };
        let deviation = (states.iter().map(|s| square(s, &mean)).sum::<f64>() / states.len() as f64).sqrt();
        let persistence = |lead: usize| {
            let pairs = states.iter().zip(&states[lead..]).map(|(a, b)| square(a, b));
            (pairs.sum::<f64>() / (states.len() - lead) as f64).sqrt()
        };
        println!("deviation {deviation:.0} m2 s-2");
        for steps in [1, 4, 8, 12, 20, 40] {
            println!("persistence at {} h: {:.0}", 6 * steps, persistence(steps));
        }
        assert!(persistence(1) < 0.5 * deviation, "six hours later it is still alike");
        // Two independent states differ by the root of two deviations.
        assert!(persistence(40) > 1.2 * deviation, "ten days later it is another weather");
    }
}
