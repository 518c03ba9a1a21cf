//! Which part of the globe a score speaks of.

use crate::grid::{Grid, Region};

use super::scores::WHOLE_GRID;

/// A named part of a grid: some of its points.
#[derive(Debug, Clone, PartialEq)]
pub struct Area {
    pub name: String,
    /// `[lat * lon]`: whether the point belongs to it.
    pub mask: Vec<bool>,
}

/// Parts made of boxes; bounds inclusive, in degrees.
struct Named {
    name: &'static str,
    /// South, north, west, east of each box.
    boxes: &'static [[f64; 4]],
}

/// The regions of WeatherBench 2.
#[rustfmt::skip]
const WEATHERBENCH: &[Named] = &[
    Named { name: "tropics", boxes: &[[-20.0, 20.0, 0.0, 360.0]] },
    Named { name: "extra-tropics", boxes: &[[20.0, 90.0, 0.0, 360.0], [-90.0, -20.0, 0.0, 360.0]] },
    Named { name: "northern-hemisphere", boxes: &[[20.0, 90.0, 0.0, 360.0]] },
    Named { name: "southern-hemisphere", boxes: &[[-90.0, -20.0, 0.0, 360.0]] },
    Named { name: "europe", boxes: &[[35.0, 75.0, -12.5, 42.5]] },
    Named { name: "north-america", boxes: &[[25.0, 60.0, 240.0, 285.0]] },
    Named { name: "north-atlantic", boxes: &[[25.0, 65.0, 290.0, 350.0]] },
    Named { name: "north-pacific", boxes: &[[25.0, 60.0, 145.0, 230.0]] },
    Named { name: "east-asia", boxes: &[[25.0, 60.0, 102.5, 150.0]] },
    Named { name: "ausnz", boxes: &[[-45.0, -12.5, 120.0, 175.0]] },
    Named { name: "arctic", boxes: &[[60.0, 90.0, 0.0, 360.0]] },
    Named { name: "antarctic", boxes: &[[-90.0, -60.0, 0.0, 360.0]] },
];

/// The whole grid, then the named regions and those of the user that hold some of its points but not all of them;
/// what is left out comes back by name.
pub fn areas(grid: &Grid, users: &[Region]) -> (Vec<Area>, Vec<String>) {
    let mut areas = vec![Area { name: WHOLE_GRID.into(), mask: vec![true; grid.points()] }];
    let mut left_out = Vec::new();
    let known = WEATHERBENCH.iter().filter(|n| users.iter().all(|u| u.name != n.name)).map(|n| {
        let boxes = n.boxes.iter().map(|&[south, north, west, east]| Region {
            name: n.name.into(),
            south,
            north,
            west,
            east,
        });
        (n.name.to_string(), boxes.collect::<Vec<_>>())
    });
    let users = users.iter().map(|u| (u.name.clone(), vec![u.clone()]));
    for (name, boxes) in known.chain(users) {
        let mut mask = Vec::with_capacity(grid.points());
        for &latitude in &grid.latitude {
            mask.extend(grid.longitude.iter().map(|&lon| boxes.iter().any(|b| b.contains(latitude, lon))));
        }
        let inside = mask.iter().filter(|&&m| m).count();
        if inside == 0 || inside == mask.len() {
            left_out.push(name);
        } else {
            areas.push(Area { name, mask });
        }
    }
    (areas, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_off_the_grid_or_equal_to_it_are_left_out() {
        let latitude = (0..21).map(|j| 30.0 + 1.5 * f64::from(j)).collect();
        let longitude = (0..24).map(|i| -20.0 + 1.5 * f64::from(i)).collect();
        let grid = Grid::new(latitude, longitude).unwrap();
        let own = Region { name: "alps".into(), south: 45.0, north: 48.0, west: 5.0, east: 14.0 };
        let (areas, left_out) = areas(&grid, &[own]);
        let names: Vec<&str> = areas.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["all", "europe", "north-atlantic", "arctic", "alps"]);
        assert!(left_out.contains(&"tropics".to_string()), "off the grid");
        assert!(left_out.contains(&"extra-tropics".to_string()), "the whole grid");
        // bounds are inclusive: 60N belongs to the arctic
        assert_eq!(areas[3].mask.iter().filter(|&&m| m).count(), 24);
    }

    #[test]
    fn the_extra_tropics_are_two_belts() {
        let grid = Grid::new(vec![-60.0, -20.0, 0.0, 20.0, 60.0], vec![0.0, 120.0, 240.0]).unwrap();
        let (areas, _) = areas(&grid, &[]);
        let extra = areas.iter().find(|a| a.name == "extra-tropics").unwrap();
        let rows: Vec<bool> = extra.mask.iter().step_by(3).copied().collect();
        assert_eq!(rows, [true, true, false, true, true]);
    }
}
