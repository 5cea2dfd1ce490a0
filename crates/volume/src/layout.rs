//! Where a range of a content lies, and the units that are taken for its parts (on which disks: `choice`).

use std::ops::Range;

use crate::choice::{ChosenDisks, Half, HeldUnits};
use crate::content::{StoredContent, UnitPlace};
use crate::{MemberId, Placement, Volume};

/// A piece of a content within one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitPiece {
    /// Where it begins in the content.
    pub offset: u64,
    /// How many bytes; never zero.
    pub length: u64,
    /// Which part of the content.
    pub part: u32,
    /// Where it lies, the copy to read first before the others; empty if no disk that has it can be read.
    pub copies: Vec<PieceCopy>,
}

/// One copy of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceCopy {
    /// The unit it is in.
    pub place: UnitPlace,
    /// Bytes from the start of the disk.
    pub position: u64,
}

impl Volume {
    /// Where `range` of `content` lies, in order. What is beyond the content's end is left out.
    #[must_use]
    pub fn pieces(&self, content: &StoredContent, range: Range<u64>) -> Vec<UnitPiece> {
        let unit_bytes = self.unit_bytes();
        let end = range.end.min(content.length);
        let mut pieces = Vec::new();
        let mut offset = range.start;
        while offset < end {
            let (number, within) = (offset / unit_bytes, offset % unit_bytes);
            let length = (unit_bytes - within).min(end - offset);
            let part = usize::try_from(number).ok().and_then(|number| content.parts.get(number));
            let Some(part) = part else { break };
            let copies = part.places().filter(|place| self.is_readable(place.member));
            let copy =
                |place: UnitPlace| PieceCopy { place, position: self.areas(place.member).payload(place.unit) + within };
            let copies = copies.map(copy).collect();
            pieces.push(UnitPiece { offset, length, part: u32::try_from(number).unwrap_or(u32::MAX), copies });
            offset += length;
        }
        pieces
    }

    /// Takes the units for a part from the disks chosen; `parts` are expected in this layout, with this one.
    pub(crate) fn take_units(
        &mut self,
        placement: Placement,
        chosen: ChosenDisks,
        parts: u64,
        held: &mut HeldUnits,
    ) -> Option<(UnitPlace, Option<UnitPlace>)> {
        let disks = match placement {
            Placement::Span => 1,
            Placement::Stripe | Placement::Mirror => self.free_counts().iter().flatten().count(),
        };
        let wanted = u32::try_from(parts.div_ceil(u64::try_from(disks).ok()?)).unwrap_or(u32::MAX);
        let halves = if chosen.second.is_some() { [Half::Outer, Half::Inner] } else { [Half::Any; 2] };
        let first = self.take_unit(chosen.first, halves[0], wanted, held)?;
        let second = match chosen.second {
            Some(disk) => Some(self.take_unit(disk, halves[1], wanted, held)?),
            None => None,
        };
        Some((first, second))
    }

    /// Takes a unit in that half of a disk while it has one, else elsewhere on it: the next of what is held there, or of a new stretch
    /// of `wanted` units.
    pub(crate) fn take_unit(
        &mut self,
        disk: usize,
        half: Half,
        wanted: u32,
        held: &mut HeldUnits,
    ) -> Option<UnitPlace> {
        let (free, held) = (&mut self.free[disk], held.of(disk, half));
        let mut taken = held.find(|unit| free.claim(*unit));
        for range in [half.range(free.units()), 0..free.units()] {
            if taken.is_none() {
                *held = free.hold(range.clone(), wanted, Some(held.end).filter(|end| *end > 0));
                taken = held.next().or_else(|| free.first_free(range)).filter(|unit| free.claim(*unit));
            }
        }
        Some(UnitPlace { member: MemberId(u8::try_from(disk).ok()?), unit: taken? })
    }

    /// What is left of stretches is for others.
    pub(crate) fn let_go(&mut self, held: HeldUnits) {
        held.0.into_iter().for_each(|held| self.free[held.disk].let_go(held.units));
    }
}
