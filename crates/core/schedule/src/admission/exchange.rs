//! Exchange of a reservation: a session's next request needs other terms than those it holds.
//!
//! Promise: a session that is refused a better quality keeps what it holds. Not here: a request that the held reservation covers
//! ([`Admission::renew`]).

use super::*;

impl Admission {
    /// Makes a reservation that is held, or suspended, serve `requests` instead, as if it were given back first. A stream for which
    /// another one reads (`shares`) takes no disk time.
    ///
    /// # Errors
    /// The resource that is short, and the rate that would be granted. The reservation then stays as it was.
    pub fn exchange(&mut self, id: ReservationId, requests: &[AdmissionRequest], shares: bool) -> Result<(), Refusal> {
        self.unplace(id);
        self.each_part(id, Self::withdraw);
        let fits = if shares { self.check_sharing(requests) } else { self.check_alone(requests) };
        self.each_part(id, Self::restore);
        let (demand, pages) = fits?;
        self.suspend(id);
        self.fill(id.slot, requests[0], demand, pages);
        if shares {
            self.begin_sharing(id)
        } else {
            self.promise(id, requests)
        }
        Ok(())
    }

    /// True if the identifier is of a reservation that is held, or suspended.
    #[must_use]
    pub fn knows(&self, id: ReservationId) -> bool {
        self.entries.get(id.slot as usize).is_some_and(|(generation, _)| *generation == id.generation)
    }

    fn each_part(&mut self, id: ReservationId, mut act: impl FnMut(&mut Self, &Reservation)) {
        let mut next = Some(id);
        while let Some(part) = next.and_then(|part| self.find(part)).copied() {
            act(self, &part);
            next = part.further;
        }
    }

    /// Takes what a reservation without a place holds out of the sums.
    pub(super) fn withdraw(&mut self, held: &Reservation) {
        let Reservation { request, demand, .. } = held;
        let disk = self.disk_mut(request.disk);
        if held.shares {
            disk.sharing -= 1;
        } else {
            disk.table.withdraw(demand);
        }
        self.links[usize::from(request.link.0)].reserved -= request.rate.0;
        self.buffers.withdraw(request.content, held.pages + held.held_pages);
        self.promised -= request.rate.0;
    }

    /// Undoes [`Self::withdraw`].
    fn restore(&mut self, held: &Reservation) {
        let Reservation { request, demand, .. } = held;
        let disk = self.disk_mut(request.disk);
        if held.shares {
            disk.sharing += 1;
        } else {
            disk.table.promise(demand);
        }
        self.links[usize::from(request.link.0)].reserved += request.rate.0;
        self.buffers.promise(request.content, held.pages + held.held_pages);
        self.promised += request.rate.0;
    }
}
