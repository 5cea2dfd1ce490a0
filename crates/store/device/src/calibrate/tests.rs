//! Calibration against drive models in virtual time: the profile must predict the times of the model.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use schedule::profile::DiskProfile;
use units::{ByteCount, Nanos};

use super::disk::{InTurn, Readable};
use super::measure::{MeasuredProfile, Measurement, NoProfile};
use super::*;

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A drive with one head: seek by the root of the distance up to a third of the disk and then straight, rotation by
/// the clock, a rate that falls in a line, reading ahead of the last request.
struct TestDrive {
    capacity: u64,
    turn: f64,
    rates: (f64, f64),
    /// Seek times in seconds: to the next track, average (a third), full.
    arm: (f64, f64, f64),
    now: f64,
    head: u64,
    /// Reads near behind the last one come from the buffer.
    looks_behind: bool,
    /// It has no buffer at all: a read that continues at the end of the last one waits for a turn if it was not queued by then.
    looks_nowhere: bool,
    broken: bool,
    reads: u64,
    /// Another program has the disk for 150 ms after each series of this number of reads; 0 for never.
    held_up_each: u64,
    /// Requests of others between any two looks.
    others: u64,
}

impl TestDrive {
    fn desktop() -> Self {
        Self {
            capacity: 1000 * GB,
            turn: 60.0 / 7200.0,
            rates: (180e6, 85e6),
            arm: (0.0008, 0.0085, 0.016),
            now: 0.0,
            head: 0,
            looks_behind: false,
            looks_nowhere: false,
            broken: false,
            reads: 0,
            held_up_each: 0,
            others: 0,
        }
    }

    fn of_2005() -> Self {
        Self { capacity: 250 * GB, rates: (67.8e6, 32.9e6), arm: (0.0011, 0.0085, 0.0147), ..Self::desktop() }
    }

    fn surveillance() -> Self {
        let rates = (150e6, 70e6);
        Self { capacity: 4000 * GB, turn: 60.0 / 5400.0, rates, arm: (0.001, 0.0105, 0.021), ..Self::desktop() }
    }

    /// Seconds of media time from the start of the disk to `position`.
    fn along(&self, position: u64) -> f64 {
        let (outer, inner) = self.rates;
        let slope = (inner - outer) / self.capacity as f64;
        (1.0 + slope * position as f64 / outer).ln() / slope
    }

    fn seek(&self, to: u64) -> f64 {
        let share = to.abs_diff(self.head) as f64 / self.capacity as f64;
        let (track, average, full) = self.arm;
        if share <= 1.0 / 3.0 {
            track + (average - track) * (share * 3.0).sqrt()
        } else {
            average + (full - average) * (share - 1.0 / 3.0) * 1.5
        }
    }

    /// Serves a read that was queued during the last one, or behind it.
    fn serve(&mut self, position: u64, bytes: u64, asked: ReadArrival) {
        self.reads += 1;
        if self.held_up_each > 0 && self.reads.is_multiple_of(self.held_up_each) {
            self.now += 0.15;
        }
        let overhead = 0.000_1;
        let transfer = self.along(position + bytes) - self.along(position);
        let ahead = position >= self.head && position - self.head <= MIB;
        if self.looks_behind && position.abs_diff(self.head) <= MIB {
            self.now += overhead;
        } else if ahead && !(self.looks_nowhere && asked == ReadArrival::Behind) {
            self.now += (self.along(position + bytes) - self.along(self.head)).max(overhead);
        } else {
            let arrived = self.now + overhead + self.seek(position);
            let wait = (self.along(position) - arrived).rem_euclid(self.turn);
            self.now = arrived + wait + transfer;
        }
        self.head = position + bytes;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ReadArrival {
    Meanwhile,
    Behind,
}

impl Readable for TestDrive {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn read(&mut self, position: u64, bytes: u64) -> io::Result<Nanos> {
        assert!(position.is_multiple_of(4096) && bytes.is_multiple_of(4096) && position + bytes <= self.capacity);
        let before = self.now;
        self.serve(position, bytes, ReadArrival::Behind);
        if self.broken { Err(io::ErrorKind::Other.into()) } else { Ok(Nanos::from_secs_f64(self.now - before)) }
    }

    fn read_many(&mut self, positions: &[u64], bytes: u64, _depth: usize) -> io::Result<Nanos> {
        positions.iter().try_fold(Nanos::ZERO, |sum, p| Ok(sum.saturating_add(self.read(*p, bytes)?)))
    }

    fn read_run(&mut self, positions: &[u64], run: InTurn) -> io::Result<Vec<Nanos>> {
        let mut there = Vec::new();
        for position in positions {
            if there.len() >= run.least && self.now() >= run.until {
                break;
            }
            let asked = if there.is_empty() || run.depth < 2 { ReadArrival::Behind } else { ReadArrival::Meanwhile };
            self.serve(*position, run.bytes, asked);
            there.push(self.now());
        }
        if self.broken { Err(io::ErrorKind::Other.into()) } else { Ok(there) }
    }

    fn now(&self) -> Nanos {
        Nanos::from_secs_f64(self.now)
    }

    fn others(&mut self) -> u64 {
        self.others
    }
}

/// Flash: a latency, and a bandwidth that several requests share.
struct TestFlash {
    now: Nanos,
}

impl Readable for TestFlash {
    fn capacity(&self) -> u64 {
        500 * GB
    }

    fn read(&mut self, _position: u64, bytes: u64) -> io::Result<Nanos> {
        let time = Nanos::from_micros(100).saturating_add(Nanos(bytes * 2));
        self.now += time;
        Ok(time)
    }

    fn read_many(&mut self, positions: &[u64], bytes: u64, _depth: usize) -> io::Result<Nanos> {
        let time = Nanos(bytes * 2 * u64::try_from(positions.len()).unwrap_or(0));
        self.now += time;
        Ok(time)
    }

    fn read_run(&mut self, _positions: &[u64], _run: InTurn) -> io::Result<Vec<Nanos>> {
        unreachable!("nobody asks flash for a run")
    }

    fn now(&self) -> Nanos {
        self.now
    }
}

fn go_on(_: CalibrationProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn measure<R: Readable>(disk: &mut R, kernel: Option<bool>) -> Result<MeasuredProfile, NoProfile> {
    let mut watch = go_on;
    Measurement::new(disk, Options::default(), &mut watch).device(kernel)
}

/// Predicted over modelled total time of random reads of `bytes`.
fn prediction(drive: &mut TestDrive, profile: &DiskProfile, bytes: u64) -> f64 {
    let mut place = 12345_u64;
    let (mut predicted, mut real) = (0.0, 0.0);
    for _ in 0..2000 {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let position = (place >> 16) % (drive.capacity - bytes) / 4096 * 4096;
        predicted +=
            (profile.access_time(position.abs_diff(drive.head)) + profile.transfer_time(position, bytes)).as_secs_f64();
        let before = drive.now;
        drive.serve(position, bytes, ReadArrival::Behind);
        real += drive.now - before;
    }
    predicted / real
}

#[test]
fn profiles_predict_random_block_reads_within_five_percent() {
    for (make, turn_us) in
        [(TestDrive::desktop as fn() -> TestDrive, 8333), (TestDrive::of_2005, 8333), (TestDrive::surveillance, 11_111)]
    {
        let mut drive = make();
        let measured = measure(&mut drive, Some(true)).expect("a healthy drive");
        let profile = measured.profile;
        assert_eq!(profile.check(), Ok(()));
        assert_eq!(profile.turn.0 / 1000, turn_us);
        assert!(profile.rotational && profile.capacity.0 == drive.capacity);
        assert!(drive.now < 14.0, "took {} s of the drive", drive.now);
        for bytes in [MIB, 4 * MIB, 16 * MIB] {
            let ratio = prediction(&mut drive, &profile, bytes);
            assert!((0.95..1.05).contains(&ratio), "{bytes} bytes: predicted/real {ratio}");
        }
    }
}

#[test]
fn zones_fall_inwards_and_meet_the_rates() {
    assert_zones_of(TestDrive::desktop());
}

#[test]
fn runs_that_were_held_up_do_not_count_in_the_rate() {
    for held_up_each in 30..50 {
        assert_zones_of(TestDrive { held_up_each, ..TestDrive::desktop() });
    }
}

#[test]
fn a_drive_that_reads_nothing_ahead_has_the_rate_at_which_it_is_read() {
    assert_zones_of(TestDrive { looks_nowhere: true, ..TestDrive::desktop() });
}

/// Measures the drive of [`Drive::desktop`].
fn assert_zones_of(mut drive: TestDrive) {
    let profile = measure(&mut drive, None).expect("a healthy drive").profile;
    assert!(profile.zones.windows(2).all(|w| w[0].bytes_per_second >= w[1].bytes_per_second));
    for share in 0..=20 {
        let position = drive.capacity / 20 * share;
        let real = 180e6 - 95e6 * position as f64 / drive.capacity as f64;
        let ratio = profile.rate_at(position) as f64 / real;
        assert!((0.98..1.02).contains(&ratio), "at {share}/20, held up each {}: {ratio}", drive.held_up_each);
    }
}

#[test]
fn other_use_of_the_disk_is_noted() {
    for (others, disturbed) in [(0, false), (3, true)] {
        let measured = measure(&mut TestDrive { others, ..TestDrive::desktop() }, None).expect("a healthy drive");
        let told = measured.notes.iter().any(|note| note.contains("something else used the disk"));
        assert_eq!((measured.disturbed, told), (disturbed, disturbed), "{:?}", measured.notes);
    }
}

#[test]
fn the_same_seed_reads_the_same_places() {
    let profile = |_| measure(&mut TestDrive::desktop(), None).expect("a healthy drive").profile;
    assert_eq!(profile(1), profile(2));
}

#[test]
fn a_small_drive_is_measured_too() {
    let mut drive = TestDrive { capacity: 2 * GB, ..TestDrive::desktop() };
    let profile = measure(&mut drive, None).expect("a healthy drive").profile;
    assert_eq!(profile.check(), Ok(()));
    let ratio = prediction(&mut drive, &profile, MIB);
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_drive_that_buffers_behind_its_head_gets_an_assumed_turn() {
    let mut drive = TestDrive { looks_behind: true, ..TestDrive::desktop() };
    let measured = measure(&mut drive, None).expect("a healthy drive");
    assert_eq!(measured.profile.turn, Nanos(60_000_000_000 / 7200));
    assert!(measured.notes.iter().any(|n| n.contains("rotation")), "{:?}", measured.notes);
}

#[test]
fn flash_is_recognised_against_the_kernels_word() {
    let measured = measure(&mut TestFlash { now: Nanos::ZERO }, Some(true)).expect("a healthy drive");
    assert!(!measured.profile.rotational);
    assert_eq!(
        measured.profile.zones,
        vec![schedule::profile::Zone { start: ByteCount(0), bytes_per_second: 500_000_000 }]
    );
    let latency = measured.profile.access_time(GB);
    assert!((Nanos::from_micros(100)..Nanos::from_micros(120)).contains(&latency), "{latency}");
    assert!(measured.notes.iter().any(|n| n.contains("the kernel calls it a spinning disk")), "{:?}", measured.notes);
}

#[test]
fn files_on_a_spindle_give_a_cautious_profile() {
    let mut drive = TestDrive { capacity: 40 * GB, ..TestDrive::desktop() };
    let mut watch = go_on;
    let measured = Measurement::new(&mut drive, Options::default(), &mut watch).files(Some(true), ByteCount(1000 * GB));
    let profile = measured.expect("a healthy drive").profile;
    assert_eq!(profile.check(), Ok(()));
    assert!(profile.rotational && profile.zones.len() == 1 && profile.capacity.0 == 1000 * GB);
    assert!(profile.rate_at(0) < 130_000_000, "not the outer rate");
}

#[test]
fn a_broken_disk_is_unusable_after_few_reads() {
    let mut drive = TestDrive { broken: true, ..TestDrive::desktop() };
    assert!(matches!(measure(&mut drive, None), Err(NoProfile::Unusable(reason)) if reason.contains("reading failed")));
    assert!(drive.reads < 20);
}

#[test]
fn the_watcher_can_end_it_and_sees_progress_rise() {
    let mut seen = Vec::new();
    let mut watch = |p: CalibrationProgress| {
        seen.push(p.permille);
        if p.step == "seeks" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let ended = Measurement::new(&mut TestDrive::desktop(), Options::default(), &mut watch).device(None);
    assert!(matches!(ended, Err(NoProfile::Cancelled)));
    assert!(seen.is_sorted() && seen.len() > 20 && seen.iter().all(|p| *p <= 1000));
}

fn example(state: &Path) -> Calibration {
    let mut calibration =
        calibrate(state, Options { time_max: Nanos::ZERO, ..Options::default() }, &mut go_on).expect("a folder");
    calibration.disk = DiskIdentity { key: "serial X/../1".to_owned(), ..calibration.disk };
    calibration
}

/// A folder in memory, so that no test reads a real disk.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("/dev/shm is a tmpfs on Linux")
}

#[test]
fn a_folder_without_a_disk_gets_a_default_and_says_so() {
    let folder = memory_folder();
    let calibration = example(folder.path());
    assert!(matches!(&calibration.source, ProfileSource::Assumed { reason } if reason.contains("no block device")));
    assert!(!calibration.profile.rotational);
    assert_eq!(calibration.profile.check(), Ok(()));
    assert!(matches!(
        calibrate(&folder.path().join("none"), Options::default(), &mut go_on),
        Err(CalibrateError::Path { .. })
    ));
}

#[test]
fn profiles_are_kept_and_only_good_ones_are_used() {
    let state = memory_folder();
    let assumed = example(state.path());
    assert!(matches!(save(state.path(), &assumed), Err(KeepError::Assumed(_))), "the reason may go away");
    let calibration = Calibration { source: ProfileSource::BlockDevice { device: "/dev/sdx".into() }, ..assumed };
    let disk = &calibration.disk;
    assert!(matches!(load(state.path(), disk), Err(KeepError::Absent)));
    save(state.path(), &calibration).expect("room for a small file");
    assert_eq!(load(state.path(), disk).expect("just kept"), calibration);
    let json = calibration.to_json().expect("plain values");
    assert_eq!(profile_from_json(json.as_bytes()).expect("our own form"), calibration.profile);

    let path = profile_path(state.path(), disk);
    assert!(path.starts_with(state.path().join("disks")), "a key never leaves the folder: {}", path.display());
    let other = DiskIdentity { key: "another".to_owned(), ..disk.clone() };
    fs::copy(&path, profile_path(state.path(), &other)).expect("both in one folder");
    assert!(matches!(load(state.path(), &other), Err(KeepError::OtherDisk(_))));

    let spoilt = [
        json.replace("\"version\": 2", "\"version\": 99"),
        json[..json.len() / 2].to_owned(),
        json.replace("\"queue_depth\": 8", "\"queue_depth\": 0"),
        json.replace("\"turn_ns\": 0", "\"turn_ns\": -1"),
        String::new(),
    ];
    for text in spoilt {
        assert_ne!(text, json);
        fs::write(&path, &text).expect("the file can be written");
        assert!(!matches!(load(state.path(), disk), Ok(_) | Err(KeepError::Absent)), "{text}");
    }
}
