//! The fetcher: the disks with their schedules, the buffers, and the read-ahead of streams.
//!
//! Promise: the bytes reported for a stream ([`ToPacer::Fetched`]) are in the buffers or being read until they were
//! sent or the stream has left; a stream with a reservation is read for in time. Not here: choice of the next read
//! (`schedule::disk`), admission (`admitter`), sending (`pacer`).

mod best_effort;
mod failing;
mod grants;
mod reads;
mod requests;
mod sharing;
mod slower;
mod starts;

use std::sync::Arc;

use content::{Content, FreshContent, Segment};
use schedule::admission::window_bytes;
use schedule::cycle::Grid;
use schedule::disk::health::Health;
use schedule::disk::{DiskSchedule, DiskSettings};
use schedule::pace::Pace;
use schedule::profile::DiskProfile;
use units::limits::CACHE_PAGE_BYTES;
use units::{DiskId, Nanos};

use crate::cache::{CHUNK_PAGES, Cache, PageKey};
use crate::config::PlaneConfig;
use crate::context::{PlaneContext, RequestKind, is_time, ppm};
use crate::control::Delivery;
use crate::cursor::{Cursor, SegmentList};
use crate::files::FileTable;
use crate::gauges::Gauges;
use crate::memory::ArenaMemory;
use crate::message::{BlockTimes, PlacedStart, ReadRate, SharingGroup, ToAdmitter, ToFetcher, ToPacer};
use crate::port::{Completion, Io};
use best_effort::AheadPages;
use reads::ReadOp;
use slower::Speed;

/// Reads in flight over all disks. Chosen: a bound.
const READS_MAX: usize = 4096;
/// Share of the buffers that best-effort deliveries may use: one in so many. Chosen.
pub const BEST_EFFORT_PAGES_SHARE: u32 = 8;

/// The fetcher.
#[derive(Debug)]
pub(crate) struct Fetcher {
    disks: Vec<FetchDisk>,
    cache: Cache,
    memory: ArenaMemory,
    files: FileTable,
    streams: Vec<StreamReads>,
    reads: Vec<Option<ReadOp>>,
    reads_free: Vec<u32>,
    /// Best-effort deliveries, and the pages they hold.
    best_effort: (u32, u32),
    /// When the disks' silence is looked at next, and their speed.
    silence_at: Nanos,
    speeds_at: Nanos,
}

/// One disk.
#[derive(Debug)]
struct FetchDisk {
    schedule: DiskSchedule,
    rounds: Grid,
    /// The round of the blocks requested last.
    round: u64,
    spins: bool,
    /// Slots of the streams that read from it.
    streams: Vec<u32>,
    /// Slots of the streams that wait for their first bytes.
    starting: Vec<u32>,
    /// Reads that failed on another disk and are to be made from this one's copy.
    retries: Vec<u32>,
    last_completion: Nanos,
    health: Health,
    /// The level of slowdown reported last.
    speed: Speed,
    /// Streams that ended because of it and are not reported yet.
    shed: u64,
}

/// How far a stream's reads are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReadsLife {
    /// The slot is free.
    #[default]
    Free,
    /// It waits for its start.
    Waiting,
    /// Its first bytes are being read.
    Starting,
    /// Its bytes are sent as they are read.
    Running,
    /// It ends.
    Ending,
}

/// The regular reads of a guaranteed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReadPlan {
    rate: ReadRate,
    /// First round of its regular reads.
    first_round: u64,
    /// Its next read; `u64::MAX` of one that shares another's.
    next_round: u64,
    /// Rounds between the last read and the next.
    gap: u64,
    /// How many reservations were made before its own: greater is younger.
    age: u64,
    /// Its times, if it is read in one block.
    block: Option<BlockTimes>,
}

impl ReadPlan {
    /// The plan of a stream that has no place in a time table yet.
    const fn new(rate: ReadRate, age: u64) -> Self {
        Self { rate, first_round: 0, next_round: 0, gap: 0, age, block: None }
    }
}

/// The reads of one stream. Thousands of these lie in no cache: the fields that each send's end looks at come first, in two
/// lines of it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct StreamReads {
    /// How far it was sent.
    send: Cursor,
    /// Up to here in its payload no page is to be given back: it is the end of the one that is being sent. A tick's bytes seldom
    /// leave their page, and a stream's segments lie in no cache.
    page_end: u64,
    fetch: Cursor,
    /// Read ahead up to this much payload.
    target: u64,
    /// Payload in all; up to the first page that could not be read, if there is one.
    payload: u64,
    /// It need not look for more to read while it is this far ahead.
    ahead: u64,
    /// The first byte of the range it reads, if it is one.
    range_start: u64,
    /// How far it was behind its leader's sends when it began to share.
    behind_bytes: u64,
    /// The leader of its group: a stream of the same content, which reads for it.
    leader: Option<u32>,
    /// The disk that lists it and sets the rounds of its reads: one of its content's disks.
    disk: DiskId,
    life: ReadsLife,
    /// There is a page that could not be read.
    is_cut: bool,
    /// `None`: best effort.
    plan: Option<ReadPlan>,
    pace: Option<Pace>,
    /// The pages behind `fetch` that it holds: those of other disks, read before their turn.
    ahead_pages: AheadPages,
    content: Option<Arc<Content>>,
    segments: Option<Arc<[Segment]>>,
    started: Nanos,
    /// How often this slot was used.
    generation: u32,
}

impl StreamReads {
    fn content(&self) -> &Arc<Content> {
        self.content.as_ref().expect("a slot in use has its content")
    }

    fn segment_list(&self) -> SegmentList<'_> {
        let segments = self.segments.as_deref().expect("a slot in use has its segments");
        SegmentList { version: self.content().version, segments }
    }

    /// True while it reads or may do so.
    const fn is_active(&self) -> bool {
        matches!(self.life, ReadsLife::Starting | ReadsLife::Running)
    }

    /// True while its disk has a request for bytes of its read-ahead.
    const fn reads(&self) -> bool {
        self.is_active() && self.fetch.payload < self.target
    }

    /// Whether it holds pages that it was not sent yet.
    const fn holds_pages(&self) -> bool {
        self.fetch.payload > self.send.payload || !self.ahead_pages.is_empty()
    }

    /// When its next byte to be read is promised.
    fn due(&self, now: Nanos) -> Nanos {
        if let Some(block) = self.plan.and_then(|plan| plan.block) {
            return block.read_by;
        }
        self.pace.map_or(now, |pace| pace.promised_at(self.fetch.payload + 1))
    }

    /// True if it is read in one block.
    fn is_whole(&self) -> bool {
        self.plan.is_some_and(|plan| plan.rate.whole)
    }

    /// Where in its payload a page begins, if it holds that.
    fn holds_at(&self, page: PageKey) -> Option<u64> {
        self.content.as_ref().filter(|content| content.version == page.version)?;
        let mut cursor = self.send;
        while cursor.payload < self.fetch.payload {
            let (key, _, left) = cursor.next_content(self.segment_list())?;
            if key == page {
                return Some(cursor.payload);
            }
            cursor.pass(left);
        }
        let payload = (page.index * CACHE_PAGE_BYTES).checked_sub(self.range_start)?;
        let end = self.fetch.payload + best_effort::AHEAD_BYTES_MAX;
        ((self.fetch.payload..end).contains(&payload) && self.ahead_pages.has(page.index)).then_some(payload)
    }
}

impl Fetcher {
    pub(crate) fn new(config: &PlaneConfig, disks: Vec<DiskProfile>, chunk_count: u32, now: Nanos) -> Self {
        let mut cache = Cache::new(chunk_count);
        let memory = ArenaMemory::new(chunk_count, config.memory_lull, &mut cache);
        Self {
            disks: disks.into_iter().map(|profile| FetchDisk::new(config, profile, now)).collect(),
            cache,
            memory,
            files: FileTable::new(config.streams_max + READS_MAX),
            streams: (0..config.streams_max).map(|_| StreamReads::default()).collect(),
            reads: vec![None; READS_MAX],
            reads_free: (0..READS_MAX).rev().map(|op| u32::try_from(op).expect("few")).collect(),
            best_effort: (0, 0),
            silence_at: now,
            speeds_at: now,
        }
    }

    /// The buffers. The holder of a page may look at it.
    pub(crate) const fn pages(&self) -> &Cache {
        &self.cache
    }

    /// Pages that can be promised to guaranteed streams.
    pub(crate) fn pages_to_promise(&self) -> u64 {
        u64::from(self.cache.obtainable() * CHUNK_PAGES - self.best_effort_pages_max())
    }

    /// The schedule of a disk, for checkers.
    pub(crate) fn schedule(&self, disk: DiskId) -> &DiskSchedule {
        &self.disk(disk).schedule
    }

    /// True if nothing reads or writes a disk.
    pub(crate) fn is_idle(&self, disk: DiskId) -> bool {
        let disk = self.disk(disk);
        let lists = [&disk.streams, &disk.starting, &disk.retries];
        lists.iter().all(|list| list.is_empty()) && disk.schedule.is_idle()
    }

    /// Gives an idle disk another profile and its round; gives the old one.
    pub(crate) fn replace_profile(
        &mut self,
        disk: DiskId,
        profile: DiskProfile,
        round: Nanos,
        now: Nanos,
    ) -> DiskProfile {
        let disk = self.disk_mut(disk);
        disk.rounds = disk.rounds.with_period(round);
        (disk.round, disk.spins) = (disk.rounds.index_at(now), profile.rotational);
        disk.schedule.replace_profile(profile, disk.rounds)
    }

    pub(crate) fn receive<I: Io>(&mut self, message: ToFetcher, context: &mut PlaneContext<I>) {
        match message {
            ToFetcher::Find { delivery } => self.find_group(delivery, context),
            ToFetcher::Begin { slot, content, segments, rate, disk, group, age } => {
                let plan = rate.map(|rate| ReadPlan::new(rate, age));
                self.begin(slot, content, segments, disk, context);
                self.streams[slot as usize].plan = plan;
                match (plan, group) {
                    (None, _) => self.begin_best_effort(slot),
                    (Some(_), Some(group)) => self.begin_following(slot, group, context),
                    (Some(_), None) => self.wait_for_start(slot, context),
                }
            }
            // A stream may have ended before the answer for it comes.
            ToFetcher::Weigh { slot } => {
                if self.streams[slot as usize].life == ReadsLife::Waiting {
                    context.tell_admitter(ToAdmitter::Weighed {
                        slot,
                        conditions: self.start_conditions(slot, context.now),
                    });
                }
            }
            ToFetcher::Start { slot, start } => {
                if self.streams[slot as usize].life == ReadsLife::Waiting {
                    self.start(slot, start, context);
                }
            }
            ToFetcher::Promote { slot, rate, start, age } => self.promote(slot, rate, start, age, context),
            ToFetcher::ReadAlone { slot, period, start } => self.read_alone(slot, period, start, context),
            ToFetcher::Demote { slot, at } => self.demote(slot, at, context),
            ToFetcher::CarryHeadroom { disk, headroom } => self.disk_mut(disk).schedule.set_carry_headroom(headroom),
            ToFetcher::BeShare { disk, share } => self.disk_mut(disk).schedule.set_be_share(share),
            ToFetcher::Shed { disk } => self.shed(disk, context),
            ToFetcher::Sent { slot, cursor } => {
                self.sent(slot, cursor);
                self.read_on(slot, context);
            }
            ToFetcher::SentNothing { slot } => self.read_on(slot, context),
            ToFetcher::Paced { slot, pace } => self.streams[slot as usize].pace = Some(pace),
            ToFetcher::Running { slot } => self.promise_next(slot),
            ToFetcher::Want { slot, pages_short } => {
                let has_pages = self.want_best_effort(slot, pages_short, context);
                context.tell_pacer(ToPacer::GoOn { slot, has_pages });
            }
            ToFetcher::Park { slot } => {
                self.keep_until(slot, 0, context);
                self.ask_nothing(slot);
            }
            ToFetcher::ReserveAgain { slot } => self.ask_back(slot, context),
            ToFetcher::Ending { slot } => {
                self.leave_group(slot, context);
                self.streams[slot as usize].life = ReadsLife::Ending;
            }
            ToFetcher::Leave { slot, may_hold } => self.leave(slot, may_hold, context),
        }
    }

    /// Takes the content just stored into the buffers, page by page, until there is no room.
    pub(crate) fn keep<I: Io>(&mut self, stored: &FreshContent, context: &mut PlaneContext<I>) {
        let page_bytes = usize::try_from(CACHE_PAGE_BYTES).expect("a page is small");
        let spins = self.disk(stored.disk).spins;
        for (index, bytes) in (0..).zip(stored.bytes.chunks(page_bytes)) {
            let key = PageKey { version: stored.version, index };
            if self.cache.find(key).is_some() {
                continue;
            }
            let Some(page) = self.cache.allocate(key, 1, 1) else { return };
            let is_filled = context.io.fill_page(Cache::span(page), bytes);
            if is_filled && spins {
                self.cache.keep(page);
            }
            self.cache.release(page);
            if is_filled {
                self.cache.read_done(page, u32::try_from(bytes.len()).expect("a page is small"));
            } else {
                self.cache.read_failed(page);
            }
        }
    }

    /// A message about a stream is soon received.
    pub(crate) fn expect_message<I: Io>(&self, slot: u32, context: &PlaneContext<I>) {
        context.io.prefetch(&self.streams[slot as usize]);
    }

    pub(crate) fn complete<I: Io>(&mut self, work: RequestKind, completion: Completion, context: &mut PlaneContext<I>) {
        match work {
            RequestKind::Read { op } => self.read_done(op, completion, context),
            RequestKind::Verify { op } => self.verified(op, completion, context),
            RequestKind::Memory => self.memory.changed(&mut self.cache, completion.result.is_ok(), completion.at),
            RequestKind::Send { .. } => unreachable!("sends are the pacer's"),
        }
    }

    /// Each turn, before the disks are asked.
    pub(crate) fn begin_turn<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        self.watch_silence(context);
        self.begin_rounds(context);
    }

    pub(crate) fn set_clock(&mut self, now: Nanos) {
        self.cache.set_clock(now);
    }

    pub(crate) fn next_wakeup(&self, now: Nanos) -> Option<Nanos> {
        let answering = self.disks.iter().filter(|disk| !disk.health.is_hung());
        let disks = answering.filter_map(|disk| disk.schedule.next_wakeup(now));
        disks.chain(self.memory.next_wakeup()).min()
    }

    /// Brings in memory for the promised pages and for the share of best effort before they are used, or gives some
    /// back.
    pub(crate) fn change_memory<I: Io>(&mut self, promised: u64, context: &mut PlaneContext<I>) {
        let in_use = u64::from(self.best_effort.0) * u64::from(CHUNK_PAGES);
        let best_effort = u64::from(self.best_effort_pages_max()).min(in_use);
        // Viewers of the same contents use little of the memory promised to each. If all of that were brought in, a
        // crowd would wait seconds for gigabytes that it never uses.
        let wanted = promised.min(2 * u64::from(self.cache.used())) + best_effort;
        if let Some(change) = self.memory.next_change(&mut self.cache, wanted, context.now) {
            context.io.change_memory(RequestKind::Memory.token(), change);
        }
    }

    /// Once a second: publishes figures, and looks at the disks.
    pub(crate) fn measure<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        self.cache.set_obtainable(context.io.chunks_obtainable());
        context.gauges.plane.pages_used.set(u64::from(self.cache.used()));
        for index in 0..self.disks.len() {
            self.disks[index].publish(&context.gauges, index);
            self.watch(index, context);
        }
    }

    fn begin<I: Io>(
        &mut self,
        slot: u32,
        content: Arc<Content>,
        segments: Arc<[Segment]>,
        disk: DiskId,
        context: &mut PlaneContext<I>,
    ) {
        self.open_files(&content, context);
        let segment_list = SegmentList { version: content.version, segments: &segments };
        let (payload, range_start) = (segment_list.payload(), segment_list.range().map_or(0, |range| range.start));
        let stream = &mut self.streams[slot as usize];
        assert_eq!(stream.life, ReadsLife::Free, "a slot is used by one stream at a time");
        let (life, generation) = (ReadsLife::Waiting, stream.generation);
        let (content, segments) = (Some(content), Some(segments));
        let begun = StreamReads {
            life,
            generation,
            content,
            segments,
            disk,
            payload,
            range_start,
            started: context.now,
            ..StreamReads::default()
        };
        *stream = begun;
        self.disk_mut(disk).streams.push(slot);
    }

    /// Takes an ended stream out of everything.
    fn leave<I: Io>(&mut self, slot: u32, may_hold: bool, context: &mut PlaneContext<I>) {
        if self.streams[slot as usize].life != ReadsLife::Ending {
            self.leave_group(slot, context);
        }
        self.keep_until(slot, 0, context);
        self.leave_starting(slot);
        self.ask_nothing(slot);
        let disk = self.streams[slot as usize].disk;
        self.disk_mut(disk).streams.retain(|&other| other != slot);
        self.close_files(slot, context);
        let stream = &mut self.streams[slot as usize];
        self.best_effort.0 -= u32::from(stream.plan.is_none());
        *stream = StreamReads { generation: stream.generation.wrapping_add(1), ..StreamReads::default() };
        context.tell_admitter(ToAdmitter::Left { slot, may_hold });
    }

    fn leave_starting(&mut self, slot: u32) {
        let disk = self.streams[slot as usize].disk;
        self.disk_mut(disk).starting.retain(|&other| other != slot);
    }

    /// How much a client was sent: the pages before it are given back.
    fn sent(&mut self, slot: u32, cursor: Cursor) {
        let mut at = std::mem::replace(&mut self.streams[slot as usize].send, cursor);
        while cursor.payload >= self.streams[slot as usize].page_end {
            let stream = &mut self.streams[slot as usize];
            let Some((key, _, left)) = at.next_content(stream.segment_list()) else { return };
            stream.page_end = at.payload + left;
            if cursor.payload >= stream.page_end {
                at.pass(left);
                self.give_back(slot, key);
            }
        }
    }

    /// Pages that best-effort deliveries may hold in all.
    fn best_effort_pages_max(&self) -> u32 {
        self.cache.obtainable() * CHUNK_PAGES / BEST_EFFORT_PAGES_SHARE
    }

    fn count_best_effort(&mut self, slot: u32, change: i32) {
        if self.streams[slot as usize].plan.is_none() {
            let pages = &mut self.best_effort.1;
            *pages = pages.checked_add_signed(change).expect("as many as were counted");
        }
    }

    /// Bytes a stream may hold.
    fn window(&self, slot: u32) -> u64 {
        let stream = &self.streams[slot as usize];
        let disk = self.disk(stream.disk);
        match stream.plan {
            None => 0,
            Some(ReadPlan { rate: ReadRate { whole: true, .. }, .. }) => stream.payload,
            Some(ReadPlan { rate, .. }) => {
                let burst_bytes = if disk.spins { rate.burst_bytes } else { 0 };
                window_bytes(rate.rate, disk.rounds.period(), rate.period) + burst_bytes
            }
        }
    }

    fn disk(&self, disk: DiskId) -> &FetchDisk {
        &self.disks[usize::from(disk.0)]
    }

    fn disk_mut(&mut self, disk: DiskId) -> &mut FetchDisk {
        &mut self.disks[usize::from(disk.0)]
    }
}

impl FetchDisk {
    fn new(config: &PlaneConfig, profile: DiskProfile, now: Nanos) -> Self {
        let spins = profile.rotational;
        let rounds = Grid::new(now, config.round_of(&profile));
        let settings = DiskSettings { rounds, be_share: config.be_share };
        Self {
            schedule: DiskSchedule::new(settings, profile, now),
            rounds,
            round: 0,
            spins,
            streams: Vec::with_capacity(config.streams_max),
            starting: Vec::with_capacity(config.streams_max),
            retries: Vec::with_capacity(READS_MAX),
            last_completion: now,
            health: Health::default(),
            speed: Speed::default(),
            shed: 0,
        }
    }

    fn publish(&self, gauges: &Gauges, index: usize) {
        let gauges = &gauges.disks[index];
        let stats = *self.schedule.stats();
        gauges.phase_nanos.iter().zip(stats.phase_nanos).for_each(|(gauge, nanos)| gauge.set(nanos));
        gauges.rt_bytes.set(stats.rt_bytes);
        gauges.be_bytes.set(stats.be_bytes);
        gauges.commits.set(stats.commits);
        let (rt, be) = self.schedule.queued();
        gauges.rt_queued.set(rt as u64);
        gauges.be_queued.set(be as u64);
        gauges.streams.set(self.streams.len() as u64);
    }
}
