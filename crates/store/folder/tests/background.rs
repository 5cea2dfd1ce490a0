//! Work of the store without a request, and failures of the disk or the process.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use crate::common::{
    Ungoverned, everything_below, finishing, folder, governed, lengthen, path, pattern, put, request, serve, settings,
    ungoverned, until,
};
use rustix::fs::{Mode, OFlags};
use storage::grant::{Grant, StoreMessage};
use store::{
    GrantPort, OnBreak, Precondition, Store, StoreError, StoreEvent, StoreSettings, UploadRequest, WakeFn, Want,
};
use units::{DiskFault, Nanos};

const STEP: u64 = 128 << 20;

/// A transport stream of one program at a constant rate: the clock every 10 packets.
fn transport_stream(packets: u64, packets_per_second: u64) -> Vec<u8> {
    let mut stream = Vec::new();
    for number in 0..packets {
        let mut packet = [0xff_u8; 188];
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x10]);
        if number % 10 == 0 {
            packet[3] = 0x20; // an adaptation field only
            let clock = number * 90_000 / packets_per_second;
            let base = clock.to_be_bytes();
            let shifted = (u64::from_be_bytes(base) << 7).to_be_bytes();
            packet[4..6].copy_from_slice(&[183, 0x10]);
            packet[6..11].copy_from_slice(&shifted[3..8]);
            packet[10] |= 0x7e;
            packet[11] = 0;
        }
        stream.extend_from_slice(&packet);
    }
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contents_are_looked_into_before_anybody_asks_and_that_is_kept() {
    let root = folder();
    let state = folder();
    let settings = StoreSettings { state: Some(state.path().to_path_buf()), ..settings() };
    fs::create_dir_all(root.path().join("a/b")).unwrap();
    let stream = transport_stream(20_000, 2_000);
    fs::write(root.path().join("a/b/film.ts"), &stream).unwrap();
    fs::write(root.path().join("a/notes.txt"), "not a film").unwrap();
    std::os::unix::fs::symlink("..", root.path().join("a/ring")).unwrap();
    let (store, giver) = governed(root.path(), &settings);
    let disk = store.disks()[0].id;
    assert_eq!(store.lookup(&path("/a/b/film.ts")).await.unwrap().rate, None);
    assert!(giver.do_chores(&store).await > 0);
    let rate = store.lookup(&path("/a/b/film.ts")).await.unwrap().rate.expect("found without being asked for");
    // Ten seconds of 3 Mbit/s; less suffices where up to four seconds may come ahead.
    let exact = 2_000 * 188 * 8;
    assert!((exact / 2..exact * 3 / 2).contains(&rate.rate.0), "{rate:?}");
    assert_eq!(store.stats(disk).unwrap().probes.value(), 1, "only names that end like films are looked into");
    drop(store);

    // After a restart it is known at once, and nothing is looked into again.
    let (store, giver) = governed(root.path(), &settings);
    let opened = store.open(&path("/a/b/film.ts"), Want::FileAndRate).await.unwrap();
    assert_eq!(opened.media, Some(rate));
    giver.do_chores(&store).await;
    assert_eq!(store.stats(disk).unwrap().probes.value(), 0);
    // A changed content is another one.
    fs::write(root.path().join("a/b/film.ts"), transport_stream(20_000, 1_000)).unwrap();
    let opened = store.open(&path("/a/b/film.ts"), Want::FileAndRate).await.unwrap();
    assert!(opened.media.expect("looked into on demand").rate < rate.rate);
    let plain = store.open(&path("/a/notes.txt"), Want::FileAndRate).await.unwrap();
    assert_eq!(plain.media, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_big_removed_file_keeps_its_bytes_for_its_readers_and_goes_in_steps() {
    let root = folder();
    let big = root.path().join("big");
    File::create(&big).unwrap().set_len(5 * STEP / 2).unwrap();
    // An `O_PATH` descriptor gives the length, and does not count as open.
    let file = File::from(rustix::fs::open(&big, OFlags::PATH, Mode::empty()).unwrap());
    let other_program = File::open(&big).unwrap();
    let (store, giver) = governed(root.path(), &settings());
    giver.do_chores(&store).await;
    let reader = store.open(&path("/big"), Want::File).await.unwrap();
    let deleting = tokio::spawn({
        let store = store.clone();
        async move { store.delete(&path("/big"), Precondition::None).await }
    });
    let commit = giver.commit_offer(true);
    assert!(!big.exists());
    assert!(!deleting.is_finished(), "not acknowledged before it is durable");
    giver.grant_all(&commit);
    deleting.await.unwrap().unwrap();
    assert_eq!(giver.do_chores(&store).await, 0);
    assert_eq!(file.metadata().unwrap().len(), 5 * STEP / 2, "somebody reads it");
    drop(reader);
    // A step each second would be granted by now; the file is looked at in the granted one.
    while giver.do_chores(&store).await == 0 {}
    assert_eq!(file.metadata().unwrap().len(), 5 * STEP / 2, "another program has it open");
    drop(other_program);
    let mut steps = 0;
    while file.metadata().unwrap().len() > STEP {
        steps += giver.do_chores(&store).await; // looked at once a second
    }
    assert!(steps >= 2, "{steps}");
    assert_eq!(file.metadata().unwrap().len(), STEP / 2, "the rest goes with the last descriptor");
}

/// A port in which its thread hangs, as in a system call that does not return.
struct Hanging {
    inner: Ungoverned,
    hangs: Arc<(Mutex<bool>, Condvar)>,
}

impl GrantPort for Hanging {
    fn send(&mut self, message: StoreMessage) -> bool {
        self.inner.send(message)
    }

    fn grant(&mut self) -> Option<Grant> {
        drop(self.hangs.1.wait_while(self.hangs.0.lock().unwrap(), |hangs| *hangs).unwrap());
        self.inner.grant()
    }

    fn wait(&mut self, timeout: Duration) {
        self.inner.wait(timeout);
    }

    fn waker(&self) -> WakeFn {
        self.inner.waker()
    }

    fn is_closed(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_disk_holds_up_no_other_disk() {
    let (one, two) = (folder(), tempfile::tempdir_in("/dev/shm").unwrap());
    fs::write(one.path().join("on-one"), "1").unwrap();
    fs::write(one.path().join("hidden"), "old").unwrap();
    fs::write(two.path().join("on-two"), "2").unwrap();
    fs::write(two.path().join("seen"), "of two").unwrap();
    for (root, name) in [(&one, "replaced"), (&two, "replaced"), (&one, "removed"), (&two, "removed")] {
        fs::write(root.path().join(name), "both have it").unwrap();
    }
    let hangs = Arc::new((Mutex::new(false), Condvar::new()));
    let roots = [one.path().to_path_buf().into(), two.path().to_path_buf().into()];
    let settings = StoreSettings { patience: Duration::from_secs(5), ..StoreSettings::default() };
    let store = serve(&roots, &settings, |disk| {
        let port: Box<dyn GrantPort> = match disk.0 {
            0 => Box::new(Hanging { inner: Ungoverned::default(), hangs: Arc::clone(&hangs) }),
            _ => Box::new(Ungoverned::default()),
        };
        port
    });
    put(&store, "/on-one", b"before").await.unwrap();
    let mut upload = store.begin_upload(request("/on-one", Some(3))).await.unwrap();
    *hangs.0.lock().unwrap() = true;

    let failing = format!("disk {} errs or does not answer", store.disks()[0].device.name);
    let error = loop {
        // Calls before the thread gets to where it hangs are answered.
        if let Err(error) = store.lookup(&path("/on-one")).await {
            break error;
        }
    };
    assert!(matches!(error, StoreError::DiskFailing(_) if error.to_string() == failing), "{error:?}");
    assert_eq!(store.lookup(&path("/on-two")).await.unwrap().size, 1, "what others have is found there");
    assert_eq!(store.open(&path("/on-two"), Want::File).await.unwrap().content.size, 1);
    // The silent root may have any of these names, and its items would be back when it answers, or after a restart: nothing is
    // acknowledged behind it, whether a later root shows the name or not.
    for name in ["/on-neither", "/hidden", "/replaced", "/on-two", "/seen"] {
        let refused = put(&store, name, b"new").await;
        assert!(refused.as_ref().is_err_and(|error| error.to_string() == failing), "{name}: {refused:?}");
        let refused = store.delete(&path(name), Precondition::None).await;
        assert!(refused.as_ref().is_err_and(|error| error.to_string() == failing), "{name}: {refused:?}");
    }
    assert_eq!(fs::read(two.path().join("replaced")).unwrap(), b"both have it");
    let failures: Vec<_> = store.disks().into_iter().map(|disk| disk.failure).collect();
    assert_eq!(failures, [Some(DiskFault::Hung), None]);
    upload.append(b"abc").await.unwrap();
    assert_eq!(upload.finish().await.unwrap_err().to_string(), failing);

    *hangs.0.lock().unwrap() = false;
    hangs.1.notify_all();
    until("the disk answers again", || store.disks()[0].failure.is_none());
    assert_eq!(store.lookup(&path("/on-one")).await.unwrap().size, 6, "it answers again");
    put(&store, "/replaced", b"newest").await.unwrap();
    store.delete(&path("/removed"), Precondition::None).await.unwrap();
    let sizes = |store: Store| async move {
        let listed = store.list(&path("/")).await.unwrap();
        listed.into_iter().map(|entry| (entry.name, entry.size)).collect::<Vec<_>>()
    };
    let names = ["hidden", "on-one", "on-two", "replaced", "seen"];
    let expected: Vec<_> = names.into_iter().map(str::to_owned).zip([3, 6, 1, 6, 6]).collect();
    assert_eq!(sizes(store.clone()).await, expected);
    drop(store);
    assert_eq!(sizes(ungoverned(&[one.path(), two.path()])).await, expected, "a restart changes nothing");
}

/// A small file system of its own, unmounted when dropped.
struct Mounted {
    at: tempfile::TempDir,
    image: Option<tempfile::TempDir>,
}

impl Mounted {
    /// None, with a message, where it cannot be mounted: that takes root, in containers more than that.
    fn new(arguments: &[&str], image: Option<tempfile::TempDir>) -> Option<Self> {
        let at = folder();
        let mount = Command::new("mount").args(arguments).arg(at.path()).output();
        if mount.as_ref().is_ok_and(|mount| mount.status.success()) {
            return Some(Self { at, image });
        }
        crate::common::skip::skipped(&format!("it needs a mount of its own: {mount:?}"));
        None
    }

    fn tmpfs() -> Option<Self> {
        Self::new(&["-t", "tmpfs", "-o", "size=4m", "none"], None)
    }

    /// On a loop device, which goes with the mount.
    fn ext4() -> Option<Self> {
        let place = folder();
        let image = place.path().join("image");
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image).status();
        assert!(made.as_ref().map_or(true, std::process::ExitStatus::success), "{made:?}");
        made.ok()?; // without e2fsprogs there is nothing to mount
        Self::new(&["-o", "loop", image.to_str().unwrap()], Some(place))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(self.at.path()));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_says_so_and_nothing_is_left_behind() {
    for mounted in [Mounted::tmpfs(), Mounted::ext4()].into_iter().flatten() {
        let root = mounted.at.path();
        let before: Vec<_> = everything_below(root);
        let free = |root: &Path| rustix::fs::statvfs(root).map(|space| space.f_bavail * space.f_frsize).unwrap();
        let free_before = free(root);
        let store = ungoverned(&[root]);
        // Known to be too long: refused before a byte is sent.
        let result = store.begin_upload(request("/big", Some(1 << 30))).await;
        assert!(result.as_ref().is_err_and(|error| error.is_full()), "{result:?}");
        // Announced and not sent: the space is still free for other uploads.
        let most = Some(free_before / 3 * 2);
        let announced =
            [store.begin_upload(request("/big", most)).await, store.begin_upload(request("/big", most)).await];
        assert!(announced.iter().all(Result::is_ok), "{announced:?}");
        put(&store, "/small", &pattern(1 << 20, 2)).await.unwrap();
        store.delete(&path("/small"), Precondition::None).await.unwrap();
        drop(announced);
        // Not known: refused when it is full.
        let mut upload = store.begin_upload(request("/big", None)).await.unwrap();
        let bytes = pattern(1 << 20, 1);
        let error = loop {
            if let Err(error) = upload.append(&bytes).await {
                break error;
            }
        };
        assert!(error.is_full(), "{error:?}");
        drop(upload);
        // A content that fits is taken: also where less is free than is otherwise taken ahead.
        let mut upload = store.begin_upload(request("/small", None)).await.unwrap();
        upload.append(&bytes).await.unwrap();
        upload.finish().await.unwrap();
        assert!(fs::read(root.join("small")).unwrap() == bytes);
        let exact = put(&store, "/small", &bytes[..70_000]).await.unwrap();
        assert_eq!((exact.size, exact.is_new()), (70_000, false));
        store.delete(&path("/small"), Precondition::None).await.unwrap();
        assert_eq!(everything_below(root), before);
        drop(store);
        // The disk's thread lets go of the last file when it ends, which no caller waits for.
        until("what was taken is free again", || free(root) + 65_536 >= free_before);
    }
}

#[tokio::test]
async fn extents_are_positions_on_the_disk() {
    let Some(mounted) = Mounted::ext4() else { return };
    let store = ungoverned(&[mounted.at.path()]);
    let info = store.disks()[0].clone();
    assert!(info.device.name.starts_with("loop"), "a loop device is a disk of its own: {info:?}");
    assert_eq!(info.device.capacity_bytes, 16 << 20);
    let bytes = pattern(3 << 20, 9);
    put(&store, "/film", &bytes).await.unwrap();
    let content = store.open(&path("/film"), Want::File).await.unwrap().content;
    assert_eq!(content.file().access, content::layout::FileAccess::Direct);
    let extents: Vec<(u64, u64)> = content.layout.placed_on(content.disk(), |_| 0).collect();
    assert_eq!(extents.iter().map(|(_, length)| length).sum::<u64>(), 3 << 20);
    let disk = fs::read(mounted.image.as_ref().unwrap().path().join("image")).unwrap();
    let mut logical = 0;
    for extent in extents {
        let at = |offset: u64| usize::try_from(offset).unwrap();
        let (physical, length) = (at(extent.0), at(extent.1));
        assert!(disk[physical..physical + length] == bytes[logical..logical + length], "{extent:?}");
        logical += length;
    }
}

const CHILD: &str = "STORE_TEST_CHILD_ROOT";

/// Not a test of its own: the process that [`killed_uploads_leave_nothing_visible_and_recordings_are_found`] kills.
#[tokio::test]
async fn child_that_is_killed() {
    let Some(root) = std::env::var_os(CHILD) else { return };
    let root = PathBuf::from(root);
    let (store, giver) = governed(&root, &settings());
    let mut upload = store.begin_upload(request("/film", Some(2 << 20))).await.unwrap();
    upload.append(&pattern(2 << 20, 5)).await.unwrap();
    let mut replacing = store.begin_upload(request("/old", Some(3))).await.unwrap();
    replacing.append(b"new").await.unwrap();
    let recording = UploadRequest { on_break: OnBreak::Keep, ..request("/talk.ts", None) };
    let mut recording = store.begin_upload(recording).await.unwrap();
    recording.append(&pattern(2 << 20, 6)).await.unwrap();
    recording.append(b"only in memory").await.unwrap();
    let finished = (finishing(&store, upload).await, finishing(&store, replacing).await);
    for _ in 0..3 {
        let (offer, _) = giver.write_offer();
        giver.grant_all(&offer);
    }
    giver.commit_offer(true); // all is written, nothing is published
    fs::write(root.join("ready"), "").unwrap();
    std::future::pending::<()>().await;
    drop((finished, recording));
}

#[tokio::test]
async fn killed_uploads_leave_nothing_visible_and_recordings_are_found_as_far_as_they_were_written() {
    let root = folder();
    fs::write(root.path().join("old"), "old").unwrap();
    // As an upload on a file system without nameless files would leave it.
    fs::write(root.path().join(".isocast-upload-1-2-3"), "half").unwrap();
    // An upload that another may continue stays for a week.
    let (waiting, given_up) = (".isocast-upload-part-07-film", ".isocast-upload-part-08-film");
    for part in [waiting, given_up] {
        fs::write(root.path().join(part), "half").unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    fs::File::options().write(true).open(root.path().join(given_up)).unwrap().set_modified(long_ago).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "background::child_that_is_killed"])
        .env(CHILD, root.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the child has written all", || {
        assert!(child.try_wait().unwrap().is_none(), "the child ended early");
        root.path().join("ready").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let hidden =
        everything_below(root.path()).into_iter().find(|name| name.ends_with("-talk.ts")).expect("it is hidden");
    lengthen(&root.path().join(hidden), 1 << 20);
    fs::write(root.path().join("talk.ts"), "newer").unwrap();
    let (store, giver) = governed(root.path(), &settings());
    let listed: Vec<_> = store.list(&path("/")).await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(listed, ["old", "ready", "talk.ts"]);
    let told: Arc<Mutex<Vec<StoreEvent>>> = Arc::default();
    let teller = Arc::clone(&told);
    store.listen(Box::new(move |event| teller.lock().unwrap().push(event)));
    giver.do_chores(&store).await;
    giver.grant(&giver.commit_offer(true), 0, Nanos::MAX);
    assert_eq!(everything_below(root.path()), [waiting, "old", "ready", "talk.ts", "talk~002.ts"]);
    // Another one has its name since: nothing is replaced.
    assert_eq!(fs::read(root.path().join("talk.ts")).unwrap(), b"newer");
    assert!(fs::read(root.path().join("talk~002.ts")).unwrap() == pattern(2 << 20, 6));
    let told = told.lock().unwrap();
    let [StoreEvent::RecordingKept { bytes, after_restart: true, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*bytes, 2 << 20);
    assert_eq!(fs::read(root.path().join("old")).unwrap(), b"old");
    assert_eq!(fs::metadata(root.path().join("old")).unwrap().nlink(), 1);
}

/// A start after a power cut: cameras wait for the disk's thread meanwhile. Each recording had a sync of its own, all in one step: 6 s for
/// 128.
#[tokio::test]
async fn recordings_that_a_crash_left_get_their_names_in_one_commit() {
    const CAMERAS: usize = 20;
    let root = folder();
    for camera in 0..CAMERAS {
        fs::write(root.path().join(format!(".isocast-upload-1-2-{camera}-cam{camera:02}.ts")), "what came").unwrap();
    }
    let (store, giver) = governed(root.path(), &settings());
    let steps = giver.do_chores(&store).await;
    assert!(steps > CAMERAS / 8, "a few at a time: {steps} steps");
    let listed = async || store.list(&path("/")).await.unwrap().len();
    assert_eq!(listed().await, 0, "no sync was made");
    giver.grant(&giver.commit_offer(true), 0, Nanos::MAX);
    assert_eq!(listed().await, CAMERAS);
    assert_eq!(everything_below(root.path())[CAMERAS - 1], "cam19.ts");
}
