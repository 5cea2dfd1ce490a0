//! Rounds shorter than what best-effort work takes: it is done all the same.

use schedule::cycle::Grid;
use schedule::disk::best_effort::Commit;
use schedule::disk::{Discipline, DiskSchedule, DiskSettings, JobKey, Step};
use schedule::profile::DiskProfile;
use units::Nanos;

/// On the emulated drive of 2005 with rounds of 250 ms, nine uploads waited for minutes beside an idle disk: a flush of
/// 8 MiB takes 250 ms there, and no round ever had so much left.
#[test]
fn a_flush_that_is_longer_than_a_round_is_made_when_nobody_reads() {
    let round = Nanos::from_millis(250);
    let settings =
        DiskSettings { discipline: Discipline::Cyclic, rounds: Grid::new(Nanos::ZERO, round), be_share: 0.1 };
    let mut profile = DiskProfile::spindle_default();
    for zone in &mut profile.zones {
        zone.bytes_per_second = 33_000_000;
    }
    let mut disk = DiskSchedule::new(settings, profile, Nanos::ZERO);
    let job = JobKey(1);
    disk.put_commit(Commit { job, dirty_bytes: 8 << 20, awaited: true });
    let granted = (1..=10u64).find(|&nth| matches!(disk.next(round.saturating_mul(nth)), Step::Grant { .. }));
    assert_eq!(granted, Some(1), "a commit that no round has room for need not wait for one that has");
    assert_eq!(disk.granted(), Some(job));
}
