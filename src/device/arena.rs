//! Memory is planned once: a plan hands out slots, a device allocates them all in one piece.

/// How exactly the numbers of a slot have to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As they are: parameters, fields, sums.
    Exact,
    /// As exactly as the device computes: what one layer hands to the next.
    Activation,
}

/// A range of a device's arena, in elements. Cheap to copy; means nothing without the device that was allocated from
/// the same plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    kind: Kind,
    /// Among the slots of its kind.
    start: usize,
    len: usize,
}

/// Hands out slots one behind the other, each kind in a part of its own.
#[derive(Debug, Clone, Default)]
pub struct ArenaPlan {
    exact: usize,
    activations: usize,
}

/// Slots begin on cache-line and CUDA-vector boundaries, counted in elements of up to 8 bytes.
const ALIGNMENT: usize = 64;

impl ArenaPlan {
    pub fn slot(&mut self, len: usize) -> Slot {
        Slot { kind: Kind::Exact, start: take(&mut self.exact, len), len }
    }

    /// For activations and their gradients, which a device may keep in the precision that it computes in.
    pub fn activations(&mut self, len: usize) -> Slot {
        Slot { kind: Kind::Activation, start: take(&mut self.activations, len), len }
    }

    /// Elements of the whole arena: those kept as they are come first.
    pub fn elements(&self) -> usize {
        self.exact + self.activations
    }

    /// Elements of each part.
    pub fn parts(&self) -> ArenaParts {
        ArenaParts { exact: self.exact, activations: self.activations }
    }
}

/// How many elements there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArenaParts {
    pub exact: usize,
    pub activations: usize,
}

impl ArenaParts {
    /// Where a slot begins in an arena that keeps activations behind the rest, all numbers of one size.
    ///
    /// Panics where the slot lies outside: that is a mistake in the plan, not in the data.
    pub fn place(&self, slot: Slot) -> usize {
        let (first, room) = match slot.kind {
            Kind::Exact => (0, self.exact),
            Kind::Activation => (self.exact, self.activations),
        };
        assert!(
            slot.start + slot.len <= room,
            "{slot:?} lies outside the arena of {} elements: was the device allocated from another plan?",
            self.exact + self.activations
        );
        first + slot.start
    }
}

/// Takes `len` elements, and gives where they begin.
fn take(end: &mut usize, len: usize) -> usize {
    let start = *end;
    *end = (start + len).next_multiple_of(ALIGNMENT);
    start
}

impl Slot {
    /// No elements.
    pub const EMPTY: Self = Self { kind: Kind::Exact, start: 0, len: 0 };

    /// Among the slots of its kind.
    pub fn start(self) -> usize {
        self.start
    }

    pub fn len(self) -> usize {
        self.len
    }

    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Whether the device may keep it in the precision that it computes in.
    pub fn is_activation(self) -> bool {
        self.kind == Kind::Activation
    }

    /// Elements `start..start + len` of this slot.
    pub fn part(self, start: usize, len: usize) -> Slot {
        assert!(start + len <= self.len, "part {start}+{len} of a slot of {}", self.len);
        Slot { start: self.start + start, len, ..self }
    }

    pub fn overlaps(self, other: Slot) -> bool {
        self.kind == other.kind && self.start < other.start + other.len && other.start < self.start + self.len
    }
}
