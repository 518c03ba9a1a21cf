//! On a doubly periodic plane, against the formulas written out cell by cell.

use super::super::smoothing::smooth_alone;
use super::super::{Cpu, Instructions};
use super::*;
use crate::device::{ArenaPlan, Device, Filter, Slot, Triple};

const ROWS: usize = 24;
const COLUMNS: usize = 38;
const DY: f64 = 1.5e5;
const DX: f64 = 1.2e5;
const G: f64 = 9.5;
const DEPTH: f64 = 5000.0;

/// A periodic field.
struct Field(Vec<f64>);

impl Field {
    fn at(&self, j: isize, i: isize) -> f64 {
        self.0[j.rem_euclid(ROWS as isize) as usize * COLUMNS + i.rem_euclid(COLUMNS as isize) as usize]
    }

    fn of(value: impl Fn(isize, isize) -> f64) -> Self {
        Self((0..ROWS * COLUMNS).map(|k| value((k / COLUMNS) as isize, (k % COLUMNS) as isize)).collect())
    }

    /// Between -1 and 1.
    fn random(seed: u64) -> Self {
        let mut state = seed;
        Self::of_sequence(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        })
    }

    fn of_sequence(mut next: impl FnMut() -> f64) -> Self {
        Self((0..ROWS * COLUMNS).map(|_| next()).collect())
    }

    fn padded<T: Real>(&self) -> Vec<T> {
        let halo = HALO as isize;
        (-halo..ROWS as isize + halo)
            .flat_map(|j| (-halo..COLUMNS as isize + halo).map(move |i| T::of(self.at(j, i))))
            .collect()
    }

    fn of_padded<T: Real>(padded: &[T]) -> Self {
        let width = COLUMNS + 2 * HALO;
        Self::of(|j, i| padded[(j as usize + HALO) * width + i as usize + HALO].wide())
    }
}

struct Plane {
    u: Field,
    v: Field,
    h: Field,
    b: Field,
    f: Field,
}

impl Plane {
    /// Random in every cell: winds of 20 m/s, a thickness between 3.5 and 6.5 km, hills of 1 km.
    fn random() -> Self {
        let scaled = |seed, scale: f64, shift: f64| {
            Field(Field::random(seed).0.iter().map(|x| x * scale + shift).collect())
        };
        Self {
            u: scaled(1, 20.0, 5.0),
            v: scaled(2, 20.0, 0.0),
            h: scaled(3, 1500.0, DEPTH),
            b: scaled(4, 500.0, 500.0),
            f: scaled(5, 1e-5, 1e-4),
        }
    }

    fn measures() -> RowMeasures {
        RowMeasures {
            dxu: DX,
            dxv: [DX; 2],
            area: DX * DY,
            corner_area: DX * DY,
            filter: Filter::default(),
            face_filter: Filter::default(),
        }
    }

    /// One call on the device.
    fn run<T: Real>(
        &self,
        device: &mut Cpu<T>,
        form: FluxForm,
        output: impl Fn(Triple) -> FlowOutput,
    ) -> [Field; 3] {
        let mut plan = ArenaPlan::default();
        let len = (ROWS + 2 * HALO) * (COLUMNS + 2 * HALO);
        let mut slot = || plan.slot(len);
        let [x, k] = [(); 2].map(|()| Triple { u: slot(), v: slot(), h: slot() });
        let (f, b) = (slot(), slot());
        let table = plan.slot((ROWS + 2 * HALO) * RowMeasures::COUNT);
        device.allocate(&plan).unwrap();
        let departure = Field(self.h.0.iter().map(|h| h - DEPTH).collect());
        for (slot, field) in [(x.u, &self.u), (x.v, &self.v), (x.h, &departure), (f, &self.f), (b, &self.b)] {
            device.upload(slot, &field.padded());
        }
        let row = Self::measures().coefficients(DY).map(T::of);
        device.upload(table, &row.repeat(ROWS + 2 * HALO));
        let flow = Flow {
            rows: ROWS,
            columns: COLUMNS,
            form,
            g: G,
            depth: DEPTH,
            dy: DY,
            poles: [false; 2],
            cap_area: 1.0,
            table,
            f,
            b: Some(b),
        };
        device.flow(&flow, x, &output(k));
        [k.u, k.v, k.h].map(|slot: Slot| {
            let mut values = vec![T::default(); slot.len()];
            device.download(slot, &mut values);
            Field::of_padded(&values)
        })
    }

    // The quantities of the scheme, as printed by Arakawa and Lamb (1981).

    fn flux(&self) -> Field {
        Field::of(|j, i| (self.h.at(j, i) + self.h.at(j, i - 1)) / 2.0 * self.u.at(j, i) * DY)
    }

    fn cross(&self) -> Field {
        Field::of(|j, i| (self.h.at(j, i) + self.h.at(j - 1, i)) / 2.0 * self.v.at(j, i) * DX)
    }

    fn kinetic(&self) -> Field {
        let square = |x: f64| x * x;
        Field::of(|j, i| {
            (square(self.u.at(j, i)) + square(self.u.at(j, i + 1))) / 4.0
                + (square(self.v.at(j, i)) + square(self.v.at(j + 1, i))) / 4.0
        })
    }

    /// q, and the mass about a corner.
    fn vorticity(&self) -> (Field, Field) {
        let h = |j, i| self.h.at(j, i);
        let mass = Field::of(|j, i| (h(j, i) + h(j, i - 1) + h(j - 1, i) + h(j - 1, i - 1)) / 4.0 * DX * DY);
        let q = Field::of(|j, i| {
            let zeta =
                (self.v.at(j, i) - self.v.at(j, i - 1)) * DY - (self.u.at(j, i) - self.u.at(j - 1, i)) * DX;
            (zeta + self.f.at(j, i) * DX * DY) / mass.at(j, i)
        });
        (q, mass)
    }

    fn tendency(&self, form: FluxForm) -> [Field; 3] {
        let (f, g, (q, _)) = (self.flux(), self.cross(), self.vorticity());
        let k = self.kinetic();
        let head = Field::of(|j, i| k.at(j, i) + G * (self.h.at(j, i) + self.b.at(j, i)));
        let (u, v) = self.rotation(form, &f, &g, &q);
        [
            Field::of(|j, i| (u.at(j, i) - head.at(j, i) + head.at(j, i - 1)) / DX),
            Field::of(|j, i| (-v.at(j, i) - head.at(j, i) + head.at(j - 1, i)) / DY),
            Field::of(|j, i| -(f.at(j, i + 1) - f.at(j, i) + g.at(j + 1, i) - g.at(j, i)) / (DX * DY)),
        ]
    }

    fn rotation(&self, form: FluxForm, f: &Field, g: &Field, q: &Field) -> (Field, Field) {
        let q = |j, i| q.at(j, i);
        let (f, g) = (|j, i| f.at(j, i), |j, i| g.at(j, i));
        match form {
            FluxForm::ArakawaLamb => {
                let u = |j: isize, i: isize| {
                    let al = 2.0 * q(j + 1, i + 1) + q(j + 1, i) + 2.0 * q(j, i) + q(j, i + 1);
                    let be = q(j + 1, i) + 2.0 * q(j + 1, i - 1) + q(j, i - 1) + 2.0 * q(j, i);
                    let ga = 2.0 * q(j + 1, i) + q(j + 1, i - 1) + 2.0 * q(j, i - 1) + q(j, i);
                    let de = q(j + 1, i + 1) + 2.0 * q(j + 1, i) + q(j, i) + 2.0 * q(j, i + 1);
                    let e0 = q(j + 1, i + 1) + q(j + 1, i) - q(j, i) - q(j, i + 1);
                    let em = q(j + 1, i) + q(j + 1, i - 1) - q(j, i - 1) - q(j, i);
                    (al * g(j + 1, i) + be * g(j + 1, i - 1) + ga * g(j, i - 1) + de * g(j, i)
                        - e0 * f(j, i + 1)
                        + em * f(j, i - 1))
                        / 24.0
                };
                let v = |j: isize, i: isize| {
                    let ga = 2.0 * q(j + 1, i + 1) + q(j + 1, i) + 2.0 * q(j, i) + q(j, i + 1);
                    let de = q(j + 1, i + 1) + 2.0 * q(j + 1, i) + q(j, i) + 2.0 * q(j, i + 1);
                    let al = 2.0 * q(j, i + 1) + q(j, i) + 2.0 * q(j - 1, i) + q(j - 1, i + 1);
                    let be = q(j, i + 1) + 2.0 * q(j, i) + q(j - 1, i) + 2.0 * q(j - 1, i + 1);
                    let p0 = -q(j + 1, i + 1) + q(j + 1, i) + q(j, i) - q(j, i + 1);
                    let pm = -q(j, i + 1) + q(j, i) + q(j - 1, i) - q(j - 1, i + 1);
                    (ga * f(j, i + 1)
                        + de * f(j, i)
                        + al * f(j - 1, i)
                        + be * f(j - 1, i + 1)
                        + p0 * g(j + 1, i)
                        - pm * g(j - 1, i))
                        / 24.0
                };
                (Field::of(u), Field::of(v))
            }
            FluxForm::Energy => (
                Field::of(|j, i| {
                    (q(j, i) * (g(j, i) + g(j, i - 1)) + q(j + 1, i) * (g(j + 1, i) + g(j + 1, i - 1))) / 4.0
                }),
                Field::of(|j, i| {
                    (q(j, i) * (f(j, i) + f(j - 1, i)) + q(j, i + 1) * (f(j, i + 1) + f(j - 1, i + 1))) / 4.0
                }),
            ),
            FluxForm::Enstrophy => (
                Field::of(|j, i| {
                    (q(j, i) + q(j + 1, i)) / 2.0 * (g(j, i) + g(j, i - 1) + g(j + 1, i) + g(j + 1, i - 1))
                        / 4.0
                }),
                Field::of(|j, i| {
                    (q(j, i) + q(j, i + 1)) / 2.0 * (f(j, i) + f(j - 1, i) + f(j, i + 1) + f(j - 1, i + 1))
                        / 4.0
                }),
            ),
        }
    }

    /// Rates of change of energy and potential enstrophy over the sums of the absolute values of their terms.
    fn drift(&self, [du, dv, dh]: &[Field; 3]) -> (f64, f64) {
        let (f, g, (q, mass)) = (self.flux(), self.cross(), self.vorticity());
        let k = self.kinetic();
        let mut energy = Vec::new();
        let mut enstrophy = Vec::new();
        for j in 0..ROWS as isize {
            for i in 0..COLUMNS as isize {
                // dE = hu u du + hv v dv + (K + g (h + b)) dh, per cell area.
                energy.push(f.at(j, i) * DX * du.at(j, i));
                energy.push(g.at(j, i) * DY * dv.at(j, i));
                let head = k.at(j, i) + G * (self.h.at(j, i) + self.b.at(j, i));
                energy.push(head * dh.at(j, i) * DX * DY);
                // d(q^2 M / 2) = q d(qM) - q^2 dM / 2
                let curl = (dv.at(j, i) - dv.at(j, i - 1)) * DY - (du.at(j, i) - du.at(j - 1, i)) * DX;
                let dmass = (dh.at(j, i) + dh.at(j, i - 1) + dh.at(j - 1, i) + dh.at(j - 1, i - 1)) / 4.0;
                enstrophy.push(q.at(j, i) * curl);
                enstrophy.push(-q.at(j, i) * q.at(j, i) / 2.0 * dmass * DX * DY);
                assert!(mass.at(j, i) > 0.0);
            }
        }
        let relative = |x: &[f64]| x.iter().sum::<f64>() / x.iter().map(|x| x.abs()).sum::<f64>();
        (relative(&energy), relative(&enstrophy))
    }
}

fn worst(a: &Field, b: &Field) -> f64 {
    let scale = b.0.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    a.0.iter().zip(&b.0).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale
}

const FORMS: [FluxForm; 3] = [FluxForm::ArakawaLamb, FluxForm::Energy, FluxForm::Enstrophy];

#[test]
fn the_fused_pass_computes_the_published_formulas() {
    let plane = Plane::random();
    for form in FORMS {
        let k = plane.run(&mut Cpu::<f64>::new(Some(1)).unwrap(), form, FlowOutput::Tendency);
        for (k, reference) in k.iter().zip(&plane.tendency(form)) {
            // Some fifty roundings.
            assert!(worst(k, reference) < 1e-13, "{form:?} {:e}", worst(k, reference));
        }
        let single = plane.run(&mut Cpu::<f32>::new(Some(1)).unwrap(), form, FlowOutput::Tendency);
        for (single, reference) in single.iter().zip(&k) {
            assert!(worst(single, reference) < 3e-6, "{form:?} {:e}", worst(single, reference));
        }
    }
}

#[test]
fn arakawa_and_lamb_keep_energy_and_enstrophy_and_sadourny_one_of_them() {
    let plane = Plane::random();
    let of =
        |form| plane.drift(&plane.run(&mut Cpu::<f64>::new(Some(1)).unwrap(), form, FlowOutput::Tendency));
    // Sums of 2000 terms with roundings of 1e-16 each.
    let exact = 1e-14;
    let (energy, enstrophy) = of(FluxForm::ArakawaLamb);
    assert!(energy.abs() < exact && enstrophy.abs() < exact, "{energy:e} {enstrophy:e}");
    let (energy, enstrophy) = of(FluxForm::Energy);
    assert!(energy.abs() < exact && enstrophy.abs() > 1e-5, "{energy:e} {enstrophy:e}");
    let (energy, enstrophy) = of(FluxForm::Enstrophy);
    assert!(energy.abs() > 1e-6 && enstrophy.abs() < exact, "{energy:e} {enstrophy:e}");
}

#[test]
fn the_rotational_part_is_the_flux_of_vorticity_and_the_kinetic_energy() {
    let plane = Plane::random();
    let mut device = Cpu::<f64>::new(Some(1)).unwrap();
    let [u, v, k] = plane.run(&mut device, FluxForm::ArakawaLamb, FlowOutput::Rotational);
    let (f, g, (q, _)) = (plane.flux(), plane.cross(), plane.vorticity());
    let (qg, qf) = plane.rotation(FluxForm::ArakawaLamb, &f, &g, &q);
    assert!(worst(&u, &Field::of(|j, i| qg.at(j, i) / DX)) < 1e-13);
    assert!(worst(&v, &Field::of(|j, i| -qf.at(j, i) / DY)) < 1e-13);
    assert!(worst(&k, &plane.kinetic()) < 1e-14);
}

#[test]
fn threads_and_instructions_do_not_change_a_bit() {
    let plane = Plane::random();
    let mut one = Cpu::<f32>::with_instructions(Some(1), Instructions::Portable).unwrap();
    let reference = plane.run(&mut one, FluxForm::ArakawaLamb, FlowOutput::Tendency);
    for set in Instructions::ALL.into_iter().filter(|set| set.is_available()) {
        let mut device = Cpu::<f32>::with_instructions(Some(3), set).unwrap();
        let k = plane.run(&mut device, FluxForm::ArakawaLamb, FlowOutput::Tendency);
        assert!(k.iter().zip(&reference).all(|(a, b)| a.0 == b.0), "{set}");
    }
}

fn smoothed(filter: Filter, row: &[f64]) -> Vec<f64> {
    let mut row = row.to_vec();
    let mut work = vec![0.0; 2 * smoothing_width(row.len())];
    smooth_alone(Instructions::best(), filter.z, &mut row, &mut work);
    row
}

/// The response to wave k of a row of n.
fn response(filter: Filter, n: usize, k: usize) -> f64 {
    let wave = |i: usize| (std::f64::consts::TAU * (k * i) as f64 / n as f64).cos();
    let row = smoothed(filter, &(0..n).map(wave).collect::<Vec<_>>());
    let peak = row[0];
    // Still the same wave: the smoothing is the same in every column.
    assert!((0..n).all(|i| (row[i] - peak * wave(i)).abs() < 1e-13));
    peak
}

#[test]
fn smoothing_answers_every_wave_as_the_implicit_filter_does() {
    for (n, rho) in [(64, 0.02), (96, 0.3), (90, 0.9), (10, 0.05), (1440, 0.004)] {
        let filter = Filter::bounded_by(rho);
        assert_eq!(response(filter, n, 0), 1.0);
        for k in (0..=n / 2).step_by(n.div_ceil(100)) {
            let s = (std::f64::consts::PI * k as f64 / n as f64).sin();
            let expected = 1.0 / (1.0 + 27.0 / 256.0 * (s / rho).powi(4));
            let found = response(filter, n, k);
            // The factors that are left out are within 5 Z = 2.5e-3 of 1.
            assert!((found / expected - 1.0).abs() < 2.5e-3, "{n} {rho} {k}: {found} for {expected}");
            assert!(s * found <= rho * 1.0025, "{n} {rho} {k}");
        }
    }
    assert_eq!(Filter::bounded_by(1.0), Filter::default());
}

#[test]
fn smoothing_keeps_the_sum_of_a_row() {
    let row: Vec<f64> = (0..77).map(|i| f64::from(i * i % 31)).collect();
    let sum: f64 = row.iter().sum();
    let smooth = smoothed(Filter::bounded_by(0.01), &row);
    assert!(smooth != row && (smooth.iter().sum::<f64>() / sum - 1.0).abs() < 1e-14);
}
