//! The table of reservations: identifiers, entries, and their largest number.
//!
//! Promise: an identifier names one reservation for as long as that is held or suspended, and none afterwards; the table has its room from the
//! start. Not here: what a reservation holds of disks, links and buffers (`admission`).

use units::ReservationId;

use super::{Reservation, Resource};

/// The reservations.
#[derive(Debug)]
pub(super) struct ReservationTable {
    /// With their generations; as many as were ever held at once. A suspended one has no reservation.
    entries: Vec<(u32, Option<Reservation>)>,
    free: Vec<u32>,
    most: usize,
    /// Reservations made so far.
    made: u64,
}

impl ReservationTable {
    /// An empty table for this number of reservations.
    pub(super) fn new(most: usize) -> Self {
        Self { entries: Vec::with_capacity(most), free: Vec::with_capacity(most), most, made: 0 }
    }

    /// Whether there is room for this number of further reservations.
    pub(super) fn check_room(&self, count: usize) -> Result<(), Resource> {
        let left = self.free.len() + (self.most - self.entries.len());
        if count <= left { Ok(()) } else { Err(Resource::Table) }
    }

    /// An identifier without a reservation.
    pub(super) fn open(&mut self) -> ReservationId {
        let new = u32::try_from(self.entries.len()).expect("a table of at most 2^32 entries");
        let slot = self.free.pop().unwrap_or(new);
        if slot == new {
            assert!(self.entries.len() < self.most, "checked: the table has room");
            self.entries.push((0, None));
        }
        debug_assert!(self.entries[slot as usize].1.is_none(), "an entry is free when its reservation is released");
        ReservationId { slot, generation: self.entries[slot as usize].0 }
    }

    /// Makes a reservation under an identifier that has none.
    pub(super) fn fill(&mut self, id: ReservationId, reservation: Reservation) {
        assert!(self.is_suspended(id), "an identifier has one reservation at a time");
        self.entries[id.slot as usize].1 = Some(Reservation { before: self.made, ..reservation });
        self.made += 1;
    }

    /// Ends a reservation; its identifier stays.
    pub(super) fn suspend(&mut self, id: ReservationId) {
        if self.knows(id) {
            self.entries[id.slot as usize].1 = None;
        }
    }

    /// Ends an identifier; a stale one is ignored.
    pub(super) fn close(&mut self, id: ReservationId) {
        if self.knows(id) {
            let (generation, reservation) = &mut self.entries[id.slot as usize];
            assert!(reservation.is_none(), "all that it held was given back");
            debug_assert!(!self.free.contains(&id.slot), "two reservations would have one entry");
            *generation = generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    /// True if the identifier is of a reservation that is held, or suspended.
    pub(super) fn knows(&self, id: ReservationId) -> bool {
        self.entries.get(id.slot as usize).is_some_and(|(generation, _)| *generation == id.generation)
    }

    pub(super) fn is_suspended(&self, id: ReservationId) -> bool {
        self.knows(id) && self.find(id).is_none()
    }

    pub(super) fn find(&self, id: ReservationId) -> Option<&Reservation> {
        let (generation, entry) = self.entries.get(id.slot as usize)?;
        if *generation == id.generation { entry.as_ref() } else { None }
    }

    pub(super) fn find_mut(&mut self, id: ReservationId) -> Option<&mut Reservation> {
        let (generation, entry) = self.entries.get_mut(id.slot as usize)?;
        if *generation == id.generation { entry.as_mut() } else { None }
    }

    /// A reservation and its parts on further disks.
    pub(super) fn parts(&self, id: ReservationId) -> impl Iterator<Item = &Reservation> {
        std::iter::successors(self.find(id), |part| self.find(part.further?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.entries.iter().filter_map(|(_, entry)| entry.as_ref())
    }
}
