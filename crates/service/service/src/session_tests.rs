//! Sessions: reads of one viewer share a reservation, and each reservation is given back once.

use std::net::Ipv4Addr;

use super::*;
use units::{DiskId, LinkId};

#[path = "session_budget_tests.rs"]
mod budgets;
#[path = "session_model_tests.rs"]
mod model;

const TERMS: ReservationTerms =
    ReservationTerms { disk: DiskId(0), link: LinkId(0), rate: BitRate(8_800_000), is_named: false };
const OTHER: ReservationTerms = ReservationTerms { rate: BitRate(25_000_000), ..TERMS };
const HOLD: Nanos = Nanos::from_secs(60);

fn sessions() -> Sessions {
    Sessions::new(HOLD)
}

fn named(id: &str) -> Viewer {
    Viewer::named(id.to_owned(), &charged(1))
}

fn unnamed() -> Viewer {
    Viewer::unnamed(Ipv4Addr::LOCALHOST.into(), 7, &charged(1))
}

fn charged(address: u8) -> ChargedBudgets {
    ChargedBudgets::of(&[BudgetKey::of_address([192, 0, 2, address].into())])
}

const NO_LIMITS: Limits<'static> = &|_| BudgetLimits::default();

const WAIT: Retry = Retry::Wait { closes_once_answered: false };
/// The request is answered, for its player may close its older connection then.
const ANSWER: Retry = Retry::Wait { closes_once_answered: true };

/// The resource is short, while all streams are read.
fn short_of(resource: Resource, times: u64) -> ShortResource<'static> {
    static ALL_READ: std::sync::LazyLock<HashSet<StreamId>> = std::sync::LazyLock::new(HashSet::new);
    ShortResource { resource, times, unread: &ALL_READ }
}

/// [`Sessions::begin`] without budgets.
fn begin(sessions: &mut Sessions, request: &SessionRequest, now: Nanos) -> ReservationSource {
    match sessions.begin(request, NO_LIMITS, now) {
        ReservationSource::TakeFrom(reservation, _) => ReservationSource::Take(reservation),
        other => other,
    }
}

/// A request of this viewer for this part of a content was refused, for the link had no room.
fn refused(sessions: &mut Sessions, viewer: &Viewer, content: u64, part: ContentPart, now: Nanos) -> Retry {
    let short = Resource::Network(TERMS.link);
    sessions.refused(&read(viewer.clone(), 0, content, part), short_of(short, 1000), NO_LIMITS, now)
}

fn read(viewer: Viewer, stream: u64, content: u64, part: ContentPart) -> SessionRequest {
    SessionRequest {
        viewer,
        charged: charged(1),
        stream: StreamId(stream),
        content,
        part,
        terms: TERMS,
        is_small: false,
        no_room: false,
    }
}

fn id(slot: u32) -> ReservationId {
    ReservationId { slot, generation: 1 }
}

const fn midway(slot: u32) -> StreamRelease {
    StreamRelease::Held(ReservationId { slot, generation: 1 }, StopPoint::Midway)
}

/// A read that was admitted with a new reservation.
fn admitted(sessions: &mut Sessions, request: &SessionRequest, slot: u32, now: Nanos) {
    assert_eq!(begin(sessions, request, now), ReservationSource::New);
    sessions.started(&request.viewer, request.stream, id(slot));
}

#[test]
fn the_next_read_uses_the_reservation_of_the_last_whatever_it_reads() {
    for viewer in [named("a"), unnamed()] {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(viewer.clone(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
        for (stream, content) in [(2, 1), (3, 2), (4, 3)] {
            let now = Nanos::from_secs(4 * stream);
            assert_eq!(sessions.end(&viewer, StreamId(stream - 1), midway(5), now), None);
            let next = read(viewer.clone(), stream, content, ContentPart::Whole);
            assert_eq!(begin(&mut sessions, &next, now), ReservationSource::Take(id(5)));
            sessions.started(&viewer, StreamId(stream), id(5));
        }
        let hour = Nanos::from_secs(3600);
        assert!(sessions.expire(hour).is_empty(), "a stream that runs keeps its own");
        assert_eq!(sessions.end(&viewer, StreamId(4), midway(5), hour), None);
        assert_eq!(sessions.expire(hour + HOLD), [id(5)]);
        assert!(sessions.is_empty());
    }
}

#[test]
fn a_seek_takes_over_from_the_older_read_at_once() {
    for (viewer, part) in
        [(named("a"), ContentPart::Whole), (named("a"), ContentPart::Elsewhere), (unnamed(), ContentPart::Elsewhere)]
    {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(viewer.clone(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
        assert_eq!(
            begin(&mut sessions, &read(viewer.clone(), 2, 1, part), Nanos::ZERO),
            ReservationSource::Take(id(5))
        );
        sessions.started(&viewer, StreamId(2), id(5));
        assert_eq!(sessions.end(&viewer, StreamId(1), StreamRelease::Nothing, Nanos::ZERO), None);
        assert_eq!(sessions.end(&viewer, StreamId(2), midway(5), Nanos::ZERO), None, "it holds what it took over");
        assert_eq!(sessions.expire(HOLD), [id(5)]);
    }
}

#[test]
fn many_ranges_of_one_viewer_hold_one_reservation_in_whatever_order_they_come() {
    for from_start in 2..=16 {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::Elsewhere), 5, Nanos::ZERO);
        for stream in 2..=16 {
            let part = if stream == from_start { ContentPart::FromStart } else { ContentPart::Elsewhere };
            assert_eq!(
                begin(&mut sessions, &read(unnamed(), stream, 1, part), Nanos::ZERO),
                ReservationSource::Take(id(5)),
                "range {stream}, {part:?}"
            );
            sessions.started(&unnamed(), StreamId(stream), id(5));
        }
    }
}

#[test]
fn a_viewer_after_a_seek_loses_nothing_to_a_new_person() {
    for (part, playing) in [(ContentPart::FromStart, PLAYS_AFTER), (ContentPart::Whole, Nanos::ZERO)] {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::Elsewhere), 5, Nanos::ZERO);
        assert_eq!(begin(&mut sessions, &read(unnamed(), 2, 1, part), playing), ReservationSource::New);
    }
}

#[test]
fn a_viewer_at_the_index_loses_nothing_to_a_new_person() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
    assert_eq!(
        begin(&mut sessions, &read(unnamed(), 2, 1, ContentPart::Elsewhere), Nanos::ZERO),
        ReservationSource::Take(id(5))
    );
    sessions.started(&unnamed(), StreamId(2), id(5));
    assert_eq!(
        begin(&mut sessions, &read(unnamed(), 3, 1, ContentPart::FromStart), Nanos::ZERO),
        ReservationSource::New
    );
}

#[test]
fn an_end_may_arrive_after_its_reservation_passed_on() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
    assert_eq!(
        begin(&mut sessions, &read(unnamed(), 2, 1, ContentPart::Elsewhere), Nanos::ZERO),
        ReservationSource::Take(id(5))
    );
    assert_eq!(sessions.end(&unnamed(), StreamId(1), midway(5), Nanos::ZERO), None, "the newer read has it");
    sessions.started(&unnamed(), StreamId(2), id(5));
    assert_eq!(sessions.end(&unnamed(), StreamId(2), midway(5), Nanos::ZERO), None);
    assert_eq!(sessions.expire(HOLD), [id(5)]);
}

#[test]
fn a_newer_read_that_is_refused_leaves_the_older_one_its_own() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
    assert_eq!(
        begin(&mut sessions, &read(unnamed(), 2, 1, ContentPart::Elsewhere), Nanos::ZERO),
        ReservationSource::Take(id(5))
    );
    assert_eq!(sessions.end(&unnamed(), StreamId(2), StreamRelease::Refused, Nanos::ZERO), None);
    assert_eq!(
        begin(&mut sessions, &read(unnamed(), 3, 1, ContentPart::Elsewhere), Nanos::ZERO),
        ReservationSource::Take(id(5))
    );
    assert_eq!(sessions.end(&unnamed(), StreamId(1), midway(5), Nanos::ZERO), None, "and it may end meanwhile");
    assert_eq!(sessions.end(&unnamed(), StreamId(3), StreamRelease::Refused, Nanos::ZERO), Some(id(5)));
    assert!(sessions.is_empty());
}

#[test]
fn a_read_that_waits_for_its_start_is_waited_for() {
    let mut sessions = sessions();
    assert_eq!(
        begin(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), Nanos::ZERO),
        ReservationSource::New
    );
    let seek = read(unnamed(), 2, 1, ContentPart::Elsewhere);
    assert_eq!(begin(&mut sessions, &seek, Nanos::ZERO), ReservationSource::After(StreamId(1)));
    sessions.started(&unnamed(), StreamId(1), id(5));
    assert_eq!(begin(&mut sessions, &seek, Nanos::ZERO), ReservationSource::Take(id(5)));
}

#[test]
fn without_a_name_a_seek_takes_over_from_the_one_read_that_plays() {
    for (part, plays) in
        [(ContentPart::FromStart, ANSWER), (ContentPart::Whole, WAIT), (ContentPart::Elsewhere, Retry::TakeOwn)]
    {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
        assert_eq!(refused(&mut sessions, &unnamed(), 1, part, Nanos::ZERO), Retry::TakeOwn);
        assert_eq!(refused(&mut sessions, &unnamed(), 1, part, PLAYS_AFTER), plays);
        assert_eq!(refused(&mut sessions, &unnamed(), 2, part, PLAYS_AFTER), WAIT, "another film");
        let seek = read(unnamed(), 2, 1, part);
        assert_eq!(begin(&mut sessions, &seek, PLAYS_AFTER), ReservationSource::New, "if there is room");
        assert_eq!(sessions.end(&unnamed(), StreamId(2), StreamRelease::Refused, PLAYS_AFTER), None);
        sessions.leaves(&unnamed(), StreamId(1));
        assert_eq!(
            refused(&mut sessions, &unnamed(), 1, part, PLAYS_AFTER),
            Retry::TakeOwn,
            "its client takes nothing"
        );
    }
}

#[test]
fn a_person_with_neighbours_at_other_films_loses_none_to_a_range_of_it() {
    for part in [ContentPart::FromStart, ContentPart::Elsewhere] {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
        admitted(&mut sessions, &read(unnamed(), 2, 2, ContentPart::FromStart), 6, Nanos::ZERO);
        assert_eq!(refused(&mut sessions, &unnamed(), 1, part, PLAYS_AFTER), WAIT);
    }
}

#[test]
fn none_of_several_persons_loses_a_film_to_a_new_one_or_to_a_seek() {
    for part in [ContentPart::FromStart, ContentPart::Whole, ContentPart::Elsewhere] {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
        admitted(&mut sessions, &read(unnamed(), 2, 1, ContentPart::FromStart), 6, Nanos::ZERO);
        for now in [Nanos::ZERO, PLAYS_AFTER] {
            assert_eq!(refused(&mut sessions, &unnamed(), 1, part, now), WAIT);
            let seek = read(unnamed(), 3, 1, part);
            assert_eq!(begin(&mut sessions, &seek, now), ReservationSource::New, "if there is room");
            assert_eq!(sessions.end(&unnamed(), StreamId(3), StreamRelease::Refused, now), None);
        }
        // Of several, the one with a client that takes nothing gives way.
        sessions.leaves(&unnamed(), StreamId(1));
        assert_eq!(refused(&mut sessions, &unnamed(), 1, part, PLAYS_AFTER), Retry::TakeOwn);
        let next = SessionRequest { no_room: true, ..read(unnamed(), 4, 1, part) };
        assert_eq!(begin(&mut sessions, &next, PLAYS_AFTER), ReservationSource::Take(id(5)));
    }
}

#[test]
fn a_seek_with_a_reservation_of_its_own_continues_the_read_that_ends_soon_after() {
    let (late, soon) = (PLAYS_AFTER + SEEK_TIME + SEEK_TIME, PLAYS_AFTER + SEEK_TIME);
    for (ends, released) in [(soon, Some(id(5))), (late, None)] {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
        let seek = read(unnamed(), 2, 1, ContentPart::Elsewhere);
        assert_eq!(begin(&mut sessions, &seek, PLAYS_AFTER), ReservationSource::New);
        assert_eq!(sessions.started(&unnamed(), StreamId(2), id(6)), None);
        assert_eq!(sessions.end(&unnamed(), StreamId(1), midway(5), ends), released);
        let held = if released.is_some() { vec![] } else { vec![id(5)] };
        assert_eq!(sessions.expire(late + HOLD), held);
    }
    // The same if the older one's end is heard before the start of the newer one.
    let mut sessions = sessions();
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
    let seek = read(unnamed(), 2, 1, ContentPart::Elsewhere);
    assert_eq!(begin(&mut sessions, &seek, PLAYS_AFTER), ReservationSource::New);
    assert_eq!(sessions.end(&unnamed(), StreamId(1), midway(5), PLAYS_AFTER), None);
    assert_eq!(sessions.started(&unnamed(), StreamId(2), id(6)), Some(id(5)));
    assert_eq!(sessions.end(&unnamed(), StreamId(2), midway(6), soon), None);
    let other = refused(&mut sessions, &named("other"), 9, ContentPart::Whole, soon + PLAYS_AFTER);
    assert_eq!(other, Retry::GiveUp, "it has played since the first began");
}

#[test]
fn an_unnamed_whole_read_takes_over_from_no_playing_read() {
    for (part, playing) in
        [(ContentPart::Whole, PLAYS_AFTER), (ContentPart::Download, PLAYS_AFTER), (ContentPart::Download, Nanos::ZERO)]
    {
        let mut sessions = sessions();
        admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::FromStart), 5, Nanos::ZERO);
        let second = read(unnamed(), 2, 1, part);
        assert_eq!(begin(&mut sessions, &second, playing), ReservationSource::New);
        assert_eq!(sessions.end(&unnamed(), StreamId(2), StreamRelease::Refused, playing), None);
        assert_eq!(
            refused(&mut sessions, &unnamed(), 1, part, playing),
            WAIT,
            "it may be the same player's, which is about to close"
        );
        assert_eq!(sessions.end(&unnamed(), StreamId(1), midway(5), Nanos::ZERO), None);
        assert_eq!(refused(&mut sessions, &unnamed(), 1, part, Nanos::ZERO), Retry::Release(vec![id(5)], vec![]));
    }
}

#[test]
fn a_player_that_opens_its_content_again_takes_over_from_its_look() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    let now = Nanos::from_secs(5);
    let again = read(unnamed(), 2, 1, ContentPart::Whole);
    assert_eq!(begin(&mut sessions, &again, now), ReservationSource::New, "there may be room for both");
    assert_eq!(sessions.end(&unnamed(), StreamId(2), StreamRelease::Refused, now), None);
    assert_eq!(refused(&mut sessions, &unnamed(), 1, ContentPart::Whole, now), Retry::TakeOwn);
    assert_eq!(begin(&mut sessions, &SessionRequest { no_room: true, ..again }, now), ReservationSource::Take(id(5)));
}

#[test]
fn a_player_that_is_started_again_looks_again() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    let later = Nanos::from_secs(40);
    assert_eq!(sessions.end(&unnamed(), StreamId(1), midway(5), later), None);
    assert_eq!(begin(&mut sessions, &read(unnamed(), 2, 1, ContentPart::Whole), later), ReservationSource::Take(id(5)));
    sessions.started(&unnamed(), StreamId(2), id(5));
    let opened_again = later + Nanos::from_secs(5);
    assert_eq!(refused(&mut sessions, &unnamed(), 1, ContentPart::Whole, opened_again), Retry::TakeOwn);
    assert_eq!(refused(&mut sessions, &unnamed(), 1, ContentPart::Whole, later + PLAYS_AFTER), WAIT);
}

#[test]
fn a_stalled_read_gives_way_to_the_same_viewer_only() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    let (now, again) = (PLAYS_AFTER, read(unnamed(), 2, 1, ContentPart::Whole));
    assert_eq!((sessions.reads(&unnamed(), 2), sessions.reads(&unnamed(), 1)), (vec![], vec![StreamId(1)]));
    assert_eq!(refused(&mut sessions, &unnamed(), 1, ContentPart::Whole, now), WAIT);
    sessions.leaves(&unnamed(), StreamId(1));
    assert_eq!(refused(&mut sessions, &named("a"), 1, ContentPart::Whole, now), Retry::GiveUp);
    assert_eq!(refused(&mut sessions, &unnamed(), 1, ContentPart::Download, now), WAIT);
    assert_eq!(refused(&mut sessions, &unnamed(), 1, ContentPart::Whole, now), Retry::TakeOwn);
    assert_eq!(begin(&mut sessions, &SessionRequest { no_room: true, ..again }, now), ReservationSource::Take(id(5)));
}

#[test]
fn a_request_awaits_and_takes_a_viewers_other_rate() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(named("a"), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    let next = read(named("a"), 2, 2, ContentPart::Whole);
    assert_eq!(begin(&mut sessions, &next, Nanos::ZERO), ReservationSource::New);
    assert_eq!(sessions.end(&named("a"), StreamId(2), StreamRelease::Refused, Nanos::ZERO), None);
    assert_eq!(refused(&mut sessions, &named("a"), 2, ContentPart::Whole, Nanos::ZERO), WAIT);
    assert_eq!(sessions.end(&named("a"), StreamId(1), midway(5), Nanos::ZERO), None);
    assert_eq!(begin(&mut sessions, &next, Nanos::ZERO), ReservationSource::Take(id(5)));
    assert_eq!(sessions.end(&named("a"), StreamId(2), StreamRelease::Nothing, Nanos::ZERO), Some(id(5)));
    assert_eq!(refused(&mut sessions, &named("a"), 2, ContentPart::Whole, Nanos::ZERO), Retry::GiveUp);
}

#[test]
fn another_rate_takes_the_place_of_the_held_one() {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(named("a"), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    assert_eq!(sessions.end(&named("a"), StreamId(1), midway(5), Nanos::from_secs(20)), None);
    let dearer = SessionRequest { terms: OTHER, ..read(named("a"), 2, 2, ContentPart::Whole) };
    assert_eq!(
        begin(&mut sessions, &dearer, Nanos::from_secs(20)),
        ReservationSource::Take(id(5)),
        "the data plane replaces it"
    );
    sessions.started(&named("a"), StreamId(2), id(6));
    assert_eq!(sessions.end(&named("a"), StreamId(2), midway(6), Nanos::from_secs(20)), None);
    assert_eq!(begin(&mut sessions, &dearer, Nanos::from_secs(20)), ReservationSource::Take(id(6)));
}

/// The data plane leaves it as it was: the player goes back to the quality before.
#[test]
fn a_dearer_quality_that_is_refused_leaves_the_session_what_it_held() {
    let (viewer, mut sessions, now) = (named("a"), sessions(), Nanos::from_secs(20));
    admitted(&mut sessions, &read(viewer.clone(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    assert_eq!(sessions.end(&viewer, StreamId(1), midway(5), now), None);
    for no_room in [false, true] {
        let dearer = SessionRequest { terms: OTHER, no_room, ..read(viewer.clone(), 2, 2, ContentPart::Whole) };
        assert_eq!(begin(&mut sessions, &dearer, now), ReservationSource::Take(id(5)));
        assert_eq!(sessions.end(&viewer, StreamId(2), StreamRelease::Refused, now), None);
        assert_eq!(refused(&mut sessions, &viewer, 2, ContentPart::Whole, now + HOLD - Nanos(1)), Retry::TakeOwn);
    }
    assert_eq!(refused(&mut sessions, &named("b"), 3, ContentPart::Whole, now), Retry::GiveUp, "nothing of another's");
    let before = read(viewer.clone(), 3, 2, ContentPart::Whole);
    assert_eq!(begin(&mut sessions, &before, now), ReservationSource::Take(id(5)));
    sessions.started(&viewer, StreamId(3), id(5));
    assert_eq!(sessions.end(&viewer, StreamId(3), midway(5), now), None);
    assert_eq!(sessions.expire(now + HOLD), [id(5)]);
}

/// Its player fetches both by turns; the pictures would have lost their reservation to each part of the sound.
#[test]
fn sound_in_files_of_its_own_takes_nothing_from_the_pictures() {
    let (viewer, mut sessions) = (named("a"), sessions());
    admitted(&mut sessions, &read(viewer.clone(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    assert_eq!(sessions.end(&viewer, StreamId(1), midway(5), Nanos::from_secs(1)), None);
    let low = BitRate(TERMS.rate.0 / 64);
    let terms = ReservationTerms { rate: low, ..TERMS };
    let sound = SessionRequest { terms, is_small: true, ..read(viewer.clone(), 2, 2, ContentPart::Whole) };
    assert_eq!(begin(&mut sessions, &sound, Nanos::from_secs(1)), ReservationSource::New);
    assert_eq!(sessions.share_of(&viewer, low), Some(id(5)), "where there is no room, it is read beside them");
    assert_eq!(sessions.share_of(&viewer, TERMS.rate), None, "nothing of their own rate or more is");
    let pictures = read(viewer, 3, 3, ContentPart::Whole);
    assert_eq!(begin(&mut sessions, &pictures, Nanos::from_secs(2)), ReservationSource::Take(id(5)));
}

/// A player that seeks closes the connection on which it waits for a segment, which shows only when that is sent.
#[test]
fn a_viewer_that_leaves_a_read_for_another_content_takes_its_reservation_along_where_there_is_no_room() {
    let (viewer, mut sessions, now) = (named("a"), sessions(), Nanos::from_secs(1));
    admitted(&mut sessions, &read(viewer.clone(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    let next = read(viewer.clone(), 2, 2, ContentPart::Whole);
    assert_eq!(begin(&mut sessions, &next, now), ReservationSource::New, "while there is room for both");
    assert_eq!(sessions.end(&viewer, StreamId(2), StreamRelease::Refused, now), None);
    assert_eq!(refused(&mut sessions, &viewer, 2, ContentPart::Whole, now), WAIT);
    assert_eq!((sessions.named_reads(&viewer), sessions.named_reads(&unnamed())), (vec![StreamId(1)], vec![]));
    sessions.leaves(&viewer, StreamId(1));
    assert_eq!(begin(&mut sessions, &SessionRequest { no_room: true, ..next }, now), ReservationSource::Take(id(5)));
    sessions.started(&viewer, StreamId(2), id(5));
    assert_eq!(sessions.end(&viewer, StreamId(1), StreamRelease::Nothing, now), None);
    assert_eq!(sessions.end(&viewer, StreamId(2), midway(5), now), None, "it holds what it took over");
}

/// Time for which others are refused the reservation of a viewer that read `part` of a content for `seconds`.
fn firm_for(viewer: &Viewer, part: ContentPart, seconds: u64, stop_point: StopPoint) -> u64 {
    let mut sessions = sessions();
    admitted(&mut sessions, &read(viewer.clone(), 1, 1, part), 5, Nanos::ZERO);
    let end = Nanos::from_secs(seconds);
    assert_eq!(sessions.end(viewer, StreamId(1), StreamRelease::Held(id(5), stop_point), end), None);
    let other = named("other");
    let gives = |&after: &u64| {
        refused(&mut sessions, &other, 9, ContentPart::Whole, end + Nanos::from_secs(after)) != Retry::GiveUp
    };
    (0..=60).find(gives).expect("it is given up at last")
}

#[test]
fn a_brief_read_holds_nothing_that_others_need() {
    for part in [ContentPart::FromStart, ContentPart::Elsewhere] {
        assert_eq!(firm_for(&unnamed(), part, 9, StopPoint::Midway), 0, "a head, or an index");
        assert_eq!(firm_for(&unnamed(), part, 10, StopPoint::Midway), 10, "a pause, for as long as it played");
        assert_eq!(firm_for(&unnamed(), part, 100, StopPoint::Midway), 60);
        assert_eq!(firm_for(&unnamed(), part, 10, StopPoint::AtEnd), 10, "the next title comes, or nothing");
    }
    assert_eq!(firm_for(&unnamed(), ContentPart::Whole, 100, StopPoint::Midway), 0, "a download");
    for part in [ContentPart::Whole, ContentPart::Elsewhere] {
        assert_eq!(firm_for(&named("a"), part, 0, StopPoint::Midway), 0, "a name alone earns nothing");
        assert_eq!(firm_for(&named("a"), part, 1, StopPoint::Midway), 1, "as long as it was read");
        assert_eq!(firm_for(&named("a"), part, 1, StopPoint::AtEnd), 1);
        assert_eq!(firm_for(&named("a"), part, 15, StopPoint::Midway), 15, "a pause");
        assert_eq!(firm_for(&named("a"), part, 15, StopPoint::AtEnd), 10);
    }
}

#[test]
fn a_viewer_that_goes_from_segment_to_segment_is_waited_for_at_the_end_of_each() {
    let mut sessions = sessions();
    let at_end = StreamRelease::Held(id(5), StopPoint::AtEnd);
    admitted(&mut sessions, &read(unnamed(), 1, 1, ContentPart::Whole), 5, Nanos::ZERO);
    let mut now = Nanos::ZERO;
    for stream in 2..=6 {
        now += Nanos::from_secs(3);
        assert_eq!(sessions.end(&unnamed(), StreamId(stream - 1), at_end, now), None);
        assert_eq!(
            begin(&mut sessions, &read(unnamed(), stream, stream, ContentPart::Whole), now),
            ReservationSource::Take(id(5))
        );
    }
    assert_eq!(sessions.end(&unnamed(), StreamId(6), at_end, now), None);
    assert_eq!(
        refused(&mut sessions, &named("other"), 9, ContentPart::Whole, now + Nanos::from_secs(14)),
        Retry::GiveUp
    );
    assert_eq!(sessions.expire(now + HOLD), [id(5)]);
}
