//! Contour lines by marching squares.

use std::collections::BTreeMap;

/// One edge of the lattice between nodes: (row, column, direction), direction 0 along the row and 1 across it.
type Edge = (usize, usize, u8);

/// The lines where a field equals `level`, in fractional (column, row) places of the lattice, chained as far as
/// they go. Cells with a missing corner carry no line.
///
/// * `value(row, column)` - the field at a node.
pub fn contour(
    rows: usize,
    columns: usize,
    value: impl Fn(usize, usize) -> f64,
    level: f64,
) -> Vec<Vec<(f64, f64)>> {
    let mut links: BTreeMap<Edge, Vec<Edge>> = BTreeMap::new();
    let mut link = |a: Edge, b: Edge| {
        links.entry(a).or_default().push(b);
        links.entry(b).or_default().push(a);
    };
    for i in 0..rows.saturating_sub(1) {
        for j in 0..columns.saturating_sub(1) {
            let corners = [value(i, j), value(i, j + 1), value(i + 1, j + 1), value(i + 1, j)];
            if !corners.iter().all(|v| v.is_finite()) {
                continue;
            }
            let above = corners.map(|v| v >= level);
            // edges between corners 0-1, 1-2, 2-3, 3-0
            let edges: [Edge; 4] = [(i, j, 0), (i, j + 1, 1), (i + 1, j, 0), (i, j, 1)];
            let crossed: Vec<usize> = (0..4).filter(|e| above[*e] != above[(e + 1) % 4]).collect();
            match crossed[..] {
                [a, b] => link(edges[a], edges[b]),
                [_, _, _, _] => {
                    // a saddle: the mean of the corners says which two stay connected
                    let centre = corners.iter().sum::<f64>() / 4.0 >= level;
                    let shift = if centre == above[0] { 0 } else { 3 };
                    link(edges[shift], edges[(shift + 1) % 4]);
                    link(edges[(shift + 2) % 4], edges[(shift + 3) % 4]);
                }
                _ => {}
            }
        }
    }
    let place = |(i, j, direction): Edge| {
        let (di, dj) = if direction == 0 { (0, 1) } else { (1, 0) };
        let (a, b) = (value(i, j), value(i + di, j + dj));
        let share = if b == a { 0.5 } else { (level - a) / (b - a) };
        (j as f64 + share * dj as f64, i as f64 + share * di as f64)
    };
    let mut lines = Vec::new();
    // open lines first, from their ends; what is left then are rings
    let ends: Vec<Edge> = links.iter().filter(|(_, to)| to.len() == 1).map(|(edge, _)| *edge).collect();
    let all: Vec<Edge> = links.keys().copied().collect();
    for start in ends.into_iter().chain(all) {
        let mut line = Vec::new();
        let mut here = start;
        while let Some(next) = links.get_mut(&here).and_then(Vec::pop) {
            if let Some(back) = links.get_mut(&next)
                && let Some(at) = back.iter().position(|edge| *edge == here)
            {
                back.swap_remove(at);
            }
            if line.is_empty() {
                line.push(place(here));
            }
            line.push(place(next));
            here = next;
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contour_of_a_cone_is_one_closed_circle() {
        let lines = contour(41, 41, |i, j| (i as f64 - 20.0).hypot(j as f64 - 20.0), 12.5);
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!(line.first(), line.last());
        for (x, y) in line {
            // linear interpolation of a cone errs by less than the curvature over one cell, 1 / (8 * 12)
            assert!(((x - 20.0).hypot(y - 20.0) - 12.5).abs() < 0.02);
        }
    }

    #[test]
    fn a_slope_gives_one_line_from_edge_to_edge() {
        let lines = contour(5, 9, |_, j| j as f64, 3.25);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].len(), 5);
        assert!(lines[0].iter().all(|(x, _)| (x - 3.25).abs() < 1e-12));
    }

    #[test]
    fn saddles_never_cross_and_missing_corners_cut() {
        let saddle = [[1.0, 0.0], [0.0, 1.0]];
        assert_eq!(contour(2, 2, |i, j| saddle[i][j], 0.5).len(), 2);
        assert!(contour(2, 2, |i, j| if i + j == 0 { f64::NAN } else { saddle[i][j] }, 0.5).is_empty());
        assert!(contour(0, 0, |_, _| 0.0, 0.5).is_empty());
    }
}
