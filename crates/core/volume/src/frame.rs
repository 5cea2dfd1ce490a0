//! Frames, of which the journal is made. A frame holds changes that became durable together, or a part of a checkpoint.
//!
//! Promise: a frame names its volume, its place, its epoch and its number, so that an old one, or a frame that was written
//! elsewhere, is not taken for it.

use crate::bytes::{Decoder, Encode};
use crate::{BLOCK_BYTES, BLOCK_LEN, VolumeId};

const MAGIC: &[u8; 8] = b"ISOCAJNL";
/// Bytes before the payload.
pub(crate) const HEAD_LEN: usize = 68;
/// Payload bytes at most: one content of some 30 TB.
pub(crate) const PAYLOAD_MAX: usize = 64 << 20;
/// No journal that checkpoints wrote has an epoch as high, and the next one would not fit.
const EPOCHS_MAX: u64 = 1 << 63;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    /// Grows with every checkpoint.
    pub(crate) epoch: u64,
    /// Number in the epoch, from 0.
    pub(crate) sequence: u64,
    /// Its place, in bytes from the start of the journal area.
    pub(crate) position: u64,
    /// Frames `0..checkpoint` of the epoch are the checkpoint; the others are changes.
    pub(crate) checkpoint: u32,
    /// Checksum of the frame before it in the epoch, so that frames of two attempts at one checkpoint do not mix; 0 for the
    /// first.
    pub(crate) previous: u32,
    /// Bytes of the payload.
    pub(crate) payload: usize,
}

impl FrameHead {
    /// Bytes on the disk, a multiple of [`BLOCK_BYTES`].
    pub(crate) fn disk_bytes(&self) -> u64 {
        disk_bytes(self.payload)
    }
}

/// Bytes on the disk of a frame with `payload` bytes of payload.
pub(crate) fn disk_bytes(payload: usize) -> u64 {
    u64::try_from(HEAD_LEN + payload).expect("a length in memory fits into 64 bits").next_multiple_of(BLOCK_BYTES)
}

/// A frame as it is written, and its checksum for the next one.
pub(crate) fn encode(volume: &VolumeId, head: &FrameHead, payload: &[u8]) -> (Vec<u8>, u32) {
    assert!(payload.len() == head.payload && payload.len() <= PAYLOAD_MAX);
    assert!(head.position.is_multiple_of(BLOCK_BYTES), "a scan looks for frames at whole blocks");
    debug_assert!(head.sequence > 0 || head.previous == 0, "the first frame of an epoch follows none");
    debug_assert!(head.checkpoint > 0, "an epoch begins with a checkpoint");
    let mut bytes = Vec::with_capacity(HEAD_LEN + payload.len() + BLOCK_LEN);
    bytes.put(MAGIC);
    bytes.put(volume);
    bytes.put_u64(head.epoch);
    bytes.put_u64(head.sequence);
    bytes.put_u64(head.position);
    bytes.put_u32(head.checkpoint);
    bytes.put_u32(head.previous);
    bytes.put_u32(u32::try_from(payload.len()).expect("at most PAYLOAD_MAX"));
    bytes.put_u32(crc32c::crc32c(payload));
    let checksum = crc32c::crc32c(&bytes);
    bytes.put_u32(checksum);
    assert!(bytes.len() == HEAD_LEN, "a scan looks for the payload behind the head");
    bytes.put(payload);
    bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN), 0);
    (bytes, checksum)
}

/// A frame's head as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundHead {
    pub(crate) head: FrameHead,
    /// Checksum of the frame: of its head, which holds the payload's.
    pub(crate) checksum: u32,
    pub(crate) payload_checksum: u32,
}

/// The head at the front of `block`, if it is a frame of `volume` at `position`.
pub(crate) fn decode_head(volume: &VolumeId, position: u64, block: &[u8]) -> Option<FoundHead> {
    let (head, checksum) = block.get(..HEAD_LEN)?.split_last_chunk::<4>()?;
    let checksum = u32::from_le_bytes(*checksum);
    (crc32c::crc32c(head) == checksum).then_some(())?;
    let mut head = Decoder::new(head);
    (head.array()? == *MAGIC && head.array()? == *volume).then_some(())?;
    let (epoch, sequence, found) = (head.u64()?, head.u64()?, head.u64()?);
    let (checkpoint, previous) = (head.u32()?, head.u32()?);
    let (length, payload_checksum) = (head.u32()?, head.u32()?);
    let payload = usize::try_from(length).ok().filter(|length| *length <= PAYLOAD_MAX)?;
    let head = FrameHead { epoch, sequence, position, checkpoint, previous, payload };
    (found == position && epoch < EPOCHS_MAX).then_some(FoundHead { head, checksum, payload_checksum })
}

const _: () = assert!(8 + 16 + 3 * 8 + 4 * 4 + 4 == HEAD_LEN);
