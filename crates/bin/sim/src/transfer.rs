//! Reads and sends of the plane: through the drive or the page cache into the arena, from the arena into sockets.

use content::Content;
use content::layout::FileAccess;
use dataplane::port::{Completion, FileSlot, IoFault, ReadRequest, SendRequest, SocketSlot, Span, Token};
use units::{ContentVersion, Nanos, limits};

use crate::contents::index_of;
use crate::drive::Op;
use crate::laws::Law;
use crate::log::LogKind;
use crate::socket::Taken;
use crate::world::{PendingRead, RequestOwner, World, WorldEvent};

/// No content has this version: they are numbered from 1.
const NO_VERSION: ContentVersion = ContentVersion(0);
/// Most bytes that wait for the link, as time in ticks: two that all streams are given at once, two more behind a plane that
/// was late, and two that a link which was idle is given for bursts and best effort.
const LINK_TICKS_MAX: u64 = 6;

impl World {
    /// The requests the plane queued since its last wait take effect, in the order they were queued.
    pub(crate) fn submit(&mut self) {
        let mut reads = std::mem::take(&mut self.queued_reads);
        for request in reads.drain(..) {
            self.begin_read(request);
        }
        self.queued_reads = reads;
        let mut sends = std::mem::take(&mut self.queued_sends);
        for request in sends.drain(..) {
            self.begin_send(request);
        }
        self.queued_sends = sends;
    }

    fn begin_read(&mut self, request: ReadRequest) {
        self.log.event(self.now, LogKind::Read, request.token.0, request.offset, || format!("{request:?}"));
        let found = self.arena.begin_read(request.memory);
        self.laws.check(Law::OneOwner, self.now, found.map_err(|e| e.0));
        let Some(file) = self.handles.file_at(request.file) else {
            self.laws.broke(Law::OncePerRequest, self.now, format!("a read of a file that is not open: {request:?}"));
            return;
        };
        let length = u64::from(request.memory.length);
        if !request.offset.is_multiple_of(limits::DIRECT_ALIGN) {
            self.laws.broke(Law::QueueBounds, self.now, format!("a read that is not aligned: {request:?}"));
        }
        let content = &self.control.contents[usize::try_from(file.content).expect("few contents")];
        let direct = content.access == FileAccess::Direct;
        let disk = usize::from(file.disk.0);
        let bytes = length.min(content.size_now.next_multiple_of(limits::DIRECT_ALIGN).saturating_sub(request.offset));
        let parts = if direct { content.places(file.disk, request.offset, bytes) } else { Vec::new() };
        let pending = PendingRead {
            request,
            file,
            disk: (!parts.is_empty()).then_some(disk),
            parts: u32::try_from(parts.len()).expect("few parts").max(1),
            ok: true,
            lies: parts.iter().any(|(from, bytes)| *from < self.lies[disk].end && self.lies[disk].start < from + bytes),
        };
        let place = self.reads.iter().position(Option::is_none).unwrap_or(self.reads.len());
        if place == self.reads.len() {
            self.reads.push(None);
        }
        self.reads[place] = Some(pending);
        let place = u32::try_from(place).expect("few reads");
        if parts.is_empty() {
            // The page cache, or the end of the file: no disk of ours is asked.
            let latency = Nanos::from_micros(if direct { 5 } else { 50 + self.random.below(5000) });
            self.schedule(self.now.saturating_add(latency), WorldEvent::BufferedRead(place));
            return;
        }
        self.plane_reads[disk] += 1;
        self.judge_reads(disk, &request);
        for (position, bytes) in parts {
            self.submit_to_disk(disk, RequestOwner::Read(place), Op::Read, position, bytes);
        }
    }

    /// Whether a read of a content of this disk is out, from the disk or through the page cache.
    pub(crate) fn is_read_out(&self, disk: usize) -> bool {
        self.reads.iter().flatten().any(|read| usize::from(read.file.disk.0) == disk)
    }

    fn judge_reads(&mut self, disk: usize, request: &ReadRequest) {
        let (reads, depth) = (self.plane_reads[disk], self.depths[disk]);
        if reads > depth {
            self.laws.broke(
                Law::QueueBounds,
                self.now,
                format!("{reads} reads in flight on disk {disk}, {depth} allowed"),
            );
        }
        if self.spins[disk] && self.grants[disk].is_some() {
            self.laws.broke(Law::GrantsExclude, self.now, format!("a grant is out on disk {disk}: {request:?}"));
        }
    }

    /// One part of a read is over; with the last, the read is.
    pub(crate) fn read_part_done(&mut self, index: u32, ok: bool) {
        let slot = &mut self.reads[usize::try_from(index).expect("few reads")];
        let pending = slot.as_mut().expect("a part belongs to a read");
        pending.parts -= 1;
        pending.ok &= ok;
        if pending.parts > 0 {
            return;
        }
        let PendingRead { request, file, disk, ok, lies, .. } = slot.take().expect("seen above");
        if let Some(disk) = disk {
            self.plane_reads[disk] -= 1;
        }
        let content = &self.control.contents[usize::try_from(file.content).expect("few contents")];
        let there = content.size_now.saturating_sub(request.offset).min(u64::from(request.memory.length));
        let mut bytes = if ok { there } else { 0 };
        if bytes > limits::DIRECT_ALIGN && self.random.chance(self.settings.short_read) {
            let pages = bytes / limits::DIRECT_ALIGN;
            bytes = self.random.between(1, pages) * limits::DIRECT_ALIGN;
            bytes = bytes.min(there);
        }
        let version = if lies { NO_VERSION } else { content.version_now() };
        self.arena.end_read(request.memory, version, request.offset, bytes);
        let result = if ok { Ok(u32::try_from(bytes).expect("a chunk at most")) } else { Err(IoFault::Device(5)) };
        self.log
            .event(self.now, LogKind::ReadDone, request.token.0, bytes, || format!("{:?}: {result:?}", request.token));
        self.ready.push_back(Completion { token: request.token, result, at: self.now });
    }

    /// A look at a file is under way: on another thread, which comes to it soon, or now and then late.
    pub(crate) fn begin_look(&mut self, token: Token, content: &Content, offset: u64, memory: Span) {
        let late = if token.0.is_multiple_of(97) { 5000 } else { 0 };
        let latency = Nanos::from_micros(20 + token.0 % 16 * 10 + late);
        let bytes = self.arena.check_range(memory.offset, u64::from(memory.length), content.version, offset);
        let right = content.checksums.is_none() || bytes.is_ok();
        self.schedule(self.now.saturating_add(latency), WorldEvent::Looked { token, version: content.version, right });
    }

    /// It was looked at.
    pub(crate) fn looked(&mut self, token: Token, version: ContentVersion, right: bool) {
        let whole = self.control.contents[index_of(version)].is_whole();
        self.log.event(self.now, LogKind::ReadDone, token.0, u64::from(whole), || {
            format!("looked at {version:?}: {whole}")
        });
        let result = if right { Ok(u32::from(whole)) } else { Err(IoFault::Device(74)) };
        self.ready.push_back(Completion { token, result, at: self.now });
    }

    fn begin_send(&mut self, request: SendRequest) {
        // One piece at a time: a short send, of which there are others.
        let SendRequest { token, socket, memory, then: _, sharing: _, is_awaited: _ } = request;
        self.log.event(self.now, LogKind::Send, token.0, u64::from(memory.length), || format!("{request:?}"));
        let found = self.arena.begin_send(memory);
        self.laws.check(Law::OneOwner, self.now, found.map_err(|e| e.0));
        let Some(stream) = self.handles.stream_at(socket) else {
            self.laws.broke(Law::OncePerRequest, self.now, format!("a send to a socket that is not open: {request:?}"));
            return;
        };
        let record = self.streams.get_mut(&stream).expect("an open socket has its stream");
        if record.socket.pending.is_some() {
            self.laws.broke(Law::QueueBounds, self.now, format!("a second send to one socket: {request:?}"));
            return;
        }
        let taken = record.socket.take(memory.length, self.now);
        if taken == Taken::Full {
            record.socket.pending = Some((token, memory));
            if self.pending_sends.insert(token.0, socket).is_some() {
                self.laws.broke(Law::OncePerRequest, self.now, format!("a token in use twice: {request:?}"));
            }
            self.await_room(socket, stream);
        } else {
            self.end_send(stream, token, memory, taken);
        }
    }

    /// Schedules an event for when the stream's socket has room, if its client continues to read.
    fn await_room(&mut self, socket: SocketSlot, stream: u64) {
        if let Some(at) = self.streams[&stream].socket.writable_at() {
            self.schedule(at.max(self.now), WorldEvent::Writable(socket));
        }
    }

    /// The plane waits for room in a socket, holding no memory meanwhile.
    pub(crate) fn begin_waiting(&mut self, token: Token, socket: SocketSlot) {
        self.log.event(self.now, LogKind::Send, token.0, 0, || format!("{token:?} waits for room in {socket:?}"));
        let Some(stream) = self.handles.stream_at(socket) else {
            self.laws.broke(Law::OncePerRequest, self.now, format!("waits for a socket that is not open: {socket:?}"));
            return;
        };
        let record = self.streams.get_mut(&stream).expect("an open socket has its stream");
        if record.socket.pending.replace((token, Span { offset: 0, length: 0 })).is_some() {
            self.laws.broke(Law::QueueBounds, self.now, format!("waits for room beside a send: {socket:?}"));
        }
        self.pending_sends.insert(token.0, socket);
        // Room that is there already is found in its next event, never within the plane's call.
        self.schedule(self.now, WorldEvent::Writable(socket));
    }

    /// A waiting send is tried again.
    pub(crate) fn retry_send(&mut self, socket: SocketSlot) {
        let Some(stream) = self.handles.stream_at(socket) else { return };
        let record = self.streams.get_mut(&stream).expect("an open socket has its stream");
        let Some((token, memory)) = record.socket.pending else { return };
        if memory.length == 0 {
            if !record.socket.has_room(self.now) {
                return self.await_room(socket, stream);
            }
            record.socket.pending = None;
            self.pending_sends.remove(&token.0);
            self.log.event(self.now, LogKind::SendDone, token.0, 0, || format!("{token:?} stream {stream}: room"));
            return self.ready.push_back(Completion { token, result: Ok(1), at: self.now });
        }
        let taken = record.socket.take(memory.length, self.now);
        if taken == Taken::Full {
            self.await_room(socket, stream);
            return;
        }
        record.socket.pending = None;
        self.pending_sends.remove(&token.0);
        self.end_send(stream, token, memory, taken);
    }

    /// The plane takes a waiting send back.
    pub(crate) fn cancel(&mut self, token: Token) {
        self.log.event(self.now, LogKind::Cancel, token.0, 0, || format!("{token:?}"));
        // Too late, its completion is on the way: then there is nothing to cancel.
        let Some(socket) = self.pending_sends.remove(&token.0) else { return };
        let Some(stream) = self.handles.stream_at(socket) else { return };
        let record = self.streams.get_mut(&stream).expect("an open socket has its stream");
        if let Some((token, memory)) = record.socket.pending.take() {
            if memory.length > 0 {
                self.arena.end_send(memory);
            }
            self.ready.push_back(Completion { token, result: Err(IoFault::Cancelled), at: self.now });
        }
    }

    fn end_send(&mut self, stream: u64, token: Token, memory: Span, taken: Taken) {
        self.judge_lateness(stream);
        let record = self.streams.get_mut(&stream).expect("an open socket has its stream");
        let result = match taken {
            Taken::Bytes(bytes) => {
                let found = record.take(&self.arena, memory, bytes, self.now);
                self.laws.check(Law::NeverWrongBytes, self.now, found);
                self.judge_link(u64::from(bytes));
                Ok(bytes)
            }
            Taken::Full | Taken::Gone => Err(IoFault::Gone),
        };
        self.arena.end_send(memory);
        let bytes = u64::from(result.unwrap_or(0));
        self.log
            .event(self.now, LogKind::SendDone, token.0, bytes, || format!("{token:?} stream {stream}: {result:?}"));
        self.ready.push_back(Completion { token, result, at: self.now });
        self.judge_ahead(stream);
    }

    /// Bytes waiting for the link never last longer than the ticks in which streams are fed, once more for a plane that was
    /// late, and the bytes that a link which was idle may be given at once.
    fn judge_link(&mut self, bytes: u64) {
        self.link_busy_until = self.link_busy_until.max(self.now).saturating_add(self.settings.link.time_for(bytes));
        let behind = self.link_busy_until.saturating_sub(self.now);
        if behind > self.settings.tick.saturating_mul(LINK_TICKS_MAX) {
            self.laws.broke(Law::LinkCarries, self.now, format!("{} ms wait for the link", behind.as_millis_f64()));
        }
    }

    pub(crate) fn open_file(&mut self, slot: FileSlot, fd: i32) {
        let (file, found) = self.handles.open_file(slot, fd);
        self.log.event(self.now, LogKind::File, u64::from(slot.0), 1, || format!("{slot:?} is {file:?}"));
        self.laws.judge(self.now, found);
    }

    pub(crate) fn close_file(&mut self, slot: FileSlot) {
        self.log.event(self.now, LogKind::File, u64::from(slot.0), 0, || format!("{slot:?} closed"));
        let mut reads = self.reads.iter().flatten().map(|read| &read.request).chain(&self.queued_reads);
        let found = self.handles.close_file(slot, reads.any(|read| read.file == slot));
        self.laws.judge(self.now, found);
    }

    pub(crate) fn open_socket(&mut self, slot: SocketSlot, fd: i32) {
        let (stream, found) = self.handles.open_socket(slot, fd);
        self.log.event(self.now, LogKind::File, u64::from(slot.0), 3, || format!("{slot:?} is stream {stream:?}"));
        self.laws.judge(self.now, found);
    }

    pub(crate) fn close_socket(&mut self, slot: SocketSlot) {
        self.log.event(self.now, LogKind::File, u64::from(slot.0), 2, || format!("{slot:?} closed"));
        let is_pending = self.handles.stream_at(slot).is_some_and(|s| self.streams[&s].socket.pending.is_some());
        let is_queued = self.queued_sends.iter().any(|send| send.socket == slot);
        let found = self.handles.close_socket(slot, is_pending || is_queued);
        self.laws.judge(self.now, found);
    }
}
