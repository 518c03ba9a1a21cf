//! Semi-Lagrangian transport.

use super::super::{Departures, Edge, Interpolation, Lattice, Real};
use super::Cuda;
use super::launch::Launch;
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// As the kernels count what lies beyond an edge.
fn number(edge: Edge) -> usize {
    match edge {
        // A lattice is never cut.
        Edge::Replicate | Edge::Neighbour => 0,
        Edge::Pole { row_on_pole: true } => 1,
        Edge::Pole { row_on_pole: false } => 2,
    }
}

/// Rows, columns, and what lies beyond the edges.
fn shape<'a, T: Real>(launch: Launch<'a, T>, lattice: &Lattice) -> Launch<'a, T> {
    let [south, north] = lattice.edges.rows.map(number);
    let launch = launch.int(lattice.rows).int(lattice.columns).int(south).int(north);
    launch.int(usize::from(lattice.edges.periodic))
}

pub(super) fn depart<T: Real>(cuda: &Cuda<T>, departures: &Departures) -> Result<()> {
    let Departures { lattice, iterations, u, v, scale, places } = departures;
    let points = lattice.rows * lattice.columns;
    assert!(u.len() == points && v.len() == points, "a velocity at each point");
    assert_eq!(places.len(), 2 * points, "a place for each point");
    check_disjoint(&[*u, *v], &[*places]);
    let count = lattice.rows + lattice.columns;
    // Two numbers in double precision each.
    let directions = cuda.scratch(2 * count * size_of::<f64>())?;
    let launch = cuda.kernel("lattice_directions").address(directions).double(lattice.first);
    let launch = launch.double(lattice.dp).double(lattice.dl).int(lattice.rows).int(lattice.columns);
    launch.run(Grid::over(count))?;
    let launch = cuda.kernel("depart").slot(*u).slot(*v).slot(*places).address(directions);
    let launch = launch.double(lattice.first).double(lattice.dp).double(lattice.dl).double(*scale);
    shape(launch, lattice).int(*iterations).run(Grid::over(points))
}

pub(super) fn interpolate<T: Real>(cuda: &Cuda<T>, interpolation: &Interpolation) -> Result<()> {
    let Interpolation { lattice, places, from, to, limited } = interpolation;
    let points = lattice.rows * lattice.columns;
    assert_eq!(places.len(), 2 * points, "a place for each point");
    assert!(from.len() == to.len() && from.len().is_multiple_of(points), "whole fields");
    check_disjoint(&[*places, *from], &[*to]);
    let launch = cuda.kernel("interpolate").slot(*places).slot(*from).slot(*to).int(from.len() / points);
    shape(launch, lattice).int(usize::from(*limited)).run(Grid::over(points))
}
