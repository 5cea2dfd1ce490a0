//! Uploads, with the schedule's side played by the test.

use std::fs;
use std::sync::{Arc, Mutex};

use crate::common::{
    Ungoverned, everything_below, fence, finishing, folder, governed, lengthen, path, pattern, put, request, serve,
    settings, ungoverned, until,
};
use storage::grant::WrittenDisks;
use storage::grant::{Offer, RecordingPlace, StoreWork, WorkClass};
use store::{
    NameTaken, OnBreak, Precondition, StoreError, StoreEvent, StoreSettings, UploadClass, UploadRequest, Want,
};
use units::{BitRate, DiskId, Nanos, ReservationId, limits};

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_a_byte_is_written_and_nothing_published_without_a_grant() {
    let root = folder();
    let (store, giver) = governed(root.path(), &settings());
    let bytes = pattern(2 * MIB + 5_001, 7);
    let mut upload = store.begin_upload(request("/film", Some(bytes.len().try_into().unwrap()))).await.unwrap();
    upload.append(&bytes).await.unwrap();
    let finished = finishing(&store, upload).await;

    let whole = 2 * 1024 * 1024 + 8192;
    // An offer grows with what has come, up to a run; one of a run is not renewed for the rest.
    let run = |offer: &Offer| matches!(offer.work, StoreWork::Write { bytes, .. } if bytes >= limits::RUN_BYTES_MAX);
    let offer = giver.offer(run);
    assert_eq!(offer.class, WorkClass::BestEffort);
    assert_eq!(store.stats(offer.disk).unwrap().written_bytes.value(), 0);

    // A grant that came too late is given back unused, and the work is on offer again.
    let late = giver.grant(&offer, whole, Nanos(1));
    assert_eq!((late.bytes, late.ok), (0, true));
    let (offer, bytes_offered) = giver.write_offer();
    assert_eq!(bytes_offered, whole);

    // A grant is not exceeded, and the rest is reported.
    let done = giver.grant(&offer, limits::PIECE_BYTES_MAX, Nanos::MAX);
    assert_eq!(done.bytes, limits::PIECE_BYTES_MAX);
    assert_eq!(done.ready_bytes, whole - limits::PIECE_BYTES_MAX);
    let StoreWork::Write { position, .. } = offer.work else { unreachable!() };
    assert!(position == u64::MAX || done.position == position + limits::PIECE_BYTES_MAX, "preallocated in one piece");
    let (offer, _) = giver.write_offer();
    let done = giver.grant(&offer, done.ready_bytes, Nanos::MAX);
    assert_eq!((done.bytes, done.ready_bytes), (whole - limits::PIECE_BYTES_MAX, 0));

    // A grant that was on its way meanwhile finds nothing to do.
    let stray = giver.grant(&offer, limits::RUN_BYTES_MAX, Nanos::MAX);
    assert_eq!((stray.bytes, stray.ready_bytes, stray.ok), (0, 0, true));

    // All is written, nothing is visible, no client has an answer.
    let commit = giver.commit_offer(true);
    assert!(matches!(commit.work, StoreWork::Commit { dirty_bytes, .. } if dirty_bytes == whole));
    assert_eq!(store.list(&path("/")).await.unwrap(), []);
    assert!(giver.grant_all(&commit).ok);
    let published = finished.await.unwrap();
    assert!(published.is_new());
    assert_eq!(published.size, u64::try_from(bytes.len()).unwrap());
    assert_eq!(fs::read(root.path().join("film")).unwrap(), bytes);
    assert_eq!(store.lookup(&path("/film")).await.unwrap().etag, published.etag);
    fence(&store).await;
    assert!(giver.offers().is_empty(), "{:?}", giver.offers());
    assert_eq!(store.stats(commit.disk).unwrap().uploads_published.value(), 1);
}

/// The next request of a live channel needs no read, for its rate neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_upload_is_given_back_with_the_version_that_it_is_opened_with() {
    let root = folder();
    let store = ungoverned(&[root.path()]);
    let bytes = pattern(3 * MIB + 5, 7);
    let stored = put(&store, "/segment", &bytes).await.unwrap().stored.expect("it is short");
    assert!(stored.bytes == bytes);
    let opened = store.open(&path("/segment"), Want::FileAndRate).await.unwrap();
    assert_eq!((opened.content.version, opened.content.disk()), (stored.version, stored.disk));
    assert_eq!(store.stats(stored.disk).unwrap().probes.value(), 0);
    assert!(put(&store, "/film", &pattern(8 * MIB + 1, 7)).await.unwrap().stored.is_none());
    assert!(fs::read(root.path().join("segment")).unwrap() == bytes);
}

/// On file systems with a journal; on others it is durable when it is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_may_be_durable_later_is_visible_before_its_commit_which_comes_by_itself() {
    let root = folder();
    let (store, giver) = governed(root.path(), &settings());
    let durable = Some(Nanos::from_secs(2));
    let mut upload = store.begin_upload(UploadRequest { durable, ..request("/a", Some(3)) }).await.unwrap();
    upload.append(b"abc").await.unwrap();
    let finished = finishing(&store, upload).await;
    let (offer, _) = giver.write_offer();
    giver.grant_all(&offer);
    let commit = giver.commit_offer(true);
    let was_visible = root.path().join("a").exists();
    assert!(giver.grant_all(&commit).ok);
    let published = finished.await.unwrap();
    assert_eq!(published.durable, durable.filter(|_| was_visible));
    fence(&store).await;
    assert_eq!(store.stats(commit.disk).unwrap().uploads_published.value(), 1);
    assert!(giver.offers().is_empty(), "{:?}", giver.offers());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_finish_together_share_a_commit() {
    let root = folder();
    let (store, giver) = governed(root.path(), &settings());
    let mut waiting = Vec::new();
    for name in ["/a", "/b", "/c"] {
        let mut upload = store.begin_upload(request(name, Some(3))).await.unwrap();
        upload.append(b"abc").await.unwrap();
        waiting.push(finishing(&store, upload).await);
        let (offer, _) = giver.write_offer();
        giver.grant_all(&offer);
    }
    let commit = giver.commit_offer(true);
    giver.grant_all(&commit);
    for finished in waiting {
        assert_eq!(finished.await.unwrap().size, 3);
    }
    assert_eq!(store.stats(commit.disk).unwrap().commits.value(), 1);
    assert_eq!(everything_below(root.path()), ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_is_offered_when_something_is_dirty() {
    let root = folder();
    let (store, giver) = governed(root.path(), &settings());
    let mut upload = store.begin_upload(request("/film", None)).await.unwrap();
    upload.append(&pattern(5 * MIB, 1)).await.unwrap();
    assert!(!giver.offers().iter().any(|offer| matches!(offer.work, StoreWork::Commit { .. })));
    let (offer, bytes) = giver.write_offer();
    let written = giver.grant(&offer, bytes.min(limits::RUN_BYTES_MAX), Nanos::MAX).bytes;
    let commit = giver.commit_offer(false);
    assert!(matches!(commit.work, StoreWork::Commit { dirty_bytes, .. } if dirty_bytes == written));
    assert!(giver.grant_all(&commit).ok);
    let done = giver.grant_all(&commit);
    assert_eq!(done.bytes, 0, "nothing is dirty after a flush");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_a_recording_are_offered_when_its_block_is_due() {
    let root = folder();
    let (store, giver) = governed(root.path(), &settings());
    let reservation = ReservationId { slot: 3, generation: 9 };
    let rate = BitRate(25_000_000);
    // Not a whole number of chunks, nor of direct writes.
    let bytes = pattern(6 * MIB + 5_000, 2);
    let first = kernel::clock::monotonic().saturating_add(Nanos::from_secs(2));
    let (period, within) = (Nanos::from_secs(4), Nanos::from_secs(2));
    let place = RecordingPlace { first, period, within };
    let class = UploadClass::Recording { rate, disks: WrittenDisks::one(DiskId(0)), reservation, place };
    let mut upload = store.begin_upload(UploadRequest { class, ..request("/rec", None) }).await.unwrap();
    upload.append(&bytes).await.unwrap();
    let failed = tokio::spawn(async move {
        let error = upload.failed().await;
        (upload, error)
    });
    let mut written = 0;
    // An offer ends where the file's next extent lies elsewhere on the disk.
    while written < (6 << 20) + 4096 {
        let (offer, offered) = giver.write_offer();
        let WorkClass::RealTime { reservation: charged, deadline } = offer.class else { panic!("{offer:?}") };
        let due = deadline.saturating_sub(within);
        assert!(kernel::clock::monotonic() >= due && due >= first, "not before");
        // A machine that was busy for the whole first period fills the second block.
        assert_eq!((charged, due.saturating_sub(first).0 % period.0), (reservation, 0));
        assert_eq!(giver.grant(&offer, offered, Nanos::MAX).bytes, offered);
        written += offered;
    }
    assert_eq!(written, (6 << 20) + 4096, "also the bytes in the client's hands, in whole direct writes");
    let commit = giver.commit_offer(true);
    assert!(giver.grant_all(&commit).ok, "what was written is made durable");
    failed.abort();
}

#[tokio::test]
async fn lengths_are_held_to() {
    let root = folder();
    let store = ungoverned(&[root.path()]);
    let mut upload = store.begin_upload(request("/a", Some(10))).await.unwrap();
    assert!(matches!(upload.append(&[0; 11]).await, Err(StoreError::TooLong)));
    let mut upload = store.begin_upload(request("/a", Some(10))).await.unwrap();
    upload.append(&[0; 9]).await.unwrap();
    assert!(matches!(upload.finish().await, Err(StoreError::TooShort)));
    assert_eq!(put(&store, "/empty", b"").await.unwrap().size, 0);
    // Around every border of direct writes and chunks, with and without a known length.
    for length in [1, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1, 3 * MIB + 12_345] {
        let bytes = pattern(length, 11);
        put(&store, "/known", &bytes).await.unwrap();
        assert!(fs::read(root.path().join("known")).unwrap() == bytes, "{length}");
        let mut upload = store.begin_upload(request("/unknown", None)).await.unwrap();
        for part in bytes.chunks(70_001) {
            upload.append(part).await.unwrap();
        }
        upload.finish().await.unwrap();
        assert!(fs::read(root.path().join("unknown")).unwrap() == bytes, "{length}");
        // The space taken ahead was given back.
        use std::os::unix::fs::MetadataExt;
        let taken = fs::metadata(root.path().join("unknown")).unwrap().blocks() * 512;
        assert!(taken <= u64::try_from(length).unwrap() + 65_536, "{length}: {taken}");
    }
    assert_eq!(everything_below(root.path()), ["empty", "known", "unknown"]);
}

#[tokio::test]
async fn preconditions_are_looked_at_twice() {
    let root = folder();
    let store = ungoverned(&[root.path()]);
    let with = |precondition| UploadRequest { precondition, ..request("/a", Some(1)) };
    let mut first = store.begin_upload(with(Precondition::MustNotExist)).await.unwrap();
    let mut second = store.begin_upload(with(Precondition::MustNotExist)).await.unwrap();
    first.append(b"1").await.unwrap();
    second.append(b"2").await.unwrap();
    let etag = second.finish().await.unwrap().etag;
    assert!(matches!(first.finish().await, Err(StoreError::PreconditionFailed)));
    assert!(matches!(store.begin_upload(with(Precondition::MustNotExist)).await, Err(StoreError::PreconditionFailed)));
    let mut third = store.begin_upload(with(Precondition::MustMatch(vec![etag.clone()]))).await.unwrap();
    let mut fourth = store.begin_upload(with(Precondition::MustMatch(vec![etag]))).await.unwrap();
    third.append(b"3").await.unwrap();
    fourth.append(b"4").await.unwrap();
    assert!(!third.finish().await.unwrap().is_new());
    assert!(matches!(fourth.finish().await, Err(StoreError::PreconditionFailed)));
    assert_eq!(fs::read(root.path().join("a")).unwrap(), b"3");
    assert_eq!(everything_below(root.path()), ["a"]);
}

#[tokio::test]
async fn uploads_need_a_name() {
    let root = folder();
    fs::create_dir(root.path().join("sub")).unwrap();
    fs::write(root.path().join("file"), "x").unwrap();
    let store = ungoverned(&[root.path()]);
    assert!(matches!(put(&store, "/sub", b"").await, Err(StoreError::IsDirectory)));
    assert!(matches!(put(&store, "/", b"").await, Err(StoreError::IsDirectory)));
    assert!(matches!(put(&store, "/file/a", b"").await, Err(StoreError::NotADirectory)));
    assert_eq!(store.placements(&request("/sub/new", None)).await.unwrap(), [WrittenDisks::one(store.disks()[0].id)]);
}

#[tokio::test]
async fn the_folders_of_an_upload_are_made() {
    let (one, two) = (folder(), folder());
    fs::create_dir(two.path().join("series")).unwrap();
    fs::write(one.path().join("film"), "x").unwrap();
    let store = ungoverned(&[one.path(), two.path()]);
    assert!(put(&store, "/series/first/1/a.ts", b"1").await.unwrap().is_new());
    assert!(put(&store, "/series/first/b.ts", b"2").await.unwrap().is_new());
    assert_eq!(fs::read(two.path().join("series/first/1/a.ts")).unwrap(), b"1", "where the nearest folder is");
    assert_eq!(fs::read(two.path().join("series/first/b.ts")).unwrap(), b"2");
    // A refused upload makes none: a content that would hide the folder, a disk that is too full, a condition.
    assert!(matches!(put(&store, "/film/first/a.ts", b"").await, Err(StoreError::NotADirectory)));
    let full = store.begin_upload(request("/none/of/this/a.ts", Some(1 << 60))).await;
    assert!(full.as_ref().is_err_and(StoreError::is_full), "{full:?}");
    let other = Precondition::MustMatch(vec!["\"x\"".to_owned()]);
    let unmet = UploadRequest { precondition: other, ..request("/none/of/this/a.ts", None) };
    assert!(matches!(store.begin_upload(unmet).await, Err(StoreError::PreconditionFailed)));
    assert!(!one.path().join("none").exists() && !two.path().join("none").exists());
    assert_eq!(everything_below(one.path()), ["film"]);
}

#[tokio::test]
async fn the_folders_of_an_upload_stay_below_the_root() {
    let (root, outside) = (folder(), folder());
    std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.path().join("broken")).unwrap();
    let store = ungoverned(&[root.path()]);
    for name in ["/out/new/a.ts", "/broken/a.ts", "/broken/new/a.ts"] {
        put(&store, name, b"").await.expect_err(name);
    }
    assert!(everything_below(outside.path()).is_empty() && !root.path().join("nowhere").exists());
}

fn at_once() -> RecordingPlace {
    let second = Nanos::from_secs(1);
    RecordingPlace { first: kernel::clock::monotonic(), period: second, within: second }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_lies_on_the_disk_that_reserved_for_it() {
    let (one, two) = (folder(), tempfile::tempdir_in("/dev/shm").unwrap());
    let store = ungoverned(&[one.path(), two.path()]);
    let disks: Vec<DiskId> = store.disks().iter().map(|disk| disk.id).collect();
    let recording = |disk: DiskId, at: &str| {
        let reservation = ReservationId { slot: 0, generation: 1 };
        let class = UploadClass::Recording {
            rate: BitRate(8_000_000),
            disks: WrittenDisks::one(disk),
            reservation,
            place: at_once(),
        };
        UploadRequest { class, ..request(at, Some(6)) }
    };
    for (disk, root) in disks.iter().zip([&one, &two]) {
        let name = format!("/rec-{}", disk.0);
        let mut upload = store.begin_upload(recording(*disk, &name)).await.unwrap();
        upload.append(b"frames").await.unwrap();
        upload.finish().await.unwrap();
        assert_eq!(fs::read(root.path().join(&name[1..])).unwrap(), b"frames", "whichever has more space");
        assert_eq!(
            store.placements(&request(&name, None)).await.unwrap(),
            [WrittenDisks::one(*disk)],
            "it is replaced where it is"
        );
    }
    let both = store.placements(&request("/new", None)).await.unwrap();
    assert!(both.len() == 2 && disks.iter().all(|disk| both.contains(&WrittenDisks::one(*disk))), "{both:?}");
    let moved = store.begin_upload(recording(disks[1], "/rec-0")).await;
    assert!(matches!(moved, Err(StoreError::Busy)), "it would lie where nothing is reserved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_idle_uploads_keep_no_memory_from_others() {
    let root = folder();
    // Memory for sixteen buffers: eight uploads, and eight buffers for the flowing ones among them.
    let little = StoreSettings { upload_chunks: 1, ..settings() };
    let store = serve(&[root.path().to_path_buf().into()], &little, |_| Box::new(Ungoverned::default()));
    let mut slow = Vec::new();
    for nth in 0..7 {
        let mut upload = store.begin_upload(request(&format!("/slow-{nth}"), None)).await.unwrap();
        // More than a buffer came at once, and then nothing more.
        upload.append(&pattern(150_000, nth)).await.unwrap();
        slow.push(upload);
    }
    assert!(put(&store, "/one", b"1").await.unwrap().is_new());
    let fast = pattern(9 * MIB, 99);
    assert!(put(&store, "/fast", &fast).await.unwrap().is_new());
    assert!(fs::read(root.path().join("fast")).unwrap() == fast);
    let eighth = store.begin_upload(request("/eighth", None)).await.unwrap();
    let ninth = store.begin_upload(request("/ninth", None)).await;
    assert!(matches!(ninth, Err(StoreError::UploadMemory)), "it is answered at once: {ninth:?}");
    drop(eighth);
    for (nth, mut upload) in (0..).zip(slow) {
        upload.append(&pattern(150_000, nth)).await.unwrap();
        assert_eq!(upload.finish().await.unwrap().size, 300_000);
        let came = pattern(150_000, nth);
        assert!(fs::read(root.path().join(format!("slow-{nth}"))).unwrap() == [&came[..], &came].concat());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_upload_leaves_nothing() {
    let root = folder();
    let (store, giver) = governed(root.path(), &settings());
    let mut upload = store.begin_upload(request("/film", Some(3 << 20))).await.unwrap();
    upload.append(&pattern(2 * MIB, 1)).await.unwrap();
    let (offer, _) = giver.write_offer();
    giver.grant(&offer, 1 << 20, Nanos::MAX);
    drop(upload);
    let stats = store.stats(offer.disk).unwrap();
    while stats.uploads_failed.value() == 0 {
        store.lookup(&path("/")).await.unwrap();
    }
    fence(&store).await; // the turn that gave it up has posted its withdrawal
    assert_eq!(everything_below(root.path()), Vec::<String>::new());
    let flush = |offer: &Offer| matches!(offer.work, StoreWork::Commit { awaited: false, .. });
    assert!(giver.offers().iter().all(flush), "what it wrote is in the drive's cache, and that is all");
    // A grant that was on its way is answered.
    let unused = giver.grant(&offer, 1 << 20, Nanos::MAX);
    assert_eq!(unused.bytes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_uploads_to_one_name_end_with_one_whole_content() {
    let root = folder();
    let store = ungoverned(&[root.path()]);
    let mut running = Vec::new();
    for seed in 0..24 {
        let store = store.clone();
        running.push(tokio::spawn(async move { put(&store, "/same", &pattern(MIB + 100, seed)).await }));
    }
    let mut created = 0;
    for upload in running {
        created += usize::from(upload.await.unwrap().unwrap().is_new());
    }
    assert_eq!(created, 1);
    let last = fs::read(root.path().join("same")).unwrap();
    assert!((0..24).any(|seed| pattern(MIB + 100, seed) == last));
    assert_eq!(everything_below(root.path()), ["same"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_end_when_the_schedule_closes() {
    let root = folder();
    fs::write(root.path().join("old"), "x").unwrap();
    let (store, giver) = governed(root.path(), &settings());
    let mut upload = store.begin_upload(request("/film", Some(3))).await.unwrap();
    upload.append(b"abc").await.unwrap();
    let finished = finishing(&store, upload).await;
    let mut second = store.begin_upload(request("/second", None)).await.unwrap();
    giver.write_offer();
    giver.close();
    assert!(matches!(finished.await, Err(StoreError::Closed)));
    let refused = loop {
        if let Err(error) = second.append(&[0; MIB]).await {
            break error;
        }
    };
    assert!(matches!(refused, StoreError::Closed));
    assert!(matches!(store.delete(&path("/old"), Precondition::None).await, Err(StoreError::Unsettled(_))));
    assert_eq!(store.lookup(&path("/none")).await.unwrap_err().to_string(), "not found", "reading goes on");
}

/// A recording, kept as far as it came if it breaks off.
fn kept(at: &str) -> UploadRequest {
    UploadRequest { on_break: OnBreak::Keep, ..request(at, None) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_that_breaks_off_is_kept_with_all_that_came() {
    let root = folder();
    let store = ungoverned(&[root.path()]);
    let told: Arc<Mutex<Vec<StoreEvent>>> = Arc::default();
    let teller = Arc::clone(&told);
    store.listen(Box::new(move |event| teller.lock().unwrap().push(event)));
    let bytes = pattern((3 << 20) + 777, 4);
    let mut upload = store.begin_upload(kept("/talk.ts")).await.unwrap();
    upload.append(&bytes).await.unwrap();
    let hidden = everything_below(root.path());
    assert!(hidden.len() == 1 && hidden[0].ends_with("-talk.ts") && hidden[0].starts_with('.'), "{hidden:?}");
    drop(upload);
    until("it is kept", || !told.lock().unwrap().is_empty());
    assert!(std::fs::read(root.path().join("talk.ts")).unwrap() == bytes);
    {
        let told = told.lock().unwrap();
        let [StoreEvent::RecordingKept { path: at, bytes: kept, after_restart: false }] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!((at, *kept), (&path("/talk.ts"), (3 << 20) + 777));
    }
    // Of an upload that had not begun to come nothing is left, and the content that it would have replaced stays.
    drop(store.begin_upload(kept("/talk.ts")).await.unwrap());
    let whole = store.begin_upload(kept("/whole.ts")).await.unwrap();
    assert!(whole.finish().await.unwrap().is_new());
    until("nothing hidden is left", || everything_below(root.path()) == ["talk.ts", "whole.ts"]);
    assert!(std::fs::read(root.path().join("talk.ts")).unwrap() == bytes);
}

/// Its folder was moved meanwhile: the next start gives it its name there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_whose_folder_is_moved_stays_where_it_is() {
    let root = folder();
    let store = ungoverned(&[root.path()]);
    let mut upload = store.begin_upload(kept("/cams/talk.ts")).await.unwrap();
    upload.append(b"talk").await.unwrap();
    std::fs::rename(root.path().join("cams"), root.path().join("moved")).unwrap();
    assert!(matches!(upload.finish().await, Err(StoreError::ParentMissing)));
    let below = everything_below(&root.path().join("moved"));
    assert!(
        below.len() == 1 && below[0].starts_with(".isocast-upload-") && below[0].ends_with("-talk.ts"),
        "{below:?}"
    );
    // One whose own condition fails goes.
    let if_new = UploadRequest { precondition: Precondition::MustNotExist, ..kept("/moved/new.ts") };
    let mut upload = store.begin_upload(if_new).await.unwrap();
    upload.append(b"talk").await.unwrap();
    put(&store, "/moved/new.ts", b"other").await.unwrap();
    assert!(matches!(upload.finish().await, Err(StoreError::PreconditionFailed)));
    until("it is gone", || everything_below(&root.path().join("moved")) == [below[0].as_str(), "new.ts"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_and_beside_uploads_get_numbered_names() {
    let root = folder();
    let store = ungoverned(&[root.path()]);
    put(&store, "/talk.ts", b"first").await.unwrap();
    let mut broken = store.begin_upload(kept("/talk.ts")).await.unwrap();
    broken.append(b"second").await.unwrap();
    drop(broken);
    until("it is kept", || everything_below(root.path()) == ["talk.ts", "talk~002.ts"]);
    let beside = UploadRequest { name_taken: NameTaken::Beside, ..kept("/talk.ts") };
    let mut whole = store.begin_upload(beside.clone()).await.unwrap();
    whole.append(b"third").await.unwrap();
    let mut next = store.begin_upload(UploadRequest { memory: Some(whole.memory()), ..beside }).await.unwrap();
    next.append(b"fourth").await.unwrap();
    for (upload, name) in [(whole, "/talk~003.ts"), (next, "/talk~004.ts")] {
        let published = upload.finish().await.unwrap();
        assert_eq!((&published.path, published.is_new()), (&path(name), true));
    }
    let read = |name: &str| std::fs::read_to_string(root.path().join(name)).unwrap();
    let all = ["talk.ts", "talk~002.ts", "talk~003.ts", "talk~004.ts"];
    assert_eq!(all.map(read), ["first", "second", "third", "fourth"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_continues_behind_the_part_of_the_same_version() {
    let (first, second) = (folder(), folder());
    let [before, root] = [&first, &second].map(|root| root.path().join("sub"));
    fs::create_dir(&root).unwrap();
    let store = ungoverned(&[first.path(), second.path()]);
    let bytes = pattern(3 * MIB + 777, 4);
    let of_version = |version| UploadRequest {
        on_break: OnBreak::Resume(version),
        ..request("/sub/film.ts", Some(bytes.len().try_into().unwrap()))
    };
    let mut upload = store.begin_upload(of_version(7)).await.unwrap();
    assert_eq!(upload.begun_with(), 0);
    upload.append(&bytes[..2 * MIB + 100]).await.unwrap();
    let part = everything_below(&root).pop().expect("its hidden file");
    until("what came in whole chunks is written", || fs::metadata(root.join(&part)).unwrap().len() >= 2 << 20);
    drop(upload);
    fence(&store).await;
    assert_eq!(store.list(&path("/sub")).await.unwrap().len(), 0, "it is hidden");

    let mut newer = store.begin_upload(of_version(8)).await.unwrap();
    assert_eq!(newer.begun_with(), 0, "another version begins anew");
    newer.append(b"new").await.unwrap();
    drop(newer);
    fence(&store).await;
    assert_eq!(everything_below(&root), [part.as_str()], "of what nothing was written nothing stays");
    lengthen(&root.join(&part), 1 << 20);

    // Also where another folder would be chosen for a new one.
    fs::create_dir(&before).unwrap();
    let mut upload = store.begin_upload(of_version(7)).await.unwrap();
    assert_eq!(upload.begun_with(), 2 << 20);
    upload.append(&bytes[2 * MIB..]).await.unwrap();
    assert_eq!(upload.finish().await.unwrap().size, 3 * 1024 * 1024 + 777);
    assert_eq!(everything_below(&root), ["film.ts"]);
    assert!(fs::read(root.join("film.ts")).unwrap() == bytes);
}
