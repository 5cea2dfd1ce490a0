//! Reads and sends of the plane: through the drive or the page cache into the arena, from the arena into sockets.
//!
//! Not here: the disks' own rules (`disk_side`), which bytes a socket must get, and when (`ledger`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;

use content::Content;
use content::layout::FileAccess;
use dataplane::port::{
    COMPLETIONS_MAX, Completion, FileSlot, IoFault, MemoryChange, ReadRequest, SendRequest, SocketSlot, Span, Token,
};
use units::{ContentVersion, Nanos, limits};

use crate::arena::SimArena;
use crate::bounds::PlaneBounds;
use crate::contents::{SimContents, SimFile, number_of};
use crate::course::Course;
use crate::disk_side::DiskSide;
use crate::events::WorldEvent;
use crate::handles::Handles;
use crate::laws::Law;
use crate::ledger::Ledger;
use crate::log::LogKind;
use crate::socket::{SimSocket, Taken};

/// No content has this version: they are numbered from 1.
const NO_VERSION: ContentVersion = ContentVersion(0);
/// Most bytes that wait for the link, as time in ticks: two that all streams are given at once, two more behind a plane that
/// was late, and two that a link which was idle is given for bursts and best effort.
const LINK_TICKS_MAX: u64 = 6;
/// How long bringing in or giving back a step of memory takes.
const MEMORY_CHANGE: Nanos = Nanos::from_millis(20);

/// A read under way.
#[derive(Debug, Clone, Copy)]
struct PendingRead {
    request: ReadRequest,
    file: SimFile,
    /// It goes through the drive of its disk.
    direct: bool,
    parts: u32,
    ok: bool,
    /// It brings other bytes.
    lies: bool,
}

/// The reads, sends and handles of one run's plane, and its memory.
#[derive(Debug)]
pub(crate) struct Transfers {
    bounds: PlaneBounds,
    chunks: u32,
    /// Chance that a read brings fewer bytes than asked.
    short_read: f64,
    arena: SimArena,
    /// Memory that is being brought in.
    memory_change: Option<MemoryChange>,
    pub(crate) handles: Handles,
    queued_reads: Vec<ReadRequest>,
    queued_sends: Vec<SendRequest>,
    reads: Vec<Option<PendingRead>>,
    waiting_sends: BTreeMap<u64, SocketSlot>,
    /// Until when the link is busy with the bytes that sockets took.
    link_busy_until: Nanos,
    ready: VecDeque<Completion>,
}

impl Transfers {
    pub(crate) fn new(chunks: u32, short_read: f64, bounds: PlaneBounds) -> Self {
        Self {
            bounds,
            chunks,
            short_read,
            arena: SimArena::new(chunks),
            memory_change: None,
            handles: Handles::new(),
            queued_reads: Vec::new(),
            queued_sends: Vec::new(),
            reads: Vec::new(),
            waiting_sends: BTreeMap::new(),
            link_busy_until: Nanos::ZERO,
            ready: VecDeque::new(),
        }
    }

    pub(crate) fn chunks(&self) -> u32 {
        self.chunks
    }

    pub(crate) fn queue_read(&mut self, request: ReadRequest) {
        self.queued_reads.push(request);
    }

    pub(crate) fn queue_send(&mut self, request: SendRequest) {
        self.queued_sends.push(request);
    }

    /// Requests queued since the plane's last wait.
    pub(crate) fn queued(&self) -> usize {
        self.queued_reads.len() + self.queued_sends.len()
    }

    /// True if a completion is ready.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many completions the plane receives at once.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len().min(COMPLETIONS_MAX)
    }

    /// The plane receives so many completions.
    pub(crate) fn receive(&mut self, count: usize, now: Nanos) -> impl Iterator<Item = Completion> {
        self.ready.drain(..count).map(move |completion| Completion { at: now, ..completion })
    }

    /// The requests the plane queued since its last wait take effect, in the order they were queued.
    pub(crate) fn submit(
        &mut self,
        contents: &SimContents,
        disks: &mut [DiskSide],
        ledger: &mut Ledger,
        course: &mut Course,
    ) {
        for request in std::mem::take(&mut self.queued_reads) {
            self.begin_read(request, contents, disks, course);
        }
        for request in std::mem::take(&mut self.queued_sends) {
            self.begin_send(request, ledger, course);
        }
    }

    fn begin_read(
        &mut self,
        request: ReadRequest,
        contents: &SimContents,
        disks: &mut [DiskSide],
        course: &mut Course,
    ) {
        course.log(LogKind::Read, request.token.0, request.offset, || format!("{request:?}"));
        let found = self.arena.begin_read(request.memory);
        course.check(Law::OneOwner, found.map_err(|e| e.0));
        let Some(file) = self.handles.file_at(request.file) else {
            return course.broke(Law::OncePerRequest, format!("a read of a file that is not open: {request:?}"));
        };
        let length = u64::from(request.memory.length);
        if !request.offset.is_multiple_of(limits::DIRECT_ALIGN) {
            course.broke(Law::QueueBounds, format!("a read that is not aligned: {request:?}"));
        }
        let content = contents.content(file.content);
        let direct = content.access == FileAccess::Direct;
        let bytes = length.min(content.size_now.next_multiple_of(limits::DIRECT_ALIGN).saturating_sub(request.offset));
        let places = if direct { content.places(file.disk, request.offset, bytes) } else { Vec::new() };
        let disk = &mut disks[usize::from(file.disk.0)];
        let pending = PendingRead {
            request,
            file,
            direct: !places.is_empty(),
            parts: u32::try_from(places.len()).expect("few parts").max(1),
            ok: true,
            lies: disk.lies(&places),
        };
        let place = self.reads.iter().position(Option::is_none).unwrap_or(self.reads.len());
        if place == self.reads.len() {
            self.reads.push(None);
        }
        self.reads[place] = Some(pending);
        let place = u32::try_from(place).expect("few reads");
        if places.is_empty() {
            // The page cache, or the end of the file: no disk of ours is asked.
            let latency = Nanos::from_micros(if direct { 5 } else { 50 + course.random().below(5000) });
            return course.schedule_in(latency, WorldEvent::BufferedRead(place));
        }
        disk.begin_read(place, &places, &request, course);
    }

    /// Whether a read of a content of this disk is out, from the disk or through the page cache.
    pub(crate) fn is_read_out(&self, disk: usize) -> bool {
        self.reads.iter().flatten().any(|read| usize::from(read.file.disk.0) == disk)
    }

    /// One part of a read is over; with the last, the read is.
    pub(crate) fn read_part_done(
        &mut self,
        (index, ok): (u32, bool),
        contents: &SimContents,
        disks: &mut [DiskSide],
        course: &mut Course,
    ) {
        let slot = &mut self.reads[usize::try_from(index).expect("few reads")];
        let pending = slot.as_mut().expect("a part belongs to a read");
        pending.parts -= 1;
        pending.ok &= ok;
        if pending.parts > 0 {
            return;
        }
        let PendingRead { request, file, direct, ok, lies, .. } = slot.take().expect("seen above");
        if direct {
            disks[usize::from(file.disk.0)].end_read();
        }
        let content = contents.content(file.content);
        let there = content.size_now.saturating_sub(request.offset).min(u64::from(request.memory.length));
        let mut bytes = if ok { there } else { 0 };
        if bytes > limits::DIRECT_ALIGN && course.random().chance(self.short_read) {
            let pages = bytes / limits::DIRECT_ALIGN;
            bytes = course.random().between(1, pages) * limits::DIRECT_ALIGN;
            bytes = bytes.min(there);
        }
        let version = if lies { NO_VERSION } else { content.version_now() };
        self.arena.end_read(request.memory, version, request.offset, bytes);
        let result = if ok { Ok(u32::try_from(bytes).expect("a chunk at most")) } else { Err(IoFault::Device(5)) };
        course.log(LogKind::ReadDone, request.token.0, bytes, || format!("{:?}: {result:?}", request.token));
        self.complete(request.token, result, course);
    }

    fn complete(&mut self, token: Token, result: Result<u32, IoFault>, course: &Course) {
        self.ready.push_back(Completion { token, result, at: course.now() });
    }

    /// A look at a file is under way: on another thread, which comes to it soon, or now and then late.
    pub(crate) fn begin_look(&self, token: Token, content: &Content, offset: u64, memory: Span, course: &mut Course) {
        let late = if token.0.is_multiple_of(97) { 5000 } else { 0 };
        let latency = Nanos::from_micros(20 + token.0 % 16 * 10 + late);
        let bytes = self.arena.check_range(memory.offset, u64::from(memory.length), content.version, offset);
        let right = content.checksums.is_none() || bytes.is_ok();
        course.schedule_in(latency, WorldEvent::Looked { token, version: content.version, right });
    }

    /// It was looked at.
    pub(crate) fn looked(
        &mut self,
        token: Token,
        (version, right): (ContentVersion, bool),
        contents: &SimContents,
        course: &mut Course,
    ) {
        let whole = contents.content(number_of(version)).is_whole();
        course.log(LogKind::ReadDone, token.0, u64::from(whole), || format!("looked at {version:?}: {whole}"));
        let result = if right { Ok(u32::from(whole)) } else { Err(IoFault::Device(74)) };
        self.complete(token, result, course);
    }

    fn begin_send(&mut self, request: SendRequest, ledger: &mut Ledger, course: &mut Course) {
        // One piece at a time: a short send, of which there are others.
        let SendRequest { token, socket, memory, then: _, sharing: _, is_awaited: _ } = request;
        course.log(LogKind::Send, token.0, u64::from(memory.length), || format!("{request:?}"));
        let found = self.arena.begin_send(memory);
        course.check(Law::OneOwner, found.map_err(|e| e.0));
        let Some(stream) = self.handles.stream_at(socket) else {
            return course.broke(Law::OncePerRequest, format!("a send to a socket that is not open: {request:?}"));
        };
        let receiver = ledger.socket(stream);
        if receiver.pending.is_some() {
            return course.broke(Law::QueueBounds, format!("a second send to one socket: {request:?}"));
        }
        let taken = receiver.take(memory.length, course.now());
        if taken == Taken::Full {
            receiver.pending = Some((token, memory));
            if self.waiting_sends.insert(token.0, socket).is_some() {
                course.broke(Law::OncePerRequest, format!("a token in use twice: {request:?}"));
            }
            Self::await_room(socket, receiver, course);
        } else {
            self.end_send(stream, (token, memory, taken), ledger, course);
        }
    }

    /// Schedules an event for when the stream's socket has room, if its client continues to read.
    fn await_room(socket: SocketSlot, receiver: &SimSocket, course: &mut Course) {
        if let Some(at) = receiver.writable_at() {
            course.schedule(at.max(course.now()), WorldEvent::Writable(socket));
        }
    }

    /// The plane waits for room in a socket, holding no memory meanwhile.
    pub(crate) fn begin_waiting(&mut self, token: Token, socket: SocketSlot, ledger: &mut Ledger, course: &mut Course) {
        course.log(LogKind::Send, token.0, 0, || format!("{token:?} waits for room in {socket:?}"));
        let Some(stream) = self.handles.stream_at(socket) else {
            return course.broke(Law::OncePerRequest, format!("waits for a socket that is not open: {socket:?}"));
        };
        let receiver = ledger.socket(stream);
        if receiver.pending.replace((token, Span { offset: 0, length: 0 })).is_some() {
            course.broke(Law::QueueBounds, format!("waits for room beside a send: {socket:?}"));
        }
        self.waiting_sends.insert(token.0, socket);
        // Room that is there already is found in its next event, never within the plane's call.
        course.schedule(course.now(), WorldEvent::Writable(socket));
    }

    /// A waiting send is tried again.
    pub(crate) fn retry_send(&mut self, socket: SocketSlot, ledger: &mut Ledger, course: &mut Course) {
        let Some(stream) = self.handles.stream_at(socket) else { return };
        let receiver = ledger.socket(stream);
        let Some((token, memory)) = receiver.pending else { return };
        if memory.length == 0 {
            if !receiver.has_room(course.now()) {
                return Self::await_room(socket, receiver, course);
            }
            receiver.pending = None;
            self.waiting_sends.remove(&token.0);
            course.log(LogKind::SendDone, token.0, 0, || format!("{token:?} stream {stream}: room"));
            return self.ready.push_back(Completion { token, result: Ok(1), at: course.now() });
        }
        let taken = receiver.take(memory.length, course.now());
        if taken == Taken::Full {
            Self::await_room(socket, receiver, course);
            return;
        }
        receiver.pending = None;
        self.waiting_sends.remove(&token.0);
        self.end_send(stream, (token, memory, taken), ledger, course);
    }

    /// The plane takes a waiting send back.
    pub(crate) fn cancel(&mut self, token: Token, ledger: &mut Ledger, course: &mut Course) {
        course.log(LogKind::Cancel, token.0, 0, || format!("{token:?}"));
        // Too late, its completion is on the way: then there is nothing to cancel.
        let Some(socket) = self.waiting_sends.remove(&token.0) else { return };
        let Some(stream) = self.handles.stream_at(socket) else { return };
        let receiver = ledger.socket(stream);
        if let Some((token, memory)) = receiver.pending.take() {
            if memory.length > 0 {
                self.arena.end_send(memory);
            }
            self.ready.push_back(Completion { token, result: Err(IoFault::Cancelled), at: course.now() });
        }
    }

    fn end_send(
        &mut self,
        stream: u64,
        (token, memory, taken): (Token, Span, Taken),
        ledger: &mut Ledger,
        course: &mut Course,
    ) {
        ledger.judge_lateness(stream, course);
        let result = match taken {
            Taken::Bytes(bytes) => {
                ledger.take(stream, &self.arena, memory, bytes, course);
                self.judge_link(u64::from(bytes), course);
                Ok(bytes)
            }
            Taken::Full | Taken::Gone => Err(IoFault::Gone),
        };
        self.arena.end_send(memory);
        let bytes = u64::from(result.unwrap_or(0));
        course.log(LogKind::SendDone, token.0, bytes, || format!("{token:?} stream {stream}: {result:?}"));
        self.complete(token, result, course);
        ledger.judge_ahead(stream, course);
    }

    /// Bytes waiting for the link never last longer than the ticks in which streams are fed, once more for a plane that was
    /// late, and the bytes that a link which was idle may be given at once.
    fn judge_link(&mut self, bytes: u64, course: &mut Course) {
        self.link_busy_until = self.link_busy_until.max(course.now()).saturating_add(self.bounds.link.time_for(bytes));
        let behind = self.link_busy_until.saturating_sub(course.now());
        if behind > self.bounds.tick.saturating_mul(LINK_TICKS_MAX) {
            course.broke(Law::LinkCarries, format!("{} ms wait for the link", behind.as_millis_f64()));
        }
    }

    pub(crate) fn open_file(&mut self, slot: FileSlot, fd: RawFd, course: &mut Course) {
        let (file, found) = self.handles.open_file(slot, fd);
        course.log(LogKind::File, u64::from(slot.0), 1, || format!("{slot:?} is {file:?}"));
        course.judge(found);
    }

    pub(crate) fn close_file(&mut self, slot: FileSlot, course: &mut Course) {
        course.log(LogKind::File, u64::from(slot.0), 0, || format!("{slot:?} closed"));
        let mut reads = self.reads.iter().flatten().map(|read| &read.request).chain(&self.queued_reads);
        let found = self.handles.close_file(slot, reads.any(|read| read.file == slot));
        course.judge(found);
    }

    pub(crate) fn open_socket(&mut self, slot: SocketSlot, fd: RawFd, course: &mut Course) {
        let (stream, found) = self.handles.open_socket(slot, fd);
        course.log(LogKind::File, u64::from(slot.0), 3, || format!("{slot:?} is stream {stream:?}"));
        course.judge(found);
    }

    pub(crate) fn close_socket(&mut self, slot: SocketSlot, ledger: &mut Ledger, course: &mut Course) {
        course.log(LogKind::File, u64::from(slot.0), 2, || format!("{slot:?} closed"));
        let is_pending = self.handles.stream_at(slot).is_some_and(|s| ledger.socket(s).pending.is_some());
        let is_queued = self.queued_sends.iter().any(|send| send.socket == slot);
        let found = self.handles.close_socket(slot, is_pending || is_queued);
        course.judge(found);
    }

    /// The plane writes bytes of its own into the arena.
    pub(crate) fn fill(&mut self, memory: Span, bytes: &[u8], course: &mut Course) {
        course.check(Law::OneOwner, self.arena.fill(memory, bytes).map_err(|e| e.0));
    }

    /// The plane wants more memory, or less.
    pub(crate) fn begin_memory_change(&mut self, token: Token, change: MemoryChange, course: &mut Course) {
        course.log(LogKind::Memory, 0, 0, || format!("{change:?}"));
        let mut found = if self.memory_change.is_some() { Err("two changes of memory".to_owned()) } else { Ok(()) };
        if let MemoryChange::GiveBack(chunks) = change {
            found = found.and(self.arena.give_back(chunks).map_err(|e| e.0));
        }
        course.check(Law::OneOwner, found);
        self.memory_change = Some(change);
        course.schedule_in(MEMORY_CHANGE, WorldEvent::MemoryChanged(token));
    }

    pub(crate) fn memory_changed(&mut self, token: Token, course: &mut Course) {
        if let Some(MemoryChange::BringIn(chunks)) = self.memory_change.take() {
            course.check(Law::OneOwner, self.arena.bring_in(chunks).map_err(|e| e.0));
        }
        self.complete(token, Ok(1), course);
    }
}
