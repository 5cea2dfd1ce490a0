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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Running { stream: StreamId, content: u64, terms: Terms },
    Held { reservation: ReservationId, terms: Terms, since: Nanos },
}

/// All sessions that run or hold something.
#[derive(Debug)]
pub struct Sessions {
    config: SessionConfig,
    table: HashMap<Viewer, Vec<Lane>>,
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
        let lanes = self.table.entry(request.viewer.clone()).or_default();
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

    /// A stream that began in the session ended (or was refused). Returns what is to be released: `held`, unless the
    /// session keeps it for the viewer's next request. It does not if the viewer already reads that content elsewhere.
    pub fn end(
        &mut self,
        viewer: &Viewer,
        stream: StreamId,
        held: Option<ReservationId>,
        now: Nanos,
    ) -> Option<ReservationId> {
        let Some(lanes) = self.table.get_mut(viewer) else { return held };
        let own = |lane: &Lane| matches!(lane, Lane::Running { stream: s, .. } if *s == stream);
        let Some(at) = lanes.iter().position(own) else { return held };
        let Lane::Running { content, terms, .. } = lanes.swap_remove(at) else { unreachable!("a running lane") };
        let elsewhere = lanes.iter().any(|lane| matches!(lane, Lane::Running { content: c, .. } if *c == content));
        let release = match held {
            Some(reservation) if !elsewhere => {
                lanes.push(Lane::Held { reservation, terms, since: now });
                None
            }
            other => other,
        };
        if lanes.is_empty() {
            self.table.remove(viewer);
        }
        release
    }

    /// Takes out what was held for longer than configured.
    pub fn expire(&mut self, now: Nanos) -> Vec<ReservationId> {
        let hold = self.config.hold;
        let mut released = Vec::new();
        self.table.retain(|_, lanes| {
            lanes.retain(|lane| match lane {
                Lane::Held { reservation, since, .. } if now.saturating_sub(*since) >= hold => {
                    released.push(*reservation);
                    false
                }
                _ => true,
            });
            !lanes.is_empty()
        });
        released
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
