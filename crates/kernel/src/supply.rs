//! The arena's memory comes and goes on an ordinary thread: bringing it in takes milliseconds per step, which the plane's
//! thread does not have.
//!
//! Promise: memory is taken only where the system has it to give, so that what cannot be had is an error and nobody is
//! killed; one change at a time. Not here: how much there shall be (`dataplane::memory`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dataplane::port::{Chunks, MemoryChange, STEP_CHUNKS, Token};
use rustix::thread::CpuSet;
use units::limits;

use crate::arena::Arena;
use crate::available::available_bytes;
use crate::helpers::{Crew, Helpers};
use crate::plane_channel::PlaneWaker;

/// The thread, and what it knows.
#[derive(Debug)]
pub(crate) struct Supply {
    helpers: Helpers<SupplyJob, SupplyDone>,
    obtainable: Arc<AtomicU32>,
    /// Chunks that have memory.
    present: u32,
    /// A look is out.
    looking: bool,
}

#[derive(Debug, Clone, Copy)]
enum SupplyJob {
    Change(Token, MemoryChange),
    /// To look how many chunks there can be, of which so many are there.
    Look(u32),
}

/// A job that was done.
#[derive(Debug)]
pub(crate) enum SupplyDone {
    /// A change was made, or could not be.
    Changed(Token, MemoryChange, io::Result<()>),
    /// Nothing to tell.
    Looked,
}

impl Supply {
    /// Starts the thread, on `cpus` (None: wherever the caller may run). The first step of `arena` is there.
    ///
    /// # Errors
    /// The kernel's, if no thread or descriptor can be had.
    pub(crate) fn start(arena: &Arc<Arena>, cpus: Option<CpuSet>, waker: PlaneWaker) -> io::Result<Self> {
        let present = arena.chunk_count().min(STEP_CHUNKS);
        let obtainable = Arc::new(AtomicU32::new(obtainable(arena, present)));
        let (memory, known) = (Arc::clone(arena), Arc::clone(&obtainable));
        // A change and a look can be out.
        let crew = Crew { name: "memory", threads: 1, jobs_max: 4, cpus };
        let helpers = Helpers::start(&crew, waker, move |job| match job {
            SupplyJob::Change(token, change) => SupplyDone::Changed(token, change, make(&memory, change)),
            SupplyJob::Look(present) => {
                known.store(self::obtainable(&memory, present), Ordering::Relaxed);
                SupplyDone::Looked
            }
        })?;
        Ok(Self { helpers, obtainable, present, looking: false })
    }

    /// Asks for a change.
    pub(crate) fn change(&self, token: Token, change: MemoryChange) {
        self.helpers.begin(SupplyJob::Change(token, change));
    }

    /// Chunks that there could be, as it was when this was asked last; asked about once a second.
    pub(crate) fn obtainable(&mut self) -> u32 {
        if !std::mem::replace(&mut self.looking, true) {
            self.helpers.begin(SupplyJob::Look(self.present));
        }
        self.obtainable.load(Ordering::Relaxed)
    }

    pub(crate) fn has_done(&self) -> bool {
        self.helpers.has_done()
    }

    /// The next change that was made, or could not be.
    pub(crate) fn next_done(&mut self) -> Option<(Token, MemoryChange, io::Result<()>)> {
        while let Some(done) = self.helpers.next_done() {
            let SupplyDone::Changed(token, change, result) = done else {
                self.looking = false;
                continue;
            };
            match change {
                MemoryChange::BringIn(chunks) if result.is_ok() => self.present += chunks.count,
                MemoryChange::BringIn(_) => {}
                MemoryChange::GiveBack(chunks) => self.present -= chunks.count,
            }
            return Some((token, change, result));
        }
        None
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
