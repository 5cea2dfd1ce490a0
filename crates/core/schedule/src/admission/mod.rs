//! Admission: whether a rate can be promised, and the rate that would be granted instead.
//!
//! Counts disk time per round (`disk_table`), bits per second of a link, buffers, and busy time of the data-plane core,
//! each by its worst case, not its mean.
//!
//! Promise: admitted rates can be kept while disk, link and core perform as their profiles say; a refusal names the
//! resource that is short and the highest rate that would be granted in its place; removing a stream never turns a yes
//! into a no. Not here: sessions, policy per path (the control plane's), serving (`disk`).

mod buffers;
mod check;
pub mod disk_table;
mod exchange;
mod session_clock;
mod writes;

use units::limits::CACHE_PAGE_BYTES;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, limits};

use crate::profile::DiskProfile;
use buffers::BufferAccount;
pub use buffers::RequestedContent;
use check::{f64_of, one_block, wire};
pub use check::{window_bytes, write_period};
use disk_table::{
    DemandKind, DiskDemand, DiskTable, LOOKAHEAD_ROUNDS, RoundLoad, SLOTS, StartConditions, StartCost, StartForecast,
};
pub use session_clock::{BlockDeadline, REQUEST_WAY_MAX, SessionRead};

/// Share of a round held back for delays that no cost model foresees. Decision 0007, table of constants.
pub const MARGIN: f64 = 0.04;
/// Promises have so much of a disk at least, whatever share best effort is to keep. Chosen.
const BUDGET_MIN: f64 = 0.01;
/// Bytes on the wire per byte of payload: Ethernet and TCP/IP heads at an MTU of 1500 (1538 / 1448, RFC 894, RFC 7323).
pub const WIRE_OVERHEAD: f64 = 1.0622;
/// Everything admission has to know of a stream (or recording) that wants in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdmissionRequest {
    /// The disk its content lies on.
    pub disk: DiskId,
    /// The link it leaves by.
    pub link: LinkId,
    /// Its rate.
    pub rate: BitRate,
    /// Share of its bytes that it reads from this disk, 0.0 … 1.0.
    pub disk_share: f64,
    /// Slowest sustained rate of the disk where the content lies, bytes per second.
    pub zone_bytes_per_second: u64,
    /// Fragments beyond the first, per byte that it reads from this disk.
    pub fragments_per_byte: f64,
    /// The content that it reads, with which it shares buffers.
    pub content: RequestedContent,
    /// Bytes it will read at most (short contents need less memory); `u64::MAX` where unknown.
    pub length: u64,
    /// A recording writes a block every so many rounds, a power of two ([`write_period`]); none: it reads.
    pub written_every: Option<u32>,
}

impl AdmissionRequest {
    /// Seconds for so many bytes where its content lies.
    fn transfer_seconds(&self, bytes: u64) -> f64 {
        f64_of(bytes) / f64_of(self.zone_bytes_per_second.max(1))
    }

    /// Rounds for which its content plays at its rate.
    fn rounds_played(&self, round: Nanos) -> f64 {
        self.rate.time_for(self.length).as_secs_f64() / round.as_secs_f64()
    }
}

/// The resource that is short for an admission.
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
    /// Places in the delivery table.
    Table,
    /// The disk errs or does not answer: nothing is admitted on it.
    DiskFailing(DiskId),
    /// The server drains before it stops: nothing is admitted any more.
    Draining,
}

/// Why something was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The resource that is short.
    pub resource: Resource,
    /// The highest rate that would be granted now in its place (zero: none).
    pub grantable: BitRate,
}

impl Refusal {
    /// Nothing else would be granted either.
    #[must_use]
    pub const fn outright(resource: Resource) -> Self {
        Self { resource, grantable: BitRate(0) }
    }
}

/// Settings of admission.
#[derive(Debug, Clone)]
pub struct AdmissionSettings {
    /// Reservations at most.
    pub reservations_max: usize,
    /// Buffers, in pages.
    pub pages: u64,
    /// Share of disk time best-effort work keeps, 0.0 … 0.9.
    pub be_share: f64,
    /// Disk time kept for streams that share another's reads and may need their own: a share of what all of them would
    /// take, 0.0 … 1.0.
    pub sharing_reserve: f64,
}

/// One disk, as admission sees it.
#[derive(Debug)]
struct AdmissionDisk {
    table: DiskTable,
    /// Reservations of streams that share another's reads.
    sharing: u32,
}

/// One link.
#[derive(Debug, Clone, Copy)]
struct AdmissionLink {
    capacity: BitRate,
    reserved: u64,
}

/// One reservation.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    request: AdmissionRequest,
    demand: DiskDemand,
    pages: u64,
    /// Pages beyond its own window, held for those that share its reads.
    held_pages: u64,
    /// Start burst that has buffers ([`Admission::grant_burst`]).
    burst_bytes: u64,
    /// Another stream of the content reads for it: it takes no disk time.
    shares: bool,
    /// Where a recording is written, once that is known.
    written_at: Option<u64>,
    /// The stroke that its writes are charged until then.
    stroke_seconds: f64,
    /// How it started, and a round in which it reads regularly, once it has started.
    placed: Option<(StartCost, u64)>,
    /// Reservations made before it.
    before: u64,
    /// Its part on a further disk, which goes with it.
    further: Option<ReservationId>,
    /// The clock of a session that reads each content as one block, the deadline of the last of them; none before the
    /// first.
    clock: Option<Nanos>,
    beside: ReadsBeside,
}

/// Small reads beside the blocks of a session: sound, subtitles, an index.
#[derive(Debug, Clone, Copy, Default)]
struct ReadsBeside {
    /// Their disk time since the last block; none before the second block: with those its player fills its buffer.
    since: Option<RoundLoad>,
    /// Between two blocks, in the mean; before the second block that of one of them.
    mean: RoundLoad,
    /// The part of the session's demand in a round that is promised for them.
    share: RoundLoad,
    /// The deadline of the last of them; none before the first.
    clock: Option<Nanos>,
}

impl Reservation {
    /// True if it is on the request's link, for its rate or more, and for such blocks.
    fn covers(&self, request: &AdmissionRequest, kind: DemandKind) -> bool {
        self.request.link == request.link && self.request.rate >= request.rate && self.demand.kind == kind
    }

    /// True if the request's reads, of the same disk alone, cost no more; it may hold so many bytes at once.
    fn covers_reading(&self, request: &AdmissionRequest, demand: &DiskDemand, window: u64) -> bool {
        self.request.length >= request.length.min(window) && self.demand.transfer >= demand.transfer * (1.0 - MARGIN)
    }
}

/// The demand that is to stand in place of a part of a session's reservation, if it fits.
fn replacement(
    admission: &Admission,
    held: &Reservation,
    beside: RoundLoad,
    blocks: impl Fn(&Admission, &Reservation) -> Option<DiskDemand>,
) -> Option<DiskDemand> {
    let demand = blocks(admission, held).filter(|_| !held.shares)?.with(beside);
    let table = &admission.disk(held.request.disk).table;
    table.fits_instead(&demand, Some(&held.demand)).then_some(demand)
}

/// The table of reservations and the resources that they hold.
#[derive(Debug)]
pub struct Admission {
    disks: Vec<AdmissionDisk>,
    links: Vec<AdmissionLink>,
    buffers: BufferAccount,
    /// As many as were ever held at once; there is room for all of them from the start.
    entries: Vec<(u32, Option<Reservation>)>,
    free: Vec<u32>,
    reservations_max: usize,
    /// Reservations made so far.
    made: u64,
    /// Promised bits per second in all.
    promised: u64,
    processor_share: f64,
    /// The sum of promised rates when that was measured.
    processor_promised: u64,
    sharing_reserve: f64,
}

impl Admission {
    /// Nothing reserved. Links have the given capacities, in payload bits per second on the wire.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, disks: Vec<(DiskProfile, Nanos)>, links: &[BitRate]) -> Self {
        let budget = (1.0 - settings.be_share - MARGIN).max(BUDGET_MIN);
        let disk = |(profile, round)| AdmissionDisk { table: DiskTable::new(profile, round, budget), sharing: 0 };
        Self {
            disks: disks.into_iter().map(disk).collect(),
            links: links.iter().map(|&capacity| AdmissionLink { capacity, reserved: 0 }).collect(),
            buffers: BufferAccount::new(settings.pages, settings.reservations_max),
            entries: Vec::with_capacity(settings.reservations_max),
            free: Vec::with_capacity(settings.reservations_max),
            reservations_max: settings.reservations_max,
            made: 0,
            promised: 0,
            processor_share: 0.0,
            processor_promised: 0,
            sharing_reserve: settings.sharing_reserve,
        }
    }

    /// Admits or refuses a stream or recording that needs time on these disks: the first is the one that it starts on, with
    /// its buffers; each of the others is named once.
    ///
    /// # Errors
    /// The resource that is short, and the rate that would be granted.
    pub fn reserve(&mut self, requests: &[AdmissionRequest]) -> Result<ReservationId, Refusal> {
        let (demand, pages) = self.check_alone(requests)?;
        let id = self.enter(requests[0], demand, pages);
        self.promise(id, requests);
        Ok(id)
    }

    /// Admits or refuses a stream that another one of its content reads for: it takes no disk time, and the pages it
    /// needs are charged to that one ([`Admission::hold_pages`]), except those of a content that is one block.
    ///
    /// # Errors
    /// The resource that is short, and the rate that would be granted to a stream that reads for itself.
    pub fn reserve_shared(&mut self, requests: &[AdmissionRequest]) -> Result<ReservationId, Refusal> {
        let (demand, pages) = self.check_sharing(requests)?;
        let id = self.enter(requests[0], demand, pages);
        self.begin_sharing(id);
        Ok(id)
    }

    /// Promises a stream that runs time on further disks, at once: `start` gives the conditions on its first one.
    ///
    /// # Errors
    /// The resource that is short. Promises made before that are released with `id`.
    pub fn reserve_further(
        &mut self,
        id: ReservationId,
        further: &[AdmissionRequest],
        start: &StartConditions,
    ) -> Result<(), Resource> {
        self.check_entries(further.len())?;
        further.iter().try_for_each(|request| self.check_disk(request, self.sharing_reserve).map(drop))?;
        self.extend(id, further);
        let Some(first) = self.find(id).map(|reservation| reservation.request.disk) else { return Ok(()) };
        if self.place_further(id, start) { Ok(()) } else { Err(Resource::Disk(first)) }
    }

    /// Promises the demands for which `id` was entered.
    fn promise(&mut self, id: ReservationId, requests: &[AdmissionRequest]) {
        let demand = self.find(id).expect("just entered").demand;
        self.disk_mut(requests[0].disk).table.promise(&demand);
        self.extend(id, &requests[1..]);
    }

    /// Enters the parts of `id` on further disks, which were checked.
    fn extend(&mut self, id: ReservationId, further: &[AdmissionRequest]) {
        for request in further {
            let demand = self.demand(request);
            let part = self.enter(AdmissionRequest { rate: BitRate(0), ..*request }, demand, 0);
            self.disk_mut(request.disk).table.promise(&demand);
            let others = self.find_mut(id).expect("it is held").further.replace(part);
            self.find_mut(part).expect("just entered").further = others;
        }
    }

    /// The share of its bytes for which it holds time on a disk.
    #[must_use]
    pub fn share_held(&self, id: ReservationId, disk: DiskId) -> f64 {
        let parts = std::iter::successors(self.find(id), |part| self.find(part.further?));
        parts.filter(|part| part.request.disk == disk).map(|part| part.request.disk_share).sum()
    }

    fn check_entries(&self, count: usize) -> Result<(), Resource> {
        let left = self.free.len() + (self.reservations_max - self.entries.len());
        if count <= left { Ok(()) } else { Err(Resource::Table) }
    }

    fn enter(&mut self, request: AdmissionRequest, demand: DiskDemand, pages: u64) -> ReservationId {
        let new = u32::try_from(self.entries.len()).expect("a table of at most 2^32 entries");
        let slot = self.free.pop().unwrap_or(new);
        if slot == new {
            assert!(self.entries.len() < self.reservations_max, "checked: the table has room");
            self.entries.push((0, None));
        }
        self.fill(slot, request, demand, pages);
        ReservationId { slot, generation: self.entries[slot as usize].0 }
    }

    fn fill(&mut self, slot: u32, request: AdmissionRequest, demand: DiskDemand, pages: u64) {
        let before = self.made;
        self.entries[slot as usize].1 = Some(Reservation {
            request,
            demand,
            pages,
            held_pages: 0,
            burst_bytes: 0,
            shares: false,
            written_at: None,
            stroke_seconds: if demand.writes() { self.disk(request.disk).table.stroke_seconds() } else { 0.0 },
            placed: None,
            before,
            further: None,
            clock: None,
            beside: ReadsBeside::default(),
        });
        self.made += 1;
        self.links[usize::from(request.link.0)].reserved += request.rate.0;
        self.buffers.promise(request.content, pages);
        self.promised += request.rate.0;
        self.follow_write_span(request.disk, &demand);
    }

    /// Admits a suspended reservation again, under the identifier that it had.
    ///
    /// # Errors
    /// The resource that is short; an entry in the table, if it was released meanwhile.
    pub fn reserve_again(&mut self, id: ReservationId, requests: &[AdmissionRequest]) -> Result<(), Resource> {
        if !matches!(self.entries.get(id.slot as usize), Some((generation, None)) if *generation == id.generation) {
            return Err(Resource::Table);
        }
        let (demand, pages) = self.check(requests)?;
        self.fill(id.slot, requests[0], demand, pages);
        self.promise(id, requests);
        Ok(())
    }

    /// A reservation that was entered takes no disk time.
    fn begin_sharing(&mut self, id: ReservationId) {
        let reservation = self.find_mut(id).expect("just entered");
        reservation.shares = true;
        let disk = reservation.request.disk;
        self.disk_mut(disk).sharing += 1;
    }

    /// A reservation gives its disk time and buffers up: another stream of its content reads for it from now on.
    pub fn share(&mut self, id: ReservationId) {
        self.unplace(id);
        let Some(held) = self.find(id).copied().filter(|reservation| !reservation.shares) else { return };
        let kept = self.pages_of_sharer(&held.request, &held.demand).min(held.pages);
        self.set_pages_of(id, kept, 0);
        self.buffers.end_burst(id);
        let reservation = self.find_mut(id).expect("found above");
        (reservation.shares, reservation.burst_bytes) = (true, 0);
        let (demand, disk, further) = (reservation.demand, reservation.request.disk, reservation.further.take());
        further.into_iter().for_each(|part| self.release(part));
        let disk = self.disk_mut(disk);
        disk.table.withdraw(&demand);
        disk.sharing += 1;
    }

    /// A reservation that shared another's reads gets disk time and buffers of its own, for `requests`; one that has them
    /// keeps them.
    ///
    /// # Errors
    /// The resource that is short. The reservation then stays as it was.
    pub fn unshare(&mut self, id: ReservationId, requests: &[AdmissionRequest]) -> Result<(), Resource> {
        let Some(&Reservation { request: shared, pages: kept, .. }) =
            self.find(id).filter(|reservation| reservation.shares)
        else {
            return Ok(());
        };
        self.check_entries(requests.len() - 1)?;
        let (demand, pages) = self.check_reading_again(requests, kept)?;
        let request = AdmissionRequest { rate: shared.rate, content: shared.content, ..requests[0] };
        self.set_pages_of(id, pages, 0);
        let reservation = self.find_mut(id).expect("found above");
        (reservation.shares, reservation.demand, reservation.request) = (false, demand, request);
        reservation.beside.share = RoundLoad::default();
        // A disk may have failed meanwhile, so that it reads from another one than it was counted at.
        self.disk_mut(shared.disk).sharing -= 1;
        self.promise(id, requests);
        Ok(())
    }

    /// The stream that shared the reads of `from` reads in its place, with its disk time, its rounds and its buffers, and
    /// `from` shares. If it has got disk time of its own meanwhile, it keeps that, and `from` gives its up.
    pub fn hand_over(&mut self, from: ReservationId, to: ReservationId) {
        let (Some(giver), Some(taker)) = (self.find(from).copied(), self.find(to).copied()) else { return };
        if giver.shares || !taker.shares {
            return self.share(from);
        }
        self.buffers.hand_over_burst(from, to);
        // Pages of the taker are of the same content, and the giver had them for it.
        self.buffers.withdraw(taker.request.content, taker.pages + taker.held_pages);
        // The rate and link of each stay its own; so does the disk at which the one that shares is counted.
        let request = AdmissionRequest { rate: taker.request.rate, link: taker.request.link, ..giver.request };
        *self.find_mut(to).expect("found above") = Reservation { request, before: taker.before, ..giver };
        let request = AdmissionRequest { disk: taker.request.disk, ..giver.request };
        *self.find_mut(from).expect("found above") = Reservation {
            request,
            pages: 0,
            held_pages: 0,
            burst_bytes: 0,
            shares: true,
            placed: None,
            further: None,
            ..giver
        };
    }

    /// Gives a reservation back; a stale identifier is ignored.
    pub fn release(&mut self, id: ReservationId) {
        self.suspend(id);
        if let Some((generation, _)) = self.entries.get_mut(id.slot as usize)
            && *generation == id.generation
        {
            *generation = generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    /// Gives back all that a reservation holds, but not its identifier: it may be reserved again, or released.
    pub fn suspend(&mut self, id: ReservationId) {
        let Some(reservation) = self.find(id).copied() else { return };
        self.unplace(id);
        self.withdraw(&reservation);
        self.buffers.end_burst(id);
        self.entries[id.slot as usize].1 = None;
        self.follow_write_span(reservation.request.disk, &reservation.demand);
        reservation.further.into_iter().for_each(|part| self.release(part));
    }

    /// Makes a held reservation serve a next request of its session; false if it does not cover that: other disks or another link,
    /// a higher rate, or more buffers than there are. A session that reads whole contents keeps its place in the time table, and
    /// its demand follows the length of its contents where that fits; a stream starts anew.
    pub fn renew(&mut self, id: ReservationId, requests: &[AdmissionRequest]) -> bool {
        let Some(held) = self.find(id).copied() else { return false };
        let request = &requests[0];
        let demand = self.demand(request);
        let is_covered = held.covers(request, demand.kind)
            && requests.iter().any(|request| request.disk == held.request.disk)
            && requests.iter().all(|request| self.share_held(id, request.disk) > 0.0 || held.shares);
        if !is_covered {
            return false;
        }
        if demand.is_spread() {
            return self.renew_spread(id, requests, &demand);
        }
        let window = self.window_bytes(&held.request, &held.demand);
        let is_enough = held.shares || requests.len() == 1 && held.covers_reading(request, &demand, window);
        let pages = if held.shares { held.pages } else { self.pages_for(&held.request, &held.demand) };
        if !is_enough || !self.reads_on(id, request.content, pages) {
            return false;
        }
        self.unplace(id);
        true
    }

    fn renew_spread(&mut self, id: ReservationId, requests: &[AdmissionRequest], demand: &DiskDemand) -> bool {
        let held = *self.find(id).expect("looked at before");
        let request = &requests[0];
        let pages = self.pages_for(request, demand);
        if !self.reads_on(id, request.content, pages) {
            return false;
        }
        // A short part (an initialization segment, a key, a last piece) does not change the demand; nor does a lower rate, which
        // the player may leave again.
        let rounds = request.rounds_played(self.disk(held.request.disk).table.round());
        let changes = request.rate == held.request.rate && rounds >= 1.0;
        let mean = held.beside.mean_at_block();
        if changes {
            let blocks = |admission: &Self, part: &Reservation| {
                let request = requests.iter().find(|request| request.disk == part.request.disk)?;
                Some(admission.demand(request))
            };
            self.replace_spread(id, mean.scaled(1.0 / rounds), blocks);
        }
        let reservation = self.find_mut(id).expect("looked at before");
        // The next block lies elsewhere than the one before it, and costs as much as it does there.
        let AdmissionRequest { disk, rate, .. } = held.request;
        reservation.request = AdmissionRequest { disk, rate, ..*request };
        if changes {
            (reservation.beside.since, reservation.beside.mean) = (Some(RoundLoad::default()), mean);
        }
        true
    }

    /// Promises a session, on all its disks, the demand of its `blocks` and of its reads `beside` them in a round, in place of
    /// its present share, if that fits.
    fn replace_spread(
        &mut self,
        id: ReservationId,
        beside: RoundLoad,
        blocks: impl Fn(&Self, &Reservation) -> Option<DiskDemand>,
    ) {
        let replacement = |all: &Self, part| replacement(all, all.find(part)?, beside, &blocks);
        let mut parts = std::iter::successors(Some(id), |part| self.find(*part)?.further);
        if !parts.all(|part| replacement(self, part).is_some()) {
            return;
        }
        let mut next = Some(id);
        while let Some((part, demand)) = next.and_then(|part| Some((part, replacement(self, part)?))) {
            let Reservation { request, demand: held, further, .. } = *self.find(part).expect("looked at before");
            let table = &mut self.disk_mut(request.disk).table;
            table.withdraw(&held);
            table.promise(&demand);
            let reservation = self.find_mut(part).expect("looked at before");
            (reservation.demand, reservation.beside.share) = (demand, beside);
            next = further;
        }
    }

    /// Reserves buffers for a small read beside the blocks of a session (sound, subtitles, an index), on the same disk: its disk time
    /// is of the session's share, by a clock of their own ([`Admission::deadline_beside`]), and the share grows by the time of such
    /// reads where there is room; beside a session that shares reads, where such reads are mostly shared as well, it is of the reserve.
    /// `None` if there is no such session, or no memory.
    pub fn accompany(&mut self, session: ReservationId, request: &AdmissionRequest) -> Option<ReservationId> {
        let held = self.find(session)?;
        let is_there = held.demand.is_spread() && (held.shares || self.share_held(session, request.disk) > 0.0);
        let pages = request.length.div_ceil(CACHE_PAGE_BYTES) + 1;
        if !is_there || !self.buffers.fits(request.content, 0, pages) || self.check_entries(1).is_err() {
            return None;
        }
        let nothing = DiskDemand { period: 1, transfer: 0.0, seeks: 0.0, kind: DemandKind::Spread };
        Some(self.enter(AdmissionRequest { rate: BitRate(0), ..*request }, nothing, pages))
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

    /// Whether a request, alone on its disk, would be read in one block.
    #[must_use]
    pub fn is_one_block(&self, request: &AdmissionRequest) -> bool {
        self.demand(request).is_spread()
    }

    /// The session's request ended: its next one starts anew, or finds the place that it keeps, with buffers for its rate.
    pub fn rest(&mut self, id: ReservationId) {
        self.unplace(id);
        let Some(&Reservation { demand, pages, .. }) = self.find(id) else { return };
        if !demand.is_spread() {
            self.set_pages_of(id, pages, 0);
            self.buffers.end_burst(id);
            self.find_mut(id).expect("found above").burst_bytes = 0;
        }
    }

    /// Places a reservation's reads on all its disks, beginning now; the first regular round on the first of them. `None`: not
    /// yet, ask again next round. Those of a session of whole contents have their place in every round.
    pub fn place(&mut self, id: ReservationId, start: &StartConditions) -> Option<u64> {
        let first = self.place_part(id, start)?;
        if !self.place_further(id, start) {
            self.unplace(id);
            return None;
        }
        Some(first)
    }

    /// Places the parts of a reservation on further disks that have no place yet; false if there is no room now. All
    /// disks begin to count their rounds at the same time.
    fn place_further(&mut self, id: ReservationId, start: &StartConditions) -> bool {
        let Some(Reservation { request: AdmissionRequest { disk, .. }, mut further, .. }) = self.find(id).copied()
        else {
            return true;
        };
        let now = self.disk(disk).table.round().saturating_mul(start.round);
        while let Some(part) = further {
            let Reservation { request, placed, further: next, .. } = *self.find(part).expect("held with the first");
            let round = now.0 / self.disk(request.disk).table.round().0;
            if placed.is_none() && self.place_part(part, &StartConditions::idle(round)).is_none() {
                return false;
            }
            further = next;
        }
        true
    }

    /// The loads of the coming rounds of a disk, for the streams that will start in them from `now` on; `start` gives the
    /// conditions of the first.
    #[must_use]
    pub fn forecast(&self, disk: DiskId, now: Nanos, start: &StartConditions) -> StartForecast {
        self.disk(disk).table.forecast(now, start)
    }

    /// True if a reservation without a place will have its first bytes from its first disk by `deadline` if all those in the
    /// forecast start before it; it then is in the forecast as well.
    #[must_use]
    pub fn starts_by(
        &self,
        forecast: &mut StartForecast,
        id: ReservationId,
        start: &StartConditions,
        deadline: Nanos,
    ) -> bool {
        self.find(id).is_some_and(|&Reservation { ref request, ref demand, burst_bytes, .. }| {
            let start = self.start_of(request, burst_bytes, start);
            self.disk(request.disk).table.starts_by(forecast, demand, &start, deadline)
        })
    }

    fn place_part(&mut self, id: ReservationId, conditions: &StartConditions) -> Option<u64> {
        let Reservation { request, demand, placed, burst_bytes, .. } = *self.find(id)?;
        assert!(placed.is_none(), "a reservation is placed once");
        if demand.is_spread() {
            return Some(conditions.round);
        }
        let start = self.start_of(&request, burst_bytes, conditions);
        let first = self.disk_mut(request.disk).table.place(&demand, &start)?;
        self.find_mut(id).expect("found above").placed = Some((start, first));
        Some(first)
    }

    /// Takes a reservation's reads out of the tables; it stays promised.
    pub fn unplace(&mut self, id: ReservationId) {
        let mut next = Some(id);
        while let Some(reservation) = next.and_then(|part| self.find_mut(part)) {
            let placed = reservation.placed.take();
            let (demand, disk) = (reservation.demand, reservation.request.disk);
            next = reservation.further;
            if let Some((start, first)) = placed {
                let table = &mut self.disk_mut(disk).table;
                table.remove(&demand, &start, first);
                table.promise(&demand);
            }
        }
    }

    /// For how long after the end of `round` a disk that has nothing to read may do something else, by its time table;
    /// `Nanos::MAX` if nothing is placed on it.
    #[must_use]
    pub fn carry_headroom(&self, disk: DiskId, round: u64) -> Nanos {
        self.disk(disk).table.carry_headroom(round)
    }

    /// How many reservations were made before this one: greater is younger.
    #[must_use]
    pub fn age(&self, id: ReservationId) -> Option<u64> {
        self.find(id).map(|reservation| reservation.before)
    }

    /// Rounds between a reservation's blocks.
    #[must_use]
    pub fn period(&self, id: ReservationId) -> Option<u32> {
        self.find(id).map(|reservation| reservation.demand.period)
    }

    /// True if a reservation needs time of the disk, or shares the reads of one that does.
    #[must_use]
    pub fn is_reserved(&self, disk: DiskId) -> bool {
        let mut reservations = self.entries.iter().filter_map(|(_, reservation)| reservation.as_ref());
        reservations.any(|reservation| reservation.request.disk == disk)
    }

    /// Gives a disk another profile and its round; gives the old one.
    ///
    /// # Panics
    /// If the disk is reserved: the demands are counted by the profile under which they were made.
    pub fn replace_profile(&mut self, disk: DiskId, profile: DiskProfile, round: Nanos) -> DiskProfile {
        assert!(!self.is_reserved(disk), "nothing is promised of a disk whose profile changes");
        self.disk_mut(disk).table.replace_profile(profile, round)
    }

    /// Sets the slowdown that the disk's cost model has learned.
    pub fn set_slowdown(&mut self, disk: DiskId, slowdown: f64) {
        self.disk_mut(disk).table.set_slowdown(slowdown);
    }

    /// The share of its time the data-plane core is busy, 0.0 … 1.0.
    pub fn set_processor_share(&mut self, share: f64) {
        (self.processor_share, self.processor_promised) = (share, self.promised);
    }

    /// Mean share of a disk's time that is promised.
    #[must_use]
    pub fn promised_share(&self, disk: DiskId) -> f64 {
        self.disk(disk).table.promised_share()
    }

    /// Mean share of a disk's time that may still be promised.
    #[must_use]
    pub fn free_share(&self, disk: DiskId) -> f64 {
        self.disk(disk).table.free_share()
    }

    /// Promised bits per second in all.
    #[must_use]
    pub const fn promised(&self) -> BitRate {
        BitRate(self.promised)
    }

    /// Bits per second of a link that are not promised.
    #[must_use]
    pub fn link_left(&self, link: LinkId) -> BitRate {
        let link = &self.links[usize::from(link.0)];
        BitRate(link.capacity.0.saturating_sub(wire(link.reserved)))
    }

    /// Payload bits per second that a link carries in all.
    #[must_use]
    pub fn link_payload(&self, link: LinkId) -> BitRate {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
        let payload = (f64_of(self.links[usize::from(link.0)].capacity.0) / WIRE_OVERHEAD) as u64;
        BitRate(payload)
    }

    /// Sets the capacity of a link from now on. Promises stay: a link that became narrower admits nothing until enough of
    /// them have ended. Unknown links are ignored.
    pub fn set_link(&mut self, link: LinkId, capacity: BitRate) {
        if let Some(link) = self.links.get_mut(usize::from(link.0)) {
            link.capacity = capacity;
        }
    }

    fn disk(&self, disk: DiskId) -> &AdmissionDisk {
        &self.disks[usize::from(disk.0)]
    }

    fn disk_mut(&mut self, disk: DiskId) -> &mut AdmissionDisk {
        &mut self.disks[usize::from(disk.0)]
    }

    fn find(&self, id: ReservationId) -> Option<&Reservation> {
        let (generation, entry) = self.entries.get(id.slot as usize)?;
        if *generation == id.generation { entry.as_ref() } else { None }
    }

    fn find_mut(&mut self, id: ReservationId) -> Option<&mut Reservation> {
        let (generation, entry) = self.entries.get_mut(id.slot as usize)?;
        if *generation == id.generation { entry.as_mut() } else { None }
    }
}

#[cfg(test)]
mod grant_tests;

#[cfg(test)]
mod tests;
