//! A batch of recordings' writes with waiting reads.

use schedule::cycle::Grid;
use schedule::disk::best_effort::Commit;
use schedule::disk::due_writes::DueWrite;
use schedule::disk::real_time::{ReadKind, RtRequest};
use schedule::disk::step::Step;
use schedule::disk::{DiskSchedule, DiskSettings};
use schedule::profile::DiskProfile;
use units::{BitRate, JobId, Nanos};

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const COMMIT: JobId = JobId(0);

/// Three blocks of 2 MiB that are due in two seconds, and a commit, on an idle disk at second 1.
fn disk() -> DiskSchedule {
    let settings = DiskSettings { rounds: Grid::new(Nanos::ZERO, MS(1000)), be_share: 0.1 };
    let mut disk = DiskSchedule::new(settings, DiskProfile::spindle_default(), MS(1000));
    for job in 1..=3 {
        disk.put_write(DueWrite { job: JobId(job), position: job << 36, bytes: 2 << 20, deadline: MS(3000) });
    }
    disk
}

fn start(bytes: u64) -> RtRequest {
    RtRequest {
        slot: 0,
        position: 1 << 30,
        bytes,
        deadline: MS(1000),
        rate: BitRate(25_000_000),
        kind: ReadKind::Start,
    }
}

/// Serves the grants, each for 40 ms; gives the jobs.
fn serve(disk: &mut DiskSchedule, mut now: Nanos, grants: usize) -> Vec<u64> {
    let mut jobs = Vec::new();
    while jobs.len() < grants {
        let Step::Grant { job, bytes_max, .. } = disk.next(now) else { break };
        let begun = now;
        now = now.saturating_add(MS(40));
        if job != COMMIT {
            disk.put_commit(Commit { job: COMMIT, dirty_bytes: bytes_max, awaited: true });
        }
        disk.grant_done(bytes_max, begun, now);
        jobs.push(job.0);
    }
    jobs
}

#[test]
fn all_that_is_due_is_written_in_one_sweep_with_one_commit() {
    assert_eq!(serve(&mut disk(), MS(1000), 9), [1, 2, 3, COMMIT.0]);
}

#[test]
fn a_batch_waits_for_a_start_that_its_deadline_leaves_time_for() {
    let mut disk = disk();
    disk.put_read(start(4 << 20));
    assert!(matches!(disk.next(MS(1000)), Step::Read { real_time: true, .. }));
}

/// Nothing comes between a batch that has begun and its commit: a read that would be due meanwhile was 3 ms late (seed 71).
#[test]
fn no_clock_begins_that_the_rest_of_a_batch_would_make_late() {
    let mut disk = disk();
    serve(&mut disk, MS(1000), 1);
    disk.put_read(start(4 << 20));
    assert!(!disk.can_promise(0, MS(1200), MS(1040)), "two writes and a commit are to come");
    assert!(disk.can_promise(0, MS(2500), MS(1040)));
}
