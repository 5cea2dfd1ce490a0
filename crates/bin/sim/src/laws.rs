//! The laws: conditions that hold in every run, whatever the seed. A broken one ends the run with its sentence.
//!
//! Not here: the judges, which are the parts of the world, and the first law that was broken (`course`).

use std::fmt;

use units::Nanos;

/// A law of the schedule or the data plane, and the port's own contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// A socket gets exactly its stream's next bytes.
    NeverWrongBytes,
    /// A buffer has one owner.
    OneOwner,
    /// An admitted stream, whether it reads for itself or shares another's reads, meets each deadline while its disk obeys its
    /// profile.
    EveryDeadline,
    /// After a delay a stream is given no unbounded burst.
    BoundedCatchUp,
    /// Bytes sent, bursts and best effort included, are no more than the link carries.
    LinkCarries,
    /// No request lost, doubled, or served after its end.
    OncePerRequest,
    /// Every command is answered, every delivery comes back once and for a reason.
    EveryEndHasAReason,
    /// Best effort gets the time that is left, and never starves.
    BestEffortLives,
    /// A disk is not idle while work waits: best-effort offers of a store thread without a grant (writes, probes, commits that
    /// an upload waits for or that are worth a flush), while no grant and no read of the disk's contents is out. Bulk reads are
    /// not counted: their waiting does not cross the port.
    NeverIdle,
    /// Reads in flight, grants, sends per socket and queues keep their bounds.
    QueueBounds,
    /// No best-effort work without a grant, no grant while real-time reads are out.
    GrantsExclude,
    /// The loop does not spin: its next wake-up is not in the past twice running.
    NoSpinning,
    /// A stream has its first byte within the time to first byte, or is refused.
    StartsInTime,
    /// An admitted session falls behind in none of its contents: its requests are not refused, each segment is whole when the
    /// session's rate has it, and its player does not stall.
    SessionKeepsRate,
    /// A recording is written before its buffer is full.
    RecordingInTime,
    /// The bytes of a recording are durable within the time that was stated.
    DurableInTime,
    /// Of the streams of a disk that became too slow for all, the youngest end.
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
    /// Description of the breach.
    pub description: String,
}

impl fmt::Display for BrokenLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms: {}: {}", self.at.as_millis_f64(), self.law, self.description)
    }
}

/// Whether a law holds; if not, which, and how it was broken.
pub(crate) type Judgement = Result<(), (Law, String)>;
