//! Forecast files: what they hold, in which order, and that nothing half-written keeps a name.

use std::path::Path;
use std::sync::Arc;

use wxsim::field::{Layout, State};
use wxsim::grid::{Grid, Orientation};
use wxsim::io::Linear;
use wxsim::io::forecast_file::{FileUnits, ForecastFile, ForecastHead, open};
use wxsim::io::zarr::ForecastStore;
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

fn write_store(folder: &Path, head: &ForecastHead) -> std::path::PathBuf {
    let mut store = ForecastStore::create(folder, head).unwrap();
    for step in 0..=head.steps {
        store.write(&state(head, step)).unwrap();
    }
    store.comment("start: cold");
    store.finish().unwrap()
}

fn of_a_store(path: &Path, name: &str) -> (Vec<u64>, Vec<f32>) {
    let storage = Arc::new(zarrs::filesystem::FilesystemStore::new(path).unwrap());
    let array = zarrs::array::Array::open(storage, &format!("/{name}")).unwrap();
    (array.shape().to_vec(), array.retrieve_array_subset(&array.subset_all()).unwrap())
}

#[test]
fn a_store_holds_the_numbers_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let head = head(&["z@500", "msl", "t850", "z850"]);
    let (file, store) = (write(folder.path(), &head), write_store(folder.path(), &head));
    assert_eq!(store.file_name().unwrap(), "20081019T1200.zarr");
    let file = netcdf::open(&file).unwrap();
    for name in ["z", "msl", "t"] {
        let variable = file.variable(name).unwrap();
        let shape: Vec<u64> = variable.dimensions().iter().map(|dimension| dimension.len() as u64).collect();
        let values: Vec<f32> = variable.get_values(..).unwrap();
        let (found, stored) = of_a_store(&store, name);
        assert_eq!(found, shape, "{name}");
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
        assert!(bits(stored) == bits(values), "{name}");
    }
    // A lead is a chunk, whatever the number of levels, and a bit that flips in it is seen.
    let chunk = store.join("z/c/1/0/0/0");
    let mut bytes = std::fs::read(&chunk).unwrap();
    let last = bytes.len() - 6;
    bytes[last] ^= 1;
    std::fs::write(&chunk, bytes).unwrap();
    let storage = Arc::new(zarrs::filesystem::FilesystemStore::new(&store).unwrap());
    let array = zarrs::array::Array::open(storage, "/z").unwrap();
    let read = array.retrieve_array_subset::<Vec<f32>>(&array.subset_all());
    assert!(read.is_err());
}

#[test]
fn a_store_is_there_when_it_is_whole_and_replaces_only_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let head = head(&["msl"]);
    let mut half = ForecastStore::create(folder.path(), &head).unwrap();
    half.write(&state(&head, 0)).unwrap();
    assert!(half.write(&state(&head, 2)).is_err(), "not the next");
    assert!(half.finish().is_err());
    assert!(files(folder.path()).is_empty());
    let whole = ForecastStore::create(folder.path(), &head).unwrap();
    assert!(files(folder.path())[0].starts_with('.'));
    drop(whole);
    assert!(files(folder.path()).is_empty());
    let store = write_store(folder.path(), &head);
    assert_eq!(write_store(folder.path(), &head), store);
    assert_eq!(files(folder.path()), ["20081019T1200.zarr"]);
    std::fs::remove_file(store.join("zarr.json")).unwrap();
    let error = ForecastStore::create(folder.path(), &head).err().unwrap();
    assert!(error.to_string().contains("has no zarr.json"), "{error}");
}

#[test]
fn xarray_reads_a_store_as_it_reads_the_file() {
    let python = match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) => std::path::PathBuf::from(environment).join("bin/python"),
        None => "python3".into(),
    };
    let run = |arguments: &[&std::ffi::OsStr]| std::process::Command::new(&python).args(arguments).output();
    let there = run(&["-c".as_ref(), "import netCDF4, xarray, zarr".as_ref()]);
    if !there.is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("WXSIM_REQUIRE_XARRAY").is_none(), "{} has no xarray", python.display());
        println!("SKIPPED: {} has not all of the packages netCDF4, xarray, zarr", python.display());
        return;
    }
    // Equal in every name, attribute and coordinate, and in every bit of the data.
    let script = "
import sys, warnings
import xarray
warnings.simplefilter('error')
file = xarray.open_dataset(sys.argv[1])
store = xarray.open_zarr(sys.argv[2], consolidated=True).load()
del file.attrs['history'], store.attrs['history']
assert store.attrs.pop('comment') == 'start: cold'
xarray.testing.assert_identical(file, store)
for name in file.data_vars:
    one, other = file[name].values, store[name].values
    assert one.dtype == other.dtype and one.tobytes() == other.tobytes(), name
print(len(file.data_vars))
";
    let folder = tempfile::tempdir().unwrap();
    let head = head(&["z@500", "msl", "t850", "z850", "tp"]);
    let (file, store) = (write(folder.path(), &head), write_store(folder.path(), &head));
    let output = run(&["-c".as_ref(), script.as_ref(), file.as_ref(), store.as_ref()]).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "5", "z, msl, t, tp and the bounds of time");
}
