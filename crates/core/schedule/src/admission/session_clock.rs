//! Clocks of sessions that read whole contents: the deadline of each block.
//!
//! Promise: if the shares of all sessions fit their disks, serving the earliest deadline first serves each block in time, independent of
//! early requests of their players. Not here: the share of a session (`resources`), the order of service (`disk`). See docs/decisions/0060.

use units::{Nanos, ReservationId};

use super::demand::one_block;
use super::demand_load::RoundLoad;
use super::disk_table::{DiskTable, ROUNDING};
use super::{Admission, AdmissionRequest, Reservation};

/// A block is due no later than this after its request, if it does not last longer, however early the player asks. Chosen: hls.js
/// gives up after 10 s without a first byte.
const BLOCK_WAIT_MAX: Nanos = Nanos::from_secs(10);
/// A request may come this much later than the block before: the block's way to the player, and the player's way to the next request.
/// Chosen: no wider than a bucket of the disk's schedule (decision 0060).
pub const REQUEST_WAY_MAX: Nanos = Nanos::from_millis(250);
/// The open of a content counts as a part of its wait for up to one part in this number of its duration. Chosen: a block that is due
/// still has half of its time for its read (decision 0060).
const OPEN_PART: u64 = 2;
/// Weight of the time since the last block in the mean of the small reads between blocks. Chosen.
const MEAN_WEIGHT: f64 = 0.5;

/// A read of a session, which is all of a content.
#[derive(Debug, Clone, Copy)]
pub struct SessionRead {
    /// Its bytes.
    pub bytes: u64,
    /// When its disk can have read it, with everything that waits.
    pub room_at: Nanos,
    /// When its client requested it.
    pub requested_at: Nanos,
    /// When its content is open.
    pub now: Nanos,
}

/// When a block of a session is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDeadline {
    /// By then it is to be read and sent: where its disk has room, earlier than it is promised.
    pub at: Nanos,
    /// By then it is promised: by the share of its session.
    pub promised: Nanos,
    /// The session begins with it: its viewer waits for it.
    pub is_first: bool,
}

/// The clocks of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SessionClocks {
    /// The deadline of the last block; none before the first.
    block: Option<Nanos>,
    beside: SmallReads,
}

/// Small reads that accompany the blocks of a session: sound, subtitles, an index.
#[derive(Debug, Clone, Copy, Default)]
struct SmallReads {
    /// Their disk time since the last block; none before the second block: with those its player fills its buffer.
    since: Option<RoundLoad>,
    /// Between two blocks, in the mean; before the second block that of one of them.
    mean: RoundLoad,
    /// The part of the session's demand in a round that is promised for them.
    share: RoundLoad,
    /// The deadline of the last of them; none before the first.
    clock: Option<Nanos>,
}

impl Admission {
    /// The deadline of a small read with the blocks of a session: it is played together with them, and due by a clock of its own, so that
    /// sound that its player requests far ahead takes no time from its pictures. The first one's disk time is promised for each block to
    /// come, where there is room. Without a share for such reads it is due in the time of a block, and moves the clock of the blocks as well.
    pub fn small_read_deadline(&mut self, session: ReservationId, read: SessionRead) -> Option<BlockDeadline> {
        let request = self.find(session)?.request;
        let (transfer, seeks) = one_block(&request, read.bytes);
        let clocks = &mut self.find_mut(session)?.session;
        let entered = clocks.beside.enter(RoundLoad { transfer, seeks, ..RoundLoad::default() });
        if let Some(mean) = entered {
            let rounds = request.rounds_played(self.resources.table(request.disk).round());
            self.replace_spread(session, mean.scaled(1.0 / rounds.max(1.0)), |_, part| Some(part.demand));
        }
        let (held, table) = (self.find(session)?, self.resources.table(request.disk));
        // A session that shares reads has no share: a block lasts for as long as it plays, and no clock runs.
        let block = held.lasts(request.length, table).unwrap_or(request.rate.time_for(request.length));
        let own = held.small_read_duration(read.bytes, table);
        let lasts = own.map_or(block, |own| own.min(block));
        let (at, promised) = read.due(held.session.beside.clock, lasts);
        let unpromised = if own.is_none() { held.lasts(read.bytes, table) } else { None };
        let clocks = &mut self.find_mut(session)?.session;
        let is_first = read.advance(&mut clocks.beside.clock, at);
        if let Some(own) = unpromised {
            clocks.block = clocks.block.map(|clock| clock.max(read.now).saturating_add(own));
        }
        Some(BlockDeadline { at, promised, is_first })
    }

    /// The deadline of the next block of a session that reads whole contents, each of them a block, and shares no reads:
    /// it is due after the one before it, or after its request if that was due earlier, by as long as its disk time lasts at the session's
    /// share, as a total bandwidth server has it (Spuri & Buttazzo 1996); but no later than its disk has room for it.
    pub fn deadline(&mut self, id: ReservationId, read: SessionRead) -> Option<BlockDeadline> {
        let held = self.find(id)?;
        let lasts = held.lasts(read.bytes, self.resources.table(held.request.disk))?;
        let (at, promised) = read.due(held.session.block, lasts);
        let is_first = read.advance(&mut self.find_mut(id)?.session.block, at);
        Some(BlockDeadline { at, promised, is_first })
    }
}

impl Reservation {
    /// How long a block of a session that shares no reads lasts at its share.
    fn lasts(&self, bytes: u64, table: &DiskTable) -> Option<Nanos> {
        let Self { request, demand, session, .. } = self;
        let beside = session.beside.share;
        let share = (demand.transfer - beside.transfer, demand.seeks - beside.seeks);
        (demand.is_spread() && !self.shares).then(|| lasts_at(table, request, bytes, share))
    }

    /// How long a small read lasts at the share of such reads, if there is one.
    fn small_read_duration(&self, bytes: u64, table: &DiskTable) -> Option<Nanos> {
        let share = self.session.beside.share;
        let is_promised = !self.shares && share.seeks > 0.0;
        is_promised.then(|| lasts_at(table, &self.request, bytes, (share.transfer, share.seeks)))
    }
}

/// How long a read lasts at a share of this number of seconds of transfer and seeks in a round.
fn lasts_at(table: &DiskTable, request: &AdmissionRequest, bytes: u64, share: (f64, f64)) -> Nanos {
    let (transfer, seeks) = one_block(request, bytes);
    let read = table.seconds_among_others(transfer, seeks);
    let in_round = table.seconds_among_others(share.0, share.1);
    Nanos::from_secs_f64(table.round().as_secs_f64() * read / in_round.max(ROUNDING))
}

impl SessionClocks {
    /// A block is requested: the disk time of the small reads between two blocks, in the mean with the time before.
    pub(super) fn mean_small_reads(&self) -> RoundLoad {
        let SmallReads { since, mean, .. } = self.beside;
        since.map_or(mean, |since| since.plus(mean).scaled(MEAN_WEIGHT))
    }

    /// A block begins, with this mean.
    pub(super) fn begin_block(&mut self, mean: RoundLoad) {
        (self.beside.since, self.beside.mean) = (Some(RoundLoad::default()), mean);
    }

    /// A part of the session's demand in a round is promised for the small reads.
    pub(super) const fn promise_small_reads(&mut self, share: RoundLoad) {
        self.beside.share = share;
    }
}

impl SmallReads {
    /// Counts a read; the mean, where it is to be promised: before the second block, once a read is known.
    fn enter(&mut self, read: RoundLoad) -> Option<RoundLoad> {
        if let Some(since) = &mut self.since {
            *since = since.plus(read);
            return None;
        }
        self.mean = read;
        (self.share.seeks <= 0.0).then_some(read)
    }
}

impl SessionRead {
    /// Moves a clock to this read, which is due at `due`; true of the first. The player begins with that, however early it comes: the clock
    /// runs from there.
    fn advance(&self, clock: &mut Option<Nanos>, due: Nanos) -> bool {
        let is_first = clock.is_none();
        *clock = Some(if is_first { self.now } else { due });
        is_first
    }

    /// The deadline of a read of this duration at its share, and when it is promised: behind the one before it, due at `clock`, or behind
    /// its request. It is to come earlier by the way to its request, and as early as its disk has room for it. With the first read the
    /// session only begins: it is due when there is room.
    fn due(&self, clock: Option<Nanos>, lasts: Nanos) -> (Nanos, Nanos) {
        let opened = self.now.saturating_sub(Nanos(lasts.0 / OPEN_PART));
        let asked = self.requested_at.max(opened);
        let by = |asked: Nanos| {
            let by_clock = clock.map_or(Nanos::MAX, |clock| clock.max(asked).saturating_add(lasts));
            by_clock.min(asked.saturating_add(BLOCK_WAIT_MAX.max(lasts)))
        };
        let early = asked.saturating_sub(REQUEST_WAY_MAX);
        let (at, promised) = (by(early).min(self.room_at.max(early.saturating_add(lasts))), by(asked));
        debug_assert!(at <= promised, "a block is due no later than it is promised");
        (at, promised)
    }
}
