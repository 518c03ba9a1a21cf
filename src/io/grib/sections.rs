//! Messages and their sections: where each lies in the file, checked against the file's length before it is believed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Context, Error, Result};

/// Bytes that are kept of a section: more than any template that is read has.
const KEPT: usize = 1024;
/// Bytes that are read at once: the sections of a message before its data.
const WINDOW: usize = 8 << 10;

/// A section in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// With its own header of five bytes.
    pub length: u32,
}

/// A field: the sections that describe it, as they stand in the file, and where its numbers are.
#[derive(Debug, Clone)]
pub struct Field {
    /// Of the message, counted from 1.
    pub message: u32,
    pub discipline: u8,
    /// Sections 1, 3, 4 and 5, cut to what templates need.
    pub identification: Vec<u8>,
    pub grid: Vec<u8>,
    pub product: Vec<u8>,
    pub packing: Vec<u8>,
    pub data: Data,
}

/// Where the numbers of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    /// Section 5.
    pub packing: Place,
    /// Section 6 of the field or, where it repeats one, of an earlier field of its message; `None` without a bitmap.
    pub bitmap: Option<Place>,
    /// Section 7.
    pub values: Place,
}

/// Big-endian numbers of a section, by the octet numbers of the manual, which count from 1. Octets that are not there read
/// as if every bit were set, which is how the format writes "missing".
#[derive(Clone, Copy)]
pub struct Octets<'a>(pub &'a [u8]);

impl Octets<'_> {
    pub fn u8(self, octet: usize) -> u8 {
        self.0.get(octet - 1).copied().unwrap_or(u8::MAX)
    }

    pub fn u16(self, octet: usize) -> u16 {
        u16::from_be_bytes(std::array::from_fn(|i| self.u8(octet + i)))
    }

    pub fn u32(self, octet: usize) -> u32 {
        u32::from_be_bytes(std::array::from_fn(|i| self.u8(octet + i)))
    }

    /// The first bit is the sign, the others are the magnitude.
    pub fn i8(self, octet: usize) -> i8 {
        let magnitude = (self.u8(octet) & 0x7f) as i8;
        if self.u8(octet) & 0x80 == 0 { magnitude } else { -magnitude }
    }

    pub fn i16(self, octet: usize) -> i16 {
        let magnitude = (self.u16(octet) & 0x7fff) as i16;
        if self.u16(octet) & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    pub fn i32(self, octet: usize) -> i32 {
        let magnitude = (self.u32(octet) & 0x7fff_ffff) as i32;
        if self.u32(octet) & 0x8000_0000 == 0 { magnitude } else { -magnitude }
    }

    pub fn f32(self, octet: usize) -> f32 {
        f32::from_bits(self.u32(octet))
    }
}

/// What the messages of a file hold.
#[derive(Debug)]
pub struct Contents {
    pub fields: Vec<Field>,
    pub messages: u32,
    /// Bytes between and behind messages that belong to none.
    pub stray: u64,
}

/// Walks through all messages of a file. `describe` names a field by its sections 1 and 4, for errors about one that is
/// cut off.
pub fn walk(path: &Path, describe: impl Fn(&Field) -> String) -> Result<Contents> {
    let name = path.display().to_string();
    let file = File::open(path).context(|| format!("{name}: cannot open"))?;
    let size = file.metadata().context(|| format!("{name}: cannot stat"))?.len();
    let mut window = Window { file: &file, size, name: &name, bytes: Vec::new(), offset: 0 };
    let mut contents = Contents { fields: Vec::new(), messages: 0, stray: 0 };
    let mut at = 0;
    while let Some(start) = window.find_message(at)? {
        contents.stray += start - at;
        contents.messages += 1;
        let message = Message { number: contents.messages, start, describe: &describe };
        at = message.read(&mut window, &mut contents.fields)?;
    }
    contents.stray += size - at;
    Ok(contents)
}

/// A part of the file in memory.
struct Window<'a> {
    file: &'a File,
    size: u64,
    name: &'a str,
    bytes: Vec<u8>,
    offset: u64,
}

impl Window<'_> {
    /// `count` bytes, fewer at the end of the file.
    fn get(&mut self, offset: u64, count: usize) -> Result<&[u8]> {
        let count = count.min(usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let inside = offset >= self.offset
            && offset.saturating_add(count as u64) <= self.offset + self.bytes.len() as u64;
        if !inside {
            let fill = (self.size.saturating_sub(offset)).min(WINDOW.max(count) as u64);
            self.bytes.resize(fill as usize, 0);
            self.offset = offset;
            self.file
                .read_exact_at(&mut self.bytes, offset)
                .context(|| format!("{}: cannot be read", self.name))?;
        }
        let first = (offset - self.offset) as usize;
        Ok(&self.bytes[first..first + count])
    }

    /// The next message: bulletin headings and padding may stand before it.
    fn find_message(&mut self, mut at: u64) -> Result<Option<u64>> {
        loop {
            let bytes = self.get(at, WINDOW)?;
            if let Some(found) = bytes.windows(4).position(|word| word == b"GRIB") {
                return Ok(Some(at + found as u64));
            }
            if bytes.len() < WINDOW {
                return Ok(None);
            }
            at += bytes.len() as u64 - 3;
        }
    }
}

/// A message while it is read.
struct Message<'a, D> {
    number: u32,
    start: u64,
    describe: &'a D,
}

impl<D: Fn(&Field) -> String> Message<'_, D> {
    /// Adds its fields; returns where it ends.
    fn read(&self, window: &mut Window<'_>, fields: &mut Vec<Field>) -> Result<u64> {
        let head = window.get(self.start, 16)?.to_vec();
        if head.get(7) == Some(&1) {
            return Err(Error::input(format!(
                "{}: message {} is GRIB edition 1, and only edition 2 is read",
                window.name, self.number
            ))
            .hint("convert it: grib_set -s edition=2 FILE OUT (ecCodes), or cdo -f grb2 copy FILE OUT"));
        }
        if head.len() < 16 {
            return Err(self.damaged(window, None, "ends inside its first section"));
        }
        if head[7] != 2 {
            let what = format!("has edition {}, and only edition 2 is read", head[7]);
            return Err(self.damaged(window, None, &what));
        }
        let discipline = head[6];
        let mut length = [0; 8];
        length.copy_from_slice(&head[8..16]);
        let length = u64::from_be_bytes(length);
        let Some(end) = self.start.checked_add(length).filter(|_| length >= 16 + 4) else {
            return Err(self.damaged(window, None, &format!("claims a length of {length} bytes")));
        };
        let mut field = Field {
            message: self.number,
            discipline,
            identification: Vec::new(),
            grid: Vec::new(),
            product: Vec::new(),
            packing: Vec::new(),
            data: Data {
                packing: Place { offset: 0, length: 0 },
                bitmap: None,
                values: Place { offset: 0, length: 0 },
            },
        };
        let before = fields.len();
        // The last bitmap that was written out in this message, which later fields may repeat.
        let mut bitmap = None;
        let mut last = 0;
        let mut at = self.start + 16;
        while at < end - 4 {
            let head = window.get(at, 6)?.to_vec();
            if head.len() < 5 {
                break;
            }
            let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            let number = head[4];
            let indicator = head.get(5).copied().filter(|_| length > 5).unwrap_or(u8::MAX);
            // 1, then 2 (or not), 3, 4, 5, 6, 7; a further field begins again with 2, 3 or 4.
            let follows = match number {
                2 => last == 1 || last == 7,
                3 => matches!(last, 1 | 2 | 7),
                4 => last == 3 || last == 7,
                1 | 5..=7 => number == last + 1,
                _ => false,
            };
            let fits = at.checked_add(length.into()).is_some_and(|next| next <= end - 4);
            if !follows || length < 5 || !fits {
                let what = format!("has a section {number} of {length} bytes behind its section {last}");
                return Err(self.damaged(window, Some(&field), &what));
            }
            let place = Place { offset: at, length };
            if at + u64::from(length) > window.size && number < 7 {
                break;
            }
            let kept = (length as usize).min(KEPT);
            match number {
                1 => field.identification = window.get(at, kept)?.to_vec(),
                3 => field.grid = window.get(at, kept)?.to_vec(),
                4 => field.product = window.get(at, kept)?.to_vec(),
                5 => {
                    field.packing = window.get(at, kept)?.to_vec();
                    field.data.packing = place;
                }
                6 => match indicator {
                    0 => {
                        bitmap = Some(place);
                        field.data.bitmap = bitmap;
                    }
                    254 if bitmap.is_some() => field.data.bitmap = bitmap,
                    u8::MAX => field.data.bitmap = None,
                    other => {
                        let what = format!("has a bitmap of kind {other}, which is not in the file");
                        return Err(self.damaged(window, Some(&field), &what));
                    }
                },
                7 => {
                    field.data.values = place;
                    if end <= window.size {
                        fields.push(field.clone());
                    }
                }
                _ => {}
            }
            last = number;
            at += u64::from(length);
        }
        if end > window.size {
            let what = format!("is cut off: expected {length} bytes, found {}", window.size - self.start);
            return Err(self.damaged(window, Some(&field), &what));
        }
        if window.get(end - 4, 4)? != b"7777" || last != 7 || fields.len() == before {
            return Err(self.damaged(window, Some(&field), "does not end where its header says"));
        }
        Ok(end)
    }

    fn damaged(&self, window: &Window<'_>, field: Option<&Field>, what: &str) -> Error {
        let described = field.filter(|f| !f.product.is_empty()).map(self.describe);
        let described = described.map_or(String::new(), |text| format!(" ({text})"));
        Error::input(format!("{}: message {}{described} {what}", window.name, self.number))
            .hint("the file is damaged or incomplete: copy or download it again")
    }
}
