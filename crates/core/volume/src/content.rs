//! A content of a volume as the catalogue and the journal know it: its numbers, its length, and the units that its parts are in.

use std::collections::BTreeMap;

use crate::unit::CHECKED_BYTES;
use crate::{BLOCK_BYTES, MemberId, NAME_BYTES_MAX};

/// A unit of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitPlace {
    /// The disk.
    pub member: MemberId,
    /// The unit on it.
    pub unit: u32,
}

/// A part of a content: the bytes that one unit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredPart {
    /// Checksum of the unit's table of checksums.
    pub digest: u32,
    /// The copy that is read in normal times.
    pub first: UnitPlace,
    /// The second copy, on a mirror.
    pub second: Option<UnitPlace>,
}

impl StoredPart {
    /// Its copies, the one to read first.
    pub fn places(&self) -> impl Iterator<Item = UnitPlace> {
        [Some(self.first), self.second].into_iter().flatten()
    }
}

/// A content of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredContent {
    /// Its number; stays when it is replaced.
    pub content: u64,
    /// The number of this version.
    pub generation: u64,
    /// Bytes.
    pub length: u64,
    /// The time when it was written, in nanoseconds since 1970.
    pub modified: u64,
    /// Its parts in order: all units but the last are full.
    pub parts: Box<[StoredPart]>,
}

impl StoredContent {
    /// The number of runs of its first copies: units that follow each other on their disk are one.
    #[must_use]
    pub fn runs(&self) -> usize {
        let mut last = BTreeMap::new();
        let begins_one = |part: &&StoredPart| {
            let before = last.insert(part.first.member, part.first.unit);
            before.and_then(|unit| unit.checked_add(1)) != Some(part.first.unit)
        };
        self.parts.iter().filter(begins_one).count()
    }
}

/// The reason that a content cannot have this name; `None` if it can.
#[must_use]
pub fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Some("a name has 1 to 1024 bytes");
    }
    if name.bytes().any(|byte| byte == 0) {
        return Some("a name has no zero byte");
    }
    let bad = |part: &str| part.is_empty() || part == "." || part == "..";
    name.split('/').any(bad).then_some("the parts of a name are neither empty nor `.` or `..`")
}

/// The checksum of the rest, content and generation.
const NAMED_BYTES: u64 = 8 + 8 + 4;

/// Bytes that a content of this size takes in its units: its own, zeros up to a whole block, its tail.
#[must_use]
pub const fn stored_bytes(length: u64) -> u64 {
    if length == 0 {
        return 0;
    }
    length.next_multiple_of(BLOCK_BYTES) + 4 * length.div_ceil(CHECKED_BYTES as u64) + NAMED_BYTES
}

/// Parts of a content of `length` bytes, in a volume with units of `unit_bytes`: each takes a unit for each of its copies.
#[must_use]
pub const fn part_count(length: u64, unit_bytes: u64) -> u64 {
    stored_bytes(length).div_ceil(unit_bytes)
}
