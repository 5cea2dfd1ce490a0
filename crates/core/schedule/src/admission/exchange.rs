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
        self.each_part(id, Resources::withdraw);
        let fits = self.check_for(requests, shares);
        self.each_part(id, Resources::restore);
        debug_assert!(self.sums_agree(), "all that was taken out for the question is back");
        let (demand, pages) = fits?;
        self.suspend(id);
        self.fill(id, requests[0], demand, pages);
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
        self.reservations.knows(id)
    }

    fn each_part(&mut self, id: ReservationId, act: fn(&mut Resources, &Reservation)) {
        self.reservations.parts(id).for_each(|part| act(&mut self.resources, part));
    }
}
