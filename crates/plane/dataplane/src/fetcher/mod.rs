//! The fetcher: the disks with their schedules, the buffers, and the read-ahead of streams.
//!
//! Promise: the bytes reported for a stream ([`ToPacer::Fetched`]) are in the buffers or being read until they are sent or the
//! stream has left; the blocks of a stream with a reservation are read in time. Not here: choice of the next read
//! (`schedule::disk`), admission (`admitter`), sending (`pacer`).

mod ahead_pages;
mod buffer_pool;
mod failing;
mod grants;
mod groups;
mod issue;
mod read_ahead;
mod read_op;
mod reads;
mod reads_in_flight;
mod requests;
mod slower;
mod source;
mod speed;
mod starts;
mod stream_table;

use content::FreshContent;
use schedule::disk::DiskSchedule;
use schedule::profile::DiskProfile;
use units::limits::CACHE_PAGE_BYTES;
use units::{DiskId, Nanos};

use crate::cache::{Cache, PageKey};
use crate::config::PlaneConfig;
use crate::context::{PlaneContext, RequestKind, is_time};
use crate::control::Delivery;
use crate::cursor::{Cursor, SegmentList};
use crate::message::{PlacedStart, ReadRate, SharingGroup, ToAdmitter, ToFetcher, ToPacer};
use crate::port::{Completion, Io};
pub use buffer_pool::BEST_EFFORT_PAGES_SHARE;
use buffer_pool::BufferPool;
use read_ahead::{ReadPlan, ReadsLife};
use reads_in_flight::ReadsInFlight;
use source::Sources;
use stream_table::StreamTable;

/// Reads in flight over all disks. Chosen: a bound.
const READS_MAX: usize = 4096;

/// The fetcher.
#[derive(Debug)]
pub(crate) struct Fetcher {
    sources: Sources,
    buffers: BufferPool,
    streams: StreamTable,
    reads: ReadsInFlight,
    /// Times of the next check for silent disks and of the next check of the disks' speeds.
    silence_at: Nanos,
    speeds_at: Nanos,
}

impl Fetcher {
    pub(crate) fn new(config: &PlaneConfig, disks: Vec<DiskProfile>, chunk_count: u32, now: Nanos) -> Self {
        Self {
            sources: Sources::new(config, disks, now),
            buffers: BufferPool::new(config, chunk_count, config.streams_max + READS_MAX),
            streams: StreamTable::new(config.streams_max),
            reads: ReadsInFlight::new(),
            silence_at: now,
            speeds_at: now,
        }
    }

    /// The buffers: the holder of a page may read it.
    pub(crate) const fn pages(&self) -> &Cache {
        self.buffers.cache()
    }

    /// Number of pages that can be promised to guaranteed streams.
    pub(crate) fn pages_to_promise(&self) -> u64 {
        self.buffers.pages_to_promise()
    }

    /// The schedule of a disk, for the checks of the simulator.
    pub(crate) fn schedule(&self, disk: DiskId) -> &DiskSchedule {
        &self.sources[disk].schedule
    }

    /// True if no read and no write uses the disk.
    pub(crate) fn is_idle(&self, disk: DiskId) -> bool {
        self.sources[disk].is_idle()
    }

    /// Sets the profile of an idle disk, and its round; returns the old profile.
    pub(crate) fn replace_profile(
        &mut self,
        disk: DiskId,
        profile: DiskProfile,
        round: Nanos,
        now: Nanos,
    ) -> DiskProfile {
        self.sources[disk].replace_profile(profile, round, now)
    }

    pub(crate) fn receive<I: Io>(&mut self, message: ToFetcher, context: &mut PlaneContext<I>) {
        match message {
            ToFetcher::Find { delivery } => self.find_group(delivery, context),
            ToFetcher::Begin { slot, content, segments, rate, disk, group, age } => {
                self.buffers.open_files(&content, context);
                self.sources[disk].streams.push(slot);
                let stream = &mut self.streams[slot];
                stream.begin(content, segments, disk);
                let Some(rate) = rate else { return stream.begin_delivery(0, &mut self.buffers) };
                stream.await_start(ReadPlan::new(rate, age), context.now, &mut self.sources);
                match group {
                    Some(group) => self.begin_following(slot, group, context),
                    None => self.wait_for_start(slot, context),
                }
            }
            // The stream may have ended before the admitter's answer arrives.
            ToFetcher::Start { slot, .. } if self.streams[slot].life() != ReadsLife::Waiting => {}
            ToFetcher::Start { slot, start } => {
                self.start(slot, start, context);
                // The block of a session is not in the queue of starts, so no other start depends on it.
                if start.block.is_none() {
                    let disk = self.streams[slot].disk();
                    let conditions = self.sources[disk].start_conditions(context.now);
                    context.tell_admitter(ToAdmitter::Begun { disk, conditions });
                }
            }
            ToFetcher::Promote { slot, rate, start, age } => self.promote(slot, rate, start, age, context),
            ToFetcher::ReadAlone { slot, period, start } => self.read_alone(slot, period, start, context),
            ToFetcher::EndBurst { slot } => {
                self.streams[slot].end_burst(&self.sources, &mut self.buffers, context);
            }
            ToFetcher::Demote { slot, at } => self.demote(slot, at, context),
            ToFetcher::CarryHeadroom { disk, headroom } => self.sources[disk].schedule.set_carry_headroom(headroom),
            ToFetcher::BeShare { disk, share } => self.sources[disk].schedule.set_be_share(share),
            ToFetcher::Shed { disk } => self.shed(disk, context),
            ToFetcher::Sent { slot, cursor } => {
                self.streams[slot].send_to(cursor, &mut self.buffers);
                self.read_on(slot, context);
            }
            ToFetcher::SentNothing { slot } => self.read_on(slot, context),
            ToFetcher::Paced { slot, pace } => self.streams[slot].set_pace(pace),
            ToFetcher::Running { slot } => self.streams.promise_next(slot, &mut self.sources),
            ToFetcher::Want { slot, pages_short } => {
                let has_pages =
                    self.streams[slot].want_next(pages_short, (&mut self.sources, &mut self.buffers), context);
                context.tell_pacer(ToPacer::Continue { slot, has_pages });
            }
            ToFetcher::Park { slot } => {
                self.streams[slot].keep_until(0, &mut self.buffers, context);
                self.streams[slot].ask_nothing(&mut self.sources);
            }
            ToFetcher::ReserveAgain { slot } => {
                let conditions = self.streams[slot].start_conditions(&self.sources, context);
                context.tell_admitter(ToAdmitter::AsksBack { slot, conditions });
            }
            ToFetcher::Ending { slot } => {
                self.leave_group(slot, context);
                self.streams[slot].end();
            }
            ToFetcher::Leave { slot, may_hold } => self.leave(slot, may_hold, context),
        }
    }

    /// Puts a content that was just stored into the buffers, as far as there is room.
    pub(crate) fn keep<I: Io>(&mut self, stored: &FreshContent, context: &mut PlaneContext<I>) {
        self.buffers.keep(stored, self.sources[stored.disk].spins(), context);
    }

    /// Prefetches the state of a stream for which a message will soon be received.
    pub(crate) fn expect_message<I: Io>(&self, slot: u32, context: &PlaneContext<I>) {
        context.io.prefetch(&self.streams[slot]);
    }

    pub(crate) fn complete<I: Io>(&mut self, work: RequestKind, completion: Completion, context: &mut PlaneContext<I>) {
        match work {
            RequestKind::Read { op } => self.read_done(op, completion, context),
            RequestKind::Verify { op } => self.verified(op, completion, context),
            RequestKind::Memory => self.buffers.memory_changed(completion),
            RequestKind::Send { .. } => unreachable!("sends are the pacer's"),
        }
    }

    /// Work at the beginning of each turn of the plane, before the disks get requests.
    pub(crate) fn begin_turn<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        self.watch_silence(context);
        self.begin_rounds(context);
    }

    pub(crate) fn set_clock(&mut self, now: Nanos) {
        self.buffers.set_clock(now);
    }

    pub(crate) fn next_wakeup(&self, now: Nanos) -> Option<Nanos> {
        let answering = self.sources.iter().filter(|source| !source.health.is_hung());
        let sources = answering.filter_map(|source| source.schedule.next_wakeup(now));
        sources.chain(self.buffers.next_wakeup()).min()
    }

    /// Obtains memory for the promised pages and the share of best effort before they are used, or gives memory back.
    pub(crate) fn change_memory<I: Io>(&mut self, promised: u64, context: &mut PlaneContext<I>) {
        self.buffers.change_memory(promised, context);
    }

    /// Publishes figures and checks the disks; called once a second.
    pub(crate) fn measure<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        self.buffers.set_obtainable(context.io.chunks_obtainable());
        context.gauges.plane.pages_used.set(u64::from(self.buffers.cache().used()));
        for disk in self.sources.ids() {
            self.sources[disk].publish(&context.gauges);
            self.watch(disk, context);
        }
    }

    /// Removes an ended stream from its group, the buffers and its disks' schedules.
    fn leave<I: Io>(&mut self, slot: u32, may_hold: bool, context: &mut PlaneContext<I>) {
        if self.streams[slot].life() != ReadsLife::Ending {
            self.leave_group(slot, context);
        }
        self.streams[slot].keep_until(0, &mut self.buffers, context);
        self.streams[slot].leave_starting(&mut self.sources);
        self.streams[slot].ask_nothing(&mut self.sources);
        let stream = &mut self.streams[slot];
        self.sources[stream.disk()].streams.retain(|&other| other != slot);
        self.buffers.close_files(stream.content(), context);
        if stream.is_best_effort() {
            self.buffers.end_delivery();
        }
        stream.leave();
        context.tell_admitter(ToAdmitter::Left { slot, may_hold });
    }
}
