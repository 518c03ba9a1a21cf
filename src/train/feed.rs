//! Brings batches to the device: where it can work beside a step, the next one is read, copied and prepared while the
//! step trains on this one.

use std::time::Instant;

use crate::device::{ArenaPlan, Device, Slot};
use crate::error::{Error, Result};
use crate::preprocess::{Batch, Effort, Input, Loader, Position, Recipe, turn_columns};
use crate::train::band::Band;
use crate::train::curve::InputLine;

/// Where a step reads its batch. Mask and statics are only written where the globe is turned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub frames: Slot,
    pub forcings: Slot,
    pub statics: Slot,
    /// Of the loss.
    pub mask: Option<Slot>,
}

/// What is turned with the batches.
pub(super) struct Turning {
    pub rows: usize,
    pub columns: usize,
    /// `[lat, lon, static]`
    pub statics: Vec<f32>,
    /// `[lat, lon, channel]`
    pub mask: Option<Vec<f32>>,
}

/// The way from the loader to the network.
pub(super) struct Feed {
    loader: Loader<Input>,
    recipe: Option<Recipe>,
    /// What a step reads, and where batches are made for it: there itself, or beside.
    used: Fields,
    made: Fields,
    beside: bool,
    turning: Option<Turning>,
    /// What this rank trains on.
    band: Band,
    /// The batch that is on its way, and where the loader stood before it.
    coming: Option<(Position, Result<Input>)>,
    times: Times,
}

/// Since the last line [s].
#[derive(Default)]
struct Times {
    seen: Effort,
    /// Until the loader gave a batch.
    waited: f64,
    /// Until the device had it, as the host sees it.
    given: f64,
}

impl Feed {
    /// Takes memory of its own where the device works beside.
    pub fn plan(
        arena: &mut ArenaPlan,
        loader: Loader<Input>,
        recipe: Option<Recipe>,
        used: Fields,
        turning: Option<Turning>,
        beside: bool,
        band: Band,
    ) -> Self {
        let made = if beside {
            // Devices decode whole fields.
            let whole = |len| if recipe.is_some() { band.whole(len) } else { len };
            let (frames, forcings) =
                (arena.slot(whole(used.frames.len())), arena.slot(whole(used.forcings.len())));
            let mut like = |slot: Slot| arena.slot(slot.len());
            match &turning {
                None => Fields { frames, forcings, ..used },
                Some(_) => {
                    Fields { frames, forcings, statics: like(used.statics), mask: used.mask.map(like) }
                }
            }
        } else {
            used
        };
        let times = Times { seen: loader.effort(), ..Times::default() };
        Self { loader, recipe, used, made, beside, turning, band, coming: None, times }
    }

    /// The rows that the step reads.
    pub fn band(&self) -> &Band {
        &self.band
    }

    /// Fills what stays the same.
    pub fn start(&self, device: &mut dyn Device<f32>) {
        if let Some(recipe) = &self.recipe {
            recipe.upload(device);
        }
    }

    /// The batch that [`take`](Self::take) gives next.
    pub fn position(&self) -> Position {
        self.coming.as_ref().map_or(self.loader.position(), |(before, _)| *before)
    }

    /// Continues at a position with rollouts of this length. What was read ahead stays where it fits.
    pub fn enter(&mut self, lead_steps: usize, position: Position) -> Result<()> {
        if lead_steps != self.loader.lead_steps() {
            self.coming = None;
            self.loader.set_lead_steps(lead_steps)?;
        }
        if self.position() != position {
            self.coming = None;
            self.loader.seek(position);
        }
        Ok(())
    }

    /// Brings the next batch to where the step reads it.
    pub fn take(&mut self, device: &mut dyn Device<f32>) -> Result<Input> {
        if self.coming.is_none() {
            self.bring(device);
        }
        let Some((_, input)) = self.coming.take() else { return Err(no_more()) };
        let input = input?;
        device.hand_over(&self.copies(&input));
        Ok(input)
    }

    /// Lets the next batch come while the device is busy with this one.
    pub fn bring_next(&mut self, device: &mut dyn Device<f32>) {
        if self.beside {
            self.bring(device);
        }
    }

    fn bring(&mut self, device: &mut dyn Device<f32>) {
        let before = self.loader.position();
        let start = Instant::now();
        let input = self.loader.next().unwrap_or_else(|| Err(no_more()));
        let there = Instant::now();
        if let Ok(input) = &input {
            self.give(device, input);
        }
        self.times.waited += (there - start).as_secs_f64();
        self.times.given += there.elapsed().as_secs_f64();
        self.coming = Some((before, input));
    }

    fn give(&self, device: &mut dyn Device<f32>, input: &Input) {
        let Fields { frames, forcings, statics, mask } = self.made_of(input);
        match input {
            Input::Ready(batch) => {
                device.stage(frames, &self.band.frames(batch));
                device.stage(forcings, &self.band.forcings(batch));
            }
            Input::Raw(raw) => {
                if let Some(recipe) = &self.recipe {
                    recipe.prepare(device, raw, frames, forcings);
                }
            }
        }
        if let Some(turning) = &self.turning {
            device.stage(statics, &turning.turned(&turning.statics, input.turn()));
            if let (Some(slot), Some(mask)) = (mask, &turning.mask) {
                device.stage(slot, &turning.turned(mask, input.turn()));
            }
        }
    }

    /// Where a batch is made: rollouts may be shorter than the longest.
    fn made_of(&self, input: &Input) -> Fields {
        let (frames, forcings) = self.lengths(input);
        Fields {
            frames: self.made.frames.part(0, frames),
            forcings: self.made.forcings.part(0, forcings),
            ..self.made
        }
    }

    fn lengths(&self, input: &Input) -> (usize, usize) {
        match input {
            Input::Ready(batch) => (self.band.len(batch.frames.len()), self.band.len(batch.forcings.len())),
            Input::Raw(raw) => (raw.frames, raw.forcings),
        }
    }

    /// From where a batch was made to where the step reads it.
    fn copies(&self, input: &Input) -> Vec<(Slot, Slot)> {
        if !self.beside {
            return Vec::new();
        }
        let made = self.made_of(input);
        let mut copies = match input {
            Input::Raw(_) if !self.band.is_whole() => self.cut(&made),
            _ => vec![(made.frames, self.used.frames), (made.forcings, self.used.forcings)],
        };
        if self.turning.is_some() {
            copies.push((made.statics, self.used.statics));
            copies.extend(made.mask.zip(self.used.mask));
        }
        copies.into_iter().map(|(from, to)| (from, to.part(0, from.len()))).collect()
    }

    /// From the band's rows in whole fields to where the step reads them.
    fn cut(&self, made: &Fields) -> Vec<(Slot, Slot)> {
        let frames = self.band.parts_of_frames(made.frames.len());
        let forcings = self.band.parts_of_forcings(made.forcings.len());
        let copy = |from: Slot, to: Slot, (n, part): (usize, std::ops::Range<usize>)| {
            (from.part(part.start, part.len()), to.part(n * part.len(), part.len()))
        };
        let frames = frames.enumerate().map(|part| copy(made.frames, self.used.frames, part));
        let forcings = forcings.enumerate().map(|part| copy(made.forcings, self.used.forcings, part));
        frames.chain(forcings).collect()
    }

    /// Whether the device decodes what the files hold.
    pub fn is_raw(&self) -> bool {
        self.recipe.is_some()
    }

    /// The loader's next batch, which goes nowhere: to measure.
    pub fn read(&mut self) -> Result<Input> {
        self.loader.next().unwrap_or_else(|| Err(no_more()))
    }

    /// Brings a batch, again perhaps, to where the step reads it: to measure.
    pub fn give_again(&self, device: &mut dyn Device<f32>, input: &Input) {
        self.give(device, input);
        device.hand_over(&self.copies(input));
    }

    /// A batch as the processor prepares it, which finds what is wrong with it.
    pub fn prepared(&self, input: &Input) -> Result<Batch> {
        self.loader.prepared(input).map(|batch| self.band.batch(batch))
    }

    /// What the input has cost since the last line. Asked after [`Device::finish`], it does not wait.
    pub fn line(&mut self, device: &dyn Device<f32>) -> InputLine {
        let effort = self.loader.effort();
        let times = std::mem::replace(&mut self.times, Times { seen: effort, ..Times::default() });
        let spent = effort - times.seen;
        let mut line = InputLine {
            bytes: spent.bytes,
            read_s: spent.reading,
            prepare_s: spent.preparing,
            copy_s: times.given,
            wait_s: times.waited,
        };
        if let Some(beside) = device.beside() {
            line.prepare_s += beside.preparing;
            line.copy_s = beside.copying;
            line.wait_s += beside.waiting;
        }
        line
    }
}

impl Turning {
    fn turned(&self, fields: &[f32], turn: u32) -> Vec<f32> {
        let channels = fields.len() / (self.rows * self.columns);
        let mut turned = fields.to_vec();
        turn_columns(&mut turned, self.columns, channels, turn);
        turned
    }
}

fn no_more() -> Error {
    Error::run("the training data have come to an end")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::device::cpu::Cpu;
    use crate::preprocess::{
        Catalogue, DataPlan, DuplicatePolicy, Forcing, Inputs, InputsPlan, LoaderPlan, MissingPolicy,
        Normalizer, NormalizerPlan, Share, SourcePlan, Span, Split, StaticField, StaticPlan,
    };
    use crate::time::{Calendar, ValidTime};

    const ROWS: usize = 4;
    const COLUMNS: usize = 8;

    /// Forty days on a globe, packed.
    fn write(path: &Path) {
        let mut file = netcdf::create(path).unwrap();
        for (name, length, units, step) in [
            ("time", 40, "days since 2000-01-01", 1.0),
            ("latitude", ROWS, "degrees_north", 45.0),
            ("longitude", COLUMNS, "degrees_east", 45.0),
        ] {
            file.add_dimension(name, length).unwrap();
            let mut axis = file.add_variable::<f64>(name, &[name]).unwrap();
            axis.put_attribute("units", units).unwrap();
            let first = if name == "latitude" { -67.5 } else { 0.0 };
            axis.put_values(&(0..length).map(|n| first + n as f64 * step).collect::<Vec<_>>(), ..).unwrap();
        }
        let mut t = file.add_variable::<i16>("t2m", &["time", "latitude", "longitude"]).unwrap();
        t.put_attribute("units", "K").unwrap();
        t.put_attribute("scale_factor", 0.01_f64).unwrap();
        t.put_attribute("add_offset", 280.0_f64).unwrap();
        let values: Vec<i16> = (0..40 * ROWS * COLUMNS).map(|n| (n * 7919 % 2003) as i16 - 1000).collect();
        t.put_values(&values, ..).unwrap();
        file.close().unwrap();
    }

    struct Setting {
        catalogue: Arc<Catalogue>,
        normalizer: Arc<Normalizer>,
        inputs: Arc<Inputs>,
    }

    impl Setting {
        fn new(file: &Path) -> Self {
            let at = |day: &str| ValidTime::parse(day, Calendar::Standard).unwrap();
            let train = Span::new(at("2000-01-01"), at("2000-02-10")).unwrap();
            let plan = DataPlan {
                sources: vec![SourcePlan {
                    glob: file.display().to_string(),
                    variable: "t2m".into(),
                    levels: Vec::new(),
                    rename: None,
                    unit: None,
                    period: None,
                }],
                step: "1d".parse().unwrap(),
                quantities: Vec::new(),
                split: Some(Split::new(train, None, None).unwrap()),
                grid: None,
                missing: MissingPolicy::Error,
                duplicates: DuplicatePolicy::Error,
            };
            let catalogue = Catalogue::build(&plan).unwrap();
            let normal =
                NormalizerPlan { anomalies: false, climatology: Default::default(), log: Vec::new() };
            let normalizer = Normalizer::fit(&catalogue.training().unwrap(), &normal).unwrap();
            let inputs = InputsPlan {
                statics: vec![StaticPlan { field: StaticField::Longitude, file: None }],
                forcings: vec![Forcing::Solar, Forcing::LocalTime],
            };
            let inputs = Inputs::new(catalogue.layout().clone(), &inputs).unwrap();
            Self { catalogue, normalizer: Arc::new(normalizer), inputs: Arc::new(inputs) }
        }

        /// A feed of rollouts of at most 3 steps on its device.
        fn feed(&self, beside: bool, device: &mut Cpu<f32>) -> (Feed, Fields) {
            self.feed_of(0..ROWS, beside, device)
        }

        /// Of a band of rows.
        fn feed_of(
            &self,
            rows: std::ops::Range<usize>,
            beside: bool,
            device: &mut Cpu<f32>,
        ) -> (Feed, Fields) {
            let plan = LoaderPlan {
                input_frames: 2,
                lead_steps: 3,
                batch: 3,
                share: Share::ALL,
                seed: 5,
                threads: 1,
                memory: 0,
                rotate: true,
            };
            let training = self.catalogue.training().unwrap();
            let loader =
                Loader::for_device(&training, self.normalizer.clone(), self.inputs.clone(), &plan, beside)
                    .unwrap();
            let mut arena = ArenaPlan::default();
            let points = rows.len() * COLUMNS;
            let band = Band::new(rows, self.catalogue.layout(), 3);
            let used = Fields {
                frames: arena.slot(5 * 3 * points),
                forcings: arena.slot(4 * 3 * points * 3),
                statics: arena.slot(points * 2),
                mask: None,
            };
            let recipe =
                loader.is_raw().then(|| Recipe::plan(&mut arena, self.normalizer.clone(), &self.inputs));
            assert_eq!(recipe.is_some(), beside);
            let statics = band.statics(self.inputs.statics()).into_owned();
            let turning = Turning { rows: band.rows.len(), columns: COLUMNS, statics, mask: None };
            let feed = Feed::plan(&mut arena, loader, recipe, used, Some(turning), beside, band);
            device.allocate(&arena).unwrap();
            feed.start(device);
            (feed, used)
        }
    }

    fn read(device: &Cpu<f32>, fields: Fields) -> [Vec<f32>; 3] {
        [fields.frames, fields.forcings, fields.statics].map(|slot| {
            let mut values = vec![0.0; slot.len()];
            device.download(slot, &mut values);
            values
        })
    }

    /// Local time minus longitude is the time in Greenwich, the same everywhere, if forcings and static fields are turned
    /// by the same angle.
    fn assert_turned_together([_, forcings, statics]: &[Vec<f32>; 3]) {
        let greenwich = |point: usize| {
            let ([sin, cos], [sin_x, cos_x]) = (
                [forcings[3 * point + 1], forcings[3 * point + 2]],
                [statics[2 * point], statics[2 * point + 1]],
            );
            (sin * cos_x - cos * sin_x, cos * cos_x + sin * sin_x)
        };
        for point in 0..ROWS * COLUMNS {
            let ((sin, cos), (first_sin, first_cos)) = (greenwich(point), greenwich(0));
            assert!((sin - first_sin).abs() < 1e-6 && (cos - first_cos).abs() < 1e-6, "{point}");
        }
    }

    #[test]
    fn a_band_is_fed_its_rows_of_every_field() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t2m.nc");
        write(&file);
        let setting = Setting::new(&file);
        let mut devices = [0; 3].map(|_| Cpu::new(Some(1)).unwrap());
        let rows = 1..3;
        let [whole, ready, raw] = &mut devices;
        let (mut all, used) = setting.feed(false, whole);
        let (mut before, of_ready) = setting.feed_of(rows.clone(), false, ready);
        let (mut beside, of_raw) = setting.feed_of(rows.clone(), true, raw);
        for _ in 0..3 {
            all.take(whole).unwrap();
            before.take(ready).unwrap();
            beside.take(raw).unwrap();
            beside.bring_next(raw);
            let fields = read(whole, used);
            let (ready, raw) = (read(ready, of_ready), read(raw, of_raw));
            for (kind, channels) in [1, 3, 2].into_iter().enumerate() {
                let each = ROWS * COLUMNS * channels;
                let row = COLUMNS * channels;
                let part = |field: &[f32]| field[rows.start * row..rows.end * row].to_vec();
                let expected: Vec<f32> = fields[kind].chunks(each).flat_map(part).collect();
                assert_eq!((&ready[kind], &raw[kind]), (&expected, &expected));
            }
        }
    }

    #[test]
    fn batches_made_beside_a_step_are_those_made_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t2m.nc");
        write(&file);
        let setting = Setting::new(&file);
        let (mut one, mut other) = (Cpu::new(Some(1)).unwrap(), Cpu::new(Some(1)).unwrap());
        let (mut before, used) = setting.feed(false, &mut one);
        let (mut beside, same) = setting.feed(true, &mut other);
        let mut turns = Vec::new();
        // Two epochs; then shorter rollouts, for which what was read ahead is no use; then back to an earlier batch.
        let jumps = [(0, 3, Position::default()), (25, 1, Position { epoch: 2, batch: 4 })];
        let back = (29, 1, Position { epoch: 0, batch: 1 });
        for step in 0..32 {
            if let Some(&(_, leads, position)) = jumps.iter().chain([&back]).find(|jump| jump.0 == step) {
                before.enter(leads, position).unwrap();
                beside.enter(leads, position).unwrap();
            }
            let (a, b) = (before.take(&mut one).unwrap(), beside.take(&mut other).unwrap());
            assert_eq!((a.init(), a.turn()), (b.init(), b.turn()), "step {step}");
            assert_eq!(before.position(), beside.position(), "step {step}");
            let (found, expected) = (read(&other, same), read(&one, used));
            beside.bring_next(&mut other);
            before.bring_next(&mut one);
            assert_eq!(found, expected, "step {step}");
            assert_turned_together(&found);
            assert_eq!(read(&other, same), expected, "what comes next does not disturb the step");
            turns.push(a.turn());
        }
        turns.sort_unstable();
        turns.dedup();
        assert_eq!(turns.len(), COLUMNS, "every angle came");
        let line = beside.line(&other);
        assert!(line.bytes > 0 && line.read_s > 0.0 && line.wait_s > 0.0);
    }
}
