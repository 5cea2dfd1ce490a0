//! Types that all requests of the plane have in common, for every engine.
//!
//! Not here: the requests (`port`).

/// Chosen by the plane, handed back in the request's one completion. A top byte of 0xFF is the implementation's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A run of the arena's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte, from the arena's start.
    pub offset: u64,
    /// How many; at most `CHUNK_BYTES`.
    pub length: u32,
}

/// Why a request failed: the cases that the plane distinguishes, mapped once from errno in `kernel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoFault {
    /// The peer closed or reset the connection (EPIPE, ECONNRESET, ETIMEDOUT …).
    Gone,
    /// The request was cancelled before it took effect.
    Cancelled,
    /// The device gave an error (EIO and everything else, with its number).
    Device(i32),
}
