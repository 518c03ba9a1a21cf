//! Small files that break or stretch the conventions, each read to the one right answer. They are written by the
//! NetCDF library as 64-bit-offset files and read by our own code.

use std::path::Path;

use wxsim::io::{FileInfo, Reader, Role, inspect_file};

/// A coordinate: name, units, values.
type Axis<'a> = (&'a str, &'a str, Vec<f64>);

/// Writes a file with the axes and whatever `fill` adds, and inspects it.
fn file(folder: &Path, axes: &[Axis], fill: impl FnOnce(&mut netcdf::FileMut)) -> FileInfo {
    let path = folder.join("messy.nc");
    let mut file = netcdf::create_with(&path, netcdf::Options::_64BIT_OFFSET).unwrap();
    for (name, units, values) in axes {
        file.add_dimension(name, values.len()).unwrap();
        let mut variable = file.add_variable::<f64>(name, &[name]).unwrap();
        if !units.is_empty() {
            variable.put_attribute("units", *units).unwrap();
        }
        file.enddef().unwrap();
        file.variable_mut(name).unwrap().put_values(values, ..).unwrap();
        file.redef().unwrap();
    }
    fill(&mut file);
    drop(file);
    inspect_file(&path).unwrap()
}

fn field(info: &FileInfo, name: &str, time: usize, level: usize) -> Vec<f32> {
    let variable = info.variable(name).unwrap_or_else(|| panic!("{:?}", info.problems));
    let mut out = vec![0.0; variable.grid.points()];
    Reader::open(info).unwrap().read(variable, time, level, &mut out).unwrap();
    out
}

fn put<T: netcdf::NcTypeDescriptor + Copy>(
    file: &mut netcdf::FileMut,
    name: &str,
    dimensions: &[&str],
    texts: &[(&str, &str)],
    numbers: &[(&str, netcdf::AttributeValue)],
    values: &[T],
) {
    let mut variable = file.add_variable::<T>(name, dimensions).unwrap();
    for (attribute, text) in texts {
        variable.put_attribute(attribute, *text).unwrap();
    }
    for (attribute, value) in numbers {
        variable.put_attribute(attribute, value.clone()).unwrap();
    }
    file.enddef().unwrap();
    file.variable_mut(name).unwrap().put_values(values, ..).unwrap();
    file.redef().unwrap();
}

const NORTH: &str = "degrees_north";
const EAST: &str = "degrees_east";
const HOURS: &str = "hours since 2020-01-01";

#[test]
fn era5_and_era5t_are_merged_along_expver() {
    let folder = tempfile::tempdir().unwrap();
    let axes = [
        ("longitude", EAST, vec![0.0, 1.0]),
        ("latitude", NORTH, vec![10.0]),
        ("expver", "", vec![1.0, 5.0]),
        ("time", HOURS, vec![0.0, 1.0]),
    ];
    let info = file(folder.path(), &axes, |file| {
        let values = [1.0_f32, 2.0, f32::NAN, f32::NAN, f32::NAN, f32::NAN, 3.0, 4.0];
        put(file, "msl", &["time", "expver", "latitude", "longitude"], &[("units", "Pa")], &[], &values);
    });
    assert!(info.variables[0].dimension(Role::Version).is_some());
    assert_eq!((field(&info, "msl", 0, 0), field(&info, "msl", 1, 0)), (vec![1.0, 2.0], vec![3.0, 4.0]));
}

#[test]
fn any_order_of_dimensions_gives_one_orientation() {
    let folder = tempfile::tempdir().unwrap();
    let axes = [
        ("lon", EAST, vec![-180.0, -90.0, 0.0, 90.0, 180.0]),
        ("plev", "Pa", vec![50_000.0, 85_000.0]),
        ("lat", NORTH, vec![45.0, -45.0]),
        ("time", HOURS, vec![0.0]),
    ];
    let info = file(folder.path(), &axes, |file| {
        // 100 * lon index + 10 * level index + latitude index
        let values: Vec<f64> = (0..20).map(|i| f64::from(100 * (i / 4) + 10 * (i / 2 % 2) + i % 2)).collect();
        put(file, "zg", &["lon", "plev", "lat", "time"], &[("units", "gpm")], &[], &values);
    });
    let variable = &info.variables[0];
    assert_eq!((variable.quantity_name.as_str(), variable.units.as_str()), ("z", "m2 s-2"));
    assert_eq!(variable.levels, [850.0, 500.0]);
    assert_eq!(variable.grid.longitude, [0.0, 90.0, 180.0, 270.0]);
    // 850 hPa is level index 1; south to north is latitude index 1, 0; Greenwich is longitude index 2.
    let expected = [211.0, 311.0, 11.0, 111.0, 210.0, 310.0, 10.0, 110.0];
    for (found, height) in field(&info, "zg", 0, 0).iter().zip(expected) {
        assert_eq!(*found, (height * 9.806_65) as f32);
    }
}

#[test]
fn unsigned_packing_fill_values_and_valid_ranges_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let axes = [("lon", EAST, vec![0.0, 1.0, 2.0, 3.0, 4.0]), ("lat", NORTH, vec![0.0])];
    let info = file(folder.path(), &axes, |file| {
        let texts = [("units", "degC"), ("_Unsigned", "true"), ("long_name", "2 metre temperature")];
        let numbers = [
            ("scale_factor", 0.5.into()),
            ("add_offset", (-50.0).into()),
            ("missing_value", vec![-1_i8, 7].into()),
            ("valid_range", vec![2_i8, -6].into()), // 2 to 250
        ];
        put(file, "temperature_2m", &["lat", "lon"], &texts, &numbers, &[100_i8, -56, -1, 7, -4]);
    });
    assert_eq!(info.variables[0].quantity_name, "t2m");
    let found = field(&info, "temperature_2m", 0, 0);
    assert_eq!(found[..2], [273.15, 323.15]); // 100 and 200, times 0.5, minus 50 degC
    assert!(found[2..].iter().all(|x| x.is_nan()), "{found:?}");
}

#[test]
fn scalar_coordinates_say_height_and_pressure() {
    let folder = tempfile::tempdir().unwrap();
    let axes = [("lon", EAST, vec![0.0, 1.0]), ("lat", NORTH, vec![0.0])];
    let info = file(folder.path(), &axes, |file| {
        put(file, "height", &[], &[("units", "m"), ("standard_name", "height")], &[], &[10.0]);
        put(file, "pressure", &[], &[("units", "hPa"), ("standard_name", "air_pressure")], &[], &[850.0]);
        put(file, "time", &[], &[("units", HOURS), ("standard_name", "time")], &[], &[6.0]);
        let wind = |coordinates| {
            [("units", "knots"), ("standard_name", "eastward_wind"), ("coordinates", coordinates)]
        };
        put(file, "near", &["lat", "lon"], &wind("height time"), &[], &[10.0_f32, 20.0]);
        put(file, "above", &["lat", "lon"], &wind("pressure time"), &[], &[10.0_f32, 20.0]);
    });
    let labels: Vec<String> = info.variables.iter().map(|v| v.quantity(0).to_string()).collect();
    assert_eq!(labels, ["u10", "u850"]);
    assert_eq!(info.variables[0].times[0].to_string(), "2020-01-01T06:00Z");
    assert_eq!(
        field(&info, "near", 0, 0),
        [(10.0 * 1852.0 / 3600.0) as f32, (20.0 * 1852.0 / 3600.0) as f32]
    );
}

#[test]
fn ensembles_and_units_that_do_not_fit_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let axes = [("number", "1", vec![0.0, 1.0]), ("lon", EAST, vec![0.0]), ("lat", NORTH, vec![0.0])];
    let info = file(folder.path(), &axes, |file| {
        put(file, "t2m", &["number", "lat", "lon"], &[("units", "K")], &[], &[1.0_f32, 2.0]);
        put(file, "msl", &["lat", "lon"], &[("units", "K")], &[], &[1.0_f32]);
    });
    let sentences: Vec<&str> = info.problems.iter().map(|p| p.sentence.as_str()).collect();
    assert!(
        sentences.iter().any(|s| s.contains("'t2m'") && s.contains("ensemble of 2 members")),
        "{sentences:?}"
    );
    assert!(sentences.iter().any(|s| s.contains("'msl'") && s.contains("does not fit")), "{sentences:?}");
}
