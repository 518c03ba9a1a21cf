//! Bands of rows that a grid can be cut into for a network.

use std::ops::Range;

use super::architecture::{Architecture, Geometry};
use crate::device::Edge;
use crate::error::{Error, Result};

impl Geometry {
    /// The band of these rows. Beyond its inner edges lie those of other bands.
    pub fn band(&self, rows: &Range<usize>) -> Self {
        let [south, north] = self.north_south;
        let edge = |cut: bool, own: Edge| if cut { Edge::Neighbour } else { own };
        Self {
            rows: rows.len(),
            north_south: [edge(rows.start > 0, south), edge(rows.end < self.rows, north)],
            ..self.clone()
        }
    }
}

impl Architecture {
    /// The rows of each of so many bands, from the first row on: whole patches, as equal as they can be. Each band holds the
    /// rows that the halos of its neighbours copy, and those that its own pole rule does.
    pub fn bands(&self, geometry: &Geometry, count: usize) -> Result<Vec<Range<usize>>> {
        if count == 0 {
            return Err(Error::input("a grid is at least one band"));
        }
        let bands = self.cut(geometry, count);
        if self.can_be(geometry, &bands) {
            return Ok(bands);
        }
        let fewer = (1..=geometry.rows.min(count - 1)).rev();
        let most = fewer.into_iter().find(|&count| self.can_be(geometry, &self.cut(geometry, count)));
        let (rows, _) = geometry.inner(self.patch);
        let of = if self.patch > 1 { format!("rows of patches of {}", self.patch) } else { "rows".into() };
        Err(Error::input(format!(
            "{rows} {of} cannot be cut into {count} bands: a halo of {} rows must lie within the neighbouring band",
            self.halo()
        ))
        .hint(format!("{} bands are the most for this grid, kernel and patch", most.unwrap_or(1))))
    }

    fn cut(&self, geometry: &Geometry, count: usize) -> Vec<Range<usize>> {
        let (inner, _) = geometry.inner(self.patch);
        let border = |number: usize| (inner * number / count * self.patch).min(geometry.rows);
        (0..count).map(|number| border(number)..border(number + 1)).collect()
    }

    fn can_be(&self, geometry: &Geometry, bands: &[Range<usize>]) -> bool {
        bands.len() == 1
            || bands.iter().all(|rows| {
                let band = geometry.band(rows);
                let reach = |edge: &Edge| match edge {
                    // The row on the pole is no other's mirror.
                    Edge::Pole { row_on_pole: true } => self.halo() + 1,
                    _ => self.halo(),
                };
                let inner = band.inner(self.patch).0;
                let edges = band.edges(self.patch).rows;
                inner >= edges.iter().map(reach).fold(1, usize::max)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn architecture(kernel: usize, patch: usize) -> Architecture {
        Architecture {
            prognostic: 1,
            statics: 0,
            forcings: 0,
            hidden: vec![4],
            kernel,
            patch,
            layer_norm: false,
            peepholes: false,
            residual: true,
            input_frames: 1,
            dropout: 0.0,
        }
    }

    fn globe(rows: usize) -> Geometry {
        let pole = Edge::Pole { row_on_pole: true };
        Geometry { rows, columns: 8, periodic: true, north_south: [pole; 2], odd: vec![false] }
    }

    #[test]
    fn bands_are_whole_patches_and_only_the_outer_ones_touch_poles() {
        let bands = architecture(3, 2).bands(&globe(17), 4).unwrap();
        assert_eq!(bands, [0..4, 4..8, 8..12, 12..17]);
        let pole = Edge::Pole { row_on_pole: true };
        let edges: Vec<[Edge; 2]> = bands.iter().map(|rows| globe(17).band(rows).north_south).collect();
        let cut = Edge::Neighbour;
        assert_eq!(edges, [[pole, cut], [cut, cut], [cut, cut], [cut, pole]]);
        assert_eq!(architecture(3, 1).bands(&globe(17), 1).unwrap()[0], 0..17);
    }

    #[test]
    fn bands_that_a_halo_reaches_across_are_refused_with_the_most_that_can_be() {
        // A kernel of 5 reaches two rows, and three from a row on the pole.
        assert!(architecture(5, 1).bands(&globe(12), 4).is_ok());
        let error = architecture(5, 1).bands(&globe(12), 6).unwrap_err();
        assert!(error.to_string().starts_with("12 rows cannot be cut into 6 bands"), "{error}");
        assert_eq!(error.advice(), Some("4 bands are the most for this grid, kernel and patch"));
        // Patches have no row on the pole, and the last row is a patch of its own.
        assert!(architecture(5, 2).bands(&globe(11), 3).is_ok());
        let error = architecture(5, 2).bands(&globe(11), 4).unwrap_err();
        assert!(
            error.to_string().contains("6 rows of patches of 2") && error.advice().unwrap().starts_with('3')
        );
        assert!(architecture(1, 1).bands(&globe(3), 4).is_err());
    }
}
