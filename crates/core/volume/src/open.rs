//! Opening: the disks that belong together, and the state in their journal.
//!
//! Promise: any bytes on the disks give a volume or an error, never a panic; opening twice gives the same, and opening writes
//! nothing.

use std::sync::Arc;

use crate::bytes::Decoder;
use crate::catalogue::Catalogue;
use crate::changes::PendingChanges;
use crate::disk::ReadDisk;
use crate::error::VolumeOpenError;
use crate::journal::{Area, JournalContents};
use crate::members::MemberTable;
use crate::record::Record;
use crate::recording::Recordings;
use crate::superblock::{MemberRecord, MemberState, mark_of};
use crate::{BLOCK_LEN, DiskWrite, FORMAT_VERSION, MemberId, Superblock, SuperblockError, Volume};

/// The disks given, identified as disks of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The newest superblock of them.
    pub superblock: Superblock,
    /// For each disk of the volume its number among the disks given, if it was given.
    pub disks: Vec<Option<usize>>,
    /// Not all of them know the newest superblock, for a crash came between, or have it in the newest version of the format.
    pub is_uneven: bool,
    /// Copies of the superblock of a disk that differ from the valid one there, for a crash came between, as that one.
    torn: Vec<DiskWrite>,
}

impl Identified {
    /// The disks of the volume that take part and were not given.
    #[must_use]
    pub fn missing(&self) -> Vec<MemberId> {
        let missing = |number: usize| {
            let gone = self.disks[number].is_none() && self.superblock.members[number].state.takes_part();
            if gone { u8::try_from(number).ok().map(MemberId) } else { None }
        };
        (0..self.disks.len()).filter_map(missing).collect()
    }

    /// Superblock writes that precede all others to the volume of these disks, each step durable before the next: a crash left the
    /// superblocks as they are, and another write would leave none that two copies share, or an old superblock. Of each disk first the
    /// copies that do not count.
    #[must_use]
    pub fn even_superblocks(&self, members: &MemberTable) -> Vec<Vec<DiskWrite>> {
        let newest = if self.is_uneven { members.superblock_writes().to_vec() } else { Vec::new() };
        let torn = (!self.torn.is_empty()).then(|| self.torn.clone());
        torn.into_iter().chain(newest).collect()
    }
}

/// Reads the superblocks of disks with these sizes in bytes: they must be disks of one volume, each named once, in any order.
///
/// # Errors
/// One of them is no disk of a volume, is damaged or truncated, or belongs to another volume; two are the same one, or each continued
/// without the other; one is out of date.
pub fn identify(sizes: &[u64], disks: &mut impl ReadDisk) -> Result<Identified, VolumeOpenError> {
    let mut found: Vec<Superblock> = Vec::new();
    let (mut torn, mut is_uneven) = (Vec::new(), false);
    for (disk, size) in sizes.iter().enumerate() {
        let (superblock, differ, is_old) = superblock_of(disk, *size, disks)?;
        torn.extend(differ);
        is_uneven |= is_old;
        if found.first().is_some_and(|first| first.volume != superblock.volume) {
            return Err(VolumeOpenError::OtherVolume { disk, name: superblock.name });
        }
        if let Some(first) = found.iter().position(|other| other.member == superblock.member) {
            return Err(VolumeOpenError::Doubled { first, second: disk, member: superblock.member.0 });
        }
        let needed = superblock.areas(superblock.member).size;
        if *size < needed {
            return Err(VolumeOpenError::Truncated { disk, size: *size, needed });
        }
        found.push(superblock);
    }
    if let Some((first, second)) = diverged(&found) {
        return Err(VolumeOpenError::Diverged { first, second });
    }
    let newest = found.iter().max_by_key(|superblock| superblock.generation).ok_or(VolumeOpenError::NoDisk)?.clone();
    let mut places = vec![None; newest.members.len()];
    for (disk, superblock) in found.iter().enumerate() {
        let member = superblock.member;
        let stale = newest.members.get(member.index()).is_none_or(|record| !record.state.takes_part());
        if stale {
            return Err(VolumeOpenError::Stale { disk, member: member.0 });
        }
        if superblock.generation < newest.members[member.index()].since {
            return Err(VolumeOpenError::Replaced { disk, member: member.0 });
        }
        places[member.index()] = Some(disk);
    }
    is_uneven |= found.iter().any(|superblock| superblock.generation < newest.generation);
    Ok(Identified { superblock: newest, disks: places, is_uneven, torn })
}

/// True if the disk of `found`, which is out of `own`, may be filled anew. A disk that continued alone, without a disk in `own`, may
/// have acknowledged changes that no other disk has; a disk of another volume, or with its former number, is not that disk.
#[must_use]
pub fn may_return(own: &Superblock, found: &Superblock) -> bool {
    let record = own.members.get(found.member.index());
    let is_of_volume = own.volume == found.volume;
    let left = record.is_some_and(|record| record.state == MemberState::Out && found.generation >= record.since);
    let continued_alone = own
        .members
        .iter()
        .zip(&found.members)
        .any(|(own, found)| own.state.takes_part() && *found == MemberRecord { state: MemberState::Out, ..*own });
    is_of_volume && left && !continued_alone
}

/// Two disks of which each has the other as out: both continued alone, and neither has all acknowledged changes. A record of a disk that
/// had the other's number before does not count.
fn diverged(found: &[Superblock]) -> Option<(usize, usize)> {
    let says_out = |one: &Superblock, other: &Superblock| {
        let record = one.members.get(other.member.index());
        record == Some(&MemberRecord { state: MemberState::Out, ..other.members[other.member.index()] })
    };
    let pairs = (0..found.len()).flat_map(|first| (first + 1..found.len()).map(move |second| (first, second)));
    pairs
        .into_iter()
        .find(|(first, second)| says_out(&found[*first], &found[*second]) && says_out(&found[*second], &found[*first]))
}

/// The superblock of a disk, the copies that differ from it, and whether one is of an older version of the format. A disk that lost its
/// first copies is read from its end, and the other way round; a disk that is larger than its used part has the last copies at the end of
/// that.
fn superblock_of(
    disk: usize,
    size: u64,
    disks: &mut impl ReadDisk,
) -> Result<(Superblock, Vec<DiskWrite>, bool), VolumeOpenError> {
    let mut at = |size: u64| {
        crate::Areas::superblock_positions(size).map(|position| {
            let mut block = vec![0; BLOCK_LEN];
            disks.read(disk, position, &mut block).is_ok().then_some(block)
        })
    };
    let mut copies = at(size);
    let told = copies.iter().flatten().find_map(|block| Superblock::decode(block));
    let used = told.map_or(size, |superblock| superblock.areas(superblock.member).size);
    if used < size {
        copies = at(used);
    }
    let superblock = match Superblock::choose(&copies) {
        Ok(superblock) => superblock,
        // On a disk that was cut its two first copies still agree, unless one of them is damaged.
        Err(SuperblockError::NotAVolume) if copies.iter().all(Option::is_none) => {
            return Err(VolumeOpenError::Superblock { disk, source: SuperblockError::Unreadable });
        }
        Err(source) => return Err(VolumeOpenError::Superblock { disk, source }),
    };
    let (member, bytes) = (superblock.member, superblock.encode());
    let differs = |copy: &Vec<u8>| Superblock::decode(copy).as_ref() != Some(&superblock);
    let is_old = copies.iter().flatten().filter_map(|block| mark_of(block)).any(|version| version < FORMAT_VERSION);
    let copies = crate::Areas::superblock_positions(used).into_iter().zip(copies);
    let torn = copies.filter(|(_, copy)| copy.as_ref().is_some_and(differs));
    let torn = torn.map(|(position, _)| DiskWrite { member, position, bytes: bytes.clone() }).collect();
    Ok((superblock, torn, is_old))
}

/// Opens the volume: reads the catalogue. Nothing is written; the first commit must be durable before a content is begun.
///
/// # Errors
/// No disk with a whole catalogue is there, but one may have it that is missing; or it is damaged in every copy.
pub fn open(identified: &Identified, disks: &mut impl ReadDisk) -> Result<Volume, VolumeOpenError> {
    let superblock = &identified.superblock;
    let active = |number: &usize| superblock.members[*number].state == MemberState::Active;
    let holders: Vec<usize> = (0..superblock.members.len()).filter(active).take(2).collect();
    let copies: Vec<usize> = holders.iter().filter_map(|number| identified.disks[*number]).collect();
    let missing = holders.iter().filter(|number| identified.disks[**number].is_none());
    let missing: Vec<u8> = missing.filter_map(|number| u8::try_from(*number).ok()).collect();
    if copies.is_empty() {
        return Err(VolumeOpenError::CatalogueMissing(missing));
    }
    let areas = superblock.areas(MemberId(0));
    let mut area = Area::new(disks, &copies, superblock.volume, areas.journal_start(), areas.journal_half);
    // A disk that is to hold the catalogue from now on may not have it yet.
    let found = area
        .scan()
        .map_err(|error| if missing.is_empty() { error } else { VolumeOpenError::CatalogueMissing(missing) })?;
    let (uneven, journal) = (found.uneven, found.journal.clone());
    let is_mostly_changes = bytes(&found.changes) > bytes(&found.checkpoint);
    let Replayed { catalogue, mut recordings, numbers } = replay(found)?;
    let members = MemberTable::new(superblock.clone(), identified.disks.iter().map(Option::is_some).collect());
    for member in members.ids().filter(|member| members.state(*member) != Some(MemberState::Active)) {
        recordings.leave_out(member);
    }
    let mut changes = PendingChanges::behind(journal, members.journal_members(), numbers);
    // A checkpoint is read several times as fast as as many changes: the next start is to find one. A disk that is being filled may have
    // an old journal.
    if uneven || is_mostly_changes || members.filling().next().is_some() {
        changes.renew_catalogue();
    }
    Volume::of(members, catalogue, recordings, changes).map_err(VolumeOpenError::CatalogueDamaged)
}

fn bytes(payloads: &[Vec<u8>]) -> usize {
    payloads.iter().map(Vec::len).sum()
}

/// The state that checkpoint and changes give.
struct Replayed {
    catalogue: Catalogue,
    recordings: Recordings,
    /// The first number that was never used.
    numbers: u64,
}

fn replay(found: JournalContents) -> Result<Replayed, VolumeOpenError> {
    let damaged = || VolumeOpenError::CatalogueDamaged("a record in it makes no sense");
    let (mut contents, mut recordings, mut numbers) = (Vec::new(), Recordings::default(), 1);
    for payload in found.checkpoint {
        let mut payload = Decoder::new(&payload);
        while !payload.is_empty() {
            match Record::decode(&mut payload).ok_or_else(damaged)? {
                Record::Put(name, content) => contents.push((name, Arc::new(content))),
                Record::NumbersFrom(number) => numbers = numbers.max(number),
                Record::Recorded(from, name, content) => {
                    recordings.replay(from, name, content).ok_or_else(damaged)?;
                }
                Record::Remove(_) | Record::Rename(..) | Record::GivenUp(_) => return Err(damaged()),
            }
        }
    }
    let mut catalogue = Catalogue::from_ordered(contents);
    for payload in found.changes {
        let mut payload = Decoder::new(&payload);
        while !payload.is_empty() {
            match Record::decode(&mut payload).ok_or_else(damaged)? {
                Record::Put(name, content) => {
                    recordings.remove(content.generation);
                    catalogue.insert(name, Arc::new(content));
                }
                Record::Recorded(from, name, content) => {
                    recordings.replay(from, name, content).ok_or_else(damaged)?;
                }
                Record::GivenUp(generation) => drop(recordings.remove(generation).ok_or_else(damaged)?),
                Record::Remove(name) => {
                    catalogue.remove(&name).ok_or_else(damaged)?;
                }
                Record::Rename(from, to) => {
                    let content = catalogue.remove(&from).ok_or_else(damaged)?;
                    catalogue.insert(to, content);
                }
                Record::NumbersFrom(number) => numbers = numbers.max(number),
            }
        }
    }
    let generations = catalogue.iter().map(|(_, content)| content.generation).chain(recordings.generations());
    let used = generations.max().unwrap_or(0);
    Ok(Replayed { catalogue, recordings, numbers: numbers.max(used.saturating_add(1)) })
}
