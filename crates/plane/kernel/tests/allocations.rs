//! The data plane's thread allocates nothing after the start: a counting allocator watches it through reads, buffered
//! reads, sends, cancels, wake-ups, reports and waits.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use channel::{ChannelEnds, connect};
use common::{Bench, CHUNK};
use content::layout::FileAccess;
use dataplane::control::{Command, Event, Report};
use dataplane::gauges::Gauges;
use dataplane::outlet::Outlet;
use dataplane::port::{COMPLETIONS_MAX, FileSlot, Io, ReadRequest, SendRequest, Sharing, SocketSlot, Span, Token};
use dataplane::{Plane, PlaneConfig};
use kernel::permissions::PermissionSubject;
use kernel::{IoConfig, KernelIo};
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, Nanos, StreamId};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it came; the counter is a plain thread-local cell that
// needs no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_counter_counts() {
    let before = COUNT.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(COUNT.get(), before + 2);
}

fn a_working_plane_neither_allocates_nor_frees() {
    let mut bench = Bench::new(8);
    let (direct, _) = common::direct_file(4 * CHUNK);
    let buffered = common::buffered_file(CHUNK).into();
    let (socket, _peer) = common::connection();
    let outlet = Arc::<Outlet>::default();
    let mut completions = Vec::with_capacity(COMPLETIONS_MAX);
    let handle = bench.handle.clone();

    let before = COUNT.get();
    let mut completed = 0;
    for round in 0..50_u64 {
        bench.io.open_file(FileSlot(0), &direct, FileAccess::Direct);
        bench.io.open_file(FileSlot(1), &buffered, FileAccess::Buffered);
        bench.io.open_socket(SocketSlot(0), &socket);
        for chunk in 0..4 {
            let memory = Span { offset: chunk * CHUNK, length: 1 << 20 };
            bench.io.read(ReadRequest {
                token: Token(chunk),
                disk: DiskId(0),
                file: FileSlot(0),
                offset: chunk * CHUNK,
                memory,
            });
        }
        let memory = Span { offset: (4 + round % 2) * CHUNK, length: 1 << 16 };
        bench.io.read(ReadRequest { token: Token(4), disk: DiskId(0), file: FileSlot(1), offset: 0, memory });
        // Some of these are taken at once; when the socket is full, they are cancelled. The next round reads into the
        // memory lent now.
        let memory = Span { offset: (5 - round % 2) * CHUNK, length: 1 << 16 };
        let (token, socket, sharing) = (Token(5), SocketSlot(0), Sharing::Shared);
        bench.io.send(SendRequest { token, socket, memory, then: None, sharing, is_awaited: true });
        bench.io.cancel_send(Token(5), SocketSlot(0));
        bench.io.open_outlet(SocketSlot(1), &outlet);
        bench.send(SocketSlot(1), Token(6), 1 << 16);
        bench.io.cancel_send(Token(6), SocketSlot(1));
        handle.send(Command::Stop(StreamId(round))).unwrap();
        bench.io.report(Report::Event(Event::DiskRecovered { disk: DiskId(0) })).unwrap();
        let goal = completed + 7;
        while completed < goal {
            let until = bench.io.now().saturating_add(Nanos::from_secs(60));
            bench.io.wait(until, &mut completions);
            completed += completions.len();
            completions.clear();
        }
        while bench.io.command().is_some() {}
        let soon = bench.io.now().saturating_add(Nanos::from_micros(100));
        bench.io.wait(soon, &mut completions);
        assert!(completions.is_empty());
        bench.io.close_socket(SocketSlot(0));
        bench.io.close_socket(SocketSlot(1));
        bench.io.close_file(FileSlot(0));
        bench.io.close_file(FileSlot(1));
    }
    assert_eq!(COUNT.get() - before, 0, "allocations and frees on the plane's thread");
    assert_eq!(completed, 350);
    let stats = bench.io.stats();
    let lends = bench.permissions.of(PermissionSubject::Lending).is_some_and(|lending| lending.granted);
    assert!(!lends || (stats.lent_sends > 0 && stats.reclaims > 0), "lending was part of it: {stats:?}");
}

fn the_plane_delivers_and_ends_without_allocating_or_freeing() {
    let ChannelEnds { plane: link, handle, reports, .. } = connect(1).unwrap();
    let io_config = IoConfig { chunk_count: 64, engine: common::engine(), readers: 2, helper_cpus: None };
    let (io, _) = KernelIo::new(&io_config, link).unwrap();
    let config = PlaneConfig::default();
    let gauges = Arc::new(Gauges::new(config.streams_max, 1));
    let links = [BitRate(10_000_000_000)];
    let mut plane = Plane::new(config, vec![DiskProfile::flash_default()], &links, gauges, io);
    let size = 2 * CHUNK + 777;
    // Another thread does the rest: it starts deliveries, reads them, and takes them back when they ended.
    let control = thread::spawn(move || {
        for stream in 1..=6 {
            let (file, direct) = common::direct_file(size);
            let access = if direct { FileAccess::Direct } else { FileAccess::Buffered };
            let (server, mut client) = common::connection();
            handle.send(Command::Start(common::delivery(stream, server, file, access, size, (0, size)))).unwrap();
            if stream == 4 {
                handle.send(Command::Stop(StreamId(stream))).unwrap();
            } else {
                let length = common::HEAD.len() + usize::try_from(size).unwrap();
                client.read_exact(&mut vec![0; length]).unwrap();
            }
            let ended = loop {
                match reports.recv_timeout(Duration::from_secs(60)).expect("the plane answers") {
                    Report::Finished { delivery, .. } | Report::Refused { delivery, .. } => break delivery.stream,
                    _ => {}
                }
            };
            assert_eq!(ended, StreamId(stream));
        }
        handle.send(Command::Shutdown).unwrap();
        // Kept until the plane has ended: a report without a receiver is freed by its sender.
        reports
    });
    let before = COUNT.get();
    plane.run();
    assert_eq!(COUNT.get() - before, 0, "allocations and frees on the plane's thread");
    control.join().unwrap();
}

common::on_both_engines! {
    a_working_plane_neither_allocates_nor_frees,
    the_plane_delivers_and_ends_without_allocating_or_freeing,
}
