//! The plane's thread as it is started in earnest: its permissions, its reports of them, and io-wq asleep.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::skip::skipped;
use crate::common::{CHUNK, connection, only_direct_file};
use channel::{ChannelEnds, connect};
use content::layout::FileAccess;
use dataplane::control::{Command, Event, Report};
use dataplane::port::{COMPLETIONS_MAX, FileSlot, Io, ReadRequest, SendRequest, Sharing, SocketSlot, Span, Token};
use kernel::EngineChoice;
use kernel::permissions::PermissionSubject;
use kernel::thread::{ThreadConfig, check, cpus, punted_workers, start};
use units::{DiskId, Nanos};

const LONG: Duration = Duration::from_secs(60);

fn config() -> ThreadConfig {
    let (engine, cpu) = (EngineChoice::Auto, cpus().unwrap().pop());
    ThreadConfig { chunk_count: 64, engine, cpu, priority: Some(10), readers: 2 }
}

#[test]
fn reads_and_sends_in_earnest_wake_no_worker_of_io_wq() {
    let ChannelEnds { plane, handle, reports, .. } = connect(1).unwrap();
    let Some(file) = only_direct_file(64 * CHUNK) else { return };
    let sockets: Vec<_> = (0..64).map(|_| connection()).collect();
    let (servers, peers): (Vec<_>, Vec<_>) = sockets.into_iter().unzip();
    let (worked, seen) = mpsc::channel();
    let running = start(ThreadConfig { engine: EngineChoice::IoUring, ..config() }, plane, move |mut io| {
        io.open_file(FileSlot(0), &file, FileAccess::Direct);
        let mut completions = Vec::with_capacity(COMPLETIONS_MAX);
        for (socket, server) in (0..).zip(&servers) {
            io.open_socket(SocketSlot(socket), server);
        }
        // Sockets fill up and stay pending; the file is read through, a few chunks at a time.
        let mut reads = 0;
        for round in 0..16_u64 {
            for n in 0..4 {
                let offset = (round * 4 + n) * CHUNK;
                // The first chunks have memory from the start.
                let memory = Span { offset: offset % (32 * CHUNK), length: 1 << 20 };
                io.read(ReadRequest { token: Token(1 << 32 | n), disk: DiskId(0), file: FileSlot(0), offset, memory });
            }
            if round == 0 {
                for socket in 0..64 {
                    let memory = Span { offset: 0, length: 1 << 20 };
                    io.send(SendRequest {
                        token: Token(socket.into()),
                        socket: SocketSlot(socket),
                        memory,
                        then: None,
                        sharing: Sharing::Single,
                        is_awaited: true,
                    });
                }
            }
            while reads < (round + 1) * 4 {
                let until = io.now().saturating_add(Nanos::from_secs(60));
                io.wait(until, &mut completions);
                for done in completions.drain(..) {
                    if done.token.0 >> 32 == 1 {
                        assert_eq!(done.result, Ok(1 << 20));
                        reads += 1;
                    } else {
                        assert!(done.result.unwrap() > 0);
                        let socket = u32::try_from(done.token.0).unwrap();
                        let memory = Span { offset: 0, length: 1 << 20 };
                        io.send(SendRequest {
                            token: done.token,
                            socket: SocketSlot(socket),
                            memory,
                            then: None,
                            sharing: Sharing::Single,
                            is_awaited: true,
                        });
                    }
                }
            }
        }
        worked.send(io.stats()).unwrap();
        io.report(Report::Event(Event::DiskRecovered { disk: DiskId(9) })).unwrap();
        // As the real loop: until the order to end.
        loop {
            match io.command() {
                Some(Command::Shutdown) => return,
                Some(_) => {}
                None => io.wait(Nanos::MAX, &mut completions),
            }
            completions.clear();
        }
    })
    .unwrap();
    let stats = seen.recv_timeout(LONG).unwrap();
    assert!(matches!(running.punted_workers().unwrap(), Some(0) | None), "{stats:?}");
    assert_eq!((stats.buffered_reads, stats.lost_completions), (0, 0));
    assert!(matches!(reports.recv_timeout(LONG), Some(Report::Event(Event::DiskRecovered { disk: DiskId(9) }))));
    handle.send(Command::Shutdown).unwrap();
    running.join().unwrap();
    assert!(handle.is_closed());
    drop(peers);
}

#[test]
fn each_permission_is_reported_in_a_sentence() {
    let permissions = check(config()).unwrap();
    for subject in [
        PermissionSubject::Engine,
        PermissionSubject::OpenFiles,
        PermissionSubject::LockedMemory,
        PermissionSubject::HugePages,
        PermissionSubject::Lending,
        PermissionSubject::RealTime,
        PermissionSubject::Processor,
    ] {
        let said = permissions.of(subject).unwrap_or_else(|| panic!("nothing was said of {subject:?}"));
        assert!(!said.sentence.is_empty());
    }
    assert!(permissions.of(PermissionSubject::Processor).unwrap().granted, "{permissions}");
}

#[test]
fn the_plane_runs_without_a_refused_permission() {
    let impossible = ThreadConfig { cpu: Some(100_000), priority: Some(100), ..config() };
    let permissions = check(impossible).unwrap();
    let cpu = permissions.of(PermissionSubject::Processor).unwrap();
    assert!(!cpu.granted && cpu.sentence.contains("100000"), "{}", cpu.sentence);
    let priority = permissions.of(PermissionSubject::RealTime).unwrap();
    assert!(!priority.granted && priority.sentence.contains("1 and 99"), "{}", priority.sentence);
}

#[test]
fn too_much_memory_is_refused_with_advice() {
    let error = check(ThreadConfig { chunk_count: u32::MAX, ..config() }).unwrap_err();
    assert!(error.to_string().contains("less memory"), "{error}");
}

#[test]
fn the_count_of_workers_sees_one_when_there_is_one() {
    let me = rustix::thread::gettid();
    if punted_workers(me).unwrap().is_none() {
        return skipped("in a container the names of io-wq's workers do not tell whose they are");
    }
    // A read of an empty pipe that is forced onto io-wq: its worker waits there until a byte is written.
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut ring = io_uring::IoUring::new(2).unwrap();
    let mut byte = [0_u8; 1];
    let read = io_uring::opcode::Read::new(io_uring::types::Fd(reader.as_raw_fd()), byte.as_mut_ptr(), 1).build();
    // SAFETY: the buffer lives until the completion was seen below.
    unsafe { ring.submission().push(&read.flags(io_uring::squeue::Flags::ASYNC)).unwrap() };
    ring.submit().unwrap();
    let started = Instant::now();
    // The worker names itself when it first runs.
    while punted_workers(me).unwrap() == Some(0) {
        assert!(started.elapsed() < LONG, "no worker was seen");
        std::thread::yield_now();
    }
    writer.write_all(b"x").unwrap();
    ring.submit_and_wait(1).unwrap();
    assert_eq!(ring.completion().next().unwrap().result(), 1);
    assert_eq!(byte, *b"x");
}
