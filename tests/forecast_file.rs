//! Forecast files: what they hold, in which order, and that nothing half-written keeps a name.

use std::path::Path;
use std::sync::Arc;

use wxsim::field::{Layout, State};
use wxsim::grid::{Grid, Orientation};
use wxsim::io::Linear;
use wxsim::io::forecast_file::{FileUnits, ForecastFile, ForecastHead, open};
use wxsim::time::{Calendar, InitTime, LeadTime, ValidTime, valid_time};
use wxsim::variable::Quantity;

fn head(labels: &[&str]) -> ForecastHead {
    let grid = Grid::new(vec![30.0, 45.0, 60.0], vec![-10.0, 0.0, 10.0, 20.0]).unwrap();
    let quantities = labels.iter().map(|label| Quantity::parse(label)).collect();
    ForecastHead {
        layout: Arc::new(Layout { grid, quantities }),
        orientation: Orientation { latitude_descending: true, longitude_shift: 0, longitude_signed: true },
        units: Vec::new(),
        init: InitTime(ValidTime::parse("2008-10-19T12", Calendar::Standard).unwrap()),
        step: LeadTime::from_hours(24),
        steps: 2,
        model: "convlstm".into(),
        origin: "runs/europe".into(),
        history: "wxsim forecast".into(),
    }
}

/// Every value says where it belongs: channel, row and column, and the step.
fn state(head: &ForecastHead, step: usize) -> State {
    let mut state = State::missing(head.layout.clone(), valid_time(head.init, head.step.times(step)));
    for ((row, column, channel), value) in state.values.indexed_iter_mut() {
        *value = (1000 * channel + 100 * step + 10 * row + column) as f32;
    }
    state.values[[1, 1, 0]] = f32::NAN;
    state
}

fn write(folder: &Path, head: &ForecastHead) -> std::path::PathBuf {
    let mut file = ForecastFile::create(folder, head).unwrap();
    for step in 0..=head.steps {
        assert_eq!(files(folder).iter().filter(|name| name.ends_with(".nc")).count(), 0);
        file.write(&state(head, step)).unwrap();
    }
    file.finish().unwrap()
}

fn files(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn text(variable: &netcdf::Variable, name: &str) -> String {
    String::try_from(variable.attribute_value(name).unwrap().unwrap()).unwrap()
}

#[test]
fn a_forecast_repeats_rows_columns_and_levels_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut head = head(&["z@500", "msl", "t850", "z850"]);
    head.orientation.longitude_shift = 1;
    head.orientation.longitude_signed = false;
    let path = write(folder.path(), &head);
    assert_eq!(files(folder.path()), ["20081019T1200.nc"]);

    let file = netcdf::open(&path).unwrap();
    let z = file.variable("z").unwrap();
    let names: Vec<String> = z.dimensions().iter().map(netcdf::Dimension::name).collect();
    assert_eq!(names, ["time", "level", "latitude", "longitude"]);
    let levels = |name: &str| file.variable(name).unwrap().get_values::<f64, _>(..).unwrap();
    // z and t have different levels: each set has a dimension of its own.
    assert_eq!((levels("level"), levels("level_2")), (vec![850.0, 500.0], vec![850.0]));
    assert_eq!(levels("latitude"), [60.0, 45.0, 30.0]);
    assert_eq!(levels("longitude"), [0.0, 10.0, 20.0, 350.0]);
    // z850 is channel 3; file row 0 is row 2 inside, file column 0 is column 1 inside.
    let values = z.get_values::<f32, _>((1, 0, .., ..)).unwrap();
    assert_eq!(values[..4], [3121.0, 3122.0, 3123.0, 3120.0]);
    let z500 = z.get_values::<f32, _>((0, 1, 1, ..)).unwrap();
    assert!(z500[0].is_nan() && z500[1] == 12.0);
    assert!(z.fill_value::<f32>().unwrap().unwrap().is_nan());
    let msl = file.variable("msl").unwrap();
    assert_eq!(msl.dimensions().len(), 3);
    assert_eq!(text(&msl, "standard_name"), "air_pressure_at_mean_sea_level");
}

#[test]
fn times_keep_their_calendar_and_sums_have_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let mut head = head(&["tp", "t2m"]);
    head.init = InitTime(ValidTime::parse("2001-02-30T06", Calendar::Day360).unwrap());
    head.step = LeadTime { seconds: 5400 };
    let path = write(folder.path(), &head);
    assert!(path.ends_with("20010230T0600.nc"));

    let file = netcdf::open(&path).unwrap();
    let time = file.variable("time").unwrap();
    assert_eq!(text(&time, "calendar"), "360_day");
    assert_eq!(text(&time, "units"), "seconds since 1970-01-01 00:00:00");
    let init = head.init.0.seconds as f64;
    assert_eq!(time.get_values::<f64, _>(..).unwrap(), [init, init + 5400.0, init + 10_800.0]);
    let lead = file.variable("lead_time").unwrap();
    assert_eq!(lead.get_values::<f64, _>(..).unwrap(), [0.0, 1.5, 3.0]);
    let bounds = file.variable("time_bnds").unwrap().get_values::<f64, _>((1, ..)).unwrap();
    assert_eq!(bounds, [init, init + 5400.0]);
    assert_eq!(text(&file.variable("tp").unwrap(), "cell_methods"), "time: sum");
    assert_eq!(text(&file.variable("t2m").unwrap(), "cell_methods"), "time: point");
}

#[test]
fn a_forecast_repeats_the_units_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut head = head(&["msl", "z500"]);
    let units =
        |units: &str, factor| FileUnits { units: units.into(), conversion: Linear { factor, offset: 0.0 } };
    head.units = vec![units("hPa", 100.0), units("gpm", 9.80665)];
    let file = netcdf::open(write(folder.path(), &head)).unwrap();
    let msl = file.variable("msl").unwrap();
    assert_eq!(text(&msl, "units"), "hPa");
    assert_eq!(msl.get_value::<f32, _>([2, 0, 0]).unwrap(), 2.2);
    assert_eq!(text(&file.variable("z").unwrap(), "standard_name"), "geopotential_height");
}

#[test]
fn one_name_with_and_without_a_level_stays_apart() {
    let folder = tempfile::tempdir().unwrap();
    let head = head(&["t", "t850", "level", "time"]);
    let file = netcdf::open(write(folder.path(), &head)).unwrap();
    for (name, dimensions, channel) in
        [("t", 3, 0), ("t_2", 4, 1), ("field_level", 3, 2), ("field_time", 3, 3)]
    {
        let variable = file.variable(name).unwrap();
        assert_eq!(variable.dimensions().len(), dimensions, "{name}");
        let last = variable.get_values::<f32, _>(..).unwrap();
        assert_eq!(last[last.len() - 1], (1000 * channel + 203) as f32, "{name}");
    }
}

#[test]
fn an_unfinished_forecast_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let head = head(&["msl"]);
    let mut file = ForecastFile::create(folder.path(), &head).unwrap();
    file.write(&state(&head, 0)).unwrap();
    assert!(file.write(&state(&head, 2)).is_err(), "a step is left out");
    assert!(file.finish().is_err());
    drop(ForecastFile::create(folder.path(), &head).unwrap());
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[test]
fn a_forecast_reads_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut head = head(&["z500", "msl", "t850", "z850"]);
    // Across Greenwich without negative longitudes: 350, 360, 370, 380 in the file.
    head.orientation.longitude_signed = false;
    head.units = ["m2 s-2", "hPa", "K", "m2 s-2"]
        .map(|units| {
            let factor = if units == "hPa" { 100.0 } else { 1.0 };
            FileUnits { units: units.into(), conversion: Linear { factor, offset: 0.0 } }
        })
        .to_vec();
    let mut forecast = open(&write(folder.path(), &head)).unwrap();
    assert_eq!(forecast.init(), head.init);
    let leads: Vec<LeadTime> = (0..=head.steps).map(|n| head.step.times(n)).collect();
    assert_eq!(forecast.leads(), leads);
    let layout = forecast.layout().clone();
    assert!(layout.grid.matches(&head.layout.grid), "{}", layout.grid.describe());
    assert_eq!(layout.channels(), 4);
    for step in 0..=head.steps {
        let (written, read) = (state(&head, step), forecast.read(step).unwrap());
        assert_eq!(read.valid, written.valid);
        for quantity in &head.layout.quantities {
            let label = quantity.to_string();
            let written = written.channel(head.layout.channel(&label).unwrap());
            let read = read.channel(layout.channel(&label).unwrap());
            // hPa and back costs a rounding each way; other units cost nothing.
            let close = |a: f32, b: f32| {
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 2.0 * f32::EPSILON * a.abs()
            };
            assert!(written.iter().zip(&read).all(|(&a, &b)| close(a, b)), "{label} at step {step}");
        }
    }
    assert!(forecast.read(3).is_err());
}
