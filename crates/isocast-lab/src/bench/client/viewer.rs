//! One viewer: a stream asked for at a rate, and everything that is measured of it.

use std::net::SocketAddr;

use units::{BitRate, Nanos};

use super::connection::{BodyEnd, ConnectionState, ConnectionStep};
use super::grid::WindowGrid;
use super::head::RefusalReason;
use super::player::{Player, Stalls};

/// What is the same for every viewer of a run.
#[derive(Debug, Clone)]
pub(crate) struct ViewerTerms {
    /// Where the server listens.
    pub address: SocketAddr,
    /// The rate each stream asks for.
    pub rate: BitRate,
    /// Media a player wants before the first picture.
    pub start: Nanos,
    /// Media a player wants after a stall.
    pub rebuffer: Nanos,
    /// Receive buffer of a socket.
    pub buffer_bytes: usize,
}

/// How a stream ended up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamFate {
    /// Admitted, and delivered to the end of the run.
    Delivered,
    /// Refused at the start, with the status, why, and how long after it was asked for.
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

/// A stream while it runs.
pub(crate) struct BenchViewer {
    /// Its number in the run.
    pub index: usize,
    request: Vec<u8>,
    connection: ConnectionState,
    grid: WindowGrid,
    player: Option<Player>,
    requested: Nanos,
    first_byte: Option<Nanos>,
    restarts: u32,
    ended: Option<StreamFate>,
}

/// A stream after the run.
#[derive(Debug, Clone)]
pub(crate) struct StreamResult {
    /// Its number in the run.
    pub index: usize,
    /// How it ended up.
    pub fate: StreamFate,
    /// Its bytes per window.
    pub grid: WindowGrid,
    /// From the request to the first byte of the body.
    pub first_byte: Option<Nanos>,
    /// What its player went through.
    pub stalls: Stalls,
    /// How often the content was over and asked for again.
    pub restarts: u32,
}

impl BenchViewer {
    /// A viewer that will send `request`; its windows are those of `grid`.
    pub(crate) fn new(index: usize, request: String, grid: WindowGrid) -> Self {
        Self {
            index,
            request: request.into_bytes(),
            connection: ConnectionState::Idle,
            grid,
            player: None,
            requested: Nanos::ZERO,
            first_byte: None,
            restarts: 0,
            ended: None,
        }
    }

    /// Its connection, for the one who watches its socket.
    pub(crate) fn connection(&self) -> &ConnectionState {
        &self.connection
    }

    /// Connects; the request goes out as soon as the kernel says so.
    pub(crate) fn start(&mut self, terms: &ViewerTerms, now: Nanos) {
        self.requested = now;
        self.player = Some(Player::new(terms.rate, terms.start, terms.rebuffer, now));
        self.connect(terms);
    }

    /// Goes on up to the first byte of the body, seen at `now`.
    pub(crate) fn step(&mut self, now: Nanos) {
        match self.connection.step(&self.request) {
            ConnectionStep::Wait => {}
            ConnectionStep::FirstBytes { bytes } => {
                if self.first_byte.is_none() {
                    self.first_byte = Some(now.saturating_sub(self.requested));
                }
                self.count(now, now, bytes);
            }
            ConnectionStep::Refused { status, reason } if self.first_byte.is_none() => {
                let waited = now.saturating_sub(self.requested);
                self.ended = Some(StreamFate::Refused { status, reason, waited });
            }
            ConnectionStep::Refused { status, .. } => {
                self.ended = Some(StreamFate::Failed { reason: format!("asked again, the server answered {status}") });
            }
            ConnectionStep::Failed { reason } => self.ended = Some(StreamFate::Failed { reason }),
        }
    }

    /// Drops what has come of the body. What is read belongs to the window that ends at `due`; the player has it at
    /// `now`. Returns the bytes.
    pub(crate) fn sweep(&mut self, terms: &ViewerTerms, due: Nanos, now: Nanos, scratch: &mut [u8]) -> u64 {
        let drained = self.connection.drain(scratch);
        self.count(due, now, drained.bytes);
        if let Some(player) = &mut self.player {
            player.looked(now);
        }
        match drained.end {
            BodyEnd::More => {}
            BodyEnd::Over { keep_alive } => {
                self.restarts += 1;
                if keep_alive {
                    self.connection.ask_again();
                } else {
                    self.connect(terms);
                }
            }
            BodyEnd::Broken { reason } => self.ended = Some(StreamFate::Failed { reason }),
        }
        drained.bytes
    }

    /// Whether its player has run dry, as far as was seen at the last look.
    pub(crate) fn has_stalled(&self) -> bool {
        self.player.as_ref().is_some_and(Player::has_stalled)
    }

    /// The run is over at `now`.
    pub(crate) fn finish(self, now: Nanos) -> StreamResult {
        let fate = match self.ended {
            Some(fate) => fate,
            None if self.first_byte.is_some() => StreamFate::Delivered,
            None => StreamFate::Silent,
        };
        let stalls = self.player.map(|p| p.finish(now)).unwrap_or_default();
        let Self { index, grid, first_byte, restarts, .. } = self;
        StreamResult { index, fate, grid, first_byte, stalls, restarts }
    }

    fn connect(&mut self, terms: &ViewerTerms) {
        match ConnectionState::open(terms.address, terms.buffer_bytes) {
            Ok(connection) => self.connection = connection,
            Err(e) => {
                self.connection = ConnectionState::Done;
                self.ended = Some(StreamFate::Failed { reason: format!("connecting to {}: {e}", terms.address) });
            }
        }
    }

    fn count(&mut self, due: Nanos, now: Nanos, bytes: u64) {
        if bytes > 0 {
            self.grid.add(due, bytes);
            if let Some(player) = &mut self.player {
                player.arrived(now, bytes);
            }
        }
    }
}
