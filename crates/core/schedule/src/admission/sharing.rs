//! Reservations of followers (streams that share the reads of another): they hold a rate, and no disk time.
//!
//! Promise: a follower that has to read for itself again gets its disk time from the reserve that admission keeps; a leader's
//! disk time, rounds and buffers pass to the stream that reads in its place. Not here: the choice of leaders and followers (the
//! data plane's groups). See docs/decisions/0020.

use super::*;

impl Admission {
    /// Admits or refuses a follower. It takes no disk time, and the pages it needs are charged to its leader
    /// ([`Admission::hold_pages`]), except those of a content that is one block.
    ///
    /// # Errors
    /// The resource that is short, and the rate that would be granted to a stream with its own reads.
    pub fn reserve_shared(&mut self, requests: &[AdmissionRequest]) -> Result<ReservationId, Refusal> {
        let (demand, pages) = self.check_for(requests, true)?;
        let id = self.enter(requests[0], demand, pages);
        self.begin_sharing(id);
        debug_assert!(self.sums_agree(), "{requests:?}");
        Ok(id)
    }

    /// Marks a reservation as a follower's, which takes no disk time.
    pub(super) fn begin_sharing(&mut self, id: ReservationId) {
        let reservation = self.find_mut(id).expect("just entered");
        reservation.shares = true;
        let disk = reservation.request.disk;
        self.resources.disk_mut(disk).sharing += 1;
    }

    /// Makes a reservation a follower's: gives back its disk time and buffers, since another stream of the content reads for it.
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
        debug_assert!(self.sums_agree(), "a follower keeps its rate, and its pages behind its leader");
    }

    /// Gives a follower's reservation disk time and buffers of its own, for `requests`; does nothing for another reservation.
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
        // It was counted as a follower at `shared.disk`; if that disk has failed since, `requests` name another one.
        self.resources.disk_mut(shared.disk).sharing -= 1;
        self.promise(id, requests);
        debug_assert!(self.sums_agree(), "{requests:?}");
        Ok(())
    }

    /// Exchanges leader `from` and follower `to`: `to` gets the disk time, rounds and buffers of `from`, and `from` becomes a
    /// follower. If `to` has disk time of its own already, it keeps that, and `from` gives back its own.
    pub fn hand_over(&mut self, from: ReservationId, to: ReservationId) {
        let (Some(giver), Some(taker)) = (self.find(from).copied(), self.find(to).copied()) else { return };
        if giver.shares || !taker.shares {
            return self.share(from);
        }
        self.resources.buffers.hand_over_burst(from, to);
        // The taker's pages are of the same content, and are held by the giver already.
        self.resources.buffers.withdraw(taker.request.content, taker.pages + taker.held_pages);
        // Each keeps its rate and link; the number of followers of each disk stays the same, so `from` takes the disk of `to`.
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
