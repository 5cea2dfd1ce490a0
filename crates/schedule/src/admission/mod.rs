//! Admission: whether a rate can be promised, and what would be granted instead.
//!
//! Counts disk time per round (`disk_table`), bits per second of a link, buffers, and busy time of the data-plane core,
//! each by its worst case, not its mean.
//!
//! Promise: what was admitted can be kept while disk, link and core do what their profiles say; a refusal names the
//! resource that is short and the highest rate that would be granted in its place; removing a stream never turns a yes
//! into a no. Not here: sessions, policy per path (the control plane's), serving (`disk`).

pub mod disk_table;

use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, limits};

use crate::profile::DiskProfile;
use disk_table::{DiskDemand, DiskTable, LOOKAHEAD_ROUNDS, Moment, SLOTS, Start};

/// Unit of buffer memory: the largest read is four of them.
pub const QUARTER_BYTES: u64 = limits::CHUNK_BYTES / 4;
/// Share of a round held back for what no cost model foresees.
pub const MARGIN: f64 = 0.04;
/// Bytes on the wire per byte of payload: Ethernet and TCP/IP heads at an MTU of 1500 (1538 / 1448, RFC 894, RFC 7323).
pub const WIRE_OVERHEAD: f64 = 1.0622;
/// Share of the core's time that may be promised.
const PROCESSOR_SHARE_MAX: f64 = 0.9;
/// Below this load the core's cost per bit is not known well enough to refuse anybody.
const PROCESSOR_SHARE_KNOWN: f64 = 0.5;
/// What is left of a round when a start that waited for it is tried.
const STARTS_WITH: f64 = 0.9;

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
    /// Fragments beyond the first, per byte of what it reads from this disk.
    pub fragments_per_byte: f64,
    /// Bytes it will read at most (short contents need less memory); `u64::MAX` where unknown.
    pub length: u64,
    /// Start burst.
    pub burst_bytes: u64,
    /// A recording writes.
    pub writes: bool,
}

/// What is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// Disk time.
    Disk,
    /// Bits per second of the link.
    Network,
    /// Buffers.
    Memory,
    /// Busy time of the core.
    Processor,
    /// Places in the table.
    Table,
}

/// A refusal: what is short, and the highest rate that would be granted now (zero: none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// What is short.
    pub short: Short,
    /// What would be granted.
    pub grantable: BitRate,
}

/// Settings of admission.
#[derive(Debug, Clone)]
pub struct AdmissionSettings {
    /// Reservations at most.
    pub reservations_max: usize,
    /// Buffers, in quarters of a chunk.
    pub quarters: u64,
    /// Share of disk time best-effort work keeps, 0.0 … 0.9.
    pub be_share: f64,
    /// Disk time kept for streams that share another's reads and may need their own: a share of what all of them would
    /// take, 0.0 … 1.0.
    pub sharing_reserve: f64,
}

/// One disk, as admission sees it.
#[derive(Debug)]
struct AdmissionDisk {
    profile: DiskProfile,
    table: DiskTable,
    round: Nanos,
    slowdown: f64,
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
    quarters: u64,
    /// Pages beyond its own window, held for those that share its reads.
    held_pages: u64,
    /// Another stream of the content reads for it: it takes no disk time.
    shares: bool,
    /// How it started, and a round in which it reads regularly, once it has started.
    placed: Option<(Start, u64)>,
    /// Reservations made before it.
    before: u64,
    /// What it holds on a further disk, which goes with it.
    beside: Option<ReservationId>,
}

/// The table of reservations and what they hold.
#[derive(Debug)]
pub struct Admission {
    disks: Vec<AdmissionDisk>,
    links: Vec<AdmissionLink>,
    quarters_promised: u64,
    quarters: u64,
    /// As many as there ever were at once, in the room for all.
    entries: Vec<(u32, Option<Reservation>)>,
    free: Vec<u32>,
    reservations_max: usize,
    /// Reservations made so far.
    made: u64,
    /// Promised bits per second in all.
    promised: u64,
    processor_share: f64,
    /// What was promised when that was measured.
    processor_promised: u64,
    sharing_reserve: f64,
}

impl Admission {
    /// Nothing reserved. Links have the given capacities, in payload bits per second on the wire.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, disks: Vec<(DiskProfile, Nanos)>, links: &[BitRate]) -> Self {
        let budget = (1.0 - settings.be_share - MARGIN).max(0.01);
        let disks = disks
            .into_iter()
            .map(|(profile, round)| AdmissionDisk {
                profile,
                table: DiskTable::new(round, budget),
                round,
                slowdown: 1.0,
                sharing: 0,
            })
            .collect();
        Self {
            disks,
            links: links.iter().map(|&capacity| AdmissionLink { capacity, reserved: 0 }).collect(),
            quarters_promised: 0,
            quarters: settings.quarters,
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

    /// Admits or refuses.
    ///
    /// # Errors
    /// What is short, and what would be granted.
    pub fn reserve(&mut self, request: AdmissionRequest) -> Result<ReservationId, Refused> {
        if let Err(short) = self.check(&request) {
            return Err(Refused { short, grantable: self.grantable(&request) });
        }
        let demand = self.demand(&request);
        let quarters = self.quarters_for(&request, &demand);
        let id = self.enter(request, demand, quarters);
        let disk = self.disk_mut(request.disk);
        disk.table.promise(&demand);
        Ok(id)
    }

    /// Admits or refuses a stream that another one of its content reads for: it takes no disk time, and the pages it
    /// needs are charged to that one ([`Admission::hold_pages`]).
    ///
    /// # Errors
    /// What is short, and what would be granted to a stream that reads for itself.
    pub fn reserve_shared(&mut self, request: AdmissionRequest) -> Result<ReservationId, Refused> {
        if let Err(short) = self.check_sending(&request) {
            return Err(Refused { short, grantable: self.grantable(&request) });
        }
        let demand = self.demand(&request);
        let id = self.enter(request, demand, 0);
        self.find_mut(id).expect("just entered").shares = true;
        self.disk_mut(request.disk).sharing += 1;
        Ok(id)
    }

    /// Promises disk time on a further disk to what holds `id`: its content lies on several. `request` says what it reads
    /// from that one; it is to be placed by itself, and released with `id`.
    ///
    /// # Errors
    /// What is short.
    pub fn reserve_beside(&mut self, id: ReservationId, request: AdmissionRequest) -> Result<ReservationId, Short> {
        if !self.has_entry() {
            return Err(Short::Table);
        }
        self.check_reading(&request, self.sharing_reserve)?;
        let demand = self.demand(&request);
        let beside = self.enter(AdmissionRequest { rate: BitRate(0), ..request }, demand, 0);
        self.disk_mut(request.disk).table.promise(&demand);
        let first = self.find_mut(id).expect("it is held");
        let others = first.beside.replace(beside);
        self.find_mut(beside).expect("just entered").beside = others;
        Ok(beside)
    }

    /// True if it holds time on several disks.
    #[must_use]
    pub fn has_beside(&self, id: ReservationId) -> bool {
        self.find(id).is_some_and(|reservation| reservation.beside.is_some())
    }

    /// The share of its bytes for which it holds time on a disk.
    #[must_use]
    pub fn share_held(&self, id: ReservationId, disk: DiskId) -> f64 {
        let parts = std::iter::successors(self.find(id), |part| self.find(part.beside?));
        parts.filter(|part| part.request.disk == disk).map(|part| part.request.disk_share).sum()
    }

    fn has_entry(&self) -> bool {
        !self.free.is_empty() || self.entries.len() < self.reservations_max
    }

    fn enter(&mut self, request: AdmissionRequest, demand: DiskDemand, quarters: u64) -> ReservationId {
        let new = u32::try_from(self.entries.len()).expect("a table of at most 2^32 entries");
        let slot = self.free.pop().unwrap_or(new);
        if slot == new {
            assert!(self.entries.len() < self.reservations_max, "checked: the table has room");
            self.entries.push((0, None));
        }
        let entry = &mut self.entries[slot as usize];
        let before = self.made;
        let (held_pages, shares, placed, beside) = (0, false, None, None);
        entry.1 = Some(Reservation { request, demand, quarters, held_pages, shares, placed, before, beside });
        self.made += 1;
        self.links[usize::from(request.link.0)].reserved += request.rate.0;
        self.quarters_promised += quarters;
        self.promised += request.rate.0;
        ReservationId { slot, generation: entry.0 }
    }

    /// A reservation gives its disk time and buffers up: another stream of its content reads for it from now on.
    pub fn share(&mut self, id: ReservationId) {
        self.unplace(id);
        let Some(reservation) = self.find_mut(id).filter(|reservation| !reservation.shares) else { return };
        let freed = std::mem::take(&mut reservation.quarters) + std::mem::take(&mut reservation.held_pages);
        reservation.shares = true;
        let (demand, disk, beside) = (reservation.demand, reservation.request.disk, reservation.beside.take());
        beside.into_iter().for_each(|beside| self.release(beside));
        self.quarters_promised -= freed;
        let disk = self.disk_mut(disk);
        disk.table.withdraw(&demand);
        disk.sharing += 1;
    }

    /// A reservation that shared another's reads gets disk time and buffers of its own, for `request`; one that has them
    /// keeps them.
    ///
    /// # Errors
    /// What is short. Then it stays as it was.
    pub fn unshare(&mut self, id: ReservationId, request: &AdmissionRequest) -> Result<(), Short> {
        if self.find(id).is_none_or(|reservation| !reservation.shares) {
            return Ok(());
        }
        self.check_reading(request, 0.0)?;
        let demand = self.demand(request);
        let quarters = self.quarters_for(request, &demand);
        let reservation = self.find_mut(id).expect("found above");
        let rate = reservation.request.rate;
        (reservation.shares, reservation.demand, reservation.quarters) = (false, demand, quarters);
        reservation.request = AdmissionRequest { rate, ..*request };
        self.quarters_promised += quarters;
        let disk = self.disk_mut(request.disk);
        disk.sharing -= 1;
        disk.table.promise(&demand);
        Ok(())
    }

    /// The stream that shared the reads of `from` reads in its place, with its disk time, its rounds and its buffers, and
    /// `from` shares.
    pub fn hand_over(&mut self, from: ReservationId, to: ReservationId) {
        let (Some(giver), Some(taker)) = (self.find(from).copied(), self.find(to).copied()) else { return };
        assert!(!giver.shares && taker.shares, "one reads and the other shares");
        assert!(giver.request.disk == taker.request.disk, "they read the same content");
        let request = AdmissionRequest { rate: taker.request.rate, link: taker.request.link, ..giver.request };
        *self.find_mut(to).expect("found above") = Reservation { request, before: taker.before, ..giver };
        *self.find_mut(from).expect("found above") =
            Reservation { quarters: 0, held_pages: 0, shares: true, placed: None, beside: None, ..giver };
    }

    /// Charges a reservation with pages that it holds, beyond its own window, for those that share its reads; false if
    /// there are not so many, and it stays as it was.
    pub fn hold_pages(&mut self, id: ReservationId, pages: u64) -> bool {
        let (promised, most) = (self.quarters_promised, self.quarters);
        let Some(reservation) = self.find_mut(id) else { return false };
        let others = promised - reservation.held_pages;
        // Fewer are always possible: what was promised stays so when there is less memory than there was.
        if pages > reservation.held_pages && others + pages > most {
            return false;
        }
        reservation.held_pages = pages;
        self.quarters_promised = others + pages;
        true
    }

    /// Gives a reservation back; a stale identifier is ignored.
    pub fn release(&mut self, id: ReservationId) {
        let Some(reservation) = self.find(id).copied() else { return };
        self.unplace(id);
        let entry = &mut self.entries[id.slot as usize];
        entry.0 = entry.0.wrapping_add(1);
        entry.1 = None;
        self.free.push(id.slot);
        let disk = self.disk_mut(reservation.request.disk);
        if reservation.shares {
            disk.sharing -= 1;
        } else {
            disk.table.withdraw(&reservation.demand);
        }
        self.links[usize::from(reservation.request.link.0)].reserved -= reservation.request.rate.0;
        self.quarters_promised -= reservation.quarters + reservation.held_pages;
        self.promised -= reservation.request.rate.0;
        reservation.beside.into_iter().for_each(|beside| self.release(beside));
    }

    /// Whether a held reservation serves this request as well: same disk and link, no higher rate, no larger burst
    /// (which is buffers: simulator, seed 1563, ran out of them).
    #[must_use]
    pub fn covers(&self, id: ReservationId, request: &AdmissionRequest) -> bool {
        self.find(id).is_some_and(|held| {
            held.request.disk == request.disk
                && held.request.link == request.link
                && held.request.rate >= request.rate
                && (held.shares || self.covers_reading(held, request))
        })
    }

    fn covers_reading(&self, held: &Reservation, request: &AdmissionRequest) -> bool {
        held.request.burst_bytes >= request.burst_bytes
            && held.request.length >= request.length.min(self.window_bytes(&held.request, &held.demand))
            && held.demand.transfer >= self.demand(request).transfer * 0.95
    }

    /// Places a reservation's reads, beginning now; the first regular round. `None`: not yet, ask again next round.
    pub fn place(&mut self, id: ReservationId, moment: &Moment) -> Option<u64> {
        let Reservation { request, demand, placed, .. } = *self.find(id)?;
        assert!(placed.is_none(), "a reservation is placed once");
        let start = self.start_of(&request, moment);
        let disk = self.disk_mut(request.disk);
        let AdmissionDisk { table, profile, slowdown, .. } = disk;
        let first = table.place(&demand, &start, profile, *slowdown)?;
        self.find_mut(id).expect("found above").placed = Some((start, first));
        Some(first)
    }

    /// Takes a reservation's reads out of the table; it stays promised.
    pub fn unplace(&mut self, id: ReservationId) {
        let Some(reservation) = self.find_mut(id) else { return };
        let Some((start, first)) = reservation.placed.take() else { return };
        let (demand, disk) = (reservation.demand, reservation.request.disk);
        let table = &mut self.disk_mut(disk).table;
        table.remove(&demand, &start, first);
        table.promise(&demand);
    }

    /// For how long after the end of `round` a disk that has nothing to read may do something else, by its time table;
    /// `Nanos::MAX` if nothing is placed on it.
    #[must_use]
    pub fn slack(&self, disk: DiskId, round: u64) -> Nanos {
        let disk = &self.disks[usize::from(disk.0)];
        disk.table.slack(round, &disk.profile, disk.slowdown)
    }

    /// Whether others share the reads of this reservation, and how many reservations were made before it: greater is
    /// younger.
    #[must_use]
    pub fn company_and_age(&self, id: ReservationId) -> Option<(bool, u64)> {
        self.find(id).map(|reservation| (reservation.held_pages > 0, reservation.before))
    }

    /// Rounds between a reservation's blocks.
    #[must_use]
    pub fn period(&self, id: ReservationId) -> Option<u32> {
        self.find(id).map(|reservation| reservation.demand.period)
    }

    /// What the disk's cost model has learned.
    pub fn set_slowdown(&mut self, disk: DiskId, slowdown: f64) {
        self.disk_mut(disk).slowdown = slowdown.max(1.0);
    }

    /// The share of its time the data-plane core is busy, 0.0 … 1.0.
    pub fn set_processor_share(&mut self, share: f64) {
        (self.processor_share, self.processor_promised) = (share, self.promised);
    }

    /// Mean share of a disk's time that is promised.
    #[must_use]
    pub fn promised_share(&self, disk: DiskId) -> f64 {
        let disk = &self.disks[usize::from(disk.0)];
        disk.table.promised_share(&disk.profile, disk.slowdown)
    }

    /// Mean share of a disk's time that may still be promised.
    #[must_use]
    pub fn free_share(&self, disk: DiskId) -> f64 {
        (self.disks[usize::from(disk.0)].table.budget() - self.promised_share(disk)).max(0.0)
    }

    /// Promised bits per second in all.
    #[must_use]
    pub const fn promised(&self) -> BitRate {
        BitRate(self.promised)
    }

    /// Bits per second of a link not promised to anybody.
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

    /// What a link carries from now on. What was promised stays promised: a link that became narrower admits nothing until
    /// enough of it has ended. Unknown links are ignored.
    pub fn set_link(&mut self, link: LinkId, capacity: BitRate) {
        if let Some(link) = self.links.get_mut(usize::from(link.0)) {
            link.capacity = capacity;
        }
    }

    /// Buffers in quarters: promised, and in all.
    #[must_use]
    pub const fn memory(&self) -> (u64, u64) {
        (self.quarters_promised, self.quarters)
    }

    /// How many quarters there can be from now on. What was promised stays promised: with fewer nothing is admitted until
    /// enough of it has ended.
    pub fn set_quarters(&mut self, quarters: u64) {
        self.quarters = quarters;
    }

    /// What is short for this request, if anything.
    ///
    /// # Errors
    /// The resource.
    pub fn check(&self, request: &AdmissionRequest) -> Result<(), Short> {
        self.check_sending(request)?;
        self.check_reading(request, self.sharing_reserve)
    }

    /// What is short for reading, with this share of the disk time kept for those that share reads now.
    fn check_reading(&self, request: &AdmissionRequest, reserve: f64) -> Result<(), Short> {
        let demand = self.demand(request);
        let disk = &self.disks[usize::from(request.disk.0)];
        let kept = f64::from(disk.sharing) * reserve;
        let fits = disk.table.fits(&demand, 1.0 + kept, &disk.profile, disk.slowdown);
        if !fits || !(request.writes || self.starts(request, &demand)) {
            return Err(Short::Disk);
        }
        if self.quarters_promised + self.quarters_for(request, &demand) > self.quarters {
            return Err(Short::Memory);
        }
        Ok(())
    }

    /// What is short for sending.
    fn check_sending(&self, request: &AdmissionRequest) -> Result<(), Short> {
        if !self.has_entry() {
            return Err(Short::Table);
        }
        let link = &self.links[usize::from(request.link.0)];
        if wire(link.reserved + request.rate.0) > link.capacity.0 {
            return Err(Short::Network);
        }
        if self.processor_share > PROCESSOR_SHARE_KNOWN && self.processor_promised > 0 {
            // Per bit promised when it was measured: by what is promised now, a stream that left made every other one
            // dearer until the next look, and a yes into a no.
            let per_bit = self.processor_share / f64_of(self.processor_promised);
            let grown = per_bit * f64_of(self.promised + request.rate.0);
            if grown > PROCESSOR_SHARE_MAX {
                return Err(Short::Processor);
            }
        }
        Ok(())
    }

    /// Whether a stream of this demand, which fits in the long run, could also start: its first read fills the
    /// look-ahead, which no round may have room for.
    fn starts(&self, request: &AdmissionRequest, demand: &DiskDemand) -> bool {
        let disk = &self.disks[usize::from(request.disk.0)];
        let moment = Moment { remaining: STARTS_WITH, payload_bytes: request.length, ..Moment::idle(0) };
        let start = self.start_of(request, &moment);
        disk.table.starts(demand, &start, &disk.profile, disk.slowdown)
    }

    fn start_of(&self, request: &AdmissionRequest, moment: &Moment) -> Start {
        let zone = f64_of(request.zone_bytes_per_second.max(1));
        let length = self.disks[usize::from(request.disk.0)].round;
        let Moment { round, remaining, queued_seconds, payload_bytes } = *moment;
        Start {
            round,
            remaining,
            queued_seconds,
            transfer_per_round: f64_of(request.rate.bytes_in(length)) / zone,
            burst_transfer: f64_of(request.burst_bytes) / zone,
            payload_transfer: f64_of(payload_bytes) / zone,
        }
    }

    /// The highest rate below the request's that would be admitted now, to three digits. Each step halves the range, so a rate of
    /// 40 Gbit/s takes 36 checks: a refusal with its offer takes 0.04 to 0.1 ms of the plane's thread on a full disk (release build,
    /// two shared processors with a load of ten), a five hundredth of a tick at most.
    fn grantable(&self, request: &AdmissionRequest) -> BitRate {
        let (mut yes, mut no) = (0, request.rate.0);
        while three_digits(yes + (no - yes) / 2) > yes {
            // The very rate that is told is asked for: a lower one may be read in blocks of another length, and be refused.
            let rate = three_digits(yes + (no - yes) / 2);
            if self.check(&AdmissionRequest { rate: BitRate(rate), ..*request }).is_ok() {
                yes = rate;
            } else {
                no = rate;
            }
        }
        BitRate(yes)
    }

    /// The block a stream of this rate reads on this disk: the longest period at which as many such streams as the disk
    /// can carry still find memory. A seek costs as much as 1–2 MiB of transfer, so longer is better while it fits.
    fn demand(&self, request: &AdmissionRequest) -> DiskDemand {
        let disk = &self.disks[usize::from(request.disk.0)];
        let memory = self.quarters / u64::try_from(self.disks.len().max(1)).unwrap_or(1);
        let mut best = demand_at(request, disk, 1);
        let mut most = carried(request, disk, &best, memory);
        let mut period = 2;
        while period as usize <= SLOTS && !request.writes {
            let demand = demand_at(request, disk, period);
            let block = request.rate.bytes_in(disk.round.saturating_mul(u64::from(period)));
            let count = carried(request, disk, &demand, memory);
            // A gain below one in fifty is not worth the memory.
            if block > limits::BLOCK_BYTES_MAX || count < most * 1.02 {
                break;
            }
            (best, most) = (demand, count);
            period *= 2;
        }
        best
    }

    fn quarters_for(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        if request.writes {
            return 0; // a recording's buffers are the store's
        }
        let window = self.window_bytes(request, demand).min(request.length.saturating_add(QUARTER_BYTES));
        window.div_ceil(QUARTER_BYTES) + 1
    }

    fn window_bytes(&self, request: &AdmissionRequest, demand: &DiskDemand) -> u64 {
        let round = self.disks[usize::from(request.disk.0)].round;
        window_bytes(request.rate, round, demand.period) + request.burst_bytes
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

/// Bytes a stream may hold: its block, the look-ahead, and the round in which it is read.
#[must_use]
pub fn window_bytes(rate: BitRate, round: Nanos, period: u32) -> u64 {
    rate.bytes_in(round.saturating_mul(u64::from(period) + LOOKAHEAD_ROUNDS))
}

fn demand_at(request: &AdmissionRequest, disk: &AdmissionDisk, period: u32) -> DiskDemand {
    let block = request.rate.bytes_in(disk.round.saturating_mul(u64::from(period)));
    let zone = f64_of(request.zone_bytes_per_second.max(1));
    let mut transfer = request.disk_share * f64_of(block) / zone;
    let seeks = request.disk_share * (1.0 + request.fragments_per_byte * f64_of(block));
    if request.writes {
        // Written blocks are flushed: the drive's cache must not drain into somebody's deadline.
        transfer = transfer / disk.profile.write_ratio.max(0.05) + disk.profile.flush.as_secs_f64();
    }
    DiskDemand { period, transfer, seeks }
}

/// How many such streams a disk and this many quarters would carry.
fn carried(request: &AdmissionRequest, disk: &AdmissionDisk, demand: &DiskDemand, memory: u64) -> f64 {
    let hop = disk.profile.access_time(disk.profile.capacity.0 / 8).as_secs_f64();
    let parallel = if disk.profile.rotational { 1.0 } else { f64::from(disk.profile.queue_depth.max(1)) };
    let busy = (demand.transfer + demand.seeks * hop / parallel) / f64::from(demand.period);
    let by_disk = disk.round.as_secs_f64() / busy;
    let each = window_bytes(request.rate, disk.round, demand.period).div_ceil(QUARTER_BYTES) + 1;
    // Of what lies on several disks each has a share of the stream, and of its memory.
    by_disk.min((f64_of(memory) / (f64_of(each) * request.disk_share)).floor())
}

/// Rounded down to three digits; nothing below 1 kbit/s.
fn three_digits(rate: u64) -> u64 {
    let unit = 10u64.pow(rate.checked_ilog10().unwrap_or(0).saturating_sub(2));
    if rate < 1_000 { 0 } else { rate / unit * unit }
}

fn wire(payload: u64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
    let bits = (f64_of(payload) * WIRE_OVERHEAD) as u64;
    bits
}

#[allow(clippy::cast_precision_loss, reason = "costs are estimates")]
fn f64_of(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod grant_tests;

#[cfg(test)]
mod tests;
