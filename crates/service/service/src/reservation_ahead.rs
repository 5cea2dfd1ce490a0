//! Reservations ahead: a rate for reads of a content or folder, from one time until another.
//!
//! A reservation ahead is near from [`AHEAD`] before its beginning until its end. While it is near, its session keeps a reservation of the
//! data plane, so that admission itself refuses what would take its time; while that finds no room, no newcomer gets any of the resource
//! that it is short of.
//!
//! Promise: pure, but for the lock of the table; bounded by the limits of the database. Not here: keeping them (the crate `accounts`),
//! taking their room (`reservations`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use dataplane::control::{Refusal, Resource};
use units::{BitRate, DiskId, LinkId};

use crate::contents::ContentPath;
use crate::lock::lock;
use crate::session_request::Viewer;

/// The room of a reservation is kept from this time before its beginning on, s: streams that began earlier have as long to end.
pub const AHEAD: u64 = 3600;
/// Longest reservation, s.
pub const LENGTH_MAX: u64 = 7 * 24 * 3600;
/// A reservation begins at most this time from now, s.
pub const FROM_MAX: u64 = 366 * 24 * 3600;

/// A reservation to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationWish {
    /// The account; none: the operator.
    pub by: Option<String>,
    /// The content, or the folder that it lies in.
    pub path: ContentPath,
    /// The rate.
    pub rate: BitRate,
    /// Its beginning, seconds since 1970.
    pub from: u64,
    /// Its end, seconds since 1970.
    pub until: u64,
    /// The address of this server by which its reads leave.
    pub local: IpAddr,
}

/// A reservation that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationAhead {
    /// Its number.
    pub id: i64,
    /// The name of its session: a read with it has the reservation.
    pub session: String,
    /// Its terms.
    pub wish: ReservationWish,
}

impl ReservationAhead {
    /// True if its room is to be kept.
    #[must_use]
    pub const fn is_near(&self, now: u64) -> bool {
        now.saturating_add(AHEAD) >= self.wish.from && now < self.wish.until
    }

    /// True if reads may have it.
    #[must_use]
    pub const fn is_on(&self, now: u64) -> bool {
        self.wish.from <= now && now < self.wish.until
    }
}

/// The highest rate that these have reserved at one moment from `from` until `until`.
#[must_use]
pub fn peak<'a>(all: impl Iterator<Item = &'a ReservationWish>, from: u64, until: u64) -> u64 {
    let all: Vec<_> = all.filter(|one| one.from < until && from < one.until).collect();
    // A sum grows at beginnings only.
    let moments = all.iter().map(|one| one.from.max(from));
    let reserved = |at: u64| {
        let rates = all.iter().filter(|one| one.from <= at && at < one.until).map(|one| one.rate.0);
        rates.fold(0, u64::saturating_add)
    };
    moments.map(reserved).max().unwrap_or_default()
}

/// The room of a reservation that is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReservedRoom {
    /// Its session has it.
    Kept,
    /// There is none yet; none: its content cannot be opened.
    Short(Option<Refusal>),
}

/// The reservations that are near, by number.
#[derive(Debug, Default)]
pub(crate) struct NearReservations {
    table: Mutex<HashMap<i64, (Viewer, ReservedRoom)>>,
    /// One takes room at a time.
    pub(crate) taking: tokio::sync::Mutex<()>,
}

impl NearReservations {
    /// Notes the room of a reservation. True if it was another before.
    pub(crate) fn note(&self, id: i64, viewer: Viewer, room: ReservedRoom) -> bool {
        let before = lock(&self.table).insert(id, (viewer, room.clone()));
        before.is_none_or(|(_, before)| std::mem::discriminant(&before) != std::mem::discriminant(&room))
    }

    /// The room of a reservation; none: it is not near.
    pub(crate) fn room(&self, id: i64) -> Option<ReservedRoom> {
        lock(&self.table).get(&id).map(|(_, room)| room.clone())
    }

    /// Takes out the viewers of reservations that are not near any more.
    pub(crate) fn take_out(&self, is_near: impl Fn(i64) -> bool) -> Vec<Viewer> {
        let mut table = lock(&self.table);
        let gone: Vec<i64> = table.keys().copied().filter(|id| !is_near(*id)).collect();
        gone.into_iter().filter_map(|id| table.remove(&id)).map(|(viewer, _)| viewer).collect()
    }

    /// The refusal of a newcomer on these disks and links: a reservation of another viewer waits for the same resource.
    pub(crate) fn bars(&self, viewer: Option<&Viewer>, disks: &[DiskId], link: LinkId) -> Option<Refusal> {
        let is_wanted = |resource: Resource| match resource {
            Resource::Disk(disk) => disks.contains(&disk),
            Resource::Network(short) => short == link,
            Resource::Memory | Resource::Processor | Resource::Table => true,
            Resource::DiskFailing(_) | Resource::Draining => false,
        };
        let table = lock(&self.table);
        let short = table.values().filter(|(other, _)| Some(other) != viewer).filter_map(|(_, room)| match room {
            ReservedRoom::Short(refusal) => refusal.map(|refusal| refusal.resource),
            ReservedRoom::Kept => None,
        });
        short.into_iter().find(|resource| is_wanted(*resource)).map(Refusal::outright)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use units::{Nanos, ReservationId, StreamId};

    use super::*;
    use crate::budgets::{BudgetKey, BudgetLimits, ChargedBudgets};
    use crate::session::{Limits, Retry, Sessions, ShortResource, StreamRelease};
    use crate::session_request::{ContentPart, ReservationSource, ReservationTerms, SessionRequest, StopPoint};

    fn wish(rate: u64, from: u64, until: u64) -> ReservationWish {
        let (path, local) = (ContentPath::root(), IpAddr::from([127, 0, 0, 1]));
        ReservationWish { by: None, path, rate: BitRate(rate), from, until, local }
    }

    #[test]
    fn the_peak_is_that_of_one_moment() {
        let all = [wish(5, 0, 10), wish(7, 10, 20), wish(2, 5, 15), wish(100, 30, 40)];
        let of = |from, until| peak(all.iter(), from, until);
        assert_eq!((of(0, 5), of(0, 10), of(0, 20), of(15, 30), of(20, 30)), (5, 7, 9, 7, 0));
        assert_eq!(of(39, 50), 100);
    }

    #[test]
    fn a_reservation_is_near_before_it_is_on() {
        let ahead = ReservationAhead { id: 1, session: String::new(), wish: wish(1, 10_000, 20_000) };
        let at = |now| (ahead.is_near(now), ahead.is_on(now));
        assert_eq!((at(6_399), at(6_400)), ((false, false), (true, false)));
        assert_eq!(
            (at(9_999), at(10_000), at(19_999), at(20_000)),
            ((true, false), (true, true), (true, true), (false, false))
        );
    }

    #[test]
    fn newcomers_get_nothing_of_the_resource_that_a_reservation_waits_for() {
        let charged = ChargedBudgets::of(&[BudgetKey::Account("ada".into())]);
        let [own, other] = ["a", "b"].map(|name| Viewer::named(name.to_owned(), &charged));
        let near = NearReservations::default();
        let bars =
            |viewer: &Viewer, disk, link| near.bars(Some(viewer), &[DiskId(disk)], LinkId(link)).map(|it| it.resource);
        let short = |resource| ReservedRoom::Short(Some(Refusal { resource, grantable: BitRate(9) }));
        assert!(near.note(1, own.clone(), short(Resource::Disk(DiskId(1)))));
        assert!(!near.note(1, own.clone(), short(Resource::Disk(DiskId(1)))));
        assert_eq!(bars(&other, 1, 0), Some(Resource::Disk(DiskId(1))));
        assert_eq!((bars(&other, 2, 0), bars(&own, 1, 0)), (None, None));
        near.note(1, own.clone(), short(Resource::Network(LinkId(3))));
        assert_eq!((bars(&other, 1, 3), bars(&other, 1, 0)), (Some(Resource::Network(LinkId(3))), None));
        assert!(near.note(1, own.clone(), ReservedRoom::Kept), "another");
        assert_eq!(bars(&other, 1, 3), None);
        assert_eq!((near.take_out(|_| true), near.take_out(|_| false)), (vec![], vec![own]));
        assert_eq!(near.room(1), None);
    }

    fn read(name: &str, stream: u64) -> SessionRequest {
        let charged = ChargedBudgets::of(&[BudgetKey::Account("ada".into())]);
        let (disk, link, rate) = (DiskId(0), LinkId(0), BitRate(8_800_000));
        SessionRequest {
            viewer: Viewer::named(name.to_owned(), &charged),
            charged,
            stream: StreamId(stream),
            content: 1,
            part: ContentPart::Elsewhere,
            terms: ReservationTerms { disk, link, rate, is_named: true },
            is_small: false,
            no_room: false,
        }
    }

    #[test]
    fn its_session_yields_to_no_request_before_its_end() {
        let limits: Limits<'_> = &|_| BudgetLimits { idle: Some(BitRate(0)), ..BudgetLimits::default() };
        let (mut sessions, own, id) =
            (Sessions::new(Nanos::ZERO), read("own", 1), ReservationId { slot: 1, generation: 1 });
        let (viewer, now) = (own.viewer.clone(), Nanos::from_secs(400));
        assert!(!sessions.keep(&viewer, Nanos::from_secs(500)), "it has nothing");
        assert_eq!(sessions.begin(&own, limits, Nanos::ZERO), ReservationSource::New);
        assert_eq!(sessions.started(&viewer, StreamId(1), id), None);
        assert!(sessions.keep(&viewer, Nanos::from_secs(500)));
        let held = StreamRelease::Held(id, StopPoint::Midway);
        assert_eq!(sessions.end(&viewer, StreamId(1), held, Nanos::ZERO), None);
        assert!(sessions.expire(now).is_empty() && sessions.keeps(&viewer, now));
        let unread = HashSet::new();
        let short = ShortResource { resource: Resource::Table, times: 1, unread: &unread };
        assert_eq!(sessions.refused(&read("other", 2), short, limits, now), Retry::GiveUp);
        assert!(sessions.give_up(own.charged.owner(), &read("other", 2).viewer, now).is_empty());
        assert_eq!(sessions.begin(&read("own", 3), limits, now), ReservationSource::Take(id));
        assert!(sessions.keep_no_more(&viewer).is_empty(), "it is read");
        assert_eq!(sessions.end(&viewer, StreamId(3), held, now), None);
        assert_eq!(sessions.keep_no_more(&viewer), [id]);
    }
}
