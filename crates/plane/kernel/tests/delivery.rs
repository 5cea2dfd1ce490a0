//! The thinnest real path: the data plane's loop on the kernel, from a file on disk to a socket.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{CHUNK, HEAD, connection, delivery, pattern};
use channel::{ChannelEnds, ReportReceiver, connect};
use content::layout::FileAccess;
use dataplane::control::{Command, Delivery, Outcome, Report};
use dataplane::gauges::Gauges;
use dataplane::{Plane, PlaneConfig};
use kernel::thread::{PlaneThread, start};
use schedule::profile::DiskProfile;
use units::{BitRate, StreamId};

const LONG: Duration = Duration::from_secs(60);

/// A plane over one flash disk and one fast link, on a thread of its own.
fn plane(link: channel::PlaneLink) -> PlaneThread {
    let config = kernel::thread::ThreadConfig {
        chunk_count: 64,
        engine: crate::common::engine(),
        cpu: None,
        priority: None,
        readers: 2,
    };
    start(config, link, |io| {
        let config = PlaneConfig::default();
        let gauges = Arc::new(Gauges::new(config.streams_max, 1));
        let links = [BitRate(10_000_000_000)];
        Plane::new(config, vec![DiskProfile::flash_default()], &links, gauges, io).run();
    })
    .unwrap()
}

/// Waits for the end of a delivery, past its start.
fn finished(reports: &ReportReceiver) -> (Box<Delivery>, dataplane::control::Ending) {
    loop {
        match reports.recv_timeout(LONG).expect("the plane answers") {
            Report::Finished { delivery, end } => return (delivery, end),
            Report::Refused { refusal, .. } => panic!("refused: {refusal:?}"),
            _ => {}
        }
    }
}

fn a_range_of_a_file_reaches_the_socket_byte_for_byte_and_the_socket_comes_back() {
    let ChannelEnds { plane: link, handle, reports, .. } = connect(1).unwrap();
    let running = plane(link);
    let size = 5 * CHUNK + 777;
    for (stream, buffered) in [(1, false), (2, true)] {
        let (file, direct) = if buffered {
            (OwnedFd::from(crate::common::buffered_file(size)), false)
        } else {
            crate::common::direct_file(size)
        };
        let access = if direct { FileAccess::Direct } else { FileAccess::Buffered };
        let (server, mut client) = connection();
        let (offset, length) = (12_345, size - 12_345);
        handle.send(Command::Start(delivery(stream, server, file, access, size, (offset, length)))).unwrap();
        let body = usize::try_from(length).unwrap();
        let reader = thread::spawn(move || {
            let mut all = vec![0; HEAD.len() + body];
            client.read_exact(&mut all).unwrap();
            (all, client)
        });
        let (back, end) = finished(&reports);
        assert_eq!((back.stream, end.outcome), (StreamId(stream), Outcome::Complete));
        assert_eq!(end.sent_bytes, length + u64::try_from(HEAD.len()).unwrap());
        let (all, mut client) = reader.join().unwrap();
        assert!(all.starts_with(HEAD) && all[HEAD.len()..] == pattern(offset, body), "{access:?}");
        // The socket is ours again; closing it is the end of the connection.
        drop(back);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
    handle.send(Command::Shutdown).unwrap();
    running.join().unwrap();
    assert!(reports.is_closed());
}

fn a_client_that_leaves_ends_its_delivery() {
    let ChannelEnds { plane: link, handle, reports, .. } = connect(1).unwrap();
    let running = plane(link);
    let size = 4 * CHUNK;
    let (file, direct) = crate::common::direct_file(size);
    let access = if direct { FileAccess::Direct } else { FileAccess::Buffered };
    let (server, client) = connection();
    handle.send(Command::Start(delivery(7, server, file, access, size, (0, size)))).unwrap();
    assert!(matches!(reports.recv_timeout(LONG), Some(Report::Started { .. })));
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_eq!(finished(&reports).1.outcome, Outcome::ClientGone);
    handle.send(Command::Shutdown).unwrap();
    running.join().unwrap();
}

crate::common::on_both_engines! {
    a_range_of_a_file_reaches_the_socket_byte_for_byte_and_the_socket_comes_back,
    a_client_that_leaves_ends_its_delivery,
}
