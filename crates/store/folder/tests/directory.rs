//! Names, contents and versions on real folders.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Ungoverned, folder, path, pattern, put, request, ungoverned};
use content::layout::FileAccess;
use rustix::fs::IFlags;
use store::{ContentPath, NameKind, Precondition, StoreError, Want};

#[tokio::test]
async fn existing_contents_are_found_opened_and_listed() {
    let root = folder();
    fs::create_dir(root.path().join("映画")).unwrap();
    let bytes = pattern(300_001, 1);
    fs::write(root.path().join("映画/ночь 🌙.mp4"), &bytes).unwrap();
    fs::write(root.path().join("映画/.isocast-upload-1-2"), "half").unwrap();
    File::open(root.path().join("映画/ночь 🌙.mp4")).unwrap().sync_all().unwrap();
    let store = ungoverned(&[root.path()]);
    let film = ContentPath::root().child("映画").unwrap().child("ночь 🌙.mp4").unwrap();

    let entry = store.lookup(&film).await.unwrap();
    assert_eq!((entry.name.as_str(), entry.kind, entry.size), ("ночь 🌙.mp4", NameKind::File, 300_001));
    let opened = store.open(&film, Want::File).await.unwrap();
    assert_eq!(opened.entry, entry);
    assert_eq!(opened.content.size, 300_001);
    let content = &opened.content;
    if content.file().access == FileAccess::Direct {
        let placed: Vec<(u64, u64)> = content.layout.placed_on(content.disk(), |_| 0).collect();
        let mapped: u64 = placed.iter().map(|(_, length)| length).sum();
        assert!(placed.is_empty() || mapped >= 300_001, "{placed:?}");
    }
    let listed = store.list(&path("/")).await.unwrap();
    assert_eq!(listed.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["映画"]);
    assert_eq!(listed[0].kind, NameKind::Directory);
    assert_eq!(store.list(&ContentPath::root().child("映画").unwrap()).await.unwrap(), [entry]);

    assert!(matches!(store.lookup(&path("/none")).await, Err(StoreError::NotFound)));
    assert!(matches!(store.list(&film).await, Err(StoreError::NotADirectory)));
    assert!(matches!(store.list(&path("/none")).await, Err(StoreError::NotFound)));
    assert!(matches!(store.open(&path("/"), Want::File).await, Err(StoreError::IsDirectory)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opens_at_once_of_one_content_give_the_same_one() {
    let root = folder();
    for film in 0..20 {
        fs::write(root.path().join(film.to_string()), "film").unwrap();
    }
    let store = ungoverned(&[root.path()]);
    for film in 0..20 {
        let open = || {
            let (store, film) = (store.clone(), path(&format!("/{film}")));
            tokio::spawn(async move { store.open(&film, Want::File).await.unwrap().content })
        };
        let opens: Vec<_> = (0..16).map(|_| open()).collect();
        let mut contents = Vec::new();
        for opened in opens {
            contents.push(opened.await.unwrap());
        }
        assert!(contents.iter().all(|content| Arc::ptr_eq(content, &contents[0])));
    }
}

#[tokio::test]
async fn an_unchanged_content_is_shared_and_a_changed_one_is_new() {
    let root = folder();
    fs::write(root.path().join("a"), pattern(10_000, 1)).unwrap();
    symlink("a", root.path().join("same")).unwrap();
    let store = ungoverned(&[root.path()]);
    let first = store.open(&path("/a"), Want::File).await.unwrap();
    let again = store.open(&path("/a"), Want::File).await.unwrap();
    let other_name = store.open(&path("/same"), Want::File).await.unwrap();
    assert!(Arc::ptr_eq(&first.content, &again.content) && Arc::ptr_eq(&first.content, &other_name.content));
    let version = first.content.version;
    drop((again, other_name));

    // Replaced: a new version, and the old one still has its bytes.
    let new = pattern(12_000, 2);
    let published = put(&store, "/a", &new).await.unwrap();
    assert!(!published.is_new());
    let second = store.open(&path("/a"), Want::File).await.unwrap();
    assert_ne!(second.content.version, version);
    assert_eq!(second.entry.etag, published.etag);
    assert_ne!(second.entry.etag, first.entry.etag);
    assert_eq!(read_all(&first.content), pattern(10_000, 1));
    assert_eq!(read_all(&second.content), new);

    // Changed in place by another program: a new version, too.
    fs::OpenOptions::new().write(true).open(root.path().join("a")).unwrap().set_len(5_000).unwrap();
    let third = store.open(&path("/a"), Want::File).await.unwrap();
    assert_eq!(third.content.size, 5_000);
    assert_ne!(third.content.version, second.content.version);

    // Opened again after the last reader let go: the version is remembered, so that cached blocks still serve.
    let version = third.content.version;
    drop(third);
    assert_eq!(store.open(&path("/a"), Want::File).await.unwrap().content.version, version);
}

#[tokio::test]
async fn nothing_outside_the_root_is_served_or_listed() {
    let outer = folder();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let store = ungoverned(&[&root]);
    for name in ["/out", "/absolute", "/magic", "/magic/etc/passwd", "/pipe"] {
        let result = store.open(&path(name), Want::File).await;
        let by = if name == "/pipe" { store::ForbiddenBy::Special } else { store::ForbiddenBy::Link };
        assert!(matches!(result, Err(StoreError::Forbidden(found)) if found == by), "{name}: {result:?}");
        let put = put(&store, name, b"x").await;
        assert!(matches!(put, Err(StoreError::Forbidden(_))), "{name}: {put:?}");
        let deleted = store.delete(&path(name), Precondition::None).await;
        assert!(matches!(deleted, Err(StoreError::Forbidden(_))), "{name}: {deleted:?}");
    }
    assert_eq!(fs::read_dir(&root).unwrap().count(), 4, "what is no content stays");
    assert_eq!(store.list(&path("/")).await.unwrap(), []);
}

#[tokio::test]
async fn roots_are_one_namespace_and_the_first_wins() {
    let (one, two) = (folder(), folder());
    for (root, name, text) in
        [(&one, "both", "first"), (&two, "both", "second"), (&one, "only-1", "x"), (&two, "sub/deep", "y")]
    {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let store = ungoverned(&[one.path(), two.path()]);
    assert_eq!(store.disks().len(), 1, "both folders are on one disk");
    assert_eq!(store.disks()[0].roots, [one.path(), two.path()]);
    let roots = [one.path().to_path_buf().into(), two.path().to_path_buf().into()];
    let disks = folder::FolderDisks::discover(&roots).unwrap();
    assert_eq!(disks.places().map(|(_, path)| path).collect::<Vec<_>>(), [one.path()]);
    let names: Vec<_> = store.list(&path("/")).await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["both", "only-1", "sub"]);
    assert_eq!(store.lookup(&path("/both")).await.unwrap().size, 5);
    assert_eq!(store.lookup(&path("/sub/deep")).await.unwrap().size, 1);

    // A folder of both is as new as the newer one.
    let at = |seconds| std::time::UNIX_EPOCH + Duration::from_secs(seconds);
    for (root, seconds) in [(&one, 1_000), (&two, 2_000)] {
        let shared = root.path().join("shared");
        fs::create_dir(&shared).unwrap();
        File::open(&shared).unwrap().set_modified(at(seconds)).unwrap();
    }
    assert_eq!(store.lookup(&path("/shared")).await.unwrap().modified, at(2_000));
    for listed in [store.list(&path("/")).await.unwrap(), store.list_part(&path("/"), "", 9).await.unwrap()] {
        assert_eq!(listed.iter().find(|entry| entry.name == "shared").unwrap().modified, at(2_000));
    }

    // An upload goes to the root of its directory, and replaces the visible content.
    put(&store, "/sub/new", b"hello").await.unwrap();
    assert_eq!(fs::read(two.path().join("sub/new")).unwrap(), b"hello");
    assert!(!put(&store, "/both", b"replaced").await.unwrap().is_new());
    assert_eq!(fs::read(one.path().join("both")).unwrap(), b"replaced");

    // A deleted name does not come to light again from a later root.
    store.delete(&path("/both"), Precondition::None).await.unwrap();
    assert!(matches!(store.lookup(&path("/both")).await, Err(StoreError::NotFound)));
}

/// Prevents the removal of `file`: even by root where the file system knows how. False if it cannot be done.
fn pin(file: &Path, pinned: bool) -> bool {
    if !rustix::process::geteuid().is_root() {
        let mode = if pinned { 0o555 } else { 0o755 };
        return fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(mode)).is_ok();
    }
    let flags = if pinned { IFlags::IMMUTABLE } else { IFlags::empty() };
    rustix::fs::ioctl_setflags(File::open(file).unwrap(), flags).is_ok()
}

#[tokio::test]
async fn a_deletion_that_a_later_root_forbids_changes_nothing() {
    let (one, two) = (folder(), folder());
    let hidden = two.path().join("both");
    fs::write(one.path().join("both"), "first").unwrap();
    fs::write(&hidden, "second").unwrap();
    fs::write(one.path().join("name"), "a file here").unwrap();
    fs::create_dir(two.path().join("name")).unwrap();
    let store = ungoverned(&[one.path(), two.path()]);
    let wrong = Precondition::MustMatch(vec!["\"wrong\"".into()]);
    assert!(matches!(store.delete(&path("/both"), wrong).await, Err(StoreError::PreconditionFailed)));
    assert!(hidden.exists(), "what is hidden stays when the condition does not hold");
    if pin(&hidden, true) {
        let refused = store.delete(&path("/both"), Precondition::None).await;
        assert!(pin(&hidden, false));
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(store.lookup(&path("/both")).await.unwrap().size, 5);
    }
    store.delete(&path("/both"), Precondition::None).await.unwrap();
    assert!(!hidden.exists() && !one.path().join("both").exists());

    // A folder of that name in a later root is no content: it does not forbid the deletion, and stays.
    store.delete(&path("/name"), Precondition::None).await.unwrap();
    assert_eq!(store.lookup(&path("/name")).await.unwrap().kind, NameKind::Directory);
}

#[tokio::test]
async fn deletes_check_the_present_content() {
    let root = folder();
    fs::create_dir_all(root.path().join("sub/empty")).unwrap();
    fs::write(root.path().join("a"), "x").unwrap();
    let store = ungoverned(&[root.path()]);
    let etag = store.lookup(&path("/a")).await.unwrap().etag;
    let wrong = Precondition::MustMatch(vec!["\"wrong\"".into()]);
    assert!(matches!(store.delete(&path("/sub"), Precondition::None).await, Err(StoreError::NotEmpty)));
    store.delete(&path("/sub/empty"), Precondition::None).await.unwrap();
    store.delete(&path("/sub"), Precondition::None).await.unwrap();
    assert!(!root.path().join("sub").exists());
    assert!(matches!(store.delete(&path("/none"), Precondition::None).await, Err(StoreError::NotFound)));
    assert!(matches!(store.delete(&path("/none"), wrong.clone()).await, Err(StoreError::NotFound)));
    assert!(matches!(store.delete(&path("/a"), wrong).await, Err(StoreError::PreconditionFailed)));
    store.delete(&path("/a"), Precondition::MustMatch(vec![etag])).await.unwrap();
    assert!(!root.path().join("a").exists());
}

#[tokio::test]
async fn of_a_link_only_the_link_goes() {
    let root = folder();
    fs::create_dir_all(root.path().join("full/empty")).unwrap();
    fs::write(root.path().join("full/a"), "x").unwrap();
    let store = ungoverned(&[root.path()]);
    for (link, target) in [("to-folder", "full"), ("to-empty", "full/empty"), ("to-file", "full/a")] {
        std::os::unix::fs::symlink(target, root.path().join(link)).unwrap();
        store.delete(&path(&format!("/{link}")), Precondition::None).await.unwrap();
        assert!(fs::symlink_metadata(root.path().join(link)).is_err(), "{link}");
        assert!(root.path().join(target).exists(), "{target}");
    }
}

#[tokio::test]
async fn a_folder_that_goes_takes_no_content_with_it() {
    let (one, two) = (folder(), folder());
    fs::create_dir(one.path().join("name")).unwrap();
    fs::write(two.path().join("name"), "hidden").unwrap();
    let store = ungoverned(&[one.path(), two.path()]);
    store.delete(&path("/name"), Precondition::None).await.unwrap();
    assert!(!one.path().join("name").exists());
    assert_eq!(fs::read(two.path().join("name")).unwrap(), b"hidden");
}

#[tokio::test]
async fn memory_file_systems_are_read_through_the_cache() {
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::write(root.path().join("a"), pattern(5_000, 3)).unwrap();
    let store = ungoverned(&[root.path()]);
    let opened = store.open(&path("/a"), Want::File).await.unwrap();
    assert_eq!(opened.content.file().access, FileAccess::Buffered);
    assert_eq!(opened.content.layout.placed_on(opened.content.disk(), |_| 0).count(), 0);
    put(&store, "/b", &pattern(1_500_000, 4)).await.unwrap();
    assert_eq!(fs::read(root.path().join("b")).unwrap(), pattern(1_500_000, 4));
}

/// Of a file up to the last place that the kernel knows in one, all reads that end on a block can be made; a longer one is no error of a disk.
#[tokio::test]
async fn a_file_that_ends_beyond_all_blocks_is_refused() {
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let lengths = [("longest", i64::MAX.unsigned_abs() / 4096 * 4096), ("longer", i64::MAX.unsigned_abs())];
    for (name, length) in lengths {
        File::create(root.path().join(name)).unwrap().set_len(length).unwrap();
    }
    let store = ungoverned(&[root.path()]);
    let longest = store.open(&path("/longest"), Want::File).await.unwrap();
    assert_eq!(longest.content.size, lengths[0].1);
    let error = store.open(&path("/longer"), Want::File).await.unwrap_err();
    assert!(matches!(error, StoreError::Io(_)), "{error}");
    assert_eq!(store.list(&path("/")).await.unwrap().len(), 2);
}

/// All of a content, through its own descriptor.
fn read_all(content: &content::Content) -> Vec<u8> {
    let file = File::from(content.file().file.try_clone().unwrap());
    let size = usize::try_from(content.size).unwrap();
    let mut memory = vec![0_u8; size.next_multiple_of(4096) + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let end = start + size.next_multiple_of(4096);
    let read = file.read_at(&mut memory[start..end], 0).unwrap();
    assert_eq!(read, size);
    memory[start..start + size].to_vec()
}

#[tokio::test]
async fn hidden_names_are_neither_listed_nor_served_unless_they_are_to_be() {
    let root = folder();
    for directory in [".git", "lost+found"] {
        fs::create_dir(root.path().join(directory)).unwrap();
        fs::write(root.path().join(directory).join("config"), "secret").unwrap();
    }
    fs::write(root.path().join(".env"), "secret").unwrap();
    symlink(".git", root.path().join("alias")).unwrap();
    symlink(".env", root.path().join("link")).unwrap();
    fs::write(root.path().join("film"), "public").unwrap();
    let store = ungoverned(&[root.path()]);
    let names = |entries: Vec<store::Entry>| entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    assert_eq!(names(store.list(&path("/")).await.unwrap()), ["film"]);
    for hidden in ["/.env", "/.git/config", "/lost+found/config"] {
        let opened = store.open(&path(hidden), Want::File).await;
        assert!(matches!(opened, Err(StoreError::NotFound)), "{hidden}: {opened:?}");
        let deleted = store.delete(&path(hidden), Precondition::None).await;
        assert!(matches!(deleted, Err(StoreError::NotFound)), "{hidden}: {deleted:?}");
        let put = put(&store, hidden, b"x").await;
        assert!(matches!(put, Err(StoreError::Forbidden(store::ForbiddenBy::Name))), "{hidden}: {put:?}");
    }
    assert!(matches!(store.list(&path("/.git")).await, Err(StoreError::NotFound)));
    // Nor by a name that leads there.
    for alias in ["/alias/config", "/alias/new", "/link"] {
        assert!(matches!(store.open(&path(alias), Want::File).await, Err(StoreError::Forbidden(_))), "{alias}");
        assert!(
            matches!(store.delete(&path(alias), Precondition::None).await, Err(StoreError::Forbidden(_))),
            "{alias}"
        );
        assert!(matches!(put(&store, alias, b"x").await, Err(StoreError::Forbidden(_))), "{alias}");
    }
    assert_eq!(fs::read_dir(root.path().join(".git")).unwrap().count(), 1);
    drop(store);
    let shown = store::StoreSettings { hidden_files: true, ..crate::common::settings() };
    let store = crate::common::serve(&[root.path().to_path_buf().into()], &shown, |_| Box::new(Ungoverned::default()));
    assert_eq!(names(store.list(&path("/")).await.unwrap()), [".env", ".git", "alias", "film", "link", "lost+found"]);
    assert_eq!(store.lookup(&path("/.git/config")).await.unwrap().size, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_of_one_name_at_the_same_time_go_to_one_root() {
    let (first, second) = (folder(), folder());
    let store = ungoverned(&[first.path(), second.path()]);
    fs::create_dir(second.path().join("d")).unwrap();
    let mut one = store.begin_upload(request("/d/x", Some(3))).await.unwrap();
    // Now the first root has the directory, too: alone, the next upload would go there.
    fs::create_dir(first.path().join("d")).unwrap();
    let mut two = store.begin_upload(request("/d/x", Some(3))).await.unwrap();
    two.append(b"two").await.unwrap();
    assert!(two.finish().await.unwrap().is_new());
    one.append(b"one").await.unwrap();
    assert!(!one.finish().await.unwrap().is_new(), "it replaces the other");
    assert_eq!(fs::read(second.path().join("d/x")).unwrap(), b"one");
    assert!(!first.path().join("d/x").exists());
}
