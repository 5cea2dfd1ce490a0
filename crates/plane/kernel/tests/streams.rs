//! The whole data plane on the real kernel: a file, its streams, real sockets, the bytes compared.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use channel::{PlaneHandle, ReportReceiver, connect};
use content::layout::{ContentLayout, FileAccess};
use content::{Content, Segment};
use dataplane::control::{Command, Delivery, DeliveryDestination, Outcome, Report, Resource, Service};
use dataplane::gauges::Gauges;
use dataplane::outlet::Outlet;
use dataplane::{Plane, PlaneConfig};
use kernel::thread::PlaneThread;
use schedule::profile::DiskProfile;
use units::{BitRate, ContentVersion, DiskId, LinkId, Nanos, StreamId};

struct Server {
    handle: PlaneHandle,
    reports: ReportReceiver,
    thread: Option<PlaneThread>,
    gauges: Arc<Gauges>,
}

impl Server {
    fn start(profile: DiskProfile, chunk_count: u32, config: PlaneConfig) -> Self {
        let links = connect(1).expect("queues");
        let gauges = Arc::new(Gauges::new(config.streams_max, 1));
        let shared = Arc::clone(&gauges);
        let plane = kernel::thread::ThreadConfig {
            chunk_count,
            engine: crate::common::engine(),
            cpu: None,
            priority: None,
            readers: 2,
        };
        let thread = kernel::thread::start(plane, links.plane, move |io| {
            Plane::new(config, vec![profile], &[BitRate(10_000_000_000)], shared, io).run();
        })
        .expect("io_uring is needed for these tests");
        Self { handle: links.handle, reports: links.reports, thread: Some(thread), gauges }
    }

    fn report(&self) -> Report {
        loop {
            match self.reports.recv_timeout(Duration::from_secs(60)).expect("a report in time") {
                Report::Event(_) | Report::Unused(_) | Report::Kept(_) | Report::Profiled { .. } => {}
                report => return report,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        assert!(self.handle.send(Command::Shutdown).is_ok(), "the plane still runs");
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the plane does not panic");
        }
    }
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from((at * 31 + at / 4096 * 7) % 251).expect("below 251")).collect()
}

fn content(path: &Path, bytes: &[u8], version: u64) -> Arc<Content> {
    File::create(path).and_then(|mut file| file.write_all(bytes)).expect("a file");
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    let (file, access) = match direct {
        Ok(file) => (file, FileAccess::Direct),
        Err(_) => (File::open(path).expect("a file"), FileAccess::Buffered),
    };
    let size = bytes.len() as u64;
    let watched = kernel::version_check::watch(file.as_fd()).expect("it can be looked at");
    Arc::new(Content {
        version: ContentVersion(version),
        size,
        layout: ContentLayout::of_file(DiskId(0), OwnedFd::from(file), access, size, Box::default()),
        watched: Some(watched),
        checksums: None,
    })
}

fn pair() -> (TcpStream, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let (server, _) = listener.accept().expect("a connection");
    server.set_nonblocking(true).expect("a socket");
    (client, OwnedFd::from(server))
}

fn delivery(stream: u64, content: &Arc<Content>, socket: OwnedFd, segments: Vec<Segment>, service: Service) -> Command {
    delivery_to(stream, content, DeliveryDestination::Socket(socket), segments, service)
}

fn delivery_to(
    stream: u64,
    content: &Arc<Content>,
    destination: DeliveryDestination,
    segments: Vec<Segment>,
    service: Service,
) -> Command {
    Command::Start(Box::new(Delivery {
        stream: StreamId(stream),
        destination,
        link: LinkId(0),
        segments: segments.into(),
        content: Arc::clone(content),
        service,
        waited: Nanos::ZERO,
    }))
}

fn constant(rate: u64, burst_bytes: u64) -> Service {
    Service::Constant { rate: BitRate(rate), burst_bytes, held: None, hold: false }
}

fn head() -> Segment {
    Segment::Bytes(b"HTTP/1.1 200 OK\r\n\r\n".to_vec().into())
}

fn ranges_arrive_whole_and_in_order_on_every_class_and_disk() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let bytes = pattern(5_000_123);
    for profile in [DiskProfile::flash_default(), DiskProfile::spindle_default()] {
        let config = PlaneConfig { streams_max: 64, round: Nanos::from_millis(250), ..PlaneConfig::default() };
        let server = Server::start(profile, 64, config);
        let content = content(&folder.path().join("a"), &bytes, 1);
        for (stream, service) in
            [(1, constant(80_000_000, 0)), (2, constant(20_000_000, 5_000_000)), (3, Service::BestEffort)]
        {
            let (mut client, socket) = pair();
            let segments = vec![
                head(),
                Segment::Range { offset: 0, length: 1_234_567 },
                Segment::Bytes(b"--between--".to_vec().into()),
                Segment::Range { offset: 777_777, length: 5_000_123 - 777_777 },
            ];
            assert!(server.handle.send(delivery(stream, &content, socket, segments, service)).is_ok());
            assert!(matches!(server.report(), Report::Started { stream: StreamId(id), .. } if id == stream));
            if let Service::Constant { rate, .. } = service {
                assert_eq!(server.gauges.plane.promised_bps.get(), rate.0, "shown when it is told");
                assert!(server.gauges.disks[0].promised_ppm.get() > 0);
            }
            let expected =
                [b"HTTP/1.1 200 OK\r\n\r\n", &bytes[..1_234_567], b"--between--", &bytes[777_777..]].concat();
            let mut got = vec![0; expected.len()];
            client.read_exact(&mut got).expect("all of it");
            assert!(got == expected, "stream {stream}: the bytes are the content's");
            let Report::Finished { end, .. } = server.report() else { panic!("an end") };
            assert_eq!((end.outcome, end.sent_bytes), (Outcome::Complete, expected.len() as u64));
        }
    }
}

/// A stream with a rate, a fast one, and one of best effort; pieces that do not divide the sends.
fn outlets_give_the_same_bytes_and_their_reader_sets_the_pace() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let bytes = pattern(5_000_123);
    let config = PlaneConfig { streams_max: 64, ..PlaneConfig::default() };
    let server = Server::start(DiskProfile::flash_default(), 64, config);
    let content = content(&folder.path().join("a"), &bytes, 1);
    for (stream, service) in
        [(1, constant(80_000_000, 0)), (2, constant(20_000_000, 5_000_000)), (3, Service::BestEffort)]
    {
        let outlet = Arc::<Outlet>::default();
        let segments = vec![
            Segment::Range { offset: 0, length: 1_234_567 },
            Segment::Bytes(b"--between--".to_vec().into()),
            Segment::Range { offset: 777_777, length: 5_000_123 - 777_777 },
        ];
        let destination = DeliveryDestination::Outlet(Arc::clone(&outlet));
        assert!(server.handle.send(delivery_to(stream, &content, destination, segments, service)).is_ok());
        let mut got = vec![];
        let end = loop {
            match server.report() {
                Report::Started { .. } => {}
                Report::Posted { stream: StreamId(id) } => {
                    assert_eq!(id, stream);
                    while outlet.take(50_000, &mut got) {}
                }
                Report::Finished { end, .. } => break end,
                report => panic!("{report:?}"),
            }
        };
        let expected = [&bytes[..1_234_567], b"--between--", &bytes[777_777..]].concat();
        assert_eq!((end.outcome, end.sent_bytes), (Outcome::Complete, expected.len() as u64));
        assert!(got == expected, "stream {stream}: the bytes are the content's");
    }
}

fn an_outlet_without_a_reader_ends_its_stream_and_so_does_a_stop() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let server =
        Server::start(DiskProfile::flash_default(), 64, PlaneConfig { streams_max: 64, ..PlaneConfig::default() });
    let content = content(&folder.path().join("a"), &pattern(3_000_000), 1);
    for (stream, expected) in [(1, Outcome::ClientGone), (2, Outcome::Stopped)] {
        let outlet = Arc::<Outlet>::default();
        let destination = DeliveryDestination::Outlet(Arc::clone(&outlet));
        let whole = vec![Segment::Range { offset: 0, length: 3_000_000 }];
        assert!(server.handle.send(delivery_to(stream, &content, destination, whole, Service::BestEffort)).is_ok());
        while !matches!(server.report(), Report::Posted { .. }) {}
        let mut first = vec![];
        assert!(outlet.take(1000, &mut first), "there is more");
        match expected {
            Outcome::ClientGone => outlet.close(),
            _ => server.handle.send(Command::Stop(StreamId(stream))).expect("room"),
        }
        let Report::Finished { end, .. } = server.report() else { panic!("an end") };
        assert_eq!(end.outcome, expected);
        assert_eq!(end.sent_bytes, if expected == Outcome::Stopped { 1000 } else { 0 });
        assert!(!outlet.take(1000, &mut first) && first == pattern(1000), "nothing comes after the end");
    }
}

fn many_streams_share_one_reading() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let bytes = pattern(3_000_000);
    let server =
        Server::start(DiskProfile::flash_default(), 64, PlaneConfig { streams_max: 64, ..PlaneConfig::default() });
    let content = content(&folder.path().join("a"), &bytes, 9);
    let mut clients = vec![];
    for stream in 1..=20 {
        let (client, socket) = pair();
        let segments = vec![Segment::Range { offset: 0, length: 3_000_000 }];
        assert!(server.handle.send(delivery(stream, &content, socket, segments, constant(16_000_000, 0))).is_ok());
        clients.push(client);
    }
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                let mut got = vec![];
                let mut buffer = vec![0; 65_536];
                while got.len() < 3_000_000 {
                    let count = client.read(&mut buffer).expect("bytes");
                    assert_ne!(count, 0, "not before the end");
                    got.extend_from_slice(&buffer[..count]);
                }
                got
            })
        })
        .collect();
    for reader in readers {
        assert!(reader.join().expect("a reader") == bytes);
    }
    let plane = &server.gauges.plane;
    assert_eq!(plane.cache_misses.get(), 12, "each page was read once");
    assert_eq!(plane.cache_hits.get(), 19 * 12);
}

fn a_vanished_client_and_a_stalled_one_end_and_others_do_not_notice() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let bytes = pattern(40_000_000);
    let config = PlaneConfig { streams_max: 64, stall_max: Nanos::from_millis(300), ..PlaneConfig::default() };
    let server = Server::start(DiskProfile::flash_default(), 128, config);
    let content = content(&folder.path().join("a"), &bytes, 5);
    let whole = || vec![Segment::Range { offset: 0, length: 40_000_000 }];
    let held = Service::Constant { rate: BitRate(200_000_000), burst_bytes: 0, held: None, hold: true };
    let (gone, socket) = pair();
    assert!(server.handle.send(delivery(1, &content, socket, whole(), held)).is_ok());
    let (_stalled, socket) = pair();
    assert!(server.handle.send(delivery(2, &content, socket, whole(), held)).is_ok());
    drop(gone);
    let mut ends = vec![];
    while ends.len() < 2 {
        if let Report::Finished { delivery, end } = server.report() {
            ends.push((delivery.stream.0, end.outcome, end.held.is_some()));
        }
    }
    ends.sort_by_key(|&(stream, ..)| stream);
    let expected = [(1, Outcome::ClientGone, true), (2, Outcome::ClientStalled, false)];
    assert_eq!(ends, expected, "who closed may only seek; who blocks gives up its place");
}

fn an_excessive_rate_is_refused_with_the_grantable_one() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let server =
        Server::start(DiskProfile::spindle_default(), 64, PlaneConfig { streams_max: 8, ..PlaneConfig::default() });
    let content = content(&folder.path().join("a"), &pattern(100_000), 2);
    let (_client, socket) = pair();
    let segments = vec![Segment::Range { offset: 0, length: 100_000 }];
    assert!(server.handle.send(delivery(1, &content, socket, segments, constant(4_000_000_000, 0))).is_ok());
    let Report::Refused { refusal, .. } = server.report() else { panic!("a refusal") };
    assert_eq!(refusal.resource, Resource::Disk(DiskId(0)));
    assert!(refusal.grantable > BitRate(10_000_000), "{}", refusal.grantable);
}

crate::common::on_both_engines! {
    ranges_arrive_whole_and_in_order_on_every_class_and_disk,
    outlets_give_the_same_bytes_and_their_reader_sets_the_pace,
    an_outlet_without_a_reader_ends_its_stream_and_so_does_a_stop,
    many_streams_share_one_reading,
    a_vanished_client_and_a_stalled_one_end_and_others_do_not_notice,
    an_excessive_rate_is_refused_with_the_grantable_one,
}
