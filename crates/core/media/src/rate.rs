//! The rate a content needs, as a probe finds it.

use units::{BitRate, Nanos};

/// The constant rate at which a content can be played without a stall, and how much must be there before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaRate {
    /// The least rate whose preroll lasts at most four seconds.
    pub rate: BitRate,
    /// Bytes a player must hold before it starts, so that it never waits at `rate`.
    pub preroll_bytes: u64,
    /// What the content is wrapped in.
    pub container: Container,
    /// Playing time.
    pub duration: Nanos,
}

/// The containers whose rate can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// ISO base media file format: MP4, MOV, M4V; plain or fragmented.
    Mp4,
    /// MPEG transport stream.
    MpegTs,
    /// Matroska and `WebM`.
    Matroska,
}
