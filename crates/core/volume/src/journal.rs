//! The journal: the catalogue on the disks, as a checkpoint and the changes behind it.
//!
//! Promise: the area has two halves; a checkpoint goes to the half without the durable state, so that this stays until the
//! new one is durable. All writes are in sequence. Two disks hold the same journal, and a frame that one of them lost or
//! damaged is read from the other.
//! Not here: the meaning of the records (`open`).

use crate::disk::ReadDisk;
use crate::error::VolumeOpenError;
use crate::frame::{self, FoundHead, FrameHead, decode_head};
use crate::{BLOCK_BYTES, BLOCK_LEN, VolumeId};

/// Behind the last frame this number of bytes is searched for a later frame, which would prove that a frame between was damaged.
const LOOKAHEAD_BYTES: u64 = 4 << 20;
/// Bytes read at once, unless a frame is longer.
const READ_BYTES: u64 = 1 << 20;

/// The place and numbers of the next frame.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    volume: VolumeId,
    half: u64,
    epoch: u64,
    sequence: u64,
    checkpoint: u32,
    previous: u32,
    /// The start of the half in use, in bytes from the start of the area: zero or `half`.
    base: u64,
    /// The start of the half that holds the durable state.
    durable: u64,
    /// The place of the next frame, in bytes from the start of the area; at the end of the half when that is full.
    position: u64,
}

/// A write into the journal area: the position counts from its start.
pub(crate) type AreaWrite = (u64, Vec<u8>);

impl Journal {
    /// A journal without a checkpoint, in the half that begins at `base` (zero or `half`): the first checkpoint goes to the
    /// other one, with an epoch above `epoch`.
    pub(crate) const fn new(volume: VolumeId, half: u64, epoch: u64, base: u64) -> Self {
        debug_assert!(base == 0 || base == half, "the area has two halves");
        Self { volume, half, epoch, sequence: 0, checkpoint: 0, previous: 0, base, durable: base, position: base }
    }

    /// All that was appended, or begun as a checkpoint, is durable.
    pub(crate) const fn made_durable(&mut self) {
        self.durable = self.base;
    }

    const fn half_end(&self) -> u64 {
        self.base + self.half
    }

    /// The write that makes `payload` durable, if the half has room for it.
    pub(crate) fn append(&mut self, payload: &[u8]) -> Option<AreaWrite> {
        debug_assert!(!payload.is_empty(), "a frame without a change");
        let fits = self.checkpoint > 0
            && payload.len() <= frame::PAYLOAD_MAX
            && self.position + frame::disk_bytes(payload.len()) <= self.half_end();
        fits.then(|| self.next_frame(payload))
    }

    /// The writes of a checkpoint, into the half that does not hold the durable state: one in the place of a checkpoint that was given up
    /// goes where that went. They must fit into it: `payloads` are at least one.
    pub(crate) fn start_checkpoint(&mut self, payloads: &[Vec<u8>]) -> Vec<AreaWrite> {
        assert!(!payloads.is_empty(), "a start finds no checkpoint without a frame");
        self.base = if self.durable == 0 { self.half } else { 0 };
        debug_assert!(self.base != self.durable, "the durable checkpoint stays until this one is");
        self.position = self.base;
        self.epoch += 1;
        self.sequence = 0;
        self.previous = 0;
        self.checkpoint = u32::try_from(payloads.len()).expect("a half has fewer frames");
        let writes: Vec<AreaWrite> = payloads.iter().map(|payload| self.next_frame(payload)).collect();
        let end = writes.last().map_or(0, |(position, bytes)| position + len(bytes));
        assert!(end <= self.half_end(), "the catalogue is kept small enough for its half");
        writes
    }

    fn next_frame(&mut self, payload: &[u8]) -> AreaWrite {
        let head = FrameHead {
            epoch: self.epoch,
            sequence: self.sequence,
            position: self.position,
            checkpoint: self.checkpoint,
            previous: self.previous,
            payload: payload.len(),
        };
        debug_assert!(
            self.base <= self.position && self.position.is_multiple_of(BLOCK_BYTES),
            "frames lie in their half, from block to block"
        );
        let (bytes, checksum) = frame::encode(&self.volume, &head, payload);
        debug_assert!(len(&bytes) == head.disk_bytes(), "the next frame would not follow this one");
        self.follow(&head, checksum);
        (head.position, bytes)
    }

    fn follow(&mut self, head: &FrameHead, checksum: u32) {
        self.position = head.position + head.disk_bytes();
        self.sequence = head.sequence + 1;
        self.previous = checksum;
        debug_assert!(
            self.position <= self.half_end(),
            "the frame goes over the other half, which holds the durable state"
        );
    }
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("a length in memory fits into 64 bits")
}

/// The journal found in the areas of the disks.
#[derive(Debug)]
pub(crate) struct JournalContents {
    /// The journal to continue.
    pub(crate) journal: Journal,
    /// Payloads of the checkpoint's frames, then of the changes.
    pub(crate) checkpoint: Vec<Vec<u8>>,
    pub(crate) changes: Vec<Vec<u8>>,
    /// Not every copy has every frame, or a torn checkpoint was left: a new checkpoint makes them equal.
    pub(crate) uneven: bool,
}

/// The journal areas of all disks that hold it, read as one.
pub(crate) struct Area<'a, R> {
    disks: &'a mut R,
    /// The disks, as their caller counts them, each with position and bytes of its last read.
    copies: Vec<(usize, u64, Vec<u8>)>,
    volume: VolumeId,
    start: u64,
    half: u64,
}

impl<'a, R: ReadDisk> Area<'a, R> {
    pub(crate) fn new(disks: &'a mut R, copies: &[usize], volume: VolumeId, start: u64, half: u64) -> Self {
        let copies = copies.iter().map(|disk| (*disk, 0, Vec::new())).collect();
        Self { disks, copies, volume, start, half }
    }

    /// Reads the newest state.
    ///
    /// # Errors
    /// A frame that was acknowledged is whole in no copy.
    pub(crate) fn scan(&mut self) -> Result<JournalContents, VolumeOpenError> {
        let mut begins: Vec<(u64, u64)> = Vec::new();
        for position in [0, self.half] {
            for copy in 0..self.copies.len() {
                let first = self.head(copy, position).filter(|found| found.head.sequence == 0);
                begins.extend(first.map(|found| (found.head.epoch, position)));
            }
        }
        begins.sort_unstable();
        begins.dedup();
        let newest = begins.last().map_or(0, |(epoch, _)| *epoch);
        for (epoch, position) in begins.into_iter().rev() {
            match self.follow(epoch, position) {
                Some(mut found) => {
                    if self.is_continued(&found.journal) {
                        return Err(VolumeOpenError::CatalogueDamaged(
                            "a record in the middle of its journal is damaged",
                        ));
                    }
                    found.uneven |= epoch != newest;
                    found.journal.epoch = newest;
                    // Frames of this epoch can follow only if no newer one was begun.
                    if epoch != newest {
                        found.journal.checkpoint = 0;
                    }
                    return Ok(found);
                }
                // A checkpoint that a crash left torn was followed by nothing; a checkpoint that was damaged later was.
                None if self.has_changes(epoch, position) => {
                    return Err(VolumeOpenError::CatalogueDamaged("its last checkpoint is damaged"));
                }
                None => {}
            }
        }
        Err(VolumeOpenError::CatalogueDamaged("it has no whole checkpoint"))
    }

    /// The highest epoch of any frame; the epoch of a new catalogue must be above it.
    pub(crate) fn newest_epoch(&mut self) -> u64 {
        let mut newest = 0;
        for copy in 0..self.copies.len() {
            for position in (0..2 * self.half).step_by(BLOCK_LEN) {
                newest = newest.max(self.head(copy, position).map_or(0, |found| found.head.epoch));
            }
        }
        newest
    }

    /// The frames of an epoch from its first one on, each from any copy that has it; `None` if the checkpoint is not whole.
    fn follow(&mut self, epoch: u64, start: u64) -> Option<JournalContents> {
        let mut journal = Journal::new(self.volume, self.half, epoch, start);
        let (mut frames, mut uneven) = (Vec::new(), false);
        let end = journal.half_end();
        while journal.position < end {
            let Some((found, payload, everywhere)) = self.frame(&journal) else { break };
            if found.head.sequence == 0 {
                journal.checkpoint = found.head.checkpoint;
            }
            journal.follow(&found.head, found.checksum);
            frames.push(payload);
            uneven |= !everywhere;
        }
        let checkpoint = usize::try_from(journal.checkpoint).ok().filter(|count| (1..=frames.len()).contains(count))?;
        // A frame that only some copies have ends here for the others: the frames that follow must go to all.
        uneven |= self.is_partly_there(&journal);
        let changes = frames.split_off(checkpoint);
        Some(JournalContents { journal, checkpoint: frames, changes, uneven })
    }

    /// The frame that continues `journal`, and whether all copies have it.
    fn frame(&mut self, journal: &Journal) -> Option<(FoundHead, Vec<u8>, bool)> {
        let (mut whole, mut everywhere) = (None, true);
        for copy in 0..self.copies.len() {
            let read = self.head(copy, journal.position).filter(|found| {
                let head = &found.head;
                head.epoch == journal.epoch
                    && head.sequence == journal.sequence
                    && head.previous == journal.previous
                    && (head.sequence == 0 || head.checkpoint == journal.checkpoint)
                    && head.position + head.disk_bytes() <= journal.half_end()
            });
            let read = read.and_then(|found| Some((found, self.payload(copy, &found)?)));
            everywhere &= read.is_some();
            whole = whole.or(read);
        }
        whole.map(|(found, payload)| (found, payload, everywhere))
    }

    /// True if a copy holds something torn where the journal ends: the next frame is smaller, perhaps, and must not be followed by its
    /// rest.
    fn is_partly_there(&mut self, journal: &Journal) -> bool {
        let position = journal.position;
        (0..self.copies.len())
            .any(|copy| self.head(copy, position).is_some_and(|found| found.head.epoch == journal.epoch))
    }

    /// True if a later frame lies behind the end of `journal`.
    fn is_continued(&mut self, journal: &Journal) -> bool {
        let end = journal.half_end().min(journal.position + LOOKAHEAD_BYTES);
        (0..self.copies.len()).any(|copy| {
            (journal.position..end).step_by(BLOCK_LEN).any(|at| {
                let found = self.head(copy, at);
                found.is_some_and(|found| found.head.epoch == journal.epoch && found.head.sequence > journal.sequence)
            })
        })
    }

    /// True if a half holds changes that followed the checkpoint of `epoch`.
    fn has_changes(&mut self, epoch: u64, start: u64) -> bool {
        (0..self.copies.len()).any(|copy| {
            (start..start + self.half).step_by(BLOCK_LEN).any(|at| {
                self.head(copy, at).is_some_and(|found| {
                    found.head.epoch == epoch && found.head.sequence >= u64::from(found.head.checkpoint)
                })
            })
        })
    }

    fn head(&mut self, copy: usize, position: u64) -> Option<FoundHead> {
        let volume = self.volume;
        let block = self.bytes(copy, position, BLOCK_BYTES)?;
        decode_head(&volume, position, block)
    }

    fn payload(&mut self, copy: usize, found: &FoundHead) -> Option<Vec<u8>> {
        let length = found.head.disk_bytes();
        let bytes = self.bytes(copy, found.head.position, length)?;
        let payload = bytes.get(frame::HEAD_LEN..frame::HEAD_LEN + found.head.payload)?;
        (crc32c::crc32c(payload) == found.payload_checksum).then(|| payload.to_vec())
    }

    /// Bytes of the area, read in long pieces; a piece that cannot be read is tried again at the length requested.
    fn bytes(&mut self, copy: usize, position: u64, length: u64) -> Option<&[u8]> {
        let (disk, at, bytes) = &mut self.copies[copy];
        let has = position >= *at && position + length <= *at + len(bytes);
        if !has {
            let rest = (2 * self.half).checked_sub(position).filter(|rest| *rest >= length)?;
            for long in [length.max(READ_BYTES.min(rest)), length] {
                bytes.clear();
                bytes.resize(usize::try_from(long).ok()?, 0);
                *at = position;
                if self.disks.read(*disk, self.start + position, bytes).is_ok() {
                    break;
                }
                bytes.clear();
            }
            if bytes.is_empty() {
                return None;
            }
        }
        let from = usize::try_from(position - *at).ok()?;
        bytes.get(from..from + usize::try_from(length).ok()?)
    }
}
