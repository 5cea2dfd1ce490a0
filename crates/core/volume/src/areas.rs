//! Places of superblocks, journal and units on a disk: plain arithmetic.

use std::ops::Range;

use crate::{BLOCK_BYTES, CreateError};

/// Space at both ends of a disk for two copies of the superblock each.
const END_BYTES: u64 = 1 << 20;
/// Bytes from the first copy of the superblock to the second at each end.
const COPY_STEP: u64 = 64 << 10;
/// The smallest half of a journal: a few hundred commits between two checkpoints.
const JOURNAL_HALF_MIN: u64 = 1 << 20;
/// Journal space per unit of the volume: a content of one unit with a long name takes less in the catalogue.
const JOURNAL_BYTES_PER_UNIT: u64 = 256;
/// The units a disk must hold at least.
const UNITS_MIN: u64 = 4;

/// The areas of one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Areas {
    /// Bytes of the disk that are used, a multiple of [`BLOCK_BYTES`].
    pub size: u64,
    /// Bytes of each half of the journal area, a multiple of [`BLOCK_BYTES`].
    pub journal_half: u64,
    /// Payload bytes of a unit: a power of two from 64 KiB to 32 MiB.
    pub unit_bytes: u64,
}

impl Areas {
    /// True if units may have this size.
    #[must_use]
    pub const fn unit_bytes_allowed(unit_bytes: u64) -> bool {
        unit_bytes.is_power_of_two() && unit_bytes >= 64 << 10 && unit_bytes <= 32 << 20
    }

    /// Lengths of a half of the journal that a superblock may state.
    pub const JOURNAL_HALVES: Range<u64> = 1 << 16..1 << 40;

    /// The journal's half for disks of these sizes (bytes): room for the catalogue of all their units.
    #[must_use]
    pub fn journal_half_for(sizes: &[u64], unit_bytes: u64) -> u64 {
        let units: u64 = sizes.iter().map(|size| size / unit_bytes).sum();
        (units * JOURNAL_BYTES_PER_UNIT).max(JOURNAL_HALF_MIN).next_multiple_of(END_BYTES)
    }

    /// The areas of a new disk of `size` bytes.
    ///
    /// # Errors
    /// It is too small for the journal and four units.
    pub fn for_disk(size: u64, journal_half: u64, unit_bytes: u64) -> Result<Self, CreateError> {
        debug_assert!(Self::unit_bytes_allowed(unit_bytes), "units of a size that no volume has");
        let areas = Self { size: size - size % BLOCK_BYTES, journal_half, unit_bytes };
        if u64::from(areas.units()) < UNITS_MIN {
            let needed = areas.units_start() + UNITS_MIN * areas.slot_bytes() + END_BYTES;
            return Err(CreateError::TooSmall { size, needed });
        }
        debug_assert!(
            areas.units_start() >= areas.journal_start() + 2 * journal_half,
            "the first unit lies behind the journal"
        );
        debug_assert!(
            areas.units_start() + u64::from(areas.units()) * areas.slot_bytes() + END_BYTES <= areas.size,
            "the last unit ends before the superblocks at the disk's end"
        );
        Ok(areas)
    }

    /// Positions of the four copies of the superblock on a disk of `size` bytes, which need not be a whole block.
    #[must_use]
    pub const fn superblock_positions(size: u64) -> [u64; 4] {
        let tail = (size - size % BLOCK_BYTES).saturating_sub(END_BYTES);
        [0, COPY_STEP, tail, tail + COPY_STEP]
    }

    /// First byte of the journal area, which has two halves.
    #[must_use]
    pub const fn journal_start(&self) -> u64 {
        END_BYTES
    }

    /// First byte of the units.
    #[must_use]
    pub const fn units_start(&self) -> u64 {
        (END_BYTES + 2 * self.journal_half).next_multiple_of(END_BYTES)
    }

    /// Bytes from one unit to the next: payload, and the header behind it.
    #[must_use]
    pub const fn slot_bytes(&self) -> u64 {
        self.unit_bytes + BLOCK_BYTES
    }

    /// The number of units of the disk.
    #[must_use]
    pub fn units(&self) -> u32 {
        let room = self.size.saturating_sub(END_BYTES).saturating_sub(self.units_start());
        u32::try_from(room / self.slot_bytes()).unwrap_or(u32::MAX)
    }

    /// Position of a unit's payload.
    #[must_use]
    pub fn payload(&self, unit: u32) -> u64 {
        debug_assert!(unit < self.units(), "a unit of this disk");
        self.units_start() + u64::from(unit) * self.slot_bytes()
    }

    /// Position of a unit's header: it is written last, and so lies behind the payload.
    #[must_use]
    pub fn header(&self, unit: u32) -> u64 {
        self.payload(unit) + self.unit_bytes
    }
}
