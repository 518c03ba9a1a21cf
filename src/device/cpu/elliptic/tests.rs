use std::f64::consts::PI;

use crate::device::{ArenaPlan, Coefficients, Device, Elliptic, Ends, Real, Smoothing, cpu::Cpu};

const ALL: [Ends; 3] = [Ends::Periodic, Ends::Dirichlet, Ends::Neumann];

fn solve<T: Real>(coefficients: &Coefficients, right: &[f64], threads: usize) -> Vec<f64> {
    let mut plan = ArenaPlan::default();
    let elliptic = Elliptic::new(&mut plan, coefficients.clone());
    let (from, to) = (plan.slot(right.len()), plan.slot(right.len()));
    let mut device = Cpu::<T>::new(Some(threads)).unwrap();
    device.allocate(&plan).unwrap();
    elliptic.upload(&mut device);
    device.upload(from, &right.iter().map(|&r| T::of(r)).collect::<Vec<_>>());
    elliptic.solve(&mut device, from, to);
    let (mut x, mut in_place) = (vec![T::default(); right.len()], vec![T::default(); right.len()]);
    device.download(to, &mut x);
    elliptic.solve(&mut device, from, from);
    device.download(from, &mut in_place);
    assert_eq!(x, in_place, "in place");
    x.into_iter().map(Real::wide).collect()
}

/// The left side of the equation.
fn apply(c: &Coefficients, x: &[f64]) -> Vec<f64> {
    let (rows, n) = (c.rows(), c.columns);
    let at = |j: isize, i: isize| {
        if j < 0 || j >= rows as isize {
            return 0.0;
        }
        let last = n as isize - 1;
        let i = match c.ends {
            Ends::Periodic => i.rem_euclid(n as isize),
            Ends::Neumann => i.clamp(0, last),
            Ends::Dirichlet if i < 0 || i > last => return 0.0,
            Ends::Dirichlet => i,
        };
        x[j as usize * n + i as usize]
    };
    let mut y = Vec::with_capacity(x.len());
    for j in 0..rows {
        for i in 0..n as isize {
            let (jj, x) = (j as isize, at(j as isize, i));
            y.push(
                c.south[j] * (at(jj - 1, i) - x)
                    + c.south[j + 1] * (at(jj + 1, i) - x)
                    + c.west[j] * (at(jj, i - 1) - 2.0 * x + at(jj, i + 1))
                    - c.diagonal[j] * x,
            );
        }
    }
    y
}

/// Gaussian elimination with row pivots on the full matrix; the last point is set to 0 where a constant is free.
fn dense(c: &Coefficients, right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut a = vec![vec![0.0; n + 1]; n];
    for column in 0..n {
        let mut unit = vec![0.0; n];
        unit[column] = 1.0;
        apply(c, &unit).iter().enumerate().for_each(|(row, &value)| a[row][column] = value);
    }
    for (row, &value) in right.iter().enumerate() {
        a[row][n] = value;
    }
    if c.is_singular() {
        a[n - 1].fill(0.0);
        a[n - 1][n - 1] = 1.0;
    }
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).unwrap();
        a.swap(k, pivot);
        let (above, below) = a.split_at_mut(k + 1);
        for row in below {
            let factor = row[k] / above[k][k];
            (k..=n).for_each(|j| row[j] -= factor * above[k][j]);
        }
    }
    let mut x = vec![0.0; n];
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| a[k][j] * x[j]).sum();
        x[k] = (a[k][n] - known) / a[k][k];
    }
    x
}

/// Numbers in [-1, 1] that look random and are the same everywhere.
fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn odd_coefficients(ends: Ends, rows: usize, columns: usize, diagonal: f64, open: bool) -> Coefficients {
    let positive = |n: usize, seed| noise(n, seed).into_iter().map(|x| 1.5 + x).collect::<Vec<_>>();
    let mut south = positive(rows + 1, 2);
    if !open {
        (south[0], south[rows]) = (0.0, 0.0);
    }
    Coefficients {
        columns,
        ends,
        west: positive(rows, 1),
        south,
        diagonal: positive(rows, 3).iter().map(|d| diagonal * d).collect(),
        area: positive(rows, 4),
        smoothing: None,
    }
}

/// Cell-centred rows from pole to pole on the unit sphere.
fn globe(rows: usize, columns: usize, kappa: f64) -> Coefficients {
    let (dp, dl) = (PI / rows as f64, 2.0 * PI / columns as f64);
    let face = |j: usize| j as f64 * dp - PI / 2.0;
    let area: Vec<f64> = (0..rows).map(|j| dl * (face(j + 1).sin() - face(j).sin())).collect();
    let inner = |j: usize| j > 0 && j < rows;
    Coefficients {
        columns,
        ends: Ends::Periodic,
        west: (0..rows).map(|j| dp / ((face(j) + dp / 2.0).cos() * dl)).collect(),
        south: (0..=rows).map(|j| if inner(j) { face(j).cos() * dl / dp } else { 0.0 }).collect(),
        diagonal: area.iter().map(|a| kappa * a).collect(),
        area,
        smoothing: None,
    }
}

fn without_mean(c: &Coefficients, x: &[f64]) -> Vec<f64> {
    let n = c.columns;
    let area: f64 = c.area.iter().sum::<f64>() * n as f64;
    let mean: f64 = x.chunks(n).zip(&c.area).map(|(row, a)| a * row.iter().sum::<f64>()).sum::<f64>() / area;
    x.iter().map(|x| x - mean).collect()
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |m, x| m.max(x.abs()))
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |m, (a, b)| m.max((a - b).abs()))
}

#[test]
fn every_kind_of_ends_gives_what_the_full_matrix_gives() {
    for ends in ALL {
        for (rows, columns) in [(1, 5), (5, 1), (5, 7), (6, 8), (9, 4), (3, 2)] {
            for (diagonal, open) in [(0.0, true), (0.3, false), (2.0, true), (0.0, false)] {
                let c = odd_coefficients(ends, rows, columns, diagonal, open);
                let mut right = noise(rows * columns, 5);
                if c.is_singular() {
                    // What the solver would take from it.
                    let areas: Vec<f64> = c.area.iter().flat_map(|&a| vec![a; columns]).collect();
                    let factor = right.iter().sum::<f64>() / areas.iter().sum::<f64>();
                    right.iter_mut().zip(areas).for_each(|(r, a)| *r -= factor * a);
                }
                let x = solve::<f64>(&c, &right, 1);
                let mut truth = dense(&c, &right);
                if c.is_singular() {
                    truth = without_mean(&c, &truth);
                }
                // Condition numbers up to a few hundred.
                let error = distance(&x, &truth) / largest(&truth).max(1.0);
                assert!(error < 1e-12, "{ends:?} {rows} x {columns} {diagonal} {open}: {error}");
            }
        }
    }
}

#[test]
fn the_laplacian_of_the_solution_is_the_right_side_on_a_globe() {
    for (rows, columns, kappa) in [(128, 256, 0.0), (128, 256, 50.0), (33, 62, 0.0), (24, 45, 1.0)] {
        let c = globe(rows, columns, kappa);
        let mut z = noise(rows * columns, 7);
        if kappa == 0.0 {
            z = without_mean(&c, &z);
        }
        let area = |i: usize| c.area[i / columns];
        let right: Vec<f64> = z.iter().enumerate().map(|(i, z)| z * area(i)).collect();
        let x = solve::<f64>(&c, &right, 2);
        let back: Vec<f64> = apply(&c, &x).iter().enumerate().map(|(i, y)| y / area(i)).collect();
        let error = distance(&back, &z) / largest(&z);
        println!("{rows} x {columns}, kappa {kappa}: {error:.1e}");
        // Next to a pole the differences along a row are divided by dx^2 = 1e-7: the last digits of x come back so much
        // larger.
        assert!(error < 3e-10, "{rows} x {columns}, kappa {kappa}: {error}");
        if kappa == 0.0 {
            assert!(
                distance(&x, &without_mean(&c, &x)) < 1e-15 * largest(&x).max(1.0),
                "mean of the solution"
            );
        }
    }
}

#[test]
fn smoothed_couplings_are_those_of_smoothed_differences() {
    // A row of one wave: the second difference of the wave times -lam, smoothed; between rows the same.
    let (rows, columns) = (5, 12);
    for k in 0..=6 {
        let mut c = odd_coefficients(Ends::Periodic, rows, columns, 0.3, false);
        let nu = noise(2 * rows + 1, 6).into_iter().map(|x| 1.0 + x).collect::<Vec<_>>();
        let (centres, faces) = (nu[..rows].to_vec(), nu[rows..].to_vec());
        c.smoothing = Some(Smoothing { centres: centres.clone(), faces: faces.clone() });
        let lam = Ends::Periodic.eigenvalue(columns, k);
        let factor = |nu: f64| 1.0 / (1.0 + nu * lam * lam);
        let mut plain = Coefficients { smoothing: None, ..c.clone() };
        for j in 0..rows {
            plain.west[j] *= factor(centres[j]);
            plain.diagonal[j] /= factor(centres[j]);
        }
        plain.south.iter_mut().zip(&faces).for_each(|(south, &nu)| *south *= factor(nu));
        let wave = |i: usize| (2.0 * PI * (k * i) as f64 / columns as f64 + 0.5).cos();
        let right: Vec<f64> =
            (0..rows * columns).map(|n| (n / columns + 1) as f64 * wave(n % columns)).collect();
        let error = distance(&solve::<f64>(&c, &right, 1), &solve::<f64>(&plain, &right, 1));
        assert!(error < 1e-13, "wave {k}: {error}");
    }
}

#[test]
fn a_right_side_with_a_mean_is_solved_for_its_rest() {
    let c = globe(12, 18, 0.0);
    let right = noise(12 * 18, 8);
    let shifted: Vec<f64> = right.iter().enumerate().map(|(i, r)| r + 3.0 * c.area[i / 18]).collect();
    let (x, y) = (solve::<f64>(&c, &right, 1), solve::<f64>(&c, &shifted, 1));
    assert!(distance(&x, &y) < 1e-13 * largest(&x), "{}", distance(&x, &y));
}

#[test]
fn one_thread_gives_the_bits_of_many() {
    for ends in ALL {
        let c = odd_coefficients(ends, 37, 301, 0.1, true);
        let right = noise(37 * 301, 9);
        assert_eq!(solve::<f32>(&c, &right, 1), solve::<f32>(&c, &right, 3), "{ends:?}");
    }
    let c = globe(64, 128, 0.0);
    let right = noise(64 * 128, 9);
    assert_eq!(solve::<f64>(&c, &right, 1), solve::<f64>(&c, &right, 4));
}

#[test]
fn single_precision_is_as_near_as_its_roundings_allow() {
    // A right side of planetary waves and noise, as a vorticity has. Rounding it alone moves the gravest waves of the
    // solution by 6e-8 of the right side's size, spread over all waves; sums over up to 128 rows add as many roundings.
    for kappa in [0.0, 50.0] {
        let c = globe(128, 256, kappa);
        let right: Vec<f64> = noise(128 * 256, 10)
            .into_iter()
            .enumerate()
            .map(|(i, r)| {
                let (j, i) = ((i / 256) as f64, (i % 256) as f64);
                c.area[j as usize] * (r + 0.3 * (i * PI / 64.0).cos() * (j * PI / 32.0).sin())
            })
            .collect();
        let (x, y) = (solve::<f64>(&c, &right, 2), solve::<f32>(&c, &right, 2));
        let error = distance(&x, &y) / largest(&x);
        println!("kappa {kappa}: {error:.1e}");
        assert!(error < 1e-5, "kappa {kappa}: {error}");
    }
}
