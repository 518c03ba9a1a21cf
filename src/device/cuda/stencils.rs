//! Points and their neighbours: damping, sums of fields, Arakawa's Jacobian.

use super::super::{Biharmonic, HALO, Jacobian, Real, Slot, Sum};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::rows::width;
use crate::error::Result;

pub(super) fn biharmonic<T: Real>(cuda: &Cuda<T>, damping: &Biharmonic) -> Result<()> {
    let (rows, columns) = (damping.rows, damping.columns);
    let len = (rows + 2 * HALO) * width(columns);
    assert!(damping.x.len() == len && damping.to.len() == len, "fields of the damping's shape");
    check_disjoint(&[damping.x], &[damping.to]);
    let poles = usize::from(damping.on_pole[0]) + 2 * usize::from(damping.on_pole[1]);
    let launch = cuda.kernel("biharmonic").slot(damping.x).slot(damping.to).int(rows).int(columns);
    launch.int(poles).real(damping.weight).run(Grid::over(columns).times(rows))
}

pub(super) fn sum<T: Real>(cuda: &Cuda<T>, sum: &Sum) -> Result<()> {
    let (rows, n) = (sum.rows, sum.columns);
    assert!(sum.terms.len() <= Sum::MOST, "a sum of at most {} terms", Sum::MOST);
    let image = |halo: usize| (rows + 2 * halo) * (n + 2 * halo);
    assert_eq!(sum.y.slot.len(), image(sum.y.halo), "a sum of {rows} x {n} points");
    let mut reads = Vec::with_capacity(2 * Sum::MOST);
    let mut by_row = 0;
    for (t, term) in sum.terms.iter().enumerate() {
        assert_eq!(term.x.slot.len(), image(term.x.halo), "a term of {rows} x {n} points");
        let factors = term.factors.unwrap_or(Slot::EMPTY);
        assert!(
            [0, rows, rows * n].contains(&factors.len()),
            "a factor for all, for each row or for each point"
        );
        by_row |= usize::from(factors.len() == rows) << t;
        reads.extend([term.x.slot, factors]);
    }
    check_disjoint(&reads, &[sum.y.slot]);

    let term = |t: usize| sum.terms.get(t);
    let mut launch = cuda.kernel("sum_terms").slot(sum.y.interior(n));
    for t in 0..Sum::MOST {
        launch = launch.maybe(term(t).map(|term| term.x.interior(n)));
    }
    for t in 0..Sum::MOST {
        launch = launch.maybe(term(t).and_then(|term| term.factors));
    }
    launch = launch.int(n).int(sum.terms.len()).long(n + 2 * sum.y.halo);
    for t in 0..Sum::MOST {
        launch = launch.long(term(t).map_or(0, |term| n + 2 * term.x.halo));
    }
    launch = launch.int(by_row).real(sum.keep);
    for t in 0..Sum::MOST {
        launch = launch.real(term(t).map_or(0.0, |term| term.weight));
    }
    launch.run(Grid::over(n).times(rows))
}

pub(super) fn jacobian<T: Real>(cuda: &Cuda<T>, shape: &Jacobian) -> Result<()> {
    let Jacobian { rows, columns: n, p, q, table, diffusion, k } = *shape;
    assert!(
        p.len() == (rows + 2) * (n + 2)
            && q.len() == p.len()
            && table.len() == Jacobian::MEASURES * (rows + 2)
            && k.len() == rows * n,
        "a Jacobian of {rows} x {n} points"
    );
    check_disjoint(&[p, q, table], &[k]);
    let launch = cuda.kernel("jacobian").slot(p).slot(q).slot(table).slot(k).int(n).real(diffusion);
    launch.run(Grid::over(n).times(rows))
}
