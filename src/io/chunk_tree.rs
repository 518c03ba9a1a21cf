//! The list of chunks as HDF5 keeps it in the file, walked by ourselves.
//!
//! HDF5 1.10, the system's library on many machines, finds its n-th chunk by counting from the first: listing a year of
//! hourly fields takes it minutes. Files of the NetCDF library keep the list as a version 1 B-tree, which is simple
//! to walk. Everything else is answered with `None` and left to the library. (HDF5 File Format Specification 3.0,
//! III.A.1, IV.A.1 and IV.A.2.i.)

use std::fs::File;
use std::os::unix::fs::FileExt;

const CONTINUATION: u16 = 0x10;
const LAYOUT: u16 = 0x08;
const UNDEFINED: u64 = u64::MAX;
/// More than any header takes [bytes].
const MOST_HEADER: u64 = 1 << 20;

/// Calls `each` with offset, filter mask, address and size of every stored chunk of the dataset whose object header is
/// at `header`, until it returns false. `None` when the file keeps them in another way or is damaged.
pub(super) fn visit(
    file: &File,
    file_size: u64,
    header: u64,
    rank: usize,
    each: &mut impl FnMut(&[u64], u32, u64, u64) -> bool,
) -> Option<()> {
    let bytes = Bytes { file, size: file_size };
    bytes.eight_byte_addresses().then_some(())?;
    let root = bytes.tree_of(header, rank)?;
    if root == UNDEFINED {
        return Some(()); // nothing was written
    }
    // A key and an address; so many of them fit into the file, which bounds a walk through a damaged one.
    let mut left = file_size / (16 + 8 * (rank as u64 + 1));
    let mut walk = Walk { bytes, rank, left: &mut left, each };
    walk.node(root, None).map(|_| ())
}

/// The file, read within its bounds.
struct Bytes<'a> {
    file: &'a File,
    size: u64,
}

impl Bytes<'_> {
    fn at(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        if address.checked_add(length)? > self.size {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// Whether the superblock says that addresses and lengths are 8 bytes and count from the file's first byte.
    fn eight_byte_addresses(&self) -> bool {
        let Some(block) = self.at(0, 48) else { return false };
        let base = |at: usize| number(&block, at, 8) == Some(0);
        match block[8] {
            0 => block[13] == 8 && block[14] == 8 && base(24),
            1 => block[13] == 8 && block[14] == 8 && base(28),
            2 | 3 => block[9] == 8 && block[10] == 8 && base(12),
            _ => false,
        }
    }

    /// The address of the B-tree of a chunked dataset.
    fn tree_of(&self, header: u64, rank: usize) -> Option<u64> {
        // Blocks of messages still to be read; a header has a handful.
        let (mut blocks, form) = self.first_block(header)?;
        let mut seen = 0;
        while let Some((address, length)) = blocks.pop() {
            seen += 1;
            if seen > 1000 || length > MOST_HEADER {
                return None;
            }
            let block = self.at(address, length)?;
            let mut at = 0;
            while let Some((kind, data, next)) = form.message(&block, at) {
                match kind {
                    // Version 3, chunked, one more dimension for the number itself, the address of the tree.
                    LAYOUT => {
                        let ours = data.get(..3)? == [3, 2, u8::try_from(rank + 1).ok()?];
                        return ours.then(|| number(data, 3, 8)).flatten();
                    }
                    CONTINUATION => blocks.push(form.inside(number(data, 0, 8)?, number(data, 8, 8)?)?),
                    _ => {}
                }
                at = next;
            }
        }
        None
    }

    /// Where the first messages of an object header lie, and in which form.
    fn first_block(&self, header: u64) -> Option<(Vec<(u64, u64)>, Form)> {
        let start = self.at(header, 32)?;
        if start.starts_with(b"OHDR") {
            let flags = start[5];
            let times = if flags & 0x20 != 0 { 16 } else { 0 };
            let phases = if flags & 0x10 != 0 { 4 } else { 0 };
            let width = 1 << (flags & 3);
            let length = number(&start, 6 + times + phases, width)?;
            let first = header + (6 + times + phases + width) as u64;
            return Some((vec![(first, length)], Form::Second { order: flags & 0x04 != 0 }));
        }
        (start[0] == 1)
            .then(|| number(&start, 8, 4))
            .flatten()
            .map(|length| (vec![(header + 16, length)], Form::First))
    }
}

/// The two versions of object headers.
#[derive(Clone, Copy)]
enum Form {
    First,
    /// Whether messages carry the order in which they were made.
    Second {
        order: bool,
    },
}

impl Form {
    /// Type and content of the message at `at`, and where the next one begins.
    fn message<'b>(&self, block: &'b [u8], at: usize) -> Option<(u16, &'b [u8], usize)> {
        let (kind, size, start) = match self {
            Self::First => (number(block, at, 2)? as u16, number(block, at + 2, 2)?, at + 8),
            Self::Second { order } => {
                let start = at + if *order { 6 } else { 4 };
                (u16::from(*block.get(at)?), number(block, at + 1, 2)?, start)
            }
        };
        let end = start + size as usize;
        Some((kind, block.get(start..end)?, end))
    }

    /// The messages inside a continuation block.
    fn inside(&self, address: u64, length: u64) -> Option<(u64, u64)> {
        match self {
            Self::First => Some((address, length)),
            // Without its signature and its checksum.
            Self::Second { .. } => Some((address.checked_add(4)?, length.checked_sub(8)?)),
        }
    }
}

struct Walk<'a, F> {
    bytes: Bytes<'a>,
    rank: usize,
    /// How many more entries the file can hold.
    left: &'a mut u64,
    each: &'a mut F,
}

impl<F: FnMut(&[u64], u32, u64, u64) -> bool> Walk<'_, F> {
    /// Visits the chunks below a node; `Some(false)` when no more are wanted.
    fn node(&mut self, address: u64, level: Option<u8>) -> Option<bool> {
        let head = self.bytes.at(address, 24)?;
        let at_level = head[5];
        // Levels count down to the leaves, so that a tree that bites its tail ends.
        if !head.starts_with(b"TREE\x01") || level.is_some_and(|level| level != at_level) {
            return None;
        }
        let entries = number(&head, 6, 2)?;
        *self.left = self.left.checked_sub(entries)?;
        let key = 8 + 8 * (self.rank + 1);
        let body = self.bytes.at(address + 24, entries * (key as u64 + 8))?;
        let mut offset = vec![0; self.rank];
        for entry in body.chunks_exact(key + 8) {
            let child = number(entry, key, 8)?;
            let more = if at_level > 0 {
                self.node(child, Some(at_level - 1))?
            } else {
                for (d, first) in offset.iter_mut().enumerate() {
                    *first = number(entry, 8 + 8 * d, 8)?;
                }
                (self.each)(&offset, number(entry, 4, 4)? as u32, child, number(entry, 0, 4)?)
            };
            if !more {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
