//! Halo cells are copies of interior cells; the adjoint carries their gradients home.

use std::sync::Arc;

use super::super::{HaloMap, HaloPart, Real, Slot};
use super::Cuda;
use super::driver::{Gpu, Memory};
use super::modules::Grid;
use crate::error::Result;

/// In place of the source of a halo cell that holds 0.
const NONE: u32 = u32::MAX;

/// The rules whose tables are on the GPU.
#[derive(Default)]
pub(super) struct Tables {
    known: Vec<(Arc<[HaloPart]>, Vec<Table>)>,
}

/// One part of a rule: its copies, sorted by source, `[to, from, turned]` each; where each source's begin; and which
/// channels are odd.
struct Table {
    memory: Memory,
    copies: usize,
    sources: usize,
    starts: u64,
    odd: u64,
    /// For each cell of the padded image and one beyond, where the copies that are made of it begin.
    firsts: u64,
    /// Whether 16 bytes of a cell can be copied at once.
    plain: bool,
}

impl Table {
    fn new(gpu: &Gpu, cells: usize, part: &HaloPart) -> Result<Self> {
        let mut copies: Vec<[u32; 3]> =
            part.copies.iter().map(|&(to, from, turned)| [to, from, u32::from(turned)]).collect();
        // Stable: copies of one source stay in the order of the map, which is the order that the CPU adds them in.
        copies.sort_by_key(|copy| copy[1]);
        let mut starts: Vec<u32> = (0..copies.len())
            .filter(|&k| k == 0 || copies[k][1] != copies[k - 1][1])
            .map(|k| k as u32)
            .collect();
        // Cells without a source, as one more source.
        if !part.zeros.is_empty() {
            starts.push(copies.len() as u32);
            copies.extend(part.zeros.iter().map(|&to| [to, NONE, 0]));
        }
        let of =
            |cell: usize| part.copies.len().min(copies.partition_point(|copy| (copy[1] as usize) < cell));
        let firsts: Vec<u32> = (0..=cells).map(|cell| of(cell) as u32).collect();
        let sources = starts.len();
        starts.push(copies.len() as u32);
        let mut bytes: Vec<u8> = copies.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let starts_at = bytes.len() as u64;
        bytes.extend(starts.iter().flat_map(|word| word.to_le_bytes()));
        let firsts_at = bytes.len() as u64;
        bytes.extend(firsts.iter().flat_map(|word| word.to_le_bytes()));
        let odd_at = bytes.len() as u64;
        bytes.extend(part.odd.iter().map(|&odd| u8::from(odd)));
        let memory = Memory::holding(gpu, &bytes)?;
        Ok(Self {
            copies: copies.len(),
            sources,
            starts: memory.start() + starts_at,
            odd: memory.start() + odd_at,
            firsts: memory.start() + firsts_at,
            plain: !part.odd.contains(&true),
            memory,
        })
    }
}

impl Tables {
    fn get(&mut self, gpu: &Gpu, map: &HaloMap) -> Result<&[Table]> {
        // The kept pointer keeps the rule alive, so that no other rule has its address.
        let known = self.known.iter().position(|(parts, _)| Arc::ptr_eq(parts, &map.parts));
        let index = match known {
            Some(index) => index,
            None => {
                let tables =
                    map.parts.iter().map(|part| Table::new(gpu, map.cells, part)).collect::<Result<_>>()?;
                self.known.push((map.parts.clone(), tables));
                self.known.len() - 1
            }
        };
        Ok(&self.known[index].1)
    }

    pub fn clear(&mut self) {
        self.known.clear();
    }
}

/// Addresses of the copies and of where those of each cell begin, for a kernel that fills the halo on its way; `None` where
/// channels differ.
pub(super) fn copies_made<T: Real>(cuda: &Cuda<T>, map: &HaloMap, x: Slot) -> Result<Option<[u64; 2]>> {
    check(map, x);
    let mut tables = cuda.halos.borrow_mut();
    let table = match tables.get(&cuda.gpu, map)? {
        [table] if table.plain && map.parts[0].zeros.is_empty() => table,
        _ => return Ok(None),
    };
    Ok(Some([table.memory.start(), table.firsts]))
}

pub(super) fn fill<T: Real>(cuda: &Cuda<T>, map: &HaloMap, x: Slot) -> Result<()> {
    check(map, x);
    let mut tables = cuda.halos.borrow_mut();
    let cell_bytes = map.channels * cuda.arena.size_of(x);
    for (part, table) in map.parts.iter().zip(tables.get(&cuda.gpu, map)?) {
        let copies = table.memory.start();
        if table.plain && part.channels.len() == map.channels && cell_bytes.is_multiple_of(16) {
            let vectors = cell_bytes / 16;
            let n = table.copies * vectors;
            let launch = cuda.kernel("halo_fill_wide").slot(x).address(copies).int(vectors);
            launch.long(map.cells).int(n).run(Grid::over(n).times(map.images))?;
            continue;
        }
        let n = table.copies * part.channels.len();
        let launch = cuda.kernel("halo_fill").slot(x).address(copies).address(table.odd);
        let launch = launch.int(part.channels.start).int(part.channels.len()).int(map.channels);
        launch.long(map.cells).int(n).run(Grid::over(n).times(map.images))?;
    }
    Ok(())
}

pub(super) fn adjoint<T: Real>(cuda: &Cuda<T>, map: &HaloMap, dx: Slot) -> Result<()> {
    check(map, dx);
    let mut tables = cuda.halos.borrow_mut();
    let cell_bytes = map.channels * cuda.arena.size_of(dx);
    for (part, table) in map.parts.iter().zip(tables.get(&cuda.gpu, map)?) {
        if table.plain && part.channels.len() == map.channels && cell_bytes.is_multiple_of(16) {
            let vectors = cell_bytes / 16;
            let n = table.sources * vectors;
            let launch = cuda.kernel("halo_adjoint_wide").slot(dx).address(table.memory.start());
            let launch = launch.address(table.starts).int(vectors).long(map.cells).int(n);
            launch.run(Grid::over(n).times(map.images))?;
            continue;
        }
        let n = table.sources * part.channels.len();
        let launch = cuda.kernel("halo_adjoint").slot(dx).address(table.memory.start());
        let launch = launch.address(table.starts).address(table.odd);
        let launch = launch.int(part.channels.start).int(part.channels.len()).int(map.channels);
        launch.long(map.cells).int(n).run(Grid::over(n).times(map.images))?;
    }
    Ok(())
}

fn check(map: &HaloMap, x: Slot) {
    let len = map.cells * map.channels;
    assert_eq!(x.len(), map.images * len, "the halo map is for {} images of {len}", map.images);
    assert!(map.images < 1 << 16, "at most 65535 images");
    for part in map.parts.iter() {
        assert_eq!(part.odd.len(), part.channels.len(), "one parity for each channel");
        let most = (part.copies.len() + part.zeros.len()) * part.channels.len();
        assert!(u32::try_from(most).is_ok(), "a halo of {most} numbers an image");
    }
}
