//! Sessions: one viewer holds one stream, and every reservation is given back once.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const TERMS: Terms = Terms { disk: DiskId(0), link: LinkId(0), rate: BitRate(8_800_000) };
const OTHER: Terms = Terms { rate: BitRate(25_000_000), ..TERMS };

fn sessions() -> Sessions {
    Sessions::new(SessionConfig { sessions_max: 3, ..SessionConfig::default() })
}

fn named(id: &str) -> Viewer {
    Viewer::Named(id.to_owned())
}

fn guessed(content: u64) -> Viewer {
    Viewer::Guessed { address: Ipv4Addr::LOCALHOST.into(), agent: 7, content }
}

fn request(viewer: Viewer, stream: u64, content: u64) -> Request {
    Request { viewer, stream: StreamId(stream), content, terms: TERMS }
}

fn reservation(slot: u32) -> ReservationId {
    ReservationId { slot, generation: 1 }
}

#[test]
fn the_next_request_uses_the_reservation_again() {
    let mut sessions = sessions();
    let viewer = guessed(1);
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1)), Begin::New);
    assert_eq!(sessions.end(&viewer, StreamId(1), Some((reservation(5), LeftOff::Midway)), Nanos::ZERO), None);
    assert_eq!(sessions.begin(&request(viewer.clone(), 2, 1)), Begin::Reuse(reservation(5)));
    assert!(sessions.expire(Nanos::from_secs(3600)).is_empty(), "a running stream is never released");
    assert_eq!(sessions.end(&viewer, StreamId(2), Some((reservation(5), LeftOff::Midway)), Nanos::from_secs(10)), None);
    assert!(sessions.expire(Nanos::from_secs(69)).is_empty());
    assert_eq!(sessions.expire(Nanos::from_secs(70)), [reservation(5)]);
    assert!(sessions.is_empty());
}

#[test]
fn what_was_read_to_the_end_is_held_briefly_unless_the_viewer_goes_from_content_to_content() {
    let mut sessions = sessions();
    let viewer = named("a");
    let at_end = |slot| Some((reservation(slot), LeftOff::AtEnd));
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1)), Begin::New);
    assert_eq!(sessions.end(&viewer, StreamId(1), at_end(5), Nanos::ZERO), None);
    assert!(sessions.expire(AFTER_END.saturating_sub(Nanos(1))).is_empty(), "long enough to go back");
    assert_eq!(sessions.begin(&request(viewer.clone(), 2, 1)), Begin::Reuse(reservation(5)));
    assert_eq!(sessions.end(&viewer, StreamId(2), at_end(5), Nanos::ZERO), None);
    assert_eq!(sessions.begin(&request(viewer.clone(), 3, 2)), Begin::Reuse(reservation(5)));
    assert_eq!(sessions.end(&viewer, StreamId(3), at_end(5), Nanos::ZERO), None);
    assert!(sessions.expire(Nanos::from_secs(59)).is_empty(), "the segment after next comes when the player wants it");
    assert_eq!(sessions.expire(Nanos::from_secs(60)), [reservation(5)]);
    assert_eq!(sessions.begin(&request(viewer.clone(), 4, 2)), Begin::New);
    assert_eq!(sessions.end(&viewer, StreamId(4), at_end(6), Nanos::from_secs(60)), None);
    assert_eq!(sessions.expire(Nanos::from_secs(65)), [reservation(6)], "a finished download");
}

#[test]
fn other_terms_need_another_reservation() {
    let mut sessions = sessions();
    let viewer = named("a");
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1)), Begin::New);
    assert_eq!(sessions.end(&viewer, StreamId(1), Some((reservation(5), LeftOff::Midway)), Nanos::ZERO), None);
    let dearer = Request { terms: OTHER, ..request(viewer.clone(), 2, 2) };
    assert_eq!(sessions.begin(&dearer), Begin::Replace(reservation(5)));
    assert_eq!(sessions.end(&viewer, StreamId(2), None, Nanos::ZERO), None);
    assert!(sessions.is_empty());
}

#[test]
fn a_named_viewer_who_seeks_supersedes_its_read() {
    let mut sessions = sessions();
    let viewer = named("a");
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1)), Begin::New);
    let seek = request(viewer.clone(), 2, 1);
    assert_eq!(sessions.begin(&seek), Begin::Supersede(StreamId(1)));
    assert_eq!(sessions.begin(&request(viewer.clone(), 3, 9)), Begin::New, "sound beside the picture");
    assert_eq!(sessions.end(&viewer, StreamId(1), Some((reservation(5), LeftOff::Midway)), Nanos::ZERO), None);
    assert_eq!(sessions.begin(&seek), Begin::Reuse(reservation(5)));
}

#[test]
fn a_second_long_read_of_a_guessed_viewer_is_a_new_stream() {
    let mut sessions = sessions();
    let viewer = guessed(1);
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1)), Begin::New);
    assert_eq!(sessions.begin(&request(viewer.clone(), 2, 1)), Begin::New);
    // The first was abandoned by a seek: the viewer goes on with the second, so nothing is kept for it.
    assert_eq!(
        sessions.end(&viewer, StreamId(1), Some((reservation(5), LeftOff::Midway)), Nanos::ZERO),
        Some(reservation(5))
    );
    assert_eq!(sessions.end(&viewer, StreamId(2), Some((reservation(6), LeftOff::Midway)), Nanos::ZERO), None);
}

#[test]
fn the_tables_are_bounded() {
    let mut sessions = sessions();
    for id in 0..3 {
        assert_eq!(sessions.begin(&request(guessed(id), id, id)), Begin::New);
    }
    assert_eq!(sessions.begin(&request(guessed(3), 3, 3)), Begin::Apart);
    for stream in 10..13 {
        assert_eq!(sessions.begin(&request(guessed(0), stream, 0)), Begin::New);
    }
    assert_eq!(sessions.begin(&request(guessed(0), 13, 0)), Begin::Apart);
    assert_eq!(
        sessions.end(&guessed(0), StreamId(13), Some((reservation(1), LeftOff::Midway)), Nanos::ZERO),
        Some(reservation(1))
    );
}

#[derive(Debug, Clone)]
enum Step {
    Begin { viewer: u8, content: u8, dear: bool },
    End { pick: usize, hold: bool, at_end: bool },
    Wait { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u8..6, 0u8..3, any::<bool>()).prop_map(|(viewer, content, dear)| Step::Begin { viewer, content, dear }),
        (any::<usize>(), any::<bool>(), any::<bool>()).prop_map(|(pick, hold, at_end)| Step::End {
            pick,
            hold,
            at_end
        }),
        (0u64..90).prop_map(|seconds| Step::Wait { seconds }),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    /// Whatever viewers do: no reservation is given out twice or lost, and after all is over and time has passed
    /// nothing is held.
    #[test]
    fn reservations_are_neither_doubled_nor_lost(steps in steps()) {
        let mut sessions = sessions();
        let mut now = Nanos::ZERO;
        let mut next = 0u32;
        let mut live: HashSet<ReservationId> = HashSet::new();
        let mut running: Vec<(Viewer, StreamId, ReservationId)> = Vec::new();
        for step in steps {
            match step {
                Step::Begin { viewer, content, dear } => {
                    next += 1;
                    let content = u64::from(content);
                    let viewer = if viewer < 3 { named(&viewer.to_string()) } else { guessed(content) };
                    let terms = if dear { OTHER } else { TERMS };
                    let request = Request { terms, ..request(viewer, u64::from(next), content) };
                    let reservation = match sessions.begin(&request) {
                        Begin::Supersede(older) => {
                            prop_assert!(running.iter().any(|(_, stream, _)| *stream == older));
                            continue;
                        }
                        Begin::Reuse(reservation) => {
                            prop_assert!(live.contains(&reservation));
                            prop_assert!(running.iter().all(|(_, _, r)| *r != reservation));
                            reservation
                        }
                        Begin::Replace(old) => {
                            prop_assert!(live.remove(&old));
                            reservation(next)
                        }
                        Begin::New | Begin::Apart => reservation(next),
                    };
                    live.insert(reservation);
                    running.push((request.viewer, request.stream, reservation));
                }
                Step::End { pick, hold, at_end } if !running.is_empty() => {
                    let left_off = if at_end { LeftOff::AtEnd } else { LeftOff::Midway };
                    let (viewer, stream, reservation) = running.swap_remove(pick % running.len());
                    if !hold {
                        prop_assert!(live.remove(&reservation));
                    }
                    if let Some(released) = sessions.end(&viewer, stream, hold.then_some((reservation, left_off)), now) {
                        prop_assert!(live.remove(&released));
                    }
                }
                Step::End { .. } => {}
                Step::Wait { seconds } => {
                    now += Nanos::from_secs(seconds);
                    for released in sessions.expire(now) {
                        prop_assert!(live.remove(&released), "released what was not held");
                    }
                }
            }
        }
        for (viewer, stream, reservation) in running {
            let released = sessions.end(&viewer, stream, Some((reservation, LeftOff::Midway)), now);
            live.retain(|r| Some(*r) != released);
        }
        for released in sessions.expire(now + Nanos::from_secs(61)) {
            prop_assert!(live.remove(&released));
        }
        prop_assert!(live.is_empty() && sessions.is_empty());
    }
}
