//! Segments of a response: literal bytes, and ranges of a content.
//!
//! Not here: the choice of a response's segments (`http`, `plan`), sending them (`dataplane`).

use units::limits;

/// Bytes of literal text (a response head, a multipart boundary) a stream can have in flight. The control plane keeps
/// each literal segment within it.
pub const LITERAL_BYTES: u64 = 2048;

const _: () = assert!(LITERAL_BYTES.is_multiple_of(512) && limits::CHUNK_BYTES.is_multiple_of(LITERAL_BYTES));

/// A piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Literal bytes: heads and boundaries. Not paced.
    Bytes(Box<[u8]>),
    /// `length` bytes of the content from `offset`. Never empty, never beyond the content's size.
    Range {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

impl Segment {
    /// Bytes it puts into the socket.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Range { length, .. } => *length,
        }
    }
}
