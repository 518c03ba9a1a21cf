//! `wxsim plot`: maps and animations of what a file holds.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Context, Error, Result};
use crate::io::atomic::write_whole;
use crate::io::{FileInfo, Reader, VariableInfo, coastlines, inspect_file};
use crate::report::encode;
use crate::report::image::Image;
use crate::report::map::{Field, Map, Shading, contours_every, draw, usual_contours};
use crate::report::names::{capitalised, moment, quantity_name, times};
use crate::report::palette::Palette;
use crate::report::scale::{Scale, Sense, Units};
use crate::report::view::Line;
use crate::time::{InitTime, LeadTime, ValidTime};
use crate::variable::Quantity;

/// Draw maps of the fields in a file, or an animation through its times.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A NetCDF or GRIB2 file: a forecast, a reanalysis, anything with latitudes and longitudes
    file: PathBuf,
    /// What to draw, by label (msl, z500) or the file's own name; several make panels [default: the first four]
    #[arg(long, short = 'v', value_delimiter = ',')]
    variable: Vec<String>,
    /// Valid time, as 2008-10-20T12; of an animation its first [default: the file's first]
    #[arg(long, conflicts_with = "lead")]
    time: Option<String>,
    /// Lead time of a forecast, as 24h or 3d
    #[arg(long)]
    lead: Option<LeadTime>,
    /// Show all times from the first one on, up to --frames of them
    #[arg(long, value_enum)]
    animate: Option<Animation>,
    /// Most frames of an animation
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1000))]
    frames: u32,
    /// Seconds that a frame stays
    #[arg(long, default_value_t = 0.4)]
    seconds: f64,
    /// File to write [default: named by the input file, the variables and the time, in this folder]
    #[arg(long, short)]
    out: Option<PathBuf>,
    /// Width of a map without its margins, in pixels
    #[arg(long, value_parser = clap::value_parser!(u32).range(100..=8000))]
    width: Option<u32>,
    /// Colours between grid points
    #[arg(long, value_enum, default_value_t = Colouring::Bands)]
    shading: Colouring,
    /// Ends of the colour scale in the units shown, as 960:1040 [default: from the values]
    #[arg(long, allow_hyphen_values = true)]
    range: Option<Range>,
    /// Contour lines: auto (pressure every 4 hPa, geopotential every 4 or 8 dam), none, or an interval in the units shown
    #[arg(long, default_value = "auto")]
    contours: Contours,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Animation {
    Gif,
    Apng,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Colouring {
    /// Bands of one colour between round levels
    Bands,
    /// A continuous change of colours
    Smooth,
    /// One colour for every grid cell
    Cells,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl FromStr for Range {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let ends = text.split_once(':').map(|(low, high)| (low.trim().parse(), high.trim().parse()));
        match ends {
            Some((Ok(low), Ok(high))) if f64::is_finite(low) && f64::is_finite(high) && low < high => {
                Ok(Self { low, high })
            }
            _ => Err(Error::input(format!("'{text}' is no range: write LOW:HIGH, as 960:1040"))),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Contours {
    Auto,
    None,
    Every(f64),
}

impl FromStr for Contours {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.parse::<f64>()) {
            ("auto", _) => Ok(Self::Auto),
            ("none", _) => Ok(Self::None),
            (_, Ok(step)) if step.is_finite() && step > 0.0 => Ok(Self::Every(step)),
            _ => Err(Error::input(format!("'{text}' is no contour interval: write auto, none or a number"))),
        }
    }
}

/// One horizontal field of the file, at all its times.
struct Chosen<'a> {
    variable: &'a VariableInfo,
    level: usize,
    quantity: Quantity,
}

pub fn run(args: &Args) -> Result<()> {
    if !(args.seconds.is_finite() && args.seconds > 0.0) {
        return Err(Error::input(format!("a frame cannot stay for {} seconds", args.seconds)));
    }
    if let Some(out) = &args.out {
        check_name(out, args.animate)?;
    }
    let info = inspect_file(&args.file)?;
    let chosen = choose(&info, &args.variable)?;
    let frames = choose_times(args, &info, chosen[0].variable)?;
    let coasts: Vec<Line> = coastlines::rings()?;
    let images = paint(args, &info, &chosen, &frames, &coasts)?;
    let (bytes, extension) = match (args.animate, images.first()) {
        (Some(Animation::Gif), _) => (encode::gif(&images, args.seconds)?, "gif"),
        (Some(Animation::Apng), _) => (encode::animated_png(&images, args.seconds)?, "png"),
        (None, Some(image)) => (encode::png(image)?, "png"),
        (None, None) => return Err(Error::run("there is nothing to draw")),
    };
    let out = args.out.clone().unwrap_or_else(|| default_name(&args.file, &chosen, &frames, extension));
    write_whole(&out, |file| file.write_all(&bytes).context(|| format!("cannot write {}", out.display())))?;
    eprintln!("wrote {} ({} x {} pixels)", out.display(), images[0].width, images[0].height);
    Ok(())
}

/// Refuses to write one kind of picture under the name of another.
fn check_name(out: &Path, animate: Option<Animation>) -> Result<()> {
    let fitting: &[&str] = match animate {
        None => &["png"],
        Some(Animation::Gif) => &["gif"],
        Some(Animation::Apng) => &["png", "apng"],
    };
    let Some(extension) = out.extension() else { return Ok(()) };
    if fitting.iter().any(|fits| extension.eq_ignore_ascii_case(fits)) {
        return Ok(());
    }
    let name = out.with_extension(fitting[0]);
    Err(Error::input(format!("{} would hold a {} picture", out.display(), fitting[0].to_uppercase()))
        .hint(format!("name it {}", name.display())))
}

/// The fields that the user named, or the first four that change with time.
fn choose<'a>(info: &'a FileInfo, wanted: &[String]) -> Result<Vec<Chosen<'a>>> {
    let all: Vec<Chosen> = info
        .variables
        .iter()
        .flat_map(|variable| {
            (0..variable.level_count()).map(move |level| {
                let quantity = variable.quantity(level);
                Chosen { variable, level, quantity }
            })
        })
        .collect();
    let there = all.iter().map(|c| c.quantity.to_string()).collect::<Vec<_>>().join(", ");
    let shown = info.path.display();
    if all.is_empty() {
        return Err(Error::input(format!("{shown} holds no field on a latitude-longitude grid"))
            .hint("see how the file was understood with: wxsim inspect"));
    }
    if wanted.is_empty() {
        let moving = all.iter().any(|c| !c.variable.times.is_empty());
        let mut first: Vec<Chosen> =
            all.into_iter().filter(|c| !moving || !c.variable.times.is_empty()).collect();
        let axis = first[0].variable.times.clone();
        first.retain(|c| c.variable.times == axis);
        if first.len() > 4 {
            eprintln!("drawing four of {} fields; choose with --variable from {there}", first.len());
            first.truncate(4);
        }
        return Ok(first);
    }
    let mut chosen = Vec::new();
    for label in wanted {
        let quantity = Quantity::parse(label);
        let fits = |c: &&Chosen| {
            c.quantity == quantity || c.quantity.to_string() == *label || c.variable.name == *label
        };
        let mut found = all.iter().filter(fits);
        let first = found.next().ok_or_else(|| {
            Error::input(format!("{shown} has no variable '{label}'")).hint(format!("it has {there}"))
        })?;
        if found.next().is_some() {
            return Err(Error::input(format!("'{label}' lies on several levels in {shown}"))
                .hint(format!("add the level; the file has {there}")));
        }
        chosen.push(Chosen { quantity: first.quantity.clone(), ..*first });
    }
    let axis = &chosen[0].variable.times;
    if let Some(other) = chosen.iter().find(|c| !c.variable.times.is_empty() && c.variable.times != *axis) {
        return Err(Error::input(format!(
            "'{}' and '{}' have different times in {shown}",
            chosen[0].quantity, other.quantity
        ))
        .hint("draw them one by one"));
    }
    Ok(chosen)
}

/// Indices of the times to draw; one for a picture.
fn choose_times(args: &Args, info: &FileInfo, variable: &VariableInfo) -> Result<Vec<usize>> {
    let shown = info.path.display();
    let times = &variable.times;
    let Some((first, last)) = times.first().zip(times.last()) else {
        if args.time.is_some() || args.lead.is_some() || args.animate.is_some() {
            return Err(Error::input(format!("'{}' does not change with time in {shown}", variable.name))
                .hint("leave out --time, --lead and --animate"));
        }
        return Ok(vec![0]);
    };
    let wanted = match (&args.time, args.lead) {
        (Some(text), _) => Some(ValidTime::parse(text, first.calendar)?),
        (None, Some(lead)) => {
            let start = info.forecast_reference_time.ok_or_else(|| {
                Error::input(format!("{shown} does not say when a forecast starts, so it has no lead times"))
                    .hint("choose a field by its valid time: --time")
            })?;
            Some(start.after(lead))
        }
        (None, None) => None,
    };
    let start = match wanted {
        None => 0,
        Some(wanted) => times.iter().position(|t| *t == wanted).ok_or_else(|| {
            let near = times.iter().min_by_key(|t| (t.seconds - wanted.seconds).abs());
            Error::input(format!(
                "{shown} has no field valid at {}; it reaches from {} to {} in {} steps",
                moment(wanted),
                moment(*first),
                moment(*last),
                times.len()
            ))
            .hint(near.map_or(String::new(), |t| format!("the nearest is --time {t}")))
        })?,
    };
    if args.animate.is_none() {
        return Ok(vec![start]);
    }
    let count = (times.len() - start).min(args.frames as usize);
    if start + count < times.len() {
        eprintln!("showing {count} of {} times; --frames shows more", times.len() - start);
    }
    Ok((start..start + count).collect())
}

/// One picture per frame, all with the same colours.
fn paint(
    args: &Args,
    info: &FileInfo,
    chosen: &[Chosen],
    frames: &[usize],
    coasts: &[Line],
) -> Result<Vec<Image>> {
    let mut reader = Reader::open(info)?;
    let columns = match chosen.len() {
        1 => 1,
        n if n <= 3 && !is_wide(&chosen[0]) => n,
        _ => 2,
    };
    let small = columns > 1 || args.animate.is_some();
    let width = args.width.map_or(if small { 560 } else { 900 }, |w| w as usize);
    let mut panels: Vec<Vec<Image>> = frames.iter().map(|_| Vec::new()).collect();
    for field in chosen {
        let variable = field.variable;
        let mut values = Vec::with_capacity(frames.len());
        for frame in frames {
            let time = if variable.times.is_empty() { 0 } else { *frame };
            let mut one = vec![f32::NAN; variable.grid.points()];
            reader.read(variable, time, field.level, &mut one)?;
            values.push(one);
        }
        let scale = colours(args, field, &values);
        let contours = match args.contours {
            Contours::Auto => usual_contours(&field.quantity, &scale),
            Contours::None => Vec::new(),
            Contours::Every(step) => {
                let reach = scale.high() - scale.low();
                contours_every(step, scale.low() - reach, scale.high() + reach)
            }
        };
        for ((frame, one), panel) in frames.iter().zip(&values).zip(&mut panels) {
            panel.push(draw(&Map {
                title: capitalised(&quantity_name(&field.quantity, variable.long_name.as_deref())),
                notes: vec![note(info, variable, *frame)],
                field: Field { grid: &variable.grid, values: one },
                scale: &scale,
                shading: match args.shading {
                    Colouring::Bands => Shading::Bands,
                    Colouring::Smooth => Shading::Smooth,
                    Colouring::Cells => Shading::Cells,
                },
                contours: contours.clone(),
                coastlines: coasts,
                width,
                text: (width as f64 / 50.0).clamp(11.0, 40.0),
            }));
        }
    }
    Ok(panels.iter().map(|panel| Image::tiled(panel, columns)).collect())
}

fn is_wide(field: &Chosen) -> bool {
    let grid = &field.variable.grid;
    let bounds = (grid.longitude_bounds(), grid.latitude_bounds());
    let span = |b: &[f64]| b[b.len() - 1] - b[0];
    span(&bounds.0) > 1.8 * span(&bounds.1)
}

fn colours(args: &Args, field: &Chosen, values: &[Vec<f32>]) -> Scale {
    let units = &field.variable.units;
    let fitted = Scale::fit(&field.quantity, units, Sense::Value, values.iter().flatten().copied());
    let Some(Range { low, high }) = args.range else { return fitted };
    let palette = match fitted.palette {
        Palette::Diverging if low + high != 0.0 => Palette::Sequential, // its middle must be zero
        other => other,
    };
    Scale::between(low, high, palette, Units::of(&field.quantity, units, Sense::Value))
}

/// The line under the title.
fn note(info: &FileInfo, variable: &VariableInfo, time: usize) -> String {
    let Some(valid) = variable.times.get(time) else { return "Constant in time".into() };
    let text = times(*valid, info.forecast_reference_time.map(InitTime));
    match variable.period {
        Some(period) => format!("{text}  ·  sum over {period}"),
        None => text,
    }
}

/// `20081019T1200-z500-20081020T1200.png`
fn default_name(file: &Path, chosen: &[Chosen], frames: &[usize], extension: &str) -> PathBuf {
    let stem = file.file_stem().map_or("plot".into(), |s| s.to_string_lossy().into_owned());
    let mut parts = vec![stem];
    parts.extend(chosen.iter().map(|c| c.quantity.to_string()));
    if let [only] = frames {
        parts.extend(chosen[0].variable.times.get(*only).map(|t| t.file_stamp()));
    }
    // a variable's name comes from the file and may hold anything
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@') { c } else { '_' };
    PathBuf::from(format!("{}.{extension}", parts.join("-").chars().map(safe).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_contours_are_read_or_refused() {
        let range: Range = "-5:1040.5".parse().unwrap();
        assert_eq!((range.low, range.high), (-5.0, 1040.5));
        for wrong in ["5", "5:5", "9:1", "a:b", "nan:1", "0:inf", ":"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
        assert!(matches!("2.5".parse(), Ok(Contours::Every(step)) if step == 2.5));
        for wrong in ["", "-1", "0", "nan", "many"] {
            assert!(wrong.parse::<Contours>().is_err(), "{wrong}");
        }
    }
}
