//! A model of viewers and of the plane, which plays requests, ends and reports in every order.

use std::collections::{BTreeSet, HashMap, VecDeque};

use proptest::prelude::*;

use super::*;

/// The number of a stream's second attempt: that of the first plus this.
const AGAIN: u64 = 1_000_000;

/// The data plane as sessions see it: a table of so many reservations, streams that use them, and reports that come late.
#[derive(Debug, Default)]
struct ModelPlane {
    /// The stream that uses a reservation (none: it is held), and its rate.
    table: HashMap<ReservationId, (Option<StreamId>, BitRate)>,
    /// The streams that run, with a reservation or without.
    running: BTreeSet<StreamId>,
    room: usize,
    next: u32,
    reports: HashMap<StreamId, VecDeque<ModelReport>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelReport {
    Started(ReservationId),
    Refused,
    Finished(Option<ReservationId>),
}

impl ModelPlane {
    fn start(&mut self, stream: StreamId, held: Option<ReservationId>, rate: BitRate) {
        let own = held.and_then(|held| self.table.remove_entry(&held)).filter(|(_, (_, before))| *before >= rate);
        let report = if let Some((own, (_, before))) = own {
            self.table.insert(own, (Some(stream), before));
            ModelReport::Started(own)
        } else if self.table.len() < self.room {
            self.next += 1;
            self.table.insert(id(self.next), (Some(stream), rate));
            ModelReport::Started(id(self.next))
        } else {
            ModelReport::Refused
        };
        if report != ModelReport::Refused {
            self.running.insert(stream);
        }
        self.reports.entry(stream).or_default().push_back(report);
    }

    fn close(&mut self, stream: StreamId) {
        assert!(self.running.remove(&stream), "it runs");
        let used = self.table.iter_mut().find(|(_, (user, _))| *user == Some(stream));
        let held = used.map(|(id, (user, _))| {
            *user = None;
            *id
        });
        self.reports.entry(stream).or_default().push_back(ModelReport::Finished(held));
    }
}

#[derive(Debug, Clone)]
enum ModelStep {
    Ask { viewer: u8, content: u8, part: u8, dear: bool },
    Close { pick: usize },
    Hear { pick: usize },
    Wait { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let step = prop_oneof![
        3 => (0u8..4, 0u8..3, 0u8..4, any::<bool>())
            .prop_map(|(viewer, content, part, dear)| ModelStep::Ask { viewer, content, part, dear }),
        3 => any::<usize>().prop_map(|pick| ModelStep::Close { pick }),
        4 => any::<usize>().prop_map(|pick| ModelStep::Hear { pick }),
        1 => (0u64..90).prop_map(|seconds| ModelStep::Wait { seconds }),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Sessions before a model of the data plane, as `session_table` and `delivery` bring them together.
struct ModelWorld {
    sessions: Sessions,
    plane: ModelPlane,
    requested: HashMap<StreamId, SessionRequest>,
    now: Nanos,
}

impl ModelWorld {
    fn new() -> Self {
        let plane = ModelPlane { room: 3, ..ModelPlane::default() };
        Self { sessions: sessions(), plane, requested: HashMap::new(), now: Nanos::ZERO }
    }

    fn release(&mut self, reservation: ReservationId) {
        let user = self.plane.table.remove(&reservation);
        assert!(!matches!(user, Some((Some(_), _))), "a stream that runs loses its reservation only to a newer one");
    }

    fn ask(&mut self, request: SessionRequest) {
        let begin = begin(&mut self.sessions, &request, self.now);
        let held = match begin {
            ReservationSource::New => None,
            ReservationSource::Take(reservation) => Some(reservation),
            other => return assert!(matches!(other, ReservationSource::After(_)), "{other:?}"),
        };
        self.send(request, held);
    }

    fn send(&mut self, request: SessionRequest, held: Option<ReservationId>) {
        self.plane.start(request.stream, held, request.terms.rate);
        self.requested.insert(request.stream, request);
    }

    /// A report of a stream is heard.
    fn hear(&mut self, stream: StreamId) {
        let reports = self.plane.reports.get_mut(&stream).expect("it has reports");
        let report = reports.pop_front().expect("it has one");
        let request = self.requested[&stream].clone();
        let viewer = request.viewer.clone();
        match report {
            ModelReport::Started(reservation) => {
                if let Some(left) = self.sessions.started(&viewer, stream, reservation) {
                    self.release(left);
                }
            }
            ModelReport::Finished(held) => {
                let left = held.map_or(StreamRelease::Nothing, |held| StreamRelease::Held(held, StopPoint::Midway));
                self.leave(&viewer, stream, left);
            }
            ModelReport::Refused => {
                self.leave(&viewer, stream, StreamRelease::Refused);
                match refused(&mut self.sessions, &viewer, request.content, request.part, self.now) {
                    Retry::Release(loose, _) => loose.into_iter().for_each(|reservation| self.release(reservation)),
                    Retry::TakeOwn if !request.no_room => {
                        let stream = StreamId(stream.0 + AGAIN);
                        self.ask(SessionRequest { stream, no_room: true, ..request });
                    }
                    Retry::TakeOwn | Retry::Wait { .. } | Retry::GiveUp => {}
                }
            }
        }
    }

    fn leave(&mut self, viewer: &Viewer, stream: StreamId, left: StreamRelease) {
        if let Some(reservation) = self.sessions.end(viewer, stream, left, self.now) {
            self.release(reservation);
        }
    }

    fn unheard(&self) -> Vec<StreamId> {
        let mut streams: Vec<_> =
            self.plane.reports.iter().filter(|(_, queue)| !queue.is_empty()).map(|(s, _)| *s).collect();
        streams.sort_unstable();
        streams
    }
}

proptest! {
    /// With any steps of the viewers and any delay of the reports: no reservation is lost, none is taken from a stream but
    /// by a newer read, and in the end all are given back.
    #[test]
    fn reservations_are_neither_doubled_nor_lost(steps in steps()) {
        let mut world = ModelWorld::new();
        for (stream, step) in (1..).zip(steps) {
            match step {
                ModelStep::Ask { viewer, content, part, dear } => {
                    let viewer = if viewer < 2 { named(&viewer.to_string()) } else { unnamed() };
                    let part = [ContentPart::Whole, ContentPart::FromStart, ContentPart::Elsewhere, ContentPart::Download][usize::from(part)];
                    let terms = if dear { OTHER } else { TERMS };
                    world.ask(SessionRequest { terms, ..read(viewer, stream, u64::from(content), part) });
                }
                ModelStep::Close { pick } => {
                    let running = &world.plane.running;
                    if let Some(&stream) = running.iter().nth(pick % running.len().max(1)) {
                        world.plane.close(stream);
                    }
                }
                ModelStep::Hear { pick } => {
                    let unheard = world.unheard();
                    if let Some(&stream) = unheard.get(pick % unheard.len().max(1)) {
                        world.hear(stream);
                    }
                }
                ModelStep::Wait { seconds } => {
                    world.now += Nanos::from_secs(seconds);
                    for reservation in world.sessions.expire(world.now) {
                        world.release(reservation);
                    }
                }
            }
        }
        while let Some(&stream) = world.plane.running.first() {
            world.plane.close(stream);
        }
        while let Some(&stream) = world.unheard().first() {
            world.hear(stream);
            while let Some(&stream) = world.plane.running.first() {
                world.plane.close(stream);
            }
        }
        for reservation in world.sessions.expire(world.now + HOLD) {
            world.release(reservation);
        }
        prop_assert!(world.sessions.is_empty(), "{:?}", world.sessions);
        prop_assert!(world.plane.table.is_empty(), "{:?}", world.plane.table);
    }

    /// A viewer that reads one content after the other is never refused once it was admitted, with any other requests, and
    /// any order of the reports of ends and starts.
    #[test]
    fn a_viewer_never_blocks_itself(late in proptest::collection::vec(any::<bool>(), 1..40), name in any::<bool>()) {
        let mut world = ModelWorld::new();
        world.plane.room = 1;
        let viewer = if name { named("a") } else { unnamed() };
        world.ask(read(viewer.clone(), 1, 1, ContentPart::FromStart));
        world.hear(StreamId(1));
        let mut old = StreamId(1);
        for (stream, late) in (2..).zip(late) {
            // The player closes the old range and opens the new one; either may be reported first.
            world.now += Nanos::from_secs(1);
            let seek = read(viewer.clone(), stream, 1, ContentPart::Elsewhere);
            if late {
                world.ask(seek.clone());
                world.plane.close(old);
            } else {
                world.plane.close(old);
                world.ask(seek.clone());
            }
            prop_assert!(world.requested.contains_key(&StreamId(stream)), "it was asked for at once");
            world.hear(old);
            world.hear(StreamId(stream));
            old = StreamId(stream);
            if !world.plane.running.contains(&old) {
                // It was refused before the end of the old range was heard, and asks again.
                old = StreamId(stream + AGAIN);
                if !world.requested.contains_key(&old) {
                    world.ask(SessionRequest { stream: old, ..seek });
                }
                world.hear(old);
            }
            prop_assert!(world.plane.running.contains(&old), "{:?}", world.sessions);
            world.ask(read(named("other"), 1000 + stream, 2, ContentPart::Whole));
            world.hear(StreamId(1000 + stream));
        }
    }
}
