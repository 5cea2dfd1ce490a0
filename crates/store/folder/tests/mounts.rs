//! Roots that go and come, with real mounts: needs root.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Ungoverned, everything_below, folder, path, put, request, serve, settings, ungoverned, until};
use folder::RootSetting;
use store::{Precondition, RootAway, Store, StoreError, StoreEvent};

/// Mounts, or prints why the test is skipped where it cannot.
fn mount(arguments: &[&str], at: &Path) -> bool {
    let mounted = Command::new("mount").args(arguments).arg(at).output();
    if mounted.as_ref().is_ok_and(|mount| mount.status.success()) {
        return true;
    }
    crate::common::skip::skipped(&format!("it needs to mount, which takes root: {mounted:?}"));
    false
}

fn mount_tmpfs(at: &Path) -> bool {
    mount(&["-t", "tmpfs", "-o", "size=4m", "none"], at)
}

fn umount_lazily(at: &Path) {
    assert!(Command::new("umount").arg("-l").arg(at).status().unwrap().success());
}

fn away<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> Option<RootAway> {
    match result {
        Err(StoreError::RootAway(why)) => Some(*why),
        _ => None,
    }
}

/// The events of a store so far, in words.
fn listen(store: &Store) -> Arc<Mutex<Vec<String>>> {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let teller = Arc::clone(&told);
    store.listen(Box::new(move |event| {
        let text = match event {
            StoreEvent::RootAway { why, .. } => format!("{why:?}"),
            StoreEvent::RootBack { .. } => "back".to_owned(),
            other => format!("{other:?}"),
        };
        teller.lock().unwrap().push(text);
    }));
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_below_a_mount_point() {
    let place = folder();
    let root = place.path().join("media");
    fs::create_dir(&root).unwrap();
    let store = ungoverned(&[&root]);
    let told = listen(&store);
    put(&store, "/before", b"1").await.unwrap();
    let mut begun = store.begin_upload(request("/begun", Some(3))).await.unwrap();
    begun.append(b"abc").await.unwrap();
    // Another disk is mounted there: the next upload knows it, and so does the upload under way.
    if !mount_tmpfs(&root) {
        return;
    }
    assert_eq!(away(&put(&store, "/after", b"1").await), Some(RootAway::OtherDisk));
    assert_eq!(away(&begun.finish().await), Some(RootAway::OtherDisk));
    assert_eq!(away(&store.lookup(&path("/before")).await), Some(RootAway::OtherDisk));
    assert_eq!(away(&store.delete(&path("/before"), Precondition::None).await), Some(RootAway::OtherDisk));
    assert_eq!(everything_below(&root), Vec::<String>::new());
    umount_lazily(&root);
    assert_eq!(everything_below(&root), ["before"]);
    put(&store, "/after", b"1").await.unwrap();
    assert_eq!(*told.lock().unwrap(), ["OtherDisk", "back"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_is_unmounted_lazily_is_away_until_it_is_mounted_again() {
    let place = folder();
    let root = place.path().join("media");
    fs::create_dir(&root).unwrap();
    if !mount_tmpfs(&root) {
        return;
    }
    let store = ungoverned(&[&root]);
    let told = listen(&store);
    put(&store, "/film", b"first").await.unwrap();
    umount_lazily(&root);
    // Noticed without a request.
    until("it is noticed", || told.lock().unwrap().len() == 1);
    assert_eq!(away(&put(&store, "/film", b"lost").await), Some(RootAway::NotMounted));
    assert_eq!(everything_below(&root), Vec::<String>::new(), "nothing below the mount point");
    assert!(mount_tmpfs(&root));
    put(&store, "/film", b"second").await.unwrap();
    assert_eq!(fs::read(root.join("film")).unwrap(), b"second");
    assert_eq!(*told.lock().unwrap(), ["NotMounted", "back"]);
    umount_lazily(&root);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_must_be_mounted_is_not_served_without() {
    let place = folder();
    let root = place.path().join("media");
    fs::create_dir(&root).unwrap();
    let setting = RootSetting { path: root.clone(), require_mount: true };
    let store = serve(&[setting], &settings(), |_| Box::new(Ungoverned::default()));
    assert_eq!(away(&put(&store, "/film", b"1").await), Some(RootAway::NotMounted));
    assert_eq!(everything_below(&root), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_is_made_again_is_served_as_it_is() {
    let place = folder();
    let root = place.path().join("media");
    fs::create_dir(&root).unwrap();
    let store = ungoverned(&[&root]);
    let told = listen(&store);
    put(&store, "/old", b"1").await.unwrap();
    let begun = store.begin_upload(request("/begun", Some(0))).await.unwrap();
    fs::rename(&root, place.path().join("away")).unwrap();
    assert_eq!(away(&put(&store, "/new", b"1").await), Some(RootAway::Missing));
    fs::create_dir(&root).unwrap();
    put(&store, "/new", b"1").await.unwrap();
    assert!(matches!(begun.finish().await, Err(StoreError::ParentMissing)), "its folder is another one");
    assert_eq!(everything_below(&root), ["new"]);
    assert_eq!(*told.lock().unwrap(), ["Missing", "back"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_root_can_be_remounted_read_only() {
    let place = folder();
    let (image, root) = (place.path().join("image"), place.path().join("media"));
    fs::create_dir(&root).unwrap();
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
    if !made.is_ok_and(|status| status.success()) {
        return crate::common::skip::skipped("it needs mkfs.ext4");
    }
    if !mount(&["-o", "loop", image.to_str().unwrap()], &root) {
        return;
    }
    let store = ungoverned(&[&root]);
    put(&store, "/film", &vec![1; 3 << 20]).await.unwrap();
    let remount = || Command::new("mount").args(["-o", "remount,ro"]).arg(&root).output().unwrap();
    let mut last = remount();
    for _ in 0..100 {
        if last.status.success() {
            break;
        }
        // The disk's thread lets go of the file removed or flushed last, and reports it to no caller.
        tokio::time::sleep(Duration::from_millis(50)).await;
        last = remount();
    }
    assert!(last.status.success(), "{last:?}");
    let refused = put(&store, "/film", b"1").await;
    assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
    drop(store);
    umount_lazily(&root);
}
