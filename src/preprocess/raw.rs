//! # Batches that a device decodes
//!
//! Where the device can work beside a training step, the processor only reads and inflates. A [`RawBatch`] holds the
//! chunks as they are (packed numbers of any type and byte order, whole chunks even where the field uses a part) and, for
//! each field, where in them its numbers lie and what they mean. [`Recipe`] holds what is the same for every batch, in
//! the device's memory: the climatology's coefficients, the mask, the tables of regridding. Its
//! [`prepare`](Recipe::prepare) asks the device for two operations:
//!
//! ```text
//! decode      stored number -> missing -> scale and units -> sparse product -> sum over a step -> logarithm
//!             -> minus climatology, mean -> over deviation -> mask -> turned -> frames
//! daylight    calendar -> forcings
//! ```
//!
//! Both write to slots of their own, from which [`Device::hand_over`] copies them to where the network reads them, so that
//! batch n + 1 is copied and prepared while n is trained on.
//!
//! What needs more than one date or many passes stays with the processor, which then ships normalised frames: data sets
//! that are kept in memory, `missing = "interpolate"`, and the day-of-year climatology, which is too large for a device.
//! Fields that cannot be had as they are stored (chunks along time, a dimension `expver`, chunks never written, more
//! than two numbers for "missing") are decoded by the processor and shipped as float32. A hole that should not be there
//! becomes NaN, and so does the loss; then the processor prepares the same batch again and names quantity and date.

use std::sync::Arc;

use super::catalogue::Catalogue;
use super::inputs::{Inputs, SOLAR_UNIT};
use super::loader::Request;
use super::normalizer::Normalizer;
use super::solar;
use super::state_reader::{Content, RawField};
use crate::climatology::{Climatology, Harmonic};
use crate::device::{
    ArenaPlan, Bases, ByteOrder, Code, Daylight, Decode, Device, Moment, Plane, Scaling, Slot, StoredNumber,
};
use crate::error::Result;
use crate::field::Layout;
use crate::io::{Arrangement, Linear, Number, StoredField, VariableInfo};
use crate::time::{InitTime, ValidTime};

/// Windows of frames as the files hold them.
pub struct RawBatch {
    chunks: Vec<Vec<u8>>,
    planes: Vec<Plane>,
    /// `[frame, batch, channel]`: where the planes of each start, and the end.
    terms: Vec<u32>,
    /// `[frame, batch]`: which coefficients of the climatology hold, and `[frame, batch, term]` their weights.
    sets: Vec<u32>,
    weights: Vec<f32>,
    /// `[frame - 1, batch]`
    moments: Vec<Moment>,
    /// Valid time of the last input frame of each window.
    pub init: Vec<InitTime>,
    /// By how many columns the globe is turned.
    pub turn: u32,
    /// Numbers in the frames and in the forcings that come of it.
    pub frames: usize,
    pub forcings: usize,
    /// What was asked for.
    pub(super) request: Request,
}

impl RawBatch {
    /// `valid` are the dates of the images, in their order; `fields` their fields, by image and channel.
    pub(super) fn new(
        catalogue: &Catalogue,
        normalizer: &Normalizer,
        request: &Request,
        valid: &[ValidTime],
        fields: Vec<RawField<'_>>,
    ) -> Result<Self> {
        let channels = catalogue.layout().channels();
        let mut raw = Self {
            chunks: Vec::new(),
            planes: Vec::with_capacity(fields.len()),
            terms: Vec::with_capacity(valid.len() * channels + 1),
            sets: Vec::new(),
            weights: Vec::new(),
            moments: Vec::new(),
            init: Vec::new(),
            turn: request.turn,
            frames: valid.len() * catalogue.layout().grid.points() * channels,
            forcings: 0,
            request: request.clone(),
        };
        for field in fields {
            // The first of a date and channel: its planes begin here.
            let at = field.date * channels + field.channel;
            raw.terms.resize(raw.terms.len().max(at + 1), raw.planes.len() as u32);
            raw.add(catalogue, field);
        }
        raw.terms.resize(valid.len() * channels + 1, raw.planes.len() as u32);
        if let Some(Climatology::Harmonic(harmonic)) = normalizer.climatology() {
            for &valid in valid {
                let (set, weights) = harmonic.combination(valid)?;
                raw.sets.push(set as u32);
                raw.weights.extend(weights);
            }
        }
        Ok(raw)
    }

    fn add(&mut self, catalogue: &Catalogue, field: RawField<'_>) {
        let variable = &field.part.variable;
        let grid = &variable.grid;
        let regrid = catalogue.regrids.iter().find(|(source, _)| source.matches(grid));
        let product = regrid.map(|(_, regrid)| regrid.product().clone());
        let first = self.chunks.len();
        let plane = match field.content {
            Content::Stored(stored) => {
                let plane = Plane { product, ..plane(variable, &stored, first) };
                self.chunks.extend(stored.chunks);
                plane
            }
            Content::Values(values) => {
                self.chunks.push(values.iter().flat_map(|x| x.to_ne_bytes()).collect());
                Plane { product, ..Plane::plain(grid.rows(), grid.columns(), first) }
            }
        };
        self.planes.push(plane);
    }

    /// With the forcings of each step, `forcings` numbers in all.
    pub(super) fn with_moments(self, moments: Vec<Moment>, forcings: usize, init: Vec<InitTime>) -> Self {
        Self { moments, forcings, init, ..self }
    }

    /// As it travels to the device [bytes].
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}

/// What a stored field is to a device; its chunks begin with number `first`.
fn plane(variable: &VariableInfo, stored: &StoredField, first: usize) -> Plane {
    let packing = &variable.packing;
    let nth = |n: usize| packing.missing.get(n).copied().unwrap_or(f64::NAN);
    let pair = |linear: Linear| [linear.factor, linear.offset];
    let code = Code {
        number: match packing.number {
            Number::I8 => StoredNumber::I8,
            Number::U8 => StoredNumber::U8,
            Number::I16 => StoredNumber::I16,
            Number::U16 => StoredNumber::U16,
            Number::I32 => StoredNumber::I32,
            Number::U32 => StoredNumber::U32,
            Number::I64 => StoredNumber::I64,
            Number::U64 => StoredNumber::U64,
            Number::F32 => StoredNumber::F32,
            Number::F64 => StoredNumber::F64,
        },
        order: match stored.arrangement {
            Arrangement::LittleEndian => ByteOrder::LittleEndian,
            Arrangement::BigEndian => ByteOrder::BigEndian,
            Arrangement::Shuffled => ByteOrder::Shuffled,
        },
        scale: pair(packing.scale),
        conversion: pair(variable.conversion),
        bounds: [packing.valid_min.unwrap_or(f64::NEG_INFINITY), packing.valid_max.unwrap_or(f64::INFINITY)],
        missing: [nth(0), nth(1)],
    };
    let [rows, file_columns] = stored.file;
    Plane {
        code,
        rows,
        file_columns,
        columns: variable.grid.columns(),
        flipped: stored.latitude_descending,
        first_column: stored.first_column,
        tile: stored.tile,
        start: stored.start,
        strides: stored.strides,
        chunks: first..first + stored.chunks.len(),
        product: None,
    }
}

/// What preparing needs on a device besides the batches.
pub struct Recipe {
    layout: Arc<Layout>,
    normalizer: Arc<Normalizer>,
    scalings: Vec<Scaling>,
    /// `[times of day, term, lat, lon, channel]`
    bases: Option<Slot>,
    mask: Option<Slot>,
    /// [rad]
    latitudes: Vec<f64>,
    longitudes: Vec<f64>,
    forcings: usize,
    light: Option<usize>,
}

impl Recipe {
    /// Takes memory for it.
    pub fn plan(arena: &mut ArenaPlan, normalizer: Arc<Normalizer>, inputs: &Inputs) -> Self {
        let layout = normalizer.layout().clone();
        let values = layout.grid.points() * layout.channels();
        let bases = match normalizer.climatology() {
            Some(Climatology::Harmonic(harmonic)) => {
                Some(arena.slot(harmonic.coefficients.len() * Harmonic::TERMS * values))
            }
            _ => None,
        };
        Self {
            scalings: normalizer.scalings(),
            bases,
            mask: normalizer.mask().map(|mask| arena.slot(mask.len())),
            latitudes: solar::radians(&layout.grid.latitude),
            longitudes: solar::radians(&layout.grid.longitude),
            forcings: inputs.forcing_names().len(),
            light: inputs.solar_channel(),
            layout,
            normalizer,
        }
    }

    /// Fills it.
    pub fn upload(&self, device: &mut dyn Device<f32>) {
        if let (Some(slot), Some(Climatology::Harmonic(harmonic))) =
            (self.bases, self.normalizer.climatology())
        {
            let mut first = 0;
            for coefficients in harmonic.coefficients.values() {
                device.upload(slot.part(first, coefficients.len()), coefficients);
                first += coefficients.len();
            }
        }
        if let (Some(slot), Some(mask)) = (self.mask, self.normalizer.mask()) {
            device.upload(slot, mask);
        }
    }

    /// Makes the frames and forcings of a batch, beside other work.
    pub fn prepare(&self, device: &mut dyn Device<f32>, raw: &RawBatch, frames: Slot, forcings: Slot) {
        let (rows, columns, channels) = self.layout.shape();
        let images = (raw.terms.len() - 1) / channels;
        device.decode(&Decode {
            images,
            rows,
            columns,
            scalings: &self.scalings,
            chunks: &raw.chunks,
            planes: &raw.planes,
            terms: &raw.terms,
            bases: self.bases.map(|fields| Bases {
                fields,
                terms: Harmonic::TERMS,
                sets: &raw.sets,
                weights: &raw.weights,
            }),
            mask: self.mask,
            turns: &vec![raw.turn; images],
            fields: frames,
        });
        if self.forcings > 0 {
            device.daylight(&Daylight {
                latitudes: &self.latitudes,
                longitudes: &self.longitudes,
                channels: self.forcings,
                light: self.light,
                unit: SOLAR_UNIT,
                moments: &raw.moments,
                fields: forcings,
            });
        }
    }
}
