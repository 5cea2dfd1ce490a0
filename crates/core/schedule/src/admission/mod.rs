//! Admission: promises a rate to a stream, or refuses with the rate that would be granted instead.
//!
//! It counts disk time per round (`disk_table`), bits per second of a link, buffers, and busy time of the data plane's core,
//! each by its worst case, not by its mean.
//!
//! Promise: admitted rates can be kept while disk, link and core perform as their profiles say; a refusal names the short
//! resource and the highest rate that would be granted instead; a stream that would be admitted would also be admitted after
//! the removal of another. Not here: sessions and policy per path (the control plane), the order of reads (`disk`).

mod buffers;
mod demand;
pub mod demand_load;
pub mod disk_table;
mod exchange;
mod reservations;
mod resources;
pub mod rounds;
mod sending;
mod session;
mod session_clock;
mod sharing;
pub mod start_cost;
pub mod start_forecast;
mod writes;

use units::limits::CACHE_PAGE_BYTES;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, limits};

use crate::profile::DiskProfile;
use buffers::BufferAccount;
pub use buffers::RequestedContent;
use demand::AdmissionDisk;
pub use demand::{window_bytes, write_period};
use demand_load::{DemandKind, DiskDemand, RoundLoad};
use disk_table::DiskTable;
use reservations::ReservationTable;
use resources::Resources;
pub use sending::Sending;
use session_clock::SessionClocks;
pub use session_clock::{BlockDeadline, REQUEST_WAY_MAX, SessionRead};
use start_cost::{StartConditions, StartCost};
use start_forecast::StartForecast;

/// Share of a round that is held back for delays outside of the cost model. Decision 0007, table of constants.
pub const MARGIN: f64 = 0.04;
/// Least share of a disk's time for promises, however large the share kept for best effort. Chosen.
const BUDGET_MIN: f64 = 0.01;
/// Bytes on the wire per byte of payload: Ethernet and TCP/IP heads at an MTU of 1500 (1538 / 1448, RFC 894, RFC 7323).
pub const WIRE_OVERHEAD: f64 = 1.0622;
/// The properties of a stream or recording by which admission decides, on one disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdmissionRequest {
    /// The disk that holds its content.
    pub disk: DiskId,
    /// The link that carries it.
    pub link: LinkId,
    /// Its rate.
    pub rate: BitRate,
    /// Share of its bytes that it reads from this disk, 0.0 … 1.0.
    pub disk_share: f64,
    /// Slowest sustained rate of the zones that hold the content, bytes per second.
    pub zone_bytes_per_second: u64,
    /// Fragments beyond the first, per byte read from this disk.
    pub fragments_per_byte: f64,
    /// The content that it reads: streams of one content share buffers.
    pub content: RequestedContent,
    /// Most bytes that it will read (short contents need less memory); `u64::MAX` if unknown.
    pub length: u64,
    /// For a recording, the rounds of the period in which it writes a block, a power of two ([`write_period`]); `None`: a
    /// stream, which reads.
    pub written_every: Option<u32>,
}

impl AdmissionRequest {
    /// Seconds of transfer for this number of bytes in the content's zones.
    fn transfer_seconds(&self, bytes: u64) -> f64 {
        f64_of(bytes) / f64_of(self.zone_bytes_per_second.max(1))
    }

    /// Playing time of its content at its rate, in rounds.
    fn rounds_played(&self, round: Nanos) -> f64 {
        self.rate.time_for(self.length).as_secs_f64() / round.as_secs_f64()
    }
}

/// The resource that a refused admission lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Disk time.
    Disk(DiskId),
    /// Bits per second of a link.
    Network(LinkId),
    /// Buffers.
    Memory,
    /// Busy time of the data-plane core.
    Processor,
    /// Slots of the delivery table.
    Table,
    /// The disk errs or does not answer, so no stream is admitted on it.
    DiskFailing(DiskId),
    /// The server drains before it stops, so no stream is admitted any more.
    Draining,
}

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The resource that is short.
    pub resource: Resource,
    /// The highest rate that would be granted now instead (zero: none).
    pub grantable: BitRate,
}

impl Refusal {
    /// A refusal without a lower rate.
    #[must_use]
    pub const fn outright(resource: Resource) -> Self {
        Self { resource, grantable: BitRate(0) }
    }
}

/// Settings of admission.
#[derive(Debug, Clone)]
pub struct AdmissionSettings {
    /// Most reservations.
    pub reservations_max: usize,
    /// Buffers, in pages.
    pub pages: u64,
    /// Share of disk time kept for best-effort work, 0.0 … 0.9.
    pub be_share: f64,
    /// Disk time in reserve for followers that may need their own reads, as a share of the time that all followers would take,
    /// 0.0 … 1.0.
    pub sharing_reserve: f64,
    /// Longest time to first byte of a start.
    pub first_byte_max: Nanos,
}

/// One reservation.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    request: AdmissionRequest,
    demand: DiskDemand,
    pages: u64,
    /// Pages beyond its own window, held for its followers.
    held_pages: u64,
    /// Bytes of start burst that have buffers ([`Admission::grant_burst`]).
    burst_bytes: u64,
    /// True for a follower, which takes no disk time.
    shares: bool,
    /// The position at which a recording is written, once known.
    written_at: Option<u64>,
    /// The time of the stroke that its writes are charged until the position is known.
    stroke_seconds: f64,
    /// Once it has started: the cost of its start, and one of its regular rounds.
    placed: Option<(StartCost, u64)>,
    /// Number of reservations made before it.
    before: u64,
    /// Its part on a further disk, released with it.
    further: Option<ReservationId>,
    /// The clocks of a session that reads each content as one block.
    session: SessionClocks,
}

impl Reservation {
    fn new(request: AdmissionRequest, demand: DiskDemand, pages: u64, stroke_seconds: f64) -> Self {
        Self {
            request,
            demand,
            pages,
            held_pages: 0,
            burst_bytes: 0,
            shares: false,
            written_at: None,
            stroke_seconds,
            placed: None,
            before: 0,
            further: None,
            session: SessionClocks::default(),
        }
    }

    /// True if it is on the request's link, has at least the request's rate, and is of the same kind of demand.
    fn covers(&self, request: &AdmissionRequest, kind: DemandKind) -> bool {
        self.request.link == request.link && self.request.rate >= request.rate && self.demand.kind == kind
    }

    /// True if the request's reads on the same disk cost no more; `window` is the most bytes that the reservation may hold.
    fn covers_reading(&self, request: &AdmissionRequest, demand: &DiskDemand, window: u64) -> bool {
        self.request.length >= request.length.min(window) && self.demand.transfer >= demand.transfer * (1.0 - MARGIN)
    }
}

/// The table of reservations and the resources that they hold.
#[derive(Debug)]
pub struct Admission {
    resources: Resources,
    reservations: ReservationTable,
}

impl Admission {
    /// An admission without reservations. `links` are the capacities of the links, in bits per second on the wire.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, disks: Vec<(DiskProfile, Nanos)>, links: &[BitRate]) -> Self {
        let budget = (1.0 - settings.be_share - MARGIN).max(BUDGET_MIN);
        let table = |(profile, round)| DiskTable::new(profile, round, budget, settings.first_byte_max);
        let disk = |disk| AdmissionDisk { table: table(disk), sharing: 0 };
        let resources = Resources {
            disks: disks.into_iter().map(disk).collect(),
            sending: Sending::new(links),
            buffers: BufferAccount::new(settings.pages, settings.reservations_max),
            sharing_reserve: settings.sharing_reserve,
        };
        Self { resources, reservations: ReservationTable::new(settings.reservations_max) }
    }

    /// Admits or refuses a stream or recording with a request for each of its disks. The first is the disk of its start, and is
    /// charged with its buffers; each other disk occurs once.
    ///
    /// # Errors
    /// The resource that is short, and the rate that would be granted.
    pub fn reserve(&mut self, requests: &[AdmissionRequest]) -> Result<ReservationId, Refusal> {
        let (demand, pages) = self.check_for(requests, false)?;
        let id = self.enter(requests[0], demand, pages);
        self.promise(id, requests);
        debug_assert!(self.sums_agree(), "{requests:?}");
        Ok(id)
    }

    /// Promises a running stream time on further disks, and places its reads there at once. `start` has the conditions on the first disk.
    ///
    /// # Errors
    /// The resource that is short. Promises on disks before that one stay, and are released with `id`.
    pub fn reserve_further(
        &mut self,
        id: ReservationId,
        further: &[AdmissionRequest],
        start: &StartConditions,
    ) -> Result<(), Resource> {
        self.reservations.check_room(further.len())?;
        let Resources { sharing_reserve, .. } = self.resources;
        further.iter().try_for_each(|request| self.resources.check_disk(request, sharing_reserve).map(drop))?;
        self.extend(id, further);
        let Some(first) = self.find(id).map(|reservation| reservation.request.disk) else { return Ok(()) };
        if self.place_further(id, start) { Ok(()) } else { Err(Resource::Disk(first)) }
    }

    /// Checks requests to the disks of one content; returns the demand on the first disk and the pages of buffers for all.
    ///
    /// # Errors
    /// The resource that is short.
    pub fn check(&self, requests: &[AdmissionRequest]) -> Result<(DiskDemand, u64), Resource> {
        self.reservations.check_room(requests.len())?;
        self.resources.check(requests)
    }

    /// As [`Self::check`], with the rate that would be granted instead; `shares` is true for a follower.
    fn check_for(&self, requests: &[AdmissionRequest], shares: bool) -> Result<(DiskDemand, u64), Refusal> {
        let entries = if shares { 1 } else { requests.len() };
        self.reservations.check_room(entries).map_err(Refusal::outright)?;
        if shares { self.resources.check_sharing(requests) } else { self.resources.check_alone(requests) }
    }

    /// Promises the demands of `id`, which was just entered.
    fn promise(&mut self, id: ReservationId, requests: &[AdmissionRequest]) {
        let demand = self.find(id).expect("just entered").demand;
        self.resources.disk_mut(requests[0].disk).table.promise(&demand);
        self.extend(id, &requests[1..]);
    }

    /// Enters the parts of `id` on further disks, after their check.
    fn extend(&mut self, id: ReservationId, further: &[AdmissionRequest]) {
        for request in further {
            let demand = self.resources.demand(request);
            let part = self.enter(AdmissionRequest { rate: BitRate(0), ..*request }, demand, 0);
            self.resources.disk_mut(request.disk).table.promise(&demand);
            let others = self.find_mut(id).expect("it is held").further.replace(part);
            self.find_mut(part).expect("just entered").further = others;
        }
    }

    /// The share of its bytes for which a reservation holds time on a disk.
    #[must_use]
    pub fn share_held(&self, id: ReservationId, disk: DiskId) -> f64 {
        self.reservations.parts(id).filter(|part| part.request.disk == disk).map(|part| part.request.disk_share).sum()
    }

    fn enter(&mut self, request: AdmissionRequest, demand: DiskDemand, pages: u64) -> ReservationId {
        let id = self.reservations.open();
        self.fill(id, request, demand, pages);
        id
    }

    fn fill(&mut self, id: ReservationId, request: AdmissionRequest, demand: DiskDemand, pages: u64) {
        let stroke_seconds = if demand.writes() { self.resources.table(request.disk).stroke_seconds() } else { 0.0 };
        self.reservations.fill(id, Reservation::new(request, demand, pages, stroke_seconds));
        self.resources.sending.promise(request.link, request.rate);
        self.resources.buffers.promise(request.content, pages);
        self.follow_write_span(request.disk, &demand);
    }

    /// Admits a suspended reservation again, under the identifier that it had.
    ///
    /// # Errors
    /// The resource that is short; [`Resource::Table`] if the reservation was released.
    pub fn reserve_again(&mut self, id: ReservationId, requests: &[AdmissionRequest]) -> Result<(), Resource> {
        if !self.reservations.is_suspended(id) {
            return Err(Resource::Table);
        }
        let (demand, pages) = self.check(requests)?;
        self.fill(id, requests[0], demand, pages);
        self.promise(id, requests);
        Ok(())
    }

    /// Gives a reservation back; a stale identifier is ignored.
    pub fn release(&mut self, id: ReservationId) {
        self.suspend(id);
        self.reservations.close(id);
    }

    /// Gives back all resources of a reservation, but keeps its identifier: it may be reserved again, or released.
    pub fn suspend(&mut self, id: ReservationId) {
        let Some(reservation) = self.find(id).copied() else { return };
        self.unplace(id);
        self.resources.withdraw(&reservation);
        self.resources.buffers.end_burst(id);
        self.reservations.suspend(id);
        self.follow_write_span(reservation.request.disk, &reservation.demand);
        reservation.further.into_iter().for_each(|part| self.release(part));
        debug_assert!(self.sums_agree(), "all that it held is given back");
    }

    /// Uses a reservation for the next request of its session. False if it does not cover the request: another disk or link, a
    /// higher rate, or more buffers than are free. A session that reads whole contents keeps its share of the rounds, and its
    /// demand changes with the length of its contents if that fits; a stream has to be placed again.
    pub fn renew(&mut self, id: ReservationId, requests: &[AdmissionRequest]) -> bool {
        let Some(held) = self.find(id).copied() else { return false };
        let request = &requests[0];
        let demand = self.resources.demand(request);
        let is_covered = held.covers(request, demand.kind)
            && requests.iter().any(|request| request.disk == held.request.disk)
            && requests.iter().all(|request| self.share_held(id, request.disk) > 0.0 || held.shares);
        if !is_covered {
            return false;
        }
        if demand.is_spread() {
            return self.renew_spread(id, requests, &demand);
        }
        let disk = self.resources.disk(held.request.disk);
        let window = disk.window_bytes(&held.request, &held.demand);
        let is_enough = held.shares || requests.len() == 1 && held.covers_reading(request, &demand, window);
        let pages = if held.shares { held.pages } else { disk.pages_for(&held.request, &held.demand) };
        if !is_enough || !self.reads_on(id, request.content, pages) {
            return false;
        }
        self.unplace(id);
        true
    }

    /// The rate of a reservation.
    #[must_use]
    pub fn rate(&self, id: ReservationId) -> Option<BitRate> {
        self.find(id).map(|reservation| reservation.request.rate)
    }

    /// True if each request of the session is one block ([`Admission::deadline`]).
    #[must_use]
    pub fn is_spread(&self, id: ReservationId) -> bool {
        self.find(id).is_some_and(|reservation| reservation.demand.is_spread())
    }

    /// True if the content of a request would be read in one block.
    #[must_use]
    pub fn is_one_block(&self, request: &AdmissionRequest) -> bool {
        self.resources.demand(request).is_spread()
    }

    /// Notes the end of a session's request. Its reads lose their place, unless it reads whole contents; the rate and the
    /// buffers for it stay.
    pub fn rest(&mut self, id: ReservationId) {
        self.unplace(id);
        let Some(&Reservation { demand, pages, .. }) = self.find(id) else { return };
        if !demand.is_spread() {
            self.set_pages_of(id, pages, 0);
            self.resources.buffers.end_burst(id);
            self.find_mut(id).expect("found above").burst_bytes = 0;
        }
        debug_assert!(self.sums_agree(), "a session that rests keeps its rate and its own pages");
    }

    /// Places a reservation's reads on all its disks, beginning now; returns the first regular round on the first disk. `None`:
    /// there is no room yet, and the caller tries again in the next round. A session that reads whole contents needs no place,
    /// since it has a share of every round.
    pub fn place(&mut self, id: ReservationId, start: &StartConditions) -> Option<u64> {
        let first = self.place_part(id, start)?;
        debug_assert!(first >= start.round, "no round lies before its start");
        if !self.place_further(id, start) {
            self.unplace(id);
            return None;
        }
        Some(first)
    }

    /// Places those parts of a reservation on further disks that have no place yet; false if there is no room now. The rounds
    /// of all disks are counted from the same time.
    fn place_further(&mut self, id: ReservationId, start: &StartConditions) -> bool {
        let Some(Reservation { request: AdmissionRequest { disk, .. }, mut further, .. }) = self.find(id).copied()
        else {
            return true;
        };
        let now = self.resources.table(disk).round().saturating_mul(start.round);
        while let Some(part) = further {
            let Reservation { request, placed, further: next, .. } = *self.find(part).expect("held with the first");
            let round = now.0 / self.resources.table(request.disk).round().0;
            if placed.is_none() && self.place_part(part, &StartConditions::idle(round)).is_none() {
                return false;
            }
            further = next;
        }
        true
    }

    /// True if a reservation without a place, requested at `asked_at`, will have its first bytes from its first disk in time
    /// behind all starts of the forecast; it is then added to the forecast.
    #[must_use]
    pub fn starts_behind(
        &self,
        forecast: &mut StartForecast,
        id: ReservationId,
        start: &StartConditions,
        asked_at: Nanos,
    ) -> bool {
        self.find(id).is_some_and(|&Reservation { ref request, ref demand, burst_bytes, .. }| {
            let disk = self.resources.disk(request.disk);
            disk.table.starts_behind(forecast, demand, &disk.start_of(request, burst_bytes, start), asked_at)
        })
    }

    fn place_part(&mut self, id: ReservationId, conditions: &StartConditions) -> Option<u64> {
        let Reservation { request, demand, placed, burst_bytes, .. } = *self.find(id)?;
        assert!(placed.is_none(), "a reservation is placed once");
        if demand.is_spread() {
            return Some(conditions.round);
        }
        let start = self.resources.disk(request.disk).start_of(&request, burst_bytes, conditions);
        let first = self.resources.disk_mut(request.disk).table.place(&demand, &start)?;
        self.find_mut(id).expect("found above").placed = Some((start, first));
        Some(first)
    }

    /// Removes a reservation's reads from the time tables; their promise stays.
    pub fn unplace(&mut self, id: ReservationId) {
        let mut next = Some(id);
        while let Some(reservation) = next.and_then(|part| self.find_mut(part)) {
            let placed = reservation.placed.take();
            let (demand, disk) = (reservation.demand, reservation.request.disk);
            next = reservation.further;
            if let Some((start, first)) = placed {
                let table = &mut self.resources.disk_mut(disk).table;
                table.remove(&demand, &start, first);
                table.promise(&demand);
            }
        }
    }

    /// The number of reservations made before this one: a greater number is a younger reservation.
    #[must_use]
    pub fn age(&self, id: ReservationId) -> Option<u64> {
        self.find(id).map(|reservation| reservation.before)
    }

    /// The period of a reservation's blocks, in rounds.
    #[must_use]
    pub fn period(&self, id: ReservationId) -> Option<u32> {
        self.find(id).map(|reservation| reservation.demand.period)
    }

    /// True if a reservation, or the leader of one, holds time of the disk.
    #[must_use]
    pub fn is_reserved(&self, disk: DiskId) -> bool {
        self.reservations.iter().any(|reservation| reservation.request.disk == disk)
    }

    /// Sets the profile and the round of a disk; returns the old profile.
    ///
    /// # Panics
    /// If the disk has reservations: their demands are counted by the old profile.
    pub fn replace_profile(&mut self, disk: DiskId, profile: DiskProfile, round: Nanos) -> DiskProfile {
        assert!(!self.is_reserved(disk), "nothing is promised of a disk whose profile changes");
        self.resources.disk_mut(disk).table.replace_profile(profile, round)
    }

    /// Sets the slowdown that the disk's cost model has learned.
    pub fn set_slowdown(&mut self, disk: DiskId, slowdown: f64) {
        self.resources.disk_mut(disk).table.set_slowdown(slowdown);
    }

    /// The promises of the links and of the data plane's core.
    #[must_use]
    pub const fn sending(&self) -> &Sending {
        &self.resources.sending
    }

    /// The promises of links and core, to set the links' capacities and the core's load.
    pub const fn sending_mut(&mut self) -> &mut Sending {
        &mut self.resources.sending
    }

    /// The time table of a disk.
    #[must_use]
    pub fn table(&self, disk: DiskId) -> &DiskTable {
        self.resources.table(disk)
    }

    /// True if the sums by which admission decides agree with the reservations; for assertions.
    fn sums_agree(&self) -> bool {
        let sum = |of: fn(&Reservation) -> u64| self.reservations.iter().map(of).sum::<u64>();
        let sharing: u64 = self.resources.disks.iter().map(|disk| u64::from(disk.sharing)).sum();
        sum(|held| held.request.rate.0) == self.resources.sending.promised().0
            && sum(|held| held.pages + held.held_pages) == self.resources.buffers.held()
            && sum(|held| u64::from(held.shares)) == sharing
    }

    fn find(&self, id: ReservationId) -> Option<&Reservation> {
        self.reservations.find(id)
    }

    fn find_mut(&mut self, id: ReservationId) -> Option<&mut Reservation> {
        self.reservations.find_mut(id)
    }
}

#[allow(clippy::cast_precision_loss, reason = "costs are estimates")]
fn f64_of(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod grant_tests;

#[cfg(test)]
mod session_tests;

#[cfg(test)]
mod tests;
