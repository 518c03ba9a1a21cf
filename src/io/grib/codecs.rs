//! Codecs that pack the bits of a field further: JPEG 2000, PNG and CCSDS 121.0-B.
//!
//! Sizes in an image's own header are held against the number of values before the decoder sees it: it would allocate what
//! they say. The decoders are not ours, and do not promise to return from every damaged stream: a panic of theirs is
//! caught and becomes an error about the message.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro_jpeg2000::{DecodeSettings, DecoderContext, Image};
use rust_aec::{AecFlags, AecParams};

use super::sections::Octets;

/// More bits than these are not whole in the float32 numbers of the decoder.
const MOST_BITS: u8 = 24;
/// A tile or a precinct has at least this many points a side, unless it is the whole image: each costs memory.
const LEAST_SIDE: u32 = 32;

fn guarded<T>(codec: &str, decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let broken = |why: &str| format!("holds {codec} data that cannot be decoded ({why})");
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => result.map_err(|why| broken(&why)),
        Err(_) => Err(broken("the decoder broke off")),
    }
}

/// The samples of a JPEG 2000 image in one colour.
pub fn jpeg2000(data: &[u8], count: usize) -> Result<Vec<f32>, String> {
    guarded("JPEG 2000", || {
        check_codestream(data, count)?;
        let image = Image::new(data, &DecodeSettings { strict: true, ..DecodeSettings::default() })
            .map_err(|error| error.to_string())?;
        let mut context = DecoderContext::default();
        let decoded = image.decode(&mut context).map_err(|error| error.to_string())?;
        match decoded.components() {
            [component] if component.samples().len() == count => Ok(component.samples().to_vec()),
            components => Err(format!("{} components", components.len())),
        }
    })
}

/// Looks at the headers of an image (ISO/IEC 15444-1, annex A) up to its first data.
fn check_codestream(data: &[u8], count: usize) -> Result<(), String> {
    // Octets count from 1: the image's size begins behind SOC, SIZ, its length and the capabilities.
    let header = Octets(data);
    if header.u16(1) != 0xff4f || header.u16(3) != 0xff51 || data.len() < 45 {
        return Err("it does not begin like a codestream".into());
    }
    let [right, bottom, left, top, tile_width, tile_height] =
        [9, 13, 17, 21, 25, 29].map(|at| header.u32(at));
    let (width, height) = (right.saturating_sub(left), bottom.saturating_sub(top));
    if u64::from(width) * u64::from(height) != count as u64 {
        return Err(format!("an image of {width} x {height} for {count} values"));
    }
    if header.u16(41) != 1 {
        return Err(format!("{} components", header.u16(41)));
    }
    let depth = (header.u8(43) & 0x7f) + 1;
    if depth > MOST_BITS {
        return Err(format!("{depth} bits, and at most {MOST_BITS} are read"));
    }
    if header.u16(44) != 0x0101 {
        return Err("samples that are not one for each point".into());
    }
    if tile_width < width.min(LEAST_SIDE) || tile_height < height.min(LEAST_SIDE) {
        return Err(format!("tiles of {tile_width} x {tile_height}"));
    }
    let mut at = 3;
    loop {
        let (marker, length) = (header.u16(at), usize::from(header.u16(at + 2)));
        match marker {
            0xff93 => return Ok(()),
            _ if at + 2 + length > data.len() || length < 2 => return Err("its header is cut off".into()),
            // Coding style: precincts, by powers of two for each resolution.
            0xff52 if header.u8(at + 4) & 1 != 0 => {
                let sizes = at + 14..at + 2 + length;
                if sizes.clone().any(|size| (header.u8(size) & 0x0f).min(header.u8(size) >> 4) < 5) {
                    return Err("precincts too small for a field".into());
                }
            }
            0xff53 => return Err("a coding style of its own for one component".into()),
            _ => {}
        }
        at += 2 + length;
    }
}

/// A decoded PNG: rows of packed numbers, each row from a byte on.
pub struct Picture {
    pub bytes: Vec<u8>,
    pub columns: usize,
}

/// A grey or coloured image whose pixels are numbers of `width` bits.
pub fn png(data: &[u8], width: u32, count: usize) -> Result<Picture, String> {
    guarded("PNG", || {
        let mut reader =
            png::Decoder::new(std::io::Cursor::new(data)).read_info().map_err(|error| error.to_string())?;
        let info = reader.info();
        let (columns, rows) = (info.width as usize, info.height as usize);
        if columns.checked_mul(rows) != Some(count) {
            return Err(format!("an image of {columns} x {rows} for {count} values"));
        }
        let depth = info.bits_per_pixel();
        if depth != width as usize || info.color_type == png::ColorType::Indexed || info.interlaced {
            return Err(format!("pixels of {depth} bits for numbers of {width}"));
        }
        let size = reader.output_buffer_size().ok_or("its size")?;
        let mut bytes = vec![0; size];
        reader.next_frame(&mut bytes).map_err(|error| error.to_string())?;
        Ok(Picture { bytes, columns })
    })
}

/// The numbers of a CCSDS stream (template 5.42), big-endian, in as many bytes each as the stream says.
pub fn ccsds(packing: Octets<'_>, data: &[u8], count: usize) -> Result<Vec<u8>, String> {
    guarded("CCSDS", || {
        // Signs and byte order are those of the numbers in memory, not of the stream.
        let flags = rust_aec::flags_from_grib2_ccsds_flags(packing.u8(22));
        let flags = (flags - AecFlags::DATA_SIGNED) | AecFlags::MSB;
        let parameters = AecParams::new(packing.u8(20), packing.u8(23).into(), packing.u16(24).into(), flags);
        rust_aec::decode(data, parameters, count).map_err(|error| error.to_string())
    })
}
