//! A model of one disk drive, run by any clock of the caller: virtual time in the simulator and in `predict`, real time in the
//! emulated disk of the `lab` crate.
//!
//! Promise: a pure state machine. Time and chance are arguments; the same calls give the same completions. Time never
//! needs to be punctual: a late call computes the events of the time that has passed. No allocation per request once the
//! queues have grown.
//! Not here: data (the caller's), its state after a power cut (`volatile`). Behaviour in a sentence: seeks by
//! cylinder distance, rotation by the clock, zoned media rate, read-ahead buffer, command queue, volatile write cache.

mod buffer;
mod cache;
mod faults;
mod flash;
mod geometry;
mod parameters;
mod predict;
mod rotating;
mod volatile;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

pub use faults::{FaultKind, FaultRange};
pub use parameters::{DriveProfile, Order, ParameterError, Parameters};
pub use predict::{OffsetOrder, Prediction, Workload, predict, predict_list};
pub use volatile::{CutReport, IMAGE_BYTES, Unflushed};

use faults::{Faults, Power};
use flash::Flash;
use rotating::Rotating;

/// Kind of a request to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write; complete when in the write cache, if there is one.
    Write,
    /// Write; complete when on the media.
    WriteThrough,
    /// Everything completed before is on the media when this completes. Offset and bytes do not matter.
    Flush,
    /// The range is no longer needed; costs only the command.
    Discard,
}

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveRequest {
    /// The caller's name for it, returned with its completion.
    pub tag: u64,
    /// Operation.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// How many; not beyond the drive's size.
    pub bytes: u64,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Done.
    Ok,
    /// The media could not be read or written there.
    MediumError,
    /// The drive is dead, or lost its power.
    DriveGone,
}

/// The end of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandEnd {
    /// As in the request.
    pub tag: u64,
    /// When it completed by the drive's clock; may be earlier than the call that reports it.
    pub at: Nanos,
    /// How.
    pub outcome: CommandOutcome,
}

/// Work of the drive since it was made or [`Drive::reset_stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DriveStats {
    /// Commands that needed the media, drains of the write cache included.
    pub media_ops: u64,
    /// Of these, how many moved the arm.
    pub seeks: u64,
    /// Time spent seeking.
    pub seek_time: Nanos,
    /// Time spent waiting for the angle.
    pub rotation_time: Nanos,
    /// Time spent transferring.
    pub transfer_time: Nanos,
    /// How much of these three times was spent on writes and drains of the write cache.
    pub write_time: Nanos,
    /// Reads answered from a buffer.
    pub hits: u64,
    /// Reads served by continuing without a seek.
    pub streamed: u64,
    /// Writes accepted by the write cache.
    pub cached_writes: u64,
    /// Drains of the write cache.
    pub drains: u64,
    /// Completed flushes.
    pub flushes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    sequence: u64,
    tag: u64,
    failed: bool,
}

/// Completions of known time, in order of time and then of becoming known.
#[derive(Debug, Default)]
pub(crate) struct DueList {
    heap: BinaryHeap<Reverse<Due>>,
    sequence: u64,
}

impl DueList {
    pub(crate) fn push(&mut self, tag: u64, at: Nanos, failed: bool) {
        self.sequence += 1;
        self.heap.push(Reverse(Due { at, sequence: self.sequence, tag, failed }));
    }

    fn first_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|due| due.0.at)
    }
}

#[derive(Debug)]
enum Mechanism {
    Rotating(Box<Rotating>),
    Flash(Box<Flash>),
}

/// A drive.
#[derive(Debug)]
pub struct Drive {
    parameters: Parameters,
    mechanism: Mechanism,
    due: DueList,
    faults: Faults,
    clock: DriveClock,
    pending: u32,
}

impl Drive {
    /// Makes a drive at rest; `seed` chooses where the platters stand at time zero.
    ///
    /// # Errors
    /// The parameters contradict each other.
    pub fn new(parameters: Parameters, seed: u64) -> Result<Self, ParameterError> {
        parameters.check()?;
        let mechanism = if parameters.rotational {
            Mechanism::Rotating(Box::new(Rotating::new(&parameters)))
        } else {
            Mechanism::Flash(Box::new(Flash::new(&parameters)))
        };
        // The inner clock is ahead by the angle, so that time zero is not always the start of a track.
        let angle = Nanos(faults::mixed(seed) % parameters.turn().0.max(1));
        Ok(Self {
            parameters,
            mechanism,
            due: DueList::default(),
            faults: Faults::default(),
            clock: DriveClock::ahead_by(angle),
            pending: 0,
        })
    }

    /// Its parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Hands it a command. `now` must not fall behind an earlier call's by more than is harmless: a command is never served
    /// before the latest time that the drive has received.
    ///
    /// # Panics
    /// The range ends beyond the drive.
    pub fn submit(&mut self, request: DriveRequest, now: Nanos) {
        assert!(
            request.offset.checked_add(request.bytes).is_some_and(|end| end <= self.parameters.size),
            "a request beyond the drive's {} bytes: {request:?}",
            self.parameters.size
        );
        let now = self.clock.inner(now);
        self.advance(now);
        self.pending += 1;
        match self.faults.power {
            Power::Off => self.due.push(request.tag, now.saturating_add(self.parameters.hovh), true),
            Power::Hung => self.faults.parked.push(request),
            Power::On => self.begin(request, now),
        }
    }

    fn begin(&mut self, request: DriveRequest, now: Nanos) {
        let fault = self.faults.hit(&request);
        match &mut self.mechanism {
            Mechanism::Rotating(disk) => disk.submit(request, fault, now, &mut self.due),
            Mechanism::Flash(flash) => flash.submit(request, fault, now, &mut self.due),
        }
    }

    /// When to call [`Drive::complete`] next; `None`: nothing will happen without a new command.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.next_wakeup_ahead(Nanos::ZERO)
    }

    /// Reports the commands completed up to `now`, in order of time.
    pub fn complete(&mut self, now: Nanos, out: &mut Vec<CommandEnd>) {
        self.complete_ahead(now, Nanos::ZERO, out);
    }

    /// As [`Drive::next_wakeup`] for a caller that wants completions `lead` before their time.
    #[must_use]
    pub fn next_wakeup_ahead(&self, lead: Nanos) -> Option<Nanos> {
        if self.faults.power == Power::Hung {
            return None;
        }
        let event = match &self.mechanism {
            Mechanism::Rotating(disk) => disk.next_event(),
            Mechanism::Flash(_) => None,
        };
        let due = self.due.first_at();
        let event = event.map(|at| self.clock.outer(at));
        let due = due.map(|at| self.clock.outer(at).saturating_sub(lead));
        match (event, due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// As [`Drive::complete`], but also reports the completions up to `lead` later that are already certain: an
    /// emulator needs time to get its answers out.
    pub fn complete_ahead(&mut self, now: Nanos, lead: Nanos, out: &mut Vec<CommandEnd>) {
        let until = self.clock.inner(now.saturating_add(lead));
        self.advance(self.clock.inner(now));
        if self.faults.power == Power::Hung {
            return;
        }
        while let Some(Reverse(due)) = self.due.heap.peek() {
            if due.at > until {
                break;
            }
            let outcome = match (due.failed, self.faults.power) {
                (false, _) => CommandOutcome::Ok,
                (true, Power::Off) => CommandOutcome::DriveGone,
                (true, _) => CommandOutcome::MediumError,
            };
            out.push(CommandEnd { tag: due.tag, at: self.clock.outer(due.at), outcome });
            self.due.heap.pop();
            self.pending -= 1;
        }
    }

    fn advance(&mut self, now: Nanos) {
        if let Mechanism::Rotating(disk) = &mut self.mechanism {
            disk.advance(now, &mut self.due);
        }
    }

    /// Commands submitted and not yet reported.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Its work so far.
    #[must_use]
    pub fn stats(&self) -> DriveStats {
        match &self.mechanism {
            Mechanism::Rotating(disk) => disk.stats,
            Mechanism::Flash(flash) => flash.stats,
        }
    }

    /// Starts counting anew.
    pub fn reset_stats(&mut self) {
        match &mut self.mechanism {
            Mechanism::Rotating(disk) => disk.stats = DriveStats::default(),
            Mechanism::Flash(flash) => flash.stats = DriveStats::default(),
        }
    }

    /// Bytes in the volatile write cache that are not on the media.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        match &self.mechanism {
            Mechanism::Rotating(disk) => disk.dirty_bytes(),
            Mechanism::Flash(_) => 0,
        }
    }

    /// Sustained sequential rate where `offset` lies, bytes per second.
    #[must_use]
    pub fn rate_at(&self, offset: u64) -> u64 {
        match &self.mechanism {
            Mechanism::Rotating(disk) => disk.rate_at(offset),
            Mechanism::Flash(_) => self.parameters.rate_read,
        }
    }

    /// Empties the read buffer.
    pub fn drop_read_buffer(&mut self, now: Nanos) {
        let now = self.clock.inner(now);
        self.advance(now);
        if let Mechanism::Rotating(disk) = &mut self.mechanism {
            disk.drop_read_buffer();
        }
    }

    /// From now on everything takes `factor` times as long (1.0: as its parameters say). At least 0.01.
    pub fn set_slow(&mut self, factor: f64, now: Nanos) {
        self.advance(self.clock.inner(now));
        self.clock.set(factor, now);
    }

    /// Adds a range that cannot be read, written or both.
    pub fn add_fault(&mut self, fault: FaultRange) {
        self.faults.ranges.push(fault);
    }

    /// Removes all such ranges.
    pub fn clear_faults(&mut self) {
        self.faults.ranges.clear();
    }

    /// Every `period`, the next media command takes `extra` longer; zero `extra`: no more.
    pub fn set_spike(&mut self, extra: Nanos, period: Nanos, now: Nanos) {
        let now = self.clock.inner(now);
        match &mut self.mechanism {
            Mechanism::Rotating(disk) => disk.spike.set(extra, period, now),
            Mechanism::Flash(flash) => flash.spike.set(extra, period, now),
        }
    }

    /// Stops answering until [`Drive::revive`].
    pub fn hang(&mut self, now: Nanos) {
        self.advance(self.clock.inner(now));
        self.faults.power = Power::Hung;
    }

    /// Answers everything with an error, at once, until [`Drive::revive`]. The content of the write cache is lost (the caller
    /// decides about the data: `Unflushed::cut`).
    pub fn power_off(&mut self, now: Nanos) {
        let now = self.clock.inner(now);
        self.advance(now);
        let mut tags: Vec<u64> = self.due.heap.drain().map(|due| due.0.tag).collect();
        tags.extend(self.faults.parked.drain(..).map(|request| request.tag));
        match &mut self.mechanism {
            Mechanism::Rotating(disk) => disk.power_off(now, &mut tags),
            Mechanism::Flash(flash) => flash.power_off(now),
        }
        for tag in tags {
            self.due.push(tag, now, true);
        }
        self.faults.power = Power::Off;
    }

    /// Ends [`Drive::hang`] and [`Drive::power_off`]: waiting commands continue.
    pub fn revive(&mut self, now: Nanos) {
        let inner = self.clock.inner(now);
        self.advance(inner);
        self.faults.power = Power::On;
        for request in std::mem::take(&mut self.faults.parked) {
            self.begin(request, inner);
        }
    }

    /// Whether it works: neither off nor hung.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.faults.power == Power::On
    }

    /// Whether a write there would fail (so that an emulator does not keep its data).
    #[must_use]
    pub fn refuses(&self, request: &DriveRequest) -> bool {
        self.faults.power == Power::Off || self.faults.hit(request).is_some()
    }
}

/// Maps the caller's time to the drive's own, which runs slower when the drive is slow.
#[derive(Debug, Clone, Copy)]
struct DriveClock {
    factor: f64,
    outer_base: Nanos,
    inner_base: Nanos,
}

impl DriveClock {
    fn ahead_by(angle: Nanos) -> Self {
        Self { factor: 1.0, outer_base: Nanos::ZERO, inner_base: angle }
    }

    fn set(&mut self, factor: f64, now: Nanos) {
        *self = Self { factor: factor.max(0.01), outer_base: now, inner_base: self.inner(now) };
    }

    fn inner(&self, outer: Nanos) -> Nanos {
        let span = outer.saturating_sub(self.outer_base).0;
        let span = if self.is_plain() { span } else { parameters::whole_of(parameters::float_of(span) / self.factor) };
        Nanos(self.inner_base.0 + span)
    }

    fn outer(&self, inner: Nanos) -> Nanos {
        let span = inner.saturating_sub(self.inner_base).0;
        // Rounded up: a wake-up at this time must not come before its event.
        let span = if self.is_plain() {
            span
        } else {
            parameters::whole_of((parameters::float_of(span) * self.factor).ceil()) + 1
        };
        Nanos(self.outer_base.0.saturating_add(span))
    }

    fn is_plain(&self) -> bool {
        (self.factor - 1.0).abs() < 1e-9
    }
}

#[cfg(test)]
mod tests;
