//! The pieces of small reads kept in memory, and the limit on sending them.
//!
//! Promise: at most half of the rate that a link has left is sent from here, which the data plane takes off its own best effort; a
//! piece is of one version of a content; the kept pieces are bounded in bytes. Not here: which reads are answered from it
//! (`small_reads`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use content::Content;
use dataplane::gauges::Gauges;
use units::limits::LINKS_MAX;
use units::{BitRate, ContentVersion, LinkId, Nanos};

use crate::lock::lock;

/// Longer reads go through the data plane: from here on the bytes cost more than the request.
pub(crate) const SMALL_BYTES_MAX: u64 = 64 * 1024;
/// Bytes kept, with the size of each entry itself.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Size of an entry besides its bytes.
const ENTRY_BYTES: usize = 128;
/// Contents held open at once.
const HELD_MAX: usize = 1024;
/// Time for which an unused share of a link is kept.
const SAVED: Nanos = Nanos::from_millis(50);

/// A part of one version of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SmallPiece {
    pub(crate) version: ContentVersion,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// The state of a piece.
#[derive(Debug)]
pub(crate) enum PieceState {
    /// Its bytes, which may be sent now.
    Kept(Bytes),
    /// It was requested lately: it is worth keeping.
    Again,
    /// Nothing.
    Unknown,
}

/// The pieces kept, and the bytes that may be sent of them.
pub(crate) struct PieceCache {
    gauges: Arc<Gauges>,
    kept: Mutex<PieceGenerations>,
    allowances: Mutex<[Option<LinkAllowance>; LINKS_MAX]>,
    /// Contents that were read from here in this second. They are kept open, so that the next request need not open
    /// them.
    held: Mutex<HashMap<ContentVersion, Arc<Content>>>,
}

/// Pieces in two generations: a requested piece goes to the young one, and when that is full the old one is forgotten.
#[derive(Debug, Default)]
struct PieceGenerations {
    young: HashMap<SmallPiece, Bytes>,
    old: HashMap<SmallPiece, Bytes>,
    young_bytes: usize,
}

/// Bytes that may be sent on a link.
#[derive(Debug, Clone, Copy)]
struct LinkAllowance {
    bytes: u64,
    at: Instant,
}

impl PieceCache {
    pub(crate) fn new(gauges: Arc<Gauges>) -> Self {
        Self { gauges, kept: Mutex::default(), allowances: Mutex::new([None; LINKS_MAX]), held: Mutex::default() }
    }

    /// Looks for a piece that would leave by `link` now, and remembers the request.
    pub(crate) fn look(&self, piece: SmallPiece, link: LinkId, now: Instant) -> PieceState {
        let mut kept = lock(&self.kept);
        match kept.find(&piece) {
            None => {
                kept.put(piece, Bytes::new());
                PieceState::Unknown
            }
            Some(bytes) if bytes.is_empty() => PieceState::Again,
            Some(bytes) => {
                drop(kept);
                if self.may_send(link, piece.length, now) { PieceState::Kept(bytes) } else { PieceState::Unknown }
            }
        }
    }

    /// Keeps the bytes of a piece.
    pub(crate) fn keep(&self, piece: SmallPiece, bytes: Bytes) {
        lock(&self.kept).put(piece, bytes);
    }

    /// Keeps a content open that was read from here.
    pub(crate) fn keep_open(&self, content: &Arc<Content>) {
        let mut held = lock(&self.held);
        if held.len() < HELD_MAX {
            held.entry(content.version).or_insert_with(|| Arc::clone(content));
        }
    }

    /// Takes out the contents that were held open. None is held for longer than from one call to the next, for a
    /// deleted one still takes space.
    pub(crate) fn take_open(&self) -> impl Send + use<> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// Takes `bytes` of the allowance of a link; false if it has fewer.
    fn may_send(&self, link: LinkId, bytes: u64, now: Instant) -> bool {
        let index = usize::from(link.0);
        let Some(gauges) = self.gauges.links.get(index) else { return false };
        let share = BitRate(gauges.left_bps.get() / 2);
        let mut allowances = lock(&self.allowances);
        let allowance = allowances[index].get_or_insert(LinkAllowance { bytes: 0, at: now });
        allowance.refill(share, now);
        let granted = allowance.bytes >= bytes;
        if granted {
            allowance.bytes -= bytes;
            gauges.small_bytes.add(bytes);
        }
        granted
    }
}

impl LinkAllowance {
    fn refill(&mut self, share: BitRate, now: Instant) {
        let most = share.bytes_in(SAVED).max(SMALL_BYTES_MAX);
        let since = Nanos::from(now - self.at).min(Nanos::from_secs(1));
        let more = share.bytes_in(since);
        if more > 0 {
            *self = Self { bytes: self.bytes.saturating_add(more).min(most), at: now };
        }
    }
}

impl PieceGenerations {
    fn find(&mut self, piece: &SmallPiece) -> Option<Bytes> {
        if let Some(bytes) = self.young.get(piece) {
            return Some(bytes.clone());
        }
        let bytes = self.old.remove(piece)?;
        self.put(*piece, bytes.clone());
        Some(bytes)
    }

    fn put(&mut self, piece: SmallPiece, bytes: Bytes) {
        self.young_bytes += bytes.len() + ENTRY_BYTES;
        if let Some(before) = self.young.insert(piece, bytes) {
            self.young_bytes -= before.len() + ENTRY_BYTES;
        }
        if self.young_bytes > KEPT_BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LINK: LinkId = LinkId(0);

    fn piece_cache(left: BitRate) -> Arc<PieceCache> {
        let gauges = Arc::new(Gauges::new(1, 1));
        gauges.links[0].left_bps.set(left.0);
        Arc::new(PieceCache::new(gauges))
    }

    fn piece(offset: u64, length: u64) -> SmallPiece {
        SmallPiece { version: ContentVersion(1), offset, length }
    }

    #[test]
    fn a_piece_requested_twice_is_kept() {
        let (reads, start) = (piece_cache(BitRate(1_000_000_000)), Instant::now());
        let look = |piece, millis| reads.look(piece, LINK, start + Duration::from_millis(millis));
        let asked = piece(4096, 8);
        assert!(matches!(look(asked, 0), PieceState::Unknown));
        assert!(matches!(look(asked, 1), PieceState::Again));
        reads.keep(asked, Bytes::from_static(b"it is it"));
        assert!(matches!(look(asked, 3), PieceState::Unknown), "the link's share begins now");
        assert!(matches!(look(asked, 4), PieceState::Kept(bytes) if bytes == "it is it"));
        assert!(
            matches!(look(SmallPiece { version: ContentVersion(2), ..asked }, 5), PieceState::Unknown),
            "another version"
        );
    }

    #[test]
    fn small_reads_stay_within_their_share_of_the_link() {
        let share = BitRate(8_000_000);
        let mut allowance = LinkAllowance { bytes: 0, at: Instant::now() };
        let start = allowance.at;
        let mut sent = 0;
        for millis in 1..=1000 {
            allowance.refill(share, start + Duration::from_millis(millis));
            while allowance.bytes >= 16_384 {
                (allowance.bytes, sent) = (allowance.bytes - 16_384, sent + 16_384);
            }
        }
        assert!((950_000..=1_000_000).contains(&sent), "{sent} bytes in a second of 8 Mbit/s");
        allowance.refill(share, start + Duration::from_secs(100));
        assert_eq!(allowance.bytes, SMALL_BYTES_MAX, "what was not used is not saved for long");
    }

    #[test]
    fn a_link_without_room_sends_nothing_from_here() {
        let (reads, asked, start) = (piece_cache(BitRate(0)), piece(0, 4), Instant::now());
        reads.keep(asked, Bytes::from_static(b"four"));
        for link in [LINK, LinkId(9), LinkId(u16::MAX)] {
            for millis in [0, 1000] {
                let look = reads.look(asked, link, start + Duration::from_millis(millis));
                assert!(matches!(look, PieceState::Unknown), "{link:?}");
            }
        }
    }

    #[test]
    fn kept_pieces_are_bounded_and_requested_ones_stay() {
        let (mut kept, bytes) = (PieceGenerations::default(), Bytes::from(vec![0; 16 * 1024]));
        kept.put(piece(0, 1), bytes.clone());
        for offset in 1..10_000 {
            kept.put(piece(offset, 1), bytes.clone());
            assert!(kept.find(&piece(0, 1)).is_some(), "{offset}");
            let held: usize = kept.young.values().chain(kept.old.values()).map(|bytes| bytes.len() + ENTRY_BYTES).sum();
            assert!(held <= KEPT_BYTES_MAX, "{held}");
        }
        assert!(kept.find(&piece(1, 1)).is_none(), "long ago");
    }
}
