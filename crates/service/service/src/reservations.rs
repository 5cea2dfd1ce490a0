//! Reservations ahead: made, listed, removed, and their room taken before they begin.
//!
//! The room is taken by a read of the content in the name of the reservation's session, which ends once it is admitted: the session then
//! holds what admission has promised to it, as after any read, until the reservation ends.
//!
//! Promise: a reservation that is near and was admitted is promised until its end, also over a restart. Not here: their times and the
//! refusal of newcomers (`reservation_ahead`), keeping them (the crate `accounts`).

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use api::{LinkDirection, LinkStatus, NewReservation, ReservationEntry, ReservationPhase};
use content::Segment;
use dataplane::control::{Refusal, Resource};
use tokio::time::interval;
use units::{BitRate, Nanos};

use crate::MediaService;
use crate::access::{self, AccountName, Denied, OwnPermit, Permit, Principal, ToRead};
use crate::account_changes::{AccountChange, ChangeError, Changed, ListPart};
use crate::budgets::{BudgetLimit, BudgetRefusal, ChargedBudgets};
use crate::client::Client;
use crate::contents::{ContentPath, NameKind, StoreError, Want};
use crate::delivery::DeliveryError;
use crate::events;
use crate::links::payload;
use crate::rate::{RateTerms, RequestedRate};
use crate::reads::{self, ContentRead, OpenedContent};
use crate::reservation_ahead::{FROM_MAX, LENGTH_MAX, ReservationAhead, ReservationWish, ReservedRoom, peak};
use crate::session::{ContentPart, Viewer};
use crate::shortage::Shortage;

/// Period in which reservations that come near, or wait for room, are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Least rate.
const RATE_MIN: u64 = 1000;

/// The reason why a reservation is not made, or has no room.
#[derive(Debug, thiserror::Error)]
pub enum ReservationError {
    /// Its times or its rate.
    #[error(
        "`until` lies after now and after `from`, at most 7 days; `from` is at most a year from now (both in seconds since 1970), and \
         `rate_bps` at least 1000"
    )]
    Terms,
    /// Its account may not read the path.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The content cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no room for it, or its budget has none.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// It is not kept.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// A read that has a reservation.
pub struct ReservedRead {
    /// The viewer of the reservation's session.
    pub viewer: Viewer,
    /// The budgets that it is charged to: those of the reservation.
    pub charged: ChargedBudgets,
    /// Its rate.
    pub rate: BitRate,
}

/// The reservation that a read of `path` now has by the name of its session.
#[must_use]
pub fn reserved(service: &MediaService, session: &str, path: &ContentPath) -> Option<ReservedRead> {
    let ahead = service.accounts.facts().reservations.get(session).map(Arc::clone)?;
    if !ahead.is_on(service.accounts.now()) || !path.lies_in(&ahead.wish.path) {
        return None;
    }
    let (_, charged) = judged(service, &ahead.wish).ok()?;
    Some(ReservedRead { viewer: Viewer::named(ahead.session.clone(), &charged), charged, rate: ahead.wish.rate })
}

/// Reservations that the permit's account may see, by number.
#[must_use]
pub fn list(service: &MediaService, part: &ListPart<i64>, permit: &OwnPermit) -> Vec<ReservationEntry> {
    let facts = service.accounts.facts();
    let is_own =
        |ahead: &Arc<ReservationAhead>| permit.only().is_none_or(|only| ahead.wish.by.as_deref() == Some(only));
    let mut all: Vec<_> = facts.reservations.values().filter(|ahead| ahead.id > part.after && is_own(ahead)).collect();
    all.sort_unstable_by_key(|ahead| ahead.id);
    all.into_iter().take(part.limit).map(|ahead| entry(service, ahead)).collect()
}

fn entry(service: &MediaService, ahead: &ReservationAhead) -> ReservationEntry {
    let ReservationWish { by, path, rate, from, until, .. } = &ahead.wish;
    let (state, short) = match service.near.room(ahead.id) {
        None => (ReservationPhase::Planned, None),
        Some(ReservedRoom::Kept) => (ReservationPhase::Kept, None),
        Some(ReservedRoom::Short(refusal)) => (ReservationPhase::Waiting, refusal),
    };
    ReservationEntry {
        id: ahead.id,
        path: path.joined(),
        rate_bps: rate.0,
        from: *from,
        until: *until,
        session: ahead.session.clone(),
        by: by.clone(),
        state,
        short: short.map(|refusal| {
            let short = Shortage::of(service, refusal);
            [Some(short.kind()), short.name()].into_iter().flatten().collect::<Vec<_>>().join(" ")
        }),
    }
}

/// Makes a reservation for reads of the permit's path by its link at `local`. A near one is admitted now, or refused.
///
/// # Errors
/// It is none, there is no room for it, or it is not kept.
pub async fn add(
    service: &Arc<MediaService>,
    wanted: &NewReservation,
    (permit, own): (&Permit<ToRead>, &OwnPermit),
    local: IpAddr,
) -> Result<ReservationEntry, ReservationError> {
    let wish = ReservationWish {
        by: own.user().map(str::to_owned),
        path: permit.path().clone(),
        rate: BitRate(wanted.rate_bps),
        from: wanted.from,
        until: wanted.until,
        local,
    };
    check_terms(&wish, service.accounts.now())?;
    let (permit, charged) = judged(service, &wish)?;
    drop(content_of(service, &permit).await?);
    check_peaks(service, &wish, &charged)?;
    let Changed::New { id, text: session } =
        service.account_store.change(AccountChange::AddReservation(wish.clone())).await?
    else {
        unreachable!("a new reservation has a session")
    };
    let ahead = ReservationAhead { id, session, wish };
    if ahead.is_near(service.accounts.now()) {
        let _one = service.near.taking.lock().await;
        if let Err(error) = keep_room(service, &ahead).await {
            let remove = AccountChange::RemoveReservation { id, of: None };
            service.account_store.change(remove).await?;
            service.near.take_out(|other| other != id);
            return Err(error);
        }
    }
    Ok(entry(service, &ahead))
}

/// Removes a reservation that the permit's account may see, and gives its room back.
///
/// # Errors
/// There is none, or it is not removed.
pub async fn remove(service: &MediaService, id: i64, permit: &OwnPermit) -> Result<(), ReservationError> {
    let _one = service.near.taking.lock().await;
    let of = permit.only().map(str::to_owned);
    service.account_store.change(AccountChange::RemoveReservation { id, of }).await?;
    service.near.take_out(|other| other != id).iter().for_each(|viewer| service.sessions.keep_no_more(viewer));
    Ok(())
}

/// Takes the room of reservations that come near, and gives back that of those that are over, until the last reference to the service is
/// gone.
pub(crate) async fn keep(service: Weak<MediaService>) {
    let mut period = interval(LOOK_PERIOD);
    loop {
        period.tick().await;
        let Some(service) = service.upgrade() else { return };
        if !service.is_draining() {
            look_after(&service).await;
        }
    }
}

async fn look_after(service: &Arc<MediaService>) {
    let _one = service.near.taking.lock().await;
    let (facts, now) = (service.accounts.facts(), service.accounts.now());
    let mut near: Vec<_> = facts.reservations.values().filter(|ahead| ahead.is_near(now)).collect();
    near.sort_unstable_by_key(|ahead| (ahead.wish.from, ahead.id));
    let is_near = |id| near.iter().any(|ahead| ahead.id == id);
    service.near.take_out(is_near).iter().for_each(|viewer| service.sessions.keep_no_more(viewer));
    for ahead in near {
        // It waits.
        let _ = keep_room(service, ahead).await;
    }
}

/// Has the session of a reservation that is near keep its room, and notes whether it does.
async fn keep_room(service: &Arc<MediaService>, ahead: &ReservationAhead) -> Result<(), ReservationError> {
    let (viewer, result) = match judged(service, &ahead.wish) {
        Ok((permit, charged)) => {
            let viewer = Viewer::named(ahead.session.clone(), &charged);
            let is_kept = service.sessions.keeps(&viewer);
            let taken = if is_kept { Ok(()) } else { take(service, ahead, &permit, (&viewer, charged)).await };
            (viewer, taken)
        }
        Err(denied) => {
            let charged = ChargedBudgets::of(&[own(ahead.wish.local).budget()]);
            (Viewer::named(ahead.session.clone(), &charged), Err(denied.into()))
        }
    };
    let room = result.as_ref().map_or_else(|error| ReservedRoom::Short(refusal_of(error)), |()| ReservedRoom::Kept);
    if service.near.note(ahead.id, viewer, room) {
        let reason = result.as_ref().err().map(ToString::to_string);
        service.events.tell(events::reservation_room(ahead, reason.as_deref(), SystemTime::now()));
    }
    result
}

const fn refusal_of(error: &ReservationError) -> Option<Refusal> {
    match error {
        ReservationError::Delivery(DeliveryError::NoRoom(short)) => Some(short.refusal),
        _ => None,
    }
}

/// Takes the room of a reservation, by a read that ends once it is admitted.
async fn take(
    service: &Arc<MediaService>,
    ahead: &ReservationAhead,
    permit: &Permit<ToRead>,
    (viewer, charged): (&Viewer, ChargedBudgets),
) -> Result<(), ReservationError> {
    let opened = content_of(service, permit).await?;
    let length = opened.entry.size;
    let terms = RateTerms { rate: RequestedRate::Rate(ahead.wish.rate), burst: Some(Nanos::ZERO), ceiling: None };
    let body = vec![Segment::Range { offset: 0, length }];
    let bulk = ContentRead::bulk(opened, body, (viewer.clone(), charged), own(ahead.wish.local));
    let read = ContentRead { part: ContentPart::Elsewhere, terms, ..bulk };
    let pipe = reads::open_pipe(service, read).await?;
    let left = Nanos::from_secs(ahead.wish.until.saturating_sub(service.accounts.now()));
    let kept = service.sessions.keep(viewer, left);
    drop(pipe);
    if kept { Ok(()) } else { Err(DeliveryError::Busy.into()) }
}

/// The content of a reservation: that at its path, or the largest in the folder there.
async fn content_of(service: &MediaService, permit: &Permit<ToRead>) -> Result<OpenedContent, StoreError> {
    let opened = match reads::open_content(service, permit, Want::File).await {
        Err(StoreError::IsDirectory) => {
            let listing = service.list(permit).await?;
            let files = listing.entries.iter().filter(|entry| entry.kind == NameKind::File);
            let largest = files.max_by_key(|entry| entry.size).ok_or(StoreError::NotFound)?;
            let path = permit.path().child(&largest.name).map_err(|_| StoreError::NotFound)?;
            reads::open_content(service, &permit.at(path), Want::File).await?
        }
        opened => opened?,
    };
    // Without a byte there is nothing to reserve a rate for.
    if opened.entry.size == 0 { Err(StoreError::NotFound) } else { Ok(opened) }
}

/// The permit of a reservation's account as its rights are now, and the budgets that it is charged to.
fn judged(service: &MediaService, wish: &ReservationWish) -> Result<(Permit<ToRead>, ChargedBudgets), Denied> {
    let permit = match &wish.by {
        Some(name) => access::permit(&service.accounts, &Principal::Account(AccountName::proven(name)), &wish.path)?,
        None => Permit::of_configuration(wish.path.clone()),
    };
    let charged = service.charged(&permit, own(wish.local));
    Ok((permit, charged))
}

/// The server itself, at the link of this address.
const fn own(local: IpAddr) -> Client {
    Client { address: local, local, is_proxy: true }
}

const fn check_terms(wish: &ReservationWish, now: u64) -> Result<(), ReservationError> {
    let begins = if wish.from > now { wish.from } else { now };
    let lasts = wish.until.saturating_sub(begins);
    let is_fine = wish.rate.0 >= RATE_MIN
        && wish.from < wish.until
        && lasts > 0
        && lasts <= LENGTH_MAX
        && wish.from <= now.saturating_add(FROM_MAX);
    if is_fine { Ok(()) } else { Err(ReservationError::Terms) }
}

/// Whether all reservations of the time fit the link and the budgets together.
fn check_peaks(service: &MediaService, wish: &ReservationWish, charged: &ChargedBudgets) -> Result<(), DeliveryError> {
    let facts = service.accounts.facts();
    let all = || facts.reservations.values().map(|ahead| &ahead.wish);
    let link = service.link_out(wish.local);
    let config = service.config();
    let of_link = config.link_figures.iter().find(|figure| figure.id == link && figure.direction != LinkDirection::In);
    if let Some(figure) = of_link {
        let reserved = peak(all().filter(|one| service.link_out(one.local) == link), wish.from, wish.until);
        let left = payload(figure.capacity).saturating_sub(reserved);
        if wish.rate.0 > left {
            let (name, direction, capacity_bps) = (figure.name.clone(), figure.direction, figure.capacity.0);
            let status = LinkStatus { name, direction, capacity_bps, promised_bps: capacity_bps - left };
            let refusal = Refusal { resource: Resource::Network(link), grantable: BitRate(left) };
            return Err(DeliveryError::NoRoom(Shortage { refusal, link: Some(status), disk: None }));
        }
    }
    for key in charged.iter() {
        let Some(most) = service.accounts.limits(key).reserved else { continue };
        let is_charged = |one: &&ReservationWish| judged(service, one).is_ok_and(|(_, charged)| charged.has(key));
        let used = peak(all().filter(is_charged), wish.from, wish.until);
        if used.saturating_add(wish.rate.0) > most.0 {
            let (budget, limit, most, more) = (key.clone(), BudgetLimit::Reserved, most.0, wish.rate.0);
            return Err(BudgetRefusal { budget, limit, most, used, more, frees_in: None }.into());
        }
    }
    Ok(())
}
