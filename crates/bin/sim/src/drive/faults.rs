//! Faults on command: unreadable ranges, latency spikes, hanging, death.
//!
//! Not here: which data a power cut destroys (`volatile`).

use units::Nanos;

use super::{DriveRequest, Op};

/// Which commands a faulty range refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Both.
    Both,
}

/// A range of bytes that cannot be read, written or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRange {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Which commands fail.
    pub kind: FaultKind,
    /// How long the drive tries before it says so, in addition to the usual time.
    pub delay: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Power {
    #[default]
    On,
    Hung,
    Off,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) power: Power,
    pub(crate) ranges: Vec<FaultRange>,
    pub(crate) parked: Vec<DriveRequest>,
}

impl Faults {
    /// The longest delay of the faulty ranges this request touches; `None` if it touches none.
    pub(crate) fn hit(&self, request: &DriveRequest) -> Option<Nanos> {
        if self.ranges.is_empty() {
            return None;
        }
        let end = request.offset + request.bytes;
        self.ranges
            .iter()
            .filter(|range| match request.op {
                Op::Read => range.kind != FaultKind::Write,
                Op::Write | Op::WriteThrough => range.kind != FaultKind::Read,
                Op::Flush | Op::Discard => false,
            })
            .filter(|range| range.start < end && request.offset < range.start.saturating_add(range.bytes))
            .map(|range| range.delay)
            .max()
    }
}

/// Extra time of one media command every so often.
#[derive(Debug, Default)]
pub(crate) struct Spike {
    extra: Nanos,
    period: Nanos,
    next: Nanos,
}

impl Spike {
    pub(crate) fn set(&mut self, extra: Nanos, period: Nanos, now: Nanos) {
        *self = Self { extra, period: period.max(Nanos(1)), next: now };
    }

    /// The extra time of a command that begins at `at`.
    pub(crate) fn due(&mut self, at: Nanos) -> Nanos {
        if self.extra == Nanos::ZERO || at < self.next {
            return Nanos::ZERO;
        }
        let periods = (at.0 - self.next.0) / self.period.0 + 1;
        self.next = Nanos(self.next.0 + periods * self.period.0);
        self.extra
    }
}

/// Scatters a seed over 64 bits (splitmix64).
pub(crate) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
