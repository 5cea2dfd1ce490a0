//! Streams under way, and the reasons for their rate and delay.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A stream under way (`GET /api/v1/streams`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Its number, unique in the process.
    pub id: u64,
    /// The content, below `/media/`.
    pub path: String,
    /// The client's address.
    pub client: String,
    /// Its direction.
    #[serde(default)]
    pub direction: Direction,
    /// Guaranteed, or at the rate that is left over.
    pub class: Class,
    /// Granted rate; zero for best effort.
    pub rate_bps: u64,
    /// Bytes the socket took; zero for a recording or an upload.
    pub sent_bytes: u64,
    /// Bytes of a recording or an upload that came; zero for a delivery.
    #[serde(default)]
    pub received_bytes: u64,
    /// True of a recording that was further ahead of its rate than it may be.
    #[serde(default)]
    pub over_rate: bool,
    /// J over windows of one second, mean since the start, in percent; null before the end of the first window.
    pub j_percent: Option<f64>,
    /// Ticks with bytes that were not ready.
    pub misses: u64,
    /// Bytes read ahead.
    pub buffered_bytes: u64,
    /// True while the client takes nothing.
    pub blocked: bool,
    /// The present cause of its delay; null while it is on time.
    #[serde(default)]
    pub held_up_by: Option<HeldUpBy>,
    /// The account for which it was admitted; null if it has none, or the reader may not see it.
    #[serde(default)]
    pub user: Option<String>,
    /// The disk it reads from or is written to.
    pub disk: u16,
    /// When it started, seconds since 1970.
    pub started: f64,
    /// The stream of the same viewer that took over its reservation; this one continues as best effort.
    #[serde(default)]
    pub passed_to: Option<u64>,
    /// The session that it is read in, once that has sent a content whole.
    #[serde(default)]
    pub session: Option<SessionFigures>,
}

/// A stream, and the reasons for its rate and its delay (`GET /api/v1/streams/{id}`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StreamExplanation {
    /// The stream.
    pub stream: Stream,
    /// The source of its rate.
    pub rate_from: RateOrigin,
    /// Its place, by age, among the streams with a rate on its disk: one that becomes too slow for all ends the youngest first. None for
    /// best effort.
    pub place: Option<StreamPlace>,
    /// The budgets that it is charged to.
    pub budgets: Vec<String>,
    /// All of it in English sentences.
    pub reasons: Vec<String>,
    /// The facts that these sentences state, in the same order.
    #[serde(default)]
    pub facts: Vec<StreamFact>,
}

/// A fact about the rate or the delay of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum StreamFact {
    /// It waits for its admission.
    Waits,
    /// It has no rate: it gets the bandwidth that streams with a rate leave.
    NoRate,
    /// There was no room at its rate, and its path is configured for best effort then.
    NoRoom {
        /// The source of that rate.
        from: RateOrigin,
    },
    /// A newer stream of its viewer took its rate over.
    PassedOn {
        /// The rate.
        rate_bps: u64,
        /// The newer stream.
        to: u64,
    },
    /// It has lost its rate, and gets it again when it is read and there is room.
    Lost {
        /// The rate.
        rate_bps: u64,
    },
    /// Its rate is reserved.
    Reserved {
        /// The rate.
        rate_bps: u64,
        /// The source of it.
        from: RateOrigin,
    },
    /// Its place, by age, among the streams with a rate on its disk: if that becomes too slow for all, the youngest end.
    Placed(StreamPlace),
    /// Its client takes nothing.
    ClientHolds,
    /// Bytes are due that its disk has not read.
    DiskHolds {
        /// Observed over predicted service time of the disk.
        slowdown: f64,
    },
    /// Nothing holds it up; its sender was ahead of its rate.
    Ahead,
    /// Nothing holds it up.
    OnTime {
        /// Ticks that were late.
        misses: u64,
    },
}

/// The source of a stream's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateOrigin {
    /// The request, or the signed link that it was made by.
    Request,
    /// The content needs it.
    Content,
    /// The setting of the content's path.
    Path,
    /// None: it gets what the streams with a rate leave.
    LeftOver,
}

/// A place among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamPlace {
    /// The place; the oldest has 1.
    pub place: u64,
    /// All of them.
    pub of: u64,
}

/// Deliveries of a session against its promised rate, over its contents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionFigures {
    /// Contents that were sent whole.
    pub contents: u64,
    /// By how much the last of them came later than it was due, s.
    pub lag_seconds: f64,
    /// The time by which they were late, in percent of the time that they last; none before the second.
    pub j_percent: Option<f64>,
}

/// The cause of a stream's delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HeldUpBy {
    /// Its client takes nothing.
    Client,
    /// The bytes that are due have not been read.
    Disk,
}

/// Direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To a client.
    #[default]
    Out,
    /// From a client: a recording, or an upload without a rate.
    In,
}

/// Guaranteed, or at the rate that is left over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// At a guaranteed rate.
    Constant,
    /// At the rate that is left over.
    BestEffort,
}
