//! Memory is planned once: a plan hands out slots, a device allocates them all in one piece.

/// A range of a device's arena, in elements. Cheap to copy; means nothing without the device that was allocated from
/// the same plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    start: usize,
    len: usize,
}

/// Hands out slots one behind the other.
#[derive(Debug, Clone, Default)]
pub struct ArenaPlan {
    end: usize,
    peak: usize,
}

/// Slots begin on cache-line and CUDA-vector boundaries, counted in elements of up to 8 bytes.
const ALIGNMENT: usize = 64;

impl ArenaPlan {
    pub fn slot(&mut self, len: usize) -> Slot {
        let start = self.end;
        self.end = (start + len).next_multiple_of(ALIGNMENT);
        self.peak = self.peak.max(self.end);
        Slot { start, len }
    }

    /// Elements of the whole arena.
    pub fn elements(&self) -> usize {
        self.peak
    }

    /// Where the next slot would begin, to [`rewind`](Self::rewind) to.
    pub fn mark(&self) -> usize {
        self.end
    }

    /// Slots taken since `mark` may be handed out again: for scratch whose uses do not overlap in time.
    pub fn rewind(&mut self, mark: usize) {
        assert!(mark <= self.end, "an arena plan rewinds only backwards");
        self.end = mark;
    }
}

impl Slot {
    /// No elements.
    pub const EMPTY: Self = Self { start: 0, len: 0 };

    pub fn start(self) -> usize {
        self.start
    }

    pub fn len(self) -> usize {
        self.len
    }

    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Elements `start..start + len` of this slot.
    pub fn part(self, start: usize, len: usize) -> Slot {
        assert!(start + len <= self.len, "part {start}+{len} of a slot of {}", self.len);
        Slot { start: self.start + start, len }
    }

    pub fn overlaps(self, other: Slot) -> bool {
        self.start < other.start + other.len && other.start < self.start + self.len
    }
}
