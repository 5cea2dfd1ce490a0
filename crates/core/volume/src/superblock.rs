//! The superblock: the record that a disk has of itself and of its volume.
//!
//! Promise: four copies on each disk, of which the newest that at least two share counts. Two are made durable before the
//! other two are written, so that a crash in between leaves two equal ones, old or new.

use crate::areas::Areas;
use crate::bytes::{Decoder, Encode, open_block, seal_block};
use crate::error::SuperblockError;
use crate::{BLOCK_LEN, FORMAT_VERSION, FORMAT_VERSION_MIN, MEMBERS_MAX, MemberId, VolumeId, name_problem};

const MAGIC: &[u8; 8] = b"ISOCAVOL";
/// Bytes of the volume's name at most.
const NAME_MAX: usize = 64;
/// The table of disks begins here: where a partition table has its mark, there are zeros.
const TABLE_OFFSET: usize = 512;
/// A disk's state takes this number of bits; the generation with which it came is above them.
const STATE_BITS: u32 = 8;
/// No superblock that changes wrote has a generation as high; a change of it would go beyond its bits.
const GENERATIONS_MAX: u64 = 1 << 55;
/// The layouts of folders lie between the table of disks and the checksum.
const FOLDERS_OFFSET: usize = TABLE_OFFSET + 16 * MEMBERS_MAX;
const FOLDERS_END: usize = BLOCK_LEN - 4;

/// The layout of contents over the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A content on one disk while it has room; one copy.
    Span,
    /// The units of a content on the disks in turn; one copy.
    Stripe,
    /// As stripe, with a second copy on the next disk (chained declustering).
    Mirror,
}

impl Placement {
    /// The name in commands and programs: `span`, `stripe` or `mirror`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Stripe => "stripe",
            Self::Mirror => "mirror",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Span => 1,
            Self::Stripe => 2,
            Self::Mirror => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Span),
            2 => Some(Self::Stripe),
            3 => Some(Self::Mirror),
            _ => None,
        }
    }

    /// Copies of each unit.
    #[must_use]
    pub const fn copies(self) -> u64 {
        match self {
            Self::Span | Self::Stripe => 1,
            Self::Mirror => 2,
        }
    }
}

/// The part that a disk takes in the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// It holds the units that the catalogue places on it.
    Active,
    /// It failed: the bytes on it are old.
    Out,
    /// It stands in for a failed disk, and is being filled: it is written to, and not read yet.
    Filling,
    /// Its units moved to the others: the next disk gets its number.
    Left,
}

impl MemberState {
    /// The name in commands and programs: `active`, `out`, `filling` or `left`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Out => "out",
            Self::Filling => "filling",
            Self::Left => "left",
        }
    }

    /// True if the disk belongs to the volume as it is: contents are written to it.
    #[must_use]
    pub const fn takes_part(self) -> bool {
        matches!(self, Self::Active | Self::Filling)
    }

    const fn code(self) -> u64 {
        match self {
            Self::Active => 0,
            Self::Out => 1,
            Self::Filling => 2,
            Self::Left => 3,
        }
    }

    const fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Active),
            1 => Some(Self::Out),
            2 => Some(Self::Filling),
            3 => Some(Self::Left),
            _ => None,
        }
    }
}

/// A disk as the superblock lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberRecord {
    /// Bytes used.
    pub size: u64,
    /// The part it takes.
    pub state: MemberState,
    /// The generation of the superblock with which it came: a disk that knows only older ones had its number before. Zero if it was there
    /// from the beginning.
    pub since: u64,
}

/// A superblock: the same on all disks but for `member`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// The volume.
    pub volume: VolumeId,
    /// Grows with every change of the superblock.
    pub generation: u64,
    /// The volume's name, 1 to 64 bytes.
    pub name: String,
    /// The layout of contents over the disks.
    pub placement: Placement,
    /// Payload bytes of a unit.
    pub unit_bytes: u64,
    /// Bytes of each half of the journal area.
    pub journal_half: u64,
    /// The disk that this copy is on.
    pub member: MemberId,
    /// All disks, 1 to [`MEMBERS_MAX`].
    pub members: Vec<MemberRecord>,
    /// Folders below which contents are laid in another way.
    pub folders: Vec<(String, Placement)>,
}

impl Superblock {
    /// The areas of one of the disks.
    #[must_use]
    pub fn areas(&self, member: MemberId) -> Areas {
        let size = self.members.get(member.index()).map_or(0, |member| member.size);
        Areas { size, journal_half: self.journal_half, unit_bytes: self.unit_bytes }
    }

    /// Encodes it, one block.
    ///
    /// # Panics
    /// A value is out of its range, or the folders' layouts have no room: checked when a volume is made or changed.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.is_sound(), "no start would find this superblock whole");
        assert!(Self::has_room_for(&self.folders), "the folders' layouts would go over the checksum");
        let mut bytes = Vec::with_capacity(BLOCK_LEN);
        bytes.put(MAGIC);
        bytes.put_u32(FORMAT_VERSION);
        bytes.put_u8(self.placement.code());
        bytes.put_u8(self.member.0);
        bytes.put_u8(u8::try_from(self.members.len()).expect("at most MEMBERS_MAX"));
        bytes.put_u8(u8::try_from(self.unit_bytes.trailing_zeros()).expect("at most 63"));
        bytes.put(&self.volume);
        bytes.put_u64(self.generation);
        bytes.put_u64(self.journal_half);
        bytes.put_text(&self.name);
        debug_assert!(bytes.len() <= TABLE_OFFSET, "the name ends before the table of disks");
        bytes.resize(TABLE_OFFSET, 0);
        for member in &self.members {
            bytes.put_u64(member.size);
            bytes.put_u64(member.since << STATE_BITS | member.state.code());
        }
        bytes.resize(FOLDERS_OFFSET, 0);
        bytes.extend(encode_folders(&self.folders));
        seal_block(&mut bytes);
        bytes
    }

    /// True if the layouts of these folders fit into a superblock.
    #[must_use]
    pub fn has_room_for(folders: &[(String, Placement)]) -> bool {
        folders.len() <= usize::from(u8::MAX) && encode_folders(folders).len() <= FOLDERS_END - FOLDERS_OFFSET
    }

    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        let body = open_block(block)?;
        let mut head = Decoder::new(body);
        (head.array()? == *MAGIC).then_some(())?;
        (FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&head.u32()?).then_some(())?;
        let placement = Placement::from_code(head.u8()?)?;
        let (member, count, shift) = (MemberId(head.u8()?), usize::from(head.u8()?), head.u8()?);
        let volume = head.array()?;
        let (generation, journal_half) = (head.u64()?, head.u64()?);
        let name = head.text()?.to_owned();
        let unit_bytes = 1u64.checked_shl(u32::from(shift))?;
        let mut table = Decoder::new(&body[TABLE_OFFSET..]);
        let members = (0..count)
            .map(|_| {
                let size = table.u64()?;
                let state = table.u64()?;
                let code = state & ((1 << STATE_BITS) - 1);
                Some(MemberRecord { size, state: MemberState::from_code(code)?, since: state >> STATE_BITS })
            })
            .collect::<Option<Vec<_>>>()?;
        let folders = decode_folders(&body[FOLDERS_OFFSET..])?;
        let read = Self { volume, generation, name, placement, unit_bytes, journal_half, member, members, folders };
        (read.is_sound() && read.generation < GENERATIONS_MAX).then_some(read)
    }

    /// True if all values are in their ranges: a checksum proves that they were written, not that they make sense.
    fn is_sound(&self) -> bool {
        let known = 1..=MEMBERS_MAX;
        let fits = |member: &MemberRecord| {
            let areas = Areas::for_disk(member.size, self.journal_half, self.unit_bytes);
            areas.is_ok_and(|areas| areas.size == member.size)
        };
        known.contains(&self.members.len())
            && self.member.index() < self.members.len()
            && Areas::unit_bytes_allowed(self.unit_bytes)
            && self.journal_half.is_multiple_of(crate::BLOCK_BYTES)
            && Areas::JOURNAL_HALVES.contains(&self.journal_half)
            && self.generation < 1 << (64 - STATE_BITS)
            && self.members.iter().all(|member| member.size < 1 << 56 && fits(member))
            && (1..=NAME_MAX).contains(&self.name.len())
    }

    /// The valid one of the copies that could be read.
    ///
    /// # Errors
    /// None bears the mark, a newer program wrote them, or no two agree.
    pub fn choose(copies: &[Option<Vec<u8>>; 4]) -> Result<Self, SuperblockError> {
        let read: Vec<Self> = copies.iter().flatten().filter_map(|block| Self::decode(block)).collect();
        let agreed = |one: &&Self| read.iter().filter(|other| other == one).count() >= 2;
        if let Some(newest) = read.iter().filter(agreed).max_by_key(|one| one.generation) {
            return Ok(newest.clone());
        }
        let marks: Vec<u32> = copies.iter().flatten().filter_map(|block| mark_of(block)).collect();
        match marks.iter().max() {
            None => Err(SuperblockError::NotAVolume),
            Some(version) if *version > FORMAT_VERSION => Err(SuperblockError::NewerVersion(*version)),
            Some(_) => Err(SuperblockError::Damaged),
        }
    }
}

fn encode_folders(folders: &[(String, Placement)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u8(u8::try_from(folders.len()).expect("as many as have room"));
    for (folder, placement) in folders {
        bytes.put_u8(placement.code());
        bytes.put_text(folder);
    }
    bytes
}

fn decode_folders(bytes: &[u8]) -> Option<Vec<(String, Placement)>> {
    let mut from = Decoder::new(bytes);
    let count = from.u8()?;
    let mut folder = || {
        let placement = Placement::from_code(from.u8()?)?;
        Some((from.text().filter(|folder| name_problem(folder).is_none())?.to_owned(), placement))
    };
    (0..count).map(|_| folder()).collect()
}

/// The format's version if `block` begins with the mark of a volume, whether or not the rest is whole.
#[must_use]
pub fn mark_of(block: &[u8]) -> Option<u32> {
    let mut head = Decoder::new(block);
    (head.array()? == *MAGIC).then_some(())?;
    head.u32()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock(generation: u64) -> Superblock {
        let size = 64 << 20;
        let record = MemberRecord { size, state: MemberState::Active, since: 0 };
        let members = vec![record, MemberRecord { since: generation, ..record }];
        Superblock {
            volume: [7; 16],
            generation,
            name: "films".to_owned(),
            placement: Placement::Mirror,
            unit_bytes: 1 << 20,
            journal_half: 1 << 20,
            member: MemberId(1),
            members,
            folders: vec![("scratch/raw".to_owned(), Placement::Span)],
        }
    }

    #[test]
    fn a_written_superblock_is_read() {
        let written = superblock(3);
        let block = Some(written.encode());
        assert_eq!(Superblock::choose(&[block.clone(), block, None, None]), Ok(written));
        let long = |count: usize| vec![("x".repeat(1000), Placement::Stripe); count];
        assert!(Superblock::has_room_for(&long(3)) && !Superblock::has_room_for(&long(4)));
    }

    #[test]
    fn the_newest_that_two_copies_share_counts() {
        let (old, new) = (superblock(1), superblock(2));
        let mut torn = new.encode();
        torn[100] ^= 1;
        let copies = [Some(new.encode()), Some(torn.clone()), Some(old.encode()), Some(old.encode())];
        assert_eq!(Superblock::choose(&copies), Ok(old.clone()), "one new copy does not count");
        let copies = [Some(new.encode()), Some(new.encode()), Some(torn.clone()), Some(old.encode())];
        assert_eq!(Superblock::choose(&copies), Ok(new.clone()));
        let copies = [Some(new.encode()), Some(torn), None, Some(old.encode())];
        assert_eq!(Superblock::choose(&copies), Err(SuperblockError::Damaged));
        assert_eq!(Superblock::choose(&[None, Some(vec![0; 4096]), None, None]), Err(SuperblockError::NotAVolume));
    }

    #[test]
    fn a_newer_version_is_distinguished_from_damage() {
        let mut newer = superblock(1).encode();
        newer[8] = 9;
        assert_eq!(Superblock::choose(&[Some(newer), None, None, None]), Err(SuperblockError::NewerVersion(9)));
    }

    #[test]
    fn no_partition_table_is_seen_in_it() {
        assert_eq!(superblock(1).encode()[440..512], [0; 72]);
    }
}
