//! Tests of admissions and refusals.

use crate::profile::SeekPoint;

use super::*;

fn admission(memory_bytes: u64) -> Admission {
    admission_beside(memory_bytes, 0.0)
}

fn admission_beside(memory_bytes: u64, be_share: f64) -> Admission {
    let settings = AdmissionSettings {
        reservations_max: 1000,
        pages: memory_bytes / CACHE_PAGE_BYTES,
        be_share,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let disks = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1))];
    Admission::new(&settings, disks, &[BitRate(10_000_000_000)])
}

fn request(rate: u64) -> AdmissionRequest {
    AdmissionRequest {
        disk: DiskId(0),
        link: LinkId(0),
        rate: BitRate(rate),
        zone_bytes_per_second: 100_000_000,
        disk_share: 1.0,
        fragments_per_byte: 0.0,
        length: u64::MAX,
        content: RequestedContent::ALONE,
        written_every: None,
    }
}

fn fill(admission: &mut Admission, rate: u64) -> (Vec<ReservationId>, Refusal) {
    let mut held = vec![];
    loop {
        match admission.reserve(&[request(rate)]) {
            Ok(id) => held.push(id),
            Err(refused) => return (held, refused),
        }
    }
}

#[test]
fn more_memory_carries_more_streams_until_the_disk_is_full() {
    let counts: Vec<usize> =
        [64 << 20, 256 << 20, 1 << 30, 4 << 30].map(|bytes| fill(&mut admission(bytes), 8_800_000).0.len()).to_vec();
    assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]), "{counts:?}");
    assert!(counts[3] > counts[0] * 2, "{counts:?}");
}

#[test]
fn the_grantable_rate_is_granted_and_a_higher_one_is_not() {
    let mut admission = admission(4 << 30);
    let (held, refused) = fill(&mut admission, 25_000_000);
    assert_eq!(refused.resource, Resource::Disk(DiskId(0)));
    assert!(held.len() > 10);
    if refused.grantable.0 >= 1_000 {
        assert!(admission.check(&[request(refused.grantable.0)]).is_ok());
        assert!(admission.check(&[request(refused.grantable.0 * 11 / 10)]).is_err());
    }
    admission.release(held[0]);
    assert!(admission.reserve(&[request(25_000_000)]).is_ok());
}

#[test]
fn an_admitted_stream_starts_next_round_on_an_idle_disk() {
    // As it is assumed where nothing can be measured, and twice as fast.
    let assumed = DiskProfile::spindle_default();
    let seeks = |seek: &SeekPoint| SeekPoint { time: Nanos(seek.time.0 / 2), ..*seek };
    let fast = DiskProfile { seeks: assumed.seeks.iter().map(seeks).collect(), ..assumed.clone() };
    let rates = [8, 25, 100, 140, 200, 250, 300, 400, 500, 600, 700, 900, 9_000, 900_000].map(|rate| rate * 1_000_000);
    for (profile, zone) in [(assumed, 58_000_000), (fast, 139_000_000), (DiskProfile::flash_default(), 300_000_000)] {
        for rate in rates {
            let round = Nanos::from_millis(if profile.rotational { 1_000 } else { 250 });
            let settings = AdmissionSettings {
                reservations_max: 10,
                pages: 16_384,
                be_share: 0.1,
                sharing_reserve: 0.1,
                first_byte_max: Nanos::from_secs(10),
            };
            let links = [BitRate(1_000_000_000_000_000)];
            let mut admission = Admission::new(&settings, vec![(profile.clone(), round)], &links);
            let asked = AdmissionRequest { zone_bytes_per_second: zone, ..request(rate) };
            let id = admission.reserve(&[asked]).or_else(|refused| {
                assert!(refused.grantable.0 > 100_000_000, "{rate}: {}", refused.grantable);
                admission.reserve(&[AdmissionRequest { rate: refused.grantable, ..asked }])
            });
            let id = id.expect("granted as told");
            let conditions = StartConditions { remaining: 0.95, ..StartConditions::idle(5) };
            assert!(admission.place(id, &conditions).is_some(), "{rate} was admitted and cannot start");
        }
    }
}

#[test]
fn a_link_is_not_oversold() {
    let settings = AdmissionSettings {
        reservations_max: 1000,
        pages: 100_000,
        be_share: 0.0,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let disks = vec![(DiskProfile::flash_default(), Nanos::from_millis(250))];
    let mut admission = Admission::new(&settings, disks, &[BitRate(100_000_000)]);
    let (held, refused) = fill(&mut admission, 8_800_000);
    assert_eq!((held.len(), refused.resource), (10, Resource::Network(LinkId(0))));
    assert!((5_900_000..6_200_000).contains(&refused.grantable.0), "{}", refused.grantable);
}

#[test]
fn everything_released_is_everything_free_and_stale_names_do_nothing() {
    let mut admission = admission(1 << 30);
    let before = (admission.memory(), admission.sending().left(LinkId(0)));
    let (held, _) = fill(&mut admission, 8_800_000);
    for (round, id) in (0u64..).zip(&held) {
        if admission.place(*id, &StartConditions::idle(round * 2)).is_none() {
            continue;
        }
    }
    for id in &held {
        admission.release(*id);
        admission.release(*id);
    }
    assert_eq!((admission.memory(), admission.sending().left(LinkId(0))), before);
    assert!(admission.table(DiskId(0)).promised_share() < 1e-6);
    assert_eq!(admission.sending().promised(), BitRate(0));
}

#[test]
fn a_suspended_reservation_holds_nothing_and_keeps_its_id() {
    let mut admission = admission(1 << 30);
    let before = (admission.memory(), admission.sending().left(LinkId(0)), admission.sending().promised());
    let id = admission.reserve(&[request(8_800_000)]).unwrap();
    admission.place(id, &StartConditions::idle(0)).unwrap();
    let held = (admission.memory(), admission.sending().left(LinkId(0)), admission.sending().promised());
    admission.suspend(id);
    assert_eq!((admission.memory(), admission.sending().left(LinkId(0)), admission.sending().promised()), before);
    assert_ne!(admission.reserve(&[request(8_800_000)]).unwrap(), id, "its name is taken");
    admission.release(ReservationId { slot: 1, generation: 0 });
    assert_eq!(admission.reserve_again(id, &[request(8_800_000)]), Ok(()));
    assert_eq!((admission.memory(), admission.sending().left(LinkId(0)), admission.sending().promised()), held);
    assert_eq!(admission.reserve_again(id, &[request(8_800_000)]), Err(Resource::Table), "it is held");
    admission.suspend(id);
    admission.release(id);
    assert_eq!(admission.reserve_again(id, &[request(8_800_000)]), Err(Resource::Table), "somebody else's now");
    assert_eq!(admission.reserve(&[request(8_800_000)]).unwrap().slot, id.slot);
}

const SEGMENT: u64 = 6_600_000;
/// The disk has room at any time.
const IDLE: Nanos = Nanos::ZERO;
/// The time for which a segment lasts, from its player's request on.
const LASTS: Nanos = Nanos(Nanos::from_secs(6).0 - REQUEST_WAY_MAX.0);

/// A read that is requested, and opened at once, at this time.
fn read_at(at: Nanos, bytes: u64, room_at: Nanos) -> SessionRead {
    SessionRead { bytes, room_at, requested_at: at, now: at }
}

/// Segments of six seconds at 8.8 Mbit/s.
fn segment() -> AdmissionRequest {
    AdmissionRequest { length: SEGMENT, ..request(8_800_000) }
}

#[test]
fn a_session_of_segments_has_one_in_each_of_its_times_and_keeps_its_place_between_them() {
    let mut admission = admission(4 << 30);
    let id = admission.reserve(&[segment()]).expect("it fits");
    let share = admission.table(DiskId(0)).promised_share();
    let at = Nanos::from_secs;
    let lasts =
        |deadline: Option<BlockDeadline>, from: u64| deadline.expect("it has its place").at.saturating_sub(at(from)).0;
    let six = LASTS.0;
    assert!(lasts(admission.deadline(id, read_at(at(100), SEGMENT, IDLE)), 100).abs_diff(six) < 1_000_000);
    assert!(admission.renew(id, &[segment()]));
    assert!(
        lasts(admission.deadline(id, read_at(at(101), SEGMENT, IDLE)), 101).abs_diff(six) < 1_000_000,
        "the player began with the first, which was early"
    );
    assert!(
        lasts(admission.deadline(id, read_at(at(102), SEGMENT, IDLE)), 102).abs_diff(six) < 1_000_000,
        "nothing else waits for its disk"
    );
    assert!((admission.table(DiskId(0)).promised_share() - share).abs() < 1e-9, "nothing is promised twice");
    admission.release(id);
    assert!(admission.table(DiskId(0)).promised_share() < 1e-9);
}

#[test]
fn the_time_from_a_block_to_the_next_request_is_no_loss_to_a_player() {
    let mut admission = admission(4 << 30);
    let id = admission.reserve(&[segment()]).expect("it fits");
    let far = Nanos::MAX;
    let mut due = Nanos::from_secs(100);
    admission.deadline(id, read_at(due, SEGMENT, far)).expect("it has its place");
    for _ in 0..10 {
        // Each block comes in its last moment, and the next request for it after its way.
        let next = admission
            .deadline(id, read_at(due.saturating_add(REQUEST_WAY_MAX), SEGMENT, far))
            .expect("it has its place")
            .at;
        assert!(next.saturating_sub(due).0.abs_diff(Nanos::from_secs(6).0) < 1_000_000, "{next} behind {due}");
        due = next;
    }
}

#[test]
fn an_early_block_is_due_when_its_disk_has_room() {
    let mut admission = admission(4 << 30);
    let short = AdmissionRequest { length: 1_100_000, ..request(8_800_000) };
    let greedy = admission.reserve(&[short]).expect("it fits");
    let now = Nanos::from_secs(100);
    let mut due = |room: u64, count: usize| {
        let room_at = now.saturating_add(Nanos::from_secs(room));
        let last = (0..count).map(|_| admission.deadline(greedy, read_at(now, short.length, room_at))).last().flatten();
        last.expect("it has its place").at.saturating_sub(now).as_secs_f64().round()
    };
    assert_eq!(
        [due(5, 1), due(5, 1), due(5, 1), due(5, 1)],
        [5.0, 1.0, 2.0, 3.0],
        "the first when there is room, then by its own clock"
    );
    assert_eq!(due(5, 20), 5.0, "when there is room");
    assert_eq!(due(0, 1), 1.0, "as long as it lasts");
    assert_eq!(due(50, 20), 10.0, "as long as players wait");
}

#[test]
fn a_session_that_shared_reads_has_its_share_back_on_a_disk_that_was_filled_meanwhile() {
    let mut admission = admission_beside(4 << 30, 0.1);
    let ids: Vec<_> = (0..1000).map_while(|_| admission.reserve(&[segment()]).ok()).collect();
    let free = admission.table(DiskId(0)).free_share();
    ids[..3].iter().for_each(|&id| admission.share(id));
    while admission.reserve(&[segment()]).is_ok() {}
    for &id in &ids[..3] {
        assert!(admission.unshare(id, &[segment()]).is_ok(), "its rate was promised");
        assert!(admission.deadline(id, read_at(Nanos::from_secs(100), SEGMENT, IDLE)).is_some());
    }
    assert!(free < 0.02 && admission.table(DiskId(0)).promised_share() < 0.96, "it is of best effort's share");
    assert!(admission.reserve(&[segment()]).is_err(), "and new ones find it promised");
}

#[test]
fn a_session_of_segments_on_two_disks_holds_half_of_its_time_on_each() {
    let disks = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1)); 2];
    let settings = AdmissionSettings {
        reservations_max: 1000,
        pages: 1 << 20,
        be_share: 0.0,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let mut admission = Admission::new(&settings, disks, &[BitRate(10_000_000_000)]);
    let half = |disk: u16| AdmissionRequest { disk: DiskId(disk), disk_share: 0.5, ..segment() };
    let ids: Vec<_> = (0..1000).map_while(|_| admission.reserve(&[half(0), half(1)]).ok()).collect();
    let alone = self::admission(4 << 30);
    let demand = alone.resources.demand(&segment());
    let on_one =
        (1..1000).take_while(|&count| alone.resources.disk(DiskId(0)).table.fits(&demand, f64::from(count))).count();
    assert!(ids.len().abs_diff(2 * on_one) <= 2, "{} and {on_one}", ids.len());
    let share = |admission: &Admission| [0, 1].map(|disk| admission.table(DiskId(disk)).promised_share());
    let before = share(&admission);
    let id = ids[0];
    admission.deadline(id, read_at(Nanos::from_secs(100), SEGMENT, IDLE));
    assert!(admission.renew(id, &[half(1), half(0)]), "the next lies on the other disk");
    let deadline = admission.deadline(id, read_at(Nanos::from_secs(102), SEGMENT, IDLE)).expect("it has its place").at;
    assert!(deadline.saturating_sub(Nanos::from_secs(102)).0.abs_diff(LASTS.0) < 1_000_000, "{deadline}");
    assert!(before.iter().zip(share(&admission)).all(|(before, after)| (before - after).abs() < 1e-9));
    assert!(
        !admission.renew(id, &[segment()]) || admission.share_held(id, DiskId(0)) > 0.9,
        "half is not enough for all"
    );
    ids.into_iter().for_each(|id| admission.release(id));
    assert!(share(&admission).iter().all(|share| *share < 1e-9));
}

#[test]
fn a_session_that_is_refused_a_better_quality_keeps_what_it_holds() {
    let disks = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1)); 2];
    let settings = AdmissionSettings {
        reservations_max: 1000,
        pages: 1 << 20,
        be_share: 0.0,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let mut admission = Admission::new(&settings, disks, &[BitRate(10_000_000_000)]);
    let halves = |rate: u64| {
        let segment = AdmissionRequest { rate: BitRate(rate), length: rate * 6 / 8, disk_share: 0.5, ..segment() };
        [0, 1].map(|disk| AdmissionRequest { disk: DiskId(disk), ..segment })
    };
    let ids: Vec<_> = (0..1000).map_while(|_| admission.reserve(&halves(8_800_000)).ok()).collect();
    let held = |admission: &Admission| {
        let shares = [0, 1].map(|disk| (admission.table(DiskId(disk)).promised_share() * 1e9).round());
        (shares, admission.memory(), admission.sending().left(LinkId(0)), admission.sending().promised())
    };
    admission.share(ids[1]);
    let (before, at) = (held(&admission), Nanos::from_secs(100));
    admission.deadline(ids[0], read_at(at, SEGMENT, IDLE));
    for (id, shares) in [(ids[0], false), (ids[1], false), (ids[2], true)] {
        let rate = if shares { 20_000_000_000 } else { 100_000_000 };
        let refused = admission.exchange(id, &halves(rate), shares).expect_err("there is no such room");
        assert!(refused.grantable.0 >= 8_800_000, "its own is among that: {}", refused.grantable);
        assert_eq!(held(&admission), before);
    }
    assert!(admission.renew(ids[0], &halves(8_800_000)));
    let next = admission.deadline(ids[0], read_at(at, SEGMENT, IDLE)).expect("it has its share");
    assert!(!next.is_first && next.at.saturating_sub(at).0.abs_diff(LASTS.0) < 1_000_000, "{next:?}");
    admission.release(ids[3]);
    assert_eq!(admission.exchange(ids[0], &halves(13_000_000), false), Ok(()), "under its name");
    assert_eq!(admission.rate(ids[0]), Some(BitRate(13_000_000)));
    ids.iter().for_each(|&id| admission.release(id));
    assert!(
        [0, 1].iter().all(|&disk| admission.table(DiskId(disk)).promised_share() < 1e-9) && admission.memory().0 == 0
    );
}

#[test]
fn a_block_that_lies_elsewhere_costs_the_share_that_reading_there_takes() {
    let mut admission = admission(4 << 30);
    let near = |request: AdmissionRequest, faster: u64| AdmissionRequest {
        zone_bytes_per_second: request.zone_bytes_per_second * faster,
        ..request
    };
    for faster in [1, 2] {
        let id = admission.reserve(&[segment()]).expect("it fits");
        admission.deadline(id, read_at(Nanos::from_secs(100), SEGMENT, IDLE));
        let next = near(segment(), faster);
        assert!(admission.renew(id, &[next]));
        let deadline =
            admission.deadline(id, read_at(Nanos::from_secs(102), SEGMENT, IDLE)).expect("it has its place").at;
        assert!(deadline.saturating_sub(Nanos::from_secs(102)).0.abs_diff(LASTS.0) < 1_000_000, "{deadline}, {faster}");
        assert!(admission.renew(id, &[segment()]), "and back");
        let deadline =
            admission.deadline(id, read_at(Nanos::from_secs(108), SEGMENT, IDLE)).expect("it has its place").at;
        assert!(deadline.saturating_sub(Nanos::from_secs(108)).0.abs_diff(LASTS.0) < 1_000_000, "{deadline}, {faster}");
        admission.release(id);
    }
}

#[test]
fn a_block_in_fragments_is_in_time_on_a_full_disk_and_a_new_session_is_refused_for_it() {
    let mut admission = admission_beside(4 << 30, 0.1);
    let ids: Vec<_> = (0..1000).map_while(|_| admission.reserve(&[segment()]).ok()).collect();
    let (share, last) = (admission.table(DiskId(0)).promised_share(), ids[ids.len() - 1]);
    let fragments_per_byte = 2.0 / SEGMENT as f64;
    for &id in &ids[..ids.len() / 10] {
        admission.deadline(id, read_at(Nanos::from_secs(100), SEGMENT, IDLE));
        assert!(admission.renew(id, &[AdmissionRequest { fragments_per_byte, ..segment() }]));
        let deadline =
            admission.deadline(id, read_at(Nanos::from_secs(102), SEGMENT, IDLE)).expect("it has its place").at;
        assert!(deadline.saturating_sub(Nanos::from_secs(102)).0.abs_diff(LASTS.0) < 1_000_000, "{deadline}");
    }
    assert!(admission.table(DiskId(0)).promised_share() > share);
    admission.release(last);
    assert!(admission.reserve(&[segment()]).is_err(), "the room that is left is needed");
}

#[test]
fn small_reads_beside_a_session_have_a_clock_of_their_own_and_its_share_grows_by_them() {
    let mut admission = admission(4 << 30);
    let id = admission.reserve(&[segment()]).expect("it fits");
    let share = admission.table(DiskId(0)).promised_share();
    let sound = AdmissionRequest { length: 96_000, rate: BitRate(0), ..request(0) };
    let beside = admission.accompany(id, &sound).expect("there is memory");
    let (now, far) = (Nanos::from_secs(100), Nanos::MAX);
    admission.deadline(id, read_at(now, SEGMENT, IDLE));
    let (sounds, promised): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let due = admission.deadline_beside(id, read_at(now, 96_000, far)).expect("of its share");
            (due, admission.table(DiskId(0)).promised_share())
        })
        .unzip();
    let [first, second, third] = sounds[..] else { panic!("three") };
    assert!(promised[0] > share * 1.05, "a seek more in six seconds, from the first on");
    assert_eq!(promised, [promised[0]; 3], "the others fill its player's buffer");
    assert!(first.is_first && !second.is_first, "{first:?} {second:?}");
    let behind = |due: BlockDeadline, span: Nanos| due.at.saturating_sub(now).0.abs_diff(span.0) < 1_000_000;
    assert!(behind(second, Nanos::from_secs(6)), "in time with a block: {second:?}");
    assert!(
        behind(third, Nanos::from_millis(9_750)),
        "behind the one before, and in the time that players wait: {third:?}"
    );
    let pictures = admission.deadline(id, read_at(now, SEGMENT, far)).expect("it has its share");
    assert!(
        behind(pictures, Nanos::from_secs(6)),
        "sound that was requested early takes none of their time: {pictures:?}"
    );
    assert!(admission.renew(id, &[segment()]));
    assert!((admission.table(DiskId(0)).promised_share() - promised[0]).abs() < 1e-9, "as many as before");
    let pictures = admission.deadline(id, read_at(pictures.at, SEGMENT, far)).expect("it has its share");
    assert!(behind(pictures, Nanos::from_secs(12)), "by the share of blocks alone: {pictures:?}");
    admission.release(beside);
    assert!(admission.accompany(beside, &sound).is_none(), "there is no such session any more");
    admission.share(id);
    assert!(admission.accompany(id, &sound).is_some(), "one that shares reads plays sound as well");
    assert!(admission.deadline_beside(id, read_at(now, 96_000, IDLE)).is_some(), "with its blocks");
}

#[test]
fn small_reads_without_room_for_them_are_of_the_time_of_the_blocks() {
    let mut admission = admission(4 << 30);
    let ids: Vec<_> = (0..1000).map_while(|_| admission.reserve(&[segment()]).ok()).collect();
    while admission.reserve(&[request(100_000)]).is_ok() {}
    let (id, now, far) = (ids[0], Nanos::from_secs(100), Nanos::MAX);
    let sound = AdmissionRequest { length: 96_000, rate: BitRate(0), ..request(0) };
    admission.accompany(id, &sound).expect("there is memory");
    admission.deadline(id, read_at(now, SEGMENT, IDLE));
    admission.deadline_beside(id, read_at(now, 96_000, far));
    let due = admission.deadline(id, read_at(now, SEGMENT, far)).expect("it has its share").at.saturating_sub(now);
    assert!(due > Nanos::from_millis(6_300), "a seek later: {due}");
}

#[test]
fn the_open_of_a_content_counts_in_its_wait_for_half_of_its_time() {
    let mut admission = admission(4 << 30);
    let id = admission.reserve(&[segment()]).expect("it fits");
    let now = Nanos::from_secs(100);
    admission.deadline(id, read_at(now.saturating_sub(Nanos::from_secs(20)), SEGMENT, IDLE));
    for (opens, counted) in [(1, 1_000), (2, 2_000), (5, 3_000)] {
        let requested_at = now.saturating_sub(Nanos::from_secs(opens));
        let read = SessionRead { requested_at, ..read_at(now, SEGMENT, IDLE) };
        let due = admission.deadline(id, read).expect("it has its share").at.saturating_sub(now);
        let counted = LASTS.saturating_sub(Nanos::from_millis(counted));
        assert!(due.0.abs_diff(counted.0) < 1_000_000, "{due}, {counted}");
    }
}

/// A block of which the disk has room early gives way to blocks that others' shares promise.
#[test]
fn a_block_is_promised_by_its_share_wherever_its_disk_has_room() {
    let mut admission = admission(4 << 30);
    let id = admission.reserve(&[segment()]).expect("it fits");
    let now = Nanos::from_secs(100);
    let first = admission.deadline(id, read_at(now, SEGMENT, IDLE)).expect("it has its share");
    assert_eq!(first.promised, now.saturating_add(Nanos::from_secs(10)), "by the longest wait of a player");
    for promised in [6, 10] {
        let block = admission.deadline(id, read_at(now, SEGMENT, IDLE)).expect("it has its share");
        let spans = [(block.at, LASTS), (block.promised, Nanos::from_secs(promised))];
        assert!(spans.iter().all(|(due, span)| due.saturating_sub(now).0.abs_diff(span.0) < 1_000_000), "{block:?}");
    }
}

#[test]
fn a_start_burst_takes_free_buffers_and_refuses_no_stream() {
    let mut admission = admission(100 << 20);
    let long = request(8_800_000);
    let count = fill(&mut self::admission(100 << 20), 8_800_000).0.len();
    let burst_bytes = 6_000_000;
    let (mut granted, mut ended, mut ids) = (vec![], vec![], vec![]);
    while let Ok(id) = admission.reserve(&[long]) {
        ended.extend(std::iter::from_fn(|| admission.burst_to_end()));
        granted.push(admission.grant_burst(id, burst_bytes));
        ids.push(id);
    }
    assert!(granted.contains(&burst_bytes) && granted.contains(&0), "{granted:?}");
    assert_eq!(ids.len(), count, "as many as without bursts");
    let with_burst = ids.iter().zip(&granted).filter(|(_, bytes)| **bytes > 0).map(|(id, _)| *id);
    assert_eq!(ended, with_burst.collect::<Vec<_>>(), "the oldest first");
    assert_eq!(admission.burst_to_end(), None);
    ids[2..].iter().for_each(|id| admission.release(*id));
    for id in &ids[..2] {
        assert_eq!(admission.grant_burst(*id, burst_bytes), burst_bytes);
    }
    admission.rest(ids[0]);
    assert!(admission.renew(ids[1], &[long]), "a session that reads on");
    fill(&mut admission, 8_800_000);
    assert_eq!(admission.burst_to_end(), None, "neither has a burst left");
}

#[test]
fn from_flash_a_burst_needs_no_buffers() {
    let settings = AdmissionSettings {
        reservations_max: 1000,
        pages: 100,
        be_share: 0.0,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let disks = vec![(DiskProfile::flash_default(), Nanos::from_millis(250))];
    let mut admission = Admission::new(&settings, disks, &[BitRate(10_000_000_000)]);
    let id = admission.reserve(&[request(8_800_000)]).expect("there is memory");
    let before = admission.memory();
    assert_eq!((admission.grant_burst(id, 15_000_000), admission.memory()), (15_000_000, before));
}

#[test]
fn streams_of_one_content_are_promised_no_more_pages_than_it_has() {
    let titles = |count: u64| {
        let settings = AdmissionSettings {
            reservations_max: 1000,
            pages: 200,
            be_share: 0.0,
            sharing_reserve: 0.0,
            first_byte_max: Nanos::from_secs(10),
        };
        let disks = vec![(DiskProfile::flash_default(), Nanos::from_millis(250))];
        let mut admission = Admission::new(&settings, disks, &[BitRate(10_000_000_000)]);
        let asked = |nth: u64| AdmissionRequest {
            content: RequestedContent::new(units::ContentVersion(nth % count), 4 << 20),
            zone_bytes_per_second: 1_000_000_000,
            ..request(8_800_000)
        };
        let ids: Vec<_> = (0..300).map_while(|nth| admission.reserve(&[asked(nth)]).ok()).collect();
        let at_most = admission.memory().0;
        assert!(ids.iter().zip(7..).all(|(&id, nth)| admission.renew(id, &[asked(nth)])), "each reads another title");
        ids.iter().for_each(|&id| admission.release(id));
        (ids.len(), at_most, admission.memory().0)
    };
    assert_eq!(titles(10), (300, 160, 0), "ten titles of sixteen pages");
    let (streams, promised, after) = titles(1000);
    assert!(streams < 40 && promised > 180 && after == 0, "{streams}, {promised}, {after}");
}

/// Cameras of 4 Mbit/s that write this share of their bytes to each of so many disks, until there is no room; and in how many of 8
/// rounds each disk writes.
fn recorded_on(disks: u16, disk_share: f64) -> (u64, Vec<usize>) {
    let settings = AdmissionSettings {
        reservations_max: 1000,
        pages: 1 << 20,
        be_share: 0.1,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let profiles = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1)); usize::from(disks)];
    let mut admission = Admission::new(&settings, profiles, &[BitRate(10_000_000_000)]);
    let on = |disk| AdmissionRequest {
        disk: DiskId(disk),
        disk_share,
        length: 0,
        written_every: Some(8),
        ..request(4_000_000)
    };
    let all: Vec<_> = (0..disks).map(on).collect();
    let mut count = 0u64;
    while let Ok(id) = admission.reserve(&all)
        && admission.place_writes(id, 100).is_some()
    {
        (0..disks).for_each(|disk| admission.move_writes(id, DiskId(disk), count << 26));
        count += 1;
    }
    let busy =
        |disk| (200..208).filter(|round| admission.resources.disk(DiskId(disk)).table.work_in(*round) > 0.0).count();
    (count, (0..disks).map(busy).collect())
}

#[test]
fn a_mirror_of_two_carries_the_recordings_of_one_disk_and_stripes_those_of_each() {
    let (one, rounds) = recorded_on(1, 1.0);
    assert!(one > 50 && rounds == [8], "{one}, {rounds:?}");
    assert_eq!(recorded_on(2, 1.0), (one, vec![8, 8]), "each block on both disks, in the same round");
    let (striped, _) = recorded_on(2, 0.5);
    assert!(striped > one * 3 / 2, "{striped} on two disks, {one} on one");
}

#[test]
fn a_recording_is_written_on_all_its_disks_in_the_same_rounds_whatever_else_they_do() {
    let settings = AdmissionSettings {
        reservations_max: 10,
        pages: 1 << 20,
        be_share: 0.1,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let profiles = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1)); 2];
    let mut admission = Admission::new(&settings, profiles, &[BitRate(10_000_000_000)]);
    let on = |disk| AdmissionRequest { disk: DiskId(disk), length: 0, written_every: Some(8), ..request(40_000_000) };
    // Each takes most of a few rounds of its disk.
    let alone: Vec<u64> = [0, 1]
        .map(|disk| admission.reserve(&[on(disk)]).expect("there is room"))
        .map(|id| admission.place_writes(id, 100).expect("there is room"))
        .into();
    let both = admission.reserve(&[on(0), on(1)]).expect("there is room");
    let first = admission.place_writes(both, 100).expect("there is room");
    assert!(!alone.contains(&first), "{first}, {alone:?}");
    for disk in [0, 1] {
        assert!(admission.resources.disk(DiskId(disk)).table.work_in(first + 80) > 0.0);
    }
}

#[test]
fn a_recording_is_charged_by_its_zone_and_by_how_far_others_are_from_it() {
    let mut admission = admission(4 << 30);
    let disk = DiskId(0);
    let zone_bytes_per_second = admission.resources.disk(disk).table.profile().rate_at(u64::MAX);
    let asked = AdmissionRequest { length: 0, written_every: Some(8), zone_bytes_per_second, ..request(4_000_000) };
    let ids: Vec<_> = (0..40).map(|_| admission.reserve(&[asked]).expect("there is room")).collect();
    assert!(ids.iter().all(|&id| admission.place_writes(id, 100).is_some()));
    assert!(admission.awaits_place(disk));
    let mut shares = vec![admission.table(disk).promised_share()];
    let capacity = admission.resources.disk(disk).table.profile().capacity.0;
    for (from, apart) in [(0, 64 << 20), (capacity - (4 << 30), 64 << 20), (0, capacity / 40)] {
        for (&id, nth) in ids.iter().zip(0..) {
            admission.move_writes(id, disk, from + nth * apart);
        }
        shares.push(admission.table(disk).promised_share());
    }
    assert!(!admission.awaits_place(disk));
    let [unknown, outer, inner, scattered] = shares[..] else { unreachable!("four") };
    assert!(outer * 1.3 < inner && inner < unknown, "{shares:?}");
    assert!(outer * 1.1 < scattered && scattered < unknown, "{shares:?}");
    ids.iter().for_each(|&id| admission.release(id));
    assert!(admission.table(disk).promised_share() < 1e-9);
}

#[test]
fn a_recording_lies_at_the_same_place_of_all_its_disks_until_they_tell_another() {
    let settings = AdmissionSettings {
        reservations_max: 10,
        pages: 1 << 20,
        be_share: 0.1,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let profiles = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1)); 2];
    let mut admission = Admission::new(&settings, profiles, &[BitRate(10_000_000_000)]);
    let zone_bytes_per_second = admission.resources.disk(DiskId(0)).table.profile().rate_at(u64::MAX);
    let on = |disk| AdmissionRequest {
        disk: DiskId(disk),
        length: 0,
        written_every: Some(8),
        zone_bytes_per_second,
        ..request(4_000_000)
    };
    let id = admission.reserve(&[on(0), on(1)]).expect("there is room");
    admission.place_writes(id, 100).expect("there is room");
    admission.move_writes(id, DiskId(0), 0);
    assert!(!admission.awaits_place(DiskId(1)));
    let outer = admission.table(DiskId(1)).promised_share();
    let capacity = admission.resources.disk(DiskId(1)).table.profile().capacity.0;
    admission.move_writes(id, DiskId(1), capacity - (1 << 30));
    let told = admission.table(DiskId(1)).promised_share();
    assert!(outer < told, "{outer} {told}");
    admission.move_writes(id, DiskId(0), 1 << 40);
    assert!(admission.table(DiskId(1)).promised_share() == told, "it is known there");
}

#[test]
fn a_recording_that_continues_on_another_disk_takes_its_charge_there() {
    let settings = AdmissionSettings {
        reservations_max: 10,
        pages: 1 << 20,
        be_share: 0.1,
        sharing_reserve: 0.0,
        first_byte_max: Nanos::from_secs(10),
    };
    let profiles = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1)); 2];
    let mut admission = Admission::new(&settings, profiles, &[BitRate(10_000_000_000)]);
    let zone_bytes_per_second = admission.resources.disk(DiskId(0)).table.profile().rate_at(u64::MAX);
    let asked = AdmissionRequest { length: 0, written_every: Some(8), zone_bytes_per_second, ..request(4_000_000) };
    let shares = |admission: &Admission| [0, 1].map(|disk| admission.table(DiskId(disk)).promised_share());
    let [moves, stays] = [(); 2].map(|()| {
        let id = admission.reserve(&[asked]).expect("there is room");
        admission.place_writes(id, 100).expect("there is room");
        admission.move_writes(id, DiskId(0), 0);
        id
    });
    let [both, none] = shares(&admission);
    admission.move_writes(moves, DiskId(1), 0);
    let [one, other] = shares(&admission);
    assert!(none < 1e-9 && one < both && (one - other).abs() < 1e-9, "{both} {none}, then {one} {other}");
    assert!(admission.share_held(moves, DiskId(0)) < 1e-9);
    [moves, stays].iter().for_each(|&id| admission.release(id));
    assert!(shares(&admission).iter().all(|share| *share < 1e-9));
}
