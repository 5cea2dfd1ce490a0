//! Small reads that are requested again and again, answered from memory by the front end that has the request: without a
//! command to the data plane, a report, and the two threads that these wake.
//!
//! Promise: only best-effort reads, and within the rate that links have left for that. Kept pieces came through the data plane,
//! so they were verified like any read (decision 0012), or are an upload's own bytes. Not here: the pieces kept, and the limit on
//! sending them (`piece_cache`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use content::{FreshContent, Segment};
use dataplane::control::Command;

use crate::delivery::DeliveryRequest;
use crate::media_service::MediaService;
use crate::piece_cache::{PieceCache, PieceState, SMALL_BYTES_MAX, SmallPiece};
use crate::pipeline::{Stage, StageError, Stages};
use crate::rate::Decision;

/// The bytes of a small best-effort read, if they are kept and may be sent now. Otherwise, if it was requested before, `stages`
/// gets a stage that keeps the passing bytes.
pub(crate) fn kept_bytes(service: &MediaService, request: &DeliveryRequest, stages: &mut Stages) -> Option<Bytes> {
    let (Decision::BestEffort, [Segment::Range { offset, length: length @ ..=SMALL_BYTES_MAX }]) =
        (request.terms.decision, request.body.as_slice())
    else {
        return None;
    };
    let piece = SmallPiece { version: request.content.version, offset: *offset, length: *length };
    if service.is_draining() {
        return None;
    }
    match service.small_reads.look(piece, service.link_out(request.client.local), Instant::now()) {
        PieceState::Kept(bytes) => {
            service.stats.small_reads.fetch_add(1, Ordering::Relaxed);
            service.small_reads.keep_open(&request.content);
            Some(bytes)
        }
        PieceState::Again => {
            let cache = Arc::clone(&service.small_reads);
            stages.0.push(Box::new(PieceCollector { cache, piece, passed: BytesMut::new() }));
            None
        }
        PieceState::Unknown => None,
    }
}

/// Keeps a content that was just stored for its next reads: a small one without a rate here, any other in the data plane's buffers, whose
/// pages are four times as long as the longest piece.
pub(crate) fn keep_fresh(service: &MediaService, stored: FreshContent) {
    let length = stored.bytes.len() as u64;
    if length <= SMALL_BYTES_MAX && !stored.has_rate {
        let piece = SmallPiece { version: stored.version, offset: 0, length };
        service.small_reads.keep(piece, Bytes::from(stored.bytes));
    } else {
        // With no room in the queue it is read from its disk.
        let _ = service.plane.send(Command::Keep(Box::new(stored)));
    }
}

/// Keeps a piece that passes, if all of it does.
struct PieceCollector {
    cache: Arc<PieceCache>,
    piece: SmallPiece,
    passed: BytesMut,
}

impl Stage for PieceCollector {
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, StageError> {
        self.passed.extend_from_slice(&piece);
        Ok(piece)
    }

    fn end(&mut self) -> Result<Bytes, StageError> {
        if self.passed.len() as u64 == self.piece.length {
            // A copy of its own size: the buffer may be larger.
            self.cache.keep(self.piece, Bytes::copy_from_slice(&self.passed));
        }
        Ok(Bytes::new())
    }
}

#[cfg(test)]
mod tests {
    use dataplane::gauges::Gauges;
    use units::{ContentVersion, LinkId};

    use super::*;

    #[test]
    fn only_a_whole_piece_is_kept() {
        let gauges = Arc::new(Gauges::new(1, 1));
        gauges.links[0].left_bps.set(1_000_000_000);
        let cache = Arc::new(PieceCache::new(gauges));
        let piece = SmallPiece { version: ContentVersion(1), offset: 4096, length: 8 };
        let now = Instant::now();
        for (passes, is_kept) in [("broken", false), ("it is all", false), ("it is it", true)] {
            let mut stage = PieceCollector { cache: Arc::clone(&cache), piece, passed: BytesMut::new() };
            for part in passes.as_bytes().chunks(3) {
                assert_eq!(stage.pass(Bytes::copy_from_slice(part)).as_deref(), Ok(part));
            }
            assert_eq!(stage.end(), Ok(Bytes::new()));
            cache.look(piece, LinkId(0), now);
            let later = cache.look(piece, LinkId(0), now + std::time::Duration::from_millis(10));
            assert_eq!(matches!(later, PieceState::Kept(bytes) if bytes == passes), is_kept, "{passes}");
        }
    }
}
