//! A stream after the run: how it ended, and everything that was measured of it.

use units::Nanos;

use super::grid::WindowGrid;
use super::head::RefusalReason;
use super::player::Stalls;

/// End of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamFate {
    /// Admitted, and delivered to the end of the run.
    Delivered,
    /// Refused at the start, with the status, the reason, and the time since its request.
    Refused { status: u16, reason: RefusalReason, waited: Nanos },
    /// Not one byte came before the end of the run.
    Silent,
    /// Broken; why.
    Failed { reason: String },
}

impl StreamFate {
    /// Whether the server said no.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// A stream after the run.
#[derive(Debug, Clone)]
pub(crate) struct StreamResult {
    /// Its number in the run.
    pub index: usize,
    /// End of the stream.
    pub fate: StreamFate,
    /// Its bytes per window.
    pub grid: WindowGrid,
    /// From the request to the first byte of the body.
    pub first_byte: Option<Nanos>,
    /// Stalls of its player.
    pub stalls: Stalls,
    /// Times that the content was over and requested again.
    pub restarts: u32,
    /// Its pauses and seeks.
    pub actions: ViewerActions,
}

/// Pauses and seeks of one viewer, with their results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ViewerActions {
    /// Number of pauses.
    pub pauses: u64,
    /// Number of seeks.
    pub seeks: u64,
    /// Whether it was refused at the last of them; it is gone then.
    pub refused: bool,
    /// From each of the others to its first byte; of a request that still waited when the run ended, its wait.
    pub first_bytes: Vec<Nanos>,
}
