//! Tests of what the holders of budgets keep from others.

use super::*;

#[test]
fn invented_names_of_one_address_keep_a_tenth_from_newcomers() {
    let mut sessions = sessions();
    let other = Viewer::named("other".to_owned(), &charged(2));
    for name in 0..11 {
        let viewer = named(&name.to_string());
        admitted(
            &mut sessions,
            &read(viewer.clone(), name, 1, ContentPart::Whole),
            u32::try_from(name).expect("a few"),
            Nanos::ZERO,
        );
        assert_eq!(
            sessions.end(
                &viewer,
                StreamId(name),
                StreamRelease::Held(id(u32::try_from(name).expect("a few")), StopPoint::Midway),
                HOLD
            ),
            None
        );
    }
    let now = HOLD + Nanos::from_secs(1);
    let newcomer = SessionRequest { charged: charged(2), ..read(other, 100, 2, ContentPart::Whole) };
    let short = Resource::Network(TERMS.link);
    let Retry::Release(released, _) = sessions.refused(&newcomer, short_of(short, 1), NO_LIMITS, now) else {
        panic!("they yield")
    };
    assert_eq!(released.len(), 1, "as many as it needs");
    let Retry::Release(released, _) = sessions.refused(&newcomer, short_of(short, 1000), NO_LIMITS, now) else {
        panic!("more")
    };
    assert_eq!(released.len(), 6, "and all but four");
    assert_eq!(sessions.refused(&newcomer, short_of(short, 1000), NO_LIMITS, now), Retry::GiveUp, "which were earned");
}

/// Twenty viewers of segments behind one address, each of which waits until there is room in its buffer: of an address beyond its budget,
/// newcomers took their reservations, and all stalled by turns.
#[test]
fn a_viewer_that_plays_what_it_was_sent_keeps_its_reservation_whatever_its_address_holds() {
    let (mut sessions, at) = (sessions(), Nanos::from_secs);
    for slot in 1..=20 {
        let (viewer, nth) = (named(&slot.to_string()), u64::from(slot));
        admitted(&mut sessions, &read(viewer.clone(), nth, nth, ContentPart::Whole), slot, Nanos::ZERO);
        let segment = WholeContent { requested_at: Nanos::ZERO, lasts: at(6), was_late: false };
        assert_eq!(sessions.sent_whole(&viewer, StreamId(nth), &segment, at(2)), None);
        assert_eq!(sessions.end(&viewer, StreamId(nth), midway(slot), at(2)), None);
    }
    let mut newcomer = |resource, seconds| {
        let request = read(named("newcomer"), 0, 100, ContentPart::Whole);
        sessions.refused(&request, short_of(resource, 1), NO_LIMITS, at(seconds))
    };
    assert_eq!(newcomer(Resource::Network(TERMS.link), 7), Retry::GiveUp, "they play until 8 s");
    assert!(matches!(newcomer(Resource::Table, 7), Retry::Release(ids, _) if ids.len() == 1), "a place is not earned");
    assert!(matches!(newcomer(Resource::Network(TERMS.link), 9), Retry::Release(ids, _) if ids.len() == 1));
}

#[test]
fn streams_of_one_address_that_are_not_read_yield_beyond_its_budget() {
    let mut sessions = sessions();
    for name in 0..6 {
        let slot = u32::try_from(name).expect("a few");
        let now = Nanos::from_secs(name);
        admitted(&mut sessions, &read(named(&name.to_string()), name, 1, ContentPart::Whole), slot, now);
    }
    let newcomer = SessionRequest { charged: charged(2), ..read(named("other"), 100, 2, ContentPart::Whole) };
    let mut ends = |unread: &[u64]| {
        let unread = unread.iter().copied().map(StreamId).collect();
        let short = ShortResource { resource: Resource::Network(TERMS.link), times: 1000, unread: &unread };
        sessions.refused(&newcomer, short, NO_LIMITS, HOLD)
    };
    assert_eq!(ends(&[0, 1, 2, 3]), Retry::GiveUp, "as many as it may hold");
    assert_eq!(ends(&[0, 1, 2, 3, 4]), Retry::Release(vec![], vec![StreamId(0)]), "the oldest");
}

#[test]
fn a_budget_limits_the_rates_that_it_has_reserved() {
    let mut sessions = sessions();
    let limits: Limits<'_> = &|_| BudgetLimits { reserved: Some(BitRate(2 * TERMS.rate.0)), ..BudgetLimits::default() };
    for stream in 1..=2 {
        let request = read(named(&stream.to_string()), stream, 1, ContentPart::Whole);
        assert_eq!(sessions.begin(&request, limits, Nanos::ZERO), ReservationSource::New);
        sessions.started(&request.viewer, StreamId(stream), id(u32::try_from(stream).expect("a few")));
    }
    let third = read(named("3"), 3, 1, ContentPart::Whole);
    let ReservationSource::Refused(refusal) = sessions.begin(&third, limits, Nanos::ZERO) else { panic!("admitted") };
    assert_eq!((refusal.most, refusal.used, refusal.more), (2 * TERMS.rate.0, 2 * TERMS.rate.0, TERMS.rate.0));
    let seek = read(named("1"), 4, 1, ContentPart::Elsewhere);
    assert_eq!(
        sessions.begin(&seek, limits, Nanos::ZERO),
        ReservationSource::TakeFrom(id(1), StreamId(1)),
        "nothing more"
    );
    let other = SessionRequest { charged: charged(2), ..read(named("4"), 5, 1, ContentPart::Whole) };
    assert_eq!(sessions.begin(&other, limits, Nanos::ZERO), ReservationSource::New, "another budget");
    assert_eq!(sessions.end(&named("2"), StreamId(2), midway(2), Nanos::ZERO), None);
    assert_eq!(sessions.idle_by(charged(1).owner()), TERMS.rate.0);
    assert_eq!(sessions.give_up(charged(1).owner(), &named("3"), Nanos::ZERO), [id(2)]);
    assert_eq!(sessions.begin(&third, limits, Nanos::ZERO), ReservationSource::New);
}

#[test]
fn reads_take_nothing_of_what_a_budget_may_upload_nor_recordings_of_what_it_may_download() {
    let mut sessions = sessions();
    let rate = TERMS.rate;
    let limits: Limits<'_> = &|_| BudgetLimits { download: Some(rate), upload: Some(rate), ..BudgetLimits::default() };
    let first = read(named("1"), 1, 1, ContentPart::Whole);
    assert_eq!(sessions.begin(&first, limits, Nanos::ZERO), ReservationSource::New);
    sessions.started(&first.viewer, StreamId(1), id(1));
    assert_eq!(sessions.begin_recording(StreamId(2), (&charged(1), rate), limits, Nanos::ZERO), Ok(()));
    let second = read(named("2"), 3, 1, ContentPart::Whole);
    let ReservationSource::Refused(refusal) = sessions.begin(&second, limits, Nanos::ZERO) else { panic!("admitted") };
    assert_eq!((refusal.limit, refusal.used), (BudgetLimit::Download, rate.0));
    let refusal =
        sessions.begin_recording(StreamId(4), (&charged(1), rate), limits, Nanos::ZERO).expect_err("too much");
    assert_eq!((refusal.limit, refusal.used), (BudgetLimit::Upload, rate.0));
}

#[test]
fn streams_are_looked_through_for_limits_alone() {
    let mut sessions = sessions();
    for stream in 0..10_000 {
        let request = read(named(&stream.to_string()), stream, 1, ContentPart::Whole);
        assert_eq!(sessions.begin(&request, NO_LIMITS, Nanos::ZERO), ReservationSource::New);
    }
    let limited: Limits<'_> = &|_| BudgetLimits { reserved: Some(BitRate(u64::MAX)), ..BudgetLimits::default() };
    let check = |limits| {
        let begun = std::time::Instant::now();
        for _ in 0..10 {
            let checked = (Direction::Out, BitRate(0), TERMS.rate);
            assert_eq!(sessions.check_reserved(&charged(1), checked, limits, Nanos::ZERO), Ok(()));
        }
        begun.elapsed()
    };
    let least = |limits| (0..5).map(|_| check(limits)).min().expect("five");
    let (without, with) = (least(NO_LIMITS), least(limited));
    assert!(without * 10 < with, "{without:?} {with:?}");
}
