//! Zero-copy sends (`SEND_ZC`), on the routes where they are.
//!
//! Whether a send is zero-copy is the route's affair: loopback, veth and a card without scatter-gather copy after all,
//! and then it costs more than a plain send (on loopback 1.6 times as much). The kernel reports which it was. So the
//! first send of a route is a probe, one at a time, and the first copy reported ends zero-copy on it for good.
//!
//! Memory of a zero-copy send is the kernel's until the peer has acknowledged it. The send counts as in flight until
//! then; a socket whose peer takes long to acknowledge goes back to plain sends.
//!
//! Promise: nothing is allocated after `new`; a completion is told once, when the memory is free again. Not here:
//! memory that several streams send (`lend`).

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use dataplane::port::Token;
use units::{Nanos, limits};

/// Below this a copy is cheaper than pinning pages and a second completion (kernel documentation, `MSG_ZEROCOPY`: about
/// 10 kB; here with the bookkeeping beside it).
pub(crate) const BYTES_MIN: u32 = 32 * 1024;
/// A peer that acknowledges later than this would hold up its stream's next tick.
const ACKNOWLEDGE_MAX: Nanos = Nanos::from_millis(20);
/// `IORING_SEND_ZC_REPORT_USAGE` and `IORING_NOTIF_USAGE_ZC_COPIED` of `<linux/io_uring.h>` (Linux 6.2).
pub(crate) const REPORT_USAGE: u16 = 1 << 3;
const COPIED: u32 = 1 << 31;

/// What is known of a route: the local address, which stands for the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing yet; `true` while a probe is out.
    Unknown(bool),
    /// The kernel did not copy.
    Works,
    /// It did.
    Copies,
}

/// A zero-copy send that is out.
#[derive(Debug, Clone, Copy)]
struct Out {
    token: Token,
    route: u8,
    since: Nanos,
    /// What the send said; the memory is still the kernel's.
    result: Option<i32>,
}

/// What became of a zero-copy send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) token: Token,
    pub(crate) result: i32,
    /// The peer took too long: plain sends from now on.
    pub(crate) late: bool,
    /// The kernel copied.
    pub(crate) copied: bool,
}

/// The routes, and what is out on them.
#[derive(Debug)]
pub(crate) struct ZeroCopy {
    routes: Vec<(IpAddr, State)>,
    out: Box<[Option<Out>]>,
}

impl ZeroCopy {
    pub(crate) fn new() -> Self {
        let out = vec![None; limits::STREAMS_MAX].into_boxed_slice();
        Self { routes: Vec::with_capacity(limits::LINKS_MAX), out }
    }

    /// The route of a socket; none if there are too many, or it copies.
    pub(crate) fn route_of(&mut self, socket: &OwnedFd) -> Option<u8> {
        let local = std::net::SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?.ip();
        let known = self.routes.iter().position(|(address, _)| *address == local);
        let at = match known {
            Some(at) => at,
            None if self.routes.len() < limits::LINKS_MAX => {
                self.routes.push((local, State::Unknown(false)));
                self.routes.len() - 1
            }
            None => return None,
        };
        let worth = self.routes[at].1 != State::Copies;
        worth.then(|| u8::try_from(at).expect("few routes"))
    }

    /// True if the next send of `socket` shall be zero-copy; it is then out.
    pub(crate) fn begin(&mut self, socket: usize, route: u8, token: Token, now: Nanos) -> bool {
        let state = &mut self.routes[usize::from(route)].1;
        match *state {
            State::Works => {}
            State::Unknown(false) => *state = State::Unknown(true),
            State::Unknown(true) | State::Copies => return false,
        }
        debug_assert!(self.out[socket].is_none(), "one send per socket");
        self.out[socket] = Some(Out { token, route, since: now, result: None });
        true
    }

    /// A completion of the send of `socket`: the send's own (`more` if the memory's follows), or the memory's.
    pub(crate) fn completed(
        &mut self,
        socket: usize,
        result: i32,
        notification: bool,
        more: bool,
        now: Nanos,
    ) -> Option<Done> {
        let out = self.out[socket].as_mut()?;
        if !notification && more {
            out.result = Some(result);
            return None;
        }
        let out = self.out[socket].take()?;
        let state = &mut self.routes[usize::from(out.route)].1;
        let said = out.result.unwrap_or(result);
        // Nothing was sent: the probe told nothing.
        let proves = notification && said > 0;
        let copied = proves && result.cast_unsigned() & COPIED != 0;
        match *state {
            State::Unknown(_) | State::Works if copied => *state = State::Copies,
            State::Unknown(_) => *state = if proves { State::Works } else { State::Unknown(false) },
            State::Works | State::Copies => {}
        }
        let late = now.saturating_sub(out.since) > ACKNOWLEDGE_MAX;
        Some(Done { token: out.token, result: said, late, copied })
    }

    /// The socket whose send has this token, and whether only the peer's acknowledgement is missing.
    pub(crate) fn find(&self, token: Token) -> Option<(usize, bool)> {
        let at = self.out.iter().position(|out| out.is_some_and(|out| out.token == token))?;
        Some((at, self.out[at].is_some_and(|out| out.result.is_some())))
    }
}

/// Makes the kernel let go of what a peer does not acknowledge: the connection is reset (`connect(2)`, `AF_UNSPEC`).
pub(crate) fn reset(socket: RawFd) {
    // SAFETY: the plane keeps the descriptor open while a send of it is out, and this call does not outlive it.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    // Refused only if the connection is gone already.
    let _ = rustix::net::connect_unspec(socket);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1);

    fn on_one_route() -> ZeroCopy {
        let mut zero_copy = ZeroCopy::new();
        zero_copy.routes.push((IpAddr::from([10, 0, 0, 1]), State::Unknown(false)));
        zero_copy
    }

    #[test]
    fn one_probe_decides_and_a_copy_ends_it() {
        let mut zero_copy = on_one_route();
        assert!(zero_copy.begin(7, 0, Token(1), NOW));
        assert!(!zero_copy.begin(8, 0, Token(2), NOW), "one probe at a time");
        assert_eq!(zero_copy.find(Token(1)), Some((7, false)));
        assert_eq!(zero_copy.completed(7, 40_000, false, true, NOW), None, "the memory is still the kernel's");
        assert_eq!(zero_copy.find(Token(1)), Some((7, true)));
        let done = Done { token: Token(1), result: 40_000, late: false, copied: false };
        assert_eq!(zero_copy.completed(7, 0, true, false, NOW), Some(done));
        assert!(zero_copy.begin(7, 0, Token(3), NOW) && zero_copy.begin(8, 0, Token(4), NOW), "it works");
        zero_copy.completed(7, 40_000, false, true, NOW);
        let copied = zero_copy.completed(7, i32::MIN, true, false, NOW).expect("the memory is free");
        assert!(copied.copied && copied.result == 40_000);
        assert!(!zero_copy.begin(7, 0, Token(5), NOW), "and never again on this route");
    }

    #[test]
    fn a_send_that_failed_tells_nothing_of_its_route() {
        let mut zero_copy = on_one_route();
        assert!(zero_copy.begin(7, 0, Token(1), NOW));
        let done = zero_copy.completed(7, -libc::ECANCELED, false, false, NOW).expect("no notification follows");
        assert_eq!((done.result, done.copied), (-libc::ECANCELED, false));
        assert!(zero_copy.begin(7, 0, Token(2), NOW), "so the next one is a probe");
        zero_copy.completed(7, -libc::EPIPE, false, true, NOW);
        assert_eq!(zero_copy.completed(7, i32::MIN, true, false, NOW).map(|d| d.copied), Some(false));
        assert!(zero_copy.begin(7, 0, Token(3), NOW));
    }

    #[test]
    fn a_peer_that_acknowledges_late_is_noticed() {
        let mut zero_copy = on_one_route();
        assert!(zero_copy.begin(7, 0, Token(1), NOW));
        zero_copy.completed(7, 40_000, false, true, NOW);
        let late = NOW.saturating_add(Nanos::from_millis(50));
        assert_eq!(zero_copy.completed(7, 0, true, false, late).map(|done| done.late), Some(true));
    }
}
