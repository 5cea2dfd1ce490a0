//! One viewer: requests a stream at a rate, reads it, and measures it.

use std::net::SocketAddr;

use units::{BitRate, Nanos};

use super::connection::{BodyEnd, ConnectionState, ConnectionStep};
use super::grid::WindowGrid;
use super::habits::{self, PAUSE, SETTLE, ViewerAction};
use super::head::{self, RefusalReason};
use super::player::Player;
use super::result::{StreamFate, StreamResult, ViewerActions};
use super::socket::SealedAddress;

/// Settings that all viewers of a run share.
#[derive(Debug, Clone)]
pub(crate) struct ViewerTerms {
    /// Address of the server.
    pub address: SocketAddr,
    /// Address of the server with TLS, if streams are read over TLS.
    pub sealed: Option<SealedAddress>,
    /// The rate each stream requests.
    pub rate: BitRate,
    /// Media that a player holds before the first picture.
    pub start: Nanos,
    /// Media that a player holds to continue after a stall.
    pub rebuffer: Nanos,
    /// Receive buffer of a socket.
    pub buffer_bytes: usize,
}

/// Activity of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ViewerState {
    /// Reads, or waits for the first byte.
    Watching,
    /// Is paused, and reads nothing.
    Paused { since: Nanos },
    /// Has sought; waits for the first byte of the new range.
    Seeking { since: Nanos },
    /// A seek was refused.
    Gone,
}

/// A viewer, its connection and its player.
pub(crate) struct BenchViewer {
    /// Its number in the run.
    pub index: usize,
    /// The request for the whole content.
    whole: String,
    /// The request that was sent last.
    request: Vec<u8>,
    /// Bytes of the content, once the head of the first answer has come.
    content_bytes: u64,
    state: ViewerState,
    /// Its future actions, the latest first, each with its time since the viewer's beginning.
    to_do: Vec<(Nanos, ViewerAction)>,
    done: ViewerActions,
    connection: ConnectionState,
    grid: WindowGrid,
    player: Option<Player>,
    requested: Nanos,
    first_byte: Option<Nanos>,
    restarts: u32,
    ended: Option<StreamFate>,
}

impl BenchViewer {
    /// A viewer that will send `request` and perform the actions of `to_do`, the latest first; `grid` has the windows of its J.
    pub(crate) fn new(index: usize, request: String, grid: WindowGrid, to_do: Vec<(Nanos, ViewerAction)>) -> Self {
        Self {
            index,
            request: request.clone().into_bytes(),
            whole: request,
            content_bytes: 0,
            state: ViewerState::Watching,
            to_do,
            done: ViewerActions::default(),
            connection: ConnectionState::Idle,
            grid,
            player: None,
            requested: Nanos::ZERO,
            first_byte: None,
            restarts: 0,
            ended: None,
        }
    }

    /// The connection, whose socket the caller adds to its epoll set.
    pub(crate) fn connection(&self) -> &ConnectionState {
        &self.connection
    }

    /// Connects; sends the request as soon as the socket is writable.
    pub(crate) fn start(&mut self, terms: &ViewerTerms, now: Nanos) {
        self.requested = now;
        self.player = Some(Player::new(terms.rate, terms.start, terms.rebuffer, now));
        self.connect(terms);
    }

    /// Continues the request up to the first byte of the body, seen at `now`.
    pub(crate) fn step(&mut self, now: Nanos) {
        match self.connection.step(&self.request) {
            ConnectionStep::Wait => {}
            ConnectionStep::FirstBytes { bytes } => {
                if self.first_byte.is_none() {
                    self.first_byte = Some(now.saturating_sub(self.requested));
                    self.content_bytes = bytes.saturating_add(self.connection.remaining());
                }
                if let ViewerState::Seeking { since } = self.state {
                    self.done.first_bytes.push(now.saturating_sub(since));
                    self.grid.leave_out(since, now.saturating_add(SETTLE));
                    self.state = ViewerState::Watching;
                }
                self.count(now, now, bytes);
            }
            ConnectionStep::Refused { status, reason } => self.refused(status, reason, now),
            ConnectionStep::Failed { reason } => self.ended = Some(StreamFate::Failed { reason }),
        }
    }

    /// Reads and drops the received bytes of the body, unless the viewer is paused. The bytes count in the window that ends at
    /// `due`, and for the player at `now`. Returns their number.
    pub(crate) fn sweep(&mut self, terms: &ViewerTerms, due: Nanos, now: Nanos, scratch: &mut [u8]) -> u64 {
        if let ViewerState::Paused { since } = self.state {
            if now < since.saturating_add(PAUSE) {
                return 0;
            }
            self.grid.leave_out(since, now.saturating_add(SETTLE));
            self.play_on(since, now);
            self.state = ViewerState::Watching;
        }
        let drained = self.connection.drain(scratch);
        self.count(due, now, drained.bytes);
        if let Some(player) = &mut self.player {
            player.looked(now);
        }
        match drained.end {
            BodyEnd::More => self.act(terms, now),
            // It had sought and reached the end of the content: it continues at the beginning.
            BodyEnd::Over { .. } if self.done.seeks > 0 => self.seek(0, terms, now),
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

    /// True if its player has run dry by the last sweep.
    pub(crate) fn has_stalled(&self) -> bool {
        self.player.as_ref().is_some_and(Player::has_stalled)
    }

    /// Ends the viewer at `now`, and returns its results.
    pub(crate) fn finish(mut self, now: Nanos) -> StreamResult {
        match self.state {
            ViewerState::Watching | ViewerState::Gone => {}
            ViewerState::Paused { since } => {
                self.grid.leave_out(since, Nanos::MAX);
                self.play_on(since, now);
            }
            ViewerState::Seeking { since } => {
                self.grid.leave_out(since, Nanos::MAX);
                self.done.first_bytes.push(now.saturating_sub(since));
            }
        }
        let fate = match self.ended {
            Some(fate) => fate,
            None if self.first_byte.is_some() => StreamFate::Delivered,
            None => StreamFate::Silent,
        };
        let stalls = self.player.map(|p| p.finish(now)).unwrap_or_default();
        let Self { index, grid, first_byte, restarts, done: actions, .. } = self;
        StreamResult { index, fate, grid, first_byte, stalls, restarts, actions }
    }

    /// Performs the next action if it is due by `now`.
    fn act(&mut self, terms: &ViewerTerms, now: Nanos) {
        let Some((_, action)) = self.to_do.pop_if(|(at, _)| self.requested.saturating_add(*at) <= now) else { return };
        match action {
            ViewerAction::Pause => {
                self.done.pauses += 1;
                self.state = ViewerState::Paused { since: now };
            }
            ViewerAction::Seek { place } => {
                self.seek(habits::first_byte_of(place, self.content_bytes, terms.rate), terms, now);
            }
        }
    }

    /// Continues at `now` after a pause.
    fn play_on(&mut self, since: Nanos, now: Nanos) {
        if let Some(player) = &mut self.player {
            player.paused(now.saturating_sub(since));
        }
    }

    /// Handles a refusal: at the start the stream is refused, at a seek the viewer leaves, and at the repetition of a content
    /// the stream has failed.
    fn refused(&mut self, status: u16, reason: RefusalReason, now: Nanos) {
        match self.state {
            ViewerState::Seeking { since } if status == 503 => {
                self.grid.leave_out(since, Nanos::MAX);
                self.done.refused = true;
                self.state = ViewerState::Gone;
            }
            _ if self.first_byte.is_none() => {
                let waited = now.saturating_sub(self.requested);
                self.ended = Some(StreamFate::Refused { status, reason, waited });
            }
            _ => {
                self.ended = Some(StreamFate::Failed { reason: format!("asked again, the server answered {status}") });
            }
        }
    }

    /// Closes the connection and requests the content from byte `from` on a new one.
    fn seek(&mut self, from: u64, terms: &ViewerTerms, now: Nanos) {
        self.done.seeks += 1;
        self.state = ViewerState::Seeking { since: now };
        self.request = head::from(&self.whole, from).into_bytes();
        if let Some(player) = &mut self.player {
            player.sought(now);
        }
        self.connect(terms);
    }

    fn connect(&mut self, terms: &ViewerTerms) {
        match ConnectionState::open(terms.address, terms.sealed.as_ref(), terms.buffer_bytes) {
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_viewer_that_pauses_reads_nothing_and_its_windows_are_in_no_j() {
        let s = Nanos::from_secs;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let rate = BitRate(8_000);
        let terms = ViewerTerms { address, sealed: None, rate, start: s(2), rebuffer: s(1), buffer_bytes: 1 << 16 };
        let to_do = vec![(s(3), ViewerAction::Pause)];
        let mut viewer = BenchViewer::new(0, "GET / HTTP/1.1\r\n\r\n".to_owned(), WindowGrid::new(s(0), 60), to_do);
        viewer.start(&terms, s(0));
        let (mut server, _) = listener.accept().unwrap();
        let mut sent = "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n".to_owned().into_bytes();
        sent.extend([0; 3_000]);
        server.write_all(&sent).unwrap();
        while !matches!(viewer.connection(), ConnectionState::Body { .. }) {
            viewer.step(s(1));
            std::thread::yield_now();
        }
        let mut scratch = vec![0; 1 << 16];
        while viewer.grid.total() < 3_000 {
            viewer.sweep(&terms, s(2), s(2), &mut scratch);
        }
        assert_eq!(viewer.sweep(&terms, s(3), s(3), &mut scratch), 0);
        assert_eq!(viewer.state, ViewerState::Paused { since: s(3) });
        server.write_all(&[0; 1_000]).unwrap();
        assert_eq!(viewer.sweep(&terms, s(22), s(22), &mut scratch), 0, "it reads nothing");
        while viewer.grid.total() < 4_000 {
            viewer.sweep(&terms, s(23), s(23), &mut scratch);
        }
        let result = viewer.finish(s(24));
        assert_eq!((result.actions.pauses, result.stalls.count, result.fate), (1, 0, StreamFate::Delivered));
        let left_out: Vec<usize> = (0..60).filter(|&n| result.grid.long(n).is_none()).collect();
        assert!(left_out.iter().copied().eq(3..25), "{left_out:?}");
    }
}
