//! The arena's memory comes and goes on an ordinary thread: bringing it in takes milliseconds per step, which the plane's
//! thread does not have.
//!
//! Promise: memory is taken only where the system has it to give, so that a lack of memory is an error and kills no
//! process; one change at a time. Not here: the size that the arena shall have (`dataplane::memory`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use channel::PlaneWaker;
use dataplane::port::{Chunks, MemoryChange, STEP_CHUNKS, Token};
use rustix::thread::CpuSet;
use units::limits;

use crate::arena::Arena;
use crate::available_memory::available_bytes;
use crate::helpers::{HelperSetup, HelperWork, Helpers};

/// Time between two checks of the memory that could be had.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// The thread, and its latest count of the chunks that could be had.
#[derive(Debug)]
pub(crate) struct ArenaGrower {
    helpers: Helpers<SupplyJob, SupplyDone>,
    obtainable: Arc<AtomicU32>,
}

type SupplyJob = (Token, MemoryChange);
/// The requested change, and its result.
type SupplyDone = (Token, MemoryChange, io::Result<()>);

impl ArenaGrower {
    /// Starts the thread, on `cpus` (None: wherever the caller may run). The first step of `arena` is there.
    ///
    /// # Errors
    /// The kernel's, if no thread or descriptor can be had.
    pub(crate) fn start(arena: &Arc<Arena>, cpus: Option<CpuSet>, waker: PlaneWaker) -> io::Result<Self> {
        let present = arena.chunk_count().min(STEP_CHUNKS);
        let obtainable = Arc::new(AtomicU32::new(obtainable(arena, present)));
        let check_at = Instant::now() + CHECK_PERIOD;
        let supplier = ArenaWorker { arena: Arc::clone(arena), present, obtainable: Arc::clone(&obtainable), check_at };
        let setup = HelperSetup { name: "memory", threads: 1, jobs_max: 1, cpus };
        Ok(Self { helpers: Helpers::start(&setup, waker, supplier)?, obtainable })
    }

    /// Requests a change. None may be under way.
    pub(crate) fn change(&self, token: Token, change: MemoryChange) {
        self.helpers.begin((token, change));
    }

    /// Number of chunks that could have memory, at most a second old.
    pub(crate) fn obtainable(&self) -> u32 {
        self.obtainable.load(Ordering::Relaxed)
    }

    pub(crate) fn has_done(&self) -> bool {
        self.helpers.has_done()
    }

    /// Returns the change that was made or failed.
    pub(crate) fn next_done(&self) -> Option<SupplyDone> {
        self.helpers.next_done()
    }
}

#[derive(Debug, Clone)]
struct ArenaWorker {
    arena: Arc<Arena>,
    /// Chunks that have memory.
    present: u32,
    obtainable: Arc<AtomicU32>,
    check_at: Instant,
}

impl HelperWork<SupplyJob, SupplyDone> for ArenaWorker {
    fn work(&mut self, (token, change): SupplyJob) -> SupplyDone {
        let made = make(&self.arena, change);
        match change {
            MemoryChange::BringIn(chunks) if made.is_ok() => self.present += chunks.count,
            MemoryChange::BringIn(_) => {}
            MemoryChange::GiveBack(chunks) => self.present -= chunks.count,
        }
        (token, change, made)
    }

    fn look_around(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.check_at <= now {
            self.check_at = now + CHECK_PERIOD;
            self.obtainable.store(obtainable(&self.arena, self.present), Ordering::Relaxed);
        }
        Some(self.check_at - now)
    }
}

fn obtainable(arena: &Arena, present: u32) -> u32 {
    let more = u32::try_from(available_bytes() / limits::CHUNK_BYTES).unwrap_or(u32::MAX);
    present.saturating_add(more).min(arena.chunk_count())
}

fn make(arena: &Arena, change: MemoryChange) -> io::Result<()> {
    match change {
        MemoryChange::BringIn(chunks) if available_bytes() < bytes(chunks) => {
            Err(io::Error::from_raw_os_error(libc::ENOMEM))
        }
        MemoryChange::BringIn(chunks) => arena.bring_in(chunks),
        MemoryChange::GiveBack(chunks) => arena.give_back(chunks),
    }
}

fn bytes(chunks: Chunks) -> u64 {
    u64::from(chunks.count) * limits::CHUNK_BYTES
}
