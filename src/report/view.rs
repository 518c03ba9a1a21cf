//! Where a place on the earth lies on the picture: equirectangular, true to scale at the middle latitude.

use crate::grid::{COORDINATE_TOLERANCE, Grid};
use crate::report::image::Rectangle;

/// Lines on the earth: coastlines, borders; (longitude, latitude) in degrees.
pub type Line = Vec<[f64; 2]>;

/// The part of the earth that a map shows, and the pixels that it fills.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    pub west: f64,
    pub east: f64,
    pub south: f64,
    pub north: f64,
    pub frame: Rectangle,
}

impl View {
    /// All of a grid, `width` pixels wide (less when it is tall); a periodic grid is shown from 180°W to 180°E.
    pub fn of(grid: &Grid, left: f64, top: f64, width: f64) -> Self {
        let (mut west, mut east) = edges(&grid.longitude_bounds());
        if grid.is_periodic() {
            (west, east) = (-180.0, 180.0);
        } else if west >= 180.0 {
            (west, east) = (west - 360.0, east - 360.0);
        }
        let (south, north) = edges(&grid.latitude_bounds());
        let middle = ((south + north) / 2.0).to_radians().cos().max(0.1);
        let aspect = ((north - south) / ((east - west) * middle)).clamp(0.15, 8.0);
        let tallest = 1.3 * width;
        let width = if aspect * width > tallest { tallest / aspect } else { width };
        let (width, height) = (width.round(), (aspect * width).round());
        Self {
            west,
            east,
            south,
            north,
            frame: Rectangle { left, top, right: left + width, bottom: top + height },
        }
    }

    pub fn x(&self, longitude: f64) -> f64 {
        self.frame.left + (longitude - self.west) / (self.east - self.west) * self.frame.width()
    }

    pub fn y(&self, latitude: f64) -> f64 {
        self.frame.top + (self.north - latitude) / (self.north - self.south) * self.frame.height()
    }

    pub fn longitude(&self, x: f64) -> f64 {
        self.west + (x - self.frame.left) / self.frame.width() * (self.east - self.west)
    }

    pub fn latitude(&self, y: f64) -> f64 {
        self.north - (y - self.frame.top) / self.frame.height() * (self.north - self.south)
    }

    /// Lines on the earth as lines on the picture, repeated where the view shows their longitudes again, and
    /// without the seams that maps of the world have at the date line.
    pub fn project(&self, lines: &[Line]) -> Vec<Vec<(f64, f64)>> {
        let mut out = Vec::new();
        for line in lines {
            for part in without_seams(line) {
                let low = part.iter().map(|p| p[0]).fold(f64::INFINITY, f64::min);
                let high = part.iter().map(|p| p[0]).fold(f64::NEG_INFINITY, f64::max);
                for turn in -2..=2 {
                    let shift = f64::from(turn) * 360.0;
                    if high + shift >= self.west && low + shift <= self.east {
                        out.push(part.iter().map(|p| (self.x(p[0] + shift), self.y(p[1]))).collect());
                    }
                }
            }
        }
        out
    }

    /// Meridians and parallels worth drawing: (longitudes, latitudes).
    pub fn graticule(&self) -> (Vec<f64>, Vec<f64>) {
        let multiples = |low: f64, high: f64, wanted: f64| {
            let step = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0]
                .into_iter()
                .find(|step| (high - low) / step <= wanted)
                .unwrap_or(90.0);
            let first = (low / step - 1e-9).ceil() as i64;
            let last = (high / step + 1e-9).floor() as i64;
            (first..=last).map(|i| i as f64 * step).collect()
        };
        let wide = if self.frame.width() > 1.5 * self.frame.height() { 12.0 } else { 8.0 };
        (multiples(self.west, self.east, wide), multiples(self.south, self.north, 8.0))
    }
}

/// First and last bound, a degree apart at least: a grid of one column has no width of its own.
fn edges(bounds: &[f64]) -> (f64, f64) {
    let (low, high) = (bounds[0], bounds[bounds.len() - 1]);
    if high - low < COORDINATE_TOLERANCE { (low - 0.5, high + 0.5) } else { (low, high) }
}

/// A line with continuous longitudes, cut where it runs along the date line or the south pole, which are no coasts.
fn without_seams(line: &Line) -> Vec<Line> {
    let seam = |a: &[f64; 2], b: &[f64; 2]| {
        let on_date_line = |p: &[f64; 2]| ((p[0].rem_euclid(360.0)) - 180.0).abs() < 0.01;
        (on_date_line(a) && on_date_line(b)) || (a[1] < -89.0 && b[1] < -89.0)
    };
    let mut parts: Vec<Line> = Vec::new();
    let mut part: Line = Vec::new();
    for [longitude, latitude] in line {
        let before = part.last().map_or(*longitude, |last| last[0]);
        let point = [longitude + 360.0 * ((before - longitude) / 360.0).round(), *latitude];
        if part.last().is_some_and(|last| seam(last, &point)) {
            parts.push(std::mem::take(&mut part));
        }
        part.push(point);
    }
    parts.push(part);
    parts.retain(|part| part.len() > 1);
    parts
}

/// `20°W`, `0°`, `7.5°E`
pub fn longitude_label(longitude: f64) -> String {
    let x = (longitude + 180.0).rem_euclid(360.0) - 180.0;
    match x {
        x if x.abs() < 1e-9 => "0°".into(),
        x if (x.abs() - 180.0).abs() < 1e-9 => "180°".into(),
        x if x < 0.0 => format!("{}°W", short(-x)),
        x => format!("{}°E", short(x)),
    }
}

/// `40°N`, `0°`
pub fn latitude_label(latitude: f64) -> String {
    match latitude {
        y if y.abs() < 1e-9 => "0°".into(),
        y if y < 0.0 => format!("{}°S", short(-y)),
        y => format!("{}°N", short(y)),
    }
}

fn short(degrees: f64) -> f64 {
    (degrees * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn europe() -> Grid {
        let latitude = (0..21).map(|i| 30.0 + 1.5 * f64::from(i)).collect();
        let longitude = (0..24).map(|i| -20.0 + 1.5 * f64::from(i)).collect();
        Grid::new(latitude, longitude).unwrap()
    }

    #[test]
    fn a_degree_north_is_as_long_as_a_degree_east_at_the_middle() {
        let view = View::of(&europe(), 10.0, 20.0, 600.0);
        let north = view.y(45.0) - view.y(46.0);
        let east = view.x(1.0) - view.x(0.0);
        // whole pixels: 1 in 600
        assert!((east / north - 45_f64.to_radians().cos()).abs() < 0.005);
        assert!((view.longitude(view.x(7.25)) - 7.25).abs() < 1e-9);
        assert!((view.latitude(view.y(41.0)) - 41.0).abs() < 1e-9);
    }

    #[test]
    fn a_global_grid_is_shown_around_greenwich() {
        let latitude = (0..19).map(|i| -90.0 + 10.0 * f64::from(i)).collect();
        let grid = Grid::new(latitude, (0..36).map(|i| 10.0 * f64::from(i)).collect()).unwrap();
        let view = View::of(&grid, 0.0, 0.0, 720.0);
        assert_eq!((view.west, view.east, view.south, view.north), (-180.0, 180.0, -90.0, 90.0));
        assert_eq!(view.frame.height(), 360.0);
    }

    #[test]
    fn grids_of_one_point_or_a_thin_strip_still_make_a_picture() {
        for (latitude, longitude) in [
            (vec![50.0], vec![10.0]),
            (vec![89.0, 90.0], (0..300).map(f64::from).collect()),
            ((0..180).map(|i| f64::from(i) - 89.5).collect(), vec![0.0, 0.01]),
        ] {
            let view = View::of(&Grid::new(latitude, longitude).unwrap(), 0.0, 0.0, 500.0);
            let frame = view.frame;
            assert!(frame.width() >= 10.0 && frame.height() >= 10.0, "{view:?}");
            assert!(frame.width() <= 500.0 && frame.height() <= 700.0, "{view:?}");
        }
    }

    #[test]
    fn coastlines_are_found_in_either_longitude_convention_and_have_no_seams() {
        let longitude = (0..20).map(|i| 230.0 + f64::from(i)).collect();
        let america = Grid::new((0..20).map(|i| 30.0 + f64::from(i)).collect(), longitude).unwrap();
        let view = View::of(&america, 0.0, 0.0, 500.0);
        let coast = vec![[-124.0, 40.0], [-124.0, 42.0]];
        let seam = vec![[180.0, 60.0], [-180.0, 70.0], [180.0, 71.0]];
        let drawn = view.project(&[coast, seam]);
        assert_eq!(drawn.len(), 1);
        assert!(drawn[0].iter().all(|(x, _)| (0.0..500.0).contains(x)));
    }

    #[test]
    fn labels_say_the_side_of_greenwich() {
        assert_eq!(longitude_label(330.0), "30°W");
        assert_eq!(longitude_label(-180.0), "180°");
        assert_eq!(latitude_label(-12.5), "12.5°S");
    }
}
