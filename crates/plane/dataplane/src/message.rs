//! Messages between the three parts of the plane.
//!
//! The *admitter* admits or refuses streams, the *fetcher* has the disks and the buffers, the *pacer* the streams and
//! their sockets. Each owns its state alone; the plane carries their messages in the order in which they were sent. A part
//! knows another only by its messages. Decision 0036 lists the promises of each.

use std::sync::Arc;

use content::{Content, Segment};
use schedule::admission::start_cost::StartConditions;
use schedule::disk::health::DiskCondition;
use schedule::pace::Pace;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId};

use crate::control::{Delivery, Outcome, Refusal};
use crate::cursor::Cursor;

/// The group that a stream is to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharingGroup {
    pub(crate) leader: u32,
    /// Bytes from the new stream's first byte to the leader's next one to send.
    pub(crate) behind_bytes: u64,
    /// Pages that the leader holds for its group then.
    pub(crate) pages: u64,
    /// The longest start burst with which it does not need pages that the leader was not to read.
    pub(crate) burst_bytes: u64,
}

/// A constant rate, as the disks need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadRate {
    pub(crate) rate: BitRate,
    pub(crate) burst_bytes: u64,
    /// Rounds between its reads.
    pub(crate) period: u32,
    /// All of it is read in one block, by the clock of its session.
    pub(crate) whole: bool,
}

/// When a block shall be in the buffers, and when all of it shall have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockTimes {
    pub(crate) read_by: Nanos,
    /// A block that is in the buffers later than this is sent later than promised: the time kept for two sends is not needed if it comes
    /// before its first one.
    pub(crate) late_from: Nanos,
    pub(crate) sent_by: Nanos,
    /// Its session begins with it.
    pub(crate) is_first: bool,
}

/// When a reservation was given its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacedStart {
    /// The present round.
    pub(crate) round: u64,
    /// That of its first regular read.
    pub(crate) first_round: u64,
    /// Its times, by the clock of its session, if it is read in one block.
    pub(crate) block: Option<BlockTimes>,
}

/// To the admitter; all of them come from the fetcher.
#[derive(Debug)]
pub(crate) enum ToAdmitter {
    /// The group that a new delivery can join, whether all of it lies in the buffers, and whether its files can be opened.
    Found { delivery: Box<Delivery>, group: Option<SharingGroup>, is_buffered: bool, has_room: bool },
    /// A stream needs no disk to start, or shares the reads of another.
    Started { slot: u32 },
    /// A stream needs disk time for its start.
    Waits { slot: u32, conditions: StartConditions },
    /// A round of a disk began; the conditions of a start in it.
    Round { disk: DiskId, conditions: StartConditions },
    /// The first reads of a waiting stream are requested; the conditions of the next start.
    Begun { disk: DiskId, conditions: StartConditions },
    /// A stream has no first byte after the time to first byte.
    StartsTooLate { slot: u32 },
    /// A leader holds so many pages for its group.
    Charge { leader: u32, pages: u64 },
    /// A stream reads for its group in another's place.
    HandOver { from: u32, to: u32 },
    /// A stream that shared another's reads needs its own disk time, or else is served as best effort.
    NeedsOwn { slot: u32, conditions: StartConditions },
    /// A stream is read for as best effort.
    Demoted { slot: u32, at: Nanos },
    /// A stream that was demoted asks for a reservation again.
    AsksBack { slot: u32, conditions: StartConditions },
    /// A stream has nothing more of disks and buffers.
    Left { slot: u32, may_hold: bool },
    /// The condition of a disk from now on.
    Condition { disk: DiskId, condition: DiskCondition },
    /// A stream is listed at another disk.
    Moved { slot: u32, disk: DiskId },
    /// A stream reads from other disks than before, and needs their time.
    ReadsElsewhere { slot: u32 },
    /// A recording is written to this place of a disk from now on.
    Written { disk: DiskId, reservation: ReservationId, position: u64 },
    /// The slowdown of a disk, and whether it has lost enough time that its streams may have to end.
    Speed { disk: DiskId, factor: f64, is_behind: bool },
    /// A stream of a disk that is too slow gives its disk time back at once.
    Overloaded { slot: u32 },
}

/// To the fetcher.
#[derive(Debug)]
pub(crate) enum ToFetcher {
    /// From the admitter: which group can it join?
    Find { delivery: Box<Delivery> },
    /// From the admitter: a stream begins. With a rate it waits for its start, unless it needs no disk for it.
    Begin {
        slot: u32,
        content: Arc<Content>,
        segments: Arc<[Segment]>,
        rate: Option<ReadRate>,
        disk: DiskId,
        group: Option<SharingGroup>,
        /// How many reservations were made before its own.
        age: u64,
    },
    /// From the admitter: read its first bytes.
    Start { slot: u32, start: PlacedStart },
    /// From the admitter: a stream that was demoted has a reservation again.
    Promote { slot: u32, rate: ReadRate, start: PlacedStart, age: u64 },
    /// From the admitter: a stream reads for itself from now on.
    ReadAlone { slot: u32, period: u32, start: PlacedStart },
    /// From the admitter: the buffers of a stream's start burst are needed for others.
    EndBurst { slot: u32 },
    /// From the admitter or the pacer: a stream has lost its reservation.
    Demote { slot: u32, at: Nanos },
    /// From the admitter: for how long best effort may continue, by the disk's promises.
    CarryHeadroom { disk: DiskId, headroom: Nanos },
    /// From the admitter: the share of a disk's time that best effort has.
    BeShare { disk: DiskId, share: f64 },
    /// From the admitter: a disk has promised more than it can do; its youngest stream is to end.
    Shed { disk: DiskId },
    /// From the pacer: how far a stream was sent, at the end of each send.
    Sent { slot: u32, cursor: Cursor },
    /// From the pacer: a stream's clock.
    Paced { slot: u32, pace: Pace },
    /// From the pacer: a stream began to run.
    Running { slot: u32 },
    /// From the pacer: a stream's tick in which it was sent nothing, at least not yet.
    SentNothing { slot: u32 },
    /// From the pacer: a best-effort delivery may read ahead; whether others hold nothing and find no page.
    Want { slot: u32, pages_short: bool },
    /// From the pacer: a client takes nothing, and its stream holds nothing until it does.
    Park { slot: u32 },
    /// From the pacer: a demoted stream's client reads again.
    ReserveAgain { slot: u32 },
    /// From the pacer: a stream ends as soon as its socket lets it; the streams that share its reads continue without
    /// it.
    Ending { slot: u32 },
    /// From the pacer: a stream ended.
    Leave { slot: u32, may_hold: bool },
}

/// To the pacer.
#[derive(Debug)]
pub(crate) enum ToPacer {
    /// From the admitter: a stream begins, which is listed at this disk.
    Begin { slot: u32, delivery: Box<Delivery>, disk: DiskId },
    /// From the admitter: the payload rate of a link.
    Link { link: LinkId, payload: BitRate },
    /// From the admitter: a stream is best effort from now on; whether it may ask for its reservation again.
    Demoted { slot: u32, at: Nanos, asks_back: bool },
    /// From the admitter: a stream has a reservation again, and its clock begins anew.
    Promoted { slot: u32 },
    /// From the admitter: a stream's start burst ends where it is.
    EndBurst { slot: u32 },
    /// From the admitter: a stream that waited for its start is refused.
    Refuse { slot: u32, refusal: Refusal },
    /// From the admitter: everything of an ended stream was given back but the reservation `held`.
    Left { slot: u32, held: Option<ReservationId> },
    /// From the fetcher: up to this payload, pages are held for a stream.
    Fetched { slot: u32, payload: u64 },
    /// From the fetcher: the end of the readable payload of a stream, and the outcome with which it ends there.
    Cut { slot: u32, payload: u64, outcome: Outcome },
    /// From the fetcher: the first bytes of a stream are there; of a block, all of it.
    Run { slot: u32, block: Option<BlockTimes> },
    /// From the fetcher: the possible read-ahead of a best-effort delivery was requested; false if it holds nothing and there is no
    /// page.
    Continue { slot: u32, has_pages: bool },
    /// From the fetcher, the bytes for which a best-effort delivery waits may be there; from the admitter, a stream did
    /// not get its reservation back.
    Wake { slot: u32 },
    /// From the fetcher or the admitter: end this stream.
    Finish { slot: u32, outcome: Outcome },
}

/// A message on its way.
#[derive(Debug)]
pub(crate) enum PartMessage {
    Admitter(ToAdmitter),
    Fetcher(ToFetcher),
    Pacer(ToPacer),
}
