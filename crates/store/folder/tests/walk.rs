//! The walk through a folder's tree, on real folders: the items that count, once, and the files that it removes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::common::{folder, path, ungoverned};
use folder::LocalWalk;
use store::{Store, StoreError, StoredItem, WalkedKind};

/// The files that a walk meets: under which paths, and whether each was met before.
async fn files(store: &Store, folder: &str) -> BTreeMap<Vec<u8>, StoredItem> {
    let mut walk = store.walk(&path(folder)).await.expect("it begins");
    let mut files = BTreeMap::new();
    while let Some(item) = walk.next().await {
        let item = item.expect("all can be read");
        if let WalkedKind::File(_) = item.walked.kind {
            assert!(files.insert(item.walked.path.as_os_str().as_bytes().to_owned(), item).is_none(), "once");
        }
    }
    files
}

fn names(files: &BTreeMap<Vec<u8>, StoredItem>) -> Vec<String> {
    files.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[tokio::test]
async fn links_and_loops_are_not_followed_and_hard_links_are_known() {
    let root = folder();
    let at = |name: &str| root.path().join(name);
    for made in ["rec/day", "archive"] {
        fs::create_dir_all(at(made)).unwrap();
    }
    for file in ["rec/day/a.ts", "rec/.hidden", "archive/old.ts"] {
        fs::write(at(file), "12345").unwrap();
    }
    fs::write(root.path().join("rec").join(OsStr::from_bytes(b"caf\xe9.ts")), "123").unwrap();
    fs::hard_link(at("rec/day/a.ts"), at("rec/again.ts")).unwrap();
    for (target, link) in [(".", "rec/self"), ("../archive", "rec/archive"), ("day", "rec/latest"), ("rec", "alias")] {
        symlink(target, at(link)).unwrap();
    }
    symlink("day/a.ts", at("rec/a-link.ts")).unwrap();
    let store = ungoverned(&[root.path()]);
    for folder in ["/rec", "/alias"] {
        let files = files(&store, folder).await;
        assert_eq!(names(&files), [".hidden", "again.ts", "caf\u{fffd}.ts", "day/a.ts"], "{folder}");
        let again = files.values().filter(|item| matches!(item.walked.kind, WalkedKind::File(file) if file.is_again));
        assert_eq!(again.count(), 1, "two names of one file");
        let shown: Vec<bool> = files.values().map(|item| item.is_shown).collect();
        assert_eq!(shown, [false, true, true, true], "the hidden one counts, and is not shown");
    }
    let local: Vec<_> = LocalWalk::begin(&at("rec")).unwrap().map(|item| item.unwrap().path).collect();
    assert_eq!(local.len(), 9, "{local:?}");
    assert!(matches!(store.walk(&path("/none")).await, Err(StoreError::NotFound)));
    assert!(matches!(store.walk(&path("/rec/again.ts")).await, Err(StoreError::NotADirectory)));
}

#[tokio::test]
async fn a_walked_entry_is_removed_as_that_file_or_not_at_all() {
    let root = folder();
    let at = |name: &str| root.path().join(name);
    for made in ["rec/day", "archive"] {
        fs::create_dir_all(at(made)).unwrap();
    }
    for file in ["rec/day/a.ts", "rec/day/b.ts", "rec/c.ts", "archive/a.ts"] {
        fs::write(at(file), "12345").unwrap();
    }
    fs::write(at("rec").join(OsStr::from_bytes(b"caf\xe9.ts")), "123").unwrap();
    fs::hard_link(at("rec/c.ts"), at("rec/d.ts")).unwrap();
    let store = ungoverned(&[root.path()]);
    let met = files(&store, "/rec").await;
    let remove = async |name: &[u8]| store.remove(&path("/rec"), &met[name]).await;
    // The folder was moved away, and a link to another one has its name now.
    fs::rename(at("rec/day"), at("moved")).unwrap();
    symlink("../archive", at("rec/day")).unwrap();
    assert!(remove(b"day/a.ts").await.is_err());
    assert!(at("archive/a.ts").exists() && at("moved/a.ts").exists());
    fs::remove_file(at("rec/day")).unwrap();
    fs::rename(at("moved"), at("rec/day")).unwrap();
    fs::write(at("rec/day/b.ts"), "written anew").unwrap();
    assert!(matches!(remove(b"day/b.ts").await, Err(StoreError::PreconditionFailed)));
    remove(b"day/a.ts").await.unwrap();
    assert!(matches!(remove(b"day/a.ts").await, Err(StoreError::NotFound)));
    remove(b"caf\xe9.ts").await.unwrap();
    // Each name of a file, though removing the first one changed it.
    remove(b"c.ts").await.unwrap();
    remove(b"d.ts").await.unwrap();
    assert_eq!(names(&files(&store, "/rec").await), ["day/b.ts"]);
}

#[tokio::test]
async fn a_name_is_shown_by_the_first_root_and_removed_in_all() {
    let (first, second) = (folder(), folder());
    for root in [&first, &second] {
        fs::create_dir(root.path().join("rec")).unwrap();
        fs::write(root.path().join("rec/a.ts"), "12345").unwrap();
    }
    fs::write(second.path().join("rec/b.ts"), "12345").unwrap();
    let store = ungoverned(&[first.path(), second.path()]);
    let mut walk = store.walk(&path("/rec")).await.unwrap();
    assert_eq!(walk.ids().len(), 2);
    let mut met = Vec::new();
    while let Some(item) = walk.next().await {
        met.push(item.unwrap());
    }
    let shown: Vec<bool> = met.iter().map(|item| item.is_shown).collect();
    assert_eq!((met.len(), shown.iter().filter(|shown| **shown).count()), (3, 2), "{met:?}");
    store.remove(&path("/rec"), &met[0]).await.unwrap();
    assert!(!first.path().join("rec/a.ts").exists() && !second.path().join("rec/a.ts").exists());
    // A root within another one is walked once.
    let both = ungoverned(&[second.path(), &second.path().join("rec")]);
    assert_eq!(names(&files(&both, "/").await), ["rec/b.ts"]);
}

#[tokio::test]
async fn the_folders_of_an_upload_are_found_by_every_way() {
    let root = folder();
    fs::create_dir_all(root.path().join("sub/rec")).unwrap();
    symlink("sub", root.path().join("alias")).unwrap();
    let inner = root.path().join("sub");
    let store = ungoverned(&[root.path(), &inner]);
    let sub = store.walk(&path("/sub")).await.unwrap().ids()[0];
    for name in ["/sub/a", "/sub/new/folder/a", "/alias/rec/a", "/rec/a"] {
        assert!(store.place_of(&path(name)).await.unwrap().folders.contains(&sub), "{name}");
    }
    let only = ungoverned(&[root.path()]);
    assert!(!only.place_of(&path("/else/a")).await.unwrap().folders.contains(&sub));
}

#[tokio::test]
async fn of_many_names_in_a_folder_each_is_listed_walked_and_found_in_parts() {
    const NAMES: usize = 100_050;
    let root = folder();
    let many = root.path().join("many");
    fs::create_dir(&many).unwrap();
    File::create(many.join("000000")).unwrap();
    // Names of few files: a file has room for 65,000 on ext4.
    for number in 1..NAMES {
        let of = many.join(format!("{:06}", number / 30_000 * 30_000));
        let name = many.join(format!("{number:06}"));
        if of == name { drop(File::create(&name).unwrap()) } else { fs::hard_link(&of, &name).unwrap() }
    }
    let store = ungoverned(&[root.path()]);
    let listed = store.list(&path("/many")).await.unwrap();
    assert_eq!(listed.len(), NAMES);
    assert!(listed.is_sorted_by(|one, other| one.name < other.name));
    assert_eq!(files(&store, "/many").await.len(), NAMES);
    let part = store.list_part(&path("/many"), "099999", 1000).await.unwrap();
    assert_eq!(part, listed[100_000..]);
    let part = store.list_part(&path("/many"), "", 3).await.unwrap();
    assert_eq!(part, listed[..3]);
}
