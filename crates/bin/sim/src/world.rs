//! The world of one run: virtual time, an event heap, disks, store threads, clients and the control side's queues.
//!
//! Promise: events happen in the order of (time, number); the plane's thread is one of the world's actors and may be
//! late like any other. Not here: the control side's actions (`workload`), reads and sends (`transfer`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use dataplane::control::{Command, Report};
use dataplane::port::{COMPLETIONS_MAX, Completion, MemoryChange, ReadRequest, SendRequest, SocketSlot, Token};
use storage::grant::{Grant, StoreMessage};
use units::{BitRate, ContentVersion, DiskId, Nanos};

use crate::arena::SimArena;
use crate::contents::SimFile;
use crate::control_side::ControlSide;
use crate::delays::PlaneDelays;
use crate::disk::{ServedRequest, SimDisk};
use crate::drive::{Drive, DriveRequest, Op};
use crate::handles::Handles;
use crate::laws::{Law, Laws};
use crate::ledger::LedgerEntry;
use crate::log::{LogKind, RunLog, Trace};
use crate::random::Random;
use crate::socket::ClientReading;
use crate::store_thread::{Actions, StoreThread};

/// Number of audits over which the time of disks idle beside work is summed.
pub(crate) const IDLE_AUDITS: usize = 8;

/// How long bringing in or giving back a step of memory takes.
const MEMORY_CHANGE: Nanos = Nanos::from_millis(20);
/// Reports the control side has room for.
const REPORTS_MAX: usize = 4096;

/// Parts and parameters of a world.
#[derive(Debug)]
pub(crate) struct WorldSettings {
    pub(crate) chunks: u32,
    pub(crate) disks: Vec<WorldDisk>,
    /// Processor time of the plane per request (a send, a read, a completion).
    pub(crate) request_cost: Nanos,
    /// Longest time the plane's thread takes to wake.
    pub(crate) wake_max: Nanos,
    /// Chance that a read brings fewer bytes than asked.
    pub(crate) short_read: f64,
    /// Rate of the link, and the tick of the plane.
    pub(crate) link: BitRate,
    pub(crate) tick: Nanos,
    pub(crate) trace: Trace,
}

/// One disk of a world.
#[derive(Debug)]
pub(crate) struct WorldDisk {
    pub(crate) drive: Drive,
    /// Reads the plane may have in flight.
    pub(crate) depth: usize,
}

/// A read under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingRead {
    pub(crate) request: ReadRequest,
    pub(crate) file: SimFile,
    pub(crate) disk: Option<usize>,
    pub(crate) parts: u32,
    pub(crate) ok: bool,
    /// It brings other bytes.
    pub(crate) lies: bool,
}

/// Something that will happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorldEvent {
    /// A waiting send may have room.
    Writable(SocketSlot),
    /// A client reads differently.
    Client(u64, ClientTurn),
    /// A store thread looks at its writers.
    StorePoke(u16),
    /// A store thread wakes with its grant.
    StoreBegin(u16),
    /// The helper thread that reads through the page cache is done.
    BufferedRead(u32),
    /// A file was looked at.
    Looked { token: Token, version: ContentVersion, right: bool },
    /// A change of memory was made.
    MemoryChanged(Token),
    /// The control side reads its reports.
    Reports,
    /// The control side's next arrival, stop or fault.
    Control(u32),
}

/// How a client's reading changes, as an ordered value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClientTurn {
    Reads(BitRate),
    Stops,
    Resets,
}

/// Everything outside the plane.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) processor: Nanos,
    heap: BinaryHeap<Reverse<(Nanos, u64, WorldEvent)>>,
    next_event: u64,
    next_request: u64,
    pub(crate) settings: WorldSettings,
    pub(crate) random: Random,
    pub(crate) arena: SimArena,
    /// Memory that is being brought in.
    memory_change: Option<MemoryChange>,
    pub(crate) disks: Vec<SimDisk>,
    /// Where each gives other bytes than were written.
    pub(crate) lies: Vec<std::ops::Range<u64>>,
    /// Reads of the plane in flight per disk, and how many may be.
    pub(crate) plane_reads: Vec<usize>,
    pub(crate) depths: Vec<usize>,
    /// Grants and reads exclude each other only where there is one head.
    pub(crate) spins: Vec<bool>,
    pub(crate) stores: Vec<StoreThread>,
    pub(crate) grants: Vec<Option<Grant>>,
    pub(crate) reads: Vec<Option<PendingRead>>,
    pub(crate) queued_reads: Vec<ReadRequest>,
    pub(crate) queued_sends: Vec<SendRequest>,
    pub(crate) ready: VecDeque<Completion>,
    pub(crate) store_messages: VecDeque<StoreMessage>,
    pub(crate) commands: VecDeque<Command>,
    pub(crate) reports: VecDeque<Report>,
    pub(crate) reports_closed: bool,
    reports_scheduled: bool,
    /// Delay the next wake-up of the plane by this much.
    pub(crate) plane_delay: Nanos,
    /// When it was delayed so far.
    pub(crate) plane_delays: PlaneDelays,
    pub(crate) handles: Handles,
    pub(crate) streams: BTreeMap<u64, LedgerEntry>,
    pub(crate) pending_sends: BTreeMap<u64, SocketSlot>,
    /// Until when the link is busy with the bytes that sockets took.
    pub(crate) link_busy_until: Nanos,
    pub(crate) control: ControlSide,
    pub(crate) laws: Laws,
    pub(crate) log: RunLog,
    /// When each store thread looks at its writers next.
    pokes: Vec<Option<Nanos>>,
    /// Grants of best-effort work per disk so far.
    pub(crate) grants_made: Vec<u64>,
    /// The share of its time in which a disk kept its promises lately, reads and recordings, and the sum at the last audit.
    pub(crate) promised_share: Vec<(f64, Nanos)>,
    /// Time a disk was idle while best-effort work waited, between the last two audits and since.
    pub(crate) idle_beside_work: Vec<[Nanos; IDLE_AUDITS]>,
    brought: bool,
    called: bool,
    /// Waits since time last went on by more than the plane's own work.
    steps_without_time: u32,
    served: Vec<ServedRequest>,
}

impl World {
    pub(crate) fn new(mut settings: WorldSettings, control: ControlSide, random: Random) -> Self {
        let disks = std::mem::take(&mut settings.disks);
        let number = |n: usize| DiskId(u16::try_from(n).expect("few disks"));
        let stores =
            disks.iter().enumerate().map(|(n, d)| StoreThread::new(number(n), d.drive.parameters().size)).collect();
        let depths: Vec<usize> = disks.iter().map(|d| d.depth).collect();
        let mut world = Self {
            now: Nanos::from_secs(1),
            processor: Nanos::ZERO,
            heap: BinaryHeap::new(),
            next_event: 0,
            next_request: 0,
            random,
            arena: SimArena::new(settings.chunks),
            memory_change: None,
            lies: vec![0..0; disks.len()],
            plane_reads: vec![0; disks.len()],
            depths,
            spins: disks.iter().map(|d| d.drive.parameters().rotational).collect(),
            grants: vec![None; disks.len()],
            pokes: vec![None; disks.len()],
            grants_made: vec![0; disks.len()],
            promised_share: vec![(0.0, Nanos::ZERO); disks.len()],
            idle_beside_work: vec![[Nanos::ZERO; IDLE_AUDITS]; disks.len()],
            stores,
            disks: disks.into_iter().map(|d| SimDisk::new(d.drive)).collect(),
            reads: Vec::new(),
            queued_reads: Vec::new(),
            queued_sends: Vec::new(),
            ready: VecDeque::new(),
            store_messages: VecDeque::new(),
            commands: VecDeque::new(),
            reports: VecDeque::new(),
            reports_closed: false,
            reports_scheduled: false,
            plane_delay: Nanos::ZERO,
            plane_delays: PlaneDelays::default(),
            handles: Handles::new(),
            streams: BTreeMap::new(),
            pending_sends: BTreeMap::new(),
            link_busy_until: Nanos::ZERO,
            control,
            laws: Laws::default(),
            log: RunLog::new(settings.trace),
            settings,
            brought: false,
            called: false,
            steps_without_time: 0,
            served: Vec::new(),
        };
        world.control_begins();
        world
    }

    /// Puts an event on the heap.
    pub(crate) fn schedule(&mut self, at: Nanos, event: WorldEvent) {
        self.next_event += 1;
        self.heap.push(Reverse((at, self.next_event, event)));
    }

    /// One wait of the plane's thread.
    pub(crate) fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) {
        let asked = std::mem::take(&mut self.called) || !self.queued_reads.is_empty() || !self.queued_sends.is_empty();
        self.laws.waits(self.now, until, asked, self.brought);
        let requests = self.queued_reads.len() + self.queued_sends.len();
        self.charge(requests);
        self.happen_until(self.now);
        self.submit();
        let begun = self.now;
        self.steps_without_time += 1;
        let idle: Vec<bool> = (0..self.disks.len()).map(|disk| self.is_idle_beside_work(disk)).collect();
        while !self.awaited() {
            let next = self.next_at();
            match next.filter(|at| *at <= until) {
                Some(at) => self.happen_until(at),
                None => {
                    self.now = self.now.max(until);
                    break;
                }
            }
        }
        if self.now > begun {
            self.steps_without_time = 0;
        }
        for ([.., sum], idle) in self.idle_beside_work.iter_mut().zip(idle) {
            *sum = if idle { sum.saturating_add(self.now.saturating_sub(begun)) } else { *sum };
        }
        self.wake();
        self.hand_over(completions);
        self.log.event(self.now, LogKind::Wait, until.0, completions.len() as u64, || {
            format!("until {:.6} ms: {} completions", until.as_millis_f64(), completions.len())
        });
    }

    pub(crate) fn steps_without_time(&self) -> u32 {
        self.steps_without_time
    }

    /// A disk with a read of one of its contents out is not idle, though that read goes through the page cache: the world
    /// cannot know whether the kernel asks the disk for it, and the work that waits behind it (a commit waits for all reads) is
    /// not eligible.
    fn is_idle_beside_work(&self, disk: usize) -> bool {
        self.disks[disk].in_flight() == 0
            && self.grants[disk].is_none()
            && self.stores[disk].has_work()
            && !self.is_read_out(disk)
    }

    /// Processor time for `requests`, and as much real time.
    fn charge(&mut self, requests: usize) {
        let spent = self.settings.request_cost.saturating_mul(requests as u64 + 1);
        self.processor += spent;
        self.now += spent;
    }

    /// The thread takes a moment to wake; a fault may make it a long one.
    fn wake(&mut self) {
        let delay = std::mem::take(&mut self.plane_delay);
        let usual = Nanos(self.random.below(self.settings.wake_max.0));
        if delay > Nanos::ZERO {
            self.plane_delays.add(self.now, self.now.saturating_add(delay), self.promised_rate());
        }
        self.now = self.now.saturating_add(delay).saturating_add(usual);
        self.happen_until(self.now);
    }

    fn hand_over(&mut self, completions: &mut Vec<Completion>) {
        let count = self.ready.len().min(COMPLETIONS_MAX);
        self.brought = count > 0 || !self.commands.is_empty() || !self.store_messages.is_empty();
        self.charge(count);
        let now = self.now;
        completions.extend(self.ready.drain(..count).map(|c| Completion { at: now, ..c }));
    }

    /// True if the plane has something to look at.
    fn awaited(&self) -> bool {
        !self.ready.is_empty() || !self.commands.is_empty() || !self.store_messages.is_empty()
    }

    /// When something happens next.
    fn next_at(&self) -> Option<Nanos> {
        let event = self.heap.peek().map(|Reverse((at, ..))| *at);
        let disk = self.disks.iter().filter_map(SimDisk::next_event).min();
        event.into_iter().chain(disk).min()
    }

    /// Lets everything happen that is due by `at`, and makes it that late.
    fn happen_until(&mut self, at: Nanos) {
        let target = self.now.max(at);
        while let Some(next) = self.next_at().filter(|next| *next <= target) {
            self.now = self.now.max(next);
            let event = self.heap.peek().is_some_and(|Reverse((due, ..))| *due <= next);
            if event && let Some(Reverse((_, _, event))) = self.heap.pop() {
                self.happen(event);
            } else {
                self.serve_disks(next);
            }
        }
        self.now = target;
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Writable(slot) => self.retry_send(slot),
            WorldEvent::Client(stream, turn) => self.client_turns(stream, turn),
            WorldEvent::StorePoke(disk) => {
                let disk = usize::from(disk);
                self.pokes[disk] = self.pokes[disk].filter(|at| *at > self.now);
                self.with_store(disk, |store, now, out| store.poke(now, out));
            }
            WorldEvent::StoreBegin(disk) => {
                let disk = usize::from(disk);
                let grant = self.grants[disk].expect("begun on a grant");
                self.with_store(disk, |store, now, out| store.grant(grant, now, out));
            }
            WorldEvent::BufferedRead(index) => self.read_part_done(index, true),
            WorldEvent::Looked { token, version, right } => self.looked(token, version, right),
            WorldEvent::MemoryChanged(token) => self.memory_changed(token),
            WorldEvent::Reports => {
                self.reports_scheduled = false;
                self.control_reads_reports();
            }
            WorldEvent::Control(index) => self.control_event(index),
        }
    }

    fn client_turns(&mut self, stream: u64, turn: ClientTurn) {
        let Some(record) = self.streams.get_mut(&stream) else { return };
        let stall_max = self.control.stall_max;
        let reading = match turn {
            ClientTurn::Reads(rate) => {
                record.client_reads(rate, self.now, stall_max);
                ClientReading::AtRate(rate)
            }
            ClientTurn::Stops => {
                record.client_reads(BitRate(0), self.now, stall_max);
                ClientReading::Stopped
            }
            ClientTurn::Resets => {
                record.excuses.reset = true;
                ClientReading::Reset
            }
        };
        record.socket.set_reading(reading, self.now);
        self.log.event(self.now, LogKind::Client, stream, 0, || format!("stream {stream} {turn:?}"));
        if let Some(slot) = self.handles.slot_of(stream) {
            self.retry_send(slot);
        }
    }

    /// Everything the disks have done by `at`.
    fn serve_disks(&mut self, at: Nanos) {
        for disk in 0..self.disks.len() {
            if self.disks[disk].next_event().is_none_or(|due| due > at) {
                continue;
            }
            let mut served = std::mem::take(&mut self.served);
            self.disks[disk].advance(at, &mut served);
            for end in served.drain(..) {
                self.request_over(disk, end);
            }
            self.served = served;
        }
    }

    fn request_over(&mut self, disk: usize, end: ServedRequest) {
        match RequestOwner::of(end.request.tag) {
            RequestOwner::Read(index) => {
                self.read_part_done(index, end.ok);
            }
            RequestOwner::Store => {
                let DriveRequest { op, bytes, .. } = end.request;
                self.with_store(disk, |store, now, out| store.served(op, bytes, end.ok, now, out));
            }
        }
    }

    /// Lets a store thread act, and carries out its actions.
    pub(crate) fn with_store(&mut self, disk: usize, act: impl FnOnce(&mut StoreThread, Nanos, &mut Actions)) {
        let mut out = Actions::default();
        act(&mut self.stores[disk], self.now, &mut out);
        let number = u16::try_from(disk).expect("few disks");
        for (op, offset, bytes) in out.requests.drain(..) {
            self.submit_to_disk(disk, RequestOwner::Store, op, offset, bytes);
        }
        for message in &out.messages {
            if let StoreMessage::Done(done) = message {
                self.grants[disk] = None;
                self.log.event(self.now, LogKind::Done, done.job.0, done.bytes, || format!("{done:?}"));
            } else {
                self.log.event(self.now, LogKind::Offer, u64::from(number), 0, || format!("{message:?}"));
            }
        }
        self.store_messages.extend(out.messages.drain(..));
        if let Some(at) = out.wake {
            let at = at.max(self.now);
            if self.pokes[disk].is_none_or(|known| at < known) {
                self.pokes[disk] = Some(at);
                self.schedule(at, WorldEvent::StorePoke(number));
            }
        }
        self.control_hears_store(disk, &out);
    }

    /// Gives a disk a request.
    pub(crate) fn submit_to_disk(&mut self, disk: usize, owner: RequestOwner, op: Op, offset: u64, bytes: u64) {
        self.next_request += 1;
        let request = DriveRequest { tag: owner.tag(self.next_request), op, offset, bytes };
        self.disks[disk].submit(request, self.now);
    }

    /// The plane grants something.
    pub(crate) fn granted(&mut self, grant: Grant) {
        self.called = true;
        let disk = usize::from(grant.disk.0);
        self.log.event(self.now, LogKind::Grant, grant.job.0, grant.bytes_max, || format!("{grant:?}"));
        if disk >= self.disks.len() {
            self.laws.broke(Law::QueueBounds, self.now, format!("a grant for no disk: {grant:?}"));
            return;
        }
        if self.grants[disk].is_some() {
            self.laws.broke(Law::QueueBounds, self.now, format!("a second grant is out: {grant:?}"));
            return;
        }
        if self.spins[disk] && self.plane_reads[disk] > 0 {
            let reads = self.plane_reads[disk];
            self.laws.broke(Law::GrantsExclude, self.now, format!("{reads} reads are in flight: {grant:?}"));
        }
        self.grants[disk] = Some(grant);
        self.grants_made[disk] += u64::from(self.stores[disk].waits_with(grant.job));
        let latency = Nanos::from_micros(20 + self.random.below(100));
        self.schedule(self.now.saturating_add(latency), WorldEvent::StoreBegin(grant.disk.0));
    }

    /// The plane wants more memory, or less.
    pub(crate) fn begin_memory_change(&mut self, token: Token, change: MemoryChange) {
        self.called = true;
        self.log.event(self.now, LogKind::Memory, 0, 0, || format!("{change:?}"));
        let mut found = if self.memory_change.is_some() { Err("two changes of memory".to_owned()) } else { Ok(()) };
        if let MemoryChange::GiveBack(chunks) = change {
            found = found.and(self.arena.give_back(chunks).map_err(|e| e.0));
        }
        self.laws.check(Law::OneOwner, self.now, found);
        self.memory_change = Some(change);
        self.schedule(self.now.saturating_add(MEMORY_CHANGE), WorldEvent::MemoryChanged(token));
    }

    fn memory_changed(&mut self, token: Token) {
        if let Some(MemoryChange::BringIn(chunks)) = self.memory_change.take() {
            let found = self.arena.bring_in(chunks).map_err(|e| e.0);
            self.laws.check(Law::OneOwner, self.now, found);
        }
        self.ready.push_back(Completion { token, result: Ok(1), at: self.now });
    }

    /// The plane reports.
    pub(crate) fn reported(&mut self, report: Report) -> Result<(), Report> {
        if self.reports_closed || self.reports.len() >= REPORTS_MAX {
            return Err(report);
        }
        self.called = true;
        self.reports.push_back(report);
        if !self.reports_scheduled {
            self.reports_scheduled = true;
            let latency = Nanos::from_micros(20 + self.random.below(400));
            self.schedule(self.now.saturating_add(latency), WorldEvent::Reports);
        }
        Ok(())
    }
}

/// Owner of a request, folded into its identifier beside a number that makes it unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOwner {
    /// A part of the plane's read in this place.
    Read(u32),
    /// The store thread's.
    Store,
}

/// Bits of an identifier that tell the owner.
const OWNER_BITS: u32 = 24;

impl RequestOwner {
    fn tag(self, number: u64) -> u64 {
        let owner = match self {
            Self::Store => 0,
            Self::Read(index) => u64::from(index) + 1,
        };
        assert!(owner < 1 << OWNER_BITS, "far fewer reads are in flight");
        number << OWNER_BITS | owner
    }

    fn of(tag: u64) -> Self {
        match (tag & ((1 << OWNER_BITS) - 1)).checked_sub(1) {
            None => Self::Store,
            Some(index) => Self::Read(u32::try_from(index).expect("24 bits")),
        }
    }
}
