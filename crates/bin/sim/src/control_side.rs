//! The control side of a run: its demands on the plane, its state, and its answers that need no world.
//!
//! Not here: its actions in the world (`workload`).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use schedule::admission::rounds::LOOKAHEAD_ROUNDS;
use schedule::disk::{DEBT_PART, SAVED_PART};
use units::{BitRate, ContentVersion, DiskId, Nanos, ReservationId, StreamId, UploadId};

use crate::camera::Camera;
use crate::contents::{SimContent, new_content};
use crate::ledger::LedgerEntry;
use crate::load::{FaultAt, Load, Tally};
use crate::random::Random;
use crate::viewers::{FilmViewerAction, Viewers};

/// An action of the control side at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ControlAction {
    Arrive,
    Again(ReservationId, u32, BitRate),
    Stop(u64),
    Seek,
    Pause,
    Viewer(FilmViewerAction),
    Upload(usize),
    Record(usize),
    RecordAll(usize),
    Probe(usize),
    FaultBegins(usize),
    FaultEnds(usize),
    Audit,
    Calm,
    Drain,
    /// Deliveries that may be late and have not ended by themselves get the order to end.
    StopLate,
    Shutdown,
}

/// When the run changes from faults to none, ends asking, and must be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunPhases {
    pub(crate) safety: Nanos,
    pub(crate) liveness: Nanos,
}

/// A delivery that ended because its disk had become too slow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shed {
    pub(crate) stream: StreamId,
    pub(crate) disk: DiskId,
    pub(crate) at: Nanos,
}

/// A recording that is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestedRecording {
    pub(crate) disk: usize,
    pub(crate) rate: BitRate,
    pub(crate) camera: Camera,
    pub(crate) lasts: Nanos,
}

/// A recording that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimRecording {
    pub(crate) reservation: ReservationId,
    pub(crate) disk: usize,
}

/// The control side's state.
#[derive(Debug)]
pub(crate) struct ControlSide {
    pub(crate) random: Random,
    pub(crate) load: Load,
    pub(crate) faults: Vec<FaultAt>,
    /// Those that are on now, and which tenth of its disk each of them spoils, if it spoils one.
    pub(crate) faults_on: Vec<usize>,
    pub(crate) bad_tenths: Vec<u64>,
    pub(crate) phases: RunPhases,
    tick: Nanos,
    round: Nanos,
    pub(crate) be_share: f64,
    /// From the question to the first byte, or to a no.
    pub(crate) first_byte_max: Nanos,
    /// Longest time for which a stream keeps its reservation while its client takes nothing.
    pub(crate) stall_max: Nanos,
    /// Until when reports may have waited unread.
    pub(crate) reports_read: Nanos,
    pub(crate) null: OwnedFd,
    pub(crate) contents: Vec<SimContent>,
    pub(crate) actions: Vec<ControlAction>,
    pub(crate) next_stream: u64,
    /// Deliveries that arrived and run, and all guaranteed ones that do.
    pub(crate) running: usize,
    pub(crate) guaranteed: u64,
    pub(crate) viewers: Viewers,
    pub(crate) recordings: BTreeMap<(usize, UploadId), SimRecording>,
    pub(crate) reserving: BTreeMap<u64, RequestedRecording>,
    /// Until when a disk's faults excuse its streams.
    pub(crate) disk_excused: Vec<Nanos>,
    /// Where the last recording of each disk will end.
    pub(crate) recorded_to: Vec<Option<u64>>,
    /// Until when new deliveries are excused on each disk: its slowdown is not known yet, and their start is promised from its
    /// known speed.
    pub(crate) newcomers_excused: Vec<Nanos>,
    /// Until when more than one copy of a mirrored unit may be missing, or a disk is slow.
    pub(crate) mirror_excused: Nanos,
    /// Since when best-effort work of a disk has waited without a grant.
    be_waits: Vec<Option<(Nanos, u64)>>,
    pub(crate) calm: bool,
    pub(crate) draining: bool,
    pub(crate) ended: bool,
    pub(crate) tally: Tally,
    /// Deliveries that ended because their disk was too slow, since the last audit.
    pub(crate) shed: Vec<Shed>,
    /// From a command to the first payload byte, of guaranteed deliveries without an excuse.
    pub(crate) first_bytes: Vec<Nanos>,
}

/// The parts of a control side.
#[derive(Debug)]
pub(crate) struct ControlSettings {
    pub(crate) load: Load,
    pub(crate) faults: Vec<FaultAt>,
    pub(crate) phases: RunPhases,
    pub(crate) tick: Nanos,
    pub(crate) round: Nanos,
    pub(crate) be_share: f64,
    pub(crate) first_byte_max: Nanos,
    pub(crate) stall_max: Nanos,
    pub(crate) capacities: Vec<u64>,
}

impl ControlSide {
    /// Makes the contents; `null` is an open `/dev/null`.
    pub(crate) fn new(settings: ControlSettings, null: OwnedFd, mut random: Random) -> Self {
        let ControlSettings { load, faults, phases, tick, round, be_share, first_byte_max, stall_max, capacities } =
            settings;
        let mut contents = Vec::new();
        for disk in 0..capacities.len() {
            for _ in 0..load.contents_per_disk {
                let version = ContentVersion(contents.len() as u64 + 1);
                contents.push(new_content(version, disk, &capacities, &load, &null, &mut random));
            }
        }
        // A stream of numbers of their own: other draws do not depend on them.
        let viewers = Viewers::new(&load.segments, &capacities, random.clone().fork());
        Self {
            viewers,
            random,
            load,
            faults_on: Vec::new(),
            bad_tenths: vec![0; faults.len()],
            faults,
            phases,
            tick,
            round,
            be_share,
            first_byte_max,
            stall_max,
            reports_read: Nanos::ZERO,
            null,
            contents,
            actions: Vec::new(),
            next_stream: 1,
            running: 0,
            guaranteed: 0,
            recordings: BTreeMap::new(),
            reserving: BTreeMap::new(),
            disk_excused: vec![Nanos::ZERO; capacities.len()],
            recorded_to: vec![None; capacities.len()],
            newcomers_excused: vec![Nanos::ZERO; capacities.len()],
            mirror_excused: Nanos::ZERO,
            be_waits: vec![None; capacities.len()],
            calm: false,
            draining: false,
            ended: false,
            tally: Tally::default(),
            shed: Vec::new(),
            first_bytes: Vec::new(),
        }
    }

    /// How much later than its rate, counted from its first byte, an unexcused stream may be: a tick's bytes are there
    /// before the time begins in which they are used. Behind a burst the clock may have begun a tick later, and a slow
    /// stream's ticks are twice as long.
    pub(crate) fn lateness_max(&self, burst_bytes: u64) -> Nanos {
        let clock = if burst_bytes == 0 { Nanos::ZERO } else { self.tick.saturating_mul(2) };
        clock.saturating_add(Nanos::from_millis(5))
    }

    /// The round of spinning disks.
    pub(crate) fn round_span(&self) -> Nanos {
        self.round
    }

    /// The plane's tick.
    pub(crate) fn tick_span(&self) -> Nanos {
        self.tick
    }

    /// How long best-effort work may wait for a grant: until its share of the time has paid the most that it may owe, and saved for the
    /// longest job, which then has the deadline of a read. By the rounds of spinning disks; those of flash are shorter.
    pub(crate) fn best_effort_wait_max(&self) -> Nanos {
        let to_earn = Nanos(self.round.0 / DEBT_PART + self.round.0 / SAVED_PART);
        let earned = Nanos::from_secs_f64(to_earn.as_secs_f64() / self.be_share);
        earned.saturating_add(self.round.saturating_mul(LOOKAHEAD_ROUNDS))
    }

    /// How far ahead of its rate a stream may be: slow streams are fed every second tick.
    pub(crate) fn ahead_max(&self) -> Nanos {
        self.tick.saturating_mul(8).saturating_add(Nanos::from_millis(20))
    }

    /// True while a disk's faults excuse its streams.
    pub(crate) fn disk_is_excused(&self, disk: usize, now: Nanos) -> bool {
        self.disk_excused[disk] > now
    }

    /// Since when best-effort work of this disk has waited without a grant of any.
    pub(crate) fn best_effort_waits(&mut self, disk: usize, waits: bool, now: Nanos, grants: u64) -> Option<Nanos> {
        let entry = &mut self.be_waits[disk];
        *entry = match *entry {
            _ if !waits => None,
            Some((since, before)) if before == grants => Some((since, before)),
            _ => Some((now, grants)),
        };
        entry.map(|(since, _)| since)
    }

    /// How long a delivery without an excuse waited for its first byte.
    pub(crate) fn count_first_byte(&mut self, record: &LedgerEntry) {
        let Some(first) = record.first_at().filter(|_| !record.may_be_late()) else { return };
        let span = first.saturating_sub(record.requested.at);
        self.first_bytes.push(span);
        let tally = &mut self.tally;
        tally.first_byte_max = tally.first_byte_max.max(span);
        tally.first_byte_sum += span;
        tally.first_bytes += 1;
    }
}
