//! Where on the sphere: edges, and complaints that say the place.

use std::ops::Range;

use super::Sphere;
use crate::device::{Edge, Edges};
use crate::error::{Error, Result};

impl Sphere {
    /// What lies beyond the outermost centres.
    pub fn edges(&self) -> Edges {
        let edge = if self.global { Edge::Pole { row_on_pole: false } } else { Edge::Replicate };
        Edges { periodic: self.global, rows: [edge; 2] }
    }

    /// `45N, 10W (row 3, column 5)`
    pub fn describe(&self, row: usize, column: usize) -> String {
        let round = |x: f64| (x.to_degrees() * 1000.0).round() / 1000.0;
        let (latitude, longitude) =
            (round(self.latitude(row as isize)), round(self.longitude(column as isize)));
        let longitude = (longitude + 180.0).rem_euclid(360.0) - 180.0;
        let named =
            |x: f64, [below, above]: [&str; 2]| format!("{}{}", x.abs(), if x < 0.0 { below } else { above });
        format!(
            "{}, {} (row {row}, column {column})",
            named(latitude, ["S", "N"]),
            named(longitude, ["W", "E"])
        )
    }

    /// Refuses fields at the centres, `[field, lat, lon]`, that do not fit the grid or hold a value that is not finite.
    pub fn check_fields(&self, values: &[f64], names: &[impl AsRef<str>]) -> Result<()> {
        let points = self.rows * self.columns;
        if values.len() != points * names.len() {
            let all: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            return Err(Error::input(format!(
                "{} on {} x {} points takes {} values, found {}",
                all.join(", "),
                self.rows,
                self.columns,
                points * names.len(),
                values.len()
            )));
        }
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(at) => {
                let (name, point) = (names[at / points].as_ref(), at % points);
                let place = self.describe(point / self.columns, point % self.columns);
                Err(Error::input(format!("{name} has no value at {place}")).hint(
                    "physics starts from whole fields: cut out a box without missing values, or fill them",
                ))
            }
        }
    }
}

/// The largest box in which no point is missing, as rows and columns. `None` where every point is
/// missing. For analyses of a region that fills only part of its rows and columns.
pub fn largest_whole_box(missing: &[bool], columns: usize) -> Option<[Range<usize>; 2]> {
    let mut largest: Option<[Range<usize>; 2]> = None;
    let mut most = 0;
    // How many points without a gap lie in each column, up to this row.
    let mut heights = vec![0; columns];
    for (row, missing) in missing.chunks_exact(columns).enumerate() {
        for (height, &missing) in heights.iter_mut().zip(missing) {
            *height = if missing { 0 } else { *height + 1 };
        }
        for first in 0..columns {
            let mut height = usize::MAX;
            for last in first..columns {
                height = height.min(heights[last]);
                let points = height * (last + 1 - first);
                if points > most {
                    most = points;
                    largest = Some([row + 1 - height..row + 1, first..last + 1]);
                }
            }
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::largest_whole_box;

    #[test]
    fn the_largest_box_touches_no_gap() {
        let picture = ["..##..", ".####.", ".####.", "######"];
        let missing: Vec<bool> = picture.iter().flat_map(|row| row.chars().map(|c| c == '.')).collect();
        assert_eq!(largest_whole_box(&missing, 6), Some([1..4, 1..5]));
        // Without the last row, two columns of three rows are 6 points, four of two are 8.
        assert_eq!(largest_whole_box(&missing[..18], 6), Some([1..3, 1..5]));
        assert_eq!(largest_whole_box(&[true; 6], 3), None);
        assert_eq!(largest_whole_box(&[false; 6], 3), Some([0..2, 0..3]));
    }
}
