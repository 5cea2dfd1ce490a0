//! `isocast serve --volume` where a disk is missing, has changed, or comes back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::http::{exchange, fetch};
use crate::common::server::Server;
use crate::common::volume::{
    DISK_BYTES, disks, event, films, gives_all, joined, pattern, put, run_volume_command, upkeep_ended, volume,
    volume_after_fill,
};

fn blank(path: &Path) {
    File::create(path).and_then(|file| file.set_len(DISK_BYTES)).expect("there is room");
}

/// Makes a volume of `count` disks with the films on it. Returns its disks, and the folder that is removed with the test.
fn filled(layout: &str, count: usize) -> (Vec<PathBuf>, tempfile::TempDir) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let disks = disks(folder.path(), count);
    volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
    let server = serving(&disks, &folder);
    for (name, bytes) in films() {
        assert_eq!(put(server.address, &format!("/media/{name}"), &bytes), 201);
    }
    server.stop();
    (disks, folder)
}

fn serving(disks: &[PathBuf], folder: &tempfile::TempDir) -> Server {
    Server::on(&[], &folder.path().join("state"), &["--volume", &joined(disks)])
}

/// Error output of `serve` when it does not start with these disks.
fn refused(disks: &[PathBuf], folder: &tempfile::TempDir) -> String {
    let mut command = Command::new(crate::common::program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--volume", &joined(disks), "--state"]);
    command.env_remove("ISOCAST_BIN"); // a setting of the test, not of the server
    let output = command.arg(folder.path().join("state")).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

fn scrubbed(disks: &[PathBuf]) -> String {
    let mut scrub = Command::new(crate::common::program());
    let output = scrub.args(["volume", "scrub", "--json", &joined(disks)]).output().expect("the program runs");
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_mirror_is_served_without_a_disk_that_is_away_and_fills_it_when_it_is_back() {
    let (disks, folder) = filled("mirror", 2);
    for number in [0, 1] {
        let (disk, away) = (&disks[number], folder.path().join("away"));
        fs::rename(disk, &away).expect("it is there");
        let server = serving(&disks, &folder);
        let told = event(&server, "volume_disk").expect("it is told")["message"].to_string();
        assert!(told.contains("No such file") && told.contains("replace"), "{told}");
        assert!(server.stderr_text().contains(&told[1..told.len() - 1]), "{}", server.stderr_text());
        gives_all(&server, &films(), "from the other disk");
        let during = pattern(2_500_000 + number);
        assert_eq!(put(server.address, &format!("/media/during{number}.ts"), &during), 201);
        let gone = exchange(server.address, "DELETE", &format!("/media/during{}.ts", 1 - number)).expect("an answer");
        assert_eq!(gone.status, if number == 0 { 404 } else { 204 });
        server.stop();
        fs::rename(&away, disk).expect("it is there");
        let server = serving(&disks, &folder);
        let back = volume_after_fill(&server);
        assert_eq!(back["disks"][number]["state"], "active", "{back}");
        let filled = upkeep_ended(&server, "fill");
        // The copies there already are read and left alone.
        let films = films().iter().map(|(_, bytes)| bytes.len().div_ceil(1 << 20) as u64).sum::<u64>();
        let written = filled["copies_written"].as_u64().expect("a number");
        assert!((1..films / 2).contains(&written), "{filled}");
        gives_all(&server, &[(format!("during{number}.ts"), during)], "what was put meanwhile");
        server.stop();
        assert!(scrubbed(&disks).contains("\"contents\": 11"));
    }
}

#[test]
fn a_disk_that_is_blank_or_cut_is_replaced_where_it_is() {
    let (disks, folder) = filled("mirror", 3);
    File::options().write(true).open(&disks[1]).and_then(|file| file.set_len(8 << 20)).expect("it can be cut");
    let server = serving(&disks, &folder);
    assert!(server.stderr_text().contains("truncated"), "{}", server.stderr_text());
    gives_all(&server, &films(), "without the disk that was cut");
    server.stop();
    blank(&disks[1]);
    let server = serving(&disks, &folder);
    assert!(
        server.stderr_text().contains("no Isocast volume; ") && server.stderr_text().contains("replace"),
        "{}",
        server.stderr_text()
    );
    let name = disks[1].to_str().expect("UTF-8");
    let others = joined(&[disks[0].clone(), disks[2].clone()]);
    let replaced = run_volume_command(&server, &["replace", "--old", name, "--new", name, "--yes", "--json", &others]);
    assert!(replaced.0 == Some(0) && replaced.1.contains("\"lost_parts\": 0"), "{replaced:?}");
    gives_all(&server, &films(), "with the new disk");
    server.stop();
    scrubbed(&disks);
    serving(&disks, &folder).stop();
}

#[test]
fn a_disk_that_is_out_leaves_a_mirror_once_its_contents_have_two_copies() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let disks = disks(folder.path(), 4);
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    let remove = |server: &Server, number: usize, all: &[PathBuf]| {
        let old = disks[number].to_str().expect("UTF-8");
        run_volume_command(server, &["remove", "--old", old, "--yes", "--json", &joined(all)])
    };
    // Nothing lies on the first disk that goes.
    fs::remove_file(&disks[3]).expect("it is there");
    let server = serving(&disks, &folder);
    let removed = remove(&server, 3, &disks);
    assert!(removed.0 == Some(0) && removed.1.contains("\"moved_parts\": 0"), "{removed:?}");
    for (name, bytes) in films() {
        assert_eq!(put(server.address, &format!("/media/{name}"), &bytes), 201);
    }
    server.stop();
    let disks = &disks[..3];
    fs::remove_file(&disks[1]).expect("it is there");
    let server = serving(disks, &folder);
    let removed = remove(&server, 1, disks);
    assert!(removed.0 == Some(0) && !removed.1.contains("\"moved_parts\": 0"), "{removed:?}");
    let left = volume_after_fill(&server);
    assert!(left["disks"][1]["state"] == "left" && left["last_upkeep"]["copies_lost"] == 0, "{left}");
    let again = remove(&server, 1, disks);
    assert!(again.0 == Some(1) && again.1.contains("no such disk"), "{again:?}");
    let too_few = remove(&server, 0, disks);
    assert!(too_few.0 == Some(1) && too_few.1.contains("add one first"), "{too_few:?}");
    server.stop();
    let (others, lost) = ([disks[0].clone(), disks[2].clone()], folder.path().join("lost"));
    fs::rename(&disks[0], lost).expect("it is there");
    let server = serving(&others, &folder);
    gives_all(&server, &films(), "from the one disk that is left");
}

/// A scrub by the server, for which copies of this number of contents are on the disk of this number, which is away, loses nothing.
fn unknown(server: &Server, disks: &[PathBuf], (contents, disk): (u64, u64)) {
    let (code, said) = run_volume_command(server, &["scrub", &joined(disks)]);
    assert!(code == Some(3) && said.contains(&format!("for disk {disk} is away")), "{code:?}: {said}");
    let volume = &server.json("/api/v1/volumes")[0];
    for (value, right) in [
        (&volume["last_upkeep"]["contents_unknown"], contents.into()),
        (&volume["last_upkeep"]["disks_away"], serde_json::json!([disk])),
        (&volume["last_upkeep"]["copies_lost"], 0.into()),
        (&volume["last_scrub"]["contents_unknown"], contents.into()),
        (&volume["damaged_contents"], 0.into()),
    ] {
        assert_eq!(*value, right, "{volume:#}");
    }
    let ended = upkeep_ended(server, "scrub");
    assert_eq!((&ended["contents_unknown"], &ended["copies_lost"]), (&contents.into(), &0.into()), "{ended}");
    assert!(event(server, "copy_lost").is_none() && event(server, "copy_unwritten").is_none());
    let alarms = server.json("/api/v1/alarms").to_string();
    assert!(!alarms.contains("volume_damaged") && alarms.contains("could not read all copies"), "{alarms}");
}

/// The exit code of `isocast volume check`, or of a scrub that writes nothing, and the numbers of contents that are unknown and missing.
fn checked(disks: &[PathBuf], command: &str) -> (Option<i32>, u64, u64) {
    let mut check = Command::new(crate::common::program());
    check
        .args(["volume", command])
        .args((command == "scrub").then_some("--no-repair"))
        .args(["--json", &joined(disks)]);
    let output = check.output().expect("the program runs");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(found["sound"] == false && found["lost"] == serde_json::json!([]), "{found:#}");
    let missing = found["missing"].as_array().map_or(0, Vec::len) as u64;
    (output.status.code(), found["contents_unknown"].as_u64().expect("a number"), missing)
}

#[test]
fn a_scrub_of_a_mirror_reads_the_copies_that_are_there() {
    let (disks, folder) = filled("mirror", 2);
    let away = folder.path().join("away");
    fs::rename(&disks[1], &away).expect("it is there");
    let server = serving(&disks, &folder);
    // One of the films is empty, and on no disk.
    unknown(&server, &disks, (9, 1));
    server.stop();
    assert_eq!(checked(&disks, "check"), (Some(3), 9, 0));
    fs::rename(&away, &disks[1]).expect("it is there");
    let server = serving(&disks, &folder);
    volume_after_fill(&server);
    let scrubbed = run_volume_command(&server, &["scrub", "--json", &joined(&disks)]);
    assert!(scrubbed.0 == Some(0) && scrubbed.1.contains("\"contents_unknown\": 0"), "{scrubbed:?}");
    server.stop();
}

#[test]
fn without_another_copy_the_rest_is_served_and_nothing_is_written() {
    for layout in ["span", "stripe"] {
        let (disks, folder) = filled(layout, 3);
        let away = folder.path().join("away");
        fs::rename(&disks[2], &away).expect("it is there");
        let server = serving(&disks, &folder);
        assert!(server.stderr_text().contains("no other copy"), "{}", server.stderr_text());
        let mut whole = 0;
        for (name, bytes) in films() {
            let (status, body) = fetch(server.address, "GET", &format!("/media/{name}?rate=max")).expect("an answer");
            assert!((status == 200 && body == bytes) || status == 503, "{layout}, {name}: {status}");
            whole += usize::from(status == 200);
        }
        assert!((1..10).contains(&whole), "{layout}: {whole} contents are whole");
        let (_, volumes) = fetch(server.address, "GET", "/api/v1/volumes").expect("an answer");
        assert!(String::from_utf8_lossy(&volumes).contains("\"missing\""), "{}", String::from_utf8_lossy(&volumes));
        let refused = put(server.address, "/media/new.ts", &pattern(1_000));
        assert!((400..600).contains(&refused), "{refused}");
        assert!(exchange(server.address, "DELETE", "/media/1/1.ts").expect("an answer").status >= 400);
        let missing = server.json("/api/v1/volumes")[0]["missing_contents"].as_u64().expect("a number");
        unknown(&server, &disks, (missing, 2));
        server.stop();
        assert_eq!(checked(&disks, "check"), (Some(3), missing, missing), "{layout}");
        assert_eq!(checked(&disks, "scrub"), (Some(3), missing, missing), "{layout}");
        fs::rename(&away, &disks[2]).expect("it is there");
        let server = serving(&disks, &folder);
        gives_all(&server, &films(), "with all disks");
        let whole = run_volume_command(&server, &["scrub", "--json", &joined(&disks)]);
        assert!(whole.0 == Some(0) && whole.1.contains("\"contents_unknown\": 0"), "{layout}: {whole:?}");
        assert_eq!(put(server.address, "/media/new.ts", &pattern(1_000)), 201);
        server.stop();
        scrubbed(&disks);
    }
}

#[test]
fn without_any_disk_each_is_named_with_its_reason() {
    let (disks, folder) = filled("span", 3);
    blank(&disks[0]);
    File::create(&disks[1]).and_then(|file| file.set_len(512)).expect("there is room");
    fs::remove_file(&disks[2]).expect("it is there");
    let said = refused(&disks, &folder);
    let reasons = ["it holds no Isocast volume", "no copy of its superblock can be read: I/O errors", "No such file"];
    for (disk, why) in disks.iter().zip(reasons) {
        assert!(said.contains(&format!("{}: {why}", disk.display())), "{why}: {said}");
    }
}

#[test]
fn each_wrong_disk_is_refused_without_a_change() {
    let (disks, folder) = filled("mirror", 2);
    let (others, _other) = filled("span", 1);
    let copies: Vec<PathBuf> = ["copy0", "copy1"].map(|name| folder.path().join(name)).into();
    for (disk, copy) in disks.iter().zip(&copies) {
        fs::copy(disk, copy).expect("there is room");
    }
    assert!(refused(&disks[..1], &folder).contains("numbers [1]"), "one that was forgotten is not away");
    assert!(refused(&[disks[0].clone(), disks[0].clone()], &folder).contains("twice"));
    assert!(refused(&[disks[0].clone(), copies[0].clone()], &folder).contains("the same disk of the volume"));
    assert!(refused(&[disks[0].clone(), others[0].clone()], &folder).contains("another one than the first disk's"));
    scrubbed(&disks);
    // The second disk has no record that the first was used without it; the server has, until its file of that is removed. Then each of
    // the two was used alone.
    let nowhere = folder.path().join("nowhere");
    serving(&[disks[0].clone(), nowhere.clone()], &folder).stop();
    let older = [disks[1].clone(), nowhere.clone()];
    let said = refused(&older, &folder);
    let known = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("volume-").then(|| entry.path());
    let state = fs::read_dir(folder.path().join("state")).expect("it was served");
    let known: Vec<PathBuf> = state.filter_map(|entry| known(entry.expect("it is there"))).collect();
    let [known] = &known[..] else { panic!("one volume was served: {known:?}") };
    assert!(said.contains("out of date") && said.contains(known.to_str().expect("UTF-8")), "{said}");
    fs::remove_file(known).expect("it is there");
    serving(&older, &folder).stop();
    assert!(refused(&disks, &folder).contains("each used while the other one was away"));
    // The first one's state counts; the second, which was replaced by another, is not taken for that.
    let new = folder.path().join("new");
    blank(&new);
    let (old, new_name) = (disks[1].to_str().expect("UTF-8"), new.to_str().expect("UTF-8"));
    volume(&["replace", "--old", old, "--new", new_name, "--yes"], &disks[..1]);
    assert!(refused(&[disks[0].clone(), copies[1].clone()], &folder).contains("another disk has that place"));
    let server = serving(&[disks[0].clone(), new], &folder);
    gives_all(&server, &films(), "with the new disk");
    server.stop();
}

#[test]
fn files_of_one_name_in_two_folders_are_two_disks() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let disks: Vec<PathBuf> = ["a", "b"]
        .map(|name| {
            fs::create_dir(folder.path().join(name)).expect("there is room");
            let path = folder.path().join(name).join("volume.img");
            blank(&path);
            path
        })
        .into();
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    let server = serving(&disks, &folder);
    assert_eq!(put(server.address, "/media/x.ts", &pattern(70_000)), 201);
    assert!(server.stop().0.success());
}
