use super::*;
use crate::constants::EARTH_RADIUS;

fn longitudes(columns: usize, first: f64) -> Vec<f64> {
    (0..columns).map(|i| first + 360.0 * i as f64 / columns as f64).collect()
}

fn centred(rows: usize, first: f64) -> Grid {
    let step = 180.0 / rows as f64;
    let latitude = (0..rows).map(|j| -90.0 + step * (j as f64 + 0.5)).collect();
    Grid::new(latitude, longitudes(2 * rows, first)).unwrap()
}

fn with_poles(rows: usize) -> Grid {
    let step = 180.0 / (rows - 1) as f64;
    let latitude = (0..rows).map(|j| -90.0 + step * j as f64).collect();
    Grid::new(latitude, longitudes(2 * (rows - 1), 0.0)).unwrap()
}

/// Zeros of the Legendre polynomial of degree `rows`, by Newton's method.
fn gaussian(rows: usize) -> Grid {
    let n = rows as f64;
    let sine = |j: usize| {
        let mut x = (std::f64::consts::PI * (j as f64 + 0.75) / (n + 0.5)).cos();
        for _ in 0..20 {
            let (mut before, mut p) = (1.0, x);
            for l in 2..=rows {
                let l = l as f64;
                (before, p) = (p, ((2.0 * l - 1.0) * x * p - (l - 1.0) * before) / l);
            }
            x -= p * (x * x - 1.0) / (n * (x * p - before));
        }
        x
    };
    let latitude = (0..rows).map(|j| -sine(j).asin().to_degrees()).collect();
    Grid::new(latitude, longitudes(2 * rows, 0.0)).unwrap()
}

fn regional() -> Grid {
    let even = |n: usize, first: f64| (0..n).map(|i| first + 1.5 * i as f64).collect::<Vec<f64>>();
    Grid::new(even(21, 30.0), even(24, -20.0)).unwrap()
}

fn every_kind() -> [(&'static str, Grid); 5] {
    [
        ("centred", centred(32, 0.0)),
        ("centred, shifted", centred(32, 2.8125)),
        ("with poles", with_poles(33)),
        ("gaussian", gaussian(32)),
        ("box", regional()),
    ]
}

/// Solid rotation of 30 m/s about an axis 0.7 rad from the pole, and a height that is low at one end of it.
fn rotation(x: f64, y: f64) -> (f64, f64, f64) {
    let tilt = 0.7_f64;
    let u = 30.0 * (y.cos() * tilt.cos() + y.sin() * x.cos() * tilt.sin());
    let v = -30.0 * x.sin() * tilt.sin();
    let sine = -x.cos() * y.cos() * tilt.sin() + y.sin() * tilt.cos();
    (u, v, 5500.0 - 400.0 * sine)
}

fn points(grid: &Grid, value: impl Fn(f64, f64) -> (f64, f64, f64)) -> Points {
    let mut points = Points { u: vec![], v: vec![], h: vec![] };
    for y in &grid.latitude {
        for x in &grid.longitude {
            let (u, v, h) = value(x.to_radians(), y.to_radians());
            points.u.push(u);
            points.v.push(v);
            points.h.push(h);
        }
    }
    points
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |m, (a, b)| m.max((a - b).abs()))
}

#[test]
fn without_a_change_the_forecast_is_the_analysis_bit_for_bit() {
    for (name, grid) in every_kind() {
        let mapping = Mapping::new(&grid, EARTH_RADIUS).unwrap();
        let analysis =
            points(&grid, |x, y| (10.0 * (3.0 * x + y).sin(), 7.0 * (x * y).cos(), 5500.0 + 90.0 * x * y));
        let start = mapping.to_model(&analysis).unwrap();
        assert_eq!(mapping.forecast(&analysis, &start, &start), analysis, "{name}");
    }
}

#[test]
fn constants_stay_constant_both_ways() {
    for (name, grid) in every_kind() {
        let mapping = Mapping::new(&grid, EARTH_RADIUS).unwrap();
        let analysis = points(&grid, |_, _| (0.0, 0.0, 5500.0));
        let model = mapping.to_model(&analysis).unwrap();
        assert!(apart(&model.h, &vec![5500.0; model.h.len()]) < 1e-11, "{name}");
        assert!(apart(&mapping.to_points(&model).h, &analysis.h) < 1e-11, "{name}");
    }
}

#[test]
fn solid_rotation_arrives_and_returns_to_the_accuracy_of_each_way() {
    // Means of two over a spacing d damp a wave of the sphere's first degree by d^2 / 8: 1.2e-3 at 5.6 degrees, 0.036 m/s
    // of 30, 0.5 m of 400; the mean of four twice that. Cubics are of fourth order.
    let bounds = [
        ("centred", centred(32, 0.0), 0.04, 0.08, 1e-10),
        ("with poles", with_poles(33), 0.08, 0.16, 1.2),
        ("gaussian", gaussian(32), 0.04, 0.08, 0.02),
        ("box", regional(), 0.4, 0.8, 1e-10),
    ];
    for (name, grid, there_bound, back_bound, height_bound) in bounds {
        let mapping = Mapping::new(&grid, EARTH_RADIUS).unwrap();
        let analysis = points(&grid, rotation);
        let model = mapping.to_model(&analysis).unwrap();
        let part = |which: usize| move |x, y| [rotation(x, y).0, rotation(x, y).1, rotation(x, y).2][which];
        let truth = Fields::sample(mapping.sphere(), part(0), part(1), part(2));
        let there = apart(&model.u, &truth.u).max(apart(&model.v, &truth.v));
        let height = apart(&model.h, &truth.h);
        let returned = mapping.to_points(&model);
        let back = apart(&returned.u, &analysis.u).max(apart(&returned.v, &analysis.v));
        let height_back = apart(&returned.h, &analysis.h);
        println!(
            "{name}: wind {there:.3}, back {back:.3} m/s; height {height:.1e}, back {height_back:.1e} m"
        );
        assert!(there < there_bound && back < back_bound, "{name}: {there} {back}");
        assert!(height < height_bound && height_back < 2.0 * height_bound, "{name}: {height} {height_back}");
    }
}

#[test]
fn columns_may_begin_anywhere() {
    let grid = centred(16, 5.625);
    let mapping = Mapping::new(&grid, EARTH_RADIUS).unwrap();
    assert!(mapping.sphere().grid().unwrap().matches(&grid));
}

#[test]
fn the_real_gaussian_grid_of_a_reanalysis_becomes_32_rows() {
    let grid = gaussian(32);
    assert!((grid.latitude[31] - 85.760_587).abs() < 1e-5, "{}", grid.latitude[31]);
    assert_eq!(Mapping::new(&grid, EARTH_RADIUS).unwrap().sphere().rows, 32);
    assert_eq!(Mapping::new(&with_poles(721), EARTH_RADIUS).unwrap().sphere().rows, 720);
}

#[test]
fn bands_uneven_columns_and_missing_values_are_refused_by_name() {
    let message = |grid: &Grid| Mapping::new(grid, EARTH_RADIUS).unwrap_err().to_string();
    let band = Grid::new((0..20).map(|j| -47.5 + 5.0 * f64::from(j)).collect(), longitudes(36, 0.0)).unwrap();
    assert!(message(&band).contains("band around the earth"));
    let mut columns = longitudes(36, 0.0);
    columns[7] += 1.0;
    let uneven = Grid::new(centred(18, 0.0).latitude, columns).unwrap();
    assert!(message(&uneven).contains("evenly spaced longitudes"));
    let odd = Grid::new(centred(18, 0.0).latitude, longitudes(35, 0.0)).unwrap();
    assert!(message(&odd).contains("even number"));
    let grid = centred(8, 0.0);
    let mut missing = points(&grid, rotation);
    missing.v[17] = f64::NAN;
    let error = Mapping::new(&grid, EARTH_RADIUS).unwrap().to_model(&missing).unwrap_err();
    assert!(error.to_string().contains("v is NaN in row 1, column 1"));
    missing.h.pop();
    assert!(Mapping::new(&grid, EARTH_RADIUS).unwrap().to_model(&missing).is_err());
}
