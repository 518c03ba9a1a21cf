//! What a network is made of and the grid it runs on; and the shapes that follow.

use crate::device::{Edge, Edges};
use crate::error::{Error, Result};
use crate::field::Layout;
use crate::grid::COORDINATE_TOLERANCE;
use crate::variable::Behaviour;
use serde::{Deserialize, Serialize};

/// A stack of ConvLSTM layers with a 1x1 head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Architecture {
    /// Channels that are forecast (P); the first channels of the input.
    pub prognostic: usize,
    /// Static channels (S), behind the prognostic ones.
    pub statics: usize,
    /// Time-dependent forcing channels (F), last.
    pub forcings: usize,
    /// Hidden channels of each layer, bottom first.
    pub hidden: Vec<usize>,
    /// Side of the square convolution kernels, odd.
    pub kernel: usize,
    /// 1, 2 or 4: `patch x patch` grid points become channels of one point.
    pub patch: usize,
    /// Normalise the gate pre-activations over the channels of one grid point, each gate separately.
    pub layer_norm: bool,
    /// Gates also see the cell state of their own unit.
    pub peepholes: bool,
    /// The head gives the tendency that is added to the last state, not the state itself.
    pub residual: bool,
    /// Analyses that the recurrent state is warmed up on.
    pub input_frames: usize,
    /// Share of the units that are silenced between layers and before the head while training, in [0, 1).
    pub dropout: f64,
}

/// The grid as the network sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Geometry {
    pub rows: usize,
    pub columns: usize,
    /// The columns close around the earth.
    pub periodic: bool,
    /// Beyond the first (southernmost) and the last row.
    pub north_south: [Edge; 2],
    /// Per prognostic channel: whether it changes sign across a pole (wind components).
    pub odd: Vec<bool>,
}

/// Gates of one unit, in this order: input, forget, candidate, output.
pub const GATES: usize = 4;

/// Units whose gates stand together on the device.
pub const UNIT_BLOCK: usize = 16;

/// The device channel of gate `gate` (i, f, g, o) of unit `unit` among `hidden` units: gates of up to 16 neighbouring
/// units stand together, so that one pass over memory finishes their cells.
pub fn gate_channel(gate: usize, unit: usize, hidden: usize) -> usize {
    let block = unit / UNIT_BLOCK;
    let width = UNIT_BLOCK.min(hidden - UNIT_BLOCK * block);
    block * UNIT_BLOCK * GATES + gate * width + (unit - UNIT_BLOCK * block)
}

impl Architecture {
    /// Grid points that become one point of the inner grid.
    pub(super) fn patch_points(&self) -> usize {
        self.patch * self.patch
    }

    /// Channels of layer 0's input.
    pub fn inputs(&self) -> usize {
        (self.prognostic + self.statics + self.forcings) * self.patch_points()
    }

    /// Channels that layer `layer` reads.
    pub fn layer_inputs(&self, layer: usize) -> usize {
        if layer == 0 { self.inputs() } else { self.hidden[layer - 1] }
    }

    /// Channels of the head.
    pub fn outputs(&self) -> usize {
        self.prognostic * self.patch_points()
    }

    /// Halo cells on each side of what a layer reads.
    pub fn halo(&self) -> usize {
        self.kernel / 2
    }

    /// Checks what no grid can mend.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("prognostic variables", self.prognostic),
            ("layers", self.hidden.len()),
            ("input frames", self.input_frames),
        ];
        for (what, count) in positive {
            if count == 0 {
                return Err(Error::input(format!("a network needs {what}, found none")));
            }
        }
        if let Some(layer) = self.hidden.iter().position(|&h| h == 0) {
            return Err(Error::input(format!("layer {layer} of the network has no hidden channels")));
        }
        // Larger networks fit no machine, and their sizes would overflow.
        let bounded = [
            ("hidden", self.hidden.iter().copied().max().unwrap_or(0), 65_536),
            ("layers", self.hidden.len(), 1024),
            ("kernel", self.kernel, 255),
            ("input_frames", self.input_frames, 65_536),
        ];
        for (what, found, most) in bounded {
            if found > most {
                return Err(Error::input(format!("{what} is {found}, the most is {most}")));
            }
        }
        if self.kernel.is_multiple_of(2) {
            return Err(Error::input(format!("the kernel must be odd, found {}", self.kernel))
                .hint("an even kernel has no centre: use 3, 5 or 7"));
        }
        if ![1, 2, 4].contains(&self.patch) {
            return Err(Error::input(format!("the patch must be 1, 2 or 4, found {}", self.patch)));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::input(format!("dropout must lie in [0, 1), found {}", self.dropout)));
        }
        Ok(())
    }

    /// Checks that the network fits the grid.
    pub fn validate_on(&self, geometry: &Geometry) -> Result<()> {
        self.validate()?;
        let Geometry { rows, columns, .. } = *geometry;
        if rows == 0 || columns == 0 {
            return Err(Error::input(format!("a grid of {rows} rows and {columns} columns has no points")));
        }
        if geometry.odd.len() != self.prognostic {
            return Err(Error::input(format!(
                "{} prognostic channels, but parities of {}",
                self.prognostic,
                geometry.odd.len()
            )));
        }
        let patch = self.patch;
        if geometry.periodic && patch > 1 && !columns.is_multiple_of(2 * patch) {
            return Err(Error::input(format!(
                "a patch of {patch} on {columns} longitudes: half the longitudes of a grid around the earth must be \
                 a multiple of the patch"
            ))
            .hint("use a smaller patch, or regrid"));
        }
        if !columns.is_multiple_of(patch) {
            return Err(Error::input(format!(
                "a patch of {patch} does not divide the {columns} columns of the grid"
            ))
            .hint("use a smaller patch, or cut the region to a multiple of it"));
        }
        Ok(())
    }
}

impl Geometry {
    /// Of a grid and its quantities: around the earth where the columns close, across a pole where rows reach it.
    pub fn of(layout: &Layout) -> Self {
        let grid = &layout.grid;
        let periodic = grid.is_periodic();
        let edge = |touches: bool, outermost: f64| {
            let row_on_pole = 90.0 - outermost.abs() < COORDINATE_TOLERANCE;
            if periodic && touches { Edge::Pole { row_on_pole } } else { Edge::Replicate }
        };
        let (south, north) = (grid.latitude[0], grid.latitude[grid.rows() - 1]);
        Self {
            rows: grid.rows(),
            columns: grid.columns(),
            periodic,
            north_south: [edge(grid.touches_south_pole(), south), edge(grid.touches_north_pole(), north)],
            odd: layout.quantities.iter().map(|q| q.behaviour() == Behaviour::WindComponent).collect(),
        }
    }

    /// Rows and columns of the inner grid: rows are padded to a whole number of patches.
    pub fn inner(&self, patch: usize) -> (usize, usize) {
        (self.rows.div_ceil(patch), self.columns / patch)
    }

    /// The edge rule of the inner grid. Whole patches are copied across a pole; no row of patches lies on it.
    pub fn edges(&self, patch: usize) -> Edges {
        let inner = |edge| match edge {
            Edge::Pole { .. } if patch > 1 => Edge::Pole { row_on_pole: false },
            edge => edge,
        };
        Edges { periodic: self.periodic, rows: self.north_south.map(inner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_follow_from_the_grid() {
        use crate::grid::Grid;
        use crate::variable::Quantity;
        let of = |latitude: &[f64], columns: usize, width: f64| {
            let longitude = (0..columns).map(|i| i as f64 * width).collect();
            let grid = Grid::new(latitude.to_vec(), longitude).unwrap();
            Geometry::of(&Layout { grid, quantities: vec![Quantity::parse("t850"), Quantity::parse("u850")] })
        };
        let global = of(&[-90.0, 0.0, 90.0], 4, 90.0);
        assert_eq!((global.periodic, &global.odd[..]), (true, &[false, true][..]));
        assert_eq!(global.north_south, [Edge::Pole { row_on_pole: true }; 2]);
        let centred = of(&[-45.0, 45.0], 4, 90.0);
        assert_eq!(centred.north_south, [Edge::Pole { row_on_pole: false }; 2]);
        let belt = of(&[-30.0, 0.0, 30.0], 4, 90.0);
        assert_eq!((belt.periodic, belt.north_south), (true, [Edge::Replicate; 2]));
        let region = of(&[70.0, 80.0, 90.0], 4, 10.0);
        assert_eq!((region.periodic, region.north_south), (false, [Edge::Replicate; 2]));
    }

    #[test]
    fn gate_channels_are_a_permutation_in_blocks_of_sixteen_units() {
        for hidden in [1, 3, 16, 20, 32, 37] {
            let mut seen = vec![false; 4 * hidden];
            for gate in 0..4 {
                for unit in 0..hidden {
                    assert!(!std::mem::replace(&mut seen[gate_channel(gate, unit, hidden)], true));
                }
            }
            assert!(seen.iter().all(|&s| s));
        }
        assert_eq!(gate_channel(2, 17, 20), 64 + 2 * 4 + 1);
    }
}
