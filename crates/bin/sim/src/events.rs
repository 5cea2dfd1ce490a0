//! Events of a run, each for a set time.
//!
//! Not here: their order (`course`), their effects (`world`).

use dataplane::port::{SocketSlot, Token};
use units::{BitRate, ContentVersion, ReservationId};

/// A future event of the world outside the plane.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorldEvent {
    /// A waiting send may have room.
    Writable(SocketSlot),
    /// A client reads differently.
    Client(u64, ClientTurn),
    /// The store thread of this disk checks its writers.
    StorePoke(usize),
    /// A store thread wakes with its grant.
    StoreBegin(usize),
    /// The helper thread that reads through the page cache is done.
    BufferedRead(u32),
    /// The version of a file was checked.
    Looked { token: Token, version: ContentVersion, right: bool },
    /// A change of buffer memory is done.
    MemoryChanged(Token),
    /// The control side reads its reports.
    Reports,
    /// The control side's next arrival, stop or fault.
    Control(ControlAction),
}

/// A change of a client's reading.
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
    /// Stops the deliveries that may be late and have not ended by themselves.
    StopLate,
    Shutdown,
}

/// An action of a viewer at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilmViewerAction {
    /// Begins to watch.
    Come(usize),
    /// Requests the next segment of a track, unless the track's count of requests differs from this one.
    Ask(ViewerTrackId, u32),
    /// Has received all bytes of the segment of this request of the track.
    Receive(ViewerTrackId, u32),
    /// The viewer's session ends, unless the track's count of requests differs from this one.
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
