//! What a coordinate variable is, and how latitudes and longitudes are laid out.

use super::info::GridKind;
use super::schema::RawVariable;
use super::{time_axis, units};
use crate::error::{Error, Result};
use crate::grid::COORDINATE_TOLERANCE;

/// What a coordinate variable counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordinate {
    Latitude,
    Longitude,
    /// Axes of a map projection or a rotated pole.
    Rotated,
    Projection,
    Time,
    ReferenceTime,
    /// The distance between both, in hours or steps.
    Lead,
    Pressure,
    Height,
    ModelLevel,
    Member,
    Version,
}

/// Recognises a coordinate by standard_name, units, axis and at last by its name (CF conventions chapter 4).
pub fn recognise(variable: &RawVariable) -> Option<Coordinate> {
    use Coordinate::*;
    let units = variable.units().to_ascii_lowercase();
    let standard = variable.standard_name();
    match standard.as_str() {
        "latitude" => return Some(Latitude),
        "longitude" => return Some(Longitude),
        "grid_latitude" | "grid_longitude" => return Some(Rotated),
        "projection_x_coordinate" | "projection_y_coordinate" => return Some(Projection),
        "time" => return Some(Time),
        "forecast_reference_time" => return Some(ReferenceTime),
        "forecast_period" => return Some(Lead),
        "air_pressure" => return Some(Pressure),
        "height" | "altitude" | "depth" => return Some(Height),
        "realization" => return Some(Member),
        _ if standard.contains("sigma")
            || standard.contains("hybrid")
            || standard == "model_level_number" =>
        {
            return Some(ModelLevel);
        }
        _ => {}
    }
    match units.replace(' ', "_").as_str() {
        "degrees_north" | "degree_north" | "degrees_n" | "degree_n" | "degreesn" | "degreen" => {
            return Some(Latitude);
        }
        "degrees_east" | "degree_east" | "degrees_e" | "degree_e" | "degreese" | "degreee" => {
            return Some(Longitude);
        }
        _ => {}
    }
    let name = variable.name.to_ascii_lowercase();
    if time_axis::is_time(&units) {
        let reference = matches!(name.as_str(), "forecast_reference_time" | "reftime" | "analysis_time");
        return Some(if reference { ReferenceTime } else { Time });
    }
    let by_name = match name.as_str() {
        "lat" | "latitude" | "lats" | "nav_lat" | "xlat" => Some(Latitude),
        "lon" | "long" | "longitude" | "lons" | "nav_lon" | "xlong" => Some(Longitude),
        "rlat" | "rlon" => Some(Rotated),
        "time" | "valid_time" | "times" | "initial_time0_hours" => Some(Time),
        "step" | "leadtime" | "lead_time" | "forecast_period" => Some(Lead),
        "level" | "lev" | "levels" | "plev" | "pressure" | "pressure_level" | "isobaricinhpa"
        | "isobaric" | "lv_isbl0" => Some(Pressure),
        "height" | "heightaboveground" | "depth" => Some(Height),
        "sigma" | "eta" | "hybrid" | "model_level" | "bottom_top" => Some(ModelLevel),
        "number" | "realization" | "member" | "ensemble" => Some(Member),
        "expver" => Some(Version),
        _ => None,
    };
    let vertical = matches!(by_name, Some(Pressure) | None);
    match units::to_si(&units) {
        Some(("Pa", _)) if vertical => return Some(Pressure),
        Some(("m", _)) if vertical && is_vertical(variable) => return Some(Height),
        Some(("1", _)) if by_name == Some(Pressure) && is_vertical(variable) => return Some(ModelLevel),
        _ => {}
    }
    by_name.or(match variable.attributes.text("axis") {
        Some("T") => Some(Time),
        Some("X" | "Y") => Some(Projection),
        _ => None,
    })
}

fn is_vertical(variable: &RawVariable) -> bool {
    variable.attributes.text("axis") == Some("Z") || variable.attributes.get("positive").is_some()
}

/// Latitudes of a file in wxsim's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    pub latitude: Vec<f64>,
    pub descending: bool,
    pub kind: GridKind,
}

/// Orders latitudes south to north and recognises their spacing.
pub fn rows(file: &[f64]) -> Result<Rows> {
    let refuse = |what: String| {
        Error::input(what)
            .hint("check the coordinate with ncdump, or rewrite the file with the right latitudes")
    };
    if let Some(bad) = file.iter().find(|x| !x.is_finite()) {
        return Err(refuse(format!("a latitude is {bad}")));
    }
    if let Some(bad) = file.iter().find(|x| x.abs() > 90.0 + COORDINATE_TOLERANCE) {
        return Err(refuse(format!("a latitude is {bad}, outside -90 to 90")));
    }
    let descending = file.len() > 1 && file[1] < file[0];
    let mut latitude = file.to_vec();
    if descending {
        latitude.reverse();
    }
    if let Some(w) = latitude.windows(2).find(|w| w[1] <= w[0]) {
        return Err(refuse(format!("latitudes are not monotonic: {} stands beside {}", w[0], w[1])));
    }
    let n = latitude.len();
    let step = if n > 1 { (latitude[n - 1] - latitude[0]) / (n - 1) as f64 } else { 0.0 };
    let even = latitude
        .iter()
        .enumerate()
        .all(|(i, x)| (x - latitude[0] - step * i as f64).abs() < 1e-3 * step.abs().max(0.1));
    let kind = if even {
        GridKind::Regular
    } else if gaussian(n).iter().zip(&latitude).all(|(a, b)| (a - b).abs() < 0.01) {
        GridKind::Gaussian
    } else {
        GridKind::Irregular
    };
    Ok(Rows { latitude, descending, kind })
}

/// Latitudes of a Gaussian grid, south to north: arcsines of the roots of the Legendre polynomial of degree `n`, by
/// Newton's method from Tricomi's estimate. Empty beyond the sizes that exist.
pub fn gaussian(n: usize) -> Vec<f64> {
    if !(4..=5000).contains(&n) {
        return vec![f64::NAN; n];
    }
    let root = |i: usize| {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        for _ in 0..5 {
            let (mut p0, mut p1) = (1.0, x);
            for k in 2..=n {
                let k = k as f64;
                (p0, p1) = (p1, ((2.0 * k - 1.0) * x * p1 - (k - 1.0) * p0) / k);
            }
            let slope = n as f64 * (x * p1 - p0) / (x * x - 1.0);
            x -= p1 / slope;
        }
        -x.asin().to_degrees()
    };
    (0..n).map(root).collect()
}

/// Longitudes of a file in wxsim's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    pub longitude: Vec<f64>,
    /// The file's column of each.
    pub file: Vec<usize>,
    pub shift: usize,
    pub signed: bool,
    /// Columns at the end of the file that repeat its beginning.
    pub repeated: usize,
    pub westward: bool,
    pub even: bool,
}

/// Orders longitudes eastward: a closed circle from the first meridian at or east of Greenwich, a regional grid
/// contiguous from its western edge.
pub fn columns(file: &[f64]) -> Result<Columns> {
    let refuse = |what: String| {
        Error::input(what)
            .hint("check the coordinate with ncdump, or rewrite the file with the right longitudes")
    };
    if let Some(bad) = file.iter().find(|x| !(x.abs() <= 1080.0)) {
        return Err(refuse(format!("a longitude is {bad}")));
    }
    let turn = |from: f64, to: f64| (to - from + 180.0).rem_euclid(360.0) - 180.0;
    let turns: Vec<f64> = file.windows(2).map(|w| turn(w[0], w[1])).collect();
    let westward = turns.first().is_some_and(|t| *t < 0.0);
    if let Some(at) = turns.iter().position(|t| if westward { *t >= 0.0 } else { *t <= 0.0 }) {
        return Err(refuse(format!(
            "longitudes are not monotonic: {} is followed by {}",
            file[at],
            file[at + 1]
        )));
    }
    // Unwrapped, from the file's first column on.
    let mut unwrapped = Vec::with_capacity(file.len());
    let mut span = 0.0;
    for at in 0..file.len() {
        span += if at > 0 { turns[at - 1] } else { 0.0 };
        if f64::abs(span) >= 360.0 - COORDINATE_TOLERANCE {
            break;
        }
        unwrapped.push(file[0] + span);
    }
    let n = unwrapped.len();
    let repeated = file.len() - n;
    if repeated > 0 && (f64::abs(turns.iter().sum::<f64>()) > 720.0) {
        return Err(refuse("longitudes go round the earth more than twice".into()));
    }
    let mut order: Vec<usize> = (0..n).collect();
    if westward {
        order.reverse();
        unwrapped.reverse();
    }
    let step = if n > 1 { (unwrapped[n - 1] - unwrapped[0]) / (n - 1) as f64 } else { 0.0 };
    let even = unwrapped
        .iter()
        .enumerate()
        .all(|(i, x)| (x - unwrapped[0] - step * i as f64).abs() < 1e-3 * step.max(0.1));
    let closed = n > 1 && (step * n as f64 - 360.0).abs() < COORDINATE_TOLERANCE * n as f64;
    let mut first = 0;
    let base = |x: f64| {
        let x = x.rem_euclid(360.0);
        if x > 360.0 - COORDINATE_TOLERANCE / 10.0 { x - 360.0 } else { x }
    };
    if closed {
        let bases: Vec<f64> = unwrapped.iter().map(|x| base(*x)).collect();
        first = (0..n).min_by(|a, b| bases[*a].total_cmp(&bases[*b])).unwrap_or(0);
        order.rotate_left(first);
        unwrapped = bases;
        unwrapped.rotate_left(first);
    } else {
        let start = base(unwrapped[0]);
        let crosses = start + (unwrapped[n - 1] - unwrapped[0]) > 360.0 + COORDINATE_TOLERANCE;
        let move_by = start - unwrapped[0] - if crosses { 360.0 } else { 0.0 };
        unwrapped.iter_mut().for_each(|x| *x += move_by);
    }
    Ok(Columns {
        longitude: unwrapped.iter().map(|x| (x * 1e9).round() / 1e9).collect(),
        file: order,
        shift: if westward { 0 } else { (n - first) % n },
        signed: file.iter().any(|x| *x < 0.0),
        repeated,
        westward,
        even,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: f64, step: f64, n: usize) -> Vec<f64> {
        (0..n).map(|i| from + step * i as f64).collect()
    }

    #[test]
    fn a_circle_starts_at_greenwich_whatever_the_file_begins_with() {
        for from in [0.0, -180.0, 30.0, 180.0, -30.0] {
            let c = columns(&range(from, 30.0, 12)).unwrap();
            assert_eq!(c.longitude, range(0.0, 30.0, 12), "{from}");
            for (x, f) in c.longitude.iter().zip(&c.file) {
                assert_eq!(*x, (from + 30.0 * *f as f64).rem_euclid(360.0));
            }
            assert_eq!(c.file[c.shift], 0, "the file's first column is {} columns along", c.shift);
        }
    }

    #[test]
    fn repeated_columns_are_dropped_and_a_region_stays_in_one_piece() {
        let c = columns(&range(30.0, 2.0, 181)).unwrap();
        assert_eq!((c.longitude.len(), c.repeated, c.longitude[0]), (180, 1, 0.0));
        let europe = columns(&range(-20.0, 1.5, 24)).unwrap();
        assert_eq!(europe.longitude, range(-20.0, 1.5, 24));
        assert_eq!(columns(&range(340.0, 1.5, 24)).unwrap().longitude, europe.longitude);
        let wrapped: Vec<f64> = range(340.0, 1.5, 24).iter().map(|x| x.rem_euclid(360.0)).collect();
        assert_eq!(columns(&wrapped).unwrap().longitude, europe.longitude);
        assert_eq!(columns(&range(-75.0, 1.0, 4)).unwrap().longitude[0], 285.0);
    }

    #[test]
    fn westward_columns_are_turned_round() {
        let c = columns(&[40.0, 30.0, 20.0]).unwrap();
        assert_eq!((c.longitude, c.file, c.westward), (vec![20.0, 30.0, 40.0], vec![2, 1, 0], true));
        assert!(columns(&[0.0, 10.0, 5.0]).is_err());
        assert!(columns(&[0.0, f64::NAN]).is_err());
    }

    #[test]
    fn gaussian_latitudes_are_recognised() {
        // the first rows of ECMWF's N32 grid
        let g = gaussian(64);
        for (ours, published) in g.iter().rev().zip([87.8638, 85.0965, 82.3129, 79.5256]) {
            assert!((ours - published).abs() < 1e-4); // the published digits
        }
        assert_eq!(rows(&g).unwrap().kind, GridKind::Gaussian);
        assert_eq!(rows(&range(90.0, -1.0, 181)).unwrap().kind, GridKind::Regular);
        assert!(rows(&[0.0, 2.0, 1.0]).is_err());
    }
}
