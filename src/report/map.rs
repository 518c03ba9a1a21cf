//! A map: coloured field, contour lines, coastlines, graticule, colour bar, title.

use crate::grid::Grid;
use crate::report::contour::contour;
use crate::report::image::{Colour, Image, Pen, Rectangle};
use crate::report::sample::Sampler;
use crate::report::scale::{Scale, tick_label};
use crate::report::text::{Anchor, Style, fit, text_width};
use crate::report::view::{Line, View, latitude_label, longitude_label};
use crate::variable::Quantity;

/// How a field is coloured between its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shading {
    /// Bilinear, in bands of one colour between round levels.
    #[default]
    Bands,
    /// Bilinear, colours without steps.
    Smooth,
    /// Every grid cell in the colour of its value.
    Cells,
}

/// One quantity on a grid.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    pub grid: &'a Grid,
    /// `[lat, lon]`, south to north, eastward, SI units; missing values are NaN.
    pub values: &'a [f32],
}

/// What to draw.
#[derive(Debug, Clone)]
pub struct Map<'a> {
    pub title: String,
    /// Below the title, in small letters: times, source.
    pub notes: Vec<String>,
    pub field: Field<'a>,
    pub scale: &'a Scale,
    pub shading: Shading,
    /// Values (shown units) at which lines are drawn.
    pub contours: Vec<f64>,
    pub coastlines: &'a [Line],
    /// Width of the map itself, without margins, in pixels.
    pub width: usize,
    /// Height of a line of text in pixels.
    pub text: f64,
}

/// The lines that forecasters expect on a map of this quantity (shown units) between these values; none for others.
pub fn usual_contours(quantity: &Quantity, scale: &Scale) -> Vec<f64> {
    let (low, high) = (scale.low(), scale.high());
    let step = match quantity.name.as_str() {
        "msl" => 4.0,
        "z" if high - low < 60.0 => 4.0,
        "z" => 8.0,
        _ => return Vec::new(),
    };
    // a scale that overflows goes on for a while beyond its ends
    contours_every(step, low - (high - low), high + (high - low))
}

/// Multiples of `step` between two values, a thousand at most.
pub fn contours_every(step: f64, low: f64, high: f64) -> Vec<f64> {
    let first = (low / step).ceil();
    let count = (high / step).floor() - first + 1.0;
    if !(step > 0.0 && count.is_finite()) {
        return Vec::new();
    }
    (0..count.clamp(0.0, 1000.0) as usize).map(|i| (first + i as f64) * step).collect()
}

const MISSING: Colour = Colour([0xd9, 0xdc, 0xe0]);
const MISSING_HATCH: Colour = Colour([0xbb, 0xc0, 0xc7]);

/// Draws it. The picture's size depends on the grid, the width and the number of notes only, so that maps of
/// one grid line up and can be frames of an animation.
pub fn draw(map: &Map) -> Image {
    let text = map.text;
    let margin = (text * 0.9).round();
    let left = (text * 3.0).round();
    let head = if map.title.is_empty() { 0.0 } else { text * 1.6 }
        + map.notes.len() as f64 * text * 1.25
        + text * 0.35;
    let view = View::of(map.field.grid, left, (margin + head).round(), map.width as f64);
    let frame = view.frame;
    // a narrow map needs the room of its title and colour bar all the same
    let right = frame.right.max(left + map.width as f64 * 0.6);
    let width = (right + margin * 1.6).ceil() as usize;
    let height = (frame.bottom + text * 4.6).ceil() as usize;
    let mut image = Image::new(width, height, Colour::WHITE);

    header(&mut image, map, left, margin, right - left);
    shade(&mut image, map, &view);
    lines(&mut image, map, &view);
    image.frame(frame, Pen { colour: Colour::INK, width: (text / 14.0).max(1.0), opacity: 0.85 });
    axis_labels(&mut image, &view, text);
    let bar = Rectangle { left, top: frame.bottom + text * 2.0, right, bottom: frame.bottom + text * 2.75 };
    colour_bar(&mut image, map.scale, bar, text);
    image
}

fn header(image: &mut Image, map: &Map, left: f64, top: f64, width: f64) {
    let mut y = top;
    if !map.title.is_empty() {
        let style = Style::new(map.text * 1.3, Colour::INK).bold();
        y += map.text * 1.1;
        image.text(left, y, &fit(&map.title, style, width), style);
        y += map.text * 0.5;
    }
    for note in &map.notes {
        let style = Style::new(map.text, Colour::MUTED);
        y += map.text * 0.95;
        image.text(left, y, &fit(note, style, width), style);
        y += map.text * 0.3;
    }
}

/// Colours every pixel of the frame.
fn shade(image: &mut Image, map: &Map, view: &View) {
    let sampler = Sampler::new(map.field.grid, view);
    let scale = map.scale;
    let shown = |value: f64| scale.units.show(value);
    // edges between bands are smoothed by two by two samples
    let samples = if map.shading == Shading::Smooth { 1 } else { 2 };
    let offset = |s: usize| (s as f64 + 0.5) / samples as f64;
    let frame = view.frame;
    let columns: Vec<_> = (frame.left as usize * samples..frame.right as usize * samples)
        .map(|x| sampler.column((x / samples) as f64 + offset(x % samples)))
        .collect();
    for y in frame.top as usize..frame.bottom as usize {
        let rows: Vec<_> = (0..samples).map(|s| sampler.row(y as f64 + offset(s))).collect();
        for (n, columns) in columns.chunks(samples).enumerate() {
            let x = frame.left as usize + n;
            let mut sum = [0_u32; 3];
            for row in &rows {
                for column in columns {
                    let value = match map.shading {
                        Shading::Cells => sampler.nearest(map.field.values, row, column),
                        _ => sampler.bilinear(map.field.values, row, column),
                    };
                    let colour = match value.map(shown) {
                        None if (x + y) % 8 < 2 => MISSING_HATCH,
                        None => MISSING,
                        Some(value) if map.shading == Shading::Smooth => scale.smooth(value),
                        Some(value) => scale.banded(value),
                    };
                    for (total, part) in sum.iter_mut().zip(colour.0) {
                        *total += u32::from(part);
                    }
                }
            }
            let count = (samples * samples) as u32;
            image.blend(x as i64, y as i64, Colour(sum.map(|s| ((s + count / 2) / count) as u8)), 1.0);
        }
    }
}

/// Graticule, coastlines and contour lines, the latter with their values.
fn lines(image: &mut Image, map: &Map, view: &View) {
    let unit = (map.text / 14.0).max(0.7);
    let frame = view.frame;
    let (meridians, parallels) = view.graticule();
    let meridians = meridians.iter().map(|l| [(view.x(*l), frame.top), (view.x(*l), frame.bottom)]);
    let parallels = parallels.iter().map(|l| [(frame.left, view.y(*l)), (frame.right, view.y(*l))]);
    let graticule: Vec<_> = meridians.chain(parallels).collect();
    let thin = Pen { colour: Colour::INK, width: unit * 0.8, opacity: 0.16 };
    image.stroke(graticule.iter().map(|l| l.as_slice()), thin, frame);

    let coasts = view.project(map.coastlines);
    let rim = Pen { colour: Colour::WHITE, width: unit * 3.0, opacity: 0.45 };
    image.stroke(coasts.iter().map(Vec::as_slice), rim, frame);
    let coast = Pen { colour: Colour::INK, width: unit * 1.3, opacity: 0.9 };
    image.stroke(coasts.iter().map(Vec::as_slice), coast, frame);

    let sampler = Sampler::new(map.field.grid, view);
    let (longitudes, latitudes) = sampler.lattice();
    let value = |row: usize, column: usize| map.scale.units.show(sampler.node(map.field.values, row, column));
    let step = map.contours.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    let mut labels: Vec<(f64, f64, f64)> = Vec::new();
    let mut drawn: Vec<Vec<(f64, f64)>> = Vec::new();
    for level in &map.contours {
        for line in contour(latitudes.len(), longitudes.len(), value, *level) {
            let line: Vec<(f64, f64)> = line
                .into_iter()
                .map(|(x, y)| (view.x(between(&longitudes, x)), view.y(between(&latitudes, y))))
                .collect();
            labels.extend(label_place(&line, frame, map.text * 7.0).map(|(x, y)| (x, y, *level)));
            drawn.push(line);
        }
    }
    let pen = Pen { colour: Colour::INK, width: unit * 1.0, opacity: 0.75 };
    image.stroke(drawn.iter().map(Vec::as_slice), pen, frame);
    let style = Style {
        halo: Some(Colour::WHITE),
        ..Style::new(map.text * 0.82, Colour::INK).anchored(Anchor::Middle)
    };
    let mut taken: Vec<Rectangle> = Vec::new();
    for (x, y, level) in labels {
        let label = tick_label(level, step);
        let half = text_width(&label, style) / 2.0 + map.text * 0.4;
        let place = Rectangle { left: x - half, right: x + half, top: y - map.text, bottom: y + map.text };
        let fits = place.left > frame.left && place.right < frame.right;
        if fits && !taken.iter().any(|other| other.overlaps(&place)) {
            image.text(x, y + map.text * 0.3, &label, style);
            taken.push(place);
        }
    }
}

/// The position at a fractional index of ascending coordinates.
fn between(coordinates: &[f64], place: f64) -> f64 {
    let below = (place.floor() as usize).min(coordinates.len().saturating_sub(2));
    let share = place - below as f64;
    coordinates[below] + share * (coordinates[(below + 1).min(coordinates.len() - 1)] - coordinates[below])
}

/// Where a contour line that is long enough carries its value: where it runs flattest near its middle.
fn label_place(line: &[(f64, f64)], frame: Rectangle, shortest: f64) -> Option<(f64, f64)> {
    let length: f64 = line.windows(2).map(|w| (w[1].0 - w[0].0).hypot(w[1].1 - w[0].1)).sum();
    if length < shortest {
        return None;
    }
    let room = shortest / 7.0;
    let quarter = line.len() / 4;
    line[quarter..line.len() - quarter]
        .windows(2)
        .filter(|w| w[0].1 > frame.top + room && w[0].1 < frame.bottom - room)
        .min_by(|a, b| {
            let slope = |w: &[(f64, f64)]| (w[1].1 - w[0].1).abs() / (w[1].0 - w[0].0).abs().max(1e-9);
            slope(a).total_cmp(&slope(b))
        })
        .map(|w| ((w[0].0 + w[1].0) / 2.0, (w[0].1 + w[1].1) / 2.0))
}

fn axis_labels(image: &mut Image, view: &View, text: f64) {
    let frame = view.frame;
    let (meridians, parallels) = view.graticule();
    let style = Style::new(text * 0.85, Colour::MUTED);
    let mut free = f64::NEG_INFINITY;
    for longitude in meridians {
        let label = longitude_label(longitude);
        let (x, half) = (view.x(longitude), text_width(&label, style) / 2.0);
        if x - half > free {
            image.text(x, frame.bottom + text * 1.1, &label, style.anchored(Anchor::Middle));
            free = x + half + text * 0.5;
        }
    }
    for latitude in parallels {
        let y = (view.y(latitude) + text * 0.3).max(frame.top + text * 0.55);
        image.text(frame.left - text * 0.4, y, &latitude_label(latitude), style.anchored(Anchor::End));
    }
}

/// A horizontal colour bar in the levels of a scale, pointed where values go on, with numbers and the unit.
pub fn colour_bar(image: &mut Image, scale: &Scale, place: Rectangle, text: f64) {
    let style = Style::new(text * 0.9, Colour::INK);
    let unit_width =
        text_width(&scale.units.name, style) + if scale.units.name.is_empty() { 0.0 } else { text };
    let tip = place.height() * 0.9;
    let left = place.left + if scale.below { tip } else { 0.0 };
    let right = place.right - unit_width - if scale.above { tip } else { 0.0 };
    let (top, bottom) = (place.top, place.bottom);
    let middle = (top + bottom) / 2.0;
    let bands = scale.bands() as f64;
    let x = |i: f64| (left + (right - left) * i / bands).round();
    for i in 0..scale.bands() {
        let band = Rectangle { left: x(i as f64), right: x(i as f64 + 1.0), top, bottom };
        image.fill_rectangle(band, scale.band_colour(i as i64));
    }
    let mut outline = vec![(x(0.0), top)];
    if scale.above {
        image.fill(
            &[(x(bands), top), (x(bands) + tip, middle), (x(bands), bottom)],
            scale.band_colour(scale.bands() as i64),
        );
        outline.extend([(x(bands), top), (x(bands) + tip, middle), (x(bands), bottom)]);
    } else {
        outline.extend([(x(bands), top), (x(bands), bottom)]);
    }
    outline.push((x(0.0), bottom));
    if scale.below {
        image.fill(&[(x(0.0), top), (x(0.0) - tip, middle), (x(0.0), bottom)], scale.band_colour(-1));
        outline.push((x(0.0) - tip, middle));
    }
    outline.push((x(0.0), top));
    let pen = Pen { colour: Colour::INK, width: (text / 16.0).max(1.0), opacity: 0.7 };
    let area = image.area();
    image.stroke([outline.as_slice()], pen, area);

    let step = scale.levels.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    let widest = scale.levels.iter().map(|l| text_width(&tick_label(*l, step), style)).fold(text, f64::max);
    let room = ((right - left) / (widest + text * 0.9)).floor().max(2.0) as usize;
    for level in scale.labelled(room) {
        let index = scale.levels.partition_point(|other| *other < level) as f64;
        let at = x(index);
        image.stroke([[(at, bottom), (at, bottom + text * 0.3)].as_slice()], pen, area);
        let label = tick_label(level, short_step(&scale.levels, level, step));
        image.text(at, bottom + text * 1.2, &label, style.anchored(Anchor::Middle));
    }
    image.text(place.right, middle + text * 0.32, &scale.units.name, style.anchored(Anchor::End));
}

/// Uneven levels (rain: 0.1, ..., 100) are each written with their own digits.
fn short_step(levels: &[f64], level: f64, step: f64) -> f64 {
    let widest = levels.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
    if widest > 1.5 * step && level.fract() == 0.0 { 1.0 } else { step }
}
