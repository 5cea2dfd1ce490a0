//! Places at which a live stream is cut into files each of which plays by itself: key frames of MPEG-TS, fragments of MP4 that begin
//! with one.
//!
//! Promise: what comes in goes out, each byte once and in order; what is held back of it is less than a packet, the head of a fragment
//! or, until the container is known, [`DETECT_BYTES`]. A file behind a cut begins with a copy of what its player needs: the tables of
//! the programs, or `ftyp` and `moov`. Not here: when a cut is due, and where the files go.

mod fragments;
mod packets;

use units::Nanos;

use fragments::Fragments;
use packets::Packets;

use super::mp4;
use super::mpegts::PACKET_SIZES;

/// A cut that is due waits so long for a key frame of a stream that had one: cameras send one in 20 s at least.
pub const KEY_WAIT: Nanos = Nanos::from_secs(30);
/// And so long for the border of a packet or fragment.
const BORDER_WAIT: Nanos = Nanos::from_secs(60);
/// Five packets in a row, which are known for a stream of them, begin within these.
const ROW_BYTES: usize = 6 * PACKET_SIZES[2];
/// So many bytes are looked at together: each is looked at twice at most.
const DETECT_BYTES: usize = 2 * ROW_BYTES;
/// So much of a stream is looked through for packets; it is none of these containers if there are none.
const SEARCH_BYTES_MAX: u64 = 256 << 10;

/// Finds the places in one stream.
#[derive(Debug, Default)]
pub struct CutFinder {
    container: CutContainer,
    /// What waits for the bytes that tell what it is.
    held: Vec<u8>,
    borders_seen: bool,
    keys_seen: bool,
}

#[derive(Debug)]
enum CutContainer {
    /// Not known yet, behind so many bytes.
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

/// Where a stream could be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CutPlace {
    /// Amid something.
    Byte,
    /// Before a packet or a fragment.
    Border,
    /// Before one that begins with a key frame.
    Key,
}

/// What a container's reader says of the bytes that come next.
#[derive(Debug, Clone, Copy)]
enum CutLook {
    /// So many are needed.
    Needs(usize),
    /// So many go together, behind such a place.
    Passes(usize, CutPlace),
    /// The container ends here.
    Lost,
}

/// What became of a piece.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PassedPiece {
    /// What was held back before it and passes now.
    pub before: Vec<u8>,
    /// So many of its bytes pass behind that; the others are held back.
    pub bytes: usize,
    /// Where a file ends.
    pub cut: Option<Cut>,
}

/// The end of one file and the beginning of the next.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    /// So many of the bytes that pass belong to the file before.
    pub at: usize,
    /// What the next one begins with: a copy of what came before.
    pub head: Vec<u8>,
}

impl CutFinder {
    /// Takes the next bytes of the stream. `due`: for so long a cut has been.
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
                    // It begins in what was held, or between that and the piece.
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

    /// What is held back at the end of the stream.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// The least place that a cut is made at which has been due for so long.
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
