//! Work at the side is done at once on a processor, where it cannot race with what comes next. So in tests what it touches is
//! remembered until it is joined, and whoever touches it otherwise than the rule of [`Device::aside`](super::Device::aside)
//! allows is found out.

use super::super::Slot;

/// What was touched in a sequence that is repeated.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Sequences inside of each other.
    depth: usize,
    inside: Option<usize>,
    /// Lane, slot, and whether it was written.
    touched: Vec<(usize, Slot, bool)>,
}

impl Lanes {
    pub fn begin(&mut self) {
        self.depth += 1;
    }

    pub fn end(&mut self) {
        self.depth -= 1;
        if self.depth == 0 {
            self.touched.clear();
        }
    }

    pub fn enter(&mut self, lane: usize) {
        assert!(self.inside.replace(lane).is_none(), "work at the side of work at the side");
    }

    pub fn leave(&mut self) {
        self.inside = None;
    }

    pub fn join(&mut self, lane: usize) {
        self.touched.retain(|(other, ..)| *other != lane);
    }

    /// Panics where another lane is busy with the slot.
    pub fn touch(&mut self, slot: Slot, writes: bool) {
        if self.depth == 0 || slot.is_empty() {
            return;
        }
        let is_busy = |(lane, other, wrote): &&(usize, Slot, bool)| {
            Some(*lane) != self.inside && (writes || *wrote) && other.overlaps(slot)
        };
        if let Some(busy) = self.touched.iter().find(is_busy) {
            let what = if writes { "written" } else { "read" };
            panic!("{slot:?} is {what} on lane {:?} beside (lane, slot, written) {busy:?}", self.inside);
        }
        if let Some(lane) = self.inside {
            let touched = (lane, slot, writes);
            if !self.touched.contains(&touched) {
                self.touched.push(touched);
            }
        }
    }
}

mod tests {
    use super::super::super::{ArenaPlan, Device, Sequence};
    use super::super::Cpu;
    use super::Slot;

    /// Copies a to b at the side, joins if asked to, then does something else.
    fn beside(joins: bool, then: impl Fn(&mut dyn Device<f32>, Slot, Slot)) {
        let mut plan = ArenaPlan::default();
        let (a, b) = (plan.slot(4), plan.slot(4));
        let mut device = Cpu::<f32>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        device.repeat(Sequence { name: "test", of: a, number: 0 }, &mut |device| {
            device.aside(1, &mut |device| device.copy(a, b));
            if joins {
                device.join(1);
            }
            then(device, a, b);
        });
        // What belonged to the sequence is done.
        device.zero(b);
    }

    #[test]
    fn what_is_joined_or_read_by_both_is_no_race() {
        beside(true, |device, a, b| device.copy(b, a));
        beside(false, |device, a, _| _ = device.sum_of_squares(a));
        beside(false, |device, a, b| device.aside(1, &mut |device| device.copy(b, a)));
    }

    #[test]
    #[should_panic(expected = "is read on lane None beside")]
    fn who_reads_what_is_being_written_is_found_out() {
        beside(false, |device, _, b| _ = device.sum_of_squares(b.part(1, 1)));
    }

    #[test]
    #[should_panic(expected = "is written on lane Some(2) beside")]
    fn who_writes_what_is_being_read_is_found_out() {
        beside(false, |device, a, _| device.aside(2, &mut |device| device.zero(a)));
    }
}
