//! Tests of sessions that read whole contents: their shares, their clocks, and small reads beside them.

use super::tests::{admission, admission_beside, request, settings};
use super::*;

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
    let settings = settings(1 << 20, 0.0);
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
    let settings = settings(1 << 20, 0.0);
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
            let due = admission.small_read_deadline(id, read_at(now, 96_000, far)).expect("of its share");
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
    assert!(admission.small_read_deadline(id, read_at(now, 96_000, IDLE)).is_some(), "with its blocks");
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
    admission.small_read_deadline(id, read_at(now, 96_000, far));
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
