//! The data room on small files that have what real archives have: gaps, repeated days, holes, other grids, sums.

use std::path::Path;
use std::sync::Arc;

use wxsim::config::{DataConfig, InputConfig};
use wxsim::error::{Error, chain};
use wxsim::preprocess::{Batch, Catalogue, Inputs, InputsPlan, Loader, LoaderPlan, Normalizer, Share};
use wxsim::time::{Calendar, ValidTime};

const ROWS: usize = 4;
const COLUMNS: usize = 5;

/// A file to be written: dates in hours since 2000-01-01.
struct Field<'a> {
    name: &'a str,
    units: &'a str,
    cell_methods: Option<&'a str>,
    hours: Vec<i32>,
    first_latitude: f64,
    value: &'a dyn Fn(i32, usize) -> f32,
}

impl Field<'_> {
    fn write(&self, path: &Path) {
        let mut file = netcdf::create_with(path, netcdf::Options::_64BIT_OFFSET).unwrap();
        let hours = &self.hours;
        for (name, length) in [("time", hours.len()), ("latitude", ROWS), ("longitude", COLUMNS)] {
            file.add_dimension(name, length).unwrap();
        }
        let mut time = file.add_variable::<i32>("time", &["time"]).unwrap();
        time.put_attribute("units", "hours since 2000-01-01").unwrap();
        let mut latitude = file.add_variable::<f64>("latitude", &["latitude"]).unwrap();
        latitude.put_attribute("units", "degrees_north").unwrap();
        let mut longitude = file.add_variable::<f64>("longitude", &["longitude"]).unwrap();
        longitude.put_attribute("units", "degrees_east").unwrap();
        let mut field = file.add_variable::<f32>(self.name, &["time", "latitude", "longitude"]).unwrap();
        field.put_attribute("units", self.units).unwrap();
        if let Some(methods) = self.cell_methods {
            field.put_attribute("cell_methods", methods).unwrap();
        }
        file.enddef().unwrap();
        let put = |file: &mut netcdf::FileMut, name: &str, values: &[f64]| {
            file.variable_mut(name).unwrap().put_values(values, ..).unwrap();
        };
        put(&mut file, "time", &hours.iter().map(|h| f64::from(*h)).collect::<Vec<_>>());
        put(&mut file, "latitude", &(0..ROWS).map(|j| self.first_latitude + j as f64).collect::<Vec<_>>());
        put(&mut file, "longitude", &(0..COLUMNS).map(|i| 10.0 + i as f64).collect::<Vec<_>>());
        let values: Vec<f32> =
            hours.iter().flat_map(|h| (0..ROWS * COLUMNS).map(|i| (self.value)(*h, i))).collect();
        file.variable_mut(self.name).unwrap().put_values(&values, ..).unwrap();
    }
}

fn weather(hour: i32, point: usize) -> f32 {
    280.0 + (hour as f32 * 0.37).sin() * 5.0 + point as f32 * 0.1
}

fn t2m(hours: Vec<i32>) -> Field<'static> {
    Field { name: "t2m", units: "K", cell_methods: None, hours, first_latitude: 40.0, value: &weather }
}

fn six_hourly(count: i32) -> Vec<i32> {
    (0..count).map(|k| 6 * k).collect()
}

fn at(hours: i64) -> ValidTime {
    let start = ValidTime::parse("2000-01-01", Calendar::Standard).unwrap();
    ValidTime::new(start.seconds + hours * 3600, start.calendar)
}

/// A configuration on `folder`; a day of training and one of validation and more, six-hourly.
fn build(folder: &Path, more: &str) -> Result<Arc<Catalogue>, Error> {
    let source =
        if more.contains("sources") { "" } else { "sources = [{ glob = \"*.nc\", variable = \"t2m\" }]" };
    let step = if more.contains("step = \"") { "" } else { "step = \"6h\"" };
    let split =
        "split.train = [\"2000-01-01\", \"2000-01-06\"]\nsplit.validation = [\"2000-01-06\", \"2000-01-08\"]";
    let text = format!("root = \"{}\"\n{step}\n{source}\n{split}\n{more}", folder.display());
    Catalogue::build(&toml::from_str::<DataConfig>(&text).unwrap().plan()?)
}

fn refusal(folder: &Path, more: &str) -> String {
    let error = build(folder, more).err().expect("this must be refused");
    format!("{} | {}", chain(&error), error.advice().unwrap_or(""))
}

fn normalizer(catalogue: &Arc<Catalogue>, input: &str) -> Result<Arc<Normalizer>, Error> {
    let input: InputConfig = toml::from_str(&format!("anomalies = false\n{input}")).unwrap();
    Ok(Arc::new(Normalizer::fit(&catalogue.training()?, &input.normalizer()?)?))
}

fn loader(catalogue: &Arc<Catalogue>, memory: usize) -> Result<Loader, Error> {
    let normalizer = normalizer(catalogue, "")?;
    let inputs = Arc::new(Inputs::new(catalogue.layout().clone(), &InputsPlan::default())?);
    let plan = LoaderPlan {
        input_frames: 1,
        lead_steps: 2,
        batch: 1,
        seed: 1,
        threads: 1,
        memory,
        share: Share::ALL,
        rotate: false,
    };
    Loader::new(&catalogue.training()?, normalizer, inputs, &plan)
}

/// An epoch of batches.
fn epoch(catalogue: &Arc<Catalogue>, memory: usize) -> Result<Vec<Batch>, Error> {
    let mut loader = loader(catalogue, memory)?;
    let count = loader.batches_per_epoch() as usize;
    loader.by_ref().take(count).collect()
}

#[test]
fn files_join_in_time_and_repeated_dates_need_a_decision() {
    let folder = tempfile::tempdir().unwrap();
    t2m(six_hourly(20)).write(&folder.path().join("a.nc"));
    let later = |hour: i32, _: usize| hour as f32 + 200.0;
    let second = Field { value: &later, ..t2m(six_hourly(33)[19..].to_vec()) };
    second.write(&folder.path().join("b.nc"));
    let text = refusal(folder.path(), "");
    for part in ["2000-01-05T18:00Z", "a.nc", "b.nc", "duplicates"] {
        assert!(text.contains(part), "{text}");
    }
    for (choice, expected) in [("first", weather(114, 0)), ("last", 314.0)] {
        let catalogue = build(folder.path(), &format!("duplicates = \"{choice}\"")).unwrap();
        assert_eq!(catalogue.times().len(), 33);
        assert_eq!(catalogue.read(at(114)).unwrap().values[[0, 0, 0]], expected, "{choice}");
        assert_eq!(catalogue.read(at(120)).unwrap().values[[0, 0, 0]], 320.0);
    }
    let before = build(folder.path(), "duplicates = \"first\"").unwrap().fingerprint().to_string();
    second.write(&folder.path().join("c.nc"));
    assert_ne!(build(folder.path(), "duplicates = \"first\"").unwrap().fingerprint(), before);
}

#[test]
fn missing_dates_are_refused_bridged_or_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut hours = six_hourly(33);
    hours.retain(|h| ![24, 30, 60].contains(h));
    t2m(hours).write(&folder.path().join("a.nc"));
    let text = refusal(folder.path(), "");
    assert!(
        text.contains("2000-01-02T00:00Z to 2000-01-02T06:00Z (2)") && text.contains("2000-01-03T12:00Z"),
        "{text}"
    );
    assert!(text.contains("interpolate") && text.contains("t2m"), "{text}");

    let skip = build(folder.path(), "missing = \"skip\"").unwrap();
    assert_eq!(skip.gaps().len(), 2);
    // stretches of 4, 4 and 9 dates: 2 + 2 + 7 windows of three
    for memory in [0, usize::MAX] {
        assert_eq!(epoch(&skip, memory).unwrap().len(), 11);
    }
    let bridged = build(folder.path(), "missing = \"interpolate\"").unwrap();
    let batches = epoch(&bridged, 0).unwrap();
    assert_eq!(batches.len(), 18);
    let window = batches.iter().find(|b| b.init[0].0 == at(18)).unwrap();
    let normalizer = normalizer(&bridged, "").unwrap();
    let state = normalizer.unnormalize(&window.frames[20..40], at(24)).unwrap();
    let expected = (2.0 * weather(18, 7) + weather(36, 7)) / 3.0;
    assert!((state.values[[1, 2, 0]] - expected).abs() < 1e-4); // a few float32 roundings of 280
}

#[test]
fn holes_in_a_field_are_found_on_reading_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let holed =
        |hour: i32, point: usize| if hour == 48 && point == 7 { f32::NAN } else { weather(hour, point) };
    Field { value: &holed, ..t2m(six_hourly(33)) }.write(&folder.path().join("a.nc"));
    for memory in [0, usize::MAX] {
        let error = epoch(&build(folder.path(), "").unwrap(), memory).unwrap_err();
        let text = chain(&error);
        assert!(
            text.contains("t2m at 2000-01-03T00:00Z is missing at 1 of 20 points (first at 41 N, 12 E)"),
            "{text}"
        );
        let skip = epoch(&build(folder.path(), "missing = \"skip\"").unwrap(), memory).unwrap();
        assert_eq!(skip.len(), 18 - 3);
        let bridged = epoch(&build(folder.path(), "missing = \"interpolate\"").unwrap(), memory).unwrap();
        assert_eq!(bridged.len(), 18);
        assert!(bridged.iter().chain(&skip).flat_map(|b| &b.frames).all(|x| x.is_finite()));
    }
    // A hole at the end of training cannot be bridged by what comes after the span.
    let last =
        |hour: i32, point: usize| if hour == 114 && point == 7 { f32::NAN } else { weather(hour, point) };
    Field { value: &last, ..t2m(six_hourly(33)) }.write(&folder.path().join("a.nc"));
    let error = epoch(&build(folder.path(), "missing = \"interpolate\"").unwrap(), 0).unwrap_err();
    assert!(error.advice().unwrap().contains("skip"), "{}", chain(&error));
}

#[test]
fn points_that_are_always_missing_are_masked() {
    let folder = tempfile::tempdir().unwrap();
    let sea = |hour: i32, point: usize| if point.is_multiple_of(5) { f32::NAN } else { weather(hour, point) };
    Field { value: &sea, ..t2m(six_hourly(33)) }.write(&folder.path().join("a.nc"));
    let catalogue = build(folder.path(), "").unwrap();
    let batches = epoch(&catalogue, 0).unwrap();
    assert_eq!(batches.len(), 18);
    let mask = batches[0].mask.as_ref().unwrap();
    assert!(mask.iter().enumerate().all(|(i, &m)| m == if i % 5 == 0 { 0.0 } else { 1.0 }));
    assert!(batches[0].frames.iter().enumerate().all(|(i, &x)| x.is_finite() && (i % 5 != 0 || x == 0.0)));
    let normalizer = normalizer(&catalogue, "").unwrap();
    let state = normalizer.unnormalize(&batches[0].frames[..20], at(0)).unwrap();
    assert!(state.values.iter().enumerate().all(|(i, x)| x.is_nan() == (i % 5 == 0)));
    let again =
        Normalizer::from_tensors(catalogue.layout().clone(), &normalizer.card(), &normalizer.to_tensors());
    assert_eq!(again.unwrap(), *normalizer);
}

#[test]
fn grids_that_differ_are_refused_unless_they_are_brought_together() {
    let folder = tempfile::tempdir().unwrap();
    t2m(six_hourly(33)).write(&folder.path().join("t.nc"));
    let pressure = |hour: i32, point: usize| 1e5 + weather(hour, point);
    let other =
        Field { name: "msl", units: "Pa", first_latitude: 39.5, value: &pressure, ..t2m(six_hourly(33)) };
    other.write(&folder.path().join("p.nc"));
    let sources =
        "sources = [{ glob = \"t.nc\", variable = \"t2m\" }, { glob = \"p.nc\", variable = \"psl\" }]\n";
    let text = refusal(folder.path(), sources);
    assert!(
        text.contains("t.nc is 4 x 5, 40N..43N") && text.contains("p.nc is 4 x 5, 39.5N..42.5N"),
        "{text}"
    );
    let grid =
        "grid = { step = 1.0, south = 40.5, north = 42.5, west = 11.0, east = 13.0, method = \"bilinear\" }";
    let catalogue = build(folder.path(), &format!("{sources}{grid}")).unwrap();
    let state = catalogue.read(at(6)).unwrap();
    assert_eq!(state.values.dim(), (3, 3, 2));
    // bilinear between the rows of t2m, on the points of msl
    assert!((state.values[[0, 0, 0]] - (weather(6, 1) + weather(6, 6)) / 2.0).abs() < 1e-4);
    assert!((state.values[[0, 0, 1]] - pressure(6, 6)).abs() < 0.01);
    let order = format!("{sources}{grid}\nquantities = [\"msl\", \"t2m\"]");
    assert_eq!(build(folder.path(), &order).unwrap().layout().channel("msl").unwrap(), 0);
    assert!(refusal(folder.path(), &format!("{sources}quantities = [\"z500\"]")).contains("t2m, msl"));
    assert!(refusal(folder.path(), &format!("{sources}grid = {{ step = 5.0 }}")).contains("reaches beyond"));
}

#[test]
fn a_part_of_the_files_grid_keeps_its_points_and_their_values() {
    let folder = tempfile::tempdir().unwrap();
    t2m(six_hourly(33)).write(&folder.path().join("t.nc"));
    let part = |text: &str| format!("grid = {{ {text} }}");
    // Bounds off the points, and longitudes counted the other way around.
    let bounds = part("south = 40.6, north = 42, west = -349, east = -347");
    let catalogue = build(folder.path(), &bounds).unwrap();
    assert_eq!(catalogue.layout().grid.describe(), "2 x 3, 41N..42N, 11E..13E");
    let state = catalogue.read(at(6)).unwrap();
    for (point, value) in [(6, [0, 0, 0]), (8, [0, 2, 0]), (13, [1, 2, 0])] {
        // the weights of a conservative mean over the point's own cell sum up to 1 in float32
        assert!((state.values[value] - weather(6, point)).abs() < 1e-4, "{point}");
    }
    let none = refusal(folder.path(), &part("south = 10, north = 20, west = 0, east = 20"));
    assert!(none.contains("no points of 4 x 5, 40N..43N"), "{none}");
}

#[test]
fn sums_are_added_up_to_the_step_and_stay_non_negative_through_the_logarithm() {
    let folder = tempfile::tempdir().unwrap();
    let rain = |hour: i32, point: usize| ((hour * 7 + point as i32) % 13 - 8).max(0) as f32 * 1e-4;
    let hourly = Field { name: "tp", units: "m", value: &rain, ..t2m((0..193).collect()) };
    hourly.write(&folder.path().join("tp.nc"));
    let source = |more: &str| format!("sources = [{{ glob = \"tp.nc\", variable = \"tp\"{more} }}]");
    assert!(
        refusal(folder.path(), &source("")).contains("period"),
        "{}",
        refusal(folder.path(), &source(""))
    );
    assert!(refusal(folder.path(), &source(", period = \"4h\"")).contains("whole number"));
    let catalogue = build(folder.path(), &source(", period = \"1h\"")).unwrap();
    // the six hours before 2000-01-01T00 are not all there, and steps are counted from midnight
    assert_eq!(catalogue.times()[0], at(6));
    let valid = at(18);
    let expected: f32 = (0..6).map(|k| rain(18 - k, 3)).sum();
    assert!((catalogue.read(valid).unwrap().values[[0, 3, 0]] - expected).abs() < 1e-9);
    let normalizer = normalizer(&catalogue, "log = { tp = 1e-5 }").unwrap();
    let state = catalogue.read(valid).unwrap();
    let mut z = vec![0.0; 20];
    normalizer.normalize(&state, &mut z).unwrap();
    let back = normalizer.unnormalize(&z, valid).unwrap();
    for (x, y) in back.values.iter().zip(&state.values) {
        assert!((x - y).abs() <= 1e-5 * y + 1e-11, "{x} {y}"); // rounding of ln(1 + x / epsilon)
    }
    let dry = normalizer.unnormalize(&[-9.0; 20], valid).unwrap();
    assert!(dry.values.iter().all(|&x| x == 0.0));
}

#[test]
fn winds_keep_their_sign_and_wrong_units_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let wind = |hour: i32, point: usize| weather(hour, point) - 275.0;
    Field { name: "u10", units: "m s-1", value: &wind, ..t2m(six_hourly(33)) }
        .write(&folder.path().join("u.nc"));
    let source = "sources = [{ glob = \"u.nc\", variable = \"u10\" }]";
    let catalogue = build(folder.path(), source).unwrap();
    let normalizer = normalizer(&catalogue, "").unwrap();
    let state = catalogue.read(at(12)).unwrap();
    let mut turned = state.clone();
    turned.values.mapv_inplace(|x| -x);
    let (mut a, mut b) = (vec![0.0; 20], vec![0.0; 20]);
    normalizer.normalize(&state, &mut a).unwrap();
    normalizer.normalize(&turned, &mut b).unwrap();
    assert!(a.iter().zip(&b).all(|(a, b)| *a == -b));

    let celsius = |hour: i32, point: usize| weather(hour, point) - 273.15;
    Field { value: &celsius, ..t2m(six_hourly(33)) }.write(&folder.path().join("t.nc"));
    let source = |unit: &str| format!("sources = [{{ glob = \"t.nc\", variable = \"t2m\"{unit} }}]");
    let wrong = build(folder.path(), &source("")).unwrap();
    let error = self::normalizer(&wrong, "").unwrap_err();
    assert!(
        chain(&error).contains("the mean of t2m") && error.advice().unwrap().contains("unit"),
        "{}",
        chain(&error)
    );
    let right = build(folder.path(), &source(", unit = \"degC\"")).unwrap();
    assert!((right.read(at(0)).unwrap().values[[0, 0, 0]] - weather(0, 0)).abs() < 1e-4);
    assert!(self::normalizer(&right, "").is_ok());
}

#[test]
fn settings_that_do_not_fit_the_files_are_refused_with_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    t2m(six_hourly(33)).write(&folder.path().join("a.nc"));
    let source = |text: &str| format!("sources = [{{ glob = \"{text} }}]");
    for (more, parts) in [
        ("step = \"1h\"".to_string(), ["does not fit", "every 6h"]),
        ("step = \"7h\"".into(), ["does not fit", "every 6h"]),
        (source("b*.nc\", variable = \"t2m\""), ["no file matches", "b*.nc"]),
        (source("a.nc\", variable = \"msl\""), ["there is no variable 'msl'", "t2m"]),
        (source("a.nc\", variable = \"t2m\", level = [850, 500]"), ["lies on no pressure level", "t2m"]),
        (source("a.nc\", variable = \"t2m\", rename = \"t\", level = [850, 500]"), ["has no levels", "a.nc"]),
        ("split.test = [\"2000-01-08\", \"2000-02-01\"]".into(), ["split.test", "reaches beyond the files"]),
        ("split.test = [\"2003-01-08\", \"2003-02-01\"]".into(), ["split.test", "holds no date"]),
        ("calendar = \"noleap\"".into(), ["noleap", "standard"]),
    ] {
        let text = refusal(folder.path(), &more);
        assert!(parts.iter().all(|part| text.contains(part)), "{more}: {text}");
    }
    // Every other date, where the step is longer than that of the files.
    assert_eq!(build(folder.path(), "step = \"12h\"").unwrap().times().len(), 17);
    let error = build(folder.path(), "").unwrap().read(at(3)).unwrap_err();
    assert!(chain(&error).contains("no data at 2000-01-01T03:00Z"), "{}", chain(&error));
}

/// The part of an archive in NetCDF-4, packed into 16 bits and deflated.
fn write_packed(path: &Path, hours: &[i32], chunk: [usize; 3]) {
    let mut file = netcdf::create(path).unwrap();
    let hours: Vec<f64> = hours.iter().map(|h| f64::from(*h)).collect();
    let axes = [
        ("time", "hours since 2000-01-01", hours.clone()),
        ("latitude", "degrees_north", (0..ROWS).rev().map(|j| 40.0 + j as f64).collect()),
        ("longitude", "degrees_east", (0..COLUMNS).map(|i| 10.0 + i as f64).collect()),
    ];
    for (name, units, values) in axes {
        file.add_dimension(name, values.len()).unwrap();
        let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
        axis.put_attribute("units", units).unwrap();
        axis.put_values(&values, ..).unwrap();
    }
    let mut field = file.add_variable::<i16>("t2m", &["time", "latitude", "longitude"]).unwrap();
    field.set_chunking(&chunk).unwrap();
    field.set_compression(4, true).unwrap();
    field.put_attribute("units", "K").unwrap();
    field.put_attribute("scale_factor", 0.01).unwrap();
    field.put_attribute("add_offset", 280.0).unwrap();
    let stored: Vec<i16> =
        hours.iter().flat_map(|h| (0..ROWS * COLUMNS).map(|i| packed(*h as i64, i))).collect();
    field.put_values(&stored, ..).unwrap();
    file.close().unwrap();
}

/// The stored number at a point of the file, which counts rows from the north.
fn packed(hour: i64, point: usize) -> i16 {
    ((hour * 37).rem_euclid(501) - 250) as i16 + point as i16
}

#[test]
fn a_packed_archive_in_files_by_year_streams_the_same_in_and_out_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let hours: Vec<i32> = (-60..60).map(|k| 6 * k).collect();
    write_packed(&folder.path().join("t2m_1999.nc"), &hours[..60], [7, 2, 3]);
    write_packed(&folder.path().join("t2m_2000.nc"), &hours[60..], [1, ROWS, COLUMNS]);
    let text = format!(
        "root = \"{}\"\nstep = \"6h\"\nsources = [{{ glob = \"t2m_*.nc\", variable = \"t2m\" }}]\n\
         split.train = [\"1999-12-17\", \"2000-01-10\"]\nsplit.validation = [\"2000-01-10\", \"2000-01-15\"]",
        folder.path().display()
    );
    let catalogue = Catalogue::build(&toml::from_str::<DataConfig>(&text).unwrap().plan().unwrap()).unwrap();
    assert_eq!(catalogue.times().len(), 120);
    let dates: Vec<ValidTime> = hours.iter().map(|h| at(i64::from(*h))).collect();
    let states = catalogue.read_many(&dates).unwrap();
    for (state, &hour) in states.iter().zip(&hours) {
        assert_eq!(state.valid, at(i64::from(hour)));
        for ((row, column, _), &value) in state.values.indexed_iter() {
            let stored = packed(i64::from(hour), (ROWS - 1 - row) * COLUMNS + column);
            assert_eq!(value, (f64::from(stored) * 0.01 + 280.0) as f32, "hour {hour}, row {row}");
        }
        assert_eq!(state.values, catalogue.read(state.valid).unwrap().values);
    }
    let streamed = epoch(&catalogue, 0).unwrap();
    assert_eq!(streamed.len(), 15 * 4 + 9 * 4 - 2);
    assert!(streamed == epoch(&catalogue, usize::MAX).unwrap());
}
