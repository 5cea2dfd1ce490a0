//! Stage: refuses an upload that is larger than configured, however its length was announced.

use bytes::Bytes;

use super::{Origin, Stage};
use crate::message::reply::Reply;
use crate::upload::too_large;

struct Limit {
    left: u64,
    bytes_max: u64,
}

pub(super) fn make<'a>(origin: &Origin<'a>) -> Option<Box<dyn Stage + 'a>> {
    let bytes_max = origin.config.upload_bytes_max;
    Some(Box::new(Limit { left: bytes_max, bytes_max }))
}

impl Stage for Limit {
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
        let left = u64::try_from(piece.len()).ok().and_then(|length| self.left.checked_sub(length));
        self.left = left.ok_or_else(|| too_large(self.bytes_max))?;
        Ok(piece)
    }
}
