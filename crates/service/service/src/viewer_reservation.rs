//! A reservation of one viewer: the reads that have it one after the other, and the time for which it is held after each.
//!
//! Not here: its way from read to read (`session`).

use units::{Nanos, ReservationId, StreamId};

use crate::budgets::ChargedBudgets;
use crate::session_account::SessionAccount;
use crate::session_request::{ContentPart, ReservationSource, ReservationTerms, SessionRequest, StopPoint, Viewer};

/// A viewer without a name plays once its reads have used a reservation for this time; until then it only looks.
pub const PLAYS_AFTER: Nanos = Nanos::from_secs(10);
/// A player closes the read that it leaves within this time after it has begun the next one.
pub const SEEK_TIME: Nanos = Nanos::from_secs(2);
/// For the next title, after a read to the end of a content: the player shows the rest of its buffer first.
pub const AFTER_END: Nanos = Nanos::from_secs(10);

/// A reservation of a viewer, held or requested.
#[derive(Debug)]
pub(crate) struct ViewerReservation {
    pub(crate) terms: ReservationTerms,
    pub(crate) charged: ChargedBudgets,
    pub(crate) content: u64,
    pub(crate) part: ContentPart,
    /// The reads of this content that passed it on from one to the next include one from the start.
    pub(crate) has_start: bool,
    /// For how long reads had it, and since when one has it now.
    pub(crate) used: Nanos,
    pub(crate) since: Nanos,
    /// It has served several contents, one after the other, as players read segments: the end of one is not the end of the media played.
    pub(crate) is_series: bool,
    /// Its viewer waits for nothing of its read.
    pub(crate) is_left: bool,
    /// It was new for this read, which may continue an older read that is about to end.
    pub(crate) is_fresh: bool,
    /// The bytes that its reads got, against its promised bytes.
    pub(crate) account: SessionAccount,
    /// Until then it was reserved ahead: it is held for its viewer whatever its reads were.
    pub(crate) kept_until: Nanos,
    pub(crate) state: ReservationState,
    /// It as it was before the read that has taken it, until that is admitted.
    pub(crate) before: Option<Box<Self>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ReservationState {
    /// A read has it (`None` until the data plane has reported which), or will have it if it is admitted.
    Running { stream: StreamId, reservation: Option<ReservationId> },
    /// It waits for the viewer's next read; from `firm_until` on others may have it.
    Held { reservation: ReservationId, since: Nanos, firm_until: Nanos, until: Nanos },
}

impl ViewerReservation {
    /// The reservation that a request asks for.
    pub(crate) fn new(request: &SessionRequest, now: Nanos) -> Self {
        let SessionRequest { stream, content, part, terms, .. } = *request;
        let state = ReservationState::Running { stream, reservation: None };
        let has_start = part != ContentPart::Elsewhere;
        let (used, account) = (Nanos::ZERO, SessionAccount::default());
        Self {
            terms,
            charged: request.charged.clone(),
            content,
            part,
            has_start,
            used,
            since: now,
            is_series: false,
            is_left: false,
            is_fresh: true,
            account,
            kept_until: Nanos::ZERO,
            state,
            before: None,
        }
    }

    /// True if it was newly admitted for a read that continues the read which had `older`: that ended soon after this began.
    pub(crate) fn continues(&self, older: &Self) -> bool {
        let ReservationState::Held { since: ended, .. } = older.state else { return false };
        let is_admitted = !self.is_held() && self.reservation().is_some();
        let is_soon = ended >= self.since && ended.saturating_sub(self.since) <= SEEK_TIME;
        self.is_fresh && is_admitted && self.content == older.content && is_soon
    }

    pub(crate) const fn held_until(&self) -> Option<Nanos> {
        match self.state {
            ReservationState::Held { until, .. } => Some(until),
            ReservationState::Running { .. } => None,
        }
    }

    pub(crate) const fn is_held(&self) -> bool {
        matches!(self.state, ReservationState::Held { .. })
    }

    pub(crate) const fn stream(&self) -> Option<StreamId> {
        match self.state {
            ReservationState::Running { stream, .. } => Some(stream),
            ReservationState::Held { .. } => None,
        }
    }

    pub(crate) const fn reservation(&self) -> Option<ReservationId> {
        match self.state {
            ReservationState::Running { reservation, .. } => reservation,
            ReservationState::Held { reservation, .. } => Some(reservation),
        }
    }

    /// For how long reads had it until now.
    pub(crate) const fn used_at(&self, now: Nanos) -> Nanos {
        match self.state {
            ReservationState::Running { .. } => self.used.saturating_add(now.saturating_sub(self.since)),
            ReservationState::Held { .. } => self.used,
        }
    }

    /// True if its viewer has not played yet.
    pub(crate) fn only_looks(&self, now: Nanos) -> bool {
        self.used_at(now) < PLAYS_AFTER
    }

    /// Gives it to a newer read.
    pub(crate) fn take(&mut self, request: &SessionRequest, now: Nanos) -> ReservationSource {
        let (source, was_begun) = match self.state {
            ReservationState::Held { reservation, .. } => (ReservationSource::Take(reservation), false),
            ReservationState::Running { stream, reservation: None } => return ReservationSource::After(stream),
            ReservationState::Running { stream, reservation: Some(reservation) } => {
                let was_begun = self.has_start && self.content == request.content;
                (ReservationSource::TakeFrom(reservation, stream), was_begun)
            }
        };
        self.before = Some(Box::new(Self { before: None, charged: self.charged.clone(), ..*self }));
        if self.is_held() {
            // The player was started again: it begins with a look.
            if self.content == request.content && request.part == ContentPart::Whole {
                self.used = Nanos::ZERO;
            }
            self.since = now;
        }
        self.has_start = request.part != ContentPart::Elsewhere || was_begun;
        self.is_series |= self.content != request.content;
        (self.is_left, self.is_fresh) = (false, false);
        (self.content, self.part, self.terms) = (request.content, request.part, request.terms);
        self.charged = request.charged.clone();
        self.state = ReservationState::Running { stream: request.stream, reservation: self.before_reservation() };
        source
    }

    /// The reservation of the share as it was before.
    pub(crate) fn before_reservation(&self) -> Option<ReservationId> {
        self.before.as_ref().and_then(|before| before.reservation())
    }

    /// The read it was taken from has ended.
    pub(crate) fn forget(&mut self, ended: StreamId) {
        self.before = self.before.take().filter(|before| before.stream() != Some(ended));
    }

    /// Its read ended: it is held for the viewer's next one.
    pub(crate) fn hold(
        &mut self,
        reservation: ReservationId,
        stop_point: StopPoint,
        named: bool,
        hold: Nanos,
        now: Nanos,
    ) {
        self.used = self.used_at(now);
        let in_parts = self.is_series || matches!(self.part, ContentPart::FromStart | ContentPart::Elsewhere);
        let plays = self.used >= PLAYS_AFTER && in_parts;
        // Segments come faster than they play.
        let played = self.used.max(self.account.promised());
        let earned = if plays || named { played.min(hold) } else { Nanos::ZERO };
        let firm = match () {
            () if stop_point == StopPoint::AtEnd && !self.is_series => earned.min(AFTER_END),
            () => earned,
        };
        self.state = ReservationState::Held {
            reservation,
            since: now,
            firm_until: now.saturating_add(firm).max(self.kept_until),
            until: now.saturating_add(hold).max(self.kept_until),
        };
    }

    /// Keeps it for its viewer until then, also while no read uses it.
    pub(crate) fn keep(&mut self, kept_until: Nanos) {
        self.kept_until = kept_until;
        if let ReservationState::Held { firm_until, until, .. } = &mut self.state {
            *firm_until = kept_until.max(*firm_until);
            *until = kept_until.max(*until);
        }
    }
}

impl SessionRequest {
    /// True if it may be sound along with the pictures for which a reservation is held.
    pub(crate) fn is_beside(&self, share: &ViewerReservation) -> bool {
        self.is_small && !self.no_room && share.terms.rate > self.terms.rate
    }

    /// True if it is one of many ranges that were opened at once, of which the first may come at any place.
    pub(crate) fn is_one_of_many(&self, older: &ViewerReservation, now: Nanos) -> bool {
        let may_follow = match self.part {
            ContentPart::Elsewhere => true,
            ContentPart::FromStart => !older.has_start,
            ContentPart::Whole | ContentPart::Download => false,
        };
        may_follow && older.only_looks(now)
    }

    /// True if it may take the reservation of an older read of its content that continues, of `all` that its viewer has. Several reads of a
    /// viewer without a name are several persons, and none that plays loses a promised rate because another one comes or seeks.
    pub(crate) fn takes_over(&self, older: &ViewerReservation, all: &[ViewerReservation], now: Nanos) -> bool {
        let may_take = || match self.part {
            ContentPart::Download => false,
            _ if older.is_left => true,
            _ if older.only_looks(now) => all.iter().filter(|share| share.content == older.content).count() == 1,
            ContentPart::Elsewhere => all.len() == 1,
            ContentPart::FromStart | ContentPart::Whole => false,
        };
        older.content == self.content && (matches!(self.viewer, Viewer::Named { .. }) || may_take())
    }

    /// True if its player may be about to leave the one read that it has: a range from the start is a neighbour's who opens the same film, or
    /// ffmpeg's, which looks at the start of a transport stream when it seeks, and closes the older connection once this one is answered.
    pub(crate) fn may_continue(&self, all: &[ViewerReservation]) -> bool {
        self.part == ContentPart::FromStart
            && matches!(all, [older] if older.content == self.content && older.stream().is_some())
    }
}

/// The newest share for which `so` is true.
pub(crate) fn newest(shares: &[ViewerReservation], so: impl Fn(&ViewerReservation) -> bool) -> Option<usize> {
    shares.iter().rposition(so)
}
