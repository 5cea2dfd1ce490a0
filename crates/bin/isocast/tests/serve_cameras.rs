//! Cameras as they are: all at once, silent, slow, too fast, on a disk that fills up or goes away. The server reports each, and no other
//! one is harmed.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use crate::common::client::{Answer, Client, pattern};
use crate::common::disk::{Disk, FileSystem, possible};
use crate::common::server::{Server, Setup};
use crate::common::small::Small;
use crate::common::volume::{joined, volume};

/// Cameras that come back at the same moment.
const CAMERAS: usize = 128;
/// Cameras that come to a server that takes no such number.
const MANY: usize = 8192;
/// Recordings that end together.
const RECORDINGS: usize = 64;

/// A recording of this target that waits for leave to send.
fn camera(server: &Server, target: &str) -> Client {
    let mut client = server.connect();
    client.send(format!(
        "PUT /media/{target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    ));
    client
}

fn chunk(bytes: usize) -> Vec<u8> {
    [format!("{bytes:x}\r\n").as_bytes(), &pattern(bytes), b"\r\n"].concat()
}

#[test]
fn all_cameras_come_at_once_and_come_back_to_their_places() {
    let server = Server::start();
    let promised = |server: &Server| server.metric("isocast_promised_bytes_per_second");
    let all_at_once = || {
        let mut cameras: Vec<Client> =
            (0..CAMERAS).map(|nth| camera(&server, &format!("cam{nth}.ts?rate=64k"))).collect();
        let admitted = cameras.iter_mut().filter_map(|client| (client.head().status == 100).then_some(())).count();
        assert_eq!(admitted, CAMERAS);
        cameras.iter_mut().for_each(|client| client.send(chunk(1000)));
        cameras
    };
    let cameras = all_at_once();
    let of_all = promised(&server);
    let came = f64::from(u32::try_from(CAMERAS * 1000).expect("small"));
    server.wait_for("what they sent", |server| server.metric("isocast_upload_bytes_total") >= came);
    drop(cameras);
    server.wait_for("their end", |server| server.metric("isocast_uploads") == 0.0);
    assert!(promised(&server) == of_all && of_all > 0.0, "their places are held: {} of {of_all}", promised(&server));
    let mut cameras = all_at_once();
    assert!(promised(&server) == of_all, "the same places: {} of {of_all}", promised(&server));
    for client in &mut cameras {
        client.send("0\r\n\r\n");
        assert!([201, 204].contains(&client.answer(true).status));
    }
    server.wait_for("their places to be free", |server| promised(server) == 0.0);
}

/// Recordings that may lack less are written in shorter blocks, which cost more of the disk.
#[test]
fn a_folder_has_a_durability_of_its_own_which_a_request_overrides() {
    let folders = "[path_durable]\n\"cams/\" = \"3s\"\n\"cams/hall/\" = \"30s\"\n";
    let setup = Setup::default().config(folders).set("recordings.durable=5s");
    let server = setup.set("access.local_writes=true").start();
    let promised = || server.json("/api/v1/disks")[0]["promised_share"].as_f64().expect("a share");
    let cost = |target: &str| {
        let mut camera = camera(&server, target);
        assert_eq!(camera.head().status, 100, "{target}");
        let cost = promised();
        camera.send("0\r\n\r\n");
        camera.answer(true);
        server.wait_for("its place to be free", |_| promised() == 0.0);
        cost
    };
    let (least, usual, most) = (cost("cams/a.ts?rate=4M"), cost("door.ts?rate=4M"), cost("cams/hall/a.ts?rate=4M"));
    assert!(least > usual && usual > most && most > 0.0, "{least} {usual} {most}");
    assert_eq!(cost("cams/hall/a.ts?rate=4M&durable=3s"), least);
    assert_eq!(cost("cams/%H.ts?rate=4M&every=1h"), least);
    let change = |durable: &str| {
        let body = format!("{{\"path_durable.cams/\": \"{durable}\"}}");
        let fields = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
        server.ask(&format!("PATCH /api/v1/settings HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n{body}"))
    };
    let refused = change("2s");
    assert_eq!((refused.status, refused.text().contains("too short")), (400, true), "{}", refused.text());
    assert_eq!(change("5s").status, 200);
    assert_eq!((cost("cams/a.ts?rate=4M"), cost("cams/hall/a.ts?rate=4M")), (usual, most));
}

/// More cameras than a server of any kind takes: each has a clear answer, as many as fit are taken, and a viewer gets all of its film.
#[test]
fn thousands_of_cameras_are_taken_or_refused_with_the_reason_and_a_viewer_gets_its_film() {
    // None of them sends, and the places of those that end meanwhile would be taken again.
    let server = Setup::default().set("limits.upload_idle=1h").start();
    server.file("film.ts", &pattern(1 << 18));
    let mut viewer = server.connect();
    viewer.send("GET /media/film.ts?rate=256k HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut film = viewer.head();
    assert_eq!(film.status, 200);
    let (mut taken, mut reasons) = (Vec::new(), BTreeMap::<(u16, bool), usize>::new());
    for first in (0..MANY).step_by(64) {
        let cameras: Vec<Client> =
            (first..first + 64).map(|nth| camera(&server, &format!("cam{nth}.ts?rate=500k"))).collect();
        for mut camera in cameras {
            let mut answer = camera.head();
            if answer.status == 100 {
                taken.push(camera);
                continue;
            }
            camera.try_body(&mut answer).expect("a whole body");
            *reasons.entry((answer.status, answer.text().contains("\"detail\""))).or_default() += 1;
        }
    }
    let refused: usize = reasons.values().sum();
    assert_eq!(taken.len() + refused, MANY);
    assert!(reasons.keys().all(|reason| [(429, true), (503, true)].contains(reason)), "{reasons:?}");
    assert!((16..=512).contains(&taken.len()), "{} taken, {reasons:?}", taken.len());
    viewer.try_body(&mut film).expect("it is served beside them");
    assert!(film.body == pattern(1 << 18));
    drop(taken);
    server.wait_for("their end", |server| server.metric("isocast_uploads") == 0.0);
    assert_eq!(server.put("/media/one.ts?rate=64k", "", b"x").status, 201);
}

/// A span begins each recording on the disk on which its time is reserved: the emptiest disk with time. When all came to the emptiest
/// disk, but each took its first unit on another one, one disk wrote without a promise, and the other's time stood idle.
#[test]
fn cameras_that_come_at_once_to_a_span_are_written_where_their_time_is_reserved() {
    if !possible(1 << 30) {
        return;
    }
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disks = ["one", "two"].map(|name| Disk::up(&format!("span-{name}"), "16G", FileSystem::None));
    let devices = disks.each_ref().map(Disk::device);
    volume(&["create", "--name", "cams", "--layout", "span", "--unit", "1MiB", "--yes"], &devices);
    let setup = Setup::on(&[], state.path(), &["--volume", &joined(&devices)]);
    let server = setup.set("schedule.be_share=75%").start();
    let promised = || -> Vec<f64> {
        let disks = server.json("/api/v1/disks");
        let disks = disks.as_array().expect("disks");
        disks.iter().map(|disk| disk["promised_share"].as_f64().expect("a share")).collect()
    };
    let free = || -> Vec<u64> {
        let volumes = server.json("/api/v1/volumes");
        let disks = volumes[0]["disks"].as_array().expect("disks");
        disks.iter().map(|disk| disk["free_units"].as_u64().expect("units")).collect()
    };
    let before = free();
    let taken = || -> Vec<u64> { before.iter().zip(free()).map(|(before, now)| before - now).collect() };
    let come = |name: &str, count: usize| -> Vec<Client> {
        let cameras: Vec<Client> = (0..count).map(|nth| camera(&server, &format!("{name}{nth}.ts?rate=4M"))).collect();
        cameras.into_iter().filter_map(|mut camera| (camera.head().status == 100).then_some(camera)).collect()
    };
    let mut few = come("few", 4);
    assert_eq!(few.len(), 4);
    let reserved: Vec<bool> = promised().iter().map(|share| *share > 0.0).collect();
    few.iter_mut().for_each(|camera| camera.send(chunk(10_000)));
    server.wait_for("their units", |_| taken().iter().sum::<u64>() == 4);
    let written: Vec<bool> = taken().iter().map(|units| *units > 0).collect();
    assert!(written == reserved && written.iter().filter(|written| **written).count() == 1, "{reserved:?} {written:?}");

    let mut more = come("more", 60);
    let shares = promised();
    assert!(
        more.len() < 60 && shares.iter().all(|share| *share > 0.1),
        "both are full: {} of 60, {shares:?}",
        more.len()
    );
    more.iter_mut().for_each(|camera| camera.send(chunk(10_000)));
    let all = u64::try_from(4 + more.len()).expect("few");
    server.wait_for("their units", |_| taken().iter().sum::<u64>() == all);
    assert!(taken().iter().all(|units| (all / 3..=all - all / 3).contains(units)), "{:?} of {all}", taken());
    drop((few, more));
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("panicked"), "{said}");
    disks.into_iter().for_each(Disk::end);
}

#[test]
fn rates_that_no_disk_has_are_refused_and_a_byte_at_a_time_is_taken() {
    let server = Server::start();
    for (rate, status, reason) in [
        ("1bit/s", 400, "rate="),
        ("0", 400, "rate="),
        ("900G", 503, "grantable_bps"),
        ("4M&durable=1s", 400, "durable= of a recording is from"),
        ("4M&durable=61m", 400, "durable= of a recording is from"),
    ] {
        let answer = server.put(&format!("/media/cam.ts?rate={rate}"), "", b"x");
        assert_eq!((answer.status, answer.text().contains(reason)), (status, true), "{rate}: {}", answer.text());
    }
    let mut slow = camera(&server, "slow.ts?rate=1k");
    assert_eq!(slow.head().status, 100);
    // Beside it one sends ten seconds of its rate at once.
    let mut fast = camera(&server, "fast.ts?rate=1M");
    assert_eq!(fast.head().status, 100);
    fast.send(chunk(1_250_000));
    // A byte a second at first, then byte by byte.
    for (nth, byte) in pattern(100).into_iter().enumerate() {
        slow.send([&b"1\r\n"[..], &[byte], b"\r\n"].concat());
        std::thread::sleep(Duration::from_secs(u64::from(nth < 4)));
    }
    for (client, name, bytes) in [(&mut slow, "slow.ts", 100), (&mut fast, "fast.ts", 1_250_000)] {
        client.send("0\r\n\r\n");
        assert_eq!(client.answer(true).status, 201, "{name}");
        assert!(std::fs::read(server.root.join(name)).expect("it is there") == pattern(bytes), "{name}");
    }
    server.wait_event(&["recording_over_rate", "fast.ts"]);
    assert!(!server.events().lines().any(|line| line.contains("over_rate") && line.contains("slow.ts")));
}

#[test]
fn a_second_camera_under_a_name_is_refused_or_gets_a_numbered_name_and_the_first_loses_nothing() {
    let server = Server::start();
    let mut first = camera(&server, "cam.ts?rate=1M");
    assert_eq!(first.head().status, 100);
    first.send(chunk(100_000));
    let answer = server.put("/media/cam.ts?rate=1M", "", b"another");
    assert_eq!(answer.status, 409, "{}", answer.text());
    first.send(chunk(50_000));
    first.send("0\r\n\r\n");
    assert_eq!(first.answer(true).status, 201);
    let stored = std::fs::read(server.root.join("cam.ts")).expect("it is there");
    assert!(stored == [pattern(100_000), pattern(50_000)].concat());
    // Once the first has ended, another one lies next to it.
    let mut again = camera(&server, "cam.ts?rate=1M");
    assert_eq!(again.head().status, 100);
    again.send(chunk(70_000));
    again.send("0\r\n\r\n");
    let beside = again.answer(true);
    assert_eq!((beside.status, beside.field("location")), (201, Some("/media/cam~002.ts")));
    assert!(std::fs::read(server.root.join("cam.ts")).expect("it is there") == stored);
    assert!(std::fs::read(server.root.join("cam~002.ts")).expect("it is there") == pattern(70_000));
    // A content of a known length replaces, as any PUT.
    assert_eq!(server.put("/media/cam.ts?rate=1M", "", b"whole").status, 204);
    assert_eq!(std::fs::read(server.root.join("cam.ts")).expect("it is there"), b"whole");
}

/// Bytes that each recording below sends at first, and those of them that are written before its end: all but less than a block of a file.
const SENT: usize = 100_000;
const WRITTEN: u64 = 96 << 10;

/// Recordings of this folder, each of which has sent its first bytes.
fn recordings(server: &Server, folder: &str) -> Vec<Client> {
    let mut cameras: Vec<Client> =
        (0..RECORDINGS).map(|nth| camera(server, &format!("{folder}/{nth:02}.ts?rate=1M"))).collect();
    for client in &mut cameras {
        assert_eq!(client.head().status, 100);
        client.send(chunk(SENT));
    }
    cameras
}

/// Each sends this number of further bytes, all at once, and ends its recording: the answers.
fn end_all(cameras: &mut [Client], bytes: usize) -> Vec<Answer> {
    let end = |client: &mut Client| {
        // The refusal may come before all is sent.
        let _ = client.stream.write_all(&[chunk(bytes), b"0\r\n\r\n".to_vec()].concat());
        client.answer(true)
    };
    std::thread::scope(|scope| {
        let ends: Vec<_> = cameras.iter_mut().map(|client| scope.spawn(move || end(client))).collect();
        ends.into_iter().map(|end| end.join().expect("an answer")).collect()
    })
}

/// The files in a folder, by name, of which each begins with bytes that were sent.
fn stored(folder: &Path, more: usize) -> BTreeMap<String, u64> {
    let sent = [pattern(SENT), pattern(more)].concat();
    let entries = std::fs::read_dir(folder).expect("the folder").flatten();
    let files = entries.filter_map(|entry| Some((entry.file_name(), std::fs::read(entry.path()).ok()?)));
    let one = |(name, bytes): (std::ffi::OsString, Vec<u8>)| {
        assert!(sent.starts_with(&bytes), "{name:?}: {} bytes", bytes.len());
        (name.to_string_lossy().into_owned(), bytes.len() as u64)
    };
    files.map(one).collect()
}

/// Recordings on a small disk, and one on another, which loses nothing in any fate of the others.
fn beside(ends: impl FnOnce(&Server, &Small, &mut [Client]) -> Vec<u16>) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(small) = Small::mount(folder.path(), "24m") else {
        return crate::common::skip::skipped("a small disk needs the right to mount");
    };
    let other = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    std::fs::create_dir(small.0.join("small")).expect("a folder");
    std::fs::create_dir(other.path().join("other")).expect("a folder");
    let server = Setup::default().root(&small.0).root(other.path()).start();
    let mut spared = camera(&server, "other/spared.ts?rate=1M");
    assert_eq!(spared.head().status, 100);
    spared.send(chunk(SENT));
    let mut cameras = recordings(&server, "small");
    server.wait_for("their bytes on the disk", |_| {
        let lengths = std::fs::read_dir(small.0.join("small")).expect("the folder").flatten();
        lengths.filter(|entry| entry.metadata().is_ok_and(|file| file.len() >= WRITTEN)).count() == RECORDINGS
    });
    let statuses = ends(&server, &small, &mut cameras);
    assert!(statuses.iter().all(|status| [503, 507].contains(status)), "{statuses:?}");
    spared.send(chunk(50_000));
    spared.send("0\r\n\r\n");
    assert_eq!(spared.answer(true).status, 201);
    let stored = std::fs::read(other.path().join("other/spared.ts")).expect("it is there");
    assert!(stored == [pattern(SENT), pattern(50_000)].concat());
}

#[test]
fn a_full_disk_ends_its_cameras_and_keeps_their_bytes() {
    const MORE: usize = 3_000_000;
    beside(|server, small, cameras| {
        let answers = end_all(cameras, MORE);
        let refused: Vec<u16> = answers.iter().map(|answer| answer.status).filter(|status| *status != 201).collect();
        assert!(!refused.is_empty(), "192 MB on a disk of 24");
        server.wait_event(&["recording_kept", "small/"]);
        server.wait_for("their end", |server| server.metric("isocast_uploads") <= 1.0);
        let mut kept = BTreeMap::new();
        server.wait_for("names of their own", |_| {
            kept = stored(&small.0.join("small"), MORE);
            kept.keys().all(|name| !name.starts_with('.'))
        });
        assert!(kept.len() == RECORDINGS && kept.values().all(|bytes| *bytes >= WRITTEN), "{kept:?}");
        refused
    });
}

#[test]
fn a_folder_that_is_unmounted_ends_its_cameras_and_no_others() {
    beside(|server, small, cameras| {
        // The file system stays for as long as this is open.
        let held = std::fs::File::open(small.0.join("small")).expect("the folder");
        let unmounted = std::process::Command::new("umount").arg("--lazy").arg(&small.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        server.wait_event(&["root_away"]);
        let statuses = end_all(cameras, 0).iter().map(|answer| answer.status).collect();
        let kept = stored(Path::new(&format!("/proc/self/fd/{}", held.as_raw_fd())), 0);
        assert!(kept.len() == RECORDINGS && kept.values().all(|bytes| *bytes >= WRITTEN), "{kept:?}");
        statuses
    });
}

#[test]
fn a_full_quota_ends_its_cameras_and_no_others() {
    const MORE: usize = 200_000;
    let server = Setup::default().config("[[quota]]\nfolder = \"cams\"\nmax_size = \"12MiB\"\n").start();
    let mut spared = camera(&server, "other/spared.ts?rate=1M");
    assert_eq!(spared.head().status, 100);
    spared.send(chunk(SENT));
    let mut cameras = recordings(&server, "cams");
    let came = f64::from(u32::try_from((RECORDINGS + 1) * SENT).expect("small"));
    server.wait_for("what they sent", |server| server.metric("isocast_upload_bytes_total") >= came);
    let answers = end_all(&mut cameras, MORE);
    let refused = answers.iter().filter(|answer| answer.status != 201).inspect(|answer| {
        assert_eq!((answer.status, answer.text().contains("the quota of `cams`")), (507, true), "{}", answer.text());
    });
    assert!((1..RECORDINGS).contains(&refused.count()), "19 MB in a quota of 12 MiB");
    server.wait_stderr_line("recording_kept");
    server.wait_for("their end", |server| server.metric("isocast_uploads") <= 1.0);
    server.wait_for("names of their own", |server| {
        let mut entries = std::fs::read_dir(server.root.join("cams")).expect("the folder").flatten();
        !entries.any(|entry| entry.file_name().to_string_lossy().starts_with('.'))
    });
    let kept = stored(&server.root.join("cams"), MORE);
    assert!(kept.len() == RECORDINGS && kept.values().all(|bytes| *bytes >= WRITTEN), "{kept:?}");
    spared.send("0\r\n\r\n");
    assert_eq!(spared.answer(true).status, 201);
}
