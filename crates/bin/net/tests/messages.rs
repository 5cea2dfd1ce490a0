//! Messages between two ends of real sockets: order, coalescing, flow control, reconnection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use net::{
    Coalescing, Connection, Listener, Numbered, Receiver, Reconnecting, SharedSecret, Transport, Urgency, parse_address,
};
use tempfile::TempDir;

const WITHIN: Duration = Duration::from_secs(5);
/// Longer than any test: a message that waits this long leaves for another reason.
const LONG: Duration = Duration::from_secs(3600);

fn place(folder: &TempDir) -> Box<dyn Transport> {
    parse_address(&format!("unix:{}/s", folder.path().display())).expect("an address")
}

fn accepted(listener: &Listener, token: Option<&SharedSecret>) -> Connection {
    let socket = listener.accept().expect("somebody calls");
    let numbered = net::greeting::answer(&socket, token).expect("one of ours");
    Connection::over(socket, Coalescing::NONE, numbered).expect("a thread")
}

/// Both ends of a connection.
fn connected(coalescing: Coalescing) -> (Connection, Connection) {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Listener::bind(place(&folder).into(), None).expect("listens");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| accepted(&listener, None));
        let numbered = Numbered::new().expect("random bytes");
        let ours = Connection::open(&*place(&folder), None, coalescing, WITHIN, numbered).expect("connects");
        (ours, other.join().expect("no panic"))
    })
}

fn number(receiver: &mut Receiver) -> Option<u64> {
    let message = receiver.receive().expect("in order")?;
    Some(u64::from_le_bytes(message[..8].try_into().expect("8 bytes")))
}

#[test]
fn messages_arrive_whole_and_in_order_in_far_fewer_sends() {
    const COUNT: u64 = 50_000;
    let (ours, mut other) = connected(Coalescing::within(LONG));
    std::thread::scope(|scope| {
        let sender = ours.sender;
        scope.spawn(move || {
            for n in 0..COUNT {
                let mut message = vec![0; 8 + usize::try_from(n % 100).expect("small")];
                message[..8].copy_from_slice(&n.to_le_bytes());
                // Urgent ones do not overtake.
                let urgency = if n % 10_000 == 7 { Urgency::Now } else { Urgency::MayWait };
                sender.send(&message, urgency).expect("the other side reads");
            }
            let stats = sender.finish().expect("not broken");
            assert_eq!(stats.messages, COUNT);
            assert!(stats.sends < COUNT / 500, "{} sends", stats.sends);
        });
        for n in 0..COUNT {
            assert_eq!(number(&mut other.receiver), Some(n));
        }
        assert_eq!(number(&mut other.receiver), None, "the end is told");
    });
}

#[test]
fn a_lonely_message_leaves_when_its_time_is_over() {
    let (ours, mut other) = connected(Coalescing::within(Duration::from_millis(2)));
    for n in 0..20_u64 {
        ours.sender.send(&n.to_le_bytes(), Urgency::MayWait).expect("sent");
        // Nothing else is sent before this one has come.
        assert_eq!(number(&mut other.receiver), Some(n));
    }
    let stats = ours.sender.finish().expect("not broken");
    assert_eq!(stats.sends, 20);
    assert!(stats.waited_us.min() >= 1_750, "each was kept for others: {} µs", stats.waited_us.min());
}

#[test]
fn a_slow_receiver_holds_the_sender_and_loses_nothing() {
    const COUNT: u64 = 4096;
    let (ours, mut other) = connected(Coalescing::NONE);
    let sent = AtomicU64::new(0);
    let sender = ours.sender;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..COUNT {
                let mut message = vec![0; 16 << 10];
                message[..8].copy_from_slice(&n.to_le_bytes());
                sender.send(&message, Urgency::MayWait).expect("sent");
                sent.store(n + 1, Ordering::Relaxed);
            }
        });
        // 64 MiB are far more than sockets keep: the count comes to rest before its end.
        let mut last = 0;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = sent.load(Ordering::Relaxed);
            if now == last && now > 0 {
                break;
            }
            last = now;
        }
        assert!(last < COUNT / 2, "{last} messages were kept somewhere");
        for n in 0..COUNT {
            assert_eq!(number(&mut other.receiver), Some(n));
        }
    });
}

#[test]
fn a_receiver_counts_lost_messages_after_a_break() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Listener::bind(place(&folder).into(), None).expect("listens");
    let token = SharedSecret::new("a token of some length").expect("long enough");
    let mut to_node = Reconnecting::new(place(&folder), Some(token.clone()), Coalescing::NONE).expect("random bytes");
    std::thread::scope(|scope| {
        let (go_on, until) = std::sync::mpsc::channel();
        let (listener, token) = (&listener, &token);
        let node = scope.spawn(move || {
            let mut first = accepted(listener, Some(token));
            assert_eq!(number(&mut first.receiver), Some(0));
            let session = first.numbered.session;
            drop(first);
            go_on.send(()).expect("the test waits");
            let mut second = accepted(listener, Some(token));
            assert_eq!(second.numbered.session, session);
            let first_again = second.numbered.first;
            assert_eq!(number(&mut second.receiver), Some(first_again), "the number tells which message comes");
            first_again
        });
        to_node.send(&0_u64.to_le_bytes(), Urgency::Now).expect("connects");
        until.recv().expect("the node has gone");
        let mut n = 1_u64;
        while !node.is_finished() {
            // The kernel may take one or two before it knows; those are lost, and counted.
            let sent = to_node.send(&n.to_le_bytes(), Urgency::Now);
            assert!(sent.is_ok() || node.is_finished(), "the node is back at once: {sent:?}");
            n += 1;
        }
        assert!((1..n).contains(&node.join().expect("no panic")));
    });
}

#[test]
fn an_absent_peer_is_not_dialled_again_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut nobody = Reconnecting::new(place(&folder), None, Coalescing::NONE).expect("random bytes");
    assert!(nobody.send(b"hello", Urgency::Now).expect_err("away").to_string().contains("cannot be reached"));
    assert!(nobody.send(b"hello", Urgency::Now).expect_err("a pause").to_string().contains("tried again"));
    assert!(nobody.send(b"", Urgency::Now).is_err());
}
