//! Values and limits: the measures that every other crate counts in.
//!
//! Promise: plain values with units in their types, checked arithmetic, exact parsing and printing.
//! Not here: decisions; no logging, no input or output, no clock.

mod quantity;
mod text;

pub mod limits;

pub use quantity::{BitRate, ByteCount, Nanos, real};
pub use text::{ParseError, counted, parse_duration, parse_rate, parse_size};

/// Names one stream (one delivery or recording) for the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub u64);

/// Names one version of one content: a replaced content gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContentVersion(pub u64);

/// Names one disk: an index into the table of disks, `0..limits::DISKS_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DiskId(pub u16);

/// Failure of a disk, the worse one last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskFault {
    /// It answers with errors.
    Erring,
    /// It does not answer.
    Hung,
}

/// Names one network link, a direction of an interface: an index into the table of links, `0..limits::LINKS_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LinkId(pub u16);

/// Names one upload (or recording) for the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct UploadId(pub u64);

/// Names a piece of work of one store thread, chosen by the thread; unique per disk while the work lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// Names one reservation: a slot of the admission table and the generation of its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationId {
    /// Slot in the table.
    pub slot: u32,
    /// Number of reservations that the slot held before; a stale identifier never matches.
    pub generation: u32,
}
