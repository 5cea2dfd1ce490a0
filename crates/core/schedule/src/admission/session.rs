//! Reservations of sessions that read whole contents, each in one block.
//!
//! Promise: a session keeps its share of every round while its contents change, and that share follows their lengths and small reads
//! where it fits. Not here: when a block is due (`session_clock`), a change that the reservation does not cover (`exchange`). See
//! docs/decisions/0060.

use super::*;

impl Admission {
    /// A session's next content, which `demand` is for, is read with its reservation; false if there is no memory for it.
    pub(super) fn renew_spread(
        &mut self,
        id: ReservationId,
        requests: &[AdmissionRequest],
        demand: &DiskDemand,
    ) -> bool {
        let held = *self.find(id).expect("looked at before");
        let request = &requests[0];
        let pages = self.resources.disk(request.disk).pages_for(request, demand);
        if !self.reads_on(id, request.content, pages) {
            return false;
        }
        // A short part (an initialization segment, a key, a last piece) does not change the demand; nor does a lower rate, which
        // the player may leave again.
        let rounds = request.rounds_played(self.resources.table(held.request.disk).round());
        let changes = request.rate == held.request.rate && rounds >= 1.0;
        let mean = held.session.mean_small_reads();
        if changes {
            let blocks = |admission: &Self, part: &Reservation| {
                let request = requests.iter().find(|request| request.disk == part.request.disk)?;
                Some(admission.resources.demand(request))
            };
            self.replace_spread(id, mean.scaled(1.0 / rounds), blocks);
        }
        let reservation = self.find_mut(id).expect("looked at before");
        // The next block lies elsewhere than the one before it, and costs as much as it does there.
        let AdmissionRequest { disk, rate, .. } = held.request;
        reservation.request = AdmissionRequest { disk, rate, ..*request };
        if changes {
            reservation.session.begin_block(mean);
        }
        true
    }

    /// Promises a session, on all its disks, the demand of its `blocks` and of its small reads, `beside`, in a round, in place of
    /// its present share, if that fits.
    pub(super) fn replace_spread(
        &mut self,
        id: ReservationId,
        beside: RoundLoad,
        blocks: impl Fn(&Self, &Reservation) -> Option<DiskDemand>,
    ) {
        let replacement = |all: &Self, held: &Reservation| {
            let demand = blocks(all, held).filter(|_| !held.shares)?.with(beside);
            all.resources.table(held.request.disk).fits_instead(&demand, Some(&held.demand)).then_some(demand)
        };
        if !self.reservations.parts(id).all(|part| replacement(self, part).is_some()) {
            return;
        }
        let mut next = Some(id);
        while let Some(part) = next
            && let Some(held) = self.find(part).copied()
            && let Some(demand) = replacement(self, &held)
        {
            let table = &mut self.resources.disk_mut(held.request.disk).table;
            table.withdraw(&held.demand);
            table.promise(&demand);
            let reservation = self.find_mut(part).expect("found above");
            reservation.demand = demand;
            reservation.session.promise_small_reads(beside);
            next = held.further;
        }
    }

    /// Reserves buffers for a small read with the blocks of a session (sound, subtitles, an index), on the same disk: its disk time
    /// is of the session's share, by a clock of their own ([`Admission::small_read_deadline`]), and the share grows by the time of such
    /// reads where there is room; in a session that shares reads, where such reads are mostly shared as well, it is of the reserve.
    /// `None` if there is no such session, or no memory.
    pub fn accompany(&mut self, session: ReservationId, request: &AdmissionRequest) -> Option<ReservationId> {
        let held = self.find(session)?;
        let is_there = held.demand.is_spread() && (held.shares || self.share_held(session, request.disk) > 0.0);
        let pages = request.length.div_ceil(CACHE_PAGE_BYTES) + 1;
        if !is_there
            || !self.resources.buffers.fits(request.content, 0, pages)
            || self.reservations.check_room(1).is_err()
        {
            return None;
        }
        let nothing = DiskDemand { period: 1, transfer: 0.0, seeks: 0.0, kind: DemandKind::Spread };
        Some(self.enter(AdmissionRequest { rate: BitRate(0), ..*request }, nothing, pages))
    }
}
