//! Resources that are promised: the time of the disks, sending, and buffers; whether a request fits, and the rate that would be granted in its
//! place.
//!
//! Not here: the reservations that hold them (`reservations`), the demand of a request (`demand`).

use super::*;

/// Lower rates are not offered, in bits per second. Chosen.
const OFFERED_MIN: u64 = 1_000;

/// The resources.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) disks: Vec<AdmissionDisk>,
    pub(super) sending: Sending,
    pub(super) buffers: BufferAccount,
    /// Disk time kept for streams that share another's reads: a share of what all of them would take.
    pub(super) sharing_reserve: f64,
}

impl Resources {
    /// The resource that is short for requests to the disks of one content, or else the demand of the first and the buffers
    /// that all need.
    pub(super) fn check(&self, requests: &[AdmissionRequest]) -> Result<(DiskDemand, u64), Resource> {
        self.check_at(requests, requests[0].rate)
    }

    /// The same, with the rate that would be granted.
    pub(super) fn check_alone(&self, requests: &[AdmissionRequest]) -> Result<(DiskDemand, u64), Refusal> {
        self.check(requests).map_err(|resource| self.refusal(resource, requests))
    }

    /// The same for a stream that shares another's reads.
    pub(super) fn check_sharing(&self, requests: &[AdmissionRequest]) -> Result<(DiskDemand, u64), Refusal> {
        let request = &requests[0];
        let sending = self.sending.check(request.link, request.rate);
        sending.map_err(|resource| self.refusal(resource, requests))?;
        let demand = self.demand(request);
        let pages = self.disk(request.disk).pages_of_sharer(request, &demand);
        if !self.buffers.fits(request.content, 0, pages) {
            return Err(self.refusal(Resource::Memory, requests));
        }
        if demand.is_spread() && !self.keeps_reserve(request, &demand) {
            return Err(self.refusal(Resource::Disk(request.disk), requests));
        }
        Ok((demand, pages))
    }

    /// The same at another rate.
    fn check_at(&self, requests: &[AdmissionRequest], rate: BitRate) -> Result<(DiskDemand, u64), Resource> {
        let at_rate = |request: &AdmissionRequest| AdmissionRequest { rate, ..*request };
        self.sending.check(requests[0].link, rate)?;
        self.check_reading(requests.iter().map(at_rate), self.sharing_reserve)
    }

    /// The same for reading alone, with this share of the disk time kept for those that share reads now.
    pub(super) fn check_reading(
        &self,
        mut requests: impl Iterator<Item = AdmissionRequest>,
        reserve: f64,
    ) -> Result<(DiskDemand, u64), Resource> {
        let first = requests.next().expect("a content lies somewhere");
        let demand = self.check_disk(&first, reserve)?;
        requests.try_for_each(|further| self.check_disk(&further, reserve).map(drop))?;
        Ok((demand, self.check_pages(&first, &demand, 0)?))
    }

    /// Pages of a reservation that holds `instead` pages of its content already.
    fn check_pages(&self, request: &AdmissionRequest, demand: &DiskDemand, instead: u64) -> Result<u64, Resource> {
        let pages = self.disk(request.disk).pages_for(request, demand);
        if self.buffers.fits(request.content, instead, pages) { Ok(pages) } else { Err(Resource::Memory) }
    }

    /// The same for a stream that shared another's reads, with `instead` pages of its own. A session of whole contents takes from the share
    /// of best-effort work too, and new ones find that time promised; beyond that a read would make blocks of others late.
    pub(super) fn check_reading_again(
        &self,
        requests: &[AdmissionRequest],
        instead: u64,
    ) -> Result<(DiskDemand, u64), Resource> {
        let demand = self.demand(&requests[0]);
        for request in requests {
            if !demand.is_spread() {
                self.check_disk(request, 0.0)?;
            } else if !self.table(request.disk).fits_instead(&self.demand(request), None) {
                return Err(Resource::Disk(request.disk));
            }
        }
        Ok((demand, self.check_pages(&requests[0], &demand, instead)?))
    }

    /// The same for one disk's time.
    pub(super) fn check_disk(&self, request: &AdmissionRequest, reserve: f64) -> Result<DiskDemand, Resource> {
        let demand = self.demand(request);
        let disk = self.disk(request.disk);
        let kept = f64::from(disk.sharing) * reserve;
        if !disk.table.fits(&demand, 1.0 + kept) || !(demand.writes() || disk.starts(request, &demand, 0)) {
            return Err(Resource::Disk(request.disk));
        }
        Ok(demand)
    }

    /// Whether one more session that shares reads leaves enough of the disk's time for all of those that do.
    pub(super) fn keeps_reserve(&self, request: &AdmissionRequest, demand: &DiskDemand) -> bool {
        let disk = self.disk(request.disk);
        disk.table.fits(demand, f64::from(disk.sharing + 1) * self.sharing_reserve)
    }

    pub(super) fn demand(&self, request: &AdmissionRequest) -> DiskDemand {
        let pages_of_disk = self.buffers.pages() / u64::try_from(self.disks.len().max(1)).unwrap_or(1);
        self.disk(request.disk).demand(request, pages_of_disk)
    }

    pub(super) fn disk(&self, disk: DiskId) -> &AdmissionDisk {
        &self.disks[usize::from(disk.0)]
    }

    pub(super) fn disk_mut(&mut self, disk: DiskId) -> &mut AdmissionDisk {
        &mut self.disks[usize::from(disk.0)]
    }

    pub(super) fn table(&self, disk: DiskId) -> &DiskTable {
        &self.disk(disk).table
    }

    /// Takes what a reservation without a place holds out of the sums.
    pub(super) fn withdraw(&mut self, held: &Reservation) {
        let Reservation { request, demand, .. } = held;
        let disk = self.disk_mut(request.disk);
        debug_assert!(!held.shares || disk.sharing > 0, "one that shares was counted");
        if held.shares {
            disk.sharing -= 1;
        } else {
            disk.table.withdraw(demand);
        }
        self.sending.withdraw(request.link, request.rate);
        self.buffers.withdraw(request.content, held.pages + held.held_pages);
    }

    /// Undoes [`Self::withdraw`].
    pub(super) fn restore(&mut self, held: &Reservation) {
        let Reservation { request, demand, .. } = held;
        let disk = self.disk_mut(request.disk);
        if held.shares {
            disk.sharing += 1;
        } else {
            disk.table.promise(demand);
        }
        self.sending.promise(request.link, request.rate);
        self.buffers.promise(request.content, held.pages + held.held_pages);
    }

    fn refusal(&self, resource: Resource, requests: &[AdmissionRequest]) -> Refusal {
        Refusal { resource, grantable: self.grantable(requests) }
    }

    /// The highest rate below the requests' that would be admitted now, to three digits. Each step halves the range, so a rate of
    /// 40 Gbit/s takes 36 checks: a refusal with its offer takes 0.04 to 0.1 ms of the plane's thread on a full disk (release build,
    /// two shared processors with a load of ten), a five hundredth of a tick at most; of a content on 16 full disks 2.4 ms (36 checks,
    /// while a build runs).
    fn grantable(&self, requests: &[AdmissionRequest]) -> BitRate {
        let (mut yes, mut no) = (0, requests[0].rate.0);
        while three_digits(yes + (no - yes) / 2) > yes {
            // Exactly the rate that will be offered is checked: a lower one may be read in blocks of another length,
            // and be refused.
            let rate = three_digits(yes + (no - yes) / 2);
            if self.check_at(requests, BitRate(rate)).is_ok() {
                yes = rate;
            } else {
                no = rate;
            }
        }
        debug_assert!(yes <= requests[0].rate.0, "no more is offered than was asked for");
        BitRate(yes)
    }
}

/// Rounded down to three digits.
fn three_digits(rate: u64) -> u64 {
    let unit = 10u64.pow(rate.checked_ilog10().unwrap_or(0).saturating_sub(2));
    if rate < OFFERED_MIN { 0 } else { rate / unit * unit }
}
