//! Stage: counts what passes, for the metrics and the listing of streams.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{Origin, Stage};
use crate::message::reply::Reply;

struct Tally<'a> {
    all: &'a AtomicU64,
    recording: Option<&'a AtomicU64>,
}

pub(super) fn make<'a>(origin: &Origin<'a>) -> Option<Box<dyn Stage + 'a>> {
    Some(Box::new(Tally { all: origin.received_bytes, recording: origin.recorded_bytes }))
}

impl Stage for Tally<'_> {
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
        for count in [Some(self.all), self.recording].into_iter().flatten() {
            count.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(piece)
    }
}
