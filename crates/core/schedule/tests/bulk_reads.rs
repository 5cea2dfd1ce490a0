//! Reads without a deadline on a spindle: as many at once as its drive orders, and no more than are over in time.

use schedule::cycle::Grid;
use schedule::disk::best_effort::BeWork;
use schedule::disk::real_time::{ReadKind, RtRequest};
use schedule::disk::step::{IssuedRead, Step};
use schedule::disk::{DiskSchedule, DiskSettings};
use schedule::profile::DiskProfile;
use units::{BitRate, Nanos, limits};

const ROUND: Nanos = Nanos::from_secs(1);
/// A drive's queue (NCQ) holds as many.
const NCQ: u32 = 32;
const PIECES: u32 = 2;
const FILE_BYTES: u64 = PIECES as u64 * limits::PIECE_BYTES_MAX;

fn place(slot: u32) -> u64 {
    u64::from(slot) << 30
}

fn disk_with_reads(count: u32) -> DiskSchedule {
    let settings = DiskSettings { rounds: Grid::new(Nanos::ZERO, ROUND), be_share: 0.1 };
    let mut disk = DiskSchedule::new(settings, DiskProfile::spindle_default(), Nanos::ZERO);
    (0..count).for_each(|slot| disk.put_job(BeWork::Read { slot, position: place(slot), bytes: FILE_BYTES }));
    disk
}

/// Issues all reads that the schedule lets go now; the number of pieces in flight.
fn issue(disk: &mut DiskSchedule, now: Nanos) -> u32 {
    let mut pieces = 0;
    while let Step::Read { slot, real_time: false, .. } = disk.next(now) {
        let issued = IssuedRead {
            real_time: false,
            position: place(slot),
            bytes: FILE_BYTES,
            requests: PIECES,
            advanced_bytes: u64::MAX,
            next_position: 0,
        };
        disk.issued(slot, issued, now);
        pieces += PIECES;
    }
    pieces
}

fn complete(disk: &mut DiskSchedule, pieces: u32) {
    (0..pieces).for_each(|_| disk.read_done(Nanos::ZERO, Nanos::ZERO, false));
}

#[test]
fn small_reads_fill_the_queue_of_a_drive_that_no_stream_waits_for() {
    let mut disk = disk_with_reads(NCQ);
    assert_eq!(issue(&mut disk, Nanos::ZERO), NCQ);
    complete(&mut disk, PIECES);
    assert_eq!(issue(&mut disk, Nanos::ZERO), PIECES, "the place of one that is over is taken");
}

#[test]
fn a_stream_waits_for_the_reads_in_flight_and_for_no_others() {
    let mut disk = disk_with_reads(2 * NCQ);
    let pieces = issue(&mut disk, Nanos::ZERO);
    let stream = 3 * NCQ;
    let (deadline, rate) = (ROUND.saturating_mul(2), BitRate(8_800_000));
    let request =
        RtRequest { slot: stream, position: 0, bytes: limits::CHUNK_BYTES, deadline, rate, kind: ReadKind::Regular };
    disk.put_read(request);
    for _ in 0..pieces - 1 {
        assert_eq!(disk.next(Nanos::ZERO), Step::Wait);
        complete(&mut disk, 1);
    }
    let step = disk.next(Nanos::ZERO);
    assert!(matches!(step, Step::Read { slot, real_time: true, .. } if slot == stream), "{step:?}");
}

#[test]
fn no_more_reads_are_in_flight_than_the_round_has_time_for() {
    let mut disk = disk_with_reads(NCQ);
    disk.set_carry_headroom(Nanos::ZERO);
    let left = Nanos::from_millis(100);
    let reads = issue(&mut disk, ROUND.saturating_sub(left)) / PIECES;
    let head = |slot: u32| if slot == 0 { 0 } else { place(slot - 1) + FILE_BYTES };
    let takes = |reads: u32| -> Nanos {
        (0..reads)
            .map(|slot| disk.cost().read(head(slot), place(slot), FILE_BYTES))
            .fold(Nanos::ZERO, Nanos::saturating_add)
    };
    assert!(takes(reads) <= left && left < takes(reads + 1), "{reads} reads take {:?}", takes(reads));
}
