//! Events of a run: everything that will happen at some time.
//!
//! Not here: their order (`course`), their effects (`world`).

use dataplane::port::{SocketSlot, Token};
use units::{BitRate, ContentVersion, ReservationId};

/// Something that will happen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorldEvent {
    /// A waiting send may have room.
    Writable(SocketSlot),
    /// A client reads differently.
    Client(u64, ClientTurn),
    /// The store thread of this disk looks at its writers.
    StorePoke(usize),
    /// A store thread wakes with its grant.
    StoreBegin(usize),
    /// The helper thread that reads through the page cache is done.
    BufferedRead(u32),
    /// A file was looked at.
    Looked { token: Token, version: ContentVersion, right: bool },
    /// A change of memory was made.
    MemoryChanged(Token),
    /// The control side reads its reports.
    Reports,
    /// The control side's next arrival, stop or fault.
    Control(ControlAction),
}

/// How a client's reading changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientTurn {
    Reads(BitRate),
    Stops,
    Resets,
}

/// An action of the control side at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ControlAction {
    Arrive,
    Again(ReservationId, u32, BitRate),
    Stop(u64),
    Seek,
    Pause,
    Viewer(FilmViewerAction),
    Upload(usize),
    Record(usize),
    RecordAll(usize),
    Probe(usize),
    FaultBegins(usize),
    FaultEnds(usize),
    Audit,
    Calm,
    Drain,
    /// Deliveries that may be late and have not ended by themselves get the order to end.
    StopLate,
    Shutdown,
}

/// Something that a viewer does at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilmViewerAction {
    /// Begins to watch.
    Come(usize),
    /// Asks for the next segment of a track, unless it has asked again since this many times.
    Ask(ViewerTrackId, u32),
    /// Has all bytes of the segment that it asked for as this request of it.
    Receive(ViewerTrackId, u32),
    /// Its session ends, unless it has asked again since this many times.
    Expire(ViewerTrackId, u32),
    Pause(usize),
    Resume(usize),
    Seek(usize),
}

/// A track of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewerTrackId {
    pub(crate) viewer: usize,
    pub(crate) track: usize,
}
