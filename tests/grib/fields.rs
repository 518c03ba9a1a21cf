//! Grids, times, levels and quantities.

use wxsim::io::{GridKind, Reader, Severity};

use crate::messages::{Layout, Message, Product, SMALL, together};
use crate::{File, equal, field, northward, read, sentences, variable};

#[test]
fn every_scanning_mode_gives_the_same_field() {
    // The number at a point says where it is: 100 times the row from the south plus the column from the west.
    let (rows, columns) = (4_u32, 5_u32);
    let expected: Vec<Vec<u32>> = (0..rows).map(|j| (0..columns).map(|i| 100 * j + i).collect()).collect();
    for scanning in (0..16_u8).map(|bits| bits << 4) {
        let [westward, north, by_column, alternating] =
            [0x80, 0x40, 0x20, 0x10].map(|bit| scanning & bit != 0);
        let (south_edge, north_edge) = (30_000_000, 60_000_000);
        let (west, east) = (350_000_000, 30_000_000); // across Greenwich
        let (first_row, last_row) = if north { (south_edge, north_edge) } else { (north_edge, south_edge) };
        let (first_column, last_column) = if westward { (east, west) } else { (west, east) };
        let along = if by_column { rows } else { columns };
        let stored = (0..rows * columns)
            .map(|n| {
                let (line, mut at) = (n / along, n % along);
                if alternating && line % 2 == 1 {
                    at = along - 1 - at;
                }
                let (j, i) = if by_column { (at, line) } else { (line, at) };
                let j = if north { j } else { rows - 1 - j };
                100 * j + if westward { columns - 1 - i } else { i }
            })
            .collect();
        let layout =
            Layout { first: [first_row, first_column], last: [last_row, last_column], scanning, ..SMALL };
        let message = Message { layout, stored, ..Message::temperature(0) };
        let file = File::new(std::slice::from_ref(&message));
        let info = file.info();
        let t = variable(&info, "t");
        assert_eq!(t.grid.latitude, [30.0, 40.0, 50.0, 60.0], "{scanning:#b}");
        assert_eq!(t.grid.longitude, [-10.0, 0.0, 10.0, 20.0, 30.0], "{scanning:#b}");
        assert_eq!(t.orientation.latitude_descending, !north);
        assert!(equal(&read(&info, "t", 0, 0), &field(&message, &expected)), "{scanning:#b}");
        assert_eq!(sentences(&info, Severity::Warning), "");
    }
}

#[test]
fn times_and_levels_in_any_order_form_one_variable() {
    let mut messages = Vec::new();
    // Forecasts of two hours on two levels, the levels and the hours against the order of the file.
    for (n, (hours, level)) in [(12, 85_000), (6, 50_000), (12, 50_000), (6, 85_000)].into_iter().enumerate()
    {
        let product = Product::Moment { hours };
        let surface = (100, 0, level);
        messages.push(Message { product, surface, ..Message::temperature(100 * n as u32) });
    }
    // The pressure of 500 hPa, written with another scale.
    messages[1].surface = (100, 0x82, 500); // 500 * 10^2
    let file = File::new(&messages);
    let info = file.info();
    let t = variable(&info, "t");
    assert_eq!((t.quantity_name.as_str(), t.units.as_str()), ("t", "K"));
    assert_eq!(t.levels, [850.0, 500.0]);
    let times: Vec<String> = t.times.iter().map(|time| time.to_string()).collect();
    assert_eq!(times, ["2020-01-01T06:00Z", "2020-01-01T12:00Z"]);
    for (time, level, n) in [(0, 0, 3), (0, 1, 1), (1, 0, 0), (1, 1, 2)] {
        let expected = field(&messages[n], &northward(&messages[n].stored));
        assert!(equal(&read(&info, "t", time, level), &expected), "{time} {level}");
    }
    assert_eq!(info.forecast_reference_time.unwrap().to_string(), "2020-01-01T00:00Z");
    assert!(info.problems.is_empty(), "{:?}", info.problems);
    // Several times at once, in parallel, are the same.
    let mut both = vec![0.0; 40];
    Reader::open(&info).unwrap().read_many(t, 1, 0..2, &mut both).unwrap();
    assert!(equal(&both, &[read(&info, "t", 0, 1), read(&info, "t", 1, 1)].concat()));
}

#[test]
fn a_field_that_is_not_there_is_missing_and_one_that_comes_twice_is_named() {
    let at = |day, level, first| Message {
        reference: [2020, 1, day, 0],
        surface: (100, 0, level),
        ..Message::temperature(first)
    };
    let file = File::new(&[at(1, 85_000, 0), at(1, 50_000, 20), at(2, 85_000, 40)]);
    let info = file.info();
    assert!(read(&info, "t", 1, 1).iter().all(|x| x.is_nan()));
    assert!(!read(&info, "t", 1, 0)[0].is_nan());
    let warning = sentences(&info, Severity::Warning);
    assert!(
        warning.contains("'t' lacks 1 of 4 fields, the first on 500 hPa at 2020-01-02T00:00Z"),
        "{warning}"
    );

    let file = File::new(&[at(1, 50_000, 0), at(2, 50_000, 20), at(1, 50_000, 40)]);
    let info = file.info();
    let warning = sentences(&info, Severity::Warning);
    assert!(warning.contains("repeats 1 date, the first is 2020-01-01T00:00Z"), "{warning}");
    assert_eq!(variable(&info, "t").times.len(), 3);
    assert_eq!(read(&info, "t", 0, 0)[15], at(1, 0, 0).value(0), "the first of the file comes first");
    assert_eq!(read(&info, "t", 1, 0)[15], at(1, 0, 0).value(40));
}

#[test]
fn the_quantities_of_the_surface_are_known_by_height_and_kind() {
    let named = |parameter, surface, first| Message { parameter, surface, ..Message::temperature(first) };
    let file = File::new(&[
        named([0, 0], (103, 0, 2), 0),
        named([2, 2], (103, 0, 10), 20),
        named([2, 3], (103, 0, 10), 40),
        named([2, 2], (103, 0, 80), 60),
        named([3, 1], (101, 0, 0), 80),
        named([3, 0], (1, 0, 0), 100),
        named([3, 5], (100, 0, 50_000), 120),
        named([0, 0], (1, 0, 0), 140),
        named([19, 77], (1, 0, 0), 160),
        Message { discipline: 192, ..named([128, 34], (1, 0, 0), 180) },
    ]);
    let info = file.info();
    let known: Vec<(&str, &str)> =
        info.variables.iter().map(|v| (v.name.as_str(), v.quantity_name.as_str())).collect();
    let expected = [
        ("2t", "t2m"),
        ("10u", "u10"),
        ("10v", "v10"),
        ("u_80m", "u_80m"), // hub height is no 10 metre wind
        ("prmsl", "msl"),
        ("sp", "sp"),
        ("gh", "z"),
        ("t_surface", "t_surface"), // nor is the ground's temperature one on a level
        ("param_0_19_77_surface", "param_0_19_77_surface"),
        ("sst", "sst"),
    ];
    assert_eq!(known, expected);
    assert_eq!(variable(&info, "10u").height, Some(10.0));
    // Geopotential height in metres becomes geopotential.
    let height = f64::from(named([3, 5], (100, 0, 50_000), 0).value(120));
    let z = f64::from(read(&info, "gh", 0, 0)[15]);
    assert!((z / (height * 9.80665) - 1.0).abs() < 1e-6, "{z}"); // the rounding of float32
    assert_eq!(variable(&info, "gh").units, "m2 s-2");
}

#[test]
fn sums_and_means_state_their_period() {
    let rain = |code, from, to| Message {
        parameter: [1, 8],
        surface: (1, 0, 0),
        product: Product::Period { code, from, to },
        ..Message::temperature(0)
    };
    let info = File::new(&[rain(1, 0, 6), rain(1, 6, 12), rain(1, 12, 18)]).info();
    let tp = variable(&info, "tp");
    assert_eq!((tp.quantity_name.as_str(), tp.statistic.as_deref()), ("tp", Some("sum")));
    assert_eq!(tp.period.unwrap().to_string(), "6h");
    assert_eq!(tp.times[0].to_string(), "2020-01-01T06:00Z", "the end of the period");
    assert_eq!(tp.units, "m", "a kilogram of water on a square metre is a millimetre");

    // Both over six hours and since the start, as NCEP writes them.
    let info = File::new(&[rain(1, 6, 12), rain(1, 0, 12)]).info();
    let names: Vec<&str> = info.variables.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["tp_6h", "tp_12h"]);
    assert_eq!(variable(&info, "tp_12h").period.unwrap().to_string(), "12h");

    // Since the start of the forecast, as ECMWF writes it, with the zeros of the start itself.
    let info =
        File::new(&[rain(1, 0, 0), rain(1, 0, 3), rain(1, 0, 6), rain(1, 0, 9), rain(1, 0, 12)]).info();
    assert!(info.variables.is_empty());
    let refused = sentences(&info, Severity::Refused);
    assert!(refused.contains("over 4 different periods, from 3h to 12h: since the start"), "{refused}");
    assert!(refused.contains("cdo deltat"), "{refused}");

    let mean = Message { parameter: [0, 0], surface: (103, 0, 2), ..rain(0, 0, 24) };
    let warmest = Message { parameter: [0, 0], surface: (103, 0, 2), ..rain(2, 0, 24) };
    let info = File::new(&[mean, warmest]).info();
    assert_eq!(variable(&info, "2t").statistic.as_deref(), Some("mean"));
    assert_eq!(variable(&info, "2t").period.unwrap().to_string(), "1d");
    assert_eq!(variable(&info, "2t_max").quantity_name, "2t_max", "an extreme is another quantity");
}

#[test]
fn one_member_of_an_ensemble_is_read_and_several_are_refused() {
    let member =
        |number| Message { product: Product::Member { hours: 6, number }, ..Message::temperature(0) };
    let info = File::new(&[member(3)]).info();
    assert_eq!(variable(&info, "t").times[0].to_string(), "2020-01-01T06:00Z");
    let info = File::new(&[member(1), member(2), member(3)]).info();
    assert!(info.variables.is_empty());
    let refused = sentences(&info, Severity::Refused);
    assert!(refused.contains("'t' holds an ensemble of 3 members"), "{refused}");
}

#[test]
fn bitmaps_become_missing_values_also_where_a_field_repeats_one() {
    let bitmap: Vec<bool> = (0..20).map(|i| i % 3 != 1).collect();
    let there: Vec<u32> = (0..20).filter(|i| i % 3 != 1).collect();
    let first = Message { bitmap: Some(bitmap.clone()), stored: there.clone(), ..Message::temperature(0) };
    let warmer = there.iter().map(|x| x + 500).collect();
    let second = Message { surface: (100, 0, 85_000), stored: warmer, ..first.clone() };
    let whole = Message { surface: (100, 0, 70_000), ..Message::temperature(1000) };
    let file = File::of(&together(&[&first, &second, &whole]));
    let info = file.info();
    assert_eq!(variable(&info, "t").levels, [850.0, 700.0, 500.0]);
    for (level, more, holes) in [(2, 0, true), (0, 500, true), (1, 1000, false)] {
        let point = |i: usize| match holes && i % 3 == 1 {
            true => f32::NAN,
            false => first.value(i as u32 + more),
        };
        let expected: Vec<f32> =
            (0..4).rev().flat_map(|row| (0..5).map(move |c| 5 * row + c)).map(point).collect();
        assert!(equal(&read(&info, "t", 0, level), &expected), "{level}");
    }
    let nothing = Message { bitmap: Some(vec![false; 20]), stored: vec![], ..Message::temperature(0) };
    assert!(read(&File::new(&[nothing]).info(), "t", 0, 0).iter().all(|x| x.is_nan()));
}

#[test]
fn gaussian_rows_are_those_of_their_number_of_parallels() {
    // Half of the rows of N32: its northernmost are 87.864, 85.097, ... degrees (ECMWF's list).
    let layout = Layout {
        template: 40,
        columns: 2,
        rows: 3,
        first: [85_096_527, 0],
        last: [79_525_607, 5_625_000],
        steps: [5_625_000, 32],
        scanning: 0,
    };
    let message = Message { layout, stored: (0..6).collect(), ..Message::temperature(0) };
    let info = File::new(std::slice::from_ref(&message)).info();
    let latitude = &variable(&info, "t").grid.latitude;
    for (read, published) in latitude.iter().zip([79.5256, 82.3129, 85.0965]) {
        assert!((read - published).abs() < 1e-4, "{latitude:?}"); // the published digits
    }
    assert_eq!(read(&info, "t", 0, 0)[4], message.value(0));
    let whole = Layout { rows: 64, first: [87_863_799, 0], last: [-87_863_799, 5_625_000], ..layout };
    let info =
        File::new(&[Message { layout: whole, stored: vec![7; 128], ..Message::temperature(0) }]).info();
    assert_eq!(variable(&info, "t").grid_kind, GridKind::Gaussian);
}
