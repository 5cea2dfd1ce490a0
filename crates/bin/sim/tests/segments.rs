//! Viewers of films in segments: their figures in the simulator, on disks that have room for all.

use sim::drive::DriveProfile;
use sim::{RunReport, Scenario, SegmentLayout, SegmentViewers, Trace};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;
const SOUND: BitRate = BitRate(128_000);

/// These viewers alone on a 7200 rpm disk, for a minute.
fn alone(seed: u64, segments: SegmentViewers) -> Scenario {
    with_memory(1 << 30, seed, segments)
}

/// The same with `bytes` bytes of buffers.
fn with_memory(bytes: u64, seed: u64, segments: SegmentViewers) -> Scenario {
    let mut scenario = Scenario::steady(seed, DriveProfile::Desktop, bytes, segments.rate, 0);
    scenario.load.viewing = (SECS(20), SECS(20));
    (scenario.safety, scenario.liveness) = (Nanos::ZERO, SECS(60));
    scenario.load.segments = vec![segments];
    scenario
}

fn run(scenario: &Scenario) -> RunReport {
    let report = sim::run(scenario, Trace::Tail);
    assert_eq!(report.broken, None, "seed {}", report.seed);
    report
}

#[test]
fn a_few_viewers_play_every_kind_of_film_without_a_stall() {
    let ten = SegmentViewers::of_hls(10);
    let kinds = [
        SegmentViewers { sound: Some(SOUND), ..ten.clone() },
        SegmentViewers { segment: SECS(2), smallest: 0.43, ..ten.clone() },
        SegmentViewers { layout: SegmentLayout::Ranges, segment: SECS(10), ..ten.clone() },
        SegmentViewers { films: 2, ahead: SECS(50), film: SECS(42), ..ten },
    ];
    for kind in kinds {
        let tracks = 1 + usize::from(kind.sound.is_some());
        // A minute of film, and the segments its player keeps ahead, of each track; the last segment may be on its way.
        let least = usize::try_from((SECS(45).0 + kind.ahead.0) / kind.segment.0).expect("few") * tracks * 10;
        let report = run(&alone(1, kind.clone()));
        let of = &report.viewers;
        assert_eq!((of.viewers, of.smooth, of.refused, of.lost), (10, 10, 0, 0), "{kind:?}: {of:?}");
        assert_eq!((of.starts.len(), of.lag_max, of.lags), (10, Nanos::ZERO, 0), "{kind:?}");
        assert!((least..least * 3 / 2).contains(&of.segments.len()), "{kind:?}: {least}, {}", of.segments.len());
    }
}

/// A seek in each round is promised to a session: where the law counted segments shorter than a round by their bytes, it asked for more.
#[test]
fn segments_shorter_than_a_round_come_once_in_a_round() {
    let short = SegmentViewers {
        segment: SECS(1),
        smallest: 0.47,
        ahead: SECS(7),
        way_max: Nanos::from_millis(228),
        open_max: Nanos::from_millis(154),
        ..SegmentViewers::of_hls(60)
    };
    let mut scenario = alone(1, short);
    scenario.be_share = 0.05;
    scenario.liveness = SECS(30);
    let of = run(&scenario).viewers;
    assert!(of.smooth > 40 && of.smooth + of.refused == 60, "{of:?}");
}

#[test]
fn viewers_that_pause_and_seek_play_on() {
    let kind = SegmentViewers { pauses: SECS(15), seeks: SECS(15), sound: Some(SOUND), ..SegmentViewers::of_hls(10) };
    let report = run(&alone(2, kind.clone()));
    let of = &report.viewers;
    assert!(of.seeks.len() > 10 && of.refused + of.lost == 0, "{of:?}");
    let without = run(&alone(2, SegmentViewers { pauses: Nanos::ZERO, seeks: Nanos::ZERO, ..kind }));
    assert_ne!(report.hash, without.hash);
}

#[test]
fn viewers_beyond_a_link_are_refused_and_the_others_play() {
    let mut scenario = alone(3, SegmentViewers::of_hls(10));
    scenario.link = BitRate(50_000_000);
    let of = run(&scenario).viewers;
    assert!((4..=5).contains(&of.smooth), "{of:?}");
    assert_eq!((of.smooth + of.refused, of.stalled), (10, 0), "{of:?}");
}

#[test]
fn the_same_viewers_do_the_same_twice() {
    let kind =
        SegmentViewers { films: 3, smallest: 0.5, pauses: SECS(20), seeks: SECS(20), ..SegmentViewers::of_hls(8) };
    let (one, two) = (run(&alone(4, kind.clone())), run(&alone(4, kind)));
    assert_eq!((one.hash, one.viewers), (two.hash, two.viewers));
}

/// The law of sessions on a disk that has no room for more: each admitted viewer has a segment in each of its times. Decision
/// 0060 has more cases.
#[test]
fn no_viewer_admitted_to_a_full_disk_falls_behind() {
    let of = SegmentViewers::of_hls;
    let kinds = [
        of(80),
        SegmentViewers { segment: SECS(2), ..of(60) },
        SegmentViewers { sound: Some(SOUND), ..of(72) },
        SegmentViewers { smallest: 0.4, ..of(80) },
        SegmentViewers { seeks: SECS(20), ..of(80) },
    ];
    for (seed, kind) in (1..).zip(kinds) {
        let scenario = Scenario { be_share: 0.1, ..with_memory(3 << 30, seed, kind.clone()) };
        let report = run(&scenario);
        let of = &report.viewers;
        assert_eq!((of.smooth, of.stalled, of.lost), (u64::from(kind.viewers), 0, 0), "{kind:?}: {of:?}");
    }
    let full = run(&with_memory(3 << 30, 5, of(120))).viewers;
    assert!(full.refused > 10 && full.stalled + full.lost == 0, "{full:?}");
    let seeking = SegmentViewers { seeks: SECS(20), ..of(90) };
    let full = run(&Scenario { be_share: 0.1, ..with_memory(3 << 30, 2, seeking) }).viewers;
    assert!(full.refused > 0 && full.stalled + full.lost == 0, "{full:?}");
}

/// The second block is due while the first one plays, from the time at which that was there; and an upload has its share of the time,
/// though the waiting reads leave no slack for those due last.
#[test]
fn viewers_with_sound_and_an_upload_share_a_full_disk() {
    let kind = SegmentViewers { sound: Some(SOUND), ..SegmentViewers::of_hls(72) };
    for seed in [4, 22] {
        let mut scenario = Scenario { be_share: 0.1, ..with_memory(3 << 30, seed, kind.clone()) };
        (scenario.load.uploads.uploaders, scenario.load.uploads.rate) = (1, BitRate(8_000_000_000));
        let of = run(&scenario).viewers;
        assert!(of.smooth >= 71, "seed {seed}: {of:?}");
        assert_eq!((of.stalled, of.lost), (0, 0), "seed {seed}: {of:?}");
    }
}

/// While many begin at once, each open waits for others, and players have filled their buffers of sound before their second pictures come:
/// with the sound on the clock of the pictures, and waits counted from the open on, 6 of these stalled for up to half a second.
#[test]
fn viewers_with_sound_play_on_while_opens_take_a_second() {
    let open_max = Nanos::from_millis(1500);
    let kind = SegmentViewers { sound: Some(SOUND), open_max, ..SegmentViewers::of_hls(72) };
    let scenario = Scenario { be_share: 0.1, ..with_memory(3 << 30, 4, kind) };
    let of = run(&scenario).viewers;
    assert_eq!((of.smooth, of.stalled, of.refused, of.lost), (72, 0, 0, 0), "{of:?}");
}

/// A disk has room for the blocks of viewers that seek among those of viewers with full buffers. Segments of a film lie on one disk after
/// the other, and a disk may have more of them in the same seconds than its part: an interruption behind a seek counts as part of its delay.
#[test]
fn viewers_of_striped_disks_play_on_after_seeks() {
    let kind = SegmentViewers { seeks: SECS(20), striped: true, ..SegmentViewers::of_hls(168) };
    let mut scenario = Scenario { be_share: 0.1, ..with_memory(3 << 30, 2, kind) };
    scenario.disks = vec![scenario.disks[0].clone(); 2];
    let of = run(&scenario).viewers;
    assert_eq!((of.refused, of.lost), (0, 0));
    assert!(of.stalled <= 8 && of.stall_max < SECS(1), "{} stalled, {} at most", of.stalled, of.stall_max);
}

/// Viewers that leave those with which they share reads find no room on a full disk, and take none from others.
#[test]
fn viewers_that_leave_groups_on_a_full_disk_take_no_time_from_others() {
    let kind = SegmentViewers { films: 20, seeks: SECS(30), ..SegmentViewers::of_hls(200) };
    let mut scenario = Scenario { be_share: 0.1, ..with_memory(3 << 30, 1, kind) };
    scenario.liveness = SECS(75);
    let of = run(&scenario).viewers;
    assert!(of.smooth > 100 && of.excused > 0, "{} smooth, {} refused later", of.smooth, of.excused);
    assert!(
        of.stalled <= 8 && of.stall_max < SECS(1) && of.lags == 0,
        "{} stalled, {} at most",
        of.stalled,
        of.stall_max
    );
}

/// Each film is read once for all of its viewers.
#[test]
fn viewers_of_a_few_films_in_segments_are_all_admitted() {
    let kind = SegmentViewers { films: 20, ..SegmentViewers::of_hls(200) };
    let of = run(&with_memory(3 << 30, 1, kind)).viewers;
    assert_eq!((of.smooth, of.stalled, of.refused), (200, 0, 0), "{of:?}");
}
