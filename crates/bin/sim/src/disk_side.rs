//! A disk and its store thread: the requests of both users of the disk, and the grant that is out.
//!
//! Promise: reads beyond the depth of the disk, a second grant, and a grant beside reads of a disk with one head break a law. Not here:
//! time and errors of the drive (`disk`), the work of the store thread (`store_thread`), whether that waits too long (`audit`).

use std::ops::Range;

use dataplane::port::ReadRequest;
use storage::grant::{Grant, StoreMessage};
use units::{DiskId, Nanos};

use crate::audit::DiskAudit;
use crate::bounds::PlaneBounds;
use crate::course::Course;
use crate::disk::{DiskFaults, ServedRequest, SimDisk, Spent};
use crate::drive::{Drive, DriveRequest, Op};
use crate::events::WorldEvent;
use crate::laws::Law;
use crate::log::LogKind;
use crate::store_thread::{Actions, StoreThread};

/// A disk with its store thread.
#[derive(Debug)]
pub(crate) struct DiskSide {
    number: usize,
    drive: SimDisk,
    store: StoreThread,
    pub(crate) audit: DiskAudit,
    next_request: u64,
    /// Reads of the plane in flight, and how many may be.
    reads: usize,
    depth: usize,
    /// Grants and reads exclude each other only where there is one head.
    spins: bool,
    grant: Option<Grant>,
    /// When the store thread looks at its writers next.
    poke: Option<Nanos>,
}

/// A request of a disk that is over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DiskEnd {
    /// A part of the plane's read in this place.
    Read { place: u32, ok: bool },
    /// A request of the store thread.
    Store { op: Op, bytes: u64, ok: bool },
}

impl DiskSide {
    pub(crate) fn new(number: usize, drive: Drive, depth: usize, bounds: PlaneBounds) -> Self {
        let (id, spins) = (DiskId(u16::try_from(number).expect("few disks")), drive.parameters().rotational);
        Self {
            number,
            store: StoreThread::new(id, drive.parameters().size),
            drive: SimDisk::new(drive),
            audit: DiskAudit::new(number, bounds),
            next_request: 0,
            reads: 0,
            depth,
            spins,
            grant: None,
            poke: None,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.store.capacity()
    }

    /// A tenth of its bytes.
    pub(crate) fn tenth(&self, nth: u64) -> Range<u64> {
        let bytes = self.capacity() / 10;
        nth * bytes..(nth + 1) * bytes
    }

    pub(crate) fn set_faults(&mut self, faults: DiskFaults, now: Nanos) {
        self.drive.set_faults(faults, now);
    }

    /// True if a read of these parts brings other bytes.
    pub(crate) fn lies(&self, parts: &[(u64, u64)]) -> bool {
        self.drive.lies(parts)
    }

    /// Begins the plane's read in this place.
    pub(crate) fn begin_read(&mut self, place: u32, parts: &[(u64, u64)], request: &ReadRequest, course: &mut Course) {
        self.reads += 1;
        let (reads, disk) = (self.reads, self.number);
        if reads > self.depth {
            course.broke(Law::QueueBounds, format!("{reads} reads in flight on disk {disk}, {} allowed", self.depth));
        }
        if self.spins && self.grant.is_some() {
            course.broke(Law::GrantsExclude, format!("a grant is out on disk {disk}: {request:?}"));
        }
        for (position, bytes) in parts {
            self.submit(RequestOwner::Read(place), Op::Read, *position, *bytes, course.now());
        }
    }

    pub(crate) fn end_read(&mut self) {
        self.reads -= 1;
    }

    fn submit(&mut self, owner: RequestOwner, op: Op, offset: u64, bytes: u64, now: Nanos) {
        self.next_request += 1;
        self.drive.submit(DriveRequest { tag: owner.tag(self.next_request), op, offset, bytes }, now);
    }

    /// Time of the next completion, or of the next call that the drive needs.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.drive.next_event()
    }

    /// The requests that are over by `at`.
    pub(crate) fn serve(&mut self, at: Nanos) -> Vec<DiskEnd> {
        let mut served = Vec::new();
        if self.next_event().is_some_and(|due| due <= at) {
            self.drive.advance(at, &mut served);
        }
        let end = |ServedRequest { request, ok }| match RequestOwner::of(request.tag) {
            RequestOwner::Read(place) => DiskEnd::Read { place, ok },
            RequestOwner::Store => DiskEnd::Store { op: request.op, bytes: request.bytes, ok },
        };
        served.into_iter().map(end).collect()
    }

    /// The plane grants something.
    pub(crate) fn grant(&mut self, grant: Grant, course: &mut Course) {
        if self.grant.is_some() {
            return course.broke(Law::QueueBounds, format!("a second grant is out: {grant:?}"));
        }
        if self.spins && self.reads > 0 {
            course.broke(Law::GrantsExclude, format!("{} reads are in flight: {grant:?}", self.reads));
        }
        self.grant = Some(grant);
        if self.store.waits_with(grant.job) {
            self.audit.granted();
        }
        let latency = Nanos::from_micros(20 + course.random().below(100));
        course.schedule_in(latency, WorldEvent::StoreBegin(self.number));
    }

    /// The grant that its store thread begins with.
    pub(crate) fn begun_grant(&self) -> Grant {
        self.grant.expect("begun on a grant")
    }

    /// Its store thread looks at its writers now.
    pub(crate) fn poked(&mut self, now: Nanos) {
        self.poke = self.poke.filter(|at| *at > now);
    }

    /// Lets its store thread act, and submits its requests. Returns the actions that concern others.
    pub(crate) fn with_store<T>(
        &mut self,
        act: impl FnOnce(&mut StoreThread, Nanos, &mut Actions) -> T,
        course: &mut Course,
    ) -> (T, Actions) {
        let mut out = Actions::default();
        let result = act(&mut self.store, course.now(), &mut out);
        for (op, offset, bytes) in out.requests.drain(..) {
            self.submit(RequestOwner::Store, op, offset, bytes, course.now());
        }
        for message in &out.messages {
            if let StoreMessage::Done(done) = message {
                self.grant = None;
                course.log(LogKind::Done, done.job.0, done.bytes, || format!("{done:?}"));
            } else {
                course.log(LogKind::Offer, self.number as u64, 0, || format!("{message:?}"));
            }
        }
        if let Some(at) = out.wake.map(|at| at.max(course.now()))
            && self.poke.is_none_or(|known| at < known)
        {
            self.poke = Some(at);
            course.schedule(at, WorldEvent::StorePoke(self.number));
        }
        (result, out)
    }

    /// A disk with a read of one of its contents out (`is_read`) is not idle, though that read goes through the page cache: the world
    /// cannot know whether the kernel asks the disk for it, and the work that waits behind it (a commit waits for all reads) is
    /// not eligible.
    pub(crate) fn is_idle_with_work(&self, is_read: bool) -> bool {
        self.drive.in_flight() == 0 && self.grant.is_none() && self.store.has_work() && !is_read
    }

    /// Looks at the work of the last `period`; `excused`: a fault of the disk excuses it.
    pub(crate) fn audit(&mut self, period: Nanos, excused: bool, course: &mut Course) {
        let promised = self.drive.spent(course.now()).reading.saturating_add(self.store.recording_time());
        self.audit.note_promised(promised, period);
        self.audit.judge(&mut self.store, period, excused, course);
    }

    /// Its time until `now`, by use.
    pub(crate) fn spent(&mut self, now: Nanos) -> Spent {
        self.drive.spent(now)
    }
}

/// Owner of a request, folded into its identifier beside a number that makes it unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestOwner {
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
