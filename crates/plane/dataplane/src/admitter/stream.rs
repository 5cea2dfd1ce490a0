//! A stream as the admitter knows it: its request, and its reservation.
//!
//! Not here: the table of reservations (`schedule::admission`), reading and sending.

use std::sync::Arc;

use content::Content;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId};

/// The grants to a stream.
#[derive(Debug, Default)]
pub(super) struct AdmittedStream {
    pub(super) stream: StreamId,
    pub(super) content: Option<Arc<Content>>,
    pub(super) link: LinkId,
    pub(super) disk: DiskId,
    pub(super) rate: BitRate,
    pub(super) payload: u64,
    pub(super) started: Nanos,
    /// When its client requested it.
    pub(super) requested_at: Nanos,
    /// The control plane has received the report of its start, or that it has none.
    pub(super) is_settled: bool,
    pub(super) reservation: StreamReservation,
    /// It has no reservation from before.
    pub(super) is_new: bool,
    /// Keep the reservation at its end.
    pub(super) hold: bool,
    /// The session that gives a share of its disk time for the reads of sound and the like.
    pub(super) session: Option<ReservationId>,
}

/// The reservation of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum StreamReservation {
    /// Best effort.
    #[default]
    None,
    /// It has a reservation.
    Held(ReservationId),
    /// Another request of its session has it as soon as this stream has left its group.
    TakenOver(ReservationId),
    /// It gave its reservation back, and requests it again under the same identifier, by which its session knows it.
    Suspended(ReservationId),
}

impl StreamReservation {
    /// The one under which it is read for.
    pub(super) const fn held(self) -> Option<ReservationId> {
        match self {
            Self::Held(id) | Self::TakenOver(id) => Some(id),
            Self::None | Self::Suspended(_) => None,
        }
    }

    /// The reservation that it may have again.
    pub(super) const fn suspended(self) -> Option<ReservationId> {
        if let Self::Suspended(id) = self { Some(id) } else { None }
    }

    /// It has this one: its first, or the one that it gave back.
    pub(super) fn obtain(&mut self, id: ReservationId) {
        assert!(matches!(self, Self::None | Self::Suspended(_)), "a stream has one reservation at a time: {self:?}");
        *self = Self::Held(id);
    }

    /// Another stream has the one that it gave back: it can ask for it no more.
    pub(super) fn forget(&mut self) {
        debug_assert!(!matches!(self, Self::Held(_)), "a reservation that is held is taken over before: {self:?}");
        *self = Self::None;
    }

    /// Another request of its session takes it over. True if it is this one.
    pub(super) fn take_over(&mut self, id: ReservationId) -> bool {
        let is_held = *self == Self::Held(id);
        if is_held {
            *self = Self::TakenOver(id);
        }
        is_held
    }

    /// It loses its reservation, and requests it again unless another stream took it over; gives that reservation.
    pub(super) fn lose(&mut self) -> Self {
        let before = *self;
        *self = match before {
            Self::Held(id) => Self::Suspended(id),
            Self::TakenOver(_) => Self::None,
            other => other,
        };
        before
    }
}
