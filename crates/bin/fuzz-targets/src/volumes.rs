//! A small volume on disks in memory, and edits of its blocks.

#[path = "../../../core/volume/tests/common/mod.rs"]
mod common;

use std::sync::{Arc, LazyLock};

use common::{MemoryDisk, UNIT, new_volume, payload, read_content, write_content};
use volume::{Depth, DiskWrite, MemberId, Placement, ReadDisk, ReadError, Volume};

use self::common::MemoryDisks;

const DISK: u64 = 6 << 20;
const BLOCK: usize = 4096;
/// Disks of a larger claimed size are not opened: their free units would be counted in memory.
const LARGEST: u64 = 64 << 20;
/// Names of contents, with seed and length. The first one replaces another, as long as the last.
const CONTENTS: [(&str, u64, u64); 4] =
    [("a", 11, 2 * UNIT + 5_000), ("b/c", 22, 8_000), ("b/d", 33, UNIT), ("e", 44, 1)];
const REPLACED: (&str, u64, u64) = ("a", 55, 1);

static SPAN: LazyLock<MemoryDisks> = LazyLock::new(|| sample(Placement::Span, 1));
static MIRROR: LazyLock<MemoryDisks> = LazyLock::new(|| sample(Placement::Mirror, 2));

fn sample(placement: Placement, count: usize) -> MemoryDisks {
    let mut volume = Volume::create(new_volume(placement, vec![DISK; count])).expect("sizes are fine");
    let mut disks = MemoryDisks(vec![Some(MemoryDisk::new(DISK)); count]);
    let commit = |volume: &mut Volume, disks: &mut MemoryDisks| {
        volume.commit().into_iter().flat_map(|commit| commit.writes).for_each(|write| disks.write(&write));
        disks.0.iter_mut().flatten().for_each(MemoryDisk::flush);
        volume.committed(Ok(()));
    };
    commit(&mut volume, &mut disks);
    volume.members().superblock_writes().concat().iter().for_each(|write| disks.write(write));
    for (name, seed, length) in [REPLACED].into_iter().chain(CONTENTS).chain([("gone", 66, 100)]) {
        let mut draft = volume.begin(name, Some(length)).expect("there is room");
        write_content(&mut volume, &mut draft, (seed, length, 1), |write| disks.write(write)).expect("it was promised");
        volume.publish(draft, 1).expect("nothing came between");
        commit(&mut volume, &mut disks);
    }
    volume.remove("gone").expect("it is there");
    commit(&mut volume, &mut disks);
    disks
}

/// The way in which a byte is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// A change as a disk would damage it.
    Damage,
    /// A change with a checksum that agrees.
    Forge,
}

/// Edits the blocks of a volume as `data` says, 8 bytes for each edit.
fn edited(data: &[u8], edit: Edit) -> MemoryDisks {
    let [first, data @ ..] = data else { return SPAN.clone() };
    let mut disks = if first & 1 == 0 { SPAN.clone() } else { MIRROR.clone() };
    for words in data.chunks_exact(8).take(64) {
        let count = disks.0.len();
        let disk = disks.0[usize::from(words[1]) % count].as_mut().expect("all are there");
        let pick = |low: u8, high: u8| usize::from(u16::from_le_bytes([low, high])) % disk.blocks.len();
        let at = |number: usize| *disk.blocks.keys().nth(number).expect("one of them");
        let block = at(pick(words[2], words[3]));
        let mut bytes = disk.blocks[&block].to_vec();
        bytes[usize::from(u16::from_le_bytes([words[4], words[5]])) % BLOCK] ^= words[6];
        match (words[0] % 4, edit) {
            (0, Edit::Damage) => bytes.fill(0),
            // It went elsewhere: over another block of the volume.
            (1, Edit::Damage) => bytes = disk.blocks[&at(pick(words[4], words[5]))].to_vec(),
            (_, Edit::Damage) | (0, Edit::Forge) => {}
            (_, Edit::Forge) => seal(&mut bytes),
        }
        disk.blocks.insert(block, bytes.into());
    }
    disks
}

/// Makes a block's checksum right. Payload of the journal beyond the block is left out.
fn seal(block: &mut [u8]) {
    if block.starts_with(b"ISOCAJNL") {
        let length = u32::from_le_bytes(block[56..60].try_into().expect("4 bytes"));
        let end = usize::try_from(length).map_or(BLOCK, |length| BLOCK.min(68 + length.min(BLOCK)));
        let sum = crc32c::crc32c(&block[68..end]).to_le_bytes();
        block[60..64].copy_from_slice(&sum);
        let sum = crc32c::crc32c(&block[..64]).to_le_bytes();
        block[64..68].copy_from_slice(&sum);
    } else {
        let sum = crc32c::crc32c(&block[..BLOCK - 4]).to_le_bytes();
        block[BLOCK - 4..].copy_from_slice(&sum);
    }
}

/// With any damage to its blocks, a volume gives an error, or contents with bytes that are right or reported as wrong.
pub fn damaged(data: &[u8]) {
    let mut disks = edited(data, Edit::Damage);
    let sizes = vec![DISK; disks.0.len()];
    if let Ok(volume) = disks.open() {
        assert!(volume.unbalanced().is_empty());
        check_contents(&volume, &mut disks);
    }
    if let Ok(identified) = volume::identify(&sizes, &mut disks) {
        let rebuilt = volume::rebuild(&identified, &mut disks, |_, _| {});
        assert!(rebuilt.volume.unbalanced().is_empty());
        check_contents(&rebuilt.volume, &mut disks);
    }
}

fn check_contents(volume: &Volume, disks: &mut MemoryDisks) {
    for (name, content) in volume.contents() {
        let Some(bytes) = read_content(volume, content, disks) else { continue };
        let is = |known: &(&str, u64, u64)| known.0 == name && bytes == payload(known.1, 0, known.2);
        let gone = [REPLACED, ("gone", 66, 100)];
        assert!(CONTENTS.iter().chain(&gone).any(is), "wrong bytes of `{name}`");
    }
}

/// The disks that were given, by their numbers in the volume.
struct Placed<'a> {
    disks: &'a mut MemoryDisks,
    places: Vec<Option<usize>>,
}

impl ReadDisk for Placed<'_> {
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let place = self.places.get(disk).copied().flatten().ok_or(ReadError)?;
        self.disks.read(place, position, buffer)
    }
}

impl Placed<'_> {
    fn write(&mut self, write: &DiskWrite) {
        let place = self.places[write.member.index()].expect("only disks that are there are written to");
        let disk = self.disks.0[place].as_mut().expect("all are there");
        disk.write(write.position, &write.bytes);
    }
}

/// With any forged blocks, the checksums of which agree, a volume gives an error or can be read and written to.
pub fn forged(data: &[u8]) {
    let mut disks = edited(data, Edit::Forge);
    let sizes = vec![DISK; disks.0.len()];
    let Ok(identified) = volume::identify(&sizes, &mut disks) else { return };
    if identified.superblock.members.iter().any(|member| member.size > LARGEST) {
        return;
    }
    let rebuilt = volume::rebuild(&identified, &mut disks, |_, _| {});
    let opened = volume::open(&identified, &mut disks);
    let mut placed = Placed { disks: &mut disks, places: identified.disks.clone() };
    for mut volume in opened.into_iter().chain([rebuilt.volume]) {
        for step in identified.even_superblocks(volume.members()) {
            step.iter().for_each(|write| placed.write(write));
        }
        for (name, content) in volume.contents() {
            for part in (0u32..).take(content.parts.len().min(64)) {
                let _ = volume.members().examine(name, content, part, Depth::Payload, &mut placed);
            }
        }
        change(&mut volume, &mut placed);
    }
}

fn change(volume: &mut Volume, placed: &mut Placed<'_>) {
    let commit = |volume: &mut Volume, placed: &mut Placed<'_>| {
        if let Some(commit) = volume.commit() {
            commit.writes.iter().for_each(|write| placed.write(write));
            volume.committed(Ok(()));
        }
    };
    commit(volume, placed);
    if let Ok(mut draft) = volume.begin("new", Some(UNIT)) {
        let written = write_content(volume, &mut draft, (7, UNIT, 1), |write| placed.write(write));
        if written.is_ok() {
            let _ = volume.publish(draft, 1);
        } else {
            volume.abandon(draft);
        }
    }
    let first = volume.contents().next().map(|(name, content)| (name.to_owned(), Arc::clone(content)));
    if let Some((name, content)) = first {
        let _ = volume.rename(&name, "renamed");
        let _ = volume.remove("renamed");
        drop(content);
    }
    commit(volume, placed);
    if let Ok(steps) = volume.take_out(MemberId(0)) {
        steps.concat().iter().for_each(|write| placed.write(write));
    }
    commit(volume, placed);
}
