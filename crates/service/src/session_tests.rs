//! Sessions: one viewer holds one stream, and every reservation is given back once.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const TERMS: Terms = Terms { disk: DiskId(0), link: LinkId(0), rate: BitRate(8_800_000), burst_bytes: 0 };
const NEW: Begin = Begin::New(Standing::Newcomer);
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

fn midway(slot: u32) -> Left {
    Left::Held(reservation(slot), LeftOff::Midway)
}

#[test]
fn the_next_request_uses_the_reservation_again() {
    let mut sessions = sessions();
    let viewer = guessed(1);
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1), Nanos::ZERO), NEW);
    assert_eq!(sessions.end(&viewer, StreamId(1), midway(5), Nanos::ZERO), None);
    assert_eq!(sessions.begin(&request(viewer.clone(), 2, 1), Nanos::ZERO), Begin::Reuse(reservation(5)));
    assert!(sessions.expire(Nanos::from_secs(3600)).is_empty(), "a running stream is never released");
    assert_eq!(sessions.end(&viewer, StreamId(2), midway(5), Nanos::from_secs(10)), None);
    assert!(sessions.expire(Nanos::from_secs(69)).is_empty());
    assert_eq!(sessions.expire(Nanos::from_secs(70)), [reservation(5)]);
    assert!(sessions.is_empty());
}

#[test]
fn what_was_read_to_the_end_is_held_briefly_unless_the_viewer_goes_from_content_to_content() {
    let mut sessions = sessions();
    let viewer = named("a");
    let at_end = |slot| Left::Held(reservation(slot), LeftOff::AtEnd);
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1), Nanos::ZERO), NEW);
    assert_eq!(sessions.end(&viewer, StreamId(1), at_end(5), Nanos::ZERO), None);
    assert!(sessions.expire(AFTER_END.saturating_sub(Nanos(1))).is_empty(), "long enough to go back");
    assert_eq!(sessions.begin(&request(viewer.clone(), 2, 1), Nanos::ZERO), Begin::Reuse(reservation(5)));
    assert_eq!(sessions.end(&viewer, StreamId(2), at_end(5), Nanos::ZERO), None);
    assert_eq!(sessions.begin(&request(viewer.clone(), 3, 2), Nanos::ZERO), Begin::Reuse(reservation(5)));
    assert_eq!(sessions.end(&viewer, StreamId(3), at_end(5), Nanos::ZERO), None);
    assert!(sessions.expire(Nanos::from_secs(59)).is_empty(), "the segment after next comes when the player wants it");
    assert_eq!(sessions.expire(Nanos::from_secs(60)), [reservation(5)]);
    assert_eq!(sessions.begin(&request(viewer.clone(), 4, 2), Nanos::ZERO), Begin::New(Standing::Returning));
    assert_eq!(sessions.end(&viewer, StreamId(4), at_end(6), Nanos::from_secs(60)), None);
    assert_eq!(sessions.expire(Nanos::from_secs(65)), [reservation(6)], "a finished download");
}

#[test]
fn a_request_for_another_burst_uses_the_reservation_again_if_the_plane_can() {
    let mut sessions = sessions();
    let watches = request(named("a"), 1, 1);
    assert_eq!(sessions.begin(&watches, Nanos::ZERO), NEW);
    assert_eq!(sessions.end(&watches.viewer, watches.stream, midway(5), Nanos::ZERO), None);
    let bursts = Request { terms: Terms { burst_bytes: 1, ..TERMS }, ..watches };
    assert_eq!(sessions.begin(&bursts, Nanos::ZERO), Begin::Reuse(reservation(5)));
}

#[test]
fn other_terms_need_another_reservation() {
    let mut sessions = sessions();
    let viewer = named("a");
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1), Nanos::ZERO), NEW);
    assert_eq!(sessions.end(&viewer, StreamId(1), midway(5), Nanos::ZERO), None);
    let dearer = Request { terms: OTHER, ..request(viewer.clone(), 2, 2) };
    assert_eq!(sessions.begin(&dearer, Nanos::ZERO), Begin::Replace(reservation(5), Standing::Newcomer));
    assert_eq!(sessions.end(&viewer, StreamId(2), Left::Unstarted, Nanos::ZERO), None);
    assert!(sessions.is_empty());
}

#[test]
fn a_named_viewer_who_seeks_supersedes_its_read() {
    let mut sessions = sessions();
    let viewer = named("a");
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1), Nanos::ZERO), NEW);
    let seek = request(viewer.clone(), 2, 1);
    assert_eq!(sessions.begin(&seek, Nanos::ZERO), Begin::Supersede(StreamId(1)));
    assert_eq!(sessions.begin(&request(viewer.clone(), 3, 9), Nanos::ZERO), NEW, "sound beside the picture");
    assert_eq!(sessions.end(&viewer, StreamId(1), midway(5), Nanos::ZERO), None);
    assert_eq!(sessions.begin(&seek, Nanos::ZERO), Begin::Reuse(reservation(5)));
}

#[test]
fn a_second_long_read_of_a_guessed_viewer_is_a_new_stream() {
    let mut sessions = sessions();
    let viewer = guessed(1);
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1), Nanos::ZERO), NEW);
    assert_eq!(sessions.begin(&request(viewer.clone(), 2, 1), Nanos::ZERO), NEW);
    // The first was abandoned by a seek: the viewer goes on with the second, so nothing is kept for it.
    assert_eq!(sessions.end(&viewer, StreamId(1), midway(5), Nanos::ZERO), Some(reservation(5)));
    assert_eq!(sessions.end(&viewer, StreamId(2), midway(6), Nanos::ZERO), None);
}

#[test]
fn the_tables_are_bounded() {
    let mut sessions = sessions();
    for id in 0..3 {
        assert_eq!(sessions.begin(&request(guessed(id), id, id), Nanos::ZERO), NEW);
    }
    assert_eq!(sessions.begin(&request(guessed(3), 3, 3), Nanos::ZERO), Begin::Apart);
    for stream in 10..13 {
        assert_eq!(sessions.begin(&request(guessed(0), stream, 0), Nanos::ZERO), NEW);
    }
    assert_eq!(sessions.begin(&request(guessed(0), 13, 0), Nanos::ZERO), Begin::Apart);
    assert_eq!(sessions.end(&guessed(0), StreamId(13), midway(1), Nanos::ZERO), Some(reservation(1)));
}

/// A viewer that was let in as `standing` says pauses until its hold runs out, 60 s after `now`.
fn watches_and_pauses(sessions: &mut Sessions, standing: Standing, now: Nanos) -> Nanos {
    let viewer = named("a");
    assert_eq!(sessions.begin(&request(viewer.clone(), 1, 1), now), Begin::New(standing));
    assert_eq!(sessions.end(&viewer, StreamId(1), midway(5), now), None);
    let over = now + Nanos::from_secs(60);
    assert_eq!(sessions.expire(over), [reservation(5)]);
    over
}

#[test]
fn who_let_its_hold_run_out_comes_before_newcomers_for_ten_minutes() {
    let mut sessions = sessions();
    let over = watches_and_pauses(&mut sessions, Standing::Newcomer, Nanos::ZERO);
    let last = over + Nanos::from_secs(600).saturating_sub(Nanos(1));
    let back = request(named("a"), 2, 1);
    for time in [over, last] {
        assert_eq!(sessions.begin(&back, time), Begin::New(Standing::Returning));
        assert_eq!(sessions.end(&back.viewer, back.stream, Left::Unstarted, time), None, "refused, it has it still");
    }
    assert_eq!(sessions.begin(&request(named("b"), 3, 1), last), NEW, "who never held anything");
    assert_eq!(sessions.begin(&Request { terms: OTHER, ..request(named("a"), 4, 9) }, last), NEW, "more than it held");
    assert_eq!(sessions.begin(&back, last + Nanos(1)), NEW, "too late");
}

#[test]
fn it_serves_one_start_and_earns_no_other() {
    let mut sessions = sessions();
    let over = watches_and_pauses(&mut sessions, Standing::Newcomer, Nanos::ZERO);
    let back = request(named("a"), 2, 1);
    assert_eq!(sessions.begin(&back, over), Begin::New(Standing::Returning));
    assert_eq!(sessions.begin(&request(named("a"), 3, 2), over), NEW, "not two at once");
    for stream in [2, 3] {
        assert_eq!(sessions.end(&back.viewer, StreamId(stream), Left::Nothing, over), None);
    }
    assert_eq!(sessions.begin(&back, over), NEW, "it was let in, and its disk failed");
    assert_eq!(sessions.end(&back.viewer, back.stream, Left::Unstarted, over), None);

    let over = watches_and_pauses(&mut sessions, Standing::Newcomer, over);
    let over = watches_and_pauses(&mut sessions, Standing::Returning, over);
    let over = watches_and_pauses(&mut sessions, Standing::Newcomer, over);
    watches_and_pauses(&mut sessions, Standing::Returning, over);
}

#[test]
fn who_takes_nothing_for_too_long_has_paused_and_who_read_to_the_end_has_not() {
    let mut sessions = sessions();
    let watches = request(named("a"), 1, 1);
    assert_eq!(sessions.begin(&watches, Nanos::ZERO), NEW);
    assert_eq!(sessions.end(&watches.viewer, watches.stream, Left::GivenUp, Nanos::ZERO), None);
    assert_eq!(sessions.begin(&watches, Nanos::from_secs(599)), Begin::New(Standing::Returning));
    assert_eq!(sessions.end(&watches.viewer, watches.stream, Left::GivenUp, Nanos::ZERO), None);
    assert_eq!(sessions.begin(&watches, Nanos::ZERO), NEW, "it was let in by precedence before");
    let at_end = Left::Held(reservation(5), LeftOff::AtEnd);
    assert_eq!(sessions.end(&watches.viewer, watches.stream, at_end, Nanos::ZERO), None);
    assert_eq!(sessions.expire(AFTER_END), [reservation(5)]);
    assert_eq!(sessions.begin(&watches, AFTER_END), NEW);
}

#[test]
fn a_viewer_that_asks_for_less_than_it_holds_is_no_newcomer() {
    let mut sessions = sessions();
    let dear = Request { terms: OTHER, ..request(named("a"), 1, 1) };
    assert_eq!(sessions.begin(&dear, Nanos::ZERO), NEW);
    assert_eq!(sessions.end(&dear.viewer, dear.stream, midway(5), Nanos::ZERO), None);
    let less = request(named("a"), 2, 1);
    assert_eq!(sessions.begin(&less, Nanos::ZERO), Begin::Replace(reservation(5), Standing::Present));
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
        let (mut newcomers, mut returned) = (0, 0);
        for step in steps {
            match step {
                Step::Begin { viewer, content, dear } => {
                    next += 1;
                    let content = u64::from(content);
                    let viewer = if viewer < 3 { named(&viewer.to_string()) } else { guessed(content) };
                    let terms = if dear { OTHER } else { TERMS };
                    let request = Request { terms, ..request(viewer, u64::from(next), content) };
                    let begin = sessions.begin(&request, now);
                    if let Begin::New(standing) | Begin::Replace(_, standing) = begin {
                        newcomers += u32::from(standing == Standing::Newcomer);
                        returned += u32::from(standing == Standing::Returning);
                    }
                    prop_assert!(returned <= newcomers, "one return for each newcomer that was let in");
                    let reservation = match begin {
                        Begin::Supersede(older) => {
                            prop_assert!(running.iter().any(|(_, stream, _)| *stream == older));
                            continue;
                        }
                        Begin::Reuse(reservation) => {
                            prop_assert!(live.contains(&reservation));
                            prop_assert!(running.iter().all(|(_, _, r)| *r != reservation));
                            reservation
                        }
                        Begin::Replace(old, _) => {
                            prop_assert!(live.remove(&old));
                            reservation(next)
                        }
                        Begin::New(_) | Begin::Apart => reservation(next),
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
                    let left = if hold { Left::Held(reservation, left_off) } else { Left::Nothing };
                    if let Some(released) = sessions.end(&viewer, stream, left, now) {
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
            let released = sessions.end(&viewer, stream, Left::Held(reservation, LeftOff::Midway), now);
            live.retain(|r| Some(*r) != released);
        }
        for released in sessions.expire(now + Nanos::from_secs(61)) {
            prop_assert!(live.remove(&released));
        }
        prop_assert!(live.is_empty() && sessions.is_empty());
    }
}
