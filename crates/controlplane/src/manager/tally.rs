//! Stage: counts what passes, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{Origin, Stage};
use crate::message::reply::Reply;

struct Tally<'a>(&'a AtomicU64);

pub(super) fn make<'a>(origin: &Origin<'a>) -> Option<Box<dyn Stage + 'a>> {
    Some(Box::new(Tally(origin.received_bytes)))
}

impl Stage for Tally<'_> {
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
        self.0.fetch_add(u64::try_from(piece.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(piece)
    }
}
