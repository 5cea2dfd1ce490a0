//! Messages between the control plane and the data plane: one [`Command`] starts a stream, one stops it, one
//! [`Report`] ends it. Both directions are bounded queues; a full one is an answer (503), never a wait.
//!
//! Everything boxed in a command comes back in a report, so that the data plane neither allocates nor frees.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use content::{Content, FreshContent, Segment};
pub use schedule::admission::{Refusal, Resource};
use schedule::profile::DiskProfile;
pub use storage::grant::{RecordingPlace, WrittenDisks};
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId};

use crate::outlet::Outlet;

/// From the control plane to the data plane.
#[derive(Debug)]
pub enum Command {
    /// Admit and start a delivery. Answered by [`Report::Refused`] at once, or by [`Report::Started`] and, at the end,
    /// [`Report::Finished`].
    Start(Box<Delivery>),
    /// End a delivery now (its socket comes back in [`Report::Finished`] with [`Outcome::Stopped`]). Unknown or ended
    /// streams are ignored.
    Stop(StreamId),
    /// Reserve disk time and network for a recording (real-time writes). Answered by [`Report::Reserved`] or
    /// [`Report::ReserveRefused`].
    Reserve(RecordingRequest),
    /// Give back a reservation held after its stream ended, or a recording's.
    Release(ReservationId),
    /// Take the content just stored into the buffers, as far as there is room: live content is soon requested. Answered by
    /// [`Report::Kept`].
    Keep(Box<FreshContent>),
    /// A client that takes nothing for this time gives its reservation back, and loses a best-effort delivery, from now on.
    SetStall(Nanos),
    /// The capacity of a link from now on; streams that were admitted already continue. Unknown links are ignored.
    SetLink {
        /// The link.
        link: LinkId,
        /// Payload bits per second on the wire.
        capacity: BitRate,
    },
    /// The profile of a disk, in force as soon as nothing uses the disk and no reservation has time of it. Answered by
    /// [`Report::Profiled`].
    SetProfile(Box<NewProfile>),
    /// Stop admitting; running streams continue (drain).
    Drain,
    /// End the loop; streams that still run are dropped.
    Shutdown,
}

/// From the data plane to the control plane.
#[derive(Debug)]
pub enum Report {
    /// The delivery was admitted and holds this reservation (none for best effort, and where it ended before it had one).
    Started {
        /// The delivery.
        stream: StreamId,
        /// The reservation that it holds.
        reservation: Option<ReservationId>,
    },
    /// The next bytes of the delivery lie in its outlet, or it waits there for its reader.
    Posted {
        /// The delivery.
        stream: StreamId,
    },
    /// The delivery was not admitted; its socket is inside, untouched.
    Refused {
        /// The request as it was sent.
        delivery: Box<Delivery>,
        /// The reason, and the rate that would be granted.
        refusal: Refusal,
    },
    /// The delivery ended; its socket is inside.
    Finished {
        /// The request as it was sent.
        delivery: Box<Delivery>,
        /// How it ended, with the counts of its bytes and misses.
        end: Ending,
    },
    /// A recording's reservation was granted.
    Reserved {
        /// As in the request.
        stream: StreamId,
        /// Give it to the store with the upload, and [`Command::Release`] it at the end.
        reservation: ReservationId,
        /// When it is to be written.
        place: RecordingPlace,
    },
    /// A recording's reservation was refused.
    ReserveRefused {
        /// As in the request.
        stream: StreamId,
        /// The reason, and the rate that would be granted.
        refusal: Refusal,
    },
    /// The content stored is in the buffers, or there was no room for it.
    Kept(Box<FreshContent>),
    /// The profile that was replaced by a new one, to be dropped; or the new one, which another of the same disk replaced before it was
    /// in force.
    Profiled {
        /// What is to be dropped.
        profile: Box<NewProfile>,
        /// The new profile is in force.
        is_in_force: bool,
    },
    /// The data plane reads this content no more: to be dropped where closing a file may take its time.
    Unused(Arc<Content>),
    /// Something happened that an operator should know (rate-limited by the data plane).
    Event(Event),
}

/// A profile for a disk, with a copy for each part of the plane that has one; on its way back, the profile that was replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct NewProfile {
    /// The disk.
    pub disk: DiskId,
    pub(crate) copies: [Option<DiskProfile>; 3],
}

impl NewProfile {
    /// A new profile of `disk`.
    #[must_use]
    pub fn new(disk: DiskId, profile: &DiskProfile) -> Self {
        Self { disk, copies: std::array::from_fn(|_| Some(profile.clone())) }
    }
}

/// One delivery: everything the data plane needs from start to end.
#[derive(Debug)]
pub struct Delivery {
    /// Chosen by the control plane, unique in the process.
    pub stream: StreamId,
    /// Where its bytes go.
    pub destination: DeliveryDestination,
    /// The link it leaves by.
    pub link: LinkId,
    /// The segments to send, in order: the response head, then ranges of the content, with multipart heads between
    /// them.
    pub segments: Arc<[Segment]>,
    /// The content the ranges are of.
    pub content: Arc<Content>,
    /// With a reservation, or best effort.
    pub service: Service,
    /// How long its request has waited by now: for the open of its content, for room.
    pub waited: Nanos,
}

/// Destination of the bytes of a delivery.
#[derive(Debug)]
pub enum DeliveryDestination {
    /// The client's socket, non-blocking, with its send buffer set (`SO_SNDBUF` = two ticks + 200 ms of the rate).
    Socket(OwnedFd),
    /// A task of this process.
    Outlet(Arc<Outlet>),
}

impl DeliveryDestination {
    /// The socket, if it is one.
    #[must_use]
    pub const fn socket(&self) -> Option<&OwnedFd> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Outlet(_) => None,
        }
    }

    /// The socket, if it is one.
    #[must_use]
    pub fn into_socket(self) -> Option<OwnedFd> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Outlet(_) => None,
        }
    }
}

/// How a delivery is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// At a guaranteed constant rate: admitted or refused.
    Constant {
        /// Payload bits per second.
        rate: BitRate,
        /// Bytes sent ahead of the rate at the start (the player's preroll), as fast as admission allows.
        burst_bytes: u64,
        /// A reservation held from an earlier request of the same session, to be used again instead of a new one.
        held: Option<ReservationId>,
        /// Keep the reservation when this delivery ends, unless its client stalled, its disk failed or its content
        /// changed (the session's next request will use it). The control plane must then release it.
        hold: bool,
    },
    /// A small read during the playback of a session, of its disk time: sound, subtitles, an index. Best effort, if the session
    /// has no share of that disk from which it can be read.
    Beside {
        /// The session's reservation.
        session: ReservationId,
    },
    /// Bulk and short probes: whatever disk time and network the constant-rate streams leave.
    BestEffort,
}

/// A request to reserve for a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingRequest {
    /// Chosen by the control plane; names the request in the answer.
    pub stream: StreamId,
    /// Where it will be written.
    pub disks: WrittenDisks,
    /// The link it comes in by.
    pub link: LinkId,
    /// Payload bits per second.
    pub rate: BitRate,
    /// The bytes received are to be durable after this time. At least three rounds are needed.
    pub durable: Nanos,
    /// Bytes that it gathers before they are written, at most, if it can be so few: as much as its buffers hold.
    pub block_bytes_max: u64,
}

/// How a delivery ended, with its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The reason.
    pub outcome: Outcome,
    /// Payload and literal bytes the socket took.
    pub sent_bytes: u64,
    /// Ticks with bytes that were not ready when they were due.
    pub misses: u64,
    /// From start to end.
    pub duration: Nanos,
    /// The reservation still held (only if the command set `hold` and the stream kept it).
    pub held: Option<ReservationId>,
}

/// Why a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All segments are in the socket. Only after this may the connection be kept alive.
    Complete,
    /// The client closed or reset the connection.
    ClientGone,
    /// The client did not read for longer than the configured time; with a rate, for ten times as long.
    ClientStalled,
    /// [`Command::Stop`] or shutdown.
    Stopped,
    /// The disk gave an error or no answer.
    DiskError,
    /// Its first bytes could not be there in the time that a start may take: nothing was sent.
    StartTooLate,
    /// The disk has become too slow for all that it had promised, and this stream was one of the youngest.
    DiskOverloaded,
    /// The file changed after it was opened (cut, or written to): nothing wrong was sent, the rest is missing.
    ContentChanged,
}

/// Something an operator should know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// A disk is marked failing: an error, or a request without an answer for longer than the deadline.
    DiskFailing {
        /// The disk.
        disk: DiskId,
        /// True if it does not answer, false if it answered with errors.
        hung: bool,
    },
    /// A failing disk answers again.
    DiskRecovered {
        /// The disk.
        disk: DiskId,
    },
    /// A disk has become slower than its profile by one level more; admission counts with this factor.
    DiskSlower {
        /// The disk.
        disk: DiskId,
        /// Observed over predicted service time.
        factor: f64,
    },
    /// A disk that was slower than its profile is so by one level less.
    DiskFaster {
        /// The disk.
        disk: DiskId,
        /// Observed over predicted service time.
        factor: f64,
    },
    /// A disk had less time than its streams need, and the youngest of them were ended.
    DiskOverloaded {
        /// The disk.
        disk: DiskId,
        /// Observed over predicted service time.
        factor: f64,
        /// Number of streams that were ended.
        ended: u64,
    },
    /// A stream's bytes were not ready when due.
    Miss {
        /// The stream.
        stream: StreamId,
        /// How late the block was.
        late: Nanos,
    },
}
