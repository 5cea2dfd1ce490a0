//! Sessions: the requests of one viewer together hold one stream.
//!
//! Promise: pure (the time is an argument) and bounded. A reservation in the table is in exactly one lane; each one
//! taken in is given out once: to a request that uses it again, or to be released. Who was let in as a newcomer comes
//! before newcomers once more when its hold ran out; not who was let in so.
//! Not here: telling the plane (`session_table`), who a viewer is (the front ends).

use std::collections::HashMap;
use std::net::IpAddr;

use dataplane::control::Standing;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId};

use crate::config::SessionConfig;
use crate::returns::{Precedence, Returns};

/// Streams one session can hold: video, sound, and others beside them.
pub const LANES_MAX: usize = 4;
/// What was read to the end of its content is held only so long, if that is shorter than the configured time: enough for
/// a player that read the index there, or whose viewer goes back; a download is over.
pub const AFTER_END: Nanos = Nanos::from_secs(5);

/// Who watches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// Names itself: by whatever its protocol has for it.
    Named(String),
    /// Does not: its address, program and content stand for it.
    Guessed {
        /// Its address.
        address: IpAddr,
        /// Hash of its User-Agent.
        agent: u64,
        /// Hash of the content's path.
        content: u64,
    },
}

/// A request for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// By whom.
    pub viewer: Viewer,
    /// Its number.
    pub stream: StreamId,
    /// Hash of the content's path.
    pub content: u64,
    /// What it asks for.
    pub terms: Terms,
}

/// What a reservation was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The disk.
    pub disk: DiskId,
    /// The link.
    pub link: LinkId,
    /// The rate.
    pub rate: BitRate,
    /// The start burst, which is buffers.
    pub burst_bytes: u64,
}

impl Terms {
    /// True if who has these has those as well.
    #[must_use]
    pub fn cover(&self, other: &Self) -> bool {
        let place = (self.disk, self.link) == (other.disk, other.link);
        place && self.rate >= other.rate && self.burst_bytes >= other.burst_bytes
    }

    /// True if a stream may go on with what was reserved for the other; the plane looks at the bursts.
    fn fit(&self, other: &Self) -> bool {
        (self.disk, self.link, self.rate) == (other.disk, other.link, other.rate)
    }
}

/// What a request for a stream is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Ask for a new reservation; the session keeps it afterwards.
    New(Standing),
    /// Use this one again.
    Reuse(ReservationId),
    /// Release this one (it does not fit), then ask for a new one.
    Replace(ReservationId, Standing),
    /// Stop this stream, wait for its end, then ask again: the viewer has moved on.
    Supersede(StreamId),
    /// Ask for a new reservation that is not kept: the tables are full.
    Apart,
}

/// Where a read ended in its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOff {
    /// Before the end: its viewer seeks or pauses.
    Midway,
    /// At the end.
    AtEnd,
}

/// What is left of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It never had a reservation: it was refused, or ended before.
    Unstarted,
    /// Its reservation.
    Held(ReservationId, LeftOff),
    /// Nothing: its client paused by taking nothing, until the plane took the reservation back.
    GivenUp,
    /// Nothing: its disk or its content failed.
    Nothing,
}

/// What a viewer may claim when a reservation of its runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It was let in as a newcomer: precedence.
    Earned,
    /// It asks by precedence, which it keeps if it is not let in.
    Asked(Precedence),
    /// It was let in by precedence: nothing.
    Used,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Running { stream: StreamId, content: u64, terms: Terms, claim: Claim },
    Held { reservation: ReservationId, terms: Terms, since: Nanos, left_off: LeftOff, claim: Claim },
}

/// What a viewer runs and holds.
#[derive(Debug, Default)]
struct Session {
    lanes: Vec<Lane>,
    /// The content asked for last.
    content: Option<u64>,
    /// It went from one content to another, as players of segments do: the end of one is not the end of what it watches.
    goes_on: bool,
}

/// All sessions that run or hold something.
#[derive(Debug)]
pub struct Sessions {
    config: SessionConfig,
    table: HashMap<Viewer, Session>,
    returns: Returns,
}

impl Sessions {
    /// No sessions.
    #[must_use]
    pub fn new(config: SessionConfig) -> Self {
        Self { config, table: HashMap::new(), returns: Returns::default() }
    }

    /// Puts other settings in force, also for what is held already.
    pub fn configure(&mut self, config: SessionConfig) {
        self.config = config;
    }

    /// Sessions that run or hold something.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Viewers that come before newcomers if they return.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.returns.len()
    }

    /// A request comes. After anything but [`Begin::Supersede`] and [`Begin::Apart`] its stream runs in the session,
    /// until [`Sessions::end`].
    pub fn begin(&mut self, request: &Request, now: Nanos) -> Begin {
        let known = self.table.contains_key(&request.viewer);
        if !known && self.table.len() >= self.config.sessions_max {
            return Begin::Apart;
        }
        let session = self.table.entry(request.viewer.clone()).or_default();
        let before = session.content.replace(request.content);
        session.goes_on |= before.is_some_and(|before| before != request.content);
        let lanes = &mut session.lanes;
        let Request { stream, content, terms, .. } = *request;
        let running = |claim| Lane::Running { stream, content, terms, claim };
        let returns = &mut self.returns;
        let mut anew = || match returns.take(&request.viewer, terms, now) {
            Some(precedence) => (Standing::Returning, Claim::Asked(precedence)),
            None => (Standing::Newcomer, Claim::Earned),
        };
        // A viewer who names itself reads a content once: the older read was left behind by a seek.
        if matches!(request.viewer, Viewer::Named(_)) {
            let older = lanes.iter().find_map(|lane| match lane {
                Lane::Running { stream, content, .. } if *content == request.content => Some(*stream),
                _ => None,
            });
            if let Some(stream) = older {
                return Begin::Supersede(stream);
            }
        }
        let fits = |lane: &Lane| matches!(lane, Lane::Held { terms, .. } if terms.fit(&request.terms));
        let held = lanes.iter().position(fits).or_else(|| lanes.iter().position(|l| matches!(l, Lane::Held { .. })));
        if let Some(at) = held {
            let Lane::Held { reservation, terms: before, claim, .. } = lanes[at] else {
                unreachable!("the position of a held lane")
            };
            if before.fit(&terms) {
                lanes[at] = running(claim);
                return Begin::Reuse(reservation);
            }
            let (standing, claim) = if before.cover(&terms) { (Standing::Present, claim) } else { anew() };
            lanes[at] = running(claim);
            return Begin::Replace(reservation, standing);
        }
        if lanes.len() >= LANES_MAX {
            return Begin::Apart;
        }
        let (standing, claim) = anew();
        lanes.push(running(claim));
        Begin::New(standing)
    }

    /// True if the viewer runs a stream of this content: refused beside it, a request may come again when it has ended.
    #[must_use]
    pub fn reads(&self, viewer: &Viewer, content: u64) -> bool {
        let lanes = self.table.get(viewer).map_or(&[][..], |session| &session.lanes);
        lanes.iter().any(|lane| matches!(lane, Lane::Running { content: c, .. } if *c == content))
    }

    /// A stream that began in the session ended (or was refused). Returns what is to be released: the reservation it
    /// held, unless the session keeps it for the viewer's next request. It does not if the viewer already reads that
    /// content elsewhere.
    pub fn end(&mut self, viewer: &Viewer, stream: StreamId, left: Left, now: Nanos) -> Option<ReservationId> {
        let reservation = if let Left::Held(reservation, _) = left { Some(reservation) } else { None };
        let Some(session) = self.table.get_mut(viewer) else { return reservation };
        let lanes = &mut session.lanes;
        let own = |lane: &Lane| matches!(lane, Lane::Running { stream: s, .. } if *s == stream);
        let Some(at) = lanes.iter().position(own) else { return reservation };
        let Lane::Running { content, terms, claim, .. } = lanes.swap_remove(at) else { unreachable!("a running lane") };
        let elsewhere = lanes.iter().any(|lane| matches!(lane, Lane::Running { content: c, .. } if *c == content));
        let mut release = reservation;
        match (left, claim) {
            (Left::Held(reservation, left_off), _) if !elsewhere => {
                let left_off = if session.goes_on { LeftOff::Midway } else { left_off };
                let claim = if claim == Claim::Earned { Claim::Earned } else { Claim::Used };
                lanes.push(Lane::Held { reservation, terms, since: now, left_off, claim });
                release = None;
            }
            (Left::Unstarted, Claim::Asked(precedence)) => self.returns.remember(viewer, precedence),
            (Left::GivenUp, Claim::Earned) if !elsewhere => {
                let until = now.saturating_add(self.config.precedence);
                self.returns.remember(viewer, Precedence { terms, until });
            }
            _ => {}
        }
        if lanes.is_empty() {
            self.table.remove(viewer);
        }
        release
    }

    /// Takes out what was held for longer than configured. Who paused comes before newcomers from then on, for a while.
    pub fn expire(&mut self, now: Nanos) -> Vec<ReservationId> {
        let SessionConfig { hold, precedence, .. } = self.config;
        let hold_of = |left_off| if left_off == LeftOff::Midway { hold } else { hold.min(AFTER_END) };
        let until = now.saturating_add(precedence);
        let returns = &mut self.returns;
        returns.forget(now);
        let mut released = Vec::new();
        self.table.retain(|viewer, session| {
            session.lanes.retain(|lane| match *lane {
                Lane::Held { reservation, since, left_off, terms, claim }
                    if now.saturating_sub(since) >= hold_of(left_off) =>
                {
                    released.push(reservation);
                    if (left_off, claim) == (LeftOff::Midway, Claim::Earned) {
                        returns.remember(viewer, Precedence { terms, until });
                    }
                    false
                }
                _ => true,
            });
            !session.lanes.is_empty()
        });
        released
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
