//! Every file of `../shared/data`: what is read from it, or with which words it is refused, and why.
//!
//! Values were read by netCDF4-python (`tests/reference/odd_files.py`), except those that the data's README gives and that
//! of the GRIB file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wxsim::error::{self, Error};
use wxsim::io::{FileInfo, GridKind, Reader, Severity, inspect_file};

/// One value of a field: (index in time, level in hPa or 0, latitude, longitude, value in SI units).
type Value = (usize, f64, f64, f64, f64);

struct Field {
    file: &'static str,
    name: &'static str,
    quantity: &'static str,
    /// Times, levels, rows and columns.
    shape: [usize; 4],
    first: &'static str,
    last: &'static str,
    kind: GridKind,
    value: Value,
    /// Words that must stand among the file's problems; empty: it has none.
    problem: &'static str,
}

const G: GridKind = GridKind::Gaussian;
const R: GridKind = GridKind::Regular;
const MISSING: f64 = f64::NAN;

#[allow(clippy::too_many_arguments)]
const fn field(
    file: &'static str,
    name: &'static str,
    quantity: &'static str,
    shape: [usize; 4],
    [first, last]: [&'static str; 2],
    kind: GridKind,
    value: Value,
    problem: &'static str,
) -> Field {
    Field { file, name, quantity, shape, first, last, kind, value, problem }
}

const EUROPE: [&str; 2] = ["2000-01-01T12:00Z", "2010-12-31T12:00Z"];
const GLOBE: [&str; 2] = ["2026-03-25T00:00Z", "2026-03-27T02:00Z"];
const TL31: [&str; 2] = ["1959-01-02T00:00Z", "1959-01-02T00:00Z"];
const CDS: [&str; 2] = ["2020-01-01T00:00Z", "2020-01-01T03:00Z"];
const MODEL: [&str; 2] = ["2018-08-01T12:00Z", "2018-08-01T12:00Z"];
const NEVER: [&str; 2] = ["", ""];

#[rustfmt::skip]
const READ: &[Field] = &[
    // Packed int16, a record dimension, north to south, across Greenwich; the level only in the name.
    field("era-interim-europe/mslp_ei.nc", "msl", "msl", [4018, 0, 21, 24], EUROPE, R, (4017, 0.0, 49.5, 7.0, 102_682.236_699_449_13), ""),
    field("era-interim-europe/mslp_ei.nc", "msl", "msl", [4018, 0, 21, 24], EUROPE, R, (0, 0.0, 60.0, -20.0, 99_541.211), ""),
    field("era-interim-europe/mslp_ei.nc", "msl", "msl", [4018, 0, 21, 24], EUROPE, R, (4017, 0.0, 30.0, 14.5, 102_053.561), ""),
    field("era-interim-europe/t850_ei.nc", "t", "t", [4018, 0, 21, 24], EUROPE, R, (0, 0.0, 60.0, -20.0, 265.153_74), ""),
    field("era-interim-europe/z500_ei.nc", "z", "z", [4018, 0, 21, 24], EUROPE, R, (0, 0.0, 60.0, -20.0, 50_394.058), ""),
    field("era-interim-europe-2.5deg/mslp_ei.nc", "msl", "msl", [4018, 0, 11, 13], EUROPE, R, (4017, 0.0, 47.5, 7.5, 102_494.201_785_741_53), ""),
    field("era-interim-europe-2.5deg/t850_ei.nc", "t", "t", [4018, 0, 11, 13], EUROPE, R, (0, 0.0, 55.0, -15.0, 272.521_569_358_349_84), ""),
    field("era-interim-europe-2.5deg/z500_ei.nc", "z", "z", [4018, 0, 11, 13], EUROPE, R, (0, 0.0, 55.0, -15.0, 53_841.672_752_301_32), ""),
    // Steps of 7 and 8 hours; precipitation without a period.
    field("era5-global-1deg/era5_global_1deg_8steps.nc", "t2m", "t2m", [8, 0, 181, 360], GLOBE, R, (7, 0.0, 30.0, 270.0, 294.719_292_374_126_7), "gap in its steps of 7h"),
    field("era5-global-1deg/era5_global_1deg_8steps.nc", "tp", "tp", [8, 0, 181, 360], GLOBE, R, (7, 0.0, 30.0, 270.0, 0.0), "'tp' is accumulated"),
    // (level, longitude, latitude), levels without a unit, a time without a dimension.
    field("era5-tl31/era5_tl31_19590102T00.nc", "temperature", "t", [1, 37, 32, 64], TL31, G, (0, 1000.0, -30.457_553_961_152_094, 270.0, 290.721_740_722_656_25), "taken for hPa"),
    field("era5-tl31/era5_tl31_19590102T00.nc", "geopotential", "z", [1, 37, 32, 64], TL31, G, (0, 1000.0, -30.457_553_961_152_094, 270.0, 1_528.173_583_984_375), "taken for hPa"),
    field("era5-tl31/era5_tl31_19590102T00.nc", "sea_surface_temperature", "sst", [1, 0, 32, 64], TL31, G, (0, 0.0, -30.457_553_961_152_094, 270.0, 292.830_322_265_625), "taken for hPa"),
    // Time in float32 hours since 1800; longitudes 200..330; 'degK'; no _FillValue.
    field("ncep-air-6h/ncep_air_sig995_6h_2013-2014.nc", "air", "t", [2920, 0, 25, 53], ["2013-01-01T00:00Z", "2014-12-31T18:00Z"], R, (2919, 0.0, 55.0, 297.5, 243.09), ""),
    // The layout of the new Climate Data Store: valid_time, number, expver as strings.
    field("odd/era5_eastward_component_of_wind_2020-1.nc", "u10", "u10", [4, 0, 4, 4], CDS, R, (3, 0.0, 59.75, 0.75, 6.529_785_156_25), ""),
    field("odd/era5_northward_component_of_wind_2020-1.nc", "v10", "v10", [4, 0, 4, 4], CDS, R, (3, 0.0, 59.75, 0.75, 7.054_595_947_265_625), ""),
    field("odd/era5_total_precipitation_2020-1.nc", "mtpr", "mtpr", [4, 0, 4, 4], CDS, R, (3, 0.0, 59.75, 0.75, 9.536_743_164_062_5e-7), ""),
    field("odd/era5-land_air_temperature_2020-1.nc", "t2m", "t2m", [4, 0, 4, 4], CDS, R, (3, 0.0, 59.9, 0.3, MISSING), ""),
    field("odd/era5_10m_v_component_of_wind_2010-1.nc", "v10", "v10", [3, 0, 213, 213], ["2010-01-01T00:00Z", "2010-01-01T02:00Z"], R, (2, 0.0, 36.25, 42.75, -1.160_606_080_535_863_8), ""),
    // 'hours since 1900-01-01 00:00:0.0'
    field("odd/era_interim_tibet.nc", "t2m", "t2m", [4, 0, 55, 68], ["2012-06-01T00:00Z", "2012-06-01T18:00Z"], R, (3, 0.0, 36.75, 98.25, 280.737_842_213_055_56), ""),
    // No time, no unit: a mask by its long_name.
    field("odd/landsea.nc", "LSMASK", "lsm", [0, 0, 180, 360], NEVER, R, (0, 0.0, -29.5, 270.5, 0.0), ""),
    // (level, time, latitude, longitude) with the level -1 for "none".
    field("odd/met-ecmwf-sl.nc", "sp", "sp", [2, 0, 8, 15], ["2019-05-31T05:00Z", "2019-05-31T06:00Z"], R, (1, 0.0, 40.0, 275.0, 97_132.634_924_568_06), ""),
    // Levels in 'millibars'.
    field("odd/not_bad_control_test6.nc", "t", "t", [1, 2, 7, 12], MODEL, R, (0, 850.0, 30.0, 270.0, 288.539_209_851_289_74), ""),
    field("odd/not_bad_control_test6.nc", "u", "u", [1, 2, 7, 12], MODEL, R, (0, 850.0, 30.0, 270.0, 3.101_501_459_255_558_8), ""),
    field("odd/sub.nc", "u", "u", [10, 2, 9, 9], ["2017-08-20T01:00Z", "2017-08-20T10:00Z"], R, (9, 850.0, 51.25, 6.5, 8.141_247_432_766_31), ""),
    field("odd/test4.nc", "z", "z", [1, 2, 181, 360], ["2007-01-01T12:00Z", "2007-01-01T12:00Z"], R, (0, 850.0, 30.0, 270.0, 14_826.510_543_471_42), ""),
    field("odd/orog_mod1_rectilinear_grid_2D.nc", "orog", "orog", [0, 0, 96, 192], NEVER, G, (0, 0.0, -28.911_493_301_391_6, 270.0, -31.812_255_859_375), ""),
    field("odd/sftlf_mod1_rectilinear_grid_2D.nc", "sftlf", "lsm", [0, 0, 96, 192], NEVER, G, (0, 0.0, -28.911_493_301_391_6, 270.0, 0.0), ""),
    // Monthly means in a calendar without leap years, 2 m by a scalar height.
    field("odd/tas_Amon_CanESM2_rcp85_r1i1p1_200701-200712.nc", "tas", "t2m", [12, 0, 64, 128], ["2006-12-16T12:00Z", "2007-11-16T00:00Z"], G, (11, 0.0, -29.301_362_126_240_896, 270.0, 290.457_458_496_093_75), ""),
    // A daily maximum is no temperature of a moment: it keeps its name. 360-day calendar; a second field with a strange dimension.
    field("odd/tasmax_day_HadGEM2-CC_rcp85_r1i1p1_na10kgrid_qm-moving-50bins-detrend_2095.nc", "tasmax", "tasmax", [360, 0, 36, 36], ["2095-01-01T00:00Z", "2095-12-30T00:00Z"], R, (359, 0.0, 43.957_55, 287.287_47, 280.263_397_216_796_9), "dimension 'ts'"),
    // A date that comes twice; dates that are missing.
    field("odd/test_monotonic_coordinate.nc", "wind1", "u", [3, 0, 3, 3], ["1970-01-01T01:00Z", "1970-01-01T02:00Z"], R, (2, 0.0, 60.0, 30.0, 24.0), "'time1' repeats 1 date"),
    field("odd/test_monotonic_coordinate.nc", "wind2", "u", [2, 0, 3, 3], ["1970-01-01T01:00Z", "1970-01-01T02:00Z"], R, (1, 0.0, 50.0, 10.0, 10.0), "1 of 3 entries of 'time2'"),
    field("odd/vlstr_type.nc", "wind", "u", [150, 0, 1, 1], ["1970-01-01T00:00Z", "1970-01-07T05:00Z"], R, (149, 0.0, 50.0, 10.0, 1.0), ""),
    // GRIB2: one member of an ensemble, three days ahead; the value is that of ecCodes.
    field("odd/regular_ll_msl.grib", "prmsl", "msl", [1, 0, 181, 360], ["2006-10-07T00:00Z", "2006-10-07T00:00Z"], R, (0, 0.0, 30.0, 120.0, 101_369.0), ""),
];

/// Files without a usable field: words of the sentence, and of the remedy.
#[rustfmt::skip]
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("odd/git_lfs_pointer.nc", &["git-LFS pointer"], "git lfs pull"),
    ("odd/symlink_target_text.nc", &["symbolic link", "barotropic_vorticity.nc"], "fetch the file"),
    // A swath of a satellite, without latitudes.
    ("odd/issue672.nc", &["no field on a latitude-longitude grid", "azi_angle_trip(numRows, numCells, numSigma)"], "regrid"),
    ("odd/netcdf_dummy_file.nc", &["'time' has length 0"], "written to the end"),
    ("odd/ps.wrap.test.0E.nc", &["'ps' has no units", "Pa"], "unit ="),
    ("odd/rotated_pole.nc", &["rotated-pole grid"], "regrid"),
    // A climatology that counts months without a year.
    ("odd/sst30e_netcdf.nc", &["'sst'", "'Month'", "no date"], "hours since"),
    ("odd/uv300.nc", &["'U', 'V'", "'month'", "no date"], "hours since"),
    ("odd/test_stageiv_xyt_borked.nc", &["curvilinear grid", "lat(x, y)"], "regrid"),
    ("odd/tiny.nc", &["no field", "tiny(dim_0)"], "latitude"),
    ("odd/u.89335.1_subset_time361.nc", &["curvilinear grid", "lat(xcoord, ycoord)"], "regrid"),
    ("odd/ubyte.nc", &["no field", "ub(d)"], "latitude"),
    ("odd/units.nc", &["'wibble'", "no date"], "hours since"),
    ("odd/wrf_cropped_compressed.nc", &["curvilinear grid", "XLAT"], "regrid"),
    // Steps without a unit or a date.
    ("storm1996/Tstorm.cdf", &["'timestep'", "neither time"], "standard_name"),
    ("storm1996/U500storm.cdf", &["'timestep'", "neither time"], "standard_name"),
    ("storm1996/V500storm.cdf", &["'timestep'", "neither time"], "standard_name"),
];

/// The data folder, or `None` with a loud word.
fn data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: {} is absent, no real file was read", folder.display());
    None
}

fn inspect(folder: &Path, file: &str) -> Result<FileInfo, Error> {
    inspect_file(&folder.join(file))
}

#[test]
fn files_that_can_be_read_give_the_values_that_python_reads() {
    let Some(folder) = data() else { return };
    for row in READ {
        let what = format!("{} {}", row.file, row.name);
        let info = inspect(&folder, row.file).unwrap_or_else(|e| panic!("{what}: {}", error::chain(&e)));
        let variable = info.variable(row.name).unwrap_or_else(|| panic!("{what}: {:?}", info.problems));
        assert_eq!(variable.quantity_name, row.quantity, "{what}");
        let grid = &variable.grid;
        let shape = [variable.times.len(), variable.levels.len(), grid.rows(), grid.columns()];
        assert_eq!(shape, row.shape, "{what}");
        assert_eq!(variable.grid_kind, row.kind, "{what}");
        let date = |t: Option<&wxsim::time::ValidTime>| t.map(ToString::to_string).unwrap_or_default();
        assert_eq!(
            [date(variable.times.first()), date(variable.times.last())],
            [row.first, row.last],
            "{what}"
        );
        let (time, level, latitude, longitude, expected) = row.value;
        let near = |list: &[f64], x: f64| {
            list.iter()
                .position(|y| (x - y).abs() < 1e-5)
                .unwrap_or_else(|| panic!("{what}: no {x} in {list:?}"))
        };
        let level = if level == 0.0 { 0 } else { near(&variable.levels, level) };
        let at = near(&grid.latitude, latitude) * grid.columns() + near(&grid.longitude, longitude);
        let mut field = vec![0.0; grid.points()];
        let mut reader = Reader::open(&info).unwrap();
        reader
            .read(variable, time, level, &mut field)
            .unwrap_or_else(|e| panic!("{what}: {}", error::chain(&e)));
        let found = f64::from(field[at]);
        // README gives eight digits; a float32 holds seven.
        let close =
            (found - expected).abs() <= 2e-7 * expected.abs() || (found.is_nan() && expected.is_nan());
        assert!(close, "{what}: {found} instead of {expected}");
        let sentences: Vec<&str> = info.problems.iter().map(|p| p.sentence.as_str()).collect();
        let told = match row.problem {
            "" => sentences.is_empty(),
            words => sentences.iter().any(|s| s.contains(words)),
        };
        assert!(told, "{what}: '{}' in {sentences:?}", row.problem);
    }
}

#[test]
fn files_that_cannot_be_read_are_refused_with_the_reason_and_a_remedy() {
    let Some(folder) = data() else { return };
    for (file, words, remedy) in REFUSED {
        let (sentence, advice) = match inspect(&folder, file) {
            Err(error) => (error::chain(&error), error.advice().unwrap_or("").to_string()),
            Ok(info) => {
                assert!(info.variables.iter().all(|v| v.refused.is_some()), "{file} was read");
                let refused = info.problems.iter().find(|p| p.severity == Severity::Refused);
                refused.map(|p| (p.sentence.clone(), p.remedy.clone())).unwrap_or_default()
            }
        };
        for word in *words {
            assert!(sentence.contains(word), "{file}: '{word}' is not in '{sentence}'");
        }
        assert!(advice.contains(remedy), "{file}: '{remedy}' is not in '{advice}'");
    }
}

#[test]
fn every_file_of_the_folder_stands_in_one_of_the_tables() {
    let Some(folder) = data() else { return };
    let tables: BTreeSet<&str> = READ.iter().map(|f| f.file).chain(REFUSED.iter().map(|r| r.0)).collect();
    for folder_name in
        ["odd", "era-interim-europe", "era5-global-1deg", "era5-tl31", "ncep-air-6h", "storm1996"]
    {
        for entry in std::fs::read_dir(folder.join(folder_name)).unwrap() {
            let name = format!("{folder_name}/{}", entry.unwrap().file_name().to_string_lossy());
            assert!(tables.contains(name.as_str()), "{name} is in no table");
        }
    }
}

#[test]
fn a_unit_that_the_user_gives_makes_a_refused_field_readable() {
    let Some(folder) = data() else { return };
    let info = inspect(&folder, "odd/ps.wrap.test.0E.nc").unwrap();
    let mut variable = info.variables[0].clone();
    let mut reader = Reader::open(&info).unwrap();
    let mut field = vec![0.0; variable.grid.points()];
    assert!(reader.read(&variable, 0, 0, &mut field).is_err());
    variable.assume(None, Some("hPa"), None).unwrap();
    reader.read(&variable, 0, 0, &mut field).unwrap();
    let (row, column) = (15, 54); // 30 S, 270 E
    assert_eq!(field[row * 72 + column], 101_791.14); // 1017.911376953125 hPa by netCDF4-python
    assert!(variable.assume(None, Some("K"), None).is_err());
}
