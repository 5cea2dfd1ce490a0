//! Opening a content of a volume: its reads are made on grants of the disk's schedule.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{folder, path, pattern, put, settings};
use storage::grant::{Grant, Offer, StoreMessage, StoreWork};
use store::{GrantPort, Store, StoreBuilder, StoreError, StoreSettings, Ungoverned, WakeFn, Want};
use units::{DiskFault, DiskId};
use volume::{DraftBytes, DraftStep, Drafts, MemberId, NewVolume, Placement, Volume};
use volumes::{OpenVolume, ServedVolume, VolumeWish};

const DISK_BYTES: u64 = 64 << 20;

/// Grants everything, from a time on, and counts the small reads.
struct Counting {
    port: Ungoverned,
    small_reads: Arc<AtomicU64>,
    grants: Arc<AtomicBool>,
}

impl GrantPort for Counting {
    fn send(&mut self, message: StoreMessage) -> bool {
        if let StoreMessage::Offer(Offer { work: StoreWork::Probe { reads, .. }, .. }) = &message {
            self.small_reads.fetch_add(u64::from(*reads), Relaxed);
        }
        self.port.send(message)
    }

    fn grant(&mut self) -> Option<Grant> {
        self.grants.load(Relaxed).then(|| self.port.grant()).flatten()
    }

    fn wait(&mut self, timeout: Duration) {
        self.port.wait(timeout.min(Duration::from_millis(10)));
    }

    fn waker(&self) -> WakeFn {
        self.port.waker()
    }

    fn is_closed(&self) -> bool {
        self.port.is_closed()
    }
}

fn blank_disk(path: &Path) -> File {
    let file = File::create(path).unwrap();
    file.set_len(DISK_BYTES).unwrap();
    file
}

fn new_volume(disks: &[PathBuf], placement: Placement) -> (Volume, Vec<File>) {
    let sizes = vec![DISK_BYTES; disks.len()];
    let new = NewVolume { volume: [9; 16], name: "films".to_owned(), placement, unit_bytes: 1 << 20, sizes };
    let mut volume = Volume::create(new).unwrap();
    let files: Vec<File> = disks.iter().map(|disk| blank_disk(disk)).collect();
    let commit = volume.commit().unwrap().writes;
    for write in commit.into_iter().chain(volume.members().superblock_writes().into_iter().flatten()) {
        files[usize::from(write.member.0)].write_all_at(&write.bytes, write.position).unwrap();
    }
    volume.committed(Ok(()));
    (volume, files)
}

/// A store on the volume, and the number of small reads requested.
fn served(disks: &[PathBuf]) -> (Store, ServedVolume, Arc<AtomicU64>) {
    served_with(disks, &settings(), &Arc::new(true.into()))
}

fn served_with(
    disks: &[PathBuf],
    settings: &StoreSettings,
    grants: &Arc<AtomicBool>,
) -> (Store, ServedVolume, Arc<AtomicU64>) {
    let small_reads = Arc::new(AtomicU64::new(0));
    let mut serve = |_| -> Box<dyn GrantPort> {
        let (small_reads, grants) = (Arc::clone(&small_reads), Arc::clone(grants));
        Box::new(Counting { port: Ungoverned::default(), small_reads, grants })
    };
    let mut store = StoreBuilder::new(settings).unwrap();
    let mut volume = OpenVolume::open(disks, None).unwrap();
    volume.keep_spare_place();
    let volume = volume.join(&mut store, &mut serve).unwrap();
    (store.finish(), volume, small_reads)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_open_a_content_wait_for_grants() {
    let folder = folder();
    let disk = [folder.path().join("disk")];
    new_volume(&disk, Placement::Span);
    let (store, ..) = served(&disk);
    for name in ["/a", "/b"] {
        put(&store, name, &pattern(3 << 20, 1)).await.unwrap();
    }
    drop(store);
    // The one before lets go of the disk when its threads end.
    crate::common::until("the disk is free", || OpenVolume::open(&disk, None).map(drop).is_ok());
    let (store, _, small_reads) = served(&disk);
    let opened = store.open(&path("/a"), Want::File).await.unwrap();
    assert_eq!(small_reads.load(Relaxed), 1, "its checksums");
    drop(opened);
    store.open(&path("/a"), Want::File).await.unwrap();
    assert_eq!(small_reads.load(Relaxed), 1, "they are known");
    store.open(&path("/a"), Want::FileAndRate).await.unwrap();
    assert!(small_reads.load(Relaxed) > 1, "its container");
    // Nothing waits for a disk that the data plane does not rely on.
    store.heed(Box::new(|_| Some(DiskFault::Hung)));
    assert!(matches!(store.open(&path("/b"), Want::File).await, Err(StoreError::DiskFailing(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_is_named_and_not_its_healthy_neighbour() {
    let folder = folder();
    let disks = ["one", "two"].map(|name| folder.path().join(name));
    new_volume(&disks, Placement::Span);
    let (store, ..) = served(&disks);
    // The second content begins on the first disk and ends on the other one, where its checksums lie.
    for name in ["/a", "/b"] {
        put(&store, name, &pattern(40 << 20, 1)).await.unwrap();
    }
    drop(store);
    crate::common::until("the disks are free", || OpenVolume::open(&disks, None).map(drop).is_ok());
    let (store, ..) = served(&disks);
    store.heed(Box::new(|disk| (disk == DiskId(1)).then_some(DiskFault::Hung)));
    let refused = store.open(&path("/b"), Want::File).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "disk two errs or does not answer",
        "as the disk is called, not by its number"
    );
    assert_eq!(store.open(&path("/a"), Want::File).await.unwrap().content.disk(), DiskId(0));
}

/// Regression: an open begun while a disk that was filled became durably a good one got one copy, and so did all that joined it: it ended
/// with the other disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_opened_after_a_fill_has_both_copies() {
    let folder = folder();
    let disks = ["one", "two", "new"].map(|name| folder.path().join(name));
    new_volume(&disks[..2], Placement::Mirror);
    blank_disk(&disks[2]);
    let (store, volume, _) = served(&disks[..2]);
    put(&store, "/a", &pattern(3 << 20, 1)).await.unwrap();
    let wish = VolumeWish::Replace(1, disks[2].clone());
    let is_filled = || matches!(volume.info().last_upkeep, Some(("fill", _, None)));
    let wanted = path("/a");
    let open = || tokio::runtime::Handle::current().block_on(store.open(&wanted, Want::File)).unwrap().content;
    let mut readers = tokio::task::block_in_place(|| vec![open()]);
    assert_eq!(readers[0].layout.copies(), 2);
    std::thread::scope(|scope| {
        scope.spawn(|| volume.begin(&wish).unwrap());
        tokio::task::block_in_place(|| {
            crate::common::until("the new disk is filled", || {
                readers.extend(std::iter::repeat_with(open).take(50));
                is_filled()
            });
        });
    });
    assert!(readers.iter().any(|content| content.layout.copies() == 1), "it was filled meanwhile");
    assert_eq!(store.open(&path("/a"), Want::File).await.unwrap().content.layout.copies(), 2);
}

/// Regression: it was left for the next start, though the disk answered again seconds later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_that_a_crash_left_is_read_when_its_disk_is_relied_on_again() {
    let folder = folder();
    let disk = [folder.path().join("disk")];
    let (mut volume, files) = new_volume(&disk, Placement::Span);
    let bytes = pattern(300 << 10, 1);
    let mut drafts: Drafts<(), ()> = Drafts::default();
    let recording = drafts.begin(volume.begin("cam.ts", None).unwrap(), true, ());
    drafts.receive(recording, &(), &bytes, &mut volume).unwrap();
    while let Some((_, step)) = drafts.next_step() {
        if let DraftStep::Write(_, position, DraftBytes::Payload(())) = step {
            files[0].write_all_at(&bytes, position).unwrap();
        }
    }
    assert!(drafts.made_durable(recording, (MemberId(0), 300 << 10), 1, &mut volume).unwrap());
    for write in volume.commit().unwrap().writes {
        files[0].write_all_at(&write.bytes, write.position).unwrap();
    }

    let (grants, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    // A thread that a busy machine holds up for as long counts as a hanging one.
    let settings = StoreSettings { patience: Duration::from_millis(500), ..settings() };
    let (store, ..) = served_with(&disk, &settings, &grants);
    let doubts = Arc::clone(&asked);
    store.heed(Box::new(move |_| (doubts.fetch_add(1, Relaxed) == 0).then_some(DiskFault::Hung)));
    crate::common::until("its first read was given up", || asked.load(Relaxed) > 0);
    grants.store(true, Relaxed);
    let there = || tokio::runtime::Handle::current().block_on(store.lookup(&path("/cam.ts")));
    tokio::task::block_in_place(|| crate::common::until("it has its name", || there().is_ok()));
    assert_eq!(store.lookup(&path("/cam.ts")).await.unwrap().size, 300 << 10);
}

#[test]
fn a_disk_that_a_volume_is_opened_without_is_out_of_date_before_anything_is_served() {
    let (folder, state) = (folder(), folder());
    let disks = ["one", "two"].map(|name| folder.path().join(name));
    new_volume(&disks, Placement::Mirror);
    let nowhere = folder.path().join("nowhere");
    let open = |disk: &PathBuf| OpenVolume::open(&[disk.clone(), nowhere.clone()], Some(state.path())).map(drop);
    open(&disks[0]).unwrap();
    let refused = open(&disks[1]).unwrap_err().to_string();
    assert!(refused.contains("out of date"), "{refused}");
}
