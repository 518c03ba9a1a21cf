//! Grids (section 3): regular and Gaussian latitudes and longitudes, and the order in which their points are stored.

use super::super::axes;
use super::sections::Octets;

/// Larger fields do not fit a step of any model: a grid of a fortieth of a degree has a hundred million points.
const MOST_POINTS: u32 = 1 << 27;
/// More rows or columns than any grid has.
const MOST_ALONG: u32 = 200_000;

/// Rows and columns of a field in the order in which [`arrange`](Self::arrange) puts its numbers: rows as they are
/// stored, columns eastward.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub latitude: Vec<f64>,
    pub longitude: Vec<f64>,
    scanning: u8,
}

const WESTWARD: u8 = 0x80;
const NORTHWARD: u8 = 0x40;
/// Neighbours in the file are neighbours along a column.
const BY_COLUMN: u8 = 0x20;
/// Every other row (or column) runs the other way.
const ALTERNATING: u8 = 0x10;

/// What makes two grids the same: section 3 without its length.
pub fn key(section: &[u8]) -> &[u8] {
    section.get(5..).unwrap_or(&[])
}

/// Reads section 3; `Err` has a sentence's end and a remedy.
pub fn shape(section: &[u8]) -> Result<Shape, (String, String)> {
    let octets = Octets(section);
    let template = octets.u16(13);
    let regrid = "regrid it first: cdo remapbil,r360x180 FILE OUT";
    let refuse = |what: &str, remedy: &str| Err((what.to_string(), remedy.to_string()));
    let gaussian = match template {
        0 => false,
        40 => true,
        50..=53 => {
            let what = format!("holds spherical harmonics (grid template 3.{template}), not points");
            return refuse(&what, "bring it to a grid: cdo sp2gpl FILE OUT");
        }
        _ => {
            let name = match template {
                1 | 41 => "a rotated latitude-longitude grid",
                2 | 3 | 42 | 43 => "a stretched latitude-longitude grid",
                10 => "a Mercator grid",
                20 => "a polar stereographic grid",
                30 => "a Lambert conformal grid",
                31 => "an Albers equal-area grid",
                90 => "a view from space",
                100 | 101 => "an unstructured grid",
                _ => "a grid that is not read",
            };
            return refuse(&format!("lies on {name} (grid template 3.{template})"), regrid);
        }
    };
    let [columns, rows] = [octets.u32(31), octets.u32(35)];
    if octets.u8(11) != 0 || columns == u32::MAX || rows == u32::MAX {
        return refuse(
            &format!(
                "lies on a reduced grid (template 3.{template} with rows of different lengths), and only whole rows are read"
            ),
            "make its rows equally long: cdo setgridtype,regular FILE OUT",
        );
    }
    let damaged =
        |what: String| Err((what, "the message may be damaged: copy or download the file again".to_string()));
    let points = columns.checked_mul(rows).filter(|n| *n > 0 && *n <= MOST_POINTS);
    if points.is_none() || columns > MOST_ALONG || rows > MOST_ALONG {
        return damaged(format!("has a grid of {rows} x {columns} points, which is no size for a field"));
    }
    if points != Some(octets.u32(7)) {
        return damaged(format!("has a grid of {rows} x {columns} points and {} values", octets.u32(7)));
    }
    let scanning = octets.u8(72);
    if scanning & 0x0f != 0 {
        return refuse(
            &format!("has rows that are shifted against each other (scanning mode {scanning:#010b})"),
            regrid,
        );
    }
    // Millionths of a degree, unless another angle is given.
    let unit = match (octets.u32(39), octets.u32(43)) {
        (0 | u32::MAX, _) | (_, 0 | u32::MAX) => 1e-6,
        (basic, parts) => f64::from(basic) / f64::from(parts),
    };
    let angle = |octet: usize| f64::from(octets.i32(octet)) * unit;
    let [first_row, first_column, last_row, last_column] = [47, 51, 56, 60].map(angle);
    let (rows, columns) = (rows as usize, columns as usize);
    let northward = scanning & NORTHWARD != 0;
    if rows > 1 && northward != (last_row > first_row) {
        return damaged(format!(
            "runs from latitude {first_row} to {last_row}, against its scanning mode {scanning:#010b}"
        ));
    }
    let latitude = if gaussian {
        let parallels = octets.u32(68);
        match gaussian_rows(parallels, first_row, rows, northward) {
            Some(latitude) => latitude,
            None => {
                return damaged(format!(
                    "has {rows} rows from latitude {first_row}, which are not those of a Gaussian grid N{parallels}"
                ));
            }
        }
    } else {
        between(first_row, last_row, rows)
    };
    // The way from the first to the last column, all round the earth where they are the same.
    let (west, east) =
        if scanning & WESTWARD == 0 { (first_column, last_column) } else { (last_column, first_column) };
    let mut span = (east - west).rem_euclid(360.0);
    if span == 0.0 && columns > 1 {
        span = 360.0;
    }
    let step = f64::from(octets.u32(64)) * unit;
    // Steps are rounded to the unit of angles, and sometimes not given.
    let misfit = (step * (columns.max(2) - 1) as f64 - span).abs();
    if octets.u32(64) != u32::MAX
        && octets.u8(55) & 0x20 != 0
        && columns > 1
        && misfit > step / 2.0 + unit * columns as f64
    {
        return damaged(format!(
            "has {columns} columns from longitude {west} to {east}, which are not {step} degrees apart"
        ));
    }
    let longitude = between(west, west + span, columns);
    Ok(Shape { latitude, longitude, scanning })
}

/// `count` evenly spaced values.
fn between(first: f64, last: f64, count: usize) -> Vec<f64> {
    let step = if count > 1 { (last - first) / (count - 1) as f64 } else { 0.0 };
    // Rounded far below the format's own digits, so that a third of a degree is the same wherever it is computed.
    (0..count).map(|i| ((first + step * i as f64) * 1e9).round() / 1e9).collect()
}

/// Consecutive rows of the grid with `parallels` rows from pole to equator.
fn gaussian_rows(parallels: u32, first: f64, rows: usize, northward: bool) -> Option<Vec<f64>> {
    let all = usize::try_from(parallels).ok().filter(|n| (2..=2500).contains(n))? * 2;
    let mut latitudes = axes::gaussian(all);
    if !northward {
        latitudes.reverse();
    }
    let start = latitudes.iter().position(|y| (y - first).abs() < 2e-3)?;
    latitudes.get(start..start.checked_add(rows)?).map(<[f64]>::to_vec)
}

impl Shape {
    pub fn points(&self) -> usize {
        self.latitude.len() * self.longitude.len()
    }

    /// Brings numbers from the order of their message to rows as they are stored and columns eastward. `values` has one
    /// for each point.
    pub fn arrange(&self, values: Vec<f32>) -> Vec<f32> {
        let (rows, columns) = (self.latitude.len(), self.longitude.len());
        let [westward, by_column, alternating] =
            [WESTWARD, BY_COLUMN, ALTERNATING].map(|bit| self.scanning & bit != 0);
        if !westward && !by_column && !alternating {
            return values;
        }
        let mut arranged = vec![0.0; values.len()];
        let along = if by_column { rows } else { columns };
        for (line, numbers) in values.chunks_exact(along).enumerate() {
            for (at, value) in numbers.iter().enumerate() {
                let at = if alternating && line % 2 == 1 { along - 1 - at } else { at };
                let (row, column) = if by_column { (at, line) } else { (line, at) };
                let column = if westward { columns - 1 - column } else { column };
                arranged[row * columns + column] = *value;
            }
        }
        arranged
    }
}
