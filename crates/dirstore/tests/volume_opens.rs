//! Opening a content of a volume: what is read for it is read on grants of the disk's schedule.

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use common::{Ungoverned, folder, path, pattern, put, settings};
use dirstore::{GrantPort, Store, StoreError, StoreLayout, WakeFn, Want};
use storage::grant::{Grant, Offer, StoreMessage, StoreWork};
use volume::{NewVolume, Placement, Volume};

const DISK_BYTES: u64 = 64 << 20;

/// Grants everything, and counts the small reads.
struct Counting {
    port: Ungoverned,
    small_reads: Arc<AtomicU64>,
}

impl GrantPort for Counting {
    fn send(&mut self, message: StoreMessage) -> bool {
        if let StoreMessage::Offer(Offer { work: StoreWork::Probe { reads }, .. }) = &message {
            self.small_reads.fetch_add(u64::from(*reads), Relaxed);
        }
        self.port.send(message)
    }

    fn grant(&mut self) -> Option<Grant> {
        self.port.grant()
    }

    fn wait(&mut self, timeout: Duration) {
        self.port.wait(timeout);
    }

    fn waker(&self) -> WakeFn {
        self.port.waker()
    }

    fn is_closed(&self) -> bool {
        self.port.is_closed()
    }
}

fn new_volume(disk: &Path) {
    let sizes = vec![DISK_BYTES];
    let (name, placement) = ("films".to_owned(), Placement::Span);
    let new = NewVolume { volume: [9; 16], name, placement, unit_bytes: 1 << 20, sizes };
    let mut volume = Volume::create(new).unwrap();
    let file = File::create(disk).unwrap();
    file.set_len(DISK_BYTES).unwrap();
    let commit = volume.commit().unwrap().writes;
    for write in commit.into_iter().chain(volume.superblock_writes().into_iter().flatten()) {
        file.write_all_at(&write.bytes, write.position).unwrap();
    }
}

/// A store on the volume, and how many small reads were asked for.
fn served(disk: &Path) -> (Store, Arc<AtomicU64>) {
    let small_reads = Arc::new(AtomicU64::new(0));
    let layout = StoreLayout::discover(&[], &[vec![disk.to_path_buf()]], None).unwrap();
    let serve = |_| -> Box<dyn GrantPort> {
        Box::new(Counting { port: Ungoverned::default(), small_reads: Arc::clone(&small_reads) })
    };
    let store = Store::start(layout, &settings(), serve).unwrap();
    (store, small_reads)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_to_open_a_content_waits_for_grants() {
    let folder = folder();
    let disk = folder.path().join("disk");
    new_volume(&disk);
    let (store, _) = served(&disk);
    for name in ["/a", "/b"] {
        put(&store, name, &pattern(3 << 20, 1)).await.unwrap();
    }
    drop(store);
    // The one before lets go of the disk when its threads end.
    common::until("the disk is free", || StoreLayout::discover(&[], &[vec![disk.clone()]], None).map(drop).is_ok());
    let (store, small_reads) = served(&disk);
    let opened = store.open(&path("/a"), Want::File).await.unwrap();
    assert_eq!(small_reads.load(Relaxed), 1, "its checksums");
    drop(opened);
    store.open(&path("/a"), Want::File).await.unwrap();
    assert_eq!(small_reads.load(Relaxed), 1, "they are known");
    store.open(&path("/a"), Want::FileAndRate).await.unwrap();
    assert!(small_reads.load(Relaxed) > 1, "its container");
    // Nothing waits for a disk that the data plane does not rely on.
    store.rely_on(Box::new(|_| false));
    assert!(matches!(store.open(&path("/b"), Want::File).await, Err(StoreError::DiskFailing(_))));
}
