//! A plane in a world where time stands still unless it is moved, and disks answer only where a test says so.
#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use content::layout::{ContentFile, ContentLayout, Extent, FileAccess, Positions};
use content::watched::{FileStat, WatchedContent};
use content::{BlockChecksums, Content, Segment};
use dataplane::control::{Command, Delivery, DeliveryDestination, Report, Service};
use dataplane::gauges::{Gauges, StreamGauges};
use dataplane::outlet::Outlet;
use dataplane::port::{
    Completion, FileSlot, Io, IoFault, MemoryChange, ReadRequest, SendRequest, SocketSlot, Span, Token,
};
use dataplane::{Plane, PlaneConfig};
use schedule::profile::DiskProfile;
use storage::grant::{Grant, StoreMessage};
use units::limits::CACHE_PAGE_BYTES;
use units::{BitRate, ContentVersion, DiskId, LinkId, Nanos, StreamId, limits};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const RATE: BitRate = BitRate(500_000);
/// The inputs and outputs of the world, and its time.
#[derive(Default)]
struct Queues {
    now: Nanos,
    /// Chunks of the arena.
    chunks: u32,
    /// Disks answer at once.
    answers: bool,
    commands: VecDeque<Command>,
    reports: Vec<Report>,
    /// Until when the plane waits if nothing comes.
    until: Nanos,
    /// The reads asked of disks and not yet answered, and the other requests, which name no disk.
    in_flight: Vec<(Token, u32, Option<DiskId>)>,
    /// Disks that answer with errors.
    erring: Vec<DiskId>,
    /// Disks that do not answer.
    silent: Vec<DiskId>,
    /// Each disk answers one request a turn.
    one_by_one: bool,
    /// Disks that answer with other bytes.
    lying: Vec<DiskId>,
    ended: Vec<DiskId>,
    /// The disk from which the last read into each place of the arena came.
    came_from: BTreeMap<u64, DiskId>,
    /// Bytes read from each disk.
    read: BTreeMap<DiskId, u64>,
    /// Bytes that sockets took.
    taken: u64,
    /// Sends that are out.
    sends: Vec<SendRequest>,
    /// Sockets with a pending wait for room.
    awaited: Vec<(Token, SocketSlot)>,
    /// The other completions that the next wait brings.
    done: Vec<(Token, Result<u32, IoFault>)>,
}

/// The world.
pub(crate) struct Still(Rc<RefCell<Queues>>);

impl Io for Still {
    fn now(&mut self) -> Nanos {
        self.0.borrow().now
    }
    fn processor_time(&mut self) -> Nanos {
        Nanos::ZERO
    }
    fn chunk_count(&self) -> u32 {
        self.0.borrow().chunks
    }
    fn change_memory(&mut self, token: Token, _: MemoryChange) {
        self.0.borrow_mut().in_flight.push((token, 1, None));
    }
    fn open_file(&mut self, _: FileSlot, _: &OwnedFd, _: FileAccess) {}
    fn close_file(&mut self, _: FileSlot) {}
    fn open_socket(&mut self, _: SocketSlot, _: &OwnedFd) {}
    fn open_outlet(&mut self, _: SocketSlot, _: &Arc<Outlet>) {}
    fn close_socket(&mut self, _: SocketSlot) {}
    fn fill(&mut self, _: Span, _: &[u8]) {}
    fn read(&mut self, read: ReadRequest) {
        let mut queues = self.0.borrow_mut();
        queues.came_from.insert(read.memory.offset, read.disk);
        queues.in_flight.push((read.token, read.memory.length, Some(read.disk)));
    }
    fn verify(&mut self, token: Token, content: &Arc<Content>, _: u64, memory: Span) {
        let mut queues = self.0.borrow_mut();
        let lies = queues.came_from.get(&memory.offset).is_some_and(|disk| queues.lying.contains(disk));
        if lies && content.checksums.is_some() {
            queues.done.push((token, Err(IoFault::Device(74))));
        } else {
            queues.in_flight.push((token, 1, None));
        }
    }
    fn send(&mut self, send: SendRequest) {
        self.0.borrow_mut().sends.push(send);
    }
    fn await_room(&mut self, token: Token, socket: SocketSlot) {
        self.0.borrow_mut().awaited.push((token, socket));
    }
    fn cancel_send(&mut self, token: Token, _: SocketSlot) {
        let mut queues = self.0.borrow_mut();
        queues.sends.retain(|send| send.token != token);
        queues.awaited.retain(|(other, _)| *other != token);
        queues.done.push((token, Err(IoFault::Cancelled)));
    }
    fn grant(&mut self, _: Grant) {}
    fn store_message(&mut self) -> Option<StoreMessage> {
        None
    }
    fn command(&mut self) -> Option<Command> {
        self.0.borrow_mut().commands.pop_front()
    }
    fn report(&mut self, report: Report) -> Result<(), Report> {
        self.0.borrow_mut().reports.push(report);
        Ok(())
    }
    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) {
        let mut queues = self.0.borrow_mut();
        queues.until = until;
        let at = queues.now;
        completions.extend(queues.done.drain(..).map(|(token, result)| Completion { token, result, at }));
        if queues.answers {
            let Queues { in_flight, silent, erring, ended, read, one_by_one, .. } = &mut *queues;
            let mut busy = silent.clone();
            let answered = in_flight.extract_if(.., |(.., disk)| {
                let answers = disk.is_none_or(|disk| !busy.contains(&disk));
                busy.extend(disk.filter(|_| answers && *one_by_one));
                answers
            });
            completions.extend(answered.map(|(token, bytes, disk)| {
                let fails = disk.is_some_and(|disk| erring.contains(&disk));
                let bytes = if disk.is_some_and(|disk| ended.contains(&disk)) { 0 } else { bytes };
                if let (Some(disk), false) = (disk, fails) {
                    *read.entry(disk).or_default() += u64::from(bytes);
                }
                Completion { token, result: if fails { Err(IoFault::Device(5)) } else { Ok(bytes) }, at }
            }));
        }
    }
}

/// A plane with one disk that could not be measured.
pub(crate) struct Machine {
    plane: Plane<Still>,
    queues: Rc<RefCell<Queues>>,
    gauges: Arc<Gauges>,
}

impl Machine {
    /// One with a disk that does not answer, and one link.
    pub(crate) fn new(link: BitRate) -> Self {
        Self::with_disks(1, link)
    }

    /// The same with several disks.
    pub(crate) fn with_disks(count: usize, link: BitRate) -> Self {
        Self::with_config(count, link, |_| ())
    }

    /// A plane with a disk that answers at once, and this number of chunks of memory.
    pub(crate) fn with_chunks(chunks: u32, link: BitRate) -> Self {
        let mut machine = Self::of(1, link, chunks, |_| ());
        machine.disk_answers();
        machine
    }

    /// The same with something else in the configuration.
    pub(crate) fn with_config(count: usize, link: BitRate, change: impl FnOnce(&mut PlaneConfig)) -> Self {
        Self::of(count, link, 4096, change)
    }

    fn of(count: usize, link: BitRate, chunks: u32, change: impl FnOnce(&mut PlaneConfig)) -> Self {
        let queues = Rc::new(RefCell::new(Queues { now: Nanos::from_secs(1), chunks, ..Queues::default() }));
        let hour = Nanos::from_secs(3600);
        let config = PlaneConfig { streams_max: 1000, stall_max: hour, ..PlaneConfig::default() };
        let mut config = if count == 1 { PlaneConfig { io_deadline: hour, ..config } } else { config };
        change(&mut config);
        let gauges = Arc::new(Gauges::new(config.streams_max, count));
        let disks = vec![DiskProfile::spindle_default(); count];
        let plane = Plane::new(config, disks, &[link], Arc::clone(&gauges), Still(Rc::clone(&queues)));
        Self { plane, queues, gauges }
    }

    /// The plane's reports to this command.
    pub(crate) fn command(&mut self, command: Command) -> Vec<Report> {
        self.queues.borrow_mut().commands.push_back(command);
        self.turned()
    }

    /// The plane's reports to these commands, which come together, until it would wait: nothing wakes it for those that it
    /// left in their queue.
    pub(crate) fn command_together(&mut self, commands: impl IntoIterator<Item = Command>) -> Vec<Report> {
        self.queues.borrow_mut().commands.extend(commands);
        let mut reports = self.turned();
        let waits = |queues: &Queues| queues.until > queues.now;
        for _ in 0..1000 {
            if waits(&self.queues.borrow()) {
                return reports;
            }
            reports.append(&mut self.turned());
        }
        panic!("it never waits");
    }

    /// The plane's reports after `span`: it reports the decisions of the end of a turn in the next.
    pub(crate) fn later(&mut self, span: Nanos) -> Vec<Report> {
        self.queues.borrow_mut().now += span;
        let mut reports = self.turned();
        reports.append(&mut self.turned());
        reports
    }

    fn turned(&mut self) -> Vec<Report> {
        self.plane.turn();
        std::mem::take(&mut self.queues.borrow_mut().reports)
    }

    /// From now on the disk answers at once.
    pub(crate) fn disk_answers(&mut self) {
        self.queues.borrow_mut().answers = true;
    }

    /// From now on each disk answers one request a turn.
    pub(crate) fn disks_answer_one_by_one(&mut self) {
        self.disk_answers();
        self.queues.borrow_mut().one_by_one = true;
    }

    /// From now on these disks answer with errors, and those not at all.
    pub(crate) fn break_disks(&mut self, erring: &[u16], silent: &[u16]) {
        let ids = |disks: &[u16]| disks.iter().map(|&disk| DiskId(disk)).collect();
        let mut queues = self.queues.borrow_mut();
        (queues.erring, queues.silent) = (ids(erring), ids(silent));
    }

    /// From now on these disks answer with other bytes than were written.
    pub(crate) fn let_lie(&mut self, disks: &[u16]) {
        self.queues.borrow_mut().lying = disks.iter().map(|&disk| DiskId(disk)).collect();
    }

    /// From now on these disks end before their bytes, as one does that was pulled out.
    pub(crate) fn let_end(&mut self, disks: &[u16]) {
        self.queues.borrow_mut().ended = disks.iter().map(|&disk| DiskId(disk)).collect();
    }

    /// Bytes that were read from a disk.
    pub(crate) fn read_from(&self, disk: u16) -> u64 {
        self.queues.borrow().read.get(&DiskId(disk)).copied().unwrap_or(0)
    }

    /// Bytes that were requested from a disk and have not come.
    pub(crate) fn requested_from(&self, disk: u16) -> u64 {
        let queues = self.queues.borrow();
        queues
            .in_flight
            .iter()
            .filter(|(.., of)| *of == Some(DiskId(disk)))
            .map(|(_, bytes, _)| u64::from(*bytes))
            .sum()
    }

    /// The share of a disk's time that is promised.
    pub(crate) fn promised_on(&self, disk: u16) -> f64 {
        self.plane.admission().table(DiskId(disk)).promised_share()
    }

    /// The sends that are out.
    pub(crate) fn sends(&self) -> Vec<SendRequest> {
        self.queues.borrow().sends.clone()
    }

    /// How many sockets are waited for with nothing to send.
    pub(crate) fn awaited(&self) -> usize {
        self.queues.borrow().awaited.len()
    }

    /// Every socket takes all that was sent to it and has room, until nothing more is sent; the reports meanwhile.
    pub(crate) fn clients_read(&mut self) -> Vec<Report> {
        self.client_reads(0..=u32::MAX)
    }

    /// Some sockets take all that was sent to them and have room, until nothing more is sent to them; the reports meanwhile.
    pub(crate) fn client_reads(&mut self, sockets: RangeInclusive<u32>) -> Vec<Report> {
        let mut reports = Vec::new();
        loop {
            {
                let mut queues = self.queues.borrow_mut();
                let queues = &mut *queues;
                let sent = queues.sends.extract_if(.., |send| sockets.contains(&send.socket.0));
                let room = queues.awaited.extract_if(.., |(_, socket)| sockets.contains(&socket.0));
                queues.done.extend(sent.map(|send| {
                    queues.taken += u64::from(send.memory.length);
                    (send.token, Ok(send.memory.length))
                }));
                queues.done.extend(room.map(|(token, _)| (token, Ok(1))));
                if queues.done.is_empty() {
                    break;
                }
            }
            reports.append(&mut self.turned());
            reports.append(&mut self.turned());
        }
        reports
    }

    /// Bytes that clients took since the last call.
    pub(crate) fn taken(&mut self) -> u64 {
        std::mem::take(&mut self.queues.borrow_mut().taken)
    }

    /// The gauges of a stream.
    pub(crate) fn shown(&self, number: u64) -> &StreamGauges {
        self.gauges.streams.iter().find(|shown| shown.id.get() == number).expect("it runs")
    }

    /// Pages in use.
    pub(crate) fn pages_used(&self) -> u32 {
        self.plane.cache().used()
    }

    /// Bytes of buffers promised to streams, and those that have memory.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let promised = self.plane.admission().memory().0 * CACHE_PAGE_BYTES;
        (promised, u64::from(self.plane.cache().present()) * limits::CHUNK_BYTES)
    }

    /// Ticks without the bytes that were due.
    pub(crate) fn misses(&self) -> u64 {
        self.gauges.plane.misses.get()
    }

    /// Bits per second promised in all.
    pub(crate) fn promised(&self) -> u64 {
        self.plane.admission().sending().promised().0
    }
}

fn null() -> OwnedFd {
    File::open("/dev/null").expect("/dev/null opens").into()
}

/// Stands for checksums: the world knows which disks lie.
#[derive(Debug)]
struct NoBytes;

impl BlockChecksums for NoBytes {
    fn verify(&self, _: u64, _: &[u8]) -> bool {
        unreachable!("there are no bytes")
    }

    fn copy_failed(&self, _: u64) {}
}

/// A viewer that asks for a content that no other one watches.
pub(crate) fn viewer(number: u64) -> Command {
    delivery(number, number, 64 * MIB, Service::Constant { rate: RATE, burst_bytes: 0, held: None, hold: false })
}

/// A client that asks for all of a content.
pub(crate) fn delivery(number: u64, version: u64, size: u64, service: Service) -> Command {
    let extents = Box::new([Extent { logical: 0, physical: version * 256 * MIB, length: size }]);
    let layout = ContentLayout::of_file(DiskId(0), null(), FileAccess::Direct, size, extents);
    delivery_of(number, version, size, layout, service)
}

/// A client that asks for all of a content with this layout.
pub(crate) fn delivery_of(number: u64, version: u64, size: u64, layout: ContentLayout, service: Service) -> Command {
    // A file in a folder is looked at; a content in several copies has checksums.
    let watched = (layout.copies() == 1).then(|| WatchedContent::new(FileStat::new(0, size), 0));
    let checksums: Option<Box<dyn BlockChecksums>> = if watched.is_some() { None } else { Some(Box::new(NoBytes)) };
    Command::Start(Box::new(Delivery {
        stream: StreamId(number),
        destination: DeliveryDestination::Socket(null()),
        link: LinkId(0),
        segments: Arc::new([Segment::Range { offset: 0, length: size }]),
        content: Arc::new(Content { version: ContentVersion(version), size, layout, watched, checksums }),
        service,
        waited: Nanos::ZERO,
    }))
}

/// Whole disks as the files of a content.
pub(crate) fn disks(count: u16) -> Box<[ContentFile]> {
    let file = |disk| ContentFile {
        disk: DiskId(disk),
        file: null(),
        access: FileAccess::Direct,
        positions: Positions::Device,
    };
    (0..count).map(file).collect()
}
