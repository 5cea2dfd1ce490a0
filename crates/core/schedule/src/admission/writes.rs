//! Rounds of recordings in the time tables of their disks.
//!
//! Promise: a recording's block is written in the same round on all its disks, each of which has room for it then. Not here: what a block
//! costs (`check`), which rounds of one disk have room (`disk_table`). See docs/decisions/0057.

use super::*;

impl Admission {
    /// Places a recording's blocks on all its disks in rounds that begin at the same time, so that what is handed over for one is
    /// written on all: of those in which each disk has room for them the one in which the first disk has most. `None` if there is none.
    pub fn place_writes(&mut self, id: ReservationId, round: u64) -> Option<u64> {
        let Reservation { request, demand, .. } = *self.find(id)?;
        let table = &self.disk(request.disk).table;
        let (length, start) = (table.round(), self.start_of(&request, 0, &StartConditions::idle(round)));
        let firsts = table.emptiest_rounds(&demand, &start);
        firsts.into_iter().flatten().find(|first| {
            let is_placed = self.place_writes_at(id, length.saturating_mul(*first), length.saturating_mul(round));
            if !is_placed {
                self.unplace(id);
            }
            is_placed
        })
    }

    fn place_writes_at(&mut self, id: ReservationId, first: Nanos, now: Nanos) -> bool {
        let mut next = Some(id);
        while let Some(part) = next {
            let Some(&Reservation { request, demand, further, .. }) = self.find(part) else { return false };
            let round = self.disk(request.disk).table.round().0;
            let start = self.start_of(&request, 0, &StartConditions::idle(now.0 / round));
            let first = first.0.div_ceil(round);
            if !self.disk_mut(request.disk).table.place_at(&demand, &start, first) {
                return false;
            }
            self.find_mut(part).expect("found above").placed = Some((start, first));
            next = further;
        }
        true
    }
}
