//! Places at which a live stream is cut into files that each play alone: key frames of MPEG-TS, fragments of MP4 that begin with
//! one.
//!
//! Promise: all bytes that come in go out, each once and in order; the bytes held back are fewer than a packet, the head of a fragment
//! or, until the container is known, [`DETECT_BYTES`]. A file behind a cut begins with a copy of the head that its player needs: the
//! tables of the programs, or `ftyp` and `moov`. Not here: the times at which cuts are due, and the destination of the files.

mod fragments;
mod packets;

use units::Nanos;

use fragments::Fragments;
use packets::Packets;
pub(crate) use packets::codecs as stream_codecs;

use super::mp4;
use super::mpegts::PACKET_SIZES;

/// Longest wait of a due cut for a key frame, in a stream that had one: cameras send one in 20 s at least.
pub const KEY_WAIT: Nanos = Nanos::from_secs(30);
/// Longest wait of a due cut for the border of a packet or fragment.
const BORDER_WAIT: Nanos = Nanos::from_secs(60);
/// Bytes within which five packets in a row begin, by which a stream of packets is known.
const ROW_BYTES: usize = 6 * PACKET_SIZES[2];
/// Bytes looked at together: each is looked at twice at most.
const DETECT_BYTES: usize = 2 * ROW_BYTES;
/// Bytes of a stream that are searched for packets; without any it is none of these containers.
const SEARCH_BYTES_MAX: u64 = 256 << 10;

/// Finds the places in one stream.
#[derive(Debug, Default)]
pub struct CutFinder {
    container: CutContainer,
    /// Bytes that are held back until further ones decide their meaning.
    held: Vec<u8>,
    borders_seen: bool,
    keys_seen: bool,
}

#[derive(Debug)]
enum CutContainer {
    /// Not known yet, after a search of this number of bytes.
    Sought(u64),
    MpegTs(Packets),
    Mp4(Fragments),
    Other,
}

impl Default for CutContainer {
    fn default() -> Self {
        Self::Sought(0)
    }
}

/// A place at which a stream could be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CutPlace {
    /// Amid a packet or box.
    Byte,
    /// Before a packet or a fragment.
    Border,
    /// Before a fragment that begins with a key frame.
    Key,
}

/// Verdict of a container's reader on the next bytes.
#[derive(Debug, Clone, Copy)]
enum CutLook {
    /// The reader needs this number of bytes.
    Needs(usize),
    /// Number of bytes that go together, behind such a place.
    Passes(usize, CutPlace),
    /// The container ends here.
    Lost,
}

/// Result of passing a piece.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PassedPiece {
    /// Bytes that were held back before the piece and pass now.
    pub before: Vec<u8>,
    /// Number of the piece's bytes that pass behind those; the others are held back.
    pub bytes: usize,
    /// The end of a file, if the stream is cut here.
    pub cut: Option<Cut>,
}

/// The end of one file and the beginning of the next.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the passing bytes that belong to the file before.
    pub at: usize,
    /// Head of the next file: a copy of earlier bytes of the stream.
    pub head: Vec<u8>,
}

impl CutFinder {
    /// Takes the next bytes of the stream. `due`: for how long a cut has been due.
    pub fn pass(&mut self, piece: &[u8], due: Option<Nanos>) -> PassedPiece {
        let mut joined = std::mem::take(&mut self.held);
        let held = joined.len();
        let (mut at, mut cut) = (0, None);
        let all = held + piece.len();
        while at < all {
            let rest = if at < joined.len() { &joined[at..] } else { &piece[at - held..] };
            let (bytes, place) = match self.look(rest) {
                CutLook::Passes(bytes, place) => (bytes, place),
                CutLook::Lost => {
                    self.container = CutContainer::Sought(1);
                    continue;
                }
                CutLook::Needs(bytes) if at + bytes > all => break,
                CutLook::Needs(bytes) => {
                    // It begins in the bytes held back, or on their border with the piece.
                    joined.extend_from_slice(&piece[joined.len() - held..at + bytes - held]);
                    continue;
                }
            };
            self.borders_seen |= place >= CutPlace::Border;
            self.keys_seen |= place == CutPlace::Key;
            if cut.is_none() && due.is_some_and(|due| place >= self.wanted(due)) {
                cut = Some(Cut { at, head: self.head(place) });
            }
            at += bytes;
        }
        joined.truncate(held);
        let bytes = at.saturating_sub(held);
        self.held = joined.split_off(at.min(held));
        self.held.extend_from_slice(&piece[bytes..]);
        PassedPiece { before: joined, bytes, cut }
    }

    /// Returns the bytes still held back at the end of the stream.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Returns the least place for a cut that has been due for `due`.
    fn wanted(&self, due: Nanos) -> CutPlace {
        if self.keys_seen && due < KEY_WAIT {
            CutPlace::Key
        } else if self.borders_seen && due < BORDER_WAIT {
            CutPlace::Border
        } else {
            CutPlace::Byte
        }
    }

    fn head(&self, place: CutPlace) -> Vec<u8> {
        match &self.container {
            CutContainer::MpegTs(packets) if place >= CutPlace::Border => packets.head(),
            CutContainer::Mp4(fragments) if place >= CutPlace::Border => fragments.head(),
            _ => Vec::new(),
        }
    }

    fn look(&mut self, bytes: &[u8]) -> CutLook {
        let searched = match &mut self.container {
            CutContainer::MpegTs(packets) => return packets.look(bytes),
            CutContainer::Mp4(fragments) => return fragments.look(bytes),
            CutContainer::Other => return CutLook::Passes(bytes.len(), CutPlace::Byte),
            CutContainer::Sought(searched) => *searched,
        };
        if bytes.len() < DETECT_BYTES {
            return CutLook::Needs(DETECT_BYTES);
        }
        if searched == 0 && mp4::begins(bytes) {
            self.container = CutContainer::Mp4(Fragments::default());
            return self.look(bytes);
        }
        let (skipped, found) = match Packets::found(bytes) {
            Some((first, packets)) => (first, Some(CutContainer::MpegTs(packets))),
            None => (bytes.len() - ROW_BYTES + 1, None),
        };
        let after = searched + u64::try_from(skipped).unwrap_or(u64::MAX);
        let is_none = after > SEARCH_BYTES_MAX;
        self.container = found.unwrap_or(if is_none { CutContainer::Other } else { CutContainer::Sought(after) });
        if skipped == 0 { self.look(bytes) } else { CutLook::Passes(skipped, CutPlace::Byte) }
    }
}

#[cfg(test)]
mod tests;
