//! What physics is made of: layers in motion, equations, transport.

use super::super::{
    ArenaPlan, Biharmonic, Coefficients, Departures, Edge, Edges, Elliptic, Ends, Filter, Flow, FlowOutput,
    FluxForm, HALO, Image, Interpolation, Jacobian, Lattice, Leapfrog, Rates, Real, RowMeasures,
    RowSmoothing, Slot, Smoothing, Sum, Term, Triple, Write,
};
use super::{Bench, Case, case};
use crate::error::Result;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(flow),
        case!(flow: flow_of_every_output),
        case!(flow: flow_of_wide_rows),
        case!(biharmonic),
        case!(fastest_rate),
        case!(waves_forward),
        case!(waves_backward),
        case!(solve_waves),
        case!(solve_waves: solve_elliptic),
        case!(solve_waves: solve_elliptic_of_grids),
        case!(solve_waves: solve_elliptic_of_wide_rows),
        case!(leapfrog_predict),
        case!(leapfrog_correct),
        case!(depart),
        case!(interpolate),
        case!(sum),
        case!(jacobian),
        case!(smooth_rows),
        case!(smooth_rows: smooth_wide_rows),
    ]
}

/// A number that single precision holds, so that both devices begin with the same.
fn held(x: f64) -> f64 {
    f64::from(x as f32)
}

/// Narrow, odd, and beyond what one warp, one block and one walk of the GPU's take.
const SHAPES: [[usize; 2]; 4] = [[2, 4], [5, 7], [19, 30], [70, 301]];

/// Wider than what a block of any GPU has shared memory for.
const WIDE: [usize; 2] = [3, 30_000];

/// Slots of a layer in motion: x, base, next, sum, and its bottom.
struct Layer {
    flow: Flow,
    triples: [Triple; 4],
}

impl Layer {
    /// With poles where rows shrink and are filtered, or in a box that is neither.
    fn start<T: Real>(
        bench: &mut Bench<'_, T>,
        [rows, columns]: [usize; 2],
        globe: bool,
        f_by_row: bool,
    ) -> Result<Self> {
        let mut plan = ArenaPlan::default();
        let mut slots = Vec::new();
        let len = (rows + 2 * HALO) * (columns + 2 * HALO);
        let mut slot = |len| {
            slots.push(plan.slot(len));
            slots[slots.len() - 1]
        };
        let triples = [(); 4].map(|()| Triple { u: slot(len), v: slot(len), h: slot(len) });
        let f = slot(if f_by_row { rows + 2 * HALO } else { len });
        let b = (!globe).then(|| slot(len));
        let table = slot((rows + 2 * HALO) * RowMeasures::COUNT);
        let flow = Flow {
            rows,
            columns,
            form: FluxForm::ArakawaLamb,
            g: held(0.7),
            // Four times what noise adds to it.
            depth: 4.0,
            dy: held(1.1),
            poles: [globe; 2],
            cap_area: held(0.6 * columns as f64),
            table,
            f,
            b,
        };
        bench.start(&plan, &slots)?;
        bench.upload(table, &measures(&flow, globe));
        Ok(Self { flow, triples })
    }
}

/// Widths between 1/5 and 1, and filters of all strengths towards the poles.
fn measures(flow: &Flow, globe: bool) -> Vec<f64> {
    let rows = flow.rows as isize;
    let width = |twice: isize| match globe {
        true => (std::f64::consts::PI * twice as f64 / (2 * rows) as f64).sin().max(0.0),
        false => 1.0 - 0.01 * twice as f64 / rows as f64,
    };
    let filter =
        |width: f64| if globe { Filter::bounded_by(1.5 * width.max(0.02)) } else { Filter::default() };
    (-(HALO as isize)..rows + HALO as isize)
        .flat_map(|j| {
            let (centre, south, north) = (width(2 * j + 1), width(2 * j), width(2 * j + 2));
            let dxu = 0.2 + 0.8 * centre;
            RowMeasures {
                dxu,
                dxv: [south, north],
                area: dxu * flow.dy,
                corner_area: (0.1 + south) * flow.dy,
                filter: filter(centre),
                face_filter: filter(south),
            }
            .coefficients(flow.dy)
            .map(held)
        })
        .collect()
}

fn compare<T: Real>(bench: &mut Bench<'_, T>, triple: Triple, roundings: f64) {
    for slot in [triple.u, triple.v, triple.h] {
        bench.compare(slot, roundings);
    }
}

/// Products of sums of up to 24 quotients, whose sizes differ by an order of magnitude.
const FLOW_ROUNDINGS: f64 = 60.0;

fn flow<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for shape in SHAPES {
        for (globe, f_by_row) in [(true, false), (true, true), (false, true), (false, false)] {
            for form in [FluxForm::ArakawaLamb, FluxForm::Energy, FluxForm::Enstrophy] {
                let Layer { flow, triples: [x, k, ..] } = Layer::start(bench, shape, globe, f_by_row)?;
                bench.device.flow(&Flow { form, ..flow }, x, &FlowOutput::Tendency(k));
                compare(bench, k, FLOW_ROUNDINGS);
            }
        }
    }
    Ok(())
}

fn flow_of_every_output<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let (a, b) = (0.3, 0.2);
    for globe in [true, false] {
        for which in 0..5 {
            let Layer { flow, triples: [x, base, next, sum] } = Layer::start(bench, [23, 60], globe, globe)?;
            let stage = |base, write| FlowOutput::Stage { base, next, a, sum, b, write };
            let output = match which {
                0 => stage(base, Write::Overwrite),
                1 => stage(base, Write::Add),
                2 => stage(x, Write::Overwrite),
                3 => FlowOutput::Last { x: next, sum, b },
                _ => FlowOutput::Rotational(next),
            };
            bench.device.flow(&flow, x, &output);
            compare(bench, next, FLOW_ROUNDINGS);
            compare(bench, sum, FLOW_ROUNDINGS);
        }
    }
    Ok(())
}

fn flow_of_wide_rows<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let Layer { flow, triples: [x, _, next, sum] } = Layer::start(bench, WIDE, true, true)?;
    bench.device.flow(&flow, x, &FlowOutput::Last { x: next, sum, b: 0.1 });
    compare(bench, next, FLOW_ROUNDINGS);
    Ok(())
}

fn biharmonic<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for [rows, columns] in SHAPES {
        for on_pole in [[true, true], [false, true], [false, false]] {
            let len = (rows + 2 * HALO) * (columns + 2 * HALO);
            let [x, to] = bench.slots([len; 2])?;
            bench.device.biharmonic(&Biharmonic { rows, columns, weight: 0.03, x, to, on_pole });
            // Of 32 of the largest x, times the weight.
            bench.compare(to, 8.0);
        }
    }
    Ok(())
}

fn fastest_rate<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for [rows, columns] in SHAPES {
        let len = (rows + 2 * HALO) * (columns + 2 * HALO);
        let [u, v, h, factors] = bench.slots([len, len, len, 3 * rows])?;
        let cell = (rows + HALO) * (columns + 2 * HALO) - HALO - 1;
        let mut rates = Rates { rows, columns, x: Triple { u, v, h }, depth: 1.5, factors };
        let mut values = vec![bench.device.fastest_rate(&rates)];
        // Halos are not looked at, cells are.
        bench.upload(u.part(0, 1), &[f64::NAN]);
        values.push(bench.device.fastest_rate(&rates));
        bench.upload(v.part(cell, 1), &[f64::NAN]);
        values.push(f64::from(u8::from(bench.device.fastest_rate(&rates) == f64::INFINITY)));
        bench.upload(v.part(cell, 1), &[0.0]);
        rates.depth = 0.0;
        values.push(f64::from(u8::from(bench.device.fastest_rate(&rates) == f64::INFINITY)));
        bench.compare_values(values, 8.0);
    }
    Ok(())
}

/// Rows of every length, out of place and in place.
fn waves_forward<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    transforms(bench, |bench, ends, columns, [from, to]| {
        bench.device.waves_forward(ends, columns, from, to);
        bench.device.waves_forward(ends, columns, from, from);
        bench.compare_all(&[from, to], 30.0 * (columns as f64).sqrt());
    })
}

fn waves_backward<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    transforms(bench, |bench, ends, columns, [x, _]| {
        bench.device.waves_backward(ends, columns, x);
        bench.compare(x, 30.0 * (columns as f64).sqrt());
    })
}

fn transforms<T: Real>(
    bench: &mut Bench<'_, T>,
    work: impl Fn(&mut Bench<'_, T>, Ends, usize, [Slot; 2]),
) -> Result<()> {
    for ends in [Ends::Periodic, Ends::Dirichlet, Ends::Neumann] {
        for [rows, columns] in [[1, 1], [2, 2], [3, 5], [5, 61], [4, 30], [7, 77], [3, 360]] {
            let slots = bench.slots([rows * columns; 2])?;
            work(bench, ends, columns, slots);
        }
    }
    Ok(())
}

/// An equation whose couplings vary from row to row, its tables in place, and two arrays of its points.
fn equation<T: Real>(
    bench: &mut Bench<'_, T>,
    [rows, columns]: [usize; 2],
    ends: Ends,
    diagonal: f64,
    smoothed: bool,
) -> Result<(Elliptic, [Slot; 2])> {
    let row = |j: usize| 1.0 + 0.5 * ((j * j) as f64).sin();
    let mut south: Vec<f64> = (0..=rows).map(row).collect();
    if ends != Ends::Dirichlet {
        (south[0], south[rows]) = (0.0, 0.0);
    }
    let coefficients = Coefficients {
        columns,
        ends,
        west: (0..rows).map(|j| row(j + 1)).collect(),
        south,
        diagonal: vec![diagonal; rows],
        area: (0..rows).map(row).collect(),
        smoothing: smoothed.then(|| Smoothing {
            centres: (0..rows).map(|j| 0.3 * j as f64).collect(),
            faces: (0..=rows).map(|j| 0.2 * j as f64).collect(),
        }),
    };
    let mut plan = ArenaPlan::default();
    let elliptic = Elliptic::new(&mut plan, coefficients);
    let (right, x) = (plan.slot(rows * columns), plan.slot(rows * columns));
    bench.start(&plan, &[right, x])?;
    elliptic.upload(bench.device);
    for table in [elliptic.pivots, elliptic.carries, elliptic.shares] {
        let mut values = vec![T::default(); table.len()];
        bench.device.download(table, &mut values);
        bench.upload(table, &values.into_iter().map(|x| held(x.wide())).collect::<Vec<_>>());
    }
    Ok((elliptic, [right, x]))
}

/// Amplitudes at some places of a row: cosines, cosines and sines, sines.
fn solve_waves<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for ends in [Ends::Periodic, Ends::Dirichlet, Ends::Neumann] {
        for (shape, diagonal) in [([3, 5], 0.0), ([33, 30], 0.0), ([70, 77], 0.1)] {
            let [rows, columns] = shape;
            for places in [0..columns / 3, columns / 3..columns - 1, columns - 1..columns] {
                let (elliptic, [x, _]) = equation(bench, shape, ends, diagonal, true)?;
                let x = x.part(0, rows * places.len());
                bench.device.solve_waves(&elliptic, places, x);
                bench.compare(x, 30.0 * rows as f64);
            }
        }
    }
    Ok(())
}

/// Solves an equation, out of place and in place.
fn solve<T: Real>(
    bench: &mut Bench<'_, T>,
    shape: [usize; 2],
    ends: Ends,
    diagonal: f64,
    smoothed: bool,
) -> Result<()> {
    let [rows, columns] = shape;
    let (elliptic, [right, x]) = equation(bench, shape, ends, diagonal, smoothed)?;
    elliptic.solve(bench.device, right, x);
    elliptic.solve(bench.device, right, right);
    // Sums over a row, there and back, and along a column, where a weak diagonal lets them grow.
    for slot in [x, right] {
        bench.compare(slot, 30.0 * (columns as f64).sqrt().max(rows as f64));
    }
    Ok(())
}

/// Lengths with every radix, with other prime factors, and primes; more rows than the pieces of a column.
fn solve_elliptic<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for ends in [Ends::Periodic, Ends::Dirichlet, Ends::Neumann] {
        for (shape, diagonal, smoothed) in [
            ([1, 1], 0.5, false),
            ([2, 2], 0.0, false),
            ([3, 5], 0.3, true),
            ([7, 61], 0.0, false),
            ([33, 30], 0.0, true),
            ([70, 77], 0.1, true),
            ([65, 64], 0.2, false),
        ] {
            solve(bench, shape, ends, diagonal, smoothed)?;
        }
    }
    Ok(())
}

/// The lengths of grids.
fn solve_elliptic_of_grids<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for columns in [128, 240, 360, 512, 1440, 2880, 5760] {
        solve(bench, [3, columns], Ends::Periodic, 0.1, true)?;
    }
    Ok(())
}

fn solve_elliptic_of_wide_rows<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    solve(bench, WIDE, Ends::Periodic, 0.1, false)
}

/// Leapfrog steps: fields of before, now and the tendency, and the unknown,
/// on the whole globe, or on a band with others beyond the last row or on both sides.
fn steps<T: Real>(bench: &mut Bench<'_, T>, work: impl Fn(&mut Bench<'_, T>, &Leapfrog)) -> Result<()> {
    for (n, poles) in [[true; 2], [true, false], [false; 2]].into_iter().enumerate() {
        for shape in SHAPES {
            let layer = Layer::start(bench, shape, true, true)?;
            let Layer { mut flow, triples: [before, now, tendency, other] } = layer;
            flow.poles = poles;
            let (unknown, south) = (other.u.part(0, flow.rows * flow.columns), other.v.part(0, flow.columns));
            let south = (n == 2).then_some(south);
            let (dt, filter, alpha) = (held(0.2), 0.1, 0.53);
            work(bench, &Leapfrog { flow, dt, filter, alpha, before, now, tendency, unknown, south });
        }
    }
    Ok(())
}

fn leapfrog_predict<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    steps(bench, |bench, step| {
        bench.device.leapfrog_predict(step);
        // Fourth differences of the filtered rows, of numbers rounded five times; kappa and nu.
        bench.compare(step.unknown, 40.0);
    })
}

fn leapfrog_correct<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    steps(bench, |bench, step| {
        bench.device.leapfrog_correct(step);
        // A few sums, and the passes of the filter.
        compare(bench, step.before, 20.0);
        compare(bench, step.now, 20.0);
    })
}

/// The globe with and without rows on the poles, a band around it, and a box.
fn lattices() -> [Lattice; 4] {
    let pole = |row_on_pole| Edge::Pole { row_on_pole };
    let (pi, replicate) = (std::f64::consts::PI, [Edge::Replicate; 2]);
    let lattice = |rows, columns, [first, dp, dl]: [f64; 3], periodic, edges| Lattice {
        rows,
        columns,
        first,
        dp,
        dl,
        edges: Edges { periodic, rows: edges },
    };
    [
        lattice(19, 36, [-pi / 2.0, pi / 18.0, pi / 18.0], true, [pole(true); 2]),
        lattice(16, 30, [-15.0 * pi / 32.0, pi / 16.0, pi / 15.0], true, [pole(false); 2]),
        lattice(9, 25, [-0.4, 0.1, 2.0 * pi / 25.0], true, replicate),
        lattice(11, 23, [0.5, 0.03, 0.04], false, replicate),
    ]
}

fn depart<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for lattice in lattices() {
        let points = lattice.rows * lattice.columns;
        let [u, v, places] = bench.slots([points, points, 2 * points])?;
        // One particle from nowhere.
        bench.upload(u.part(5, 1), &[f64::NAN]);
        bench.device.depart(&Departures { lattice, iterations: 3, u, v, scale: 0.2, places });
        // In double precision, then rounded; sines and arc tangents are off by a few units there.
        bench.compare(places, if size_of::<T>() == 4 { 1.5 } else { 1000.0 });
    }
    Ok(())
}

fn interpolate<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    const FIELDS: usize = 3;
    for lattice in lattices() {
        let points = lattice.rows * lattice.columns;
        for limited in [false, true] {
            let [places, from, to] = bench.slots([2 * points, FIELDS * points, FIELDS * points])?;
            let far: Vec<f64> =
                super::noise(2 * points, 7, bench.precision.bits).iter().map(|x| held(5.0 * x)).collect();
            bench.upload(places, &far);
            bench.upload(places.part(8, 2), &[f64::NAN; 2]);
            bench.device.interpolate(&Interpolation { lattice: lattice.clone(), places, from, to, limited });
            // Sixteen products of numbers and rounded weights.
            bench.compare(to, 12.0);
        }
    }
    Ok(())
}

fn sum<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for [rows, columns] in SHAPES {
        let image = |halo: usize| (rows + 2 * halo) * (columns + 2 * halo);
        for (keep, count) in [(0.0, 4), (1.0, 1), (-0.7, 2), (0.0, 0), (1.0, 3)] {
            let [y, a, b, c, by_row, by_point] =
                bench.slots([image(1), image(0), image(1), image(2), rows, image(0)])?;
            if keep == 0.0 {
                bench.upload(y.part(columns + 3, 1), &[f64::NAN]);
            }
            let terms = [
                Term::new(Image::plain(a), 0.3).times(by_point),
                Term::new(Image::padded(b), -1.7).times(by_row),
                Term::new(Image { slot: c, halo: 2 }, 1.0),
                Term::new(Image::plain(a), 0.9),
            ];
            bench.device.sum(&Sum { rows, columns, y: Image::padded(y), keep, terms: &terms[..count] });
            bench.compare(y, 8.0);
        }
    }
    Ok(())
}

fn jacobian<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for [rows, columns] in SHAPES {
        let padded = (rows + 2) * (columns + 2);
        let [p, q, table, k] =
            bench.slots([padded, padded, Jacobian::MEASURES * (rows + 2), rows * columns])?;
        bench.device.jacobian(&Jacobian { rows, columns, p, q, table, diffusion: 0.1, k });
        // Two dozen products, which cancel in part.
        bench.compare(k, 20.0);
    }
    Ok(())
}

/// Filters from none to one that leaves the mean alone.
fn smoothing<T: Real>(bench: &mut Bench<'_, T>, [rows, columns]: [usize; 2], halo: usize) -> Result<()> {
    let [x, filters] = bench.slots([(rows + 2 * halo) * (columns + 2 * halo), 2 * rows])?;
    let z: Vec<f64> = (0..rows)
        .flat_map(|j| Filter::bounded_by(1.1 * 0.01_f64.powf(j as f64 / rows as f64)).z.map(held))
        .collect();
    bench.upload(filters, &z);
    bench.device.smooth_rows(&RowSmoothing { rows, columns, x: Image { slot: x, halo }, filters });
    // A few roundings in each of up to ten passes.
    bench.compare(x, 20.0);
    Ok(())
}

fn smooth_rows<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    SHAPES.into_iter().enumerate().try_for_each(|(halo, shape)| smoothing(bench, shape, halo))
}

fn smooth_wide_rows<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    smoothing(bench, WIDE, 1)
}
