//! Pictures as files: PNG, animated PNG, GIF.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::report::image::{Colour, Image};

/// One picture as PNG; with at most 256 colours as a palette, which is a third of the size.
pub fn png(image: &Image) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (width, height) = (image.width as u32, image.height as u32);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let data = match indexed(image) {
        Some((palette, indices)) => {
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_palette(palette);
            indices
        }
        None => {
            encoder.set_color(png::ColorType::Rgb);
            flat(image)
        }
    };
    let mut writer = encoder.write_header().map_err(|e| failed("PNG", e))?;
    writer.write_image_data(&data).map_err(|e| failed("PNG", e))?;
    writer.finish().map_err(|e| failed("PNG", e))?;
    Ok(bytes)
}

/// One picture as PNG in at most 256 colours: a third of the size, and no eye sees the difference on a map.
pub fn small_png(image: &Image) -> Result<Vec<u8>> {
    if indexed(image).is_some() {
        return png(image);
    }
    let palette = common_palette(std::slice::from_ref(image), 256);
    let mut nearest: HashMap<Colour, Colour> = HashMap::new();
    let mut reduced = image.clone();
    for pixel in &mut reduced.pixels {
        let wanted = *pixel;
        *pixel = *nearest.entry(wanted).or_insert_with(|| palette[usize::from(nearest_of(&palette, wanted))]);
    }
    png(&reduced)
}

/// An endless animated PNG in full colour. Viewers that do not know it show the first frame.
pub fn animated_png(frames: &[Image], seconds_per_frame: f64) -> Result<Vec<u8>> {
    let first = same_size(frames)?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, first.width as u32, first.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    encoder.set_animated(frames.len() as u32, 0).map_err(|e| failed("APNG", e))?;
    let milliseconds = (seconds_per_frame * 1000.0).clamp(10.0, 60_000.0) as u16;
    encoder.set_frame_delay(milliseconds, 1000).map_err(|e| failed("APNG", e))?;
    let mut writer = encoder.write_header().map_err(|e| failed("APNG", e))?;
    for frame in frames {
        writer.write_image_data(&flat(frame)).map_err(|e| failed("APNG", e))?;
    }
    writer.finish().map_err(|e| failed("APNG", e))?;
    Ok(bytes)
}

/// An endless GIF with one palette of 256 colours for all frames, so that colours do not flicker.
pub fn gif(frames: &[Image], seconds_per_frame: f64) -> Result<Vec<u8>> {
    let first = same_size(frames)?;
    let size = |pixels: usize| {
        u16::try_from(pixels).map_err(|_| {
            Error::input(format!("a GIF is at most 65535 pixels wide and high, this one has {pixels}"))
                .hint("choose a smaller --width")
        })
    };
    let (width, height) = (size(first.width)?, size(first.height)?);
    let palette = common_palette(frames, 256);
    let mut bytes = Vec::new();
    let table: Vec<u8> = palette.iter().flat_map(|c| c.0).collect();
    let mut encoder = gif::Encoder::new(&mut bytes, width, height, &table).map_err(|e| failed("GIF", e))?;
    encoder.set_repeat(gif::Repeat::Infinite).map_err(|e| failed("GIF", e))?;
    let mut nearest: HashMap<Colour, u8> = HashMap::new();
    for frame in frames {
        let indices: Vec<u8> = frame
            .pixels
            .iter()
            .map(|pixel| *nearest.entry(*pixel).or_insert_with(|| nearest_of(&palette, *pixel)))
            .collect();
        let delay = (seconds_per_frame * 100.0).clamp(2.0, 6000.0) as u16;
        let frame = gif::Frame { width, height, delay, buffer: Cow::Owned(indices), ..gif::Frame::default() };
        encoder.write_frame(&frame).map_err(|e| failed("GIF", e))?;
    }
    drop(encoder);
    Ok(bytes)
}

fn failed(format: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::run(format!("cannot write the picture as {format}")).caused_by(error)
}

fn same_size(frames: &[Image]) -> Result<&Image> {
    let first = frames.first().ok_or_else(|| Error::input("an animation needs at least one frame"))?;
    if frames.iter().any(|f| (f.width, f.height) != (first.width, first.height)) {
        return Err(Error::input("the frames of an animation differ in size"));
    }
    Ok(first)
}

fn flat(image: &Image) -> Vec<u8> {
    image.pixels.iter().flat_map(|c| c.0).collect()
}

fn indexed(image: &Image) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut seen: HashMap<Colour, u8> = HashMap::new();
    let mut palette = Vec::new();
    let mut indices = Vec::with_capacity(image.pixels.len());
    for pixel in &image.pixels {
        let index = match seen.get(pixel) {
            Some(index) => *index,
            None => {
                let index = u8::try_from(seen.len()).ok()?;
                seen.insert(*pixel, index);
                palette.extend(pixel.0);
                index
            }
        };
        indices.push(index);
    }
    Some((palette, indices))
}

/// Median cut: boxes of colours are halved, the widest and fullest first, until there are enough.
fn common_palette(frames: &[Image], size: usize) -> Vec<Colour> {
    let mut counts: HashMap<Colour, usize> = HashMap::new();
    for pixel in frames.iter().flat_map(|frame| &frame.pixels) {
        *counts.entry(*pixel).or_default() += 1;
    }
    let mut colours: Vec<(Colour, usize)> = counts.into_iter().collect();
    colours.sort_unstable(); // the order of a hash map is not the same twice
    let mut boxes = vec![ColourBox::new(colours)];
    while boxes.len() < size {
        let widest = (0..boxes.len())
            .filter(|i| boxes[*i].colours.len() > 1)
            .max_by(|a, b| boxes[*a].weight.total_cmp(&boxes[*b].weight));
        let Some(widest) = widest else { break };
        let ColourBox { colours: mut low, channel, .. } = boxes.swap_remove(widest);
        low.sort_by_key(|(colour, _)| colour.0[channel]);
        let high = low.split_off(low.len() / 2);
        boxes.push(ColourBox::new(low));
        boxes.push(ColourBox::new(high));
    }
    let mean = |b: &Vec<(Colour, usize)>| {
        let total: usize = b.iter().map(|(_, n)| n).sum();
        Colour([0, 1, 2].map(|channel| {
            let sum: usize = b.iter().map(|(colour, n)| usize::from(colour.0[channel]) * n).sum();
            (sum / total.max(1)) as u8
        }))
    };
    boxes.iter().map(|b| mean(&b.colours)).collect()
}

/// Colours with how often they occur.
struct ColourBox {
    colours: Vec<(Colour, usize)>,
    /// The channel in which they differ most.
    channel: usize,
    /// How much there is to gain by cutting it.
    weight: f64,
}

impl ColourBox {
    fn new(colours: Vec<(Colour, usize)>) -> Self {
        let spread = |channel: usize| {
            let values = || colours.iter().map(|(colour, _)| colour.0[channel]);
            values().max().unwrap_or(0) - values().min().unwrap_or(0)
        };
        let channel = (0..3).max_by_key(|c| spread(*c)).unwrap_or(0);
        let count: usize = colours.iter().map(|(_, n)| n).sum();
        let weight = f64::from(spread(channel)) * (count as f64).sqrt();
        Self { colours, channel, weight }
    }
}

fn nearest_of(palette: &[Colour], colour: Colour) -> u8 {
    let distance =
        |other: &Colour| (0..3).map(|i| (i32::from(other.0[i]) - i32::from(colour.0[i])).pow(2)).sum::<i32>();
    (0..palette.len()).min_by_key(|i| distance(&palette[*i])).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(count: usize) -> Vec<Image> {
        (0..count)
            .map(|n| {
                let mut image = Image::new(40, 30, Colour::WHITE);
                for (i, pixel) in image.pixels.iter_mut().enumerate() {
                    *pixel = Colour([(i % 251) as u8, (i / 7 % 256) as u8, (n * 40) as u8]);
                }
                image
            })
            .collect()
    }

    fn decode(bytes: &[u8]) -> (png::OutputInfo, Vec<u8>, Option<u32>) {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let count = reader.info().animation_control().map(|a| a.num_frames);
        let mut data = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut data).unwrap();
        (info, data, count)
    }

    #[test]
    fn a_png_decodes_to_the_same_pixels_with_and_without_a_palette() {
        let many = frames(1).remove(0);
        let mut few = Image::new(9, 5, Colour::WHITE);
        few.blend(3, 3, Colour::INK, 1.0);
        for image in [many, few] {
            let (info, data, _) = decode(&png(&image).unwrap());
            assert_eq!((info.width as usize, info.height as usize), (image.width, image.height));
            assert_eq!(data, flat(&image));
        }
    }

    #[test]
    fn a_small_png_is_near_the_picture() {
        let image = frames(1).remove(0);
        let (_, data, _) = decode(&small_png(&image).unwrap());
        // 1200 colours of a 251 x 256 plane in 256 boxes: within a dozen steps of each
        assert!(data.iter().zip(flat(&image)).all(|(a, b)| a.abs_diff(b) < 24));
        assert_eq!(data.len(), image.pixels.len() * 3);
    }

    #[test]
    fn animations_have_all_their_frames() {
        let images = frames(5);
        assert_eq!(decode(&animated_png(&images, 0.5).unwrap()).2, Some(5));
        let bytes = gif(&images, 0.5).unwrap();
        let mut decoder = gif::DecodeOptions::new().read_info(bytes.as_slice()).unwrap();
        let mut count = 0;
        while let Some(frame) = decoder.read_next_frame().unwrap() {
            assert_eq!((frame.width, frame.height, frame.delay), (40, 30, 50));
            count += 1;
        }
        assert_eq!(count, 5);
    }

    #[test]
    fn frames_of_different_size_are_refused() {
        let images = [Image::new(3, 3, Colour::WHITE), Image::new(4, 3, Colour::WHITE)];
        assert!(gif(&images, 1.0).is_err() && animated_png(&images, 1.0).is_err() && gif(&[], 1.0).is_err());
    }
}
