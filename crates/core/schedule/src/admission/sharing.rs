//! Reservations of streams that share another's reads: they keep their rate, and take no disk time.
//!
//! Promise: one that reads for itself again has its disk time from the reserve that admission keeps for that; a leader's time, rounds and
//! buffers go to the stream that reads in its place. Not here: which streams share (the data plane's groups). See docs/decisions/0020.

use super::*;

impl Admission {
    /// Admits or refuses a stream that another one of its content reads for: it takes no disk time, and the pages it
    /// needs are charged to that one ([`Admission::hold_pages`]), except those of a content that is one block.
    ///
    /// # Errors
    /// The resource that is short, and the rate that would be granted to a stream that reads for itself.
    pub fn reserve_shared(&mut self, requests: &[AdmissionRequest]) -> Result<ReservationId, Refusal> {
        let (demand, pages) = self.check_for(requests, true)?;
        let id = self.enter(requests[0], demand, pages);
        self.begin_sharing(id);
        debug_assert!(self.sums_agree(), "{requests:?}");
        Ok(id)
    }

    /// A reservation takes no disk time from now on: it shares the reads of another.
    pub(super) fn begin_sharing(&mut self, id: ReservationId) {
        let reservation = self.find_mut(id).expect("just entered");
        reservation.shares = true;
        let disk = reservation.request.disk;
        self.resources.disk_mut(disk).sharing += 1;
    }

    /// A reservation gives its disk time and buffers up: another stream of its content reads for it from now on.
    pub fn share(&mut self, id: ReservationId) {
        self.unplace(id);
        let Some(held) = self.find(id).copied().filter(|reservation| !reservation.shares) else { return };
        let kept = self.resources.disk(held.request.disk).pages_of_sharer(&held.request, &held.demand).min(held.pages);
        self.set_pages_of(id, kept, 0);
        self.resources.buffers.end_burst(id);
        self.begin_sharing(id);
        let reservation = self.find_mut(id).expect("found above");
        reservation.burst_bytes = 0;
        let (demand, disk, further) = (reservation.demand, reservation.request.disk, reservation.further.take());
        further.into_iter().for_each(|part| self.release(part));
        self.resources.disk_mut(disk).table.withdraw(&demand);
        debug_assert!(self.sums_agree(), "one that shares keeps its rate, and its pages behind its leader");
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
        self.reservations.check_room(requests.len() - 1)?;
        let (demand, pages) = self.resources.check_reading_again(requests, kept)?;
        let request = AdmissionRequest { rate: shared.rate, content: shared.content, ..requests[0] };
        self.set_pages_of(id, pages, 0);
        let reservation = self.find_mut(id).expect("found above");
        (reservation.shares, reservation.demand, reservation.request) = (false, demand, request);
        reservation.session.promise_small_reads(RoundLoad::default());
        // A disk may have failed meanwhile, so that it reads from another one than it was counted at.
        self.resources.disk_mut(shared.disk).sharing -= 1;
        self.promise(id, requests);
        debug_assert!(self.sums_agree(), "{requests:?}");
        Ok(())
    }

    /// The stream that shared the reads of `from` reads in its place, with its disk time, its rounds and its buffers, and
    /// `from` shares. If it has got disk time of its own meanwhile, it keeps that, and `from` gives its up.
    pub fn hand_over(&mut self, from: ReservationId, to: ReservationId) {
        let (Some(giver), Some(taker)) = (self.find(from).copied(), self.find(to).copied()) else { return };
        if giver.shares || !taker.shares {
            return self.share(from);
        }
        self.resources.buffers.hand_over_burst(from, to);
        // Pages of the taker are of the same content, and the giver had them for it.
        self.resources.buffers.withdraw(taker.request.content, taker.pages + taker.held_pages);
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
        debug_assert!(self.sums_agree(), "disk time and pages change hands, rates do not");
    }
}
