//! Numbers of contents and generations: each is used once, also across crashes.
//!
//! Promise: a number is given out only if the journal durably has it as used. Not here: when that is durable (`commit`).

use crate::record::Record;

/// Numbers that are reserved at once: the journal says below which number all are used up.
const NUMBERS_STEP: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: u64,
    /// The bound below which numbers are used up: with the next commit, and durably.
    staged: u64,
    durable: u64,
}

impl Numbers {
    /// Numbers from `next` on, once the staged record is durable.
    pub(crate) fn from(next: u64, records: &mut Vec<u8>) -> Self {
        let mut numbers = Self { next, staged: 0, durable: 0 };
        numbers.reserve_if_few(records);
        numbers
    }

    /// A number that was never used and will not be; none until more are durable.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let number = self.next;
        (number < self.durable).then(|| {
            self.next += 1;
            debug_assert!(self.next <= self.staged, "a number is reserved before it is given out");
            number
        })
    }

    /// Reserves more before they are needed.
    pub(crate) fn reserve_if_few(&mut self, records: &mut Vec<u8>) {
        if self.staged.saturating_sub(self.next) < NUMBERS_STEP / 2 {
            self.staged = self.next.saturating_add(NUMBERS_STEP);
            debug_assert!(self.staged > self.durable, "more than before, or a number is given out twice");
            self.reserved().encode(records);
        }
    }

    /// The reserved numbers, for a checkpoint.
    pub(crate) const fn reserved(&self) -> Record {
        Record::NumbersFrom(self.staged)
    }

    /// The reserved numbers are durable.
    pub(crate) const fn made_durable(&mut self) {
        debug_assert!(self.staged >= self.durable, "numbers given out stay reserved over a crash");
        self.durable = self.staged;
    }
}
