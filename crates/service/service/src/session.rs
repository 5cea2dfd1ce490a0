//! Sessions: the reads of one viewer share the reservations made for it.
//!
//! A player opens the range that it seeks to before it closes the range that it leaves, it looks at the index in between, and it
//! takes a film as a hundred segments. So a reservation belongs to the viewer, and passes from read to read:
//!
//! 1. A reservation that the viewer still holds from a read that has ended serves its next read.
//! 2. If the viewer names itself, a newer read of a content takes over the reservation of the older one at once. The older read continues
//!    with the rate that is left over.
//! 3. A read of a viewer without a name may be another person's behind the same address, so it gets a reservation of its own while there is
//!    room. Where there is none, a range from elsewhere than the start takes over from the one read that its viewer has: a seek, for players
//!    open a content at its start, and ffmpeg and MPlayer close the connection that they leave by a seek once the next one is answered, or
//!    never. A range from the start may be a neighbour's, that opens the same film, or ffmpeg's, that seeks in a transport stream: it is
//!    answered, and takes over if the older read is closed then. Several reads are several persons, and none of them loses a promised rate
//!    because another one comes or seeks, but from the one read of a content that has just begun, and so has only looked ([`PLAYS_AFTER`]):
//!    MPlayer opens a transport stream three times before it plays. Ranges of it share its reservation even where there is room, because a
//!    player that opens many at once opens them in any order. A read of the whole content that names its rate takes over from none: a
//!    download.
//! 4. A read that ends within [`SEEK_TIME`] after a newer one of its viewer and content began was left for that: the newer one continues
//!    it, and needs no second reservation.
//! 5. Where there is no room at all, a viewer that names itself and waits for a content of which nothing was sent yet has changed to
//!    another one ([`Sessions::leaves`]): players that seek close the connection on which they wait, which shows only when something is
//!    sent. Else another read of the viewer may be about to end, and the request waits a moment for that. An older read of the content with
//!    a client that has taken nothing all the while is left, too: MPlayer goes back to the start of a transport stream without closing
//!    the connection of the read it has left, and a player that was killed closes nothing.
//!
//! After a read, its reservation is held for the viewer as long as `hold` says. It is kept from others for as long as its viewer has
//! played, at most (after the end of a content for [`AFTER_END`]), and within the budget of its address (`budgets`): the reservation of any
//! other viewer, which may have looked at a head or an index only, and what an address holds beyond its budget, are given up to any
//! request that needs the room, the oldest first. So neither requests that are closed at once nor viewers that were invented
//! keep anything from others, under however many names they are repeated.
//!
//! Promise: the rules are pure (the time is an argument). A reservation that is taken in is given out once: to a read, or to be released.
//! There are no more entries than streams and reservations. Not here: commands to the data plane (`session_table`), the identity of a
//! viewer (the front ends), the limits of budgets (`budgets`).

use std::collections::{HashMap, HashSet};

use api::Direction;
use dataplane::control::Resource;
use units::{BitRate, Nanos, ReservationId, StreamId};

use crate::budgets::{
    BudgetKey, BudgetLimit, BudgetLimits, BudgetRefusal, ChargedBudgets, IdleHolder, IdleReservation, yielding,
};
use crate::session_account::{SessionAccount, WholeContent};
pub use crate::session_request::{ContentPart, ReservationSource, ReservationTerms, SessionRequest, StopPoint, Viewer};
pub use crate::viewer_reservation::{AFTER_END, PLAYS_AFTER, SEEK_TIME};
use crate::viewer_reservation::{ReservationState, ViewerReservation, newest};

/// The next step of a request that was refused for want of room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retry {
    /// Release these, and end the streams, then begin again.
    Release(Vec<ReservationId>, Vec<StreamId>),
    /// Begin again with `no_room`: its viewer has something.
    TakeOwn,
    /// Ask again when another read of the viewer has ended; a player `closes_once_answered` that which it leaves for this request.
    Wait {
        /// It may be such a player's request.
        closes_once_answered: bool,
    },
    /// Nothing.
    GiveUp,
}

/// The remainder of a stream after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamRelease {
    /// It was not admitted.
    Refused,
    /// Its reservation.
    Held(ReservationId, StopPoint),
    /// Nothing: it has lost its reservation.
    Nothing,
}

/// A resource that is short.
#[derive(Debug, Clone, Copy)]
pub struct ShortResource<'a> {
    /// The resource.
    pub resource: Resource,
    /// As many times as the request needs are released.
    pub times: u64,
    /// Streams with clients that take nothing.
    pub unread: &'a HashSet<StreamId>,
}

/// The limits of a budget, as they are now.
pub type Limits<'a> = &'a dyn Fn(&BudgetKey) -> BudgetLimits;

/// All viewers that read or hold something.
#[derive(Debug)]
pub struct Sessions {
    /// For how long a reservation is held after a read.
    hold: Nanos,
    table: HashMap<Viewer, Vec<ViewerReservation>>,
    /// Recordings, by their streams' numbers, with their rates.
    recordings: HashMap<StreamId, (ChargedBudgets, BitRate)>,
}

impl Sessions {
    /// No sessions. A reservation is held for `hold` after a read.
    #[must_use]
    pub fn new(hold: Nanos) -> Self {
        Self { hold, table: HashMap::new(), recordings: HashMap::new() }
    }

    /// Reservations are held for `hold` from now on.
    pub fn hold_for(&mut self, hold: Nanos) {
        self.hold = hold;
    }

    /// Viewers that read or hold something.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// True if the viewer has a reservation for this content.
    #[must_use]
    pub fn has(&self, viewer: &Viewer, content: u64) -> bool {
        self.table.get(viewer).is_some_and(|shares| shares.iter().any(|share| share.content == content))
    }

    /// The viewer's reservation of the highest rate, if that is above `rate`: small reads of that rate take from its share.
    #[must_use]
    pub fn share_of(&self, viewer: &Viewer, rate: BitRate) -> Option<ReservationId> {
        let shares = self.table.get(viewer)?.iter().filter(|share| share.terms.rate > rate);
        shares.filter(|share| share.reservation().is_some()).max_by_key(|share| share.terms.rate)?.reservation()
    }

    /// True if a viewer that names itself has named the rate of what it plays: a small read for which it names none is no more of that.
    #[must_use]
    pub fn names_rate(&self, viewer: &Viewer) -> bool {
        let mut shares =
            self.table.get(viewer).filter(|_| matches!(viewer, Viewer::Named { .. })).into_iter().flatten();
        shares.any(|share| share.terms.is_named)
    }

    /// True if a reservation of a rate above `rate` has been requested and not been granted yet.
    #[must_use]
    pub fn begins(&self, viewer: &Viewer, rate: BitRate) -> bool {
        let mut shares = self.table.get(viewer).into_iter().flatten();
        shares.any(|share| share.terms.rate > rate && share.reservation().is_none())
    }

    /// The viewer's reads of this content that continue, the newest first.
    #[must_use]
    pub fn reads(&self, viewer: &Viewer, content: u64) -> Vec<StreamId> {
        let shares = self.table.get(viewer).into_iter().flatten().rev();
        shares.filter(|share| share.content == content).filter_map(ViewerReservation::stream).collect()
    }

    /// The viewer's reads that continue, if it names itself.
    #[must_use]
    pub fn named_reads(&self, viewer: &Viewer) -> Vec<StreamId> {
        let shares = self.table.get(viewer).filter(|_| matches!(viewer, Viewer::Named { .. }));
        shares.into_iter().flatten().filter_map(ViewerReservation::stream).collect()
    }

    /// The viewer waits for nothing of this read any more, or its client takes nothing: the next read that finds no room takes over from it.
    pub fn leaves(&mut self, viewer: &Viewer, stream: StreamId) {
        let mut shares = self.table.get_mut(viewer).into_iter().flatten();
        if let Some(share) = shares.find(|share| share.stream() == Some(stream)) {
            share.is_left = true;
        }
    }

    /// A request comes. After [`ReservationSource::New`] and the two that take one, its stream runs in the session until
    /// [`Sessions::end`].
    pub fn begin(&mut self, request: &SessionRequest, limits: Limits<'_>, now: Nanos) -> ReservationSource {
        let nth = self.taken_by(request, now);
        let before = nth.map_or(BitRate(0), |nth| self.table[&request.viewer][nth].terms.rate);
        if let Err(refusal) =
            self.check_reserved(&request.charged, (Direction::Out, before, request.terms.rate), limits, now)
        {
            return ReservationSource::Refused(refusal);
        }
        let shares = self.table.entry(request.viewer.clone()).or_default();
        match nth {
            Some(nth) => shares[nth].take(request, now),
            None => {
                shares.push(ViewerReservation::new(request, now));
                ReservationSource::New
            }
        }
    }

    /// The share of its viewer that a request takes; none: it needs a new one.
    fn taken_by(&self, request: &SessionRequest, now: Nanos) -> Option<usize> {
        let shares = self.table.get(&request.viewer)?;
        let named = matches!(request.viewer, Viewer::Named { .. });
        let takes_any = named || request.no_room;
        let held = newest(shares, |share| share.is_held() && share.terms.fit(&request.terms))
            .or_else(|| newest(shares, |share| share.is_held() && takes_any && !request.is_beside(share)));
        let moves_on = |share: &ViewerReservation| takes_any || request.is_one_of_many(share, now);
        let superseded = || newest(shares, |share| moves_on(share) && request.takes_over(share, shares, now));
        let left = || newest(shares, |share| request.no_room && share.is_left && share.reservation().is_some());
        held.or_else(superseded).or_else(left)
    }

    /// A recording of this rate begins, until [`Sessions::end_recording`].
    ///
    /// # Errors
    /// A budget does not admit it.
    pub fn begin_recording(
        &mut self,
        stream: StreamId,
        (charged, rate): (&ChargedBudgets, BitRate),
        limits: Limits<'_>,
        now: Nanos,
    ) -> Result<(), BudgetRefusal> {
        self.check_reserved(charged, (Direction::In, BitRate(0), rate), limits, now)?;
        self.recordings.insert(stream, (charged.clone(), rate));
        Ok(())
    }

    /// The recording ended.
    pub fn end_recording(&mut self, stream: StreamId) {
        self.recordings.remove(&stream);
    }

    /// Checks the rates that budgets have reserved against their limits, for a request of `rate` that gives `before` back.
    fn check_reserved(
        &self,
        charged: &ChargedBudgets,
        (direction, before, rate): (Direction, BitRate, BitRate),
        limits: Limits<'_>,
        now: Nanos,
    ) -> Result<(), BudgetRefusal> {
        for key in charged.iter() {
            let BudgetLimits { reserved, download, upload, .. } = limits(key);
            let of_direction = match direction {
                Direction::Out => (BudgetLimit::Download, download),
                Direction::In => (BudgetLimit::Upload, upload),
            };
            for (limit, most) in [(BudgetLimit::Reserved, reserved), of_direction] {
                // Most budgets have no limit: a limit needs a look through all streams.
                let Some(most) = most else { continue };
                let (reads, recordings) = self.rates_of(key, |_| true);
                let used = match limit {
                    BudgetLimit::Download => reads,
                    BudgetLimit::Upload => recordings,
                    _ => reads.saturating_add(recordings),
                };
                let used = used.saturating_sub(before.0);
                if used.saturating_add(rate.0) <= most.0 {
                    continue;
                }
                let ends = self.shares_of(key).filter_map(ViewerReservation::held_until).min();
                return Err(BudgetRefusal {
                    budget: key.clone(),
                    limit,
                    most: most.0,
                    used,
                    more: rate.0,
                    frees_in: ends.map(|until| until.saturating_sub(now)),
                });
            }
        }
        Ok(())
    }

    fn shares_of<'a>(&'a self, key: &'a BudgetKey) -> impl Iterator<Item = &'a ViewerReservation> {
        self.table.values().flatten().filter(|share| share.charged.has(key))
    }

    /// Bits per second that are reserved for reads and recordings charged to this budget.
    #[must_use]
    pub fn reserved_by(&self, key: &BudgetKey) -> u64 {
        let (reads, recordings) = self.rates_of(key, |_| true);
        reads.saturating_add(recordings)
    }

    /// The bits per second that are promised to reads, and to recordings, charged to this budget.
    #[must_use]
    pub fn promised_by(&self, key: &BudgetKey) -> (u64, u64) {
        self.rates_of(key, |share| !share.is_held())
    }

    /// Bits per second of the reads that `counts` counts, and of recordings, charged to this budget.
    fn rates_of(&self, key: &BudgetKey, counts: impl Fn(&ViewerReservation) -> bool) -> (u64, u64) {
        let recordings = self.recordings.values().filter(|(charged, _)| charged.has(key)).map(|(_, rate)| rate.0);
        let reads = self.shares_of(key).filter(|share| counts(share)).map(|share| share.terms.rate.0);
        (reads.fold(0, u64::saturating_add), recordings.fold(0, u64::saturating_add))
    }

    /// The budgets that something is charged to.
    #[must_use]
    pub fn budgets(&self) -> HashSet<BudgetKey> {
        let shares = self.table.values().flatten().map(|share| &share.charged);
        let recordings = self.recordings.values().map(|(charged, _)| charged);
        shares.chain(recordings).flat_map(|charged| charged.iter().cloned()).collect()
    }

    /// Of these, those that no read uses.
    #[must_use]
    pub fn idle_by(&self, key: &BudgetKey) -> u64 {
        self.shares_of(key).filter(|share| share.is_held()).fold(0, |sum, share| sum.saturating_add(share.terms.rate.0))
    }

    /// Takes out the reservations that no read uses and that are charged to this budget, so that its next read has their room; those that
    /// `viewer` may take stay, and those that were reserved ahead.
    pub fn give_up(&mut self, key: &BudgetKey, viewer: &Viewer, now: Nanos) -> Vec<ReservationId> {
        self.take_out(|other, share| {
            other != viewer && share.is_held() && share.kept_until <= now && share.charged.has(key)
        })
    }

    /// Keeps the reservation of a viewer for it until then; false: it has none.
    pub fn keep(&mut self, viewer: &Viewer, until: Nanos) -> bool {
        let shares = self.table.get_mut(viewer).into_iter().flatten();
        let kept = shares.rev().find(|share| share.reservation().is_some()).map(|share| share.keep(until));
        kept.is_some()
    }

    /// True if a reservation is kept for this viewer.
    #[must_use]
    pub fn keeps(&self, viewer: &Viewer, now: Nanos) -> bool {
        self.table.get(viewer).into_iter().flatten().any(|share| share.kept_until > now)
    }

    /// Keeps nothing for this viewer any more. Takes out what no read of it uses.
    pub fn keep_no_more(&mut self, viewer: &Viewer) -> Vec<ReservationId> {
        self.table.get_mut(viewer).into_iter().flatten().for_each(|share| share.kept_until = Nanos::ZERO);
        self.take_out(|other, share| other == viewer && share.is_held())
    }

    /// True if the reservation of this stream served another content of its viewer's session before: it reads the next segment of the media
    /// played.
    #[must_use]
    pub fn is_series(&self, viewer: &Viewer, stream: StreamId) -> bool {
        let mut shares = self.table.get(viewer).into_iter().flatten();
        shares.any(|share| share.stream() == Some(stream) && share.is_series)
    }

    /// A request was refused for want of a resource, after a call of [`Sessions::end`] for it. Reservations that yield to it are
    /// released, up to `times` as much as it needs.
    pub fn refused(
        &mut self,
        request: &SessionRequest,
        short: ShortResource<'_>,
        limits: Limits<'_>,
        now: Nanos,
    ) -> Retry {
        let yields = self.yielding(request, short, limits, now);
        if !yields.is_empty() {
            let goes = |id| yields.contains(&IdleHolder::Session(id));
            let released = self.take_out(|_, share| share.is_held() && share.reservation().is_some_and(goes));
            let stream = |holder| if let IdleHolder::Stream(stream) = holder { Some(stream) } else { None };
            return Retry::Release(released, yields.iter().copied().filter_map(stream).collect());
        }
        let Some(shares) = self.table.get(&request.viewer) else { return Retry::GiveUp };
        if shares.iter().any(|share| share.is_held() || request.takes_over(share, shares, now)) {
            Retry::TakeOwn
        } else {
            Retry::Wait { closes_once_answered: request.may_continue(shares) }
        }
    }

    /// The reservations that yield to a request.
    fn yielding(
        &self,
        request: &SessionRequest,
        ShortResource { resource: short, times, unread }: ShortResource<'_>,
        limits: Limits<'_>,
        now: Nanos,
    ) -> Vec<IdleHolder> {
        // Places in the table cost a viewer no bytes, so none is earned by playing.
        let plays = |share: &ViewerReservation| short != Resource::Table && share.account.plays_until() > now;
        let mut promised = 0u64;
        let mut idle = Vec::new();
        for (viewer, shares) in &self.table {
            // A viewer that names itself keeps what it holds for its next read, whether that needs more or less.
            let is_own = viewer == &request.viewer && matches!(viewer, Viewer::Named { .. });
            for share in shares {
                let weight = share.terms.weight(short);
                promised = promised.saturating_add(weight);
                let (id, since, is_firm) = match share.state {
                    _ if is_own || share.kept_until > now => continue,
                    ReservationState::Held { .. } if plays(share) => continue,
                    ReservationState::Held { reservation, since, firm_until, .. } => {
                        (IdleHolder::Session(reservation), since, firm_until > now)
                    }
                    // Its neighbours behind one address are no reason to end it.
                    ReservationState::Running { stream, reservation: Some(_) }
                        if unread.contains(&stream) && share.charged.owner() != request.charged.owner() =>
                    {
                        (IdleHolder::Stream(stream), share.since, true)
                    }
                    ReservationState::Running { .. } => continue,
                };
                let (charged, rate) = (share.charged.clone(), share.terms.rate);
                idle.push(IdleReservation { id, charged, since, is_firm, rate, weight });
            }
        }
        let wanted = request.terms.weight(short).saturating_mul(times);
        yielding(idle, (promised, wanted), limits)
    }

    /// A stream of the session was admitted with this reservation. Returns the reservation to be released.
    pub fn started(&mut self, viewer: &Viewer, stream: StreamId, granted: ReservationId) -> Option<ReservationId> {
        let shares = self.table.get_mut(viewer)?;
        let nth = newest(shares, |share| share.stream() == Some(stream))?;
        shares[nth].state = ReservationState::Running { stream, reservation: Some(granted) };
        shares[nth].before = None;
        continued(shares)
    }

    /// A stream that began in the session ended, or was refused. Returns the reservation to be released.
    pub fn end(&mut self, viewer: &Viewer, stream: StreamId, left: StreamRelease, now: Nanos) -> Option<ReservationId> {
        let given_back = if let StreamRelease::Held(reservation, _) = left { Some(reservation) } else { None };
        let Some(shares) = self.table.get_mut(viewer) else { return given_back };
        let Some(nth) = newest(shares, |share| share.stream() == Some(stream)) else {
            shares.iter_mut().for_each(|share| share.forget(stream));
            // It may have passed to a newer read before the end was reported.
            return given_back.filter(|&id| !shares.iter().any(|share| share.reservation() == Some(id)));
        };
        let named = matches!(viewer, Viewer::Named { .. });
        let release = match (left, shares[nth].before.take()) {
            (StreamRelease::Held(reservation, stop_point), _) => {
                shares[nth].hold(reservation, stop_point, named, self.hold, now);
                continued(shares)
            }
            (StreamRelease::Refused, Some(before)) => {
                shares[nth] = *before;
                None
            }
            _ => shares.swap_remove(nth).reservation(),
        };
        if shares.is_empty() {
            self.table.remove(viewer);
        }
        release
    }

    /// A read of this stream sent its content whole; the account of its session, if that has just fallen behind by more than its start-up
    /// delay.
    pub fn sent_whole(
        &mut self,
        viewer: &Viewer,
        stream: StreamId,
        content: &WholeContent,
        now: Nanos,
    ) -> Option<SessionAccount> {
        let mut shares = self.table.get_mut(viewer)?.iter_mut();
        let account = &mut shares.find(|share| share.stream() == Some(stream))?.account;
        account.enter(content, now).then_some(*account)
    }

    /// The accounts of all sessions in which a stream runs, by that.
    #[must_use]
    pub fn accounts(&self) -> HashMap<StreamId, SessionAccount> {
        let shares = self.table.values().flatten();
        shares.filter_map(|share| Some((share.stream()?, share.account))).collect()
    }

    /// Takes out the reservations that were held long enough.
    pub fn expire(&mut self, now: Nanos) -> Vec<ReservationId> {
        self.take_out(|_, share| matches!(share.state, ReservationState::Held { until, .. } if until <= now))
    }

    fn take_out(&mut self, goes: impl Fn(&Viewer, &ViewerReservation) -> bool) -> Vec<ReservationId> {
        let mut released = Vec::new();
        self.table.retain(|viewer, shares| {
            let goes = |share: &ViewerReservation| goes(viewer, share);
            released.extend(shares.iter().filter(|share| goes(share)).filter_map(ViewerReservation::reservation));
            shares.retain(|share| !goes(share));
            !shares.is_empty()
        });
        released
    }
}

/// Takes out a reservation of which the read was left for a newer read that has its own.
fn continued(shares: &mut Vec<ViewerReservation>) -> Option<ReservationId> {
    let pairs = (0..shares.len()).flat_map(|older| (0..shares.len()).map(move |newer| (older, newer)));
    let (older, newer) = pairs.into_iter().find(|(older, newer)| shares[*newer].continues(&shares[*older]))?;
    shares[newer].is_fresh = false;
    shares[newer].used = shares[newer].used.saturating_add(shares[older].used);
    shares.swap_remove(older).reservation()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
