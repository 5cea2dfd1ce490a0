//! Disks in memory that lose, tear, reorder and misplace writes, and a machine that keeps a volume on them.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::cast_possible_truncation, clippy::cast_lossless, reason = "lengths of the test are small")]

pub(crate) mod thread;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use volume::{
    DiskWrite, Draft, MemberId, NewVolume, Placement, ReadDisk, ReadError, StoredContent, UnitPlace, Volume,
    VolumeError, VolumeOpenError,
};

pub(crate) const BLOCK: usize = 4096;
pub(crate) const UNIT: u64 = 64 << 10;

/// Chance with a seed.
pub(crate) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A disk with a volatile cache. Blocks that were never written are zero.
#[derive(Clone, Default)]
pub(crate) struct MemoryDisk {
    pub(crate) blocks: BTreeMap<u64, Arc<[u8]>>,
    /// Written and not flushed, in the order written.
    pending: Vec<(u64, Arc<[u8]>)>,
    pub(crate) size: u64,
}

impl MemoryDisk {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    pub(crate) fn write(&mut self, position: u64, bytes: &[u8]) {
        assert!(position.is_multiple_of(BLOCK as u64) && bytes.len().is_multiple_of(BLOCK));
        assert!(position + bytes.len() as u64 <= self.size, "a write beyond the end");
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            self.pending.push((position / BLOCK as u64 + number as u64, block.into()));
        }
    }

    pub(crate) fn flush(&mut self) {
        for (block, bytes) in self.pending.drain(..) {
            self.blocks.insert(block, bytes);
        }
    }

    /// The power goes: writes that were not flushed are there, whole or torn, or not, in any order.
    pub(crate) fn crash(&mut self, chance: &mut Chance) {
        let mut pending = std::mem::take(&mut self.pending);
        // Sometimes all or nothing: the ends of the range are where mistakes hide.
        let keep = chance.below(4);
        while !pending.is_empty() {
            let (block, bytes) = pending.swap_remove(chance.below(pending.len() as u64) as usize);
            if keep == 0 || (keep < 3 && chance.one_in(2)) {
                continue;
            }
            let bytes = if keep < 3 && chance.one_in(8) {
                let old = self.blocks.get(&block).map_or_else(|| vec![0; BLOCK], |old| old.to_vec());
                let cut = 512 * chance.below(9) as usize;
                [&bytes[..cut], &old[cut..]].concat().into()
            } else {
                bytes
            };
            self.blocks.insert(block, bytes);
        }
    }

    /// A FLUSH failed: some of the bytes written are gone, and the success of a later FLUSH does not bring them back.
    pub(crate) fn fail_flush(&mut self, chance: &mut Chance) {
        self.crash(chance);
    }

    pub(crate) fn read(&self, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        if position + buffer.len() as u64 > self.size {
            return Err(ReadError);
        }
        for (number, piece) in buffer.chunks_mut(BLOCK).enumerate() {
            let block = position / BLOCK as u64 + number as u64;
            let newest = self.pending.iter().rev().find(|(at, _)| *at == block).map(|(_, bytes)| bytes);
            match newest.or_else(|| self.blocks.get(&block)) {
                Some(bytes) => piece.copy_from_slice(&bytes[..piece.len()]),
                None => piece.fill(0),
            }
        }
        Ok(())
    }
}

/// Disks as the volume numbers them; a disk that is away gives errors.
#[derive(Clone)]
pub(crate) struct MemoryDisks(pub(crate) Vec<Option<MemoryDisk>>);

impl ReadDisk for MemoryDisks {
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.0.get(disk).and_then(Option::as_ref).ok_or(ReadError)?.read(position, buffer)
    }
}

impl MemoryDisks {
    pub(crate) fn write(&mut self, write: &DiskWrite) {
        self.0[write.member.index()].as_mut().expect("written disks are there").write(write.position, &write.bytes);
    }

    pub(crate) fn flush(&mut self, member: MemberId) {
        self.0[member.index()].as_mut().expect("flushed disks are there").flush();
    }

    /// Opens the volume, without the disks that were taken out of it.
    pub(crate) fn open(&mut self) -> Result<Volume, VolumeOpenError> {
        loop {
            let there: Vec<usize> = (0..self.0.len()).filter(|number| self.0[*number].is_some()).collect();
            let mut given = Self(there.iter().map(|number| self.0[*number].clone()).collect());
            let sizes: Vec<u64> = given.0.iter().flatten().map(|disk| disk.size).collect();
            match volume::identify(&sizes, &mut given) {
                Ok(identified) => {
                    let volume = volume::open(&identified, &mut given)?;
                    for step in identified.even_superblocks(volume.members()) {
                        step.iter().for_each(|write| self.write(write));
                        step.iter().for_each(|write| self.flush(write.member));
                    }
                    return Ok(volume);
                }
                Err(VolumeOpenError::Stale { disk, .. }) => self.0[there[disk]] = None,
                Err(error) => return Err(error),
            }
        }
    }
}

/// The work that opening a volume left to do.
pub(crate) struct Found {
    pub(crate) superblocks: Vec<Vec<DiskWrite>>,
    pub(crate) stale: Vec<MemberId>,
    pub(crate) missing: Vec<MemberId>,
}

/// Opens a volume as a server does: without disks that are out of date, or blank.
pub(crate) fn open_as_served(disks: &mut MemoryDisks) -> Result<(Volume, Found), VolumeOpenError> {
    let mut there: Vec<usize> = (0..disks.0.len()).filter(|number| disks.0[*number].is_some()).collect();
    let mut stale = Vec::new();
    loop {
        let mut given = MemoryDisks(there.iter().map(|number| disks.0[*number].clone()).collect());
        let sizes: Vec<u64> = given.0.iter().flatten().map(|disk| disk.size).collect();
        let identified = match volume::identify(&sizes, &mut given) {
            Ok(identified) => identified,
            Err(error) => {
                let out_of_date = match &error {
                    VolumeOpenError::Stale { disk, member } => Some((*disk, MemberId(*member))),
                    _ => None,
                };
                let Some(disk) = out_of_date.map(|(disk, _)| disk).or(error.unusable_disk()) else { return Err(error) };
                there.remove(disk);
                stale.extend(out_of_date.map(|(_, member)| member));
                continue;
            }
        };
        let volume = volume::open(&identified, &mut given)?;
        let superblocks = identified.even_superblocks(volume.members());
        return Ok((volume, Found { superblocks, stale, missing: identified.missing() }));
    }
}

pub(crate) fn new_volume(placement: Placement, sizes: Vec<u64>) -> NewVolume {
    NewVolume { volume: [9; 16], name: "test".to_owned(), placement, unit_bytes: UNIT, sizes }
}

/// The bytes of a content: different everywhere and for every seed.
pub(crate) fn payload(seed: u64, offset: u64, length: u64) -> Vec<u8> {
    let word = |number: u64| (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).to_le_bytes();
    assert!(offset.is_multiple_of(8));
    let mut bytes: Vec<u8> = (offset / 8..(offset + length).div_ceil(8)).flat_map(word).collect();
    bytes.truncate(length as usize);
    bytes
}

pub(crate) fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// Writes a content of this number of bytes, with its tail.
pub(crate) fn write_content(
    volume: &mut Volume,
    draft: &mut Draft,
    (seed, length, modified): (u64, u64, u64),
    mut write: impl FnMut(&DiskWrite),
) -> Result<(), VolumeError> {
    let mut add = |volume: &mut Volume, draft: &mut Draft, bytes: &mut dyn FnMut(u64) -> Vec<u8>| {
        let (headers, room) = volume.room(draft)?;
        headers.iter().for_each(&mut write);
        let bytes = bytes(room);
        let places = draft.add(volume.members(), &bytes);
        for (member, position) in places {
            write(&DiskWrite { member, position, bytes: padded(bytes.clone()) });
        }
        Ok(bytes.len())
    };
    let mut offset = 0;
    while offset < length {
        offset += add(volume, draft, &mut |room| payload(seed, offset, room.min(length - offset)))? as u64;
    }
    let tail = draft.tail();
    let mut done = 0;
    while done < tail.len() {
        done += add(volume, draft, &mut |room| tail[done..tail.len().min(done + room as usize)].to_vec())?;
    }
    draft.end(volume.members(), modified).iter().for_each(write);
    Ok(())
}

/// Reads a part from the first copy that is right; gives the damage of all copies if none is.
pub(crate) fn read_part(
    volume: &Volume,
    content: &StoredContent,
    part: u32,
    disks: &mut MemoryDisks,
) -> Result<Vec<u8>, Vec<volume::Damage>> {
    let mut damage = Vec::new();
    let places: Vec<UnitPlace> = content.parts[part as usize].places().collect();
    for place in places {
        let mut bytes = Vec::new();
        let outcome = volume.members().checksums(content, part, place, disks).and_then(|table| {
            let length = volume.members().part_bytes(content, part);
            volume.members().read_whole(place, length, &table, disks, |piece| bytes.extend_from_slice(piece))
        });
        match outcome {
            Ok(()) => return Ok(bytes),
            Err(found) => damage.push(found),
        }
    }
    Err(damage)
}

/// Reads a content and verifies it by its tail, as a server does.
pub(crate) fn read_content(volume: &Volume, content: &StoredContent, disks: &mut MemoryDisks) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in 0..content.parts.len() as u32 {
        bytes.extend(read_part(volume, content, part, disks).ok()?);
    }
    assert_eq!(bytes.len() as u64, volume::stored_bytes(content.length));
    if content.length > 0 {
        let (start, _) = content.tail();
        let table = content.checksums_in(&bytes[start as usize..]).expect("what the headers prove is the tail");
        bytes.truncate(content.length as usize);
        assert_eq!(table.verify(0, &bytes), Ok(()));
    }
    Some(bytes)
}
