//! Tests of admissions and refusals.

use crate::profile::SeekPoint;

use super::*;

pub(super) fn settings(pages: u64, be_share: f64) -> AdmissionSettings {
    let first_byte_max = Nanos::from_secs(10);
    AdmissionSettings { reservations_max: 1000, pages, be_share, sharing_reserve: 0.0, first_byte_max }
}

pub(super) fn admission(memory_bytes: u64) -> Admission {
    admission_beside(memory_bytes, 0.0)
}

pub(super) fn admission_beside(memory_bytes: u64, be_share: f64) -> Admission {
    let settings = settings(memory_bytes / CACHE_PAGE_BYTES, be_share);
    let disks = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1))];
    Admission::new(&settings, disks, &[BitRate(10_000_000_000)])
}

pub(super) fn request(rate: u64) -> AdmissionRequest {
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
    // The profile that is assumed without a measurement, and one of twice its speed.
    let assumed = DiskProfile::spindle_default();
    let seeks = |seek: &SeekPoint| SeekPoint { time: Nanos(seek.time.0 / 2), ..*seek };
    let fast = DiskProfile { seeks: assumed.seeks.iter().map(seeks).collect(), ..assumed.clone() };
    let rates = [8, 25, 100, 140, 200, 250, 300, 400, 500, 600, 700, 900, 9_000, 900_000].map(|rate| rate * 1_000_000);
    for (profile, zone) in [(assumed, 58_000_000), (fast, 139_000_000), (DiskProfile::flash_default(), 300_000_000)] {
        for rate in rates {
            let round = Nanos::from_millis(if profile.rotational { 1_000 } else { 250 });
            let settings = AdmissionSettings { sharing_reserve: 0.1, ..settings(16_384, 0.1) };
            let links = [BitRate(1_000_000_000_000_000)];
            let mut admission = Admission::new(&settings, vec![(profile.clone(), round)], &links);
            let asked = AdmissionRequest { zone_bytes_per_second: zone, ..request(rate) };
            let id = admission.reserve(&[asked]).or_else(|refused| {
                assert!(refused.grantable.0 > 100_000_000, "{rate}: {}", refused.grantable);
                admission.reserve(&[AdmissionRequest { rate: refused.grantable, ..asked }])
            });
            let id = id.expect("the grantable rate is granted");
            let conditions = StartConditions { remaining: 0.95, ..StartConditions::idle(5) };
            assert!(admission.place(id, &conditions).is_some(), "{rate} was admitted and cannot start");
        }
    }
}

#[test]
fn a_link_is_not_oversold() {
    let settings = settings(100_000, 0.0);
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
    assert_eq!(
        admission.reserve_again(id, &[request(8_800_000)]),
        Err(Resource::Table),
        "another reservation has its place"
    );
    assert_eq!(admission.reserve(&[request(8_800_000)]).unwrap().slot, id.slot);
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
    let settings = settings(100, 0.0);
    let disks = vec![(DiskProfile::flash_default(), Nanos::from_millis(250))];
    let mut admission = Admission::new(&settings, disks, &[BitRate(10_000_000_000)]);
    let id = admission.reserve(&[request(8_800_000)]).expect("there is memory");
    let before = admission.memory();
    assert_eq!((admission.grant_burst(id, 15_000_000), admission.memory()), (15_000_000, before));
}

#[test]
fn streams_of_one_content_are_promised_no_more_pages_than_it_has() {
    let titles = |count: u64| {
        let settings = settings(200, 0.0);
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

/// Reserves cameras of 4 Mbit/s that write this share of their bytes to each of this number of disks, until one is refused.
/// Returns their number, and in how many of 8 rounds each disk writes.
fn recorded_on(disks: u16, disk_share: f64) -> (u64, Vec<usize>) {
    let settings = settings(1 << 20, 0.1);
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
    let settings = settings(1 << 20, 0.1);
    let profiles = vec![(DiskProfile::spindle_default(), Nanos::from_secs(1)); 2];
    let mut admission = Admission::new(&settings, profiles, &[BitRate(10_000_000_000)]);
    let on = |disk| AdmissionRequest { disk: DiskId(disk), length: 0, written_every: Some(8), ..request(40_000_000) };
    // Recordings that each take most of a few rounds of one disk.
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
    let settings = settings(1 << 20, 0.1);
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
    let settings = settings(1 << 20, 0.1);
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
