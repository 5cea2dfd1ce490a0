//! Rounds shorter than best-effort work: it is done all the same.

use schedule::cycle::Grid;
use schedule::disk::best_effort::{BeWork, Commit};
use schedule::disk::real_time::{ReadKind, RtRequest};
use schedule::disk::step::Step;
use schedule::disk::{DiskSchedule, DiskSettings};
use schedule::profile::DiskProfile;
use units::{BitRate, JobId, Nanos};

/// On the emulated drive of 2005 with rounds of 250 ms, nine uploads waited for minutes for an idle disk: a flush of
/// 8 MiB takes 250 ms there, and no round ever had this time left.
#[test]
fn a_flush_longer_than_a_round_is_granted_on_an_idle_disk() {
    let round = Nanos::from_millis(250);
    let settings = DiskSettings { rounds: Grid::new(Nanos::ZERO, round), be_share: 0.1 };
    let mut profile = DiskProfile::spindle_default();
    for zone in &mut profile.zones {
        zone.bytes_per_second = 33_000_000;
    }
    let mut disk = DiskSchedule::new(settings, profile, Nanos::ZERO);
    let job = JobId(1);
    disk.set_carry_headroom(Nanos::ZERO);
    disk.put_commit(Commit { job, dirty_bytes: 8 << 20, awaited: true });
    let first = disk.next(round);
    let is_granted = matches!(first, Step::Grant { job: granted, .. } if granted == job);
    assert!(is_granted, "a commit that no round has room for need not wait for one that has: {first:?}");
}

/// One stream's block of 4 MiB, due then.
fn block(deadline: Nanos) -> RtRequest {
    let rate = BitRate(8_800_000);
    RtRequest { slot: 0, position: 1 << 30, bytes: 4 << 20, deadline, rate, kind: ReadKind::Regular }
}

/// An upload's 2 MiB, granted 10 ms before the end of a round of 250 ms, over which streams can wait for another round.
fn begun_late() -> (DiskSchedule, JobId) {
    let round = Nanos::from_millis(250);
    let settings = DiskSettings { rounds: Grid::new(Nanos::ZERO, round), be_share: 0.1 };
    let mut disk = DiskSchedule::new(settings, DiskProfile::spindle_default(), Nanos::ZERO);
    let job = JobId(7);
    let late = Nanos::from_millis(240);
    disk.set_carry_headroom(Nanos::ZERO);
    disk.put_job(BeWork::Write { job, position: 2 << 30, bytes: 2 << 20 });
    assert_eq!(disk.next(late), Step::Wait, "it does not fit into what is left of the round");
    disk.set_carry_headroom(round);
    let Step::Grant { until, .. } = disk.next(late) else { panic!("streams have read ahead") };
    assert_eq!(until, round.saturating_mul(2));
    (disk, job)
}

#[test]
fn a_batch_goes_over_the_end_of_its_round_and_ends_with_its_flush() {
    let (mut disk, job) = begun_late();
    disk.put_read(block(Nanos::from_secs(1)));
    disk.grant_done(2 << 20, Nanos::from_millis(240), Nanos::from_millis(290));
    disk.put_job(BeWork::Write { job: JobId(8), position: 3 << 30, bytes: 2 << 20 });
    disk.put_commit(Commit { job, dirty_bytes: 2 << 20, awaited: true });
    let mut now = Nanos::from_millis(290);
    let mut written = 0;
    loop {
        let Step::Grant { job: granted, bytes_max, until } = disk.next(now) else { panic!("the batch goes on") };
        assert!(until < Nanos::from_secs(1), "the block is due then");
        let begun = now;
        now = now.saturating_add(Nanos::from_millis(60));
        disk.grant_done(bytes_max, begun, now);
        if granted == job {
            break;
        }
        written += bytes_max;
    }
    assert!(written <= 2 << 20);
    disk.put_job(BeWork::Write { job: JobId(9), position: 4 << 30, bytes: 2 << 20 });
    assert!(matches!(disk.next(now), Step::Read { real_time: true, .. }), "then the blocks have their turn");
}

#[test]
fn a_batch_that_has_begun_gives_way_to_deadlines_and_ends_for_starts() {
    let now = Nanos::from_millis(290);
    let behind = |request: RtRequest| {
        let (mut disk, job) = begun_late();
        disk.put_read(request);
        disk.grant_done(2 << 20, Nanos::from_millis(240), now);
        disk.put_job(BeWork::Write { job: JobId(8), position: 3 << 30, bytes: 2 << 20 });
        disk.put_commit(Commit { job, dirty_bytes: 2 << 20, awaited: true });
        (disk.next(now), job)
    };
    let (urgent, _) = behind(block(Nanos::from_millis(350)));
    assert!(matches!(urgent, Step::Read { real_time: true, .. }), "{urgent:?}");
    let (start, flush) = behind(RtRequest { kind: ReadKind::Start, ..block(now) });
    assert!(matches!(start, Step::Grant { job, .. } if job == flush), "no more is written: {start:?}");
}
