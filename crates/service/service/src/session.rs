//! Sessions: the reads of one viewer share the reservations made for it.
//!
//! A player opens the range that it seeks to before it closes the one that it leaves, it looks at the index in between, and it
//! takes a film as a hundred segments. So a reservation belongs to the viewer, and passes from read to read:
//!
//! 1. A reservation that the viewer still holds from a read that has ended serves its next read.
//! 2. A seek (a read of the same content from elsewhere than its start) takes over the reservation of the older read at once. If the viewer
//!    names itself, so does any newer read of the content. The older read continues with the rate that is left over.
//! 3. A read from the start by a viewer without a name may be another person's behind the same address, so it gets a reservation of its own
//!    while there is room. It takes over nevertheless if it is a range and the viewer has just begun with ranges from elsewhere alone,
//!    because a viewer that opens many ranges at once opens them in any order.
//! 4. Where there is no room for a read from the start, it takes over from an older read that has just begun, and so has only looked
//!    (MPlayer opens a transport stream three times before it plays). From one that plays only a range does, because players ask for
//!    ranges, and only if it is the viewer's one read of the content: several are several persons, and none of them loses a promised rate
//!    because another one comes. A read of the whole content that names its rate takes over from none: a download.
//! 5. Where there is no room at all, a viewer that names itself and waits for a content of which nothing was sent yet has changed to
//!    another one ([`Sessions::leaves`]): players that seek close the connection on which they wait, which shows only when something is
//!    sent. Else another read of the viewer may be about to end, and the request waits a moment for that. An older read with a client that
//!    has taken nothing all the while counts as one that only looks: MPlayer goes back to the start of a transport stream without closing
//!    the connection of the read it has left, and a player that was killed closes nothing.
//!
//! After a read, its reservation is held for the viewer as long as `hold` says. Others are refused it meanwhile (after the end of a content
//! for [`AFTER_END`]) if its viewer has played for [`PLAYS_AFTER`] in parts; if it names itself, for as long as the media that it took
//! lasts. The reservation of any other viewer, which may have looked at a head or an index only, is given up to any request that needs the
//! room: a request that is closed at once keeps nothing from others, under however many names it is repeated.
//!
//! Promise: the rules are pure (the time is an argument). A reservation that is taken in is given out once: to a read, or to be released.
//! There are no more entries than streams and reservations. Not here: commands to the data plane (`session_table`), the identity of a
//! viewer (the front ends).

use std::collections::HashMap;
use std::net::IpAddr;

use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId};

use crate::session_account::{SessionAccount, WholeContent};

/// A viewer without a name plays once its reads have used a reservation for so long; until then it only looks.
pub const PLAYS_AFTER: Nanos = Nanos::from_secs(10);
/// Segments come up to so many times as fast as they play (`delivery`), so that a read of one is shorter than its media by that factor.
const SEGMENT_SPEEDUP: u64 = 4;
/// For the next title, after a read to the end of a content: the player shows the rest of its buffer first.
pub const AFTER_END: Nanos = Nanos::from_secs(10);

/// The receiver of streams; its reads share reservations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// Names itself, in the way that its protocol provides. The name is good only where it was begun, because names are guessed, and are
    /// seen in logs and links.
    Named {
        /// The name.
        name: String,
        /// The network of its address ([`crate::shares::network`]).
        network: IpAddr,
    },
    /// Does not: its address and program stand for it.
    Unnamed {
        /// Its address.
        address: IpAddr,
        /// Hash of the program's name.
        agent: u64,
    },
}

/// A request for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The viewer.
    pub viewer: Viewer,
    /// Its number.
    pub stream: StreamId,
    /// Hash of the content's path.
    pub content: u64,
    /// Which part it reads.
    pub part: ContentPart,
    /// The terms that it asks for.
    pub terms: ReservationTerms,
    /// True for a read small enough to be sound beside pictures: it takes no reservation of a higher rate.
    pub is_small: bool,
    /// It was refused: it takes any reservation that its viewer has.
    pub no_room: bool,
}

impl SessionRequest {
    /// True if it may be sound beside the pictures for which a reservation is held.
    fn is_beside(&self, share: &ViewerReservation) -> bool {
        self.is_small && !self.no_room && share.terms.rate > self.terms.rate
    }

    /// True if it is the first range of many that were opened at once, but does not come first.
    fn is_one_of_many(&self, older: &ViewerReservation, now: Nanos) -> bool {
        self.part == ContentPart::FromStart && !older.has_start && older.used_at(now) < PLAYS_AFTER
    }
}

/// Which part of a content is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentPart {
    /// All of it, without a range, at a rate that the request names: nothing that a player does by itself.
    Download,
    /// All of it, without a range: a player that opens it, or a download.
    Whole,
    /// A range from the start.
    FromStart,
    /// A range from elsewhere: a seek, or the index.
    Elsewhere,
}

impl ContentPart {
    /// True if a read of it may take a reservation from an older read that continues, of `all` that its viewer has.
    fn takes_over(
        self,
        viewer: &Viewer,
        superseded: &ViewerReservation,
        all: &[ViewerReservation],
        now: Nanos,
    ) -> bool {
        let only_looks = superseded.used_at(now) < PLAYS_AFTER;
        let is_alone = || all.iter().filter(|share| share.content == superseded.content).count() == 1;
        matches!(viewer, Viewer::Named { .. })
            || match self {
                Self::Download => false,
                Self::Whole => only_looks,
                Self::FromStart => only_looks || is_alone(),
                Self::Elsewhere => true,
            }
    }
}

/// The terms on which a reservation was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationTerms {
    /// The disk.
    pub disk: DiskId,
    /// The link.
    pub link: LinkId,
    /// The rate.
    pub rate: BitRate,
    /// The request named the rate; else it is what the content needs.
    pub is_named: bool,
    /// The start burst, which is buffers.
    pub burst_bytes: u64,
}

impl ReservationTerms {
    /// True if a read may use the reservation made for the other; the data plane looks at the bursts.
    fn fit(&self, other: &Self) -> bool {
        (self.disk, self.link, self.rate) == (other.disk, other.link, other.rate)
    }
}

/// Where a request for a stream has its reservation from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationSource {
    /// Ask for a new reservation.
    New,
    /// Use this one, whichever stream has it.
    Take(ReservationId),
    /// Ask again when this stream, which it takes over from, has started or ended.
    After(StreamId),
}

/// The next step of a request that was refused for want of room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retry {
    /// Release these, then begin again.
    Release(Vec<ReservationId>),
    /// Begin again with `no_room`: its viewer has something.
    TakeOwn,
    /// Ask again when another read of the viewer has ended.
    Wait,
    /// Nothing.
    GiveUp,
}

/// Where a read ended in its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopPoint {
    /// Before the end: its viewer seeks or pauses.
    Midway,
    /// At the end.
    AtEnd,
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

/// A reservation of a viewer, or one that it asks for.
#[derive(Debug)]
struct ViewerReservation {
    terms: ReservationTerms,
    content: u64,
    part: ContentPart,
    /// The reads of this content that passed it on from one to the next include one from the start.
    has_start: bool,
    /// For how long reads had it, and since when one has it now.
    used: Nanos,
    since: Nanos,
    /// It has served several contents, one after the other, as players read segments: the end of one is not the end of the media played.
    goes_on: bool,
    /// Its viewer waits for nothing of its read.
    is_left: bool,
    /// The bytes that its reads got, against those that it promised.
    account: SessionAccount,
    state: ReservationState,
    /// It as it was before the read that has taken it, until that is admitted.
    before: Option<Box<Self>>,
}

#[derive(Debug, Clone, Copy)]
enum ReservationState {
    /// A read has it (`None` until the data plane has reported which), or will have it if it is admitted.
    Running { stream: StreamId, reservation: Option<ReservationId> },
    /// It waits for the viewer's next read; from `firm_until` on others may have it.
    Held { reservation: ReservationId, firm_until: Nanos, until: Nanos },
}

/// All viewers that read or hold something.
#[derive(Debug)]
pub struct Sessions {
    /// For how long a reservation is held after a read.
    hold: Nanos,
    table: HashMap<Viewer, Vec<ViewerReservation>>,
}

impl Sessions {
    /// No sessions. A reservation is held for `hold` after a read.
    #[must_use]
    pub fn new(hold: Nanos) -> Self {
        Self { hold, table: HashMap::new() }
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

    /// The viewer's reservation of the highest rate, if that is above `rate`: small reads of that rate are made beside it.
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

    /// True if a reservation of a rate above `rate` has been asked for and not been granted yet.
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

    /// The viewer waits for nothing of this read any more: the next one that finds no room takes over from it.
    pub fn leaves(&mut self, viewer: &Viewer, stream: StreamId) {
        let mut shares = self.table.get_mut(viewer).into_iter().flatten();
        if let Some(share) = shares.find(|share| share.stream() == Some(stream)) {
            share.is_left = true;
        }
    }

    /// The client of this read takes nothing: it counts as one that has only looked so far.
    pub fn looks_away(&mut self, viewer: &Viewer, stream: StreamId, now: Nanos) {
        let mut shares = self.table.get_mut(viewer).into_iter().flatten();
        if let Some(share) = shares.find(|share| share.stream() == Some(stream)) {
            (share.used, share.since) = (Nanos::ZERO, now);
        }
    }

    /// A request comes. After [`ReservationSource::New`] and [`ReservationSource::Take`] its stream runs in the session until
    /// [`Sessions::end`].
    pub fn begin(&mut self, request: &SessionRequest, now: Nanos) -> ReservationSource {
        let shares = self.table.entry(request.viewer.clone()).or_default();
        let named = matches!(request.viewer, Viewer::Named { .. });
        let takes_any = named || request.no_room;
        let moves_on = takes_any || request.part == ContentPart::Elsewhere;
        let is_older = |share: &ViewerReservation| {
            share.content == request.content && request.part.takes_over(&request.viewer, share, shares, now)
        };
        let held = newest(shares, |share| share.is_held() && share.terms.fit(&request.terms))
            .or_else(|| newest(shares, |share| share.is_held() && takes_any && !request.is_beside(share)));
        let superseded = || newest(shares, |share| (moves_on || request.is_one_of_many(share, now)) && is_older(share));
        let left = || newest(shares, |share| request.no_room && share.is_left && share.reservation().is_some());
        match held.or_else(superseded).or_else(left) {
            Some(nth) => shares[nth].take(request, now),
            None => {
                shares.push(ViewerReservation::new(request, now));
                ReservationSource::New
            }
        }
    }

    /// True if the reservation of this stream served another content of its viewer's session before: it reads the next segment of the media
    /// played.
    #[must_use]
    pub fn goes_on(&self, viewer: &Viewer, stream: StreamId) -> bool {
        let mut shares = self.table.get(viewer).into_iter().flatten();
        shares.any(|share| share.stream() == Some(stream) && share.goes_on)
    }

    /// A request was refused for want of room, after a call of [`Sessions::end`] for it.
    pub fn refused(&mut self, viewer: &Viewer, content: u64, part: ContentPart, now: Nanos) -> Retry {
        // What a viewer that names itself holds counts for its next read, whether that needs more or less.
        let is_own = |other: &Viewer| other == viewer && matches!(viewer, Viewer::Named { .. });
        let is_loose = |share: &ViewerReservation| matches!(share.state, ReservationState::Held { firm_until, .. } if firm_until <= now);
        let loose = self.take_out(|other, share| is_loose(share) && !is_own(other));
        if !loose.is_empty() {
            return Retry::Release(loose);
        }
        let Some(shares) = self.table.get(viewer) else { return Retry::GiveUp };
        let is_own = |share: &ViewerReservation| {
            share.is_held() || (share.content == content && part.takes_over(viewer, share, shares, now))
        };
        if shares.iter().any(is_own) { Retry::TakeOwn } else { Retry::Wait }
    }

    /// A stream of the session was admitted with this reservation.
    pub fn started(&mut self, viewer: &Viewer, stream: StreamId, granted: ReservationId) {
        let Some(shares) = self.table.get_mut(viewer) else { return };
        if let Some(nth) = newest(shares, |share| share.stream() == Some(stream)) {
            shares[nth].state = ReservationState::Running { stream, reservation: Some(granted) };
            shares[nth].before = None;
        }
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
            (StreamRelease::Held(reservation, left_off), _) => {
                shares[nth].hold(reservation, left_off, named, self.hold, now);
                None
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

/// The newest share for which `so` is true.
fn newest(shares: &[ViewerReservation], so: impl Fn(&ViewerReservation) -> bool) -> Option<usize> {
    shares.iter().rposition(so)
}

impl ViewerReservation {
    /// The reservation that a request asks for.
    fn new(request: &SessionRequest, now: Nanos) -> Self {
        let SessionRequest { stream, content, part, terms, .. } = *request;
        let state = ReservationState::Running { stream, reservation: None };
        let has_start = part != ContentPart::Elsewhere;
        let (used, account) = (Nanos::ZERO, SessionAccount::default());
        let (goes_on, is_left, before) = (false, false, None);
        Self { terms, content, part, has_start, used, since: now, goes_on, is_left, account, state, before }
    }

    const fn is_held(&self) -> bool {
        matches!(self.state, ReservationState::Held { .. })
    }

    const fn stream(&self) -> Option<StreamId> {
        match self.state {
            ReservationState::Running { stream, .. } => Some(stream),
            ReservationState::Held { .. } => None,
        }
    }

    const fn reservation(&self) -> Option<ReservationId> {
        match self.state {
            ReservationState::Running { reservation, .. } => reservation,
            ReservationState::Held { reservation, .. } => Some(reservation),
        }
    }

    /// For how long reads had it until now.
    const fn used_at(&self, now: Nanos) -> Nanos {
        match self.state {
            ReservationState::Running { .. } => self.used.saturating_add(now.saturating_sub(self.since)),
            ReservationState::Held { .. } => self.used,
        }
    }

    /// Gives it to a newer read.
    fn take(&mut self, request: &SessionRequest, now: Nanos) -> ReservationSource {
        let (reservation, was_begun) = match self.state {
            ReservationState::Held { reservation, .. } => (reservation, false),
            ReservationState::Running { stream, reservation: None } => return ReservationSource::After(stream),
            ReservationState::Running { reservation: Some(reservation), .. } => {
                (reservation, self.has_start && self.content == request.content)
            }
        };
        self.before = Some(Box::new(Self { before: None, ..*self }));
        if self.is_held() {
            // The player was started again: it begins with a look.
            if self.content == request.content && request.part == ContentPart::Whole {
                self.used = Nanos::ZERO;
            }
            self.since = now;
        }
        self.has_start = request.part != ContentPart::Elsewhere || was_begun;
        self.goes_on |= self.content != request.content;
        self.is_left = false;
        (self.content, self.part, self.terms) = (request.content, request.part, request.terms);
        self.state = ReservationState::Running { stream: request.stream, reservation: Some(reservation) };
        ReservationSource::Take(reservation)
    }

    /// The read it was taken from has ended.
    fn forget(&mut self, ended: StreamId) {
        self.before = self.before.take().filter(|before| before.stream() != Some(ended));
    }

    /// Its read ended: it is held for the viewer's next one.
    fn hold(&mut self, reservation: ReservationId, left_off: StopPoint, named: bool, hold: Nanos, now: Nanos) {
        self.used = self.used_at(now);
        let in_parts = self.goes_on || matches!(self.part, ContentPart::FromStart | ContentPart::Elsewhere);
        let plays = self.used >= PLAYS_AFTER && in_parts;
        let earned = match () {
            () if plays => hold,
            () if named => Nanos(self.used.0.saturating_mul(SEGMENT_SPEEDUP)).min(hold),
            () => Nanos::ZERO,
        };
        let firm = match () {
            () if left_off == StopPoint::AtEnd && !self.goes_on => earned.min(AFTER_END),
            () => earned,
        };
        self.state = ReservationState::Held {
            reservation,
            firm_until: now.saturating_add(firm),
            until: now.saturating_add(hold),
        };
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
