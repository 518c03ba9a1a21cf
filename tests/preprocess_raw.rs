//! Batches that a device decodes are, to the bit, those that the processor prepares: packed or not, big-endian,
//! shuffled and deflated in tiles, summed, regridded, masked, turned.

use std::path::Path;
use std::sync::Arc;

use wxsim::config::{DataConfig, InputConfig};
use wxsim::device::cpu::Cpu;
use wxsim::device::{ArenaPlan, Device};
use wxsim::preprocess::{
    Batch, Catalogue, Input, Inputs, Loader, LoaderPlan, Normalizer, RawBatch, Recipe, Share, turn_columns,
};

const ROWS: usize = 9;
const COLUMNS: usize = 16;
const STATES: usize = 1500;

/// Noise between 0 and 1.
fn noise(n: usize) -> f64 {
    (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD1B5_4A32_D192_ED03) as f64
        / u64::MAX as f64
}

/// Defines dimensions and axes of a global grid.
fn define_axes(file: &mut netcdf::FileMut, times: usize) {
    for (name, length, units) in [
        ("time", times, "hours since 2000-01-01"),
        ("latitude", ROWS, "degrees_north"),
        ("longitude", COLUMNS, "degrees_east"),
    ] {
        file.add_dimension(name, length).unwrap();
        file.add_variable::<f64>(name, &[name]).unwrap().put_attribute("units", units).unwrap();
    }
}

/// From north to south and from the date line on.
fn put_axes(file: &mut netcdf::FileMut, first_hour: f64, hours: f64) {
    for (name, first, step) in
        [("time", first_hour, hours), ("latitude", 80.0, -20.0), ("longitude", -180.0, 22.5)]
    {
        let mut axis = file.variable_mut(name).unwrap();
        let values: Vec<f64> = (0..axis.len()).map(|n| first + n as f64 * step).collect();
        axis.put_values(&values, ..).unwrap();
    }
}

const DIMENSIONS: [&str; 3] = ["time", "latitude", "longitude"];

/// NetCDF-4: temperature packed into 16 bits, shuffled and deflated in tiles.
fn write_packed(path: &Path) {
    let mut file = netcdf::create(path).unwrap();
    define_axes(&mut file, STATES);
    let mut t = file.add_variable::<i16>("t2m", &DIMENSIONS).unwrap();
    t.set_chunking(&[1, 4, 6]).unwrap();
    t.set_compression(4, true).unwrap();
    t.put_attribute("units", "degC").unwrap();
    t.put_attribute("scale_factor", 0.0021_f64).unwrap();
    t.put_attribute("add_offset", 4.5_f64).unwrap();
    t.put_attribute("_FillValue", -32767_i16).unwrap();
    let values: Vec<i16> =
        (0..STATES * ROWS * COLUMNS).map(|n| (12_000.0 * (noise(n) - 0.5)) as i16).collect();
    t.put_values(&values, ..).unwrap();
    put_axes(&mut file, 0.0, 6.0);
    file.close().unwrap();
}

/// Classic, so big-endian: rain of three hours each, which is missing over some land for ever.
fn write_sums(path: &Path) {
    let mut file = netcdf::create_with(path, netcdf::Options::_64BIT_OFFSET).unwrap();
    let times = 2 * STATES;
    define_axes(&mut file, times);
    let mut rain = file.add_variable::<f32>("tp", &DIMENSIONS).unwrap();
    rain.put_attribute("units", "mm").unwrap();
    rain.put_attribute("cell_methods", "time: sum").unwrap();
    rain.put_attribute("missing_value", -9.0_f32).unwrap();
    file.enddef().unwrap();
    put_axes(&mut file, -3.0, 3.0);
    let dry = |point: usize| point % 29 == 3 || point / COLUMNS == 6 && point % 4 < 2;
    let value = |n: usize| if dry(n % (ROWS * COLUMNS)) { -9.0 } else { 5.0 * noise(n).powi(4) as f32 };
    let values: Vec<f32> = (0..times * ROWS * COLUMNS).map(value).collect();
    file.variable_mut("tp").unwrap().put_values(&values, ..).unwrap();
    file.close().unwrap();
}

struct Parts {
    catalogue: Arc<Catalogue>,
    normalizer: Arc<Normalizer>,
    inputs: Arc<Inputs>,
}

fn parts(folder: &Path, grid: &str) -> Parts {
    let data: DataConfig = toml::from_str(&format!(
        r#"
        root = "{}"
        step = "6h"
        sources = [
            {{ glob = "packed.nc", variable = "t2m" }},
            {{ glob = "sums.nc", variable = "tp", period = "3h" }},
        ]
        split.train = ["2000-01-01", "2001-01-05"]
        {grid}
        "#,
        folder.display()
    ))
    .unwrap();
    let catalogue = Catalogue::build(&data.plan().unwrap()).unwrap();
    let input: InputConfig = toml::from_str(
        "log = { tp = 1e-4 }\nstatics = [\"cos_latitude\"]\nforcings = [\"local_time\", \"solar\", \"day_of_year\"]",
    )
    .unwrap();
    let normalizer = Normalizer::fit(&catalogue.training().unwrap(), &input.normalizer().unwrap()).unwrap();
    let inputs = Inputs::new(catalogue.layout().clone(), &input.inputs(&data).unwrap()).unwrap();
    Parts { catalogue, normalizer: Arc::new(normalizer), inputs: Arc::new(inputs) }
}

impl Parts {
    fn plan(rotate: bool) -> LoaderPlan {
        LoaderPlan {
            input_frames: 2,
            lead_steps: 1,
            batch: 3,
            seed: 1,
            threads: 1,
            memory: 0,
            share: Share::ALL,
            rotate,
        }
    }

    fn raw(&self, rotate: bool) -> Loader<Input> {
        let training = self.catalogue.training().unwrap();
        Loader::for_device(&training, self.normalizer.clone(), self.inputs.clone(), &Self::plan(rotate), true)
            .unwrap()
    }

    fn ready(&self, rotate: bool) -> Loader {
        let training = self.catalogue.training().unwrap();
        Loader::new(&training, self.normalizer.clone(), self.inputs.clone(), &Self::plan(rotate)).unwrap()
    }

    /// Frames and forcings as a device makes them.
    fn decode(&self, raw: &RawBatch) -> [Vec<f32>; 2] {
        let (rows, columns, channels) = self.catalogue.layout().shape();
        let mut cpu = Cpu::<f32>::new(Some(2)).unwrap();
        let mut arena = ArenaPlan::default();
        let recipe = Recipe::plan(&mut arena, self.normalizer.clone(), &self.inputs);
        let frames = arena.slot(3 * 3 * rows * columns * channels);
        let forcings = arena.slot(2 * 3 * rows * columns * self.inputs.forcing_names().len());
        cpu.allocate(&arena).unwrap();
        recipe.upload(&mut cpu);
        recipe.prepare(&mut cpu, raw, frames, forcings);
        cpu.hand_over(&[]);
        [frames, forcings].map(|slot| {
            let mut values = vec![0.0; slot.len()];
            cpu.download(slot, &mut values);
            values
        })
    }

    fn assert_same(&self, rotate: bool) -> (RawBatch, Batch) {
        let (mut raws, mut readies) = (self.raw(rotate), self.ready(rotate));
        let mut last = None;
        for _ in 0..4 {
            let Input::Raw(raw) = raws.next().unwrap().unwrap() else { panic!("these data can be raw") };
            let ready = readies.next().unwrap().unwrap();
            assert_eq!((&raw.init, raw.turn), (&ready.init, ready.turn));
            let [frames, forcings] = self.decode(&raw);
            let differ = frames.iter().zip(&ready.frames).position(|(a, b)| a != b);
            assert_eq!(differ, None, "frames");
            assert_eq!(forcings, ready.forcings);
            assert!(ready.frames.iter().all(|x| x.is_finite()));
            last = Some((raw, ready));
        }
        assert!(raws.effort().bytes > 0 && raws.effort().reading > 0.0);
        last.unwrap()
    }
}

#[test]
fn the_device_makes_the_same_frames_from_the_files_bytes() {
    let folder = tempfile::tempdir().unwrap();
    write_packed(&folder.path().join("packed.nc"));
    write_sums(&folder.path().join("sums.nc"));
    let own = parts(folder.path(), "");
    let (raw, _) = own.assert_same(false);
    // 9 images: temperature in 3 x 3 tiles of 4 x 6 numbers of 2 bytes, rain of two times 3 hours in float32.
    assert_eq!(raw.bytes(), 9 * (9 * 4 * 6 * 2 + 2 * ROWS * COLUMNS * 4));
    // Turned batches are the same ones, counted from another meridian.
    let (_, turned) = own.assert_same(true);
    let plain = own.ready(false).nth(3).unwrap().unwrap();
    assert!(turned.turn > 0 && turned.init == plain.init);
    let mut frames = plain.frames.clone();
    turn_columns(&mut frames, COLUMNS, 2, turned.turn);
    assert_eq!(frames, turned.frames);
    assert_ne!(plain.mask, turned.mask);

    for method in ["conservative", "bilinear"] {
        let grid = format!("grid = {{ step = 30.0, method = \"{method}\" }}");
        parts(folder.path(), &grid).assert_same(true);
    }
}

#[test]
fn a_hole_is_named_when_the_processor_prepares_the_batch_again() {
    let folder = tempfile::tempdir().unwrap();
    write_packed(&folder.path().join("packed.nc"));
    write_sums(&folder.path().join("sums.nc"));
    let mut file = netcdf::append(folder.path().join("packed.nc")).unwrap();
    file.variable_mut("t2m").unwrap().put_value(-32767_i16, [40, 3, 5]).unwrap();
    file.close().unwrap();
    let parts = parts(folder.path(), "");
    let mut raws = parts.raw(false);
    let hit = |input: &Input| match input {
        Input::Raw(raw) => parts.decode(raw)[0].iter().any(|x| x.is_nan()),
        Input::Ready(_) => panic!("these data can be raw"),
    };
    let holed = raws.by_ref().map(|input| input.unwrap()).find(hit).unwrap();
    let error = raws.prepared(&holed).unwrap_err().to_string();
    assert!(error.contains("t2m at 2000-01-11T00:00Z is missing at 1 of 144 points"), "{error}");
}

#[test]
fn only_a_globe_is_turned() {
    let folder = tempfile::tempdir().unwrap();
    write_packed(&folder.path().join("packed.nc"));
    write_sums(&folder.path().join("sums.nc"));
    let parts = parts(folder.path(), "grid = { south = -50, north = 50, west = 0, east = 90 }");
    let training = parts.catalogue.training().unwrap();
    let loader = Loader::new(&training, parts.normalizer, parts.inputs, &Parts::plan(true));
    let error = loader.err().unwrap().to_string();
    assert!(error.contains("train.augment.rotate"), "{error}");
}
