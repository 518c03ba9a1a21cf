//! A layer on the device: its tables, its halos, and the way of a state there and back. Time steps are built on this.

use std::ops::Range;

use super::{Fields, Layer};
use crate::device::{
    ArenaPlan, Biharmonic, Boundary, Channel, Device, Edge, Flow, FlowOutput, HALO, HaloMap, Real,
    RowMeasures, Slot, Stagger, Triple, company,
};
use crate::error::Result;

/// What every scheme of stepping shares.
#[derive(Debug, Clone)]
pub struct Dynamics {
    layer: Layer,
    /// The rows of the layer that lie on this device.
    band: Range<usize>,
    flow: Flow,
    u_map: HaloMap,
    v_map: HaloMap,
    h_map: HaloMap,
    /// Of u, v and h, without the rows beyond the band: those are brought together.
    here: [HaloMap; 3],
}

impl Dynamics {
    /// Takes slots for the tables.
    pub fn plan(layer: Layer, arena: &mut ArenaPlan) -> Result<Self> {
        let all = 0..layer.sphere.rows;
        Self::plan_band(layer, all, arena)
    }

    /// As [`plan`](Self::plan), of some rows of the layer; the device is given company that holds the others.
    pub fn plan_band(layer: Layer, band: Range<usize>, arena: &mut ArenaPlan) -> Result<Self> {
        layer.check()?;
        let (rows, columns) = (band.len(), layer.sphere.columns);
        let inner = [band.start > 0, band.end < layer.sphere.rows];
        let poles = inner.map(|inner| layer.sphere.global && !inner);
        let mut edges = layer.sphere.edges();
        for (edge, inner) in edges.rows.iter_mut().zip(inner) {
            if inner {
                *edge = Edge::Neighbour;
            }
        }
        let map = |odd, stagger| edges.map(1, rows, columns, HALO, &[Channel { odd, stagger }]);
        let len = (rows + 2 * HALO) * (columns + 2 * HALO);
        let of_rows = layer.coriolis.chunks(columns).all(|row| row.iter().all(|f| *f == row[0]));
        let flow = Flow {
            rows,
            columns,
            form: layer.form,
            g: layer.gravity,
            depth: layer.depth,
            dy: layer.sphere.dy(),
            poles,
            cap_area: layer.sphere.cap_area(),
            table: arena.slot((rows + 2 * HALO) * RowMeasures::COUNT),
            f: arena.slot(if of_rows { rows + 2 * HALO } else { len }),
            b: layer.orography.as_ref().map(|_| arena.slot(len)),
        };
        let u_map = map(true, Stagger::West)?;
        let v_map = map(true, Stagger::South)?;
        let h_map = map(false, Stagger::Centre)?;
        let here = [&u_map, &v_map, &h_map].map(HaloMap::here);
        Ok(Self { layer, band, flow, u_map, v_map, h_map, here })
    }

    /// Shapes and measures of the flow on the device.
    pub(super) fn shape(&self) -> &Flow {
        &self.flow
    }

    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The rows of the layer that lie on this device.
    pub fn band(&self) -> &Range<usize> {
        &self.band
    }

    /// Slots of a state, or of a tendency.
    pub fn triple(&self, arena: &mut ArenaPlan) -> Triple {
        let mut slot = || arena.slot(self.flow.len());
        Triple { u: slot(), v: slot(), h: slot() }
    }

    /// Fills the tables, after the device has allocated the plan.
    pub fn prepare<T: Real>(&self, device: &mut dyn Device<T>) {
        let (rows, columns) = (self.flow.rows as isize, self.flow.columns as isize);
        let (first, last) = (self.band.start as isize, self.layer.sphere.rows as isize);
        let halo = HALO as isize;
        let padded_rows = -halo..rows + halo;
        let table: Vec<T> = padded_rows
            .clone()
            .flat_map(|j| self.layer.measures(first + j).coefficients(self.flow.dy))
            .map(T::of)
            .collect();
        device.upload(self.flow.table, &table);
        let at = |j: isize, i: isize| {
            let column =
                if self.layer.sphere.global { i.rem_euclid(columns) } else { i.clamp(0, columns - 1) };
            T::of(self.layer.coriolis[((first + j).clamp(0, last) * columns + column) as usize])
        };
        let f: Vec<T> = match self.flow.f.len() == self.flow.len() {
            true => padded_rows
                .flat_map(|j| (-halo..columns + halo).map(move |i| (j, i)))
                .map(|(j, i)| at(j, i))
                .collect(),
            false => padded_rows.map(|j| at(j, 0)).collect(),
        };
        device.upload(self.flow.f, &f);
        if let (Some(slot), Some(orography)) = (self.flow.b, &self.layer.orography) {
            self.upload_field(device, self.cut(orography), 0.0, slot);
            device.halo_fill(&self.h_map, slot);
        }
    }

    /// Puts a state onto the device, h as the departure from the layer's depth; halos are not filled.
    pub fn upload<T: Real>(&self, device: &mut dyn Device<T>, fields: &Fields, to: Triple) -> Result<()> {
        self.layer.check_fields(fields)?;
        self.upload_field(device, self.cut(&fields.u), 0.0, to.u);
        self.upload_field(device, self.cut(&fields.v), 0.0, to.v);
        self.upload_field(device, self.cut(&fields.h), self.layer.depth, to.h);
        Ok(())
    }

    /// The device's rows of a field of the layer.
    fn cut<'a>(&self, field: &'a [f64]) -> &'a [f64] {
        let columns = self.layer.sphere.columns;
        &field[self.band.start * columns..self.band.end * columns]
    }

    /// The device's rows of a state.
    pub fn download<T: Real>(&self, device: &dyn Device<T>, from: Triple) -> Fields {
        Fields {
            u: self.download_field(device, from.u, 0.0),
            v: self.download_field(device, from.v, 0.0),
            h: self.download_field(device, from.h, self.layer.depth),
        }
    }

    /// Puts `values - offset`, `[rows, columns]`, into the interior of a slot, and 0 into its halo.
    pub fn upload_field<T: Real>(&self, device: &mut dyn Device<T>, values: &[f64], offset: f64, to: Slot) {
        let (columns, width) = (self.flow.columns, self.flow.columns + 2 * HALO);
        let mut padded = vec![T::default(); to.len()];
        for (row, values) in padded[HALO * width..].chunks_mut(width).zip(values.chunks(columns)) {
            row[HALO..].iter_mut().zip(values).for_each(|(x, &value)| *x = T::of(value - offset));
        }
        device.upload(to, &padded);
    }

    /// The interior of a slot plus `offset`, `[rows, columns]`.
    pub fn download_field<T: Real>(&self, device: &dyn Device<T>, from: Slot, offset: f64) -> Vec<f64> {
        let (columns, width) = (self.flow.columns, self.flow.columns + 2 * HALO);
        let mut padded = vec![T::default(); from.len()];
        device.download(from, &mut padded);
        let rows = padded[HALO * width..].chunks(width).take(self.flow.rows);
        rows.flat_map(|row| row[HALO..][..columns].iter().map(|x| x.wide() + offset)).collect()
    }

    /// Fills the halos of a state.
    pub fn fill<T: Real>(&self, device: &mut dyn Device<T>, x: Triple) {
        let fields = [(&self.u_map, x.u), (&self.v_map, x.v), (&self.h_map, x.h)];
        self.here.iter().zip(fields).for_each(|(map, (_, x))| device.halo_fill(map, x));
        company::fill_together(device, &fields);
    }

    /// Brings the rows beyond the band of fields that stand where v stands.
    pub(super) fn fill_cross<T: Real>(&self, device: &mut dyn Device<T>, fields: &[Slot]) {
        let fields: Vec<_> = fields.iter().map(|&v| (&self.v_map, v)).collect();
        company::fill_together(device, &fields);
    }

    /// Fills the halos of x, computes its tendency and does with it what `output` says.
    pub fn flow<T: Real>(&self, device: &mut dyn Device<T>, x: Triple, output: &FlowOutput) {
        self.fill(device, x);
        device.flow(&self.flow, x, output);
    }

    /// Damps the shortest waves of the wind of x for a time of `dt` [s], if the layer is damped; `work` is overwritten.
    pub fn damp<T: Real>(&self, device: &mut dyn Device<T>, x: Triple, work: Triple, dt: f64) {
        let Some(time) = self.layer.damping else { return };
        let weight = dt / time / 32.0;
        let parts = [(&self.u_map, x.u, work.u, [false; 2]), (&self.v_map, x.v, work.v, self.flow.poles)];
        for (map, to, x, on_pole) in parts {
            device.halo_fill(map, to);
            device.copy(to, x);
            let (rows, columns) = (self.flow.rows, self.flow.columns);
            device.biharmonic(&Biharmonic { rows, columns, weight, x, to, on_pole });
        }
    }
}
