//! The drive in real time: holds each request until the model says it is done, and answers then.
//!
//! Promise: answers leave at the model's time less the path's own latency; time is absolute, so lateness never adds up.
//! The data is read and written when a request comes, outside the lock that the clock needs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use hdrhistogram::Histogram;
use sim::drive::{CommandEnd, CommandOutcome, CutReport, Drive, DriveRequest, Op};
use units::Nanos;

use super::image::{Flush, Image, ImageContent};
use super::stats::{ModelLateness, Statistics, TimeQuantiles};

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Times of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    /// At the model's time.
    Model,
    /// At once.
    Off,
    /// After this time, uncompensated: how the path's own latency is measured.
    Fixed(Nanos),
}

/// Reply of an answer, with its data.
#[derive(Debug)]
pub(crate) enum Answer {
    Read(ReplyData, ImageContent),
    Write(ReplyWrite),
    Flush(ReplyEmpty, Flush),
}

#[derive(Debug)]
struct PendingAnswer {
    answer: Answer,
    bytes: u64,
    came: Nanos,
}

/// An answer about to leave.
struct OutgoingAnswer {
    tag: u64,
    pending: PendingAnswer,
    outcome: CommandOutcome,
    planned: Nanos,
}

/// Longest time that a sleeping thread needs to run again, mostly because its idle processor sleeps too. The rest of a wait
/// is spent awake: a flash drive's answers are due sooner than this.
const WAKE_MAX: Nanos = Nanos::from_micros(100);

/// Path latency to subtract: the full base for long waits, less for waits hardly longer than `least` (processors that
/// slept less wake sooner), and a part per byte.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Compensation {
    /// From waits of [`Self::LONG`] on.
    pub(crate) base: Nanos,
    pub(crate) per_mib: Nanos,
    /// At waits of `least`.
    pub(crate) quick: Nanos,
    pub(crate) least: Nanos,
}

impl Compensation {
    /// A wait at which the path is known.
    pub(crate) const LONG: Nanos = Nanos::from_millis(1);

    /// For an answer of `bytes` to a request that waits for `wait`.
    fn of(self, bytes: u64, wait: Nanos) -> Nanos {
        let to_long = Self::LONG.saturating_sub(wait);
        let span = Self::LONG.saturating_sub(self.least).max(Nanos(1));
        let less = self.base.saturating_sub(self.quick).0 * to_long.min(span).0 / span.0;
        Nanos(self.base.0 - less + self.per_mib.0 * bytes / (1 << 20))
    }
}

#[derive(Debug)]
struct EngineCounters {
    since: Nanos,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    flushes: u64,
    errors: u64,
    untimed: u64,
    over_1ms: u64,
    over_10ms: u64,
    queue_max: u32,
    queue_area: u128,
    queue_since: Nanos,
    read_latency: Histogram<u64>,
    write_latency: Histogram<u64>,
    flush_latency: Histogram<u64>,
    lateness: Histogram<u64>,
    sizes: [u64; 12],
}

impl EngineCounters {
    fn new(now: Nanos) -> Self {
        let times = || Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("constant bounds are valid");
        Self {
            since: now,
            reads: 0,
            read_bytes: 0,
            writes: 0,
            written_bytes: 0,
            flushes: 0,
            errors: 0,
            untimed: 0,
            over_1ms: 0,
            over_10ms: 0,
            queue_max: 0,
            queue_area: 0,
            queue_since: now,
            read_latency: times(),
            write_latency: times(),
            flush_latency: times(),
            lateness: times(),
            sizes: [0; 12],
        }
    }
}

struct EngineInner {
    drive: Drive,
    timing: Timing,
    slow_factor: f64,
    compensation: Compensation,
    slots: Vec<Option<PendingAnswer>>,
    free: Vec<usize>,
    under_way: u32,
    done: Vec<CommandEnd>,
    /// Answers with a known time: (when they leave, tag, failed).
    outbox: BinaryHeap<Reverse<(Nanos, u64, bool)>>,
    counters: EngineCounters,
    stopped: bool,
}

/// One emulated disk.
pub(crate) struct DiskEngine {
    epoch: Instant,
    inner: Mutex<EngineInner>,
    image: Mutex<Image>,
    changed: Condvar,
    durable_writes: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere does not make the state unusable: the disk must continue to answer.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiskEngine {
    pub(crate) fn new(drive: Drive, image: Image) -> Self {
        let durable_writes = drive.parameters().wcache == 0;
        let inner = EngineInner {
            drive,
            timing: Timing::Off,
            slow_factor: 1.0,
            compensation: Compensation::default(),
            slots: Vec::new(),
            free: Vec::new(),
            under_way: 0,
            done: Vec::new(),
            outbox: BinaryHeap::new(),
            counters: EngineCounters::new(Nanos::ZERO),
            stopped: false,
        };
        Self {
            epoch: Instant::now(),
            inner: Mutex::new(inner),
            image: Mutex::new(image),
            changed: Condvar::new(),
            durable_writes,
        }
    }

    fn now(&self) -> Nanos {
        Nanos::from(self.epoch.elapsed())
    }

    /// A read came.
    pub(crate) fn read(&self, offset: u64, bytes: u32, reply: ReplyData) {
        let came = self.now();
        let count = usize::try_from(bytes).unwrap_or(0).min(ZEROS.len());
        // Not in the match: the lock would be held while answering.
        let content = locked(&self.image).read(offset, count);
        match content {
            Ok(content) => self.take(Op::Read, offset, u64::from(bytes), came, Answer::Read(reply, content)),
            Err(error) => {
                locked(&self.inner).counters.errors += 1;
                reply.error(Errno::from(error));
            }
        }
    }

    /// A write came.
    pub(crate) fn write(&self, offset: u64, data: &[u8], reply: ReplyWrite) {
        let came = self.now();
        let bytes = u64::try_from(data.len()).unwrap_or(0);
        let (tag, refused) = {
            let mut inner = locked(&self.inner);
            let tag = inner.reserve();
            let request = DriveRequest { tag, op: Op::Write, offset, bytes };
            (tag, inner.drive.refuses(&request))
        };
        let stored = if refused { Ok(()) } else { locked(&self.image).write(tag, offset, data) };
        match stored {
            Ok(()) => self.take_as(tag, Op::Write, offset, bytes, came, Answer::Write(reply)),
            Err(error) => {
                let mut inner = locked(&self.inner);
                inner.release(tag);
                inner.counters.errors += 1;
                drop(inner);
                reply.error(Errno::from(error));
            }
        }
    }

    /// A flush came.
    pub(crate) fn flush(&self, reply: ReplyEmpty) {
        let came = self.now();
        let flush = locked(&self.image).begin_flush();
        self.take(Op::Flush, 0, 0, came, Answer::Flush(reply, flush));
    }

    fn take(&self, op: Op, offset: u64, bytes: u64, came: Nanos, answer: Answer) {
        let tag = locked(&self.inner).reserve();
        self.take_as(tag, op, offset, bytes, came, answer);
    }

    fn take_as(&self, tag: u64, op: Op, offset: u64, bytes: u64, came: Nanos, answer: Answer) {
        let mut outgoing = Vec::new();
        {
            let mut inner = locked(&self.inner);
            let inner = &mut *inner;
            inner.admit(tag, PendingAnswer { answer, bytes, came });
            let request = DriveRequest { tag, op, offset, bytes };
            // Faults count even while time does not.
            let healthy = inner.drive.is_on() && !inner.drive.refuses(&request);
            match inner.timing {
                Timing::Off if healthy => {
                    inner.counters.untimed += 1;
                    outgoing.extend(inner.leave(tag, false, self.now()));
                }
                Timing::Fixed(span) if healthy => {
                    inner.outbox.push(Reverse((came.saturating_add(span), tag, false)));
                }
                _ => inner.drive.submit(request, came),
            }
            inner.collect(self.now(), &mut outgoing);
        }
        if outgoing.is_empty() { self.changed.notify_all() } else { self.send(outgoing) }
    }

    /// Sends the answers that are due, until [`Engine::stop`]. Runs in a thread of its own.
    pub(crate) fn run_clock(&self) {
        let mut outgoing = Vec::new();
        let mut inner = locked(&self.inner);
        while !inner.stopped {
            let now = self.now();
            inner.collect(now, &mut outgoing);
            if !outgoing.is_empty() {
                drop(inner);
                self.send(std::mem::take(&mut outgoing));
                inner = locked(&self.inner);
                continue;
            }
            let due = inner.wakeup().unwrap_or(Nanos::MAX);
            let asleep = due.saturating_sub(self.now()).saturating_sub(WAKE_MAX).min(Nanos::from_secs(3600));
            if asleep > Nanos::ZERO {
                let sleep = Duration::from_nanos(asleep.0);
                inner = self.changed.wait_timeout(inner, sleep).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                drop(inner);
                while self.now() < due {
                    std::hint::spin_loop();
                }
                inner = locked(&self.inner);
            }
        }
    }

    /// Ends [`Engine::run_clock`].
    pub(crate) fn stop(&self) {
        locked(&self.inner).stopped = true;
        self.changed.notify_all();
    }

    fn send(&self, outgoing: Vec<OutgoingAnswer>) {
        for out in outgoing {
            let failed = out.outcome != CommandOutcome::Ok;
            let late = self.now().saturating_sub(out.planned);
            match out.pending.answer {
                Answer::Read(reply, _) if failed => reply.error(Errno::EIO),
                Answer::Write(reply) if failed => {
                    // Whether it was made is open, as after any failed write; but it is not under way any more.
                    let _taken = locked(&self.image).acknowledge(out.tag, false);
                    reply.error(Errno::EIO);
                }
                Answer::Flush(reply, _) if failed => reply.error(Errno::EIO),
                Answer::Read(reply, content) => {
                    match &content {
                        ImageContent::Zeros => reply.data(&ZEROS[..usize::try_from(out.pending.bytes).unwrap_or(0)]),
                        ImageContent::Bytes(bytes) => reply.data(bytes),
                    }
                    locked(&self.image).recycle(content);
                }
                Answer::Write(reply) => {
                    let in_time = locked(&self.image).acknowledge(out.tag, self.durable_writes);
                    match u32::try_from(out.pending.bytes) {
                        Ok(bytes) if in_time => reply.written(bytes),
                        _ => reply.error(Errno::EIO),
                    }
                }
                // The power may have gone since the drive was done: the bytes to be made safe were dropped then.
                Answer::Flush(reply, flush) => {
                    let in_time = locked(&self.image).flushed(flush);
                    if in_time { reply.ok() } else { reply.error(Errno::EIO) }
                }
            }
            let mut inner = locked(&self.inner);
            inner.release(out.tag);
            if inner.timing == Timing::Model {
                inner.counters.count_lateness(late);
            }
        }
    }

    fn with<R>(&self, change: impl FnOnce(&mut EngineInner, Nanos) -> R) -> R {
        let result = change(&mut locked(&self.inner), self.now());
        self.changed.notify_all();
        result
    }

    pub(crate) fn set_timing(&self, timing: Timing) {
        self.with(|inner, _| inner.timing = timing);
    }

    pub(crate) fn set_compensation(&self, compensation: Compensation) {
        self.with(|inner, _| inner.compensation = compensation);
    }

    pub(crate) fn set_slow(&self, factor: f64) {
        self.with(|inner, now| {
            inner.slow_factor = factor;
            inner.drive.set_slow(factor, now);
        });
    }

    /// Bytes of the disk.
    pub(crate) fn size(&self) -> u64 {
        self.change_drive(|drive, _| drive.parameters().size)
    }

    /// Changes the drive, given the time.
    pub(crate) fn change_drive<R>(&self, change: impl FnOnce(&mut Drive, Nanos) -> R) -> R {
        self.with(|inner, now| change(&mut inner.drive, now))
    }

    /// Cuts the power: everything under way fails, unflushed writes are dropped or torn by `seed`.
    pub(crate) fn cut_power(&self, seed: u64) -> std::io::Result<CutReport> {
        let mut image = locked(&self.image);
        self.with(|inner, now| {
            inner.drive.power_off(now);
            // Answers that were certain but had not left are lost too.
            let waiting = std::mem::take(&mut inner.outbox);
            inner.outbox = waiting.into_iter().map(|Reverse((_, tag, _))| Reverse((now, tag, true))).collect();
        });
        image.cut(seed)
    }

    /// Power or life is back.
    pub(crate) fn revive(&self) {
        locked(&self.image).power_on();
        self.with(|inner, now| inner.drive.revive(now));
    }

    pub(crate) fn reset_stats(&self) {
        self.with(|inner, now| {
            inner.counters = EngineCounters::new(now);
            inner.drive.reset_stats();
        });
    }

    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn statistics(&self) -> Statistics {
        let unflushed_writes = u64::try_from(locked(&self.image).unflushed()).unwrap_or(0);
        self.with(|inner, now| {
            inner.count_queue(now);
            let (c, d) = (&inner.counters, inner.drive.stats());
            let seconds = now.saturating_sub(c.since).as_secs_f64();
            let busy = d.seek_time.as_secs_f64() + d.rotation_time.as_secs_f64() + d.transfer_time.as_secs_f64();
            Statistics {
                seconds,
                timing: match inner.timing {
                    Timing::Model => "model",
                    Timing::Off => "off",
                    Timing::Fixed(_) => "fixed",
                }
                .to_owned(),
                alive: inner.drive.is_on(),
                slow_factor: inner.slow_factor,
                reads: c.reads,
                read_bytes: c.read_bytes,
                writes: c.writes,
                written_bytes: c.written_bytes,
                flushes: c.flushes,
                errors: c.errors,
                untimed: c.untimed,
                media_operations: d.media_ops,
                seeks: d.seeks,
                seek_seconds: d.seek_time.as_secs_f64(),
                rotation_seconds: d.rotation_time.as_secs_f64(),
                transfer_seconds: d.transfer_time.as_secs_f64(),
                busy_percent: busy * inner.slow_factor / seconds.max(1e-9) * 100.0,
                write_percent: d.write_time.as_secs_f64() * inner.slow_factor / seconds.max(1e-9) * 100.0,
                buffer_hits: d.hits,
                streamed: d.streamed,
                drains: d.drains,
                dirty_bytes: inner.drive.dirty_bytes(),
                unflushed_writes,
                queue_now: inner.under_way,
                queue_max: c.queue_max,
                queue_mean: c.queue_area as f64 / 1e9 / seconds.max(1e-9),
                read_latency_us: TimeQuantiles::of(&c.read_latency),
                write_latency_us: TimeQuantiles::of(&c.write_latency),
                flush_latency_us: TimeQuantiles::of(&c.flush_latency),
                lateness_us: ModelLateness {
                    quantiles: TimeQuantiles::of(&c.lateness),
                    over_1ms: c.over_1ms,
                    over_10ms: c.over_10ms,
                },
                sizes: (0..c.sizes.len()).filter(|&i| c.sizes[i] > 0).map(|i| (512 << i, c.sizes[i])).collect(),
                compensation_us: (inner.compensation.base.0 as f64 / 1e3, inner.compensation.per_mib.0 as f64 / 1e3),
            }
        })
    }
}

impl EngineInner {
    fn reserve(&mut self) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        u64::try_from(slot).unwrap_or(u64::MAX)
    }

    fn release(&mut self, tag: u64) {
        self.free.push(usize::try_from(tag).unwrap_or(usize::MAX));
    }

    fn admit(&mut self, tag: u64, pending: PendingAnswer) {
        self.count_queue(pending.came);
        self.under_way += 1;
        let c = &mut self.counters;
        c.queue_max = c.queue_max.max(self.under_way);
        let class = usize::try_from((pending.bytes.max(512) / 512).ilog2()).unwrap_or(0).min(c.sizes.len() - 1);
        match &pending.answer {
            Answer::Read(..) => {
                c.reads += 1;
                c.read_bytes += pending.bytes;
                c.sizes[class] += 1;
            }
            Answer::Write(_) => {
                c.writes += 1;
                c.written_bytes += pending.bytes;
                c.sizes[class] += 1;
            }
            Answer::Flush(..) => c.flushes += 1,
        }
        self.slots[usize::try_from(tag).unwrap_or(usize::MAX)] = Some(pending);
    }

    fn count_queue(&mut self, now: Nanos) {
        let c = &mut self.counters;
        c.queue_area += u128::from(self.under_way) * u128::from(now.saturating_sub(c.queue_since).0);
        c.queue_since = now.max(c.queue_since);
    }

    fn lead(&self) -> Nanos {
        self.compensation.of(1 << 20, Nanos::MAX)
    }

    fn wakeup(&self) -> Option<Nanos> {
        let outbox = self.outbox.peek().map(|first| first.0.0);
        match (outbox, self.drive.next_wakeup_ahead(self.lead())) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Moves commands that the drive has finished to the outbox, and answers due there to `outgoing`.
    fn collect(&mut self, now: Nanos, outgoing: &mut Vec<OutgoingAnswer>) {
        let mut done = std::mem::take(&mut self.done);
        self.drive.complete_ahead(now, self.lead(), &mut done);
        for completion in done.drain(..) {
            let slot = usize::try_from(completion.tag).unwrap_or(usize::MAX);
            let (bytes, came) = self.slots[slot].as_ref().map_or((0, completion.at), |p| (p.bytes, p.came));
            let path = self.compensation.of(bytes, completion.at.saturating_sub(came));
            let leave = completion.at.saturating_sub(path);
            self.outbox.push(Reverse((leave, completion.tag, completion.outcome != CommandOutcome::Ok)));
        }
        self.done = done;
        while let Some(Reverse((at, tag, failed))) = self.outbox.peek().copied().filter(|first| first.0.0 <= now) {
            self.outbox.pop();
            outgoing.extend(self.leave(tag, failed, at));
        }
    }

    fn leave(&mut self, tag: u64, failed: bool, planned: Nanos) -> Option<OutgoingAnswer> {
        let pending = self.slots[usize::try_from(tag).unwrap_or(usize::MAX)].take()?;
        self.count_queue(planned);
        self.under_way -= 1;
        let c = &mut self.counters;
        let took = planned.saturating_sub(pending.came).0 / 1000;
        match &pending.answer {
            Answer::Read(..) => c.read_latency.saturating_record(took),
            Answer::Write(_) => c.write_latency.saturating_record(took),
            Answer::Flush(..) => c.flush_latency.saturating_record(took),
        }
        c.errors += u64::from(failed);
        let outcome = if failed { CommandOutcome::MediumError } else { CommandOutcome::Ok };
        Some(OutgoingAnswer { tag, pending, outcome, planned })
    }
}

impl EngineCounters {
    fn count_lateness(&mut self, late: Nanos) {
        self.lateness.saturating_record(late.0 / 1000);
        self.over_1ms += u64::from(late > Nanos::from_millis(1));
        self.over_10ms += u64::from(late > Nanos::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_waits_get_a_smaller_compensation() {
        let us = Nanos::from_micros;
        let path = Compensation { base: us(52), per_mib: us(128), quick: us(30), least: us(80) };
        assert_eq!(path.of(0, us(91)), Nanos(30_264));
        assert_eq!(path.of(0, us(40)), us(30));
        assert_eq!(path.of(0, us(540)), us(41));
        assert_eq!(path.of(1 << 20, Nanos::from_millis(2)), us(180));
        // A hard disk's path is known at one pace only.
        let disk = Compensation { quick: us(52), least: Compensation::LONG, ..path };
        assert_eq!(disk.of(0, us(10)), us(52));
        assert_eq!(disk.of(0, Nanos::from_millis(12)), us(52));
    }
}
