//! Maps as a reader sees them: the right place in the right colour, with coasts where coasts are.

use wxsim::grid::Grid;
use wxsim::io::coastlines;
use wxsim::report::encode;
use wxsim::report::image::{Colour, Image};
use wxsim::report::map::{Field, Map, Shading, draw};
use wxsim::report::scale::{Scale, Sense};
use wxsim::report::view::{Line, View};
use wxsim::variable::Quantity;

fn europe() -> Grid {
    let latitude = (0..21).map(|i| 30.0 + 1.5 * f64::from(i)).collect();
    Grid::new(latitude, (0..24).map(|i| -20.0 + 1.5 * f64::from(i)).collect()).unwrap()
}

fn globe() -> Grid {
    let latitude = (0..91).map(|i| -90.0 + 2.0 * f64::from(i)).collect();
    Grid::new(latitude, (0..180).map(|i| 2.0 * f64::from(i)).collect()).unwrap()
}

/// A field of the place alone, `[lat, lon]`.
fn field(grid: &Grid, value: impl Fn(f64, f64) -> f64) -> Vec<f32> {
    let place = |lat: &f64| grid.longitude.iter().map(|lon| value(*lat, *lon) as f32).collect::<Vec<f32>>();
    grid.latitude.iter().flat_map(place).collect()
}

fn lows(lat: f64, lon: f64) -> f64 {
    let lon = (lon + 180.0).rem_euclid(360.0) - 180.0;
    let low =
        |a: f64, o: f64, depth: f64| -depth * (-((lat - a) / 7.0).powi(2) - ((lon - o) / 11.0).powi(2)).exp();
    101_500.0 + low(55.0, -12.0, 3800.0) + low(38.0, 9.0, 1400.0) - 900.0 * (lat / 30.0).sin()
        + low(45.0, 170.0, 3000.0)
}

fn picture(
    grid: &Grid,
    quantity: &str,
    values: &[f32],
    sense: Sense,
    coastlines: &[Line],
    shading: Shading,
) -> Image {
    let quantity = Quantity::parse(quantity);
    let units = quantity.variable().map_or("", |v| v.units);
    let scale = Scale::fit(&quantity, units, sense, values.iter().copied());
    let contours = if quantity.name == "msl" && sense == Sense::Value {
        (0..40).map(|i| 940.0 + 4.0 * f64::from(i)).collect()
    } else {
        Vec::new()
    };
    draw(&Map {
        title: "Mean sea level pressure".into(),
        notes: vec!["valid 2008-10-20 12:00 UTC  ·  start 2008-10-19 12:00 UTC  ·  +24 h".into()],
        field: Field { grid, values },
        scale: &scale,
        shading,
        contours,
        coastlines,
        width: 800,
        text: 17.0,
    })
}

/// Set WXSIM_PICTURES to a folder to look at them.
fn keep(name: &str, image: &Image) {
    if let Ok(folder) = std::env::var("WXSIM_PICTURES") {
        std::fs::write(format!("{folder}/{name}.png"), encode::png(image).unwrap()).unwrap();
    }
}

#[test]
fn coasts_are_drawn_where_iceland_and_italy_are_and_not_in_the_open_sea() {
    let coasts = coastlines::rings().unwrap();
    let grid = europe();
    let values = field(&grid, lows);
    let with = picture(&grid, "msl", &values, Sense::Value, &coasts, Shading::Bands);
    let without = picture(&grid, "msl", &values, Sense::Value, &[], Shading::Bands);
    keep("europe-msl", &with);
    let view = View::of(&grid, 51.0, 63.0, 800.0); // only to find places; the margins are asserted by the result
    let changed = |lat: f64, lon: f64, reach: i64| {
        let (x, y) = (view.x(lon) as i64, view.y(lat) as i64);
        (-reach..=reach).any(|dy| {
            (-reach..=reach).any(|dx| {
                let at = |image: &Image| image.get((x + dx) as usize, (y + dy) as usize);
                at(&with) != at(&without)
            })
        })
    };
    assert!(changed(38.0, 15.6, 45), "the straits of Messina, at the eastern edge");
    assert!(changed(41.0, 9.5, 25), "Sardinia");
    assert!(changed(54.5, -8.0, 40), "Ireland");
    assert!(!changed(45.0, -14.0, 40), "the Bay of Biscay is far from any coast there");

    let world = globe();
    let values = field(&world, lows);
    let with = picture(&world, "msl", &values, Sense::Value, &coasts, Shading::Bands);
    keep("globe-msl", &with);
}

#[test]
fn missing_values_are_grey_and_cells_keep_their_edges() {
    let grid = europe();
    let values = field(
        &grid,
        |lat, lon| if lat > 50.0 && lon > 0.0 { f64::NAN } else { 270.0 + lat / 3.0 + lon / 5.0 },
    );
    let image = picture(&grid, "t850", &values, Sense::Value, &[], Shading::Cells);
    keep("europe-cells-missing", &image);
    let greys = [Colour([0xd9, 0xdc, 0xe0]), Colour([0xbb, 0xc0, 0xc7])];
    assert!(image.pixels.iter().filter(|p| greys.contains(p)).count() > 10_000);
}

#[test]
fn errors_are_white_at_zero_and_rain_is_white_when_dry() {
    let grid = globe();
    let error = field(&grid, |lat, lon| 3.0 * (lon.to_radians() * 3.0).sin() * lat.to_radians().cos());
    keep(
        "globe-error",
        &picture(&grid, "t850", &error, Sense::Difference, &coastlines::rings().unwrap(), Shading::Bands),
    );
    let rain =
        field(&grid, |lat, lon| (0.03 * (lon.to_radians() * 2.0).sin() * lat.to_radians().cos()).max(0.0));
    let image = picture(&grid, "tp", &rain, Sense::Value, &coastlines::rings().unwrap(), Shading::Bands);
    keep("globe-rain", &image);
    let smooth = field(&grid, |lat, _| 303.0 - 60.0 * lat.to_radians().sin().powi(2));
    keep(
        "globe-smooth",
        &picture(&grid, "t2m", &smooth, Sense::Value, &coastlines::rings().unwrap(), Shading::Smooth),
    );
}
