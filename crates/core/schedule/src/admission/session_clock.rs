//! Clocks of sessions that read whole contents: when each block is due.
//!
//! Promise: if the shares of all sessions fit their disks, serving the earliest deadline first serves each block in time, independent of
//! early requests of their players. Not here: the share of a session (`check`), the order of service (`disk`). See docs/decisions/0060.

use super::*;

/// A block is due no later than this after its request, if it does not last longer, however early the player asks. Chosen: hls.js
/// gives up after 10 s without a first byte.
const BLOCK_WAIT_MAX: Nanos = Nanos::from_secs(10);
/// A request may come so long after its session's block before: the block's way to the player, the player's way to the next request, and
/// the look-up of its name. Chosen: no wider than a bucket of the disk's schedule (decision 0060).
pub const REQUEST_WAY_MAX: Nanos = Nanos::from_millis(250);

/// When a block of a session is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDeadline {
    /// By then.
    pub at: Nanos,
    /// The session begins with it: its viewer waits for it.
    pub is_first: bool,
}

impl Admission {
    /// The deadline of a small read beside the blocks of a session: as long after now as one of those lasts, for it is played together
    /// with them, however far ahead they were requested. It moves the session's clock by its own disk time.
    pub fn deadline_beside(&mut self, session: ReservationId, bytes: u64, now: Nanos) -> Option<BlockDeadline> {
        let &Reservation { request, clock, beside, .. } = self.find(session)?;
        // A session that shares reads has no share: a block lasts for as long as it plays, and no clock runs.
        let own = self.lasts(session, bytes).unwrap_or(Nanos::ZERO);
        let block = self.lasts(session, request.length).unwrap_or(request.rate.time_for(request.length));
        let (transfer, seeks) = one_block(&request, bytes);
        let reservation = self.find_mut(session)?;
        reservation.clock = clock.map(|clock| clock.max(now).saturating_add(own));
        reservation.beside.0 = beside.0.plus(RoundLoad { transfer, seeks, ..RoundLoad::default() });
        let is_first = beside == <(RoundLoad, RoundLoad)>::default();
        Some(BlockDeadline { at: now.saturating_add(block.max(own)), is_first })
    }

    /// The deadline of the next block of a session that reads whole contents, each of them a block, and shares no reads:
    /// `bytes`, requested at `now`. It is due after the one before it, or after the time at which its player began to ask for it if that
    /// was due earlier, by as long as its disk time lasts at the session's share, as a total bandwidth server has it (Spuri & Buttazzo
    /// 1996); but no later than `room_at`, when its disk can have read it beside everything that waits.
    pub fn deadline(&mut self, id: ReservationId, bytes: u64, room_at: Nanos, now: Nanos) -> Option<BlockDeadline> {
        let lasts = self.lasts(id, bytes)?;
        let &Reservation { clock, .. } = self.find(id)?;
        let asked = now.saturating_sub(REQUEST_WAY_MAX);
        let by_clock = clock.unwrap_or(now).max(asked).saturating_add(lasts);
        let after = |span: Nanos| asked.saturating_add(span);
        let at = by_clock.min(room_at.clamp(after(lasts), after(BLOCK_WAIT_MAX.max(lasts))));
        // The player begins with the first block, however early that comes: the clock runs from there.
        let is_first = clock.is_none();
        self.find_mut(id)?.clock = Some(if is_first { now } else { at });
        Some(BlockDeadline { at, is_first })
    }

    /// How long a block of a session that shares no reads lasts at its share.
    fn lasts(&self, id: ReservationId, bytes: u64) -> Option<Nanos> {
        let Reservation { request, demand, .. } =
            self.find(id).filter(|held| held.demand.is_spread() && !held.shares)?;
        let table = &self.disk(request.disk).table;
        let (transfer, seeks) = one_block(request, bytes);
        let block = table.seconds_among_others(transfer, seeks);
        let in_round = table.seconds_among_others(demand.transfer, demand.seeks);
        Some(Nanos::from_secs_f64(table.round().as_secs_f64() * block / in_round.max(1e-9)))
    }
}
