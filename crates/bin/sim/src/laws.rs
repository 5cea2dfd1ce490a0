//! The laws: conditions that hold in every run, for any seed. A broken law ends the run with a sentence.
//!
//! Not here: the checks, which each part of the world makes, and the first broken law (`course`).

use std::fmt;

use units::Nanos;

/// A law of the schedule or the data plane, and the port's own contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// A socket gets exactly its stream's next bytes.
    NeverWrongBytes,
    /// A buffer has one owner.
    OneOwner,
    /// An admitted stream, with its own reads or as a follower, meets each deadline while its disk performs as its profile
    /// says.
    EveryDeadline,
    /// After a delay, the burst of a stream is bounded.
    BoundedCatchUp,
    /// Bytes sent, bursts and best effort included, are no more than the link carries.
    LinkCarries,
    /// No request is lost, completed twice, or served after its end.
    OncePerRequest,
    /// Every command gets a report, and every delivery ends once, with a reason.
    EveryEndHasAReason,
    /// Best effort gets the disk time that streams leave, and never starves.
    BestEffortLives,
    /// A disk is not idle while eligible work waits. Eligible are best-effort offers of a store thread without a grant (writes,
    /// probes, commits that an upload waits for or that are worth a flush), while no grant is out and no read of the disk is in
    /// flight. Bulk reads are not counted: their queue is inside the plane, out of sight of the simulator.
    NeverIdle,
    /// Reads in flight, grants, sends per socket and queues keep their bounds.
    QueueBounds,
    /// No best-effort work is done without a grant, and no grant is given while real-time reads are in flight.
    GrantsExclude,
    /// The loop does not spin: its next wake-up is not in the past twice in succession.
    NoSpinning,
    /// A stream sends its first byte within `first_byte_max`, or is refused.
    StartsInTime,
    /// An admitted session is late in none of its contents: no request is refused, each segment is whole at the time that the
    /// session's rate implies, and its player does not stall.
    SessionKeepsRate,
    /// A recording is written before its buffer is full.
    RecordingInTime,
    /// The bytes of a recording are durable within the time that its reservation states.
    DurableInTime,
    /// When a disk becomes too slow for its streams, the youngest end first.
    YoungestFirst,
    /// An assertion of the plane or the schedule failed.
    NoPanic,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverWrongBytes => "never wrong bytes",
            Self::OneOwner => "a buffer has one owner",
            Self::EveryDeadline => "an admitted stream meets each deadline",
            Self::BoundedCatchUp => "catch-up is bounded",
            Self::LinkCarries => "a link is sent no more than it carries",
            Self::OncePerRequest => "no request lost, doubled or served after its end",
            Self::EveryEndHasAReason => "every delivery ends once and for a reason",
            Self::BestEffortLives => "best effort never starves",
            Self::NeverIdle => "no idle disk while eligible work waits",
            Self::QueueBounds => "queues keep their bounds",
            Self::GrantsExclude => "a grant and real-time reads exclude each other",
            Self::NoSpinning => "the loop does not spin",
            Self::StartsInTime => "a stream starts in time or is refused",
            Self::SessionKeepsRate => "a session keeps its rate from one content to the next",
            Self::RecordingInTime => "a recording is written in time",
            Self::DurableInTime => "the bytes of a recording are soon durable",
            Self::YoungestFirst => "a disk that became too slow ends its youngest streams",
            Self::NoPanic => "no assertion fails",
        })
    }
}

/// A law that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLaw {
    /// The law that was broken.
    pub law: Law,
    /// When, in virtual time.
    pub at: Nanos,
    /// The values that broke the law.
    pub description: String,
}

impl fmt::Display for BrokenLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms: {}: {}", self.at.as_millis_f64(), self.law, self.description)
    }
}

/// Whether a law holds; if not, which, and how it was broken.
pub(crate) type Judgement = Result<(), (Law, String)>;
