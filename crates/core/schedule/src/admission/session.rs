//! Reservations of sessions that read whole contents, each in one block.
//!
//! Promise: a session keeps a share of every round while its contents change; the share is adapted to their lengths and small
//! reads if that fits. Not here: the deadline of a block (`session_clock`), a change that the reservation does not cover
//! (`exchange`). See docs/decisions/0060.

use super::*;

impl Admission {
    /// Uses a session's reservation for its next content, whose demand is `demand`; false if there is no memory for it.
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
        // A short content (an initialization segment, a key, a last segment) does not change the demand; nor does a lower rate,
        // since the player may return to the higher one.
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
        // The next block is charged by its own zone.
        let AdmissionRequest { disk, rate, .. } = held.request;
        reservation.request = AdmissionRequest { disk, rate, ..*request };
        if changes {
            reservation.session.begin_block(mean);
        }
        true
    }

    /// Replaces a session's share on all its disks by the demand of its `blocks` and of its small reads in a round (`beside`),
    /// if that fits.
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

    /// Reserves buffers for a small read beside the blocks of a session (sound, subtitles, an index), on the same disk. Its
    /// disk time comes from the session's share, which grows by the time of such reads if there is room; small reads have a
    /// clock of their own ([`Admission::small_read_deadline`]). In a session that shares reads, the disk time comes from the
    /// reserve, since most small reads are shared too. `None` if there is no such session, or no memory.
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
