//! Sessions: the requests of one viewer together hold one stream.
//!
//! Promise: pure (the time is an argument) and bounded. A reservation in the table is in exactly one lane; each one
//! taken in is given out once: to a request that uses it again, or to be released.
//! Not here: telling the plane (`broker`), who a viewer is (`media`). DESIGN: sessions, after review.

use std::collections::HashMap;
use std::net::IpAddr;

use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId};

use crate::config::SessionConfig;

/// Streams one session can hold: video, sound, and others beside them.
pub const LANES_MAX: usize = 4;
/// What was read to the end of its content is held only so long, if that is shorter than the configured time: enough for
/// a player that read the index there, or whose viewer goes back; a download is over.
pub const AFTER_END: Nanos = Nanos::from_secs(5);

/// Who watches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// Names itself: CMCD `sid`, cookie or `session=`.
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
    /// What a reservation must match to be used again.
    pub terms: Terms,
}

/// What a reservation was granted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The disk.
    pub disk: DiskId,
    /// The link.
    pub link: LinkId,
    /// The rate.
    pub rate: BitRate,
}

/// What a request for a stream is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Ask for a new reservation; the session keeps it afterwards.
    New,
    /// Use this one again.
    Reuse(ReservationId),
    /// Release this one (it does not fit), then ask for a new one.
    Replace(ReservationId),
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Running { stream: StreamId, content: u64, terms: Terms },
    Held { reservation: ReservationId, terms: Terms, since: Nanos, left_off: LeftOff },
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
}

impl Sessions {
    /// No sessions.
    #[must_use]
    pub fn new(config: SessionConfig) -> Self {
        Self { config, table: HashMap::new() }
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

    /// A request comes. After anything but [`Begin::Supersede`] and [`Begin::Apart`] its stream runs in the session,
    /// until [`Sessions::end`].
    pub fn begin(&mut self, request: &Request) -> Begin {
        let known = self.table.contains_key(&request.viewer);
        if !known && self.table.len() >= self.config.sessions_max {
            return Begin::Apart;
        }
        let session = self.table.entry(request.viewer.clone()).or_default();
        let before = session.content.replace(request.content);
        session.goes_on |= before.is_some_and(|before| before != request.content);
        let lanes = &mut session.lanes;
        let running = Lane::Running { stream: request.stream, content: request.content, terms: request.terms };
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
        let fits = |lane: &Lane| matches!(lane, Lane::Held { terms, .. } if *terms == request.terms);
        let held = lanes.iter().position(fits).or_else(|| lanes.iter().position(|l| matches!(l, Lane::Held { .. })));
        if let Some(at) = held {
            let before = std::mem::replace(&mut lanes[at], running);
            let Lane::Held { reservation, terms, .. } = before else { unreachable!("the position of a held lane") };
            return if terms == request.terms { Begin::Reuse(reservation) } else { Begin::Replace(reservation) };
        }
        if lanes.len() >= LANES_MAX {
            return Begin::Apart;
        }
        lanes.push(running);
        Begin::New
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
    pub fn end(
        &mut self,
        viewer: &Viewer,
        stream: StreamId,
        held: Option<(ReservationId, LeftOff)>,
        now: Nanos,
    ) -> Option<ReservationId> {
        let Some(session) = self.table.get_mut(viewer) else { return held.map(|held| held.0) };
        let lanes = &mut session.lanes;
        let own = |lane: &Lane| matches!(lane, Lane::Running { stream: s, .. } if *s == stream);
        let Some(at) = lanes.iter().position(own) else { return held.map(|held| held.0) };
        let Lane::Running { content, terms, .. } = lanes.swap_remove(at) else { unreachable!("a running lane") };
        let elsewhere = lanes.iter().any(|lane| matches!(lane, Lane::Running { content: c, .. } if *c == content));
        let release = match held {
            Some((reservation, left_off)) if !elsewhere => {
                let left_off = if session.goes_on { LeftOff::Midway } else { left_off };
                lanes.push(Lane::Held { reservation, terms, since: now, left_off });
                None
            }
            other => other.map(|held| held.0),
        };
        if lanes.is_empty() {
            self.table.remove(viewer);
        }
        release
    }

    /// Takes out what was held for longer than configured.
    pub fn expire(&mut self, now: Nanos) -> Vec<ReservationId> {
        let hold = |left_off| match left_off {
            LeftOff::Midway => self.config.hold,
            LeftOff::AtEnd => self.config.hold.min(AFTER_END),
        };
        let mut released = Vec::new();
        self.table.retain(|_, session| {
            session.lanes.retain(|lane| match lane {
                Lane::Held { reservation, since, left_off, .. } if now.saturating_sub(*since) >= hold(*left_off) => {
                    released.push(*reservation);
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
