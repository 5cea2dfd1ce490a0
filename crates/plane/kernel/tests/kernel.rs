//! [`kernel::KernelIo`] against the real kernel, on both engines: direct reads, sockets, wake-ups, helper threads.

use std::fs::File;
use std::io::Read;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Bench, CHUNK, pattern};
use content::layout::FileAccess;
use dataplane::control::Command;
use dataplane::outlet::Outlet;
use dataplane::port::{Completion, FileSlot, Io, IoFault, ReadRequest, SendRequest, Sharing, SocketSlot, Span, Token};
use storage::grant::{JobId, StoreMessage};
use units::{DiskId, Nanos, StreamId, limits};

fn a_direct_file_is_read() {
    let mut bench = Bench::new(8);
    let Some(file) = crate::common::only_direct_file(3 * CHUNK + 4096) else { return };
    bench.io.open_file(FileSlot(7), &file, FileAccess::Direct);
    for n in 0..4_u64 {
        bench.io.read(ReadRequest {
            token: Token(100 + n),
            disk: DiskId(0),
            file: FileSlot(7),
            offset: n * CHUNK,
            memory: Span { offset: (7 - n) * CHUNK, length: 1 << 20 },
        });
    }
    let mut done = bench.completions(4);
    done.sort_by_key(|c| c.token);
    let bytes: Vec<_> = done.iter().map(|c| c.result).collect();
    assert_eq!(bytes, [Ok(1 << 20), Ok(1 << 20), Ok(1 << 20), Ok(4096)], "the last is cut off by the file's end");
    for n in 0..3 {
        assert!(bench.arena((7 - n) * CHUNK, 1 << 20) == pattern(n * CHUNK, 1 << 20), "chunk {n}");
    }
    bench.io.read(ReadRequest {
        token: Token(1),
        disk: DiskId(0),
        file: FileSlot(7),
        offset: 4 * CHUNK,
        memory: Span { offset: 0, length: 4096 },
    });
    assert_eq!(bench.completions(1)[0].result, Ok(0), "behind the end");
    bench.io.close_file(FileSlot(7));
    assert_eq!(bench.io.stats().buffered_reads, 0);
}

fn a_file_without_direct_io_is_read_by_the_helpers() {
    let mut bench = Bench::new(4);
    // Ordinary page cache, as on tmpfs and network mounts.
    let file = OwnedFd::from(crate::common::buffered_file(2 * CHUNK));
    bench.io.open_file(FileSlot(0), &file, FileAccess::Buffered);
    for n in 0..4_u64 {
        let memory = Span { offset: n * CHUNK, length: 1 << 20 };
        bench.io.read(ReadRequest {
            token: Token(n),
            disk: DiskId(0),
            file: FileSlot(0),
            offset: n * CHUNK / 2,
            memory,
        });
    }
    let done = bench.completions(4);
    for Completion { token, result, .. } in done {
        let expected = if token == Token(3) { 1 << 19 } else { 1 << 20 };
        assert_eq!(result, Ok(expected));
        let length = usize::try_from(expected).unwrap();
        assert!(bench.arena(token.0 * CHUNK, length) == pattern(token.0 * CHUNK / 2, length));
    }
    assert_eq!(bench.io.stats().buffered_reads, 4);
    bench.io.close_file(FileSlot(0));
}

fn a_direct_read_that_the_kernel_refuses_to_start_is_made_by_the_helpers() {
    let mut bench = Bench::new(1);
    // tmpfs and pipes know no RWF_NOWAIT reads; a pipe would block, and the plane must not.
    let (reader, writer) = std::io::pipe().unwrap();
    let reader = OwnedFd::from(reader);
    bench.io.open_file(FileSlot(1), &reader, FileAccess::Direct);
    let memory = Span { offset: 0, length: 4096 };
    bench.io.read(ReadRequest { token: Token(5), disk: DiskId(0), file: FileSlot(1), offset: 0, memory });
    let mut none = Vec::with_capacity(1024);
    let soon = bench.io.now().saturating_add(Nanos::from_millis(20));
    bench.io.wait(soon, &mut none);
    drop(writer);
    if none.is_empty() {
        none = bench.completions(1);
    }
    // A pipe cannot be read at an offset: the point is that a helper reported it, and the plane did not wait.
    assert_eq!(none[0].token, Token(5));
    assert_eq!(bench.io.stats().diverted_reads, 1);
    assert_eq!(none[0].result, Err(IoFault::Device(libc::ESPIPE)));
}

fn a_read_error_is_reported_with_its_number() {
    let mut bench = Bench::new(1);
    let directory = OwnedFd::from(File::open(env!("CARGO_MANIFEST_DIR")).unwrap());
    for (slot, access) in [(FileSlot(0), FileAccess::Direct), (FileSlot(1), FileAccess::Buffered)] {
        bench.io.open_file(slot, &directory, access);
        let memory = Span { offset: 0, length: 4096 };
        bench.io.read(ReadRequest { token: Token(1), disk: DiskId(0), file: slot, offset: 0, memory });
        let result = bench.completions(1)[0].result;
        assert!(matches!(result, Err(IoFault::Device(libc::EISDIR | libc::EINVAL))), "{result:?}");
    }
}

fn a_full_socket_leaves_the_send_pending_until_the_peer_reads() {
    let mut bench = Bench::new(2);
    let (socket, mut peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(3), &socket);
    bench.fill_chunk(0);
    let mut sent = fill_socket(&mut bench, SocketSlot(3));
    // One send is pending now. The peer reads it all, and the send completes.
    let expected_at_least = sent + 1;
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        all
    });
    let pending = bench.completions(1);
    sent += u64::from(pending[0].result.unwrap());
    assert!(sent >= expected_at_least);
    bench.io.close_socket(SocketSlot(3));
    drop(socket);
    let received = reader.join().unwrap();
    assert_eq!(received.len(), usize::try_from(sent).unwrap());
}

fn a_pending_send_can_be_cancelled_and_completes_once() {
    let mut bench = Bench::new(2);
    let (socket, _peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    let ended = loop {
        fill_socket(&mut bench, SocketSlot(0));
        bench.io.cancel_send(Token(77), SocketSlot(0));
        let done = bench.completions(1)[0];
        // The kernel may have found room for some of it meanwhile: then it was not pending any more.
        if done.result.is_err() {
            break done;
        }
    };
    assert_eq!((ended.token, ended.result), (Token(77), Err(IoFault::Cancelled)));
    // Cancelling a completed send is ignored, and leaves no trace.
    bench.io.cancel_send(Token(77), SocketSlot(0));
    bench.assert_quiet();
    bench.io.close_socket(SocketSlot(0));
}

fn a_socket_is_waited_for_without_memory_until_its_peer_reads() {
    let mut bench = Bench::new(2);
    let (socket, mut peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(4), &socket);
    bench.io.await_room(Token(5), SocketSlot(4));
    assert!(bench.completions(1)[0].result.is_ok(), "an empty socket has room");
    bench.fill_chunk(0);
    loop {
        fill_socket(&mut bench, SocketSlot(4));
        bench.io.cancel_send(Token(77), SocketSlot(4));
        if bench.completions(1)[0].result.is_err() {
            break;
        }
    }
    bench.io.await_room(Token(6), SocketSlot(4));
    bench.assert_quiet();
    let reader = thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()).unwrap());
    let room = bench.completions(1)[0];
    assert!(room.token == Token(6) && room.result.is_ok(), "{room:?}");
    bench.io.close_socket(SocketSlot(4));
    drop(socket);
    assert!(reader.join().unwrap() > 0);
}

/// The reader and the plane meet at every point of a send: each completes once, with the bytes that the reader had of it.
fn a_send_to_an_outlet_completes_once_however_it_is_cancelled() {
    const SENDS: u64 = 5_000;
    let mut bench = Bench::new(2);
    bench.fill_chunk(0);
    let outlet = Arc::<Outlet>::default();
    bench.io.open_outlet(SocketSlot(7), &outlet);
    let ended = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let (outlet, ended) = (Arc::clone(&outlet), Arc::clone(&ended));
        move || {
            let mut all = Vec::new();
            while !ended.load(Ordering::Acquire) {
                if !outlet.take(700, &mut all) {
                    thread::yield_now();
                }
            }
            all
        }
    });
    let (mut expected, mut cancelled) = (Vec::new(), 0);
    for n in 0..SENDS {
        let length = u32::try_from(n * 37 % 2100).unwrap();
        let memory = Span { offset: n % 4096, length };
        let (token, socket, sharing) = (Token(n), SocketSlot(7), Sharing::Single);
        bench.io.send(SendRequest { token, socket, memory, then: None, sharing, is_awaited: true });
        for _ in 0..n % 50 {
            std::hint::spin_loop();
        }
        if n % 5 != 0 {
            bench.io.cancel_send(token, socket);
        }
        let done = bench.completions(1)[0];
        assert_eq!(done.token, token);
        match done.result {
            Ok(taken) => expected.extend(pattern(memory.offset, usize::try_from(taken).unwrap())),
            Err(fault) => {
                assert_eq!(fault, IoFault::Cancelled);
                cancelled += 1;
            }
        }
    }
    bench.assert_quiet();
    ended.store(true, Ordering::Release);
    assert!(reader.join().unwrap() == expected, "the reader had what the completions say");
    assert!(cancelled > 0 && cancelled < SENDS, "{cancelled} of them were cancelled before a byte was taken");
}

fn an_outlet_outlives_its_plane() {
    let mut bench = Bench::new(2);
    bench.fill_chunk(0);
    let outlet = Arc::<Outlet>::default();
    bench.io.open_outlet(SocketSlot(0), &outlet);
    bench.send(SocketSlot(0), Token(1), 5000);
    drop(bench);
    let mut bytes = Vec::new();
    assert!(outlet.take(3000, &mut bytes) && !outlet.take(3000, &mut bytes));
    assert_eq!(bytes, pattern(0, 5000));
}

fn a_peer_that_resets_is_gone_also_while_a_send_is_pending() {
    let mut bench = Bench::new(2);
    let (socket, peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    fill_socket(&mut bench, SocketSlot(0));
    // Linger zero: closing resets.
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let pending = bench.completions(1)[0].result;
    // Some of it may have been taken before the reset came; then the next one learns of it.
    let gone = pending.and_then(|_| {
        bench.send(SocketSlot(0), Token(77), 4096);
        bench.completions(1)[0].result
    });
    assert_eq!(gone, Err(IoFault::Gone));
    bench.send(SocketSlot(0), Token(78), 4096);
    assert_eq!(bench.completions(1)[0].result, Err(IoFault::Gone), "and stays gone, without a SIGPIPE");
}

fn a_socket_that_was_shut_down_is_gone() {
    let mut bench = Bench::new(2);
    let (socket, _peer) = crate::common::connection();
    socket2::SockRef::from(&socket).shutdown(Shutdown::Write).unwrap();
    bench.io.open_socket(SocketSlot(9), &socket);
    bench.send(SocketSlot(9), Token(1), 100);
    assert_eq!(bench.completions(1)[0].result, Err(IoFault::Gone));
}

fn a_wait_without_events_ends_at_its_deadline_and_not_before() {
    let mut bench = Bench::new(1);
    bench.settle();
    for millis in [0, 1, 5, 30] {
        let until = bench.io.now().saturating_add(Nanos::from_millis(millis));
        let mut none = Vec::with_capacity(16);
        bench.io.wait(until, &mut none);
        assert!(none.is_empty());
        assert!(bench.io.now() >= until, "{millis} ms");
    }
}

fn commands_and_store_messages_wake_the_plane() {
    let mut bench = Bench::new(1);
    bench.settle();
    let far = bench.io.now().saturating_add(Nanos::from_secs(60));
    let mut none = Vec::with_capacity(16);
    for round in 0..3 {
        let handle = bench.handle.clone();
        let sender = thread::spawn(move || handle.send(Command::Stop(StreamId(round))).unwrap());
        let command = loop {
            if let Some(command) = bench.io.command() {
                break command;
            }
            assert!(bench.io.now() < far, "the wake was lost");
            bench.io.wait(far, &mut none);
        };
        assert!(matches!(command, Command::Stop(StreamId(n)) if n == round));
        sender.join().unwrap();
    }
    let port = bench.stores.pop().unwrap();
    let message = StoreMessage::Withdraw { disk: DiskId(0), job: JobId(4) };
    let store = thread::spawn(move || port.message(message).unwrap());
    let heard = loop {
        if let Some(heard) = bench.io.store_message() {
            break heard;
        }
        assert!(bench.io.now() < far, "the wake was lost");
        bench.io.wait(far, &mut none);
    };
    assert_eq!(heard, message);
    store.join().unwrap();
}

fn literals_reach_the_socket() {
    let mut bench = Bench::new(1);
    let (socket, mut peer) = crate::common::connection();
    let head = b"HTTP/1.1 200 OK\r\n\r\n";
    bench.io.open_socket(SocketSlot(8191), &socket);
    let memory = Span { offset: bench.io.arena_bytes() - 2048, length: u32::try_from(head.len()).unwrap() };
    bench.io.fill(memory, head);
    bench.io.send(SendRequest {
        token: Token(0),
        socket: SocketSlot(8191),
        memory,
        then: None,
        sharing: Sharing::Single,
        is_awaited: true,
    });
    assert_eq!(bench.completions(1)[0].result, Ok(memory.length));
    let mut got = vec![0; head.len()];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(got, head);
}

fn every_slot_can_be_used_at_once_and_again() {
    let mut bench = Bench::new(1);
    let (socket, mut peer) = crate::common::connection();
    let streams = u32::try_from(limits::STREAMS_MAX).unwrap();
    for _ in 0..2 {
        (0..streams).for_each(|slot| bench.io.open_socket(SocketSlot(slot), &socket));
        // More requests than the submission queue holds, one byte each.
        (0..streams).for_each(|slot| bench.send(SocketSlot(slot), Token(slot.into()), 1));
        let mut tokens: Vec<u64> = bench.completions(limits::STREAMS_MAX).iter().map(|c| c.token.0).collect();
        tokens.sort_unstable();
        assert!(tokens.iter().copied().eq(0..u64::from(streams)), "each exactly once");
        (0..streams).for_each(|slot| bench.io.close_socket(SocketSlot(slot)));
        let mut all = vec![0; limits::STREAMS_MAX];
        peer.read_exact(&mut all).unwrap();
    }
    assert_eq!(bench.io.stats().lost_completions, 0);
}

fn dropping_with_sends_pending_lets_go_of_everything() {
    let mut bench = Bench::new(2);
    let (socket, _peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    fill_socket(&mut bench, SocketSlot(0));
    let handle = bench.handle.clone();
    drop(bench);
    assert!(handle.is_closed());
    assert!(socket.as_raw_fd() >= 0);
}

/// Sends until a send stays pending (token 77); returns how many bytes the socket took before.
fn fill_socket(bench: &mut Bench, slot: SocketSlot) -> u64 {
    let mut sent = 0;
    loop {
        bench.send(slot, Token(77), 1 << 20);
        match bench.try_completion() {
            Some(done) => sent += u64::from(done.result.unwrap()),
            None => return sent,
        }
    }
}

crate::common::on_both_engines! {
    a_direct_file_is_read,
    a_file_without_direct_io_is_read_by_the_helpers,
    a_direct_read_that_the_kernel_refuses_to_start_is_made_by_the_helpers,
    a_read_error_is_reported_with_its_number,
    a_full_socket_leaves_the_send_pending_until_the_peer_reads,
    a_pending_send_can_be_cancelled_and_completes_once,
    a_socket_is_waited_for_without_memory_until_its_peer_reads,
    a_send_to_an_outlet_completes_once_however_it_is_cancelled,
    an_outlet_outlives_its_plane,
    a_peer_that_resets_is_gone_also_while_a_send_is_pending,
    a_socket_that_was_shut_down_is_gone,
    a_wait_without_events_ends_at_its_deadline_and_not_before,
    commands_and_store_messages_wake_the_plane,
    literals_reach_the_socket,
    every_slot_can_be_used_at_once_and_again,
    dropping_with_sends_pending_lets_go_of_everything,
}
