//! Uploads granted by the real data plane: its schedule, its queues, its thread.

use std::fs;
use std::sync::Arc;

use crate::common::{everything_below, folder, path, pattern, put, request, serve, settings};
use channel::{PlaneHandle, ReportReceiver, connect};
use dataplane::control::{Command, RecordingRequest, Report, WrittenDisks};
use dataplane::gauges::Gauges;
use dataplane::{Plane, PlaneConfig};
use kernel::thread::PlaneThread;
use schedule::profile::{DiskProfile, SeekPoint, Zone};
use store::{Governed, Precondition, Store, StoreError, UploadClass, UploadRequest};
use units::{BitRate, ByteCount, DiskId, LinkId, Nanos, StreamId};

const MIB: usize = 1 << 20;

/// A plane that governs one disk, and the store on it.
struct Governing {
    handle: PlaneHandle,
    reports: ReportReceiver,
    thread: PlaneThread,
    store: Store,
}

fn profile(rotational: bool) -> DiskProfile {
    DiskProfile {
        rotational,
        capacity: ByteCount(1 << 40),
        zones: vec![Zone { start: ByteCount(0), bytes_per_second: 400_000_000 }],
        seeks: vec![SeekPoint { distance: ByteCount(0), time: Nanos::from_micros(100) }],
        turn: Nanos::from_millis(if rotational { 8 } else { 0 }),
        flush: Nanos::from_millis(5),
        write_ratio: 1.0,
        queue_depth: if rotational { 2 } else { 16 },
    }
}

fn govern(root: &std::path::Path, rotational: bool) -> Governing {
    let mut links = connect(1).unwrap();
    let config = PlaneConfig { round: Nanos::from_millis(250), ..PlaneConfig::default() };
    let gauges = Arc::new(Gauges::new(config.streams_max, 1));
    let thread_config = kernel::thread::ThreadConfig {
        chunk_count: 16,
        engine: kernel::EngineChoice::Auto,
        cpu: None,
        priority: None,
        readers: 2,
    };
    let thread = kernel::thread::start(thread_config, links.plane, move |io| {
        Plane::new(config, vec![profile(rotational)], &[BitRate(10_000_000_000)], gauges, io).run();
    })
    .expect("io_uring is needed for these tests");
    let port = Governed::new(links.stores.pop().unwrap());
    let mut port = Some(port);
    let store = serve(&[root.to_path_buf().into()], &settings(), |_| Box::new(port.take().unwrap()));
    Governing { handle: links.handle, reports: links.reports, thread, store }
}

impl Governing {
    fn end(self) -> Store {
        self.handle.send(Command::Shutdown).unwrap();
        self.thread.join().unwrap();
        self.store
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_and_deletes_get_through_beside_each_other() {
    for rotational in [false, true] {
        let root = folder();
        let governing = govern(root.path(), rotational);
        let mut running = Vec::new();
        for number in 0..12_u64 {
            let store = governing.store.clone();
            running.push(tokio::spawn(async move {
                let bytes = pattern(3 * MIB + 777, number);
                put(&store, &format!("/{number}"), &bytes).await.unwrap();
                if number % 2 == 1 {
                    store.delete(&path(&format!("/{number}")), Precondition::None).await.unwrap();
                }
            }));
        }
        for upload in running {
            upload.await.unwrap();
        }
        let stats = governing.store.stats(DiskId(0)).unwrap();
        assert_eq!(stats.uploads_published.value(), 12);
        assert_eq!(stats.grants_unused.value(), 0);
        assert_eq!(everything_below(root.path()), ["0", "10", "2", "4", "6", "8"]);
        for number in (0..12).step_by(2) {
            assert!(fs::read(root.path().join(number.to_string())).unwrap() == pattern(3 * MIB + 777, number));
        }
        governing.end();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_gets_through_and_the_end_of_the_plane_ends_it() {
    let root = folder();
    let governing = govern(root.path(), true);
    let rate = BitRate(50_000_000);
    let disk = DiskId(0);
    let (durable, block_bytes_max) = (Nanos::from_secs(10), 8 << 20);
    let (stream, disks, link) = (StreamId(1), WrittenDisks::one(disk), LinkId(0));
    let recording = RecordingRequest { stream, disks, link, rate, durable, block_bytes_max };
    governing.handle.send(Command::Reserve(recording)).unwrap();
    let (reservation, place) = loop {
        match governing.reports.recv_timeout(std::time::Duration::from_secs(60)).expect("an answer") {
            Report::Reserved { reservation, place, .. } => break (reservation, place),
            Report::ReserveRefused { refusal, .. } => panic!("{refusal:?}"),
            _ => {}
        }
    };
    let class = UploadClass::Recording { rate, disks, reservation, place };
    let bytes = pattern(9 * MIB + 1, 3);
    let mut upload = governing.store.begin_upload(UploadRequest { class, ..request("/rec", None) }).await.unwrap();
    for part in bytes.chunks(100_000) {
        upload.append(part).await.unwrap();
    }
    assert_eq!(upload.finish().await.unwrap().size, 9 * (1 << 20) + 1);
    assert!(fs::read(root.path().join("rec")).unwrap() == bytes);

    let class = UploadClass::Recording { rate, disks, reservation, place };
    let mut upload = governing.store.begin_upload(UploadRequest { class, ..request("/cut", None) }).await.unwrap();
    upload.append(&bytes).await.unwrap();
    let store = governing.end();
    let ended = loop {
        if let Err(error) = upload.append(&bytes).await {
            break error;
        }
    };
    assert!(matches!(ended, StoreError::Closed), "{ended:?}");
    drop(upload);
    crate::common::fence(&store).await;
    crate::common::fence(&store).await;
    assert_eq!(everything_below(root.path()), ["rec"]);
}
