//! `wxsim bench io`: how fast files become normalised batches, against the NetCDF library in the same process.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rayon::prelude::*;
use serde::Serialize;

use crate::commands::output;
use crate::error::{Error, Result};
use crate::io::atomic::Pending;
use crate::io::{FileInfo, Reader, inspect_file};

/// Steps of a batch.
const BATCH: usize = 32;
const ROWS: usize = 181;
const COLUMNS: usize = 360;
const POINTS: usize = ROWS * COLUMNS;
/// The numbers are kept on this grid, as reanalyses are that were packed into 16 bits [K].
const SCALE: f32 = 0.002;
const OFFSET: f32 = 250.0;
const MEAN: f32 = 280.0;
const DEVIATION: f32 = 12.0;

/// Measure reading deflated NetCDF-4 into normalised batches, ours against the NetCDF library's.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Decoded size of each file [MB]
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(16..=16_384))]
    size: u32,
    /// How often both are measured, in turn; the median counts (chunks of many steps are measured once)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Write the files into this folder, keep them, and use them when they are there
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The measured speed of one file.
#[derive(Debug, Serialize)]
struct Measured {
    file: String,
    /// Decoded float32 [MB/s].
    direct: f64,
    /// Decoded float32 [MB/s].
    library: f64,
    /// The median of the rounds' ratios: other work of the machine slows both of a round.
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct Document {
    threads: usize,
    megabytes: u32,
    rounds: u32,
    files: Vec<Measured>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    Float,
    Packed,
}

pub fn run(args: &Args) -> Result<()> {
    let temporary =
        tempfile::tempdir().map_err(|error| Error::run("cannot make a temporary folder").caused_by(error))?;
    let folder = args.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::run(format!("cannot make {}", folder.display())).caused_by(error))?;
    let steps = (args.size as usize * 1_000_000 / (POINTS * 4)).max(1);
    // The library inflates a chunk of many steps anew for each of them: an eighth, read once by it, is slow enough.
    let (few, once) = (steps.div_ceil(8).max(BATCH), 1);
    let float = "float32, zlib-4 + shuffle, (1, 181, 360)";
    let packed = "packed int16, zlib-4 + shuffle, (1, 181, 360)";
    let awkward = "float32, zlib-4 + shuffle, (100, 10, 10)";
    let files = [
        (float, "float32.nc", Content::Float, [1, ROWS, COLUMNS], steps, args.rounds),
        (packed, "int16.nc", Content::Packed, [1, ROWS, COLUMNS], steps, args.rounds),
        (awkward, "awkward.nc", Content::Float, [100, 10, 10], few, once),
    ];
    let mut measured = Vec::new();
    for (title, name, content, chunk, steps, rounds) in files {
        let path = folder.join(format!("{steps}-{name}"));
        if !path.exists() {
            eprintln!("writing {}", path.display());
            let pending = Pending::new(&path)?;
            write(pending.path(), steps, content, chunk)
                .map_err(|error| Error::run(format!("cannot write {}", path.display())).caused_by(error))?;
            pending.commit()?;
        }
        measured.push(measure(title, &path, steps, rounds)?);
    }
    let document = Document {
        threads: rayon::current_num_threads(),
        megabytes: args.size,
        rounds: args.rounds,
        files: measured,
    };
    if args.json {
        let text = serde_json::to_string_pretty(&document).map_err(|e| Error::run("JSON").caused_by(e))?;
        return output::print_line(&text);
    }
    println!("reading into normalised batches, MB/s of decoded float32, {} threads", document.threads);
    println!("{:48} {:>8} {:>8} {:>6}", "", "wxsim", "library", "ratio");
    for m in &document.files {
        println!("{:48} {:8.0} {:8.0} {:6.1}", m.file, m.direct, m.library, m.ratio);
    }
    Ok(())
}

fn measure(title: &str, path: &Path, steps: usize, rounds: u32) -> Result<Measured> {
    let megabytes = (steps * POINTS * 4) as f64 / 1e6;
    let (mut direct, mut library) = (Vec::new(), Vec::new());
    let mut batch = vec![0.0; BATCH * POINTS];
    // Training looks into a file once and reads it many times.
    let info = inspect_file(path)?;
    for _ in 0..rounds {
        let start = Instant::now();
        let ours = direct_pass(&info, &mut batch)?;
        direct.push(megabytes / start.elapsed().as_secs_f64());
        let start = Instant::now();
        let theirs = library_pass(path, steps, &mut batch)
            .map_err(|error| Error::run(format!("cannot read {}", path.display())).caused_by(error))?;
        library.push(megabytes / start.elapsed().as_secs_f64());
        if ours.to_bits() != theirs.to_bits() {
            return Err(Error::run(format!(
                "{}: the two readings differ: {ours} and {theirs}",
                path.display()
            )));
        }
    }
    let ratios = direct.iter().zip(&library).map(|(ours, theirs)| ours / theirs).collect();
    Ok(Measured {
        file: title.into(),
        direct: median(direct),
        library: median(library),
        ratio: median(ratios),
    })
}

/// Reads everything in batches as training does; returns a sum that both passes must agree on.
fn direct_pass(info: &FileInfo, batch: &mut [f32]) -> Result<f64> {
    let variable = info
        .variable("t2m")
        .ok_or_else(|| Error::input(format!("{} has no variable t2m", info.path.display())))?;
    let mut reader = Reader::open(info)?;
    let mut sum = 0.0;
    for first in (0..variable.times.len()).step_by(BATCH) {
        let times = first..variable.times.len().min(first + BATCH);
        let fields = &mut batch[..times.len() * POINTS];
        reader.read_many(variable, 0, times, fields)?;
        fields.par_iter_mut().with_min_len(POINTS).for_each(|x| *x = (*x - MEAN) / DEVIATION);
        sum += f64::from(fields[0]);
    }
    Ok(sum)
}

/// The same with the NetCDF library, step by step into a reused buffer, which is its fastest way.
fn library_pass(path: &Path, steps: usize, batch: &mut [f32]) -> netcdf::Result<f64> {
    let file = netcdf::open(path)?;
    let variable = file.variable("t2m").ok_or("there is no variable t2m")?;
    let packed = variable.attribute("scale_factor").is_some();
    let mut stored = vec![0_i16; if packed { POINTS } else { 0 }];
    let mut sum = 0.0;
    for step in 0..steps {
        let field = &mut batch[step % BATCH * POINTS..][..POINTS];
        if packed {
            variable.get_values_into(&mut stored, (step, .., ..))?;
            for (x, &s) in field.iter_mut().zip(&stored) {
                *x = (f64::from(s) * f64::from(SCALE) + f64::from(OFFSET)) as f32;
            }
        } else {
            variable.get_values_into(field, (step, .., ..))?;
        }
        for x in field.iter_mut() {
            *x = (*x - MEAN) / DEVIATION;
        }
        if step % BATCH == 0 {
            sum += f64::from(field[0]);
        }
    }
    Ok(sum)
}

/// A smooth travelling wave with noise, quantised to 16 bits.
fn write(path: &Path, steps: usize, content: Content, chunk: [usize; 3]) -> netcdf::Result<()> {
    let mut file = netcdf::create(path)?;
    file.add_dimension("time", steps)?;
    file.add_dimension("latitude", ROWS)?;
    file.add_dimension("longitude", COLUMNS)?;
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    time.put_attribute("units", "hours since 2000-01-01 00:00:00")?;
    time.put_values(&(0..steps).map(|n| n as f64).collect::<Vec<_>>(), ..)?;
    let mut latitude = file.add_variable::<f64>("latitude", &["latitude"])?;
    latitude.put_attribute("units", "degrees_north")?;
    latitude.put_values(&(0..ROWS).map(|n| n as f64 - 90.0).collect::<Vec<_>>(), ..)?;
    let mut longitude = file.add_variable::<f64>("longitude", &["longitude"])?;
    longitude.put_attribute("units", "degrees_east")?;
    longitude.put_values(&(0..COLUMNS).map(|n| n as f64).collect::<Vec<_>>(), ..)?;

    let mut variable = match content {
        Content::Float => file.add_variable::<f32>("t2m", &["time", "latitude", "longitude"])?,
        Content::Packed => file.add_variable::<i16>("t2m", &["time", "latitude", "longitude"])?,
    };
    let chunk = [chunk[0].min(steps), chunk[1], chunk[2]];
    variable.set_chunking(&chunk)?;
    variable.set_compression(4, true)?;
    variable.put_attribute("units", "K")?;
    if content == Content::Packed {
        variable.put_attribute("scale_factor", f64::from(SCALE))?;
        variable.put_attribute("add_offset", f64::from(OFFSET))?;
    }
    // Whole chunks at a time, or the library would deflate a chunk anew for every step.
    let mut stored = vec![0_i16; chunk[0] * POINTS];
    for first in (0..steps).step_by(chunk[0]) {
        let count = chunk[0].min(steps - first);
        let stored = &mut stored[..count * POINTS];
        stored.par_chunks_exact_mut(POINTS).enumerate().for_each(|(n, field)| numbers(first + n, field));
        match content {
            Content::Packed => variable.put_values(stored, (first..first + count, .., ..))?,
            Content::Float => {
                let values: Vec<f32> = stored.iter().map(|&s| f32::from(s) * SCALE + OFFSET).collect();
                variable.put_values(&values, (first..first + count, .., ..))?;
            }
        }
    }
    file.close()
}

/// The packed numbers of one step.
fn numbers(step: usize, field: &mut [i16]) {
    let mut noise = step as u64 + 1;
    for (n, stored) in field.iter_mut().enumerate() {
        let (row, column) = ((n / COLUMNS) as f32, (n % COLUMNS) as f32);
        let angle = column.to_radians();
        let wave = 40.0 * row.to_radians().sin() + 8.0 * (4.0 * angle - 0.05 * step as f32).sin();
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (noise >> 40) as f32 / (1 << 24) as f32 - 0.5;
        *stored = ((wave + 0.5 * random) / SCALE) as i16;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
