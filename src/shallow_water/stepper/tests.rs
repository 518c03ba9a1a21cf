use super::*;
use crate::climatology::{ClimatologyFit, ClimatologyKind};
use crate::constants::{EARTH_RADIUS, EARTH_ROTATION};
use crate::device::cpu::Cpu;
use crate::shallow_water::plan::tests::plan;
use crate::time::Calendar;
use crate::variable::Quantity;

struct OneThread;

impl Devices for OneThread {
    fn single(&self) -> Result<Box<dyn Device<f32>>> {
        Ok(Box::new(Cpu::new(Some(1))?))
    }

    fn double(&self) -> Result<Box<dyn Device<f64>>> {
        Ok(Box::new(Cpu::new(Some(1))?))
    }
}

const DAY: LeadTime = LeadTime { seconds: 86_400 };

fn even(n: usize, first: f64, step: f64) -> Vec<f64> {
    (0..n).map(|i| first + step * i as f64).collect()
}

/// 32 x 64 cells.
fn globe() -> Grid {
    Grid::new(even(32, -87.1875, 5.625), even(64, 0.0, 5.625)).unwrap()
}

fn middle_latitudes() -> Grid {
    Grid::new(even(13, 30.0, 2.5), even(17, -20.0, 2.5)).unwrap()
}

fn layout(grid: Grid, labels: &[&str]) -> Arc<Layout> {
    Arc::new(Layout { grid, quantities: labels.iter().map(|l| Quantity::parse(l)).collect() })
}

fn time(text: &str) -> ValidTime {
    ValidTime::parse(text, Calendar::Standard).unwrap()
}

/// Each channel a function of longitude and latitude [radians].
fn state(layout: &Arc<Layout>, fields: &[&dyn Fn(f64, f64) -> f64]) -> State {
    let mut state = State::missing(layout.clone(), time("2001-01-15T00"));
    for ((j, i, channel), value) in state.values.indexed_iter_mut() {
        let (x, y) = (layout.grid.longitude[i].to_radians(), layout.grid.latitude[j].to_radians());
        *value = fields[channel](x, y) as f32;
    }
    state
}

fn stepper(plan: &PhysicsPlan, layout: &Arc<Layout>, usual: Option<&Climatology>) -> PhysicsStepper {
    let devices: Arc<dyn Devices> = Arc::new(OneThread);
    PhysicsStepper::new(plan, layout, DAY, usual, &devices).unwrap()
}

/// The analysis, and the state after some steps.
fn run(stepper: &mut PhysicsStepper, analysis: &State, steps: usize) -> State {
    let mut forecast = stepper.start(std::slice::from_ref(analysis)).unwrap();
    let first = stepper.observe(&forecast).unwrap();
    let expected = analysis.arranged(stepper.output()).unwrap();
    assert_eq!(first.values, expected.values, "before the first step: the analysis, bit for bit");
    (0..steps).for_each(|_| stepper.step(&mut forecast).unwrap());
    let state = stepper.observe(&forecast).unwrap();
    assert_eq!(state.valid, analysis.valid.after(DAY.times(steps)));
    state
}

fn root_mean_square(state: &State, other: &State, label: &str) -> f64 {
    let (a, b) = (state.layout.channel(label).unwrap(), other.layout.channel(label).unwrap());
    let pairs = state.channel(a).into_iter().zip(other.channel(b)).map(|(a, b)| f64::from(a - b).powi(2));
    let squares: Vec<f64> = pairs.collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

/// Zonal flow of `speed` cos(lat) and the geopotential in balance with it.
fn zonal(speed: f64) -> [impl Fn(f64, f64) -> f64; 3] {
    let slope = EARTH_RADIUS * EARTH_ROTATION * speed + speed * speed / 2.0;
    [0, 1, 2].map(move |part| {
        move |_: f64, y: f64| match part {
            0 => 54_000.0 - slope * y.sin().powi(2),
            1 => speed * y.cos(),
            _ => 0.0,
        }
    })
}

#[test]
fn balanced_zonal_flow_stays_on_any_grid() {
    let [z, u, v] = zonal(20.0);
    let gaussian: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) * 5.533).collect();
    let with_poles = Grid::new(even(33, -90.0, 5.625), even(64, 0.0, 5.625)).unwrap();
    for grid in [globe(), Grid::new(gaussian, even(64, 0.0, 5.625)).unwrap(), with_poles] {
        let layout = layout(grid, &["z500", "u500", "v500", "msl"]);
        let analysis = state(&layout, &[&z, &u, &v, &|_, _| 1e5]);
        for model in [Model::ShallowWater, Model::Barotropic] {
            for coarsen in [1, 2] {
                let plan = PhysicsPlan { model: Some(model), coarsen, ..plan() };
                let mut stepper = stepper(&plan, &layout, None);
                assert_eq!(stepper.output().quantities.len(), 3, "msl is not forecast");
                let after = run(&mut stepper, &analysis, 2);
                let [z, u] = ["z500", "u500"].map(|label| root_mean_square(&after, &analysis, label));
                println!("{model:?}, coarsen {coarsen}: {z:.2} m2 s-2, {u:.4} m/s");
                // Second-order differences of 5.6 (11.2) degrees, on 500 m and 20 m/s from equator to pole.
                assert!(z < 30.0 * (coarsen * coarsen) as f64 && u < 0.1 * (coarsen * coarsen) as f64);
            }
        }
    }
}

/// Wind of the Rossby-Haurwitz wave of wavenumber 4, turned by an angle [radians].
fn wave(turn: f64) -> [impl Fn(f64, f64) -> f64; 2] {
    let w = 7.848e-6 * EARTH_RADIUS;
    [true, false].map(move |eastward| {
        move |x: f64, y: f64| {
            let (c, s, phase) = (y.cos(), y.sin(), 4.0 * (x - turn));
            match eastward {
                true => w * (c + c.powi(3) * (4.0 * s * s - c * c) * phase.cos()),
                false => -w * 4.0 * c.powi(3) * s * phase.sin(),
            }
        }
    })
}

#[test]
fn a_rossby_haurwitz_wave_of_winds_turns_eastward_at_its_speed() {
    let layout = layout(globe(), &["u500", "v500"]);
    let ([u, v], w) = (wave(0.0), 7.848e-6);
    let analysis = state(&layout, &[&u, &v]);
    let turn = (28.0 * w - 2.0 * EARTH_ROTATION) / 30.0 * 2.0 * 86_400.0;
    let ([u, v], mut stepper) = (wave(turn), stepper(&plan(), &layout, None));
    assert!(stepper.info().origin.starts_with("barotropic model at 500 hPa"), "{}", stepper.info().origin);
    let exact = state(&layout, &[&u, &v]);
    let after = run(&mut stepper, &analysis, 2);
    for label in ["u500", "v500"] {
        let (error, signal) =
            (root_mean_square(&after, &exact, label), root_mean_square(&analysis, &exact, label));
        println!("{label}: {error:.2} m/s of {signal:.2}");
        // The wave lags by 2 % a day at 32 rows (a fifth of a turn of its pattern after 2 days of 24.4 degrees).
        assert!(error < 0.15 * signal, "{label}: {error} {signal}");
    }
}

#[test]
fn scalars_are_carried_as_departures_from_the_usual_by_a_share_of_the_wind() {
    let layout = layout(globe(), &["t2m", "u500", "v500"]);
    let mut fit = ClimatologyFit::new(layout.clone(), ClimatologyKind::Harmonic);
    let warm = |day: f64, y: f64| 280.0 + 20.0 * y.cos() + day;
    for day in 0..730 {
        let valid = time("2001-01-01T00").after(DAY.times(day));
        // A season that a harmonic holds exactly.
        let season = 5.0 * (std::f64::consts::TAU * valid.year_fraction()).sin();
        let state = state(&layout, &[&|_, y| warm(season, y), &|_, _| 0.0, &|_, _| 0.0]);
        fit.add(&State { valid, ..state }).unwrap();
    }
    let usual = fit.finish().unwrap();
    let season = |valid: ValidTime| 5.0 * (std::f64::consts::TAU * valid.year_fraction()).sin();
    let bell = |x: f64, y: f64| {
        let r = (y.cos() * (x - 1.5).cos()).clamp(-1.0, 1.0).acos();
        if r < 0.7 { 5.0 * (1.0 + (std::f64::consts::PI * r / 0.7).cos()) } else { 0.0 }
    };
    // Solid rotation by 40 degrees a day; half of it carries.
    let speed = EARTH_RADIUS * 40_f64.to_radians() / 86_400.0;
    let (start, end) = (time("2001-01-15T00"), time("2001-01-17T00"));
    let analysis =
        state(&layout, &[&|x, y| warm(season(start), y) + bell(x, y), &|_, y| speed * y.cos(), &|_, _| 0.0]);
    let advection = PhysicsPlan { model: Some(Model::Advection), ..plan() };
    let mut stepper = stepper(&advection, &layout, Some(&usual));
    assert_eq!(stepper.output().quantities, [Quantity::parse("t2m")]);
    let after = run(&mut stepper, &analysis, 2);
    let turn = 40_f64.to_radians();
    let exact = state(&layout, &[&|x, y| warm(season(end), y) + bell(x - turn, y), &|_, _| 0.0, &|_, _| 0.0]);
    let (error, signal) =
        (root_mean_square(&after, &exact, "t2m"), root_mean_square(&analysis, &exact, "t2m"));
    println!("t2m: {error:.3} K of {signal:.3}");
    assert!(error < 0.15 * signal, "{error} {signal}");
}

#[test]
fn a_box_holds_its_edge_or_is_told_the_later_one() {
    let layout = layout(middle_latitudes(), &["z500", "t850"]);
    let height = |shift: f64| {
        move |x: f64, y: f64| {
            // Wind of 28 m/s: at half of it the wave would travel westward as fast as it is carried eastward.
            54_000.0 - 18_000.0 * (y - 0.8) + 1500.0 * (5.0 * (x - shift)).sin() * (3.0 * y).sin()
        }
    };
    let analysis = state(&layout, &[&height(0.0), &|_, y| 290.0 - 20.0 * y]);
    let later = state(&layout, &[&height(0.1), &|_, y| 290.0 - 20.0 * y]);
    let ring = |state: &State, other: &State| {
        let (rows, columns, _) = layout.shape();
        let z = |state: &State, j, i| f64::from(state.values[[j, i, 0]]);
        let on_ring = |j: usize, i: usize| j == 0 || i == 0 || j + 1 == rows || i + 1 == columns;
        let all = (0..rows).flat_map(|j| (0..columns).map(move |i| (j, i)));
        all.filter(|&(j, i)| on_ring(j, i))
            .map(|(j, i)| (z(state, j, i) - z(other, j, i)).abs())
            .fold(0.0, f64::max)
    };
    let mut frozen = stepper(&plan(), &layout, None);
    let after = run(&mut frozen, &analysis, 1);
    let moved = root_mean_square(&after, &analysis, "z500");
    assert!(moved > 50.0, "something has moved: {moved}");
    // Geopotentials of 5e4 in float32 are known to 4e-3.
    assert!(ring(&after, &analysis) < 0.02, "{}", ring(&after, &analysis));

    let driven = PhysicsPlan { boundary: Boundary::Driven, ..plan() };
    let mut driven = stepper(&driven, &layout, None);
    let (truth, start) = (later.clone(), analysis.valid);
    driven.drive(Arc::new(move |valid| match valid.since(start) == DAY {
        true => Ok(State { valid, ..truth.clone() }),
        false => Err(Error::input("not there")),
    }));
    let told = run(&mut driven, &analysis, 1);
    assert!(ring(&told, &later) < 0.02, "{}", ring(&told, &later));
    assert!(driven.info().origin.contains("driven by later analyses"));
    let mut forecast = driven.start(std::slice::from_ref(&analysis)).unwrap();
    driven.step(&mut forecast).unwrap();
    let error = driven.step(&mut forecast).unwrap_err();
    assert!(error.to_string().contains("nothing is known of the boundary at 2001-01-17"), "{error}");
}

#[test]
fn holes_are_refused_with_their_place_and_old_forecasts_are_noticed() {
    let layout = layout(middle_latitudes(), &["z500"]);
    let mut stepper = stepper(&plan(), &layout, None);
    let mut analysis = state(&layout, &[&|_, y| 54_000.0 - 9000.0 * y]);
    let old = stepper.start(std::slice::from_ref(&analysis)).unwrap();
    stepper.start(std::slice::from_ref(&analysis)).unwrap();
    assert!(stepper.observe(&old).unwrap_err().to_string().contains("another forecast"));
    analysis.values[[2, 3, 0]] = f32::NAN;
    let error = stepper.start(std::slice::from_ref(&analysis)).err().unwrap();
    assert!(error.to_string().contains("z500 at 2001-01-15T00:00Z has no value at 35 N, -12.5 E"), "{error}");
}
