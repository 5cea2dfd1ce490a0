//! Zero-copy sends: tried once per route, given up where the kernel copies, and no byte is wrong either way.

mod common;

use std::io::Read;

use common::Bench;
use dataplane::port::{Io, SendRequest, Sharing, SocketSlot, Span, Token};

fn send(bench: &mut Bench, socket: u32, memory: Span) -> usize {
    let request =
        SendRequest { token: Token(2), socket: SocketSlot(socket), memory, then: None, sharing: Sharing::Single };
    bench.io.send(request);
    let done = bench.completions(1)[0];
    assert_eq!(done.token, Token(2));
    usize::try_from(done.result.expect("the peer is there")).expect("usize holds a u32")
}

/// Loopback copies: one send finds out, for all sockets of the route.
#[test]
fn a_route_that_copies_is_found_by_its_first_send_and_never_tried_again() {
    let mut bench = Bench::new(2);
    bench.fill_chunk(0);
    let memory = Span { offset: 0, length: 60_000 };
    let expected = bench.arena(0, 60_000);
    for socket in 0..3 {
        let (ours, mut peer) = common::connection();
        bench.io.open_socket(SocketSlot(socket), &ours);
        for _ in 0..4 {
            let sent = send(&mut bench, socket, memory);
            let mut taken = vec![0; sent];
            peer.read_exact(&mut taken).expect("all that was sent");
            assert!(taken == expected[..sent], "what was sent is what arrives");
        }
        bench.io.close_socket(SocketSlot(socket));
    }
    let stats = bench.io.stats();
    assert_eq!((stats.zero_copy_sends, stats.zero_copy_copied), (1, 1), "{stats:?}");
}

#[test]
fn small_sends_are_copied_without_asking() {
    let mut bench = Bench::new(2);
    let (ours, mut peer) = common::connection();
    bench.io.open_socket(SocketSlot(0), &ours);
    let sent = send(&mut bench, 0, Span { offset: 0, length: 8_000 });
    peer.read_exact(&mut vec![0; sent]).expect("all that was sent");
    assert_eq!(bench.io.stats().zero_copy_sends, 0);
    bench.io.close_socket(SocketSlot(0));
}

/// A peer that reads nothing acknowledges nothing beyond its window: the memory is the kernel's until the send is
/// cancelled, and then it comes back at once and once.
#[test]
fn memory_that_a_peer_does_not_acknowledge_comes_back_when_the_send_is_cancelled() {
    let mut bench = Bench::new(2);
    let (ours, peer) = common::connection();
    bench.io.open_socket(SocketSlot(0), &ours);
    bench.send(SocketSlot(0), Token(7), 1 << 20);
    if let Some(done) = bench.try_completion() {
        assert_eq!(done.token, Token(7), "this kernel let go at once");
    } else {
        bench.io.cancel_send(Token(7));
        assert_eq!(bench.completions(1)[0].token, Token(7));
    }
    bench.io.cancel_send(Token(7));
    bench.assert_quiet();
    bench.io.close_socket(SocketSlot(0));
    drop(peer);
}
