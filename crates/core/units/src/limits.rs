//! Every limit of the system in one place, checked against each other when the program is compiled.

use crate::{BitRate, Nanos};

/// Streams that one data plane can carry at once.
pub const STREAMS_MAX: usize = 8192;
/// Disks that one data plane can schedule.
pub const DISKS_MAX: usize = 32;
/// Network links that admission distinguishes: two for each network interface.
pub const LINKS_MAX: usize = 64;
/// Contents open in the data plane at once: each stream reads one, and a replaced one stays open for its readers.
pub const FILES_MAX: usize = STREAMS_MAX;
/// Segments of one response: head, and (part head, part) for each of 16 ranges, and the closing boundary.
pub const SEGMENTS_MAX: usize = 2 + 2 * RANGES_MAX;
/// Byte ranges of one request; more are answered with the whole content (RFC 9110 §14.2 allows it).
pub const RANGES_MAX: usize = 16;
/// Most bytes of a piece, into which best-effort requests are cut (HiTactix §4.2: 128 KiB).
pub const PIECE_BYTES_MAX: u64 = 128 * 1024;
/// Most bytes of a run of best-effort pieces of one file.
pub const RUN_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Longest lead of a recording over its rate, for which its buffer has room. A key frame of three times the rate for a second. Chosen.
pub const RECORDING_EXCESS: Nanos = Nanos::from_secs(2);
/// A recording gathers no more than this part of the memory that is left for all: blocks become shorter before memory is short. Chosen.
pub const RECORDING_BLOCK_PART: u64 = 32;
/// A recording that is written this much further on than before is charged anew: zones of drives are larger. Chosen.
pub const RECORDING_PLACE_BYTES: u64 = 1 << 30;
/// Rate of the streams that a disk's room is counted in: a good picture in 720p, as in the benchmarks.
pub const EXAMPLE_RATE: BitRate = BitRate(8_800_000);
/// Unit of the buffer arena, and the largest single read of the data plane.
pub const CHUNK_BYTES: u64 = 1024 * 1024;
/// Unit of buffer memory: a chunk of the arena is four of them. Chosen.
pub const CACHE_PAGE_BYTES: u64 = CHUNK_BYTES / 4;
/// Smallest block a stream reads at a time.
pub const BLOCK_BYTES_MIN: u64 = 256 * 1024;
/// Largest block a stream reads at a time.
pub const BLOCK_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Alignment of direct I/O, in bytes: covers 512-byte and 4 KiB-sector drives.
pub const DIRECT_ALIGN: u64 = 4096;
/// Uploads in progress at once.
pub const UPLOADS_MAX: usize = 1024;

// `as` between `usize` and `u64` loses nothing.
const _: () = assert!(usize::BITS == u64::BITS);
const _: () = assert!(FILES_MAX >= STREAMS_MAX);
const _: () = assert!(RUN_BYTES_MAX.is_multiple_of(PIECE_BYTES_MAX));
const _: () = assert!(CHUNK_BYTES.is_multiple_of(DIRECT_ALIGN) && PIECE_BYTES_MAX.is_multiple_of(DIRECT_ALIGN));
const _: () = assert!(BLOCK_BYTES_MAX.is_multiple_of(CHUNK_BYTES) && CHUNK_BYTES.is_multiple_of(BLOCK_BYTES_MIN));
