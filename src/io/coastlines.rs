//! The coastlines inside the binary: Natural Earth land at 1:110 million, packed as TopoJSON.
//!
//! A ring may cross the date line (two neighbouring points then differ by nearly 360 degrees), and Antarctica's runs
//! once around the pole.

use serde::Deserialize;

use crate::error::{Error, Result};

/// A closed line, the first point again at the end: `[longitude, latitude]` [degrees_east, degrees_north],
/// longitudes in [-180, 180].
pub type Ring = Vec<[f64; 2]>;

const LAND: &[u8] = include_bytes!("../../data/land-110m.json");

#[derive(Deserialize)]
struct Topology {
    objects: Objects,
    arcs: Vec<Vec<[i64; 2]>>,
    transform: Transform,
}

#[derive(Deserialize)]
struct Objects {
    land: Collection,
}

#[derive(Deserialize)]
struct Collection {
    geometries: Vec<MultiPolygon>,
}

#[derive(Deserialize)]
struct MultiPolygon {
    /// polygon -> ring -> arcs; `~i` is arc `i` backwards.
    arcs: Vec<Vec<Vec<i64>>>,
}

#[derive(Deserialize)]
struct Transform {
    scale: [f64; 2],
    translate: [f64; 2],
}

/// Every shore: outlines of continents and islands, and of the Caspian Sea inside one.
pub fn rings() -> Result<Vec<Ring>> {
    decode(LAND)
}

/// Land polygons of a TopoJSON file (<https://github.com/topojson/topojson-specification>, sections 2.1.3 and 2.1.4).
fn decode(text: &[u8]) -> Result<Vec<Ring>> {
    let topology: Topology = serde_json::from_slice(text)
        .map_err(|error| Error::run("the bundled coastlines cannot be read").caused_by(error))?;
    let Transform { scale, translate } = topology.transform;
    let arcs: Vec<Ring> = topology
        .arcs
        .iter()
        .map(|arc| {
            let mut at = [0_i64; 2];
            let place = |delta: &[i64; 2]| {
                at = [at[0] + delta[0], at[1] + delta[1]];
                [0, 1].map(|axis| at[axis] as f64 * scale[axis] + translate[axis])
            };
            arc.iter().map(place).collect()
        })
        .collect();
    let mut rings = Vec::new();
    for ring in topology.objects.land.geometries.iter().flat_map(|g| &g.arcs).flatten() {
        let mut points: Ring = Vec::new();
        for &index in ring {
            let at = if index < 0 { !index } else { index } as usize;
            let arc = arcs.get(at).ok_or_else(|| Error::run(format!("coastline arc {at} does not exist")))?;
            let skip = usize::from(!points.is_empty()); // arcs share their ends
            if index < 0 {
                points.extend(arc.iter().rev().skip(skip));
            } else {
                points.extend(arc.iter().skip(skip));
            }
        }
        rings.push(points);
    }
    Ok(rings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_closed_and_on_the_globe() {
        let rings = rings().unwrap();
        assert_eq!(rings.len(), 126); // 125 polygons and the Caspian Sea
        for ring in &rings {
            assert!(ring.len() > 3);
            assert_eq!(ring.first(), ring.last());
            // one quantum of the packing beyond the bounds at most
            assert!(ring.iter().all(|[lon, lat]| lon.abs() <= 180.001 && (-90.0..=84.0).contains(lat)));
        }
    }

    #[test]
    fn an_arc_that_does_not_exist_is_an_error() {
        let text = r#"{"objects": {"land": {"geometries": [{"arcs": [[[3]]]}]}}, "arcs": [],
                       "transform": {"scale": [1, 1], "translate": [0, 0]}}"#;
        assert!(decode(text.as_bytes()).is_err());
    }
}
