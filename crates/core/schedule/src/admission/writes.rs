//! Rounds of recordings in the time tables of their disks.
//!
//! Promise: a recording's block is written in the same round on all its disks, each of which has room for it then, and is charged by the
//! zone in which it lies. Not here: the cost of a block (`resources`), which rounds of one disk have room (`disk_table`). See
//! docs/decisions/0057.

use super::*;

impl Admission {
    /// Places a recording's blocks on all its disks in rounds that begin at the same time, so that a block handed over for one is
    /// written on all: of those in which each disk has room for them the one in which the first disk has most. `None` if there is none.
    pub fn place_writes(&mut self, id: ReservationId, round: u64) -> Option<u64> {
        let Reservation { request, demand, .. } = *self.find(id)?;
        let disk = self.resources.disk(request.disk);
        let (length, start) = (disk.table.round(), disk.start_of(&request, 0, &StartConditions::idle(round)));
        let firsts = disk.table.emptiest_rounds(&demand, &start);
        firsts.into_iter().flatten().find(|first| {
            let is_placed = self.place_writes_at(id, length.saturating_mul(*first), length.saturating_mul(round));
            if !is_placed {
                self.unplace(id);
            }
            is_placed
        })
    }

    /// A recording is written in another zone of one of its disks from now on: it takes the time that its blocks need there, be it of best
    /// effort's share, and new requests find that time taken. Where its place on its other disks is not known, it is taken for the same: a
    /// stripe comes to its second disk when a unit of the first is full.
    pub fn move_writes(&mut self, id: ReservationId, disk: DiskId, position: u64) {
        self.follow_disk(id, disk);
        let mut next = Some(id);
        while let Some(part) = next {
            let Some(&held) = self.find(part) else { return };
            let Reservation { request, demand, further, stroke_seconds, .. } = held;
            let is_moved = demand.writes() && (request.disk == disk || held.written_at.is_none());
            if let Some((_, first)) = held.placed.filter(|_| is_moved) {
                let zone_bytes_per_second = self.resources.table(request.disk).profile().rate_at(position);
                debug_assert!(demand.transfer >= stroke_seconds, "the stroke is a part of the charge");
                let slower = f64_of(request.zone_bytes_per_second) / f64_of(zone_bytes_per_second);
                let moved = DiskDemand { transfer: (demand.transfer - stroke_seconds) * slower, ..demand };
                self.resources.disk_mut(request.disk).table.replace(&demand, &moved, first);
                let reservation = self.find_mut(part).expect("found above");
                (reservation.demand, reservation.request.zone_bytes_per_second) = (moved, zone_bytes_per_second);
                (reservation.written_at, reservation.stroke_seconds) = (Some(position), 0.0);
                self.follow_write_span(request.disk, &moved);
            }
            next = further;
        }
    }

    /// A recording of one disk is written to another one, since its own is full: its charge goes there, be it of best effort's share.
    fn follow_disk(&mut self, id: ReservationId, disk: DiskId) {
        let Some((held, moved, first)) = self.find(id).and_then(|held| moved(held, disk, self)) else { return };
        self.unplace(id);
        self.resources.disk_mut(held.request.disk).table.withdraw(&held.demand);
        self.resources.disk_mut(disk).table.enter(&moved.demand, first);
        *self.find_mut(id).expect("found above") = moved;
        self.follow_write_span(held.request.disk, &held.demand);
    }

    /// True if a recording of this disk has no place yet, and is charged for the worst.
    #[must_use]
    pub fn awaits_place(&self, disk: DiskId) -> bool {
        self.writes_on(disk).any(|entry| entry.written_at.is_none())
    }

    /// The reservations of recordings on a disk.
    fn writes_on(&self, disk: DiskId) -> impl Iterator<Item = &Reservation> {
        self.reservations.iter().filter(move |entry| entry.request.disk == disk && entry.demand.writes())
    }

    /// A recording came to a disk, moved or left: the writes there lie between the places of the recordings that have one; anywhere
    /// while none has a place, or while a recording without a place is charged no stroke.
    pub(super) fn follow_write_span(&mut self, disk: DiskId, demand: &DiskDemand) {
        if !demand.writes() {
            return;
        }
        let (mut first, mut last) = (u64::MAX, 0);
        for place in self.writes_on(disk).filter_map(|entry| entry.written_at) {
            (first, last) = (first.min(place), last.max(place.saturating_add(limits::RECORDING_PLACE_BYTES)));
        }
        let is_anywhere =
            last == 0 || self.writes_on(disk).any(|entry| entry.written_at.is_none() && entry.stroke_seconds == 0.0);
        debug_assert!(last == 0 || first < last, "recordings with a place lie somewhere");
        let span = if is_anywhere { u64::MAX } else { last - first };
        self.resources.disk_mut(disk).table.set_write_span(span);
    }

    fn place_writes_at(&mut self, id: ReservationId, first: Nanos, now: Nanos) -> bool {
        let mut next = Some(id);
        while let Some(part) = next {
            let Some(&Reservation { request, demand, further, .. }) = self.find(part) else { return false };
            let entry = self.resources.disk(request.disk);
            let round = entry.table.round().0;
            let start = entry.start_of(&request, 0, &StartConditions::idle(now.0 / round));
            let first = first.0.div_ceil(round);
            if !self.resources.disk_mut(request.disk).table.place_at(&demand, &start, first) {
                return false;
            }
            self.find_mut(part).expect("found above").placed = Some((start, first));
            next = further;
        }
        debug_assert!(self.reservations.parts(id).all(|part| part.placed.is_some()), "it is written on all its disks");
        true
    }
}

/// A recording's reservation on the one disk that it had, that on another one on which it continues, and its round there. None if it is on
/// that already.
fn moved(held: &Reservation, disk: DiskId, admission: &Admission) -> Option<(Reservation, Reservation, u64)> {
    let Reservation { request, demand, placed: Some((start, first)), further: None, .. } = *held else { return None };
    if !demand.writes() || request.disk == disk {
        return None;
    }
    let (from, to) = (admission.resources.table(request.disk), admission.resources.table(disk));
    let request = AdmissionRequest { disk, zone_bytes_per_second: to.profile().rate_at(u64::MAX), ..request };
    let demand = demand::demand_at(&request, to, demand.period);
    let first = from.round().saturating_mul(first).0.div_ceil(to.round().0);
    let (placed, stroke_seconds) = (Some((start, first)), to.stroke_seconds());
    Some((*held, Reservation { request, demand, placed, written_at: None, stroke_seconds, ..*held }, first))
}
