//! The loop: the cyclic pipeline of HiTactix §3.2.
//!
//! Each step of the wheel the streams whose tick it is are fed from buffers read earlier; each round every disk is
//! asked for the blocks of later rounds; in between, completions and commands are taken in. One submission carries all
//! that a step decided.
//!
//! Promise: no allocation, no lock, no call of unknown length after [`Plane::new`]; a late step never moves the next.
//! Not here: what to read next (`schedule::disk`), whom to admit (`schedule::admission`), the kernel (`port::Io`).

mod admit;
mod best_effort;
mod failing;
mod feed;
mod fetch;
mod found;
mod grants;
mod links;
mod sharing;
mod slower;

use std::sync::Arc;

use schedule::admission::{self, Admission};
use schedule::cycle::Grid;
use schedule::disk::health::{ErrorLocation, Health};
use schedule::disk::{Discipline, DiskSchedule, DiskSettings};
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, LinkId, Nanos, StreamId, limits};

use crate::cache::{Cache, FRAME_QUARTERS, Quarter};
use crate::control::{Command, Content, Ending, Event, Outcome, Report};
use crate::files::{FileTable, OpenedSlot};
use crate::gauges::Gauges;
use crate::memory::ArenaMemory;
use crate::port::{COMPLETIONS_MAX, Completion, FileSlot, Io, SocketSlot, Token};
use crate::stream::{StreamClass, StreamEntry, StreamLife};
use crate::wheel::{STEPS, Wheel};
use best_effort::BestEffort;
use links::LinkLoad;
use slower::Speed;

/// Commands taken in between two looks at the clock.
const COMMANDS_PER_TURN: usize = 64;
/// Reads in flight over all disks.
const READS_MAX: usize = 4096;
/// Reports that wait for room in the queue.
const OUTBOX: usize = 2 * limits::STREAMS_MAX;

/// Settings of a plane. All derived limits follow from these.
#[derive(Debug, Clone, Copy)]
pub struct PlaneConfig {
    /// Fraction of a cycle at which sockets are fed; 25 or 50 ms by default.
    pub tick: Nanos,
    /// Round of a spinning disk; flash is asked tick by tick.
    pub round: Nanos,
    /// Cyclic, or FIFO for comparison.
    pub discipline: Discipline,
    /// Share of disk time best-effort work keeps, 0.0 … 0.9.
    pub be_share: f64,
    /// Streams of one content share its reads, and so much disk time is kept for those that then need their own: a share
    /// of what all of them would take. `None`: each reads for itself.
    pub sharing: Option<f64>,
    /// A client that takes nothing for so long gives its reservation back; a best-effort delivery ends.
    pub stall_max: Nanos,
    /// A read that takes longer marks its disk as failing.
    pub io_deadline: Nanos,
    /// The time to first byte: a guaranteed stream of which nothing was sent for so long is refused after all.
    pub first_byte_max: Nanos,
    /// What nobody read for so long is not kept in memory, which is then given back.
    pub memory_lull: Nanos,
    /// Streams at once, at most `limits::STREAMS_MAX`.
    pub streams_max: usize,
}

impl Default for PlaneConfig {
    fn default() -> Self {
        Self {
            tick: Nanos::from_millis(50),
            round: Nanos::from_secs(1),
            discipline: Discipline::Cyclic,
            be_share: 0.1,
            sharing: Some(0.1),
            stall_max: Nanos::from_secs(30),
            io_deadline: Nanos::from_secs(5),
            first_byte_max: Nanos::from_secs(5),
            memory_lull: Nanos::from_secs(60),
            streams_max: limits::STREAMS_MAX,
        }
    }
}

impl PlaneConfig {
    /// The round in which this disk is asked: admission and the disk's own schedule must mean the same.
    fn round_of(&self, profile: &DiskProfile) -> Nanos {
        if profile.rotational { self.round } else { self.tick.saturating_mul(5) }
    }
}

/// A disk's part of the plane.
#[derive(Debug)]
struct PlaneDisk {
    schedule: DiskSchedule,
    rounds: Grid,
    /// The round whose blocks were asked for last.
    round: u64,
    spins: bool,
    /// Slots of the streams that read from it.
    streams: Vec<u32>,
    /// Slots of admitted streams that wait for their start.
    waiting: Vec<u32>,
    /// Slots whose first bytes are being read.
    starting: Vec<u32>,
    /// Reads that failed on another disk and are to be made from this one's copy.
    retries: Vec<u32>,
    last_completion: Nanos,
    health: Health,
    /// How slow it was said to be.
    speed: Speed,
}

/// A read in flight, or read and not looked at yet.
#[derive(Debug, Clone, Copy)]
struct ReadOp {
    /// The stream that asked for it.
    slot: u32,
    generation: u32,
    disk: DiskId,
    file: FileSlot,
    first: Quarter,
    count: u32,
    place: ErrorLocation,
    /// The copy of the content it reads, and how many were tried before.
    copy: usize,
    tried: usize,
    /// Offset in the content, and bytes expected there.
    offset: u64,
    expected: u64,
    /// Bytes that earlier, short answers to it brought.
    got: u64,
    real_time: bool,
    issued: Nanos,
    predicted: Nanos,
}

/// What a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenWork {
    Send {
        slot: u32,
        generation: u32,
    },
    Read {
        op: u32,
    },
    /// The look at its file that follows a read.
    Look {
        op: u32,
    },
    /// A change of memory.
    Memory,
}

const SEND_TAG: u64 = 1 << 56;
const READ_TAG: u64 = 2 << 56;
const LOOK_TAG: u64 = 4 << 56;
const MEMORY_TAG: u64 = 8 << 56;

impl TokenWork {
    fn token(self) -> Token {
        match self {
            Self::Send { slot, generation } => Token(SEND_TAG | u64::from(generation) << 32 | u64::from(slot)),
            Self::Read { op } => Token(READ_TAG | u64::from(op)),
            Self::Look { op } => Token(LOOK_TAG | u64::from(op)),
            Self::Memory => Token(MEMORY_TAG),
        }
    }

    fn of(token: Token) -> Self {
        let low = u32::try_from(token.0 & u64::from(u32::MAX)).expect("masked");
        if token.0 & READ_TAG != 0 {
            return Self::Read { op: low };
        }
        if token.0 & LOOK_TAG != 0 {
            return Self::Look { op: low };
        }
        if token.0 & MEMORY_TAG != 0 {
            return Self::Memory;
        }
        let generation = u32::try_from(token.0 >> 32 & 0x00FF_FFFF).expect("masked");
        Self::Send { slot: low, generation }
    }
}

/// The data plane of one core.
#[derive(Debug)]
pub struct Plane<I> {
    config: PlaneConfig,
    io: I,
    gauges: Arc<Gauges>,
    admission: Admission,
    cache: Cache,
    memory: ArenaMemory,
    files: FileTable,
    streams: Vec<StreamEntry>,
    free: Vec<u32>,
    disks: Vec<PlaneDisk>,
    wheel: Wheel,
    steps: Grid,
    /// The next step of the wheel to be fed.
    step: u64,
    best_effort: BestEffort,
    links: Vec<LinkLoad>,
    reads: Vec<Option<ReadOp>>,
    reads_free: Vec<u32>,
    /// Who uses a reservation: the slot of its stream.
    holders: Vec<Option<u32>>,
    outbox: Vec<Report>,
    completions: Vec<Completion>,
    draining: bool,
    running: bool,
    meter: Meter,
}

/// What the regular looks at the core and the disks need.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    next: Nanos,
    /// When the disks' speed is looked at again.
    speeds: Nanos,
    processor: Nanos,
    at: Nanos,
    misses_reported: Nanos,
    /// When the disks' silence is looked at next.
    silence: Nanos,
}

impl<I: Io> Plane<I> {
    /// A plane over these disks and links, with the arena that `io` has. Allocates everything it will ever need.
    ///
    /// # Panics
    /// If the configuration is out of its documented bounds, or there are more disks than `limits::DISKS_MAX`.
    #[must_use]
    pub fn new(
        config: PlaneConfig,
        disks: Vec<DiskProfile>,
        links: &[BitRate],
        gauges: Arc<Gauges>,
        mut io: I,
    ) -> Self {
        assert!(config.streams_max <= limits::STREAMS_MAX, "within limits");
        assert!(disks.len() <= limits::DISKS_MAX && links.len() <= limits::LINKS_MAX, "within limits");
        assert!(gauges.streams.len() >= config.streams_max && gauges.disks.len() >= disks.len(), "gauges fit");
        let now = io.now();
        let mut cache = Cache::new(io.chunk_count());
        let memory = ArenaMemory::new(io.chunk_count(), config.memory_lull, &mut cache);
        let quarters = cache.quarters() - cache.quarters() / best_effort::PAGES_SHARE;
        let settings = admission::AdmissionSettings {
            reservations_max: config.streams_max,
            quarters: u64::from(quarters),
            be_share: config.be_share,
            sharing_reserve: config.sharing.unwrap_or(0.0),
        };
        let rounds = disks.iter().map(|profile| (profile.clone(), config.round_of(profile))).collect();
        let count = u32::try_from(config.streams_max).expect("within limits");
        let steps = Grid::new(now, Nanos(config.tick.0 / STEPS as u64));
        gauges.plane.quarters.set(u64::from(cache.quarters()));
        Self {
            admission: Admission::new(&settings, rounds, links),
            files: FileTable::new(config.streams_max + READS_MAX),
            streams: (0..config.streams_max).map(|_| StreamEntry::free()).collect(),
            free: (0..count).rev().collect(),
            disks: disks.into_iter().map(|profile| PlaneDisk::new(&config, profile, now)).collect(),
            wheel: Wheel::new(),
            steps,
            step: 1,
            best_effort: BestEffort::new(config.streams_max, links.len()),
            links: vec![LinkLoad::idle(); links.len()],
            reads: vec![None; READS_MAX],
            reads_free: (0..READS_MAX).rev().map(|op| u32::try_from(op).expect("few")).collect(),
            holders: vec![None; config.streams_max],
            outbox: Vec::with_capacity(OUTBOX),
            completions: Vec::with_capacity(COMPLETIONS_MAX),
            draining: false,
            running: true,
            meter: Meter {
                next: now,
                speeds: now,
                processor: io.processor_time(),
                at: now,
                misses_reported: Nanos::ZERO,
                silence: now,
            },
            cache,
            memory,
            config,
            gauges,
            io,
        }
    }

    /// Runs until [`Command::Shutdown`].
    pub fn run(&mut self) {
        while self.running {
            self.turn();
        }
    }

    /// One turn of the loop: takes in what came, feeds what is due, asks the disks, waits for the next thing.
    /// False once [`Command::Shutdown`] was seen.
    pub fn turn(&mut self) -> bool {
        let now = self.io.now();
        self.cache.set_clock(now);
        self.take_commands(now);
        self.take_store_messages(now);
        self.feed_due_steps(now);
        self.watch_silence(now);
        self.begin_rounds(now);
        self.refuse_late_starts(now);
        self.change_memory(now);
        self.ask_disks(now);
        self.publish_promises();
        self.flush_reports();
        self.measure(now);
        let until = self.next_wakeup(now);
        let mut completions = std::mem::take(&mut self.completions);
        self.io.wait(until, &mut completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        self.running
    }

    /// The world it runs in (for the simulator, which is one).
    pub fn io(&mut self) -> &mut I {
        &mut self.io
    }

    /// Admission's state, for checkers.
    #[must_use]
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The buffers, for checkers.
    #[must_use]
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The schedule of a disk, for checkers.
    #[must_use]
    pub fn disk(&self, disk: DiskId) -> &DiskSchedule {
        &self.disks[usize::from(disk.0)].schedule
    }

    fn next_wakeup(&self, now: Nanos) -> Nanos {
        let step = self.next_used_step();
        let disks =
            self.disks.iter().filter(|disk| !disk.health.is_hung()).filter_map(|disk| disk.schedule.next_wakeup(now));
        disks.chain(self.memory.next_wakeup()).fold(step, Nanos::min)
    }

    /// Brings memory in ahead of what was promised and of what best effort may use, or gives some back.
    fn change_memory(&mut self, now: Nanos) {
        let best_effort =
            u64::from(self.best_effort_pages_max()).min(self.best_effort.count() as u64 * u64::from(FRAME_QUARTERS));
        // Viewers of the same contents use little of what each was promised. A crowd would wait for gigabytes, which take seconds
        // to bring in, that it never reads into.
        let promised = self.admission.memory().0.min(2 * u64::from(self.cache.used()));
        let wanted = promised + best_effort;
        if let Some(change) = self.memory.next_change(&mut self.cache, wanted, now) {
            self.io.change_memory(TokenWork::Memory.token(), change);
        }
    }

    fn take_commands(&mut self, now: Nanos) {
        for _ in 0..COMMANDS_PER_TURN {
            // Each command may leave a report behind: without room for it, it waits in its queue, and that is bounded.
            if self.outbox.len() * 2 > self.outbox.capacity() {
                return;
            }
            match self.io.command() {
                Some(Command::Start(delivery)) => self.start(delivery, now),
                Some(Command::Stop(stream)) => self.stop(stream, now),
                Some(Command::Reserve(request)) => self.reserve_recording(request, now),
                Some(Command::Release(reservation)) => self.admission.release(reservation),
                Some(Command::SetStall(span)) => self.config.stall_max = span,
                Some(Command::SetLink { link, capacity }) => self.admission.set_link(link, capacity),
                Some(Command::Drain) => self.draining = true,
                Some(Command::Shutdown) => self.running = false,
                None => return,
            }
        }
    }

    fn stop(&mut self, stream: StreamId, now: Nanos) {
        let running = |entry: &StreamEntry| entry.life != StreamLife::Free && entry.delivery().stream == stream;
        if let Some(slot) = self.streams.iter().position(running) {
            self.finish(u32::try_from(slot).expect("within limits"), Outcome::Stopped, now);
        }
    }

    fn complete(&mut self, completion: Completion) {
        match TokenWork::of(completion.token) {
            TokenWork::Send { slot, generation } => self.send_done(slot, generation, completion),
            TokenWork::Read { op } => self.read_done(op, completion),
            TokenWork::Look { op } => self.verified(op, completion),
            TokenWork::Memory => self.memory.changed(&mut self.cache, completion.result.is_ok(), completion.at),
        }
    }

    /// Ends a stream: now if the kernel holds none of its memory, else when it lets go.
    fn finish(&mut self, slot: u32, outcome: Outcome, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        match stream.life {
            StreamLife::Free | StreamLife::Ending(_) => return,
            // Whoever ends before its start was told is told both: an end without a start is not in the contract.
            StreamLife::Waiting => {
                let started =
                    Report::Started { stream: stream.delivery().stream, reservation: self.reservation_of(slot) };
                self.outbox.push(started);
            }
            StreamLife::Starting | StreamLife::Running => {}
        }
        self.leave_group(slot, now);
        let stream = &mut self.streams[slot as usize];
        stream.life = StreamLife::Ending(outcome);
        if stream.in_flight.is_some() {
            let token = TokenWork::Send { slot, generation: stream.generation }.token();
            self.io.cancel_send(token);
        } else {
            self.end(slot, now);
        }
    }

    /// Takes an ended stream out of everything and gives its socket back.
    fn end(&mut self, slot: u32, now: Nanos) {
        let StreamLife::Ending(outcome) = self.streams[slot as usize].life else { return };
        // A player closes its connection to seek or to pause. Who took nothing for too long gives up what it had, and what
        // the disk did not bring is not waited for.
        let may_hold = matches!(outcome, Outcome::Complete | Outcome::ClientGone | Outcome::Stopped);
        let held = self.leave_all(slot, may_hold);
        let stream = &mut self.streams[slot as usize];
        let end = Ending {
            outcome,
            sent_bytes: stream.sent_bytes,
            misses: stream.misses,
            duration: now.saturating_sub(stream.started),
            held,
        };
        let delivery = stream.end();
        self.free.push(slot);
        self.outbox.push(Report::Finished { delivery, end });
    }

    /// Releases buffers, seat, disk requests, file and reservation of a slot; the reservation still held, if any.
    fn leave_all(&mut self, slot: u32, may_hold: bool) -> Option<units::ReservationId> {
        let at = slot as usize;
        self.release_buffers(slot);
        self.leave_schedule(slot);
        self.disks[usize::from(self.streams[at].disk.0)].streams.retain(|&other| other != slot);
        self.io.close_socket(SocketSlot(slot));
        self.close_files(slot);
        self.gauges.streams[at].id.set(0);
        match self.streams[at].class {
            StreamClass::BestEffort => {
                self.best_effort.remove(slot);
                None
            }
            StreamClass::Constant { reservation: Some(id), hold, .. } => {
                self.holders[id.slot as usize] = None;
                if hold && may_hold {
                    self.admission.unplace(id);
                    return Some(id);
                }
                self.admission.release(id);
                None
            }
            StreamClass::Constant { reservation: None, .. } => None,
        }
    }

    /// Takes a stream out of the queues of its start, its disk's schedule and the wheel.
    fn leave_schedule(&mut self, slot: u32) {
        let stream = &self.streams[slot as usize];
        if let Some(seat) = stream.seat() {
            self.wheel.leave(slot, seat);
        }
        let disk = &mut self.disks[usize::from(stream.disk.0)];
        disk.waiting.retain(|&other| other != slot);
        disk.starting.retain(|&other| other != slot);
        self.ask_nothing(slot);
    }

    /// Makes the files of a content usable.
    fn open_files(&mut self, content: &Arc<Content>) {
        for (nth, file) in (0u16..).zip(content.layout.files()) {
            if let OpenedSlot::New(slot) = self.files.open(content, nth) {
                self.io.open_file(slot, &file.file, file.access);
            }
        }
    }

    fn close_files(&mut self, slot: u32) {
        let content = &self.streams[slot as usize].delivery().content;
        let (version, files) = (content.version, content.layout.files().len());
        for nth in (0u16..).take(files) {
            let file = self.files.find(version, nth).expect("a stream's files are open");
            self.release_file(file);
        }
    }

    fn release_file(&mut self, file: FileSlot) {
        if let Some(content) = self.files.release(file) {
            self.io.close_file(file);
            // Whoever drops the last reference closes the file, which may take its time. That others hold one now says
            // nothing: they may drop theirs before this one is.
            self.outbox.push(Report::Unused(content));
        }
    }

    fn flush_reports(&mut self) {
        let mut sent = 0;
        while sent < self.outbox.len() {
            let report = std::mem::replace(&mut self.outbox[sent], Report::Event(NO_EVENT));
            if let Err(report) = self.io.report(report) {
                self.outbox[sent] = report;
                break;
            }
            sent += 1;
        }
        self.outbox.drain(..sent);
    }

    fn tell(&mut self, event: Event) {
        // Events are news, not state: with no room they are dropped, the gauges have the numbers.
        if self.outbox.len() < OUTBOX / 4 {
            self.outbox.push(Report::Event(event));
        }
    }

    /// What is promised is shown before the answers to who asked for it.
    fn publish_promises(&self) {
        for (link, gauges) in (0u16..).zip(&self.gauges.links[..self.links.len()]) {
            gauges.left_bps.set(self.admission.link_left(LinkId(link)).0);
        }
        let promised = self.admission.promised().0;
        if promised == self.gauges.plane.promised_bps.get() {
            return;
        }
        self.gauges.plane.promised_bps.set(promised);
        for (disk, gauges) in (0u16..).zip(&self.gauges.disks[..self.disks.len()]) {
            gauges.promised_ppm.set(ppm(self.admission.promised_share(DiskId(disk))));
            gauges.free_ppm.set(ppm(self.admission.free_share(DiskId(disk))));
        }
    }

    /// Once a second: the core's load for admission, figures for everybody.
    fn measure(&mut self, now: Nanos) {
        self.follow_speeds(now);
        if now < self.meter.next {
            return;
        }
        self.meter.next = now.saturating_add(Nanos::from_secs(1));
        let processor = self.io.processor_time();
        let (used, wall) = (processor.saturating_sub(self.meter.processor), now.saturating_sub(self.meter.at));
        if wall > Nanos::from_millis(500) {
            self.admission.set_processor_share(used.as_secs_f64() / wall.as_secs_f64());
            (self.meter.processor, self.meter.at) = (processor, now);
        }
        self.memory.set_obtainable(self.io.chunks_obtainable());
        self.admission.set_quarters(u64::from(self.memory.quarters() - self.best_effort_pages_max()));
        let plane = &self.gauges.plane;
        plane.processor_nanos.set(processor.0);
        plane.lent_bytes.set(self.io.lent_bytes());
        plane.streams.set((self.config.streams_max - self.free.len()) as u64);
        plane.quarters_used.set(u64::from(self.cache.used()));
        plane.quarters_promised.set(self.admission.memory().0);
        for index in 0..self.disks.len() {
            self.measure_disk(index, now);
        }
        self.look_after_blocked(now);
    }

    fn measure_disk(&mut self, index: usize, now: Nanos) {
        let id = DiskId(u16::try_from(index).expect("within limits"));
        let disk = &self.disks[index];
        let gauges = &self.gauges.disks[index];
        let stats = *disk.schedule.stats();
        gauges.phase_nanos.iter().zip(stats.phase_nanos).for_each(|(gauge, nanos)| gauge.set(nanos));
        gauges.rt_bytes.set(stats.rt_bytes);
        gauges.be_bytes.set(stats.be_bytes);
        gauges.commits.set(stats.commits);
        let (rt, be) = disk.schedule.queued();
        gauges.rt_queued.set(rt as u64);
        gauges.be_queued.set(be as u64);
        gauges.streams.set(disk.streams.len() as u64);
        gauges.promised_ppm.set(ppm(self.admission.promised_share(id)));
        gauges.free_ppm.set(ppm(self.admission.free_share(id)));
        self.watch(index, now);
    }
}

const NO_EVENT: Event = Event::DiskRecovered { disk: DiskId(u16::MAX) };

impl PlaneDisk {
    fn new(config: &PlaneConfig, profile: DiskProfile, now: Nanos) -> Self {
        let spins = profile.rotational;
        let rounds = Grid::new(now, config.round_of(&profile));
        let settings = DiskSettings { discipline: config.discipline, rounds, be_share: config.be_share };
        Self {
            schedule: DiskSchedule::new(settings, profile, now),
            rounds,
            round: 0,
            spins,
            streams: Vec::with_capacity(config.streams_max),
            waiting: Vec::with_capacity(config.streams_max),
            starting: Vec::with_capacity(config.streams_max),
            retries: Vec::with_capacity(READS_MAX),
            last_completion: now,
            health: Health::default(),
            speed: Speed::default(),
        }
    }
}

fn ppm(share: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares are small and positive")]
    let millionths = (share * 1e6) as u64;
    millionths
}
