//! A disk that serves by slack, beside a naive reference: the earliest deadline first, in the same cost model.
//!
//! Promise: random arrivals of reads, each let in only if slack is not negative with it, on a spinning disk, alone and
//! beside a writer without end. Not here: drives that take other times than their profile says (the simulator).

use proptest::prelude::*;
use schedule::cycle::Grid;
use schedule::disk::best_effort::{BeWork, Commit};
use schedule::disk::cost::CostModel;
use schedule::disk::real_time::{RtQueue, RtRequest};
use schedule::disk::slack::Buckets;
use schedule::disk::{DiskSchedule, DiskSettings, IssuedRead, Step};
use schedule::profile::DiskProfile;
use units::{BitRate, ByteCount, JobId, Nanos, limits};

const ROUND: Nanos = Nanos::from_secs(1);
const RATE: BitRate = BitRate(8_800_000);
const WRITER: JobId = JobId(1);
const FLUSHER: JobId = JobId(2);

/// A read that somebody would like to have done.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Nanos,
    position: u64,
    bytes: u64,
    /// How long after it is asked for it is due.
    within: Nanos,
}

fn reads() -> impl Strategy<Value = Vec<Asked>> {
    let one = (0u64..6_000, 0u64..990, 1u64..24, 300u64..3_500).prop_map(|(at, gigabyte, mebibytes, within)| Asked {
        at: Nanos::from_millis(at),
        position: gigabyte * 1_000_000_000,
        bytes: mebibytes << 20,
        within: Nanos::from_millis(within),
    });
    prop::collection::vec(one, 1..60).prop_map(|mut reads| {
        reads.sort_by_key(|read| read.at);
        reads
    })
}

/// A disk of the cost model: one thing after the other, each for as long as it costs.
struct Disk {
    schedule: DiskSchedule,
    cost: CostModel,
    head: u64,
    now: Nanos,
    /// What was let in and is not read to its end: slot, request.
    waiting: Vec<(u32, RtRequest)>,
    /// The same, as the schedule keeps it.
    queue: RtQueue,
    /// The latest that a byte came behind its deadline.
    late: Nanos,
    uploads: bool,
    written: u64,
}

impl Disk {
    fn new(uploads: bool) -> Self {
        let profile = profile();
        let settings = DiskSettings { rounds: Grid::new(Nanos::ZERO, ROUND), be_share: 0.1 };
        let mut disk = Self {
            schedule: DiskSchedule::new(settings, profile.clone(), Nanos::ZERO),
            cost: CostModel::new(profile, ROUND),
            head: 0,
            now: Nanos::ZERO,
            waiting: Vec::new(),
            queue: RtQueue::new(true),
            late: Nanos::ZERO,
            uploads,
            written: 0,
        };
        disk.offer();
        disk
    }

    /// The writer always has more, and its flush is always offered.
    fn offer(&mut self) {
        if self.uploads {
            let position = 500_000_000_000 + self.written;
            self.schedule.put_job(BeWork::Write { job: WRITER, position, bytes: 8 << 20 }, None);
            self.schedule.put_commit(Commit { job: FLUSHER, dirty_bytes: 0, awaited: false });
        }
    }

    /// What all that waits leaves.
    fn slack(&self) -> f64 {
        let mut buckets = Buckets::new(Grid::new(Nanos::ZERO, ROUND), self.now);
        self.queue.fill(&mut buckets, None, &self.cost);
        buckets.slack(self.now, self.cost.profile(), self.cost.slowdown()).least()
    }

    /// Serves until `until`, or until nothing is left to do before.
    fn run(&mut self, until: Nanos) {
        while self.now < until {
            match self.schedule.next(self.now) {
                Step::Read { slot, bytes_max, .. } => self.read(slot, bytes_max),
                Step::Grant { job, bytes_max, .. } => self.work(job, bytes_max),
                Step::Wait => self.now = until.min(self.schedule.next_wakeup(self.now).unwrap_or(until)),
            }
        }
    }

    fn read(&mut self, slot: u32, bytes_max: u64) {
        let at = self.waiting.iter().position(|(other, _)| *other == slot).expect("it waits");
        let request = &mut self.waiting[at].1;
        let bytes = request.bytes.min(bytes_max);
        let took = self.cost.read(self.head, request.position, bytes);
        let next_position = request.position + bytes;
        let issued = IssuedRead {
            real_time: true,
            position: request.position,
            bytes,
            requests: 1,
            advanced_bytes: bytes,
            next_position,
        };
        self.schedule.issued(slot, issued, self.now);
        self.now = self.now.saturating_add(took);
        self.late = self.late.max(self.now.saturating_sub(request.deadline));
        (request.position, request.bytes) = (next_position, request.bytes - bytes);
        request.deadline = request.deadline.saturating_add(RATE.time_for(bytes));
        self.queue.advance(slot, bytes, next_position);
        if request.bytes == 0 {
            self.waiting.remove(at);
        }
        self.head = next_position;
        self.schedule.read_done(took, took, true);
    }

    fn work(&mut self, job: JobId, bytes: u64) {
        let position = 500_000_000_000 + self.written;
        let took = if job == WRITER {
            self.written += bytes;
            let took = self.cost.write(self.head, position, bytes);
            self.head = position + bytes;
            took
        } else {
            self.cost.profile().flush
        };
        let begun = self.now;
        self.now = self.now.saturating_add(took);
        self.schedule.grant_done(bytes, begun, self.now);
        self.offer();
    }
}

fn profile() -> DiskProfile {
    DiskProfile::spindle_default().scaled_to(ByteCount(1_000_000_000_000))
}

/// Whether the earliest deadline first, in read units, meets all of them.
fn earliest_first(reads: &[(Nanos, RtRequest)]) -> bool {
    let cost = CostModel::new(profile(), ROUND);
    let (mut now, mut head, mut next) = (Nanos::ZERO, 0, 0);
    let mut waiting: Vec<RtRequest> = Vec::new();
    loop {
        while let Some((_, read)) = reads.get(next).filter(|(at, _)| *at <= now) {
            waiting.push(*read);
            next += 1;
        }
        let Some(at) = (0..waiting.len()).min_by_key(|&at| waiting[at].deadline) else {
            let Some((at, _)) = reads.get(next) else { return true };
            now = *at;
            continue;
        };
        let read = &mut waiting[at];
        let bytes = read.bytes.min(limits::CHUNK_BYTES);
        now = now.saturating_add(cost.read(head, read.position, bytes));
        if now > read.deadline {
            return false;
        }
        head = read.position + bytes;
        (read.position, read.bytes) = (head, read.bytes - bytes);
        read.deadline = read.deadline.saturating_add(RATE.time_for(bytes));
        if read.bytes == 0 {
            waiting.remove(at);
        }
    }
}

/// Lets in what slack allows, serves it, and says what was let in.
fn serve(reads: &[Asked], uploads: bool) -> (Disk, Vec<(Nanos, RtRequest)>) {
    let mut disk = Disk::new(uploads);
    let mut admitted = Vec::new();
    for (slot, read) in (0u32..).zip(reads) {
        disk.run(read.at);
        let request = RtRequest {
            slot,
            position: read.position,
            bytes: read.bytes,
            deadline: disk.now.saturating_add(read.within),
            rate: RATE,
            starting: false,
        };
        disk.queue.put(request);
        if disk.slack() < 0.0 {
            disk.queue.remove(slot);
            continue;
        }
        disk.schedule.put_read(request);
        disk.waiting.push((slot, request));
        admitted.push((disk.now, request));
    }
    let end = disk.now.saturating_add(Nanos::from_secs(30));
    disk.run(end);
    (disk, admitted)
}

proptest! {
    /// Whatever is let in while slack is not negative is read in time, be the earliest deadline first able to or not.
    #[test]
    fn what_slack_lets_in_is_in_time(reads in reads(), uploads in any::<bool>()) {
        let (disk, admitted) = serve(&reads, uploads);
        let naive = earliest_first(&admitted);
        prop_assert!(disk.waiting.is_empty(), "all of it is read");
        prop_assert_eq!(disk.late, Nanos::ZERO, "{} let in; the naive reference: {}", admitted.len(), naive);
    }

    /// A writer beside them has at least the share that is set.
    #[test]
    fn a_writer_has_its_share_beside_them(reads in reads()) {
        let (disk, _) = serve(&reads, true);
        let rate = disk.cost.profile().rate_at(500_000_000_000) as f64;
        let share = disk.written as f64 / rate / disk.now.as_secs_f64();
        prop_assert!(share >= 0.1 * 0.6, "a tenth, and four tenths of that for flushes: {share}");
    }
}

/// A slice is read in whole read units, and was read by a fifth beyond its 50 ms: with fourteen of them due at one moment and
/// spread evenly, which is what the bound's seeks are for, that was more than everything else the bound has left over.
#[test]
fn no_slice_is_read_beyond_what_was_counted() {
    let together = |within: u64| -> Vec<Asked> {
        let read = |n: u64| Asked {
            at: Nanos::ZERO,
            position: n * 71_000_000_000,
            bytes: 8 << 20,
            within: Nanos::from_millis(within),
        };
        (1..=14).map(read).collect()
    };
    let first = (500..2_000).map(|within| serve(&together(within), false)).find(|(_, admitted)| admitted.len() == 14);
    let (disk, _) = first.expect("two seconds are enough for all");
    assert_eq!(disk.late, Nanos::ZERO, "let in as soon as slack allows");
}
