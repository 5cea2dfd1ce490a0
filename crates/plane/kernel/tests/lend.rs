//! Memory lent to sockets: bytes that were sent stay as they were, though the plane reads into their place again before
//! the peer has taken them.

use std::io::Read;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use crate::common::{Bench, CHUNK, pattern};
use content::layout::FileAccess;
use dataplane::port::{FileSlot, Io, IoFault, ReadRequest, SendRequest, Sharing, SocketSlot, Span, Token};
use kernel::permissions::PermissionSubject;
use units::DiskId;

const QUARTER: u64 = CHUNK / 4;
const FILE: FileSlot = FileSlot(0);

/// None where the kernel lends nothing, by its own report.
fn lending_bench(chunks: u32) -> Option<Bench> {
    let bench = Bench::new(chunks);
    let lending = bench.permissions.of(PermissionSubject::Lending).expect("it is always said");
    if !lending.granted {
        crate::common::skip::skipped(&lending.sentence);
    }
    lending.granted.then_some(bench)
}

fn bench_with_file(chunks: u32) -> Option<(Bench, OwnedFd)> {
    let mut bench = lending_bench(chunks)?;
    let file = crate::common::only_direct_file(16 * CHUNK)?;
    bench.io.open_file(FILE, &file, FileAccess::Direct);
    Some((bench, file))
}

fn read(bench: &mut Bench, offset: u64, memory: Span) {
    bench.io.read(ReadRequest { token: Token(1), disk: DiskId(0), file: FILE, offset, memory });
    assert_eq!(bench.completions(1)[0].result, Ok(memory.length));
}

fn send(bench: &mut Bench, socket: SocketSlot, memory: Span, sharing: Sharing) -> usize {
    bench.io.send(SendRequest { token: Token(2), socket, memory, then: None, sharing, is_awaited: true });
    usize::try_from(bench.completions(1)[0].result.expect("the peer is there")).expect("usize holds a u32")
}

fn taken(peer: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    peer.read_exact(&mut bytes).expect("all that was sent");
    bytes
}

/// A small arena, recycled hundreds of times; each peer has unread bytes while the places they came from are read into
/// again, by whole quarters, by pieces, and at changing places in the file.
fn lent_bytes_in_a_socket_survive_reuse_of_their_memory() {
    let Some((mut bench, _file)) = bench_with_file(2) else { return };
    let mut peers = vec![];
    for slot in 0..4 {
        let (socket, peer) = crate::common::connection();
        bench.io.open_socket(SocketSlot(slot), &socket);
        peers.push((socket, peer));
    }
    let (places, mut seed) = (2 * 4, 7_u64);
    for round in 0..400_u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (seed >> 33) % places * QUARTER;
        let offset = (seed >> 40) % (15 * 256) * 4096;
        let pieces = 1 + round % 2; // as a guaranteed stream reads, and as a best-effort one
        for piece in 0..pieces {
            let length = QUARTER / pieces;
            let memory = Span { offset: place + piece * length, length: u32::try_from(length).unwrap() };
            read(&mut bench, offset + piece * length, memory);
        }
        // Not whole pages, as ticks are not.
        let memory = Span { offset: place + round % 5000, length: 60_000 };
        let expected = pattern(offset + round % 5000, 60_000);
        let sent: Vec<usize> = (0..4).map(|slot| send(&mut bench, SocketSlot(slot), memory, Sharing::Shared)).collect();
        // The place it lay in is read into before the peers take it.
        let (other, first_page) = ((offset + 9 * CHUNK / 2) % (15 * CHUNK), Span { offset: place, length: 4096 });
        if round % 3 == 0 {
            read(&mut bench, other, first_page);
        }
        read(&mut bench, other, Span { offset: place, length: u32::try_from(QUARTER).unwrap() });
        let there = usize::try_from(QUARTER).unwrap();
        assert!(bench.arena(place, there) == pattern(other, there), "round {round}: what was read is there");
        for ((_, peer), sent) in peers.iter_mut().zip(sent) {
            assert!(taken(peer, sent) == expected[..sent], "round {round}: what was sent is what arrives");
        }
    }
    let stats = bench.io.stats();
    assert!(stats.lent_sends > 400 && stats.reclaims > 100, "the test is about lent memory: {stats:?}");
    (0..4).for_each(|slot| bench.io.close_socket(SocketSlot(slot)));
}

/// The same without a read in between: bytes written into lent memory by hand, which a plane never does to a chunk, do
/// arrive changed. So the test above would see a read into memory that was not replaced.
fn a_canary_that_writes_into_lent_memory_is_seen() {
    let Some((mut bench, _file)) = bench_with_file(2) else { return };
    let (socket, mut peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    let memory = Span { offset: 0, length: 60_000 };
    for (sharing, changed) in [(Sharing::Shared, true), (Sharing::Single, false)] {
        read(&mut bench, 0, Span { offset: 0, length: 1 << 20 });
        let sent = send(&mut bench, SocketSlot(0), memory, sharing);
        bench.io.fill(Span { offset: 0, length: 2048 }, &[255; 2048]);
        let got = taken(&mut peer, sent);
        assert_eq!(got != pattern(0, 60_000)[..sent], changed, "{sharing:?}");
    }
    assert_eq!(bench.io.stats().lent_sends, 1);
    bench.io.close_socket(SocketSlot(0));
}

fn a_full_socket_gets_the_rest_in_the_ordinary_way_and_nothing_is_lost() {
    let Some((mut bench, _file)) = bench_with_file(2) else { return };
    let (socket, mut peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    read(&mut bench, 0, Span { offset: 0, length: 1 << 20 });
    let whole = Span { offset: 0, length: 1 << 20 };
    let mut lengths = vec![];
    // Until a send stays pending.
    loop {
        bench.io.send(SendRequest {
            token: Token(2),
            socket: SocketSlot(0),
            memory: whole,
            then: None,
            sharing: Sharing::Shared,
            is_awaited: true,
        });
        let Some(done) = bench.try_completion() else { break };
        lengths.push(usize::try_from(done.result.unwrap()).unwrap());
    }
    assert!(bench.io.stats().lent_sends >= 1);
    for &length in &lengths {
        assert!(taken(&mut peer, length) == pattern(0, length));
    }
    let last = usize::try_from(bench.completions(1)[0].result.unwrap()).unwrap();
    assert!(taken(&mut peer, last) == pattern(0, last), "the pending one");
    bench.io.close_socket(SocketSlot(0));
}

fn two_places_go_out_in_one_send_as_far_as_the_socket_has_room() {
    let Some((mut bench, _file)) = bench_with_file(2) else { return };
    let (socket, mut peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    let place = |n: u64| Span { offset: n * QUARTER, length: u32::try_from(QUARTER).unwrap() };
    read(&mut bench, 0, place(5));
    read(&mut bench, QUARTER, place(2));
    // The end of one place and the start of another are neighbours in the content.
    let memory = Span { offset: place(5).offset + QUARTER - 30_000, length: 30_000 };
    let expected = pattern(QUARTER - 30_000, 30_000 + 25_000);
    for (sharing, least) in [(Sharing::Shared, 55_000), (Sharing::Single, 30_000)] {
        let then = Some(Span { length: 25_000, ..place(2) });
        bench.io.send(SendRequest { token: Token(2), socket: SocketSlot(0), memory, then, sharing, is_awaited: true });
        let sent = usize::try_from(bench.completions(1)[0].result.unwrap()).unwrap();
        assert_eq!(sent, least, "{sharing:?}: nothing else is in the socket");
        assert!(taken(&mut peer, sent) == expected[..sent], "{sharing:?}");
    }
    // Both are replaced before they are read into: the bytes that wait in the socket stay as they are.
    let then = Some(Span { length: 25_000, ..place(2) });
    let (token, socket) = (Token(2), SocketSlot(0));
    bench.io.send(SendRequest { token, socket, memory, then, sharing: Sharing::Shared, is_awaited: true });
    let sent = usize::try_from(bench.completions(1)[0].result.unwrap()).unwrap();
    read(&mut bench, 3 * CHUNK, place(5));
    read(&mut bench, 3 * CHUNK, place(2));
    assert!(taken(&mut peer, sent) == expected[..sent]);
    assert_eq!((bench.io.stats().lent_sends, bench.io.stats().reclaims), (2, 2));
    bench.io.close_socket(socket);
}

fn a_vanished_peer_is_an_error_and_blocking_sockets_get_copies() {
    let Some((mut bench, _file)) = bench_with_file(1) else { return };
    read(&mut bench, 0, Span { offset: 0, length: 1 << 20 });
    let memory = Span { offset: 0, length: 4096 };
    let (socket, _peer) = crate::common::connection();
    socket2::SockRef::from(&socket).shutdown(std::net::Shutdown::Write).unwrap();
    bench.io.open_socket(SocketSlot(0), &socket);
    bench.io.send(SendRequest {
        token: Token(2),
        socket: SocketSlot(0),
        memory,
        then: None,
        sharing: Sharing::Shared,
        is_awaited: true,
    });
    assert_eq!(bench.completions(1)[0].result, Err(IoFault::Gone));
    let before = bench.io.stats().lent_sends;
    let (blocking, mut peer) = crate::common::connection();
    socket2::SockRef::from(&blocking).set_nonblocking(false).unwrap();
    bench.io.open_socket(SocketSlot(1), &blocking);
    let sent = send(&mut bench, SocketSlot(1), memory, Sharing::Shared);
    assert!(taken(&mut peer, sent) == pattern(0, sent));
    assert_eq!(bench.io.stats().lent_sends, before);
    (0..2).for_each(|slot| bench.io.close_socket(SocketSlot(slot)));
}

fn buffered_reads_replace_too() {
    let Some(mut bench) = lending_bench(2) else { return };
    let file = OwnedFd::from(crate::common::buffered_file(4 * CHUNK));
    bench.io.open_file(FILE, &file, FileAccess::Buffered);
    let (socket, mut peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    for round in 0..64_u64 {
        let place = Span { offset: round % 8 * QUARTER, length: u32::try_from(QUARTER).unwrap() };
        read(&mut bench, 0, place);
        let sent = send(&mut bench, SocketSlot(0), Span { length: 30_000, ..place }, Sharing::Shared);
        read(&mut bench, CHUNK, place);
        assert!(taken(&mut peer, sent) == pattern(0, sent), "round {round}");
    }
    let stats = bench.io.stats();
    assert_eq!((stats.lent_sends, stats.reclaims), (64, 64));
    bench.io.close_socket(SocketSlot(0));
}

/// Sixteen chunks are eight huge pages, of which the memory of one may be lent in scattered parts. A page that was lent
/// once can be lent again, and a huge page of which all was lent does not count.
fn memory_beyond_the_arena_is_bounded() {
    let Some((mut bench, _file)) = bench_with_file(16) else { return };
    let (socket, mut peer) = crate::common::connection();
    bench.io.open_socket(SocketSlot(0), &socket);
    let mut lent = |place: u64| {
        let before = bench.io.stats().lent_sends;
        let memory = Span { offset: place * QUARTER, length: u32::try_from(QUARTER).unwrap() };
        let mut sent = 0;
        // The socket may take it in parts, all by reference or all copied.
        while sent < QUARTER {
            let rest = Span { offset: memory.offset + sent, length: u32::try_from(QUARTER - sent).unwrap() };
            let some = send(&mut bench, SocketSlot(0), rest, Sharing::Shared);
            taken(&mut peer, some);
            sent += u64::try_from(some).unwrap();
        }
        bench.io.stats().lent_sends > before
    };
    let scattered: Vec<u64> = (0..8).map(|huge| huge * 8).collect();
    assert!(scattered.iter().all(|&place| lent(place)));
    assert!(!lent(1), "one more would be too much");
    assert!(scattered.iter().all(|&place| lent(place)), "again costs nothing");
}

crate::common::on_both_engines! {
    lent_bytes_in_a_socket_survive_reuse_of_their_memory,
    a_canary_that_writes_into_lent_memory_is_seen,
    a_full_socket_gets_the_rest_in_the_ordinary_way_and_nothing_is_lost,
    two_places_go_out_in_one_send_as_far_as_the_socket_has_room,
    a_vanished_peer_is_an_error_and_blocking_sockets_get_copies,
    buffered_reads_replace_too,
    memory_beyond_the_arena_is_bounded,
}
