//! The arena: one aligned allocation, and checked access to disjoint parts of it.

use super::super::{ArenaParts, Real, Slot};
use crate::error::{Error, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Large pages begin on 2 MiB boundaries; an arena that does too needs fewer translations.
const LARGE: usize = 2 << 20;
const CACHE_LINE: usize = 64;

/// All arrays of one device.
pub(super) struct Arena<T: Real> {
    start: NonNull<T>,
    elements: usize,
    parts: ArenaParts,
    /// How often the slots that somebody asked for have been handed out for writing.
    versions: Vec<(Slot, u64)>,
    #[cfg(test)]
    pub lanes: std::sync::Mutex<super::lanes::Lanes>,
}

// SAFETY: the arena owns its memory, like a Vec of T would, and T is Send and Sync.
unsafe impl<T: Real> Send for Arena<T> {}
// SAFETY: as above; a shared reference gives only shared slices.
unsafe impl<T: Real> Sync for Arena<T> {}

impl<T: Real> Default for Arena<T> {
    fn default() -> Self {
        Self {
            start: NonNull::dangling(),
            elements: 0,
            parts: ArenaParts::default(),
            versions: Vec::new(),
            #[cfg(test)]
            lanes: Default::default(),
        }
    }
}

impl<T: Real> Arena<T> {
    /// The arena of a plan, all zeros.
    pub fn of(parts: ArenaParts) -> Result<Self> {
        let mut arena = Self::zeroed(parts.exact + parts.activations)?;
        arena.parts = parts;
        Ok(arena)
    }

    /// `elements` zeros. Bytes that are zero are the number 0 in every [`Real`].
    pub fn zeroed(elements: usize) -> Result<Self> {
        if elements == 0 {
            return Ok(Self::default());
        }
        let layout = Self::layout(elements).ok_or_else(|| {
            Error::run(format!(
                "an arena of {elements} numbers does not fit into this machine's address space"
            ))
            .hint("choose a smaller batch, fewer hidden channels or a coarser grid")
        })?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast()) else {
            if layout.size() < LARGE {
                handle_alloc_error(layout);
            }
            return Err(Error::run(format!("{} MiB of memory cannot be had", layout.size() >> 20))
                .hint("choose a smaller batch, fewer hidden channels or a coarser grid"));
        };
        let parts = ArenaParts { exact: elements, activations: 0 };
        let mut arena = Self::default();
        (arena.start, arena.elements, arena.parts) = (start, elements, parts);
        Ok(arena)
    }

    /// As [`zeroed`](Self::zeroed), for working memory that is small beside the arena: as with a Vec, the program ends
    /// where it cannot be had.
    pub fn working(elements: usize) -> Self {
        Self::zeroed(elements)
            .unwrap_or_else(|_| handle_alloc_error(Self::layout(elements).unwrap_or(Layout::new::<T>())))
    }

    fn layout(elements: usize) -> Option<Layout> {
        let bytes = elements.checked_mul(size_of::<T>())?;
        Layout::from_size_align(bytes, if bytes >= LARGE { LARGE } else { CACHE_LINE }).ok()
    }

    /// A number that changes whenever any part of `slot` may have been written.
    pub fn version(&mut self, slot: Slot) -> u64 {
        if let Some(&(_, version)) = self.versions.iter().find(|(known, _)| *known == slot) {
            return version;
        }
        self.versions.push((slot, 0));
        0
    }

    pub fn read(&self, slot: Slot) -> &[T] {
        self.touch(slot, false);
        let place = self.parts.place(slot);
        // SAFETY: in bounds (checked), initialised (zeroed at birth), and borrowed from self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(place), slot.len()) }
    }

    pub fn write(&mut self, slot: Slot) -> &mut [T] {
        self.views([], [slot]).1[0]
    }

    /// Slices to read and slices to write at once.
    ///
    /// Panics where a slice to write overlaps any other: that is a mistake in the plan, not in the data.
    #[allow(clippy::needless_range_loop)]
    pub fn views<const R: usize, const W: usize>(
        &mut self,
        reads: [Slot; R],
        writes: [Slot; W],
    ) -> ([&[T]; R], [&mut [T]; W]) {
        for (i, &write) in writes.iter().enumerate() {
            for (_, version) in self.versions.iter_mut().filter(|(known, _)| known.overlaps(write)) {
                *version += 1;
            }
            for &read in &reads {
                assert!(!write.overlaps(read), "output {write:?} overlaps input {read:?}");
            }
            for &other in &writes[..i] {
                assert!(!write.overlaps(other), "output {write:?} overlaps output {other:?}");
            }
        }
        reads.iter().for_each(|&slot| self.touch(slot, false));
        writes.iter().for_each(|&slot| self.touch(slot, true));
        let (start, parts) = (self.start.as_ptr(), self.parts);
        (
            // SAFETY: in bounds (the place is checked) and disjoint from every slice that may be written (both checked); self is borrowed
            // exclusively for as long as the slices live.
            reads.map(|slot| unsafe { std::slice::from_raw_parts(start.add(parts.place(slot)), slot.len()) }),
            // SAFETY: as above, and disjoint from each other.
            writes.map(|slot| unsafe {
                std::slice::from_raw_parts_mut(start.add(parts.place(slot)), slot.len())
            }),
        )
    }

    /// Somebody is given this slot.
    #[cfg_attr(not(test), allow(unused_variables, clippy::unused_self))]
    fn touch(&self, slot: Slot, writes: bool) {
        #[cfg(test)]
        self.lanes.lock().unwrap().touch(slot, writes);
    }

    /// All of it.
    pub fn whole(&mut self) -> &mut [T] {
        // SAFETY: in bounds, initialised, and self is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.elements) }
    }
}

impl<T: Real> Drop for Arena<T> {
    fn drop(&mut self) {
        if self.elements > 0
            && let Some(layout) = Self::layout(self.elements)
        {
            // SAFETY: allocated in `zeroed` with this very layout, and freed only here.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) }
        }
    }
}

/// Working memory of operations that need more than a cache holds: grows to the largest of them.
pub(super) struct Workspace<T: Real> {
    arena: Arena<T>,
}

impl<T: Real> Default for Workspace<T> {
    fn default() -> Self {
        Self { arena: Arena::default() }
    }
}

impl<T: Real> Workspace<T> {
    /// `len` numbers, whose content is what some earlier operation left.
    pub fn numbers(&mut self, len: usize) -> &mut [T] {
        if self.arena.elements < len {
            self.arena = Arena::default();
            self.arena = Arena::working(len);
        }
        &mut self.arena.whole()[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::ArenaPlan;
    use super::*;

    #[test]
    fn an_arena_begins_with_zeros_and_keeps_what_is_written() {
        let mut plan = ArenaPlan::default();
        let (a, b) = (plan.slot(5), plan.slot(7));
        let mut arena = Arena::<f32>::zeroed(plan.elements()).unwrap();
        assert_eq!(arena.read(a), [0.0; 5]);
        arena.write(b).fill(2.0);
        let ([from], [to]) = arena.views([b], [a]);
        to.copy_from_slice(&from[..5]);
        assert_eq!(arena.read(a), [2.0; 5]);
    }

    #[test]
    #[should_panic(expected = "overlaps input")]
    fn an_output_never_overlaps_an_input() {
        let mut plan = ArenaPlan::default();
        let a = plan.slot(8);
        let mut arena = Arena::<f32>::zeroed(plan.elements()).unwrap();
        arena.views([a.part(0, 5)], [a.part(4, 4)]);
    }

    #[test]
    #[should_panic(expected = "outside the arena")]
    fn a_slot_of_a_larger_plan_is_refused() {
        let mut plan = ArenaPlan::default();
        let arena = Arena::<f32>::zeroed(16).unwrap();
        arena.read(plan.slot(17));
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error_and_no_abort() {
        assert!(Arena::<f64>::zeroed(usize::MAX / 4).is_err());
        assert!(Arena::<f64>::zeroed(1 << 56).is_err());
    }
}
