//! The data plane's way out on Linux: [`dataplane::port::Io`] over an engine, the arena and helper threads.
//!
//! Promise: nothing is allocated after [`KernelIo::new`], and only [`Io::wait`] waits: helper threads do all work that
//! could wait (reads that the engine does not make, changes of memory, looks at files). Not here: the way of requests
//! to the kernel (`engine`), the thread and its priority (`thread`).

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use channel::PlaneLink;
use content::layout::FileAccess;
use content::{Content, LITERAL_BYTES};
use dataplane::control::{Command, Report};
use dataplane::outlet::{Outlet, OutletHost};
use dataplane::port::{
    COMPLETIONS_MAX, Completion, FileSlot, Io, IoFault, MemoryChange, ReadRequest, SendRequest, Sharing, SocketSlot,
    Span, Token,
};
use rustix::thread::CpuSet;
use storage::grant::{Grant, StoreMessage};
use units::{Nanos, limits};

use crate::arena::Arena;
use crate::clock;
use crate::engine::{DirectRead, Engine, EngineReport, OutgoingBytes};
use crate::engine_choice::{self, EngineChoice};
use crate::fault;
use crate::helpers::HelperSetup;
use crate::lend::Lender;
use crate::memory_supply::ArenaGrower;
use crate::outlets::Outlets;
use crate::permissions::{Permissions, StartError};
use crate::prefetch::prefetch;
use crate::readers::{self, ReadJob, Readers};
use crate::reads::ReadTable;
use crate::version_check::{CheckJob, VersionCheckers};

/// Most reads in flight at once; the plane keeps far fewer (a few per disk).
pub const READS_MAX: usize = 4096;

/// Threads per disk where they make all reads: as many as a flash disk has in flight at once; a spinning one has fewer.
const READERS_WITHOUT_RING: usize = 8;

/// Most files at once. A file stays open for its reads in flight after its last stream has ended, so there can be more
/// files than streams.
const FILES: usize = limits::FILES_MAX + READS_MAX;

/// Tokens from here on are the engine's. The plane's stay below (`Token`).
const OURS: u64 = 0xFF << 56;

/// Time that the end waits for the kernel to let go of requests in flight. After that, the memory is leaked instead.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

/// Configuration of [`KernelIo::new`].
#[derive(Debug, Clone)]
pub struct IoConfig {
    /// Chunks that the arena may have at most (1 MiB each).
    pub chunk_count: u32,
    /// The way of requests to the kernel.
    pub engine: EngineChoice,
    /// Threads per disk for the reads that the engine does not make itself; some more where it makes none.
    pub readers: usize,
    /// CPUs for those threads; none: wherever the caller may run.
    pub helper_cpus: Option<CpuSet>,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoStats {
    /// System calls that handed over or waited.
    pub enters: u64,
    /// Reads of files without direct I/O, made by helper threads.
    pub buffered_reads: u64,
    /// Direct reads that the kernel could not start without waiting, made by helper threads instead.
    pub diverted_reads: u64,
    /// Sends that took references to the memory instead of a copy.
    pub lent_sends: u64,
    /// Bytes that lent sends took without a copy.
    pub lent_bytes: u64,
    /// Reads before which memory that sockets may still hold was replaced.
    pub reclaims: u64,
    /// Completions lost; anything but zero is a fault of ours.
    pub lost_completions: u64,
}

/// A file in use.
#[derive(Debug, Clone, Copy)]
struct OpenDescriptor {
    raw: RawFd,
    direct: bool,
}

/// A socket or outlet in use.
#[derive(Debug)]
enum OpenDestination {
    Socket(OpenSocket),
    Outlet(Arc<Outlet>),
}

/// A socket in use.
#[derive(Debug, Clone, Copy)]
struct OpenSocket {
    raw: RawFd,
    /// Memory can be lent to it.
    lends: bool,
}

/// The kernel as the data plane sees it. Stays on the thread that made it.
pub struct KernelIo {
    engine: Box<dyn Engine>,
    arena: Arc<Arena>,
    link: PlaneLink,
    /// A setup for each disk, so that none waits for another's.
    readers: Box<[Readers]>,
    checkers: VersionCheckers,
    supply: ArenaGrower,
    files: Box<[Option<OpenDescriptor>]>,
    sockets: Box<[Option<OpenDestination>]>,
    outlets: Arc<Outlets>,
    reads: ReadTable,
    /// Requests that ended before they reached the kernel.
    failed: Vec<Completion>,
    lender: Option<Lender>,
    /// Lent sends that completed and were not reported yet: one per socket at most.
    lent: VecDeque<Completion>,
    stats: IoStats,
    _thread_bound: PhantomData<*const ()>,
}

impl KernelIo {
    /// The engine, the arena and the helper threads, for the calling thread. The second part of the result names the
    /// permissions granted and refused.
    ///
    /// # Errors
    /// The lack of io_uring or of memory, with advice.
    pub fn new(config: &IoConfig, link: PlaneLink) -> Result<(Self, Permissions), StartError> {
        let mut permissions = Permissions::default();
        permissions.open_files();
        let arena = Arc::new(Arena::new(config.chunk_count).map_err(|e| StartError::Arena(config.chunk_count, e))?);
        permissions.arena(arena.bytes(), arena.not_locked.as_ref());
        let lender = Lender::new(&arena);
        permissions.lending(lender.is_some());
        let (choice, cpus) = (config.engine, config.helper_cpus);
        let engine = engine_choice::start(choice, &link, cpus.as_ref(), &mut permissions)?;
        let threads = if engine.makes_reads() { config.readers } else { config.readers.max(READERS_WITHOUT_RING) };
        let setup = HelperSetup { name: "reader", threads, jobs_max: READS_MAX, cpus };
        let readers = (0..link.disks().max(1)).map(|_| readers::start(&setup, &arena, link.waker()));
        let readers = readers.collect::<io::Result<_>>().map_err(StartError::Helpers)?;
        let supply = ArenaGrower::start(&arena, config.helper_cpus, link.waker()).map_err(StartError::Helpers)?;
        let outlets = Arc::new(Outlets::new(&arena, link.waker()));
        let checkers = VersionCheckers::start(READS_MAX, config.helper_cpus, &arena, &link.waker())
            .map_err(StartError::Helpers)?;
        let this = Self {
            engine,
            arena,
            link,
            readers,
            checkers,
            supply,
            files: vec![None; FILES].into_boxed_slice(),
            sockets: (0..limits::STREAMS_MAX).map(|_| None).collect(),
            outlets,
            reads: ReadTable::new(READS_MAX),
            failed: Vec::with_capacity(READS_MAX),
            lender,
            lent: VecDeque::with_capacity(limits::STREAMS_MAX),
            stats: IoStats::default(),
            _thread_bound: PhantomData,
        };
        Ok((this, permissions))
    }

    /// Counts since the start.
    pub fn stats(&mut self) -> IoStats {
        self.stats.lost_completions = self.engine.lost_completions();
        self.stats
    }

    /// Bytes of the arena's address space.
    #[must_use]
    pub fn arena_bytes(&self) -> u64 {
        self.arena.bytes()
    }

    /// Copies bytes out of the arena, for tests and for sinks that are no socket. Of a span into which a read is in
    /// flight they may be any mixture of old and new.
    ///
    /// # Panics
    /// If the span lies outside of the arena or is shorter than `bytes`.
    pub fn copy_out(&self, span: Span, bytes: &mut [u8]) {
        self.arena.copy_out(span, bytes);
    }

    /// Takes in up to `room` completions. True if the plane was woken.
    fn reap(&mut self, room: usize, completions: &mut Vec<Completion>) -> bool {
        let at = clock::monotonic();
        let full = completions.len() + room;
        while completions.len() < full
            && let Some(done) = self.failed.pop()
        {
            completions.push(Completion { at, ..done });
        }
        while completions.len() < full
            && let Some(done) = self.lent.pop_front()
        {
            completions.push(Completion { at, ..done });
        }
        if self.lent.is_empty() {
            self.lent.clear(); // it begins at its start again, which is in the processor's cache
        }
        let mut woken = false;
        while completions.len() < full {
            match self.engine.next_done() {
                None => break,
                Some(EngineReport::Woken) => woken = true,
                Some(EngineReport::Read(index, result)) => self.read_done(index, result, at, completions),
                Some(EngineReport::Sent(token, result)) => {
                    completions.push(Completion { token, result: fault::result(result), at });
                }
            }
        }
        if woken {
            // Before any queue is drained, here or by the plane; a later push wakes again.
            self.link.acknowledge();
        }
        while completions.len() < full
            && let Some((token, result)) = self.outlets.next_done()
        {
            completions.push(Completion { token, result, at });
        }
        for readers in &self.readers {
            while completions.len() < full
                && let Some(done) = readers.next_done()
            {
                let request = self.reads.remove(done.read);
                completions.push(Completion { token: request.token, result: fault::result(done.result), at });
            }
        }
        while completions.len() < full
            && let Some((token, result)) = self.checkers.next_done()
        {
            completions.push(Completion { token, result: fault::result(result), at });
        }
        while completions.len() < full
            && let Some((token, change, result)) = self.supply.next_done()
        {
            if let (MemoryChange::GiveBack(chunks), Ok(()), Some(lender)) = (change, &result, &mut self.lender) {
                lender.forget(chunks);
            }
            let result =
                fault::result(result.map_or_else(|error| -error.raw_os_error().unwrap_or(libc::ENOMEM), |()| 1));
            completions.push(Completion { token, result, at });
        }
        woken
    }

    /// Before a read: memory that sockets may still hold is replaced.
    fn reclaim(&mut self, memory: Span) -> io::Result<()> {
        let Some(lender) = &mut self.lender else { return Ok(()) };
        self.stats.reclaims += u64::from(lender.reclaim(&self.arena, memory)?);
        Ok(())
    }

    /// Sends by reference, if that can be done now.
    fn lend(&mut self, request: SendRequest, socket: OpenSocket) -> bool {
        let Some(lender) = self.lender.as_mut().filter(|_| socket.lends && request.sharing == Sharing::Shared) else {
            return false;
        };
        let Some(sent) = lender.send(&self.arena, request.memory, request.then, socket.raw) else { return false };
        self.stats.lent_sends += 1;
        self.stats.lent_bytes += sent.as_ref().map_or(0, |&bytes| u64::from(bytes));
        let result = fault::result(sent.map_or_else(
            |error| -error.raw_os_error().unwrap_or(libc::EIO),
            |bytes| i32::try_from(bytes).expect("no more than a chunk"),
        ));
        self.lent.push_back(Completion { token: request.token, result, at: Nanos::ZERO });
        true
    }

    fn read_done(&mut self, index: u32, result: i32, at: Nanos, completions: &mut Vec<Completion>) {
        match result.saturating_neg() {
            // The read would have waited, or this file cannot tell (no FMODE_NOWAIT): a helper thread may wait.
            libc::EAGAIN | libc::EOPNOTSUPP => {
                self.stats.diverted_reads += 1;
                self.divert(index);
            }
            libc::EINTR => self.divert(index),
            _ => {
                let request = self.reads.remove(index);
                completions.push(Completion { token: request.token, result: fault::result(result), at });
            }
        }
    }

    /// Hands a read of the table to the helper threads.
    fn divert(&mut self, index: u32) {
        let request = self.reads.request(index);
        let place = self.files[index_of(request.file.0)].expect("files stay open while they are read");
        let job = ReadJob { read: index, file: place.raw, offset: request.offset, memory: request.memory };
        // A disk beyond those that were connected has none of its own; tests have such.
        let setup = usize::from(request.disk.0).min(self.readers.len() - 1);
        self.readers[setup].begin(job);
    }

    fn open_destination(&mut self, slot: SocketSlot, destination: OpenDestination) {
        let opened = self.sockets[index_of(slot.0)].replace(destination);
        assert!(opened.is_none(), "{slot:?} is in use");
    }

    fn destination(&self, slot: SocketSlot) -> &OpenDestination {
        self.sockets[index_of(slot.0)].as_ref().expect("sockets are opened before they are used")
    }

    /// Hands over the queued requests, and waits for a completion until `until`, if given.
    fn enter(&mut self, until: Option<Nanos>) {
        self.stats.enters += 1;
        if let Err(error) = self.engine.enter(until)
            && error.raw_os_error() != Some(libc::EINTR)
        {
            // The kernel is short of memory for a moment. All queued requests are still queued. This thread may be of
            // real-time priority: a short sleep lets other threads free some.
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Io for KernelIo {
    fn now(&mut self) -> Nanos {
        clock::monotonic()
    }

    fn processor_time(&mut self) -> Nanos {
        clock::thread_processor_time()
    }

    fn prefetch<T>(&self, entry: &T) {
        prefetch(entry);
    }

    fn lent_bytes(&mut self) -> u64 {
        self.stats.lent_bytes
    }

    fn chunk_count(&self) -> u32 {
        self.arena.chunk_count()
    }

    fn chunks_obtainable(&mut self) -> u32 {
        self.supply.obtainable()
    }

    fn change_memory(&mut self, token: Token, change: MemoryChange) {
        self.supply.change(token, change);
    }

    fn open_file(&mut self, slot: FileSlot, file: &OwnedFd, access: FileAccess) {
        let direct = access == FileAccess::Direct;
        let opened = self.files[index_of(slot.0)].replace(OpenDescriptor { raw: file.as_raw_fd(), direct });
        assert!(opened.is_none(), "{slot:?} is in use");
    }

    fn close_file(&mut self, slot: FileSlot) {
        self.files[index_of(slot.0)].take().expect("closed files were open");
    }

    fn open_socket(&mut self, slot: SocketSlot, socket: &OwnedFd) {
        let lends = self.lender.is_some() && Lender::can_lend_to(socket);
        self.open_destination(slot, OpenDestination::Socket(OpenSocket { raw: socket.as_raw_fd(), lends }));
    }

    fn open_outlet(&mut self, slot: SocketSlot, outlet: &Arc<Outlet>) {
        let host: Arc<dyn OutletHost> = Arc::<Outlets>::clone(&self.outlets);
        outlet.attach(&host);
        self.open_destination(slot, OpenDestination::Outlet(Arc::clone(outlet)));
    }

    fn close_socket(&mut self, slot: SocketSlot) {
        if let OpenDestination::Socket(socket) =
            self.sockets[index_of(slot.0)].take().expect("closed sockets were open")
        {
            self.engine.close_socket(slot, socket.raw);
        }
    }

    fn fill(&mut self, memory: Span, bytes: &[u8]) {
        debug_assert!(u64::from(memory.length) <= LITERAL_BYTES, "literals are at most LITERAL_BYTES");
        self.arena.fill(memory, bytes);
    }

    fn fill_page(&mut self, memory: Span, bytes: &[u8]) -> bool {
        let is_ours = self.reclaim(memory).is_ok();
        if is_ours {
            self.arena.fill(memory, bytes);
        }
        is_ours
    }

    fn read(&mut self, request: ReadRequest) {
        assert!(request.token.0 < OURS, "tokens with a top byte of 0xFF are reserved");
        let place = self.files[index_of(request.file.0)].expect("files are opened before they are read");
        if let Err(error) = self.reclaim(request.memory) {
            let result = Err(IoFault::Device(error.raw_os_error().unwrap_or(libc::EIO)));
            return self.failed.push(Completion { token: request.token, result, at: Nanos::ZERO });
        }
        let Some(index) = self.reads.insert(request) else {
            let result = Err(IoFault::Device(libc::EBUSY));
            return self.failed.push(Completion { token: request.token, result, at: Nanos::ZERO });
        };
        if !place.direct {
            self.stats.buffered_reads += 1;
            return self.divert(index);
        }
        let (memory, length) = (self.arena.at(request.memory), request.memory.length);
        if !self.engine.read(DirectRead { index, file: place.raw, offset: request.offset, memory, length }) {
            self.stats.diverted_reads += 1;
            self.divert(index);
        }
    }

    fn verify(&mut self, token: Token, content: &Arc<Content>, offset: u64, memory: Span) {
        self.checkers.begin(CheckJob { token, content: Arc::clone(content), offset, memory });
    }

    fn send(&mut self, request: SendRequest) {
        assert!(request.token.0 < OURS, "tokens with a top byte of 0xFF are reserved");
        let socket = match self.destination(request.socket) {
            OpenDestination::Socket(socket) => *socket,
            OpenDestination::Outlet(outlet) => {
                if !outlet.post(request.token, request.memory, request.is_awaited) {
                    self.failed.push(Completion { token: request.token, result: Err(IoFault::Gone), at: Nanos::ZERO });
                }
                return;
            }
        };
        if self.lend(request, socket) {
            return;
        }
        let (token, slot) = (request.token, request.socket);
        let (memory, length) = (self.arena.at(request.memory).cast_const(), request.memory.length);
        self.engine.send(OutgoingBytes { token, slot, socket: socket.raw, memory, length });
    }

    fn await_room(&mut self, token: Token, socket: SocketSlot) {
        match *self.destination(socket) {
            OpenDestination::Socket(OpenSocket { raw, .. }) => self.engine.await_room(token, socket, raw),
            // A send of nothing: its reader takes it when it has taken all else.
            OpenDestination::Outlet(_) => {
                let memory = Span { offset: 0, length: 0 };
                self.send(SendRequest {
                    token,
                    socket,
                    memory,
                    then: None,
                    sharing: Sharing::Single,
                    is_awaited: true,
                });
            }
        }
    }

    fn cancel_send(&mut self, token: Token, socket: SocketSlot) {
        match self.destination(socket) {
            OpenDestination::Socket(_) => self.engine.cancel_send(token),
            OpenDestination::Outlet(outlet) => outlet.cancel(),
        }
    }

    fn grant(&mut self, grant: Grant) {
        self.link.grant(grant);
    }

    fn store_message(&mut self) -> Option<StoreMessage> {
        self.link.store_message()
    }

    fn command(&mut self) -> Option<Command> {
        self.link.command()
    }

    fn report(&mut self, report: Report) -> Result<(), Report> {
        self.link.report(report)
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) {
        let room = COMPLETIONS_MAX.min(completions.capacity() - completions.len());
        assert!(room > 0, "there must be room for a completion");
        let before = completions.len();
        loop {
            let ready = !self.failed.is_empty()
                || !self.lent.is_empty()
                || self.engine.has_done()
                || self.outlets.has_done()
                || self.readers.iter().any(Readers::has_done)
                || self.checkers.has_done()
                || self.supply.has_done();
            // With a completion to report and nothing to hand over, the kernel is entered the next time.
            if !ready || self.engine.has_queued() {
                self.enter(if ready { None } else { Some(until) });
            }
            let woken = self.reap(room, completions);
            if woken || completions.len() > before || clock::monotonic() >= until {
                return;
            }
        }
    }
}

impl Drop for KernelIo {
    /// Lets the kernel finish with the arena before it is unmapped: cancels the requests that can be, waits a little,
    /// and leaks memory that a hung device may still write to, rather than free it.
    fn drop(&mut self) {
        let deadline = clock::monotonic().saturating_add(Nanos::from_secs(CANCEL_PATIENCE.as_secs()));
        self.engine.cancel_all(CANCEL_PATIENCE);
        let mut completions = Vec::with_capacity(COMPLETIONS_MAX);
        loop {
            self.reap(COMPLETIONS_MAX, &mut completions);
            completions.clear();
            if (self.engine.sends() == 0 && self.reads.is_empty()) || clock::monotonic() >= deadline {
                break;
            }
            self.enter(Some(deadline));
        }
        if self.engine.sends() > 0 || !self.reads.is_empty() {
            std::mem::forget(Arc::clone(&self.arena));
        }
    }
}

fn index_of(slot: u32) -> usize {
    usize::try_from(slot).expect("usize holds a u32")
}
