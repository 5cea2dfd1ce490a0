//! `isocast serve --volume`: uploaded contents are there after a restart, and verified by the volume's own check.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use crate::common::http::{Client, exchange, fetch};
use crate::common::server::Server;
use crate::common::until;
use crate::common::volume::{
    DISK_BYTES, disks, event, films, gives_all, joined, pattern, put, run_volume_command, upkeep_ended, volume,
    volume_after_fill, volume_after_upkeep,
};

fn serves(layout: &str, count: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), count), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
    let named = joined(&disks);
    let contents = [("a.ts", 5_000_000_usize), ("old/b.ts", 1 << 20), ("old/c.ts", 70_001), ("empty.ts", 0)];
    let server = Server::on(&[], &state, &["--volume", &named]);
    for (name, length) in contents {
        let target = format!("/media/{name}");
        assert_eq!(put(server.address, &target, &pattern(length)), 201, "{target}");
    }
    let check = |server: &Server| {
        for (name, length) in contents {
            let (status, body) = fetch(server.address, "GET", &format!("/media/{name}?rate=max")).expect("an answer");
            assert!(status == 200 && body == pattern(length), "{layout}: {name}: {status}, {} bytes", body.len());
        }
        let (status, listed) = fetch(server.address, "GET", "/media/old/").expect("an answer");
        let listed = String::from_utf8_lossy(&listed);
        assert!(status == 200 && listed.contains("b.ts") && listed.contains("c.ts"), "{listed}");
    };
    check(&server);
    // Killed, not stopped: every acknowledged upload is there.
    server.kill();
    let server = Server::on(&[], &state, &["--volume", &named]);
    check(&server);
    assert_eq!(put(server.address, "/media/a.ts", &pattern(100)), 204, "replaced");
    assert_eq!(exchange(server.address, "DELETE", "/media/old/c.ts").expect("an answer").status, 204);
    assert_eq!(fetch(server.address, "GET", "/media/old/c.ts").expect("an answer").0, 404);
    server.stop();
    let mut scrub = Command::new(crate::common::program());
    let output = scrub.args(["volume", "scrub", "--json", &named]).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"contents\": 3"));
}

/// Changes a byte of each piece of 64 KiB of `content` that lies on the disk. Returns the number of changed pieces.
fn damage(disk: &Path, content: &[u8]) -> usize {
    damage_before(disk, content, usize::MAX)
}

/// The same, of the bytes before `end`: in the outer half of a mirror's disk are the copies that are read.
fn damage_before(disk: &Path, content: &[u8], end: usize) -> usize {
    let mut bytes = std::fs::read(disk).expect("a disk");
    let mut damaged = 0;
    for piece in content.chunks(1 << 16) {
        // The pattern repeats, but no piece of it as often as a part of a unit lies somewhere.
        let at = (0..(bytes.len() - piece.len()).min(end)).step_by(4096).find(|at| bytes[*at..].starts_with(piece));
        if let Some(at) = at {
            bytes[at + piece.len() / 2] ^= 1;
            damaged += 1;
        }
    }
    std::fs::write(disk, bytes).expect("a disk");
    damaged
}

/// Runs the job `scrub`; why it failed.
fn scrubbed(server: &Server) -> String {
    assert_eq!(exchange(server.address, "POST", "/api/v1/jobs/scrub/run").expect("an answer").status, 202);
    let mut reason = String::new();
    until("the end of the job", || {
        let (_, jobs) = fetch(server.address, "GET", "/api/v1/jobs").expect("an answer");
        let jobs: serde_json::Value = serde_json::from_slice(&jobs).expect("JSON");
        reason = jobs[0]["last"]["reason"].as_str().unwrap_or_default().to_owned();
        if jobs[0]["last"]["outcome"] == "Failed" { Ok(()) } else { Err(jobs.to_string()) }
    });
    reason
}

/// Wrong bytes from a disk are never sent: the right ones come from the other copy, or none do.
fn wrong_bytes(layout: &str, count: usize, whole: bool) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), count), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
    let named = joined(&disks);
    let content: Vec<u8> =
        (0..3_000_000_u32).map(|n| n.wrapping_mul(n).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let server = Server::on(&[], &state, &["--volume", &named]);
    assert_eq!(put(server.address, "/media/a.ts", &content), 201);
    server.stop();
    assert!(damage(&disks[0], &content) > 0, "something of it lies there");
    let config = folder.path().join("isocast.toml");
    std::fs::write(&config, "[[job]]\nname = \"scrub\"\nkind = \"scrub\"\nschedule = \"@monthly\"\n").expect("written");
    let server = Server::on(&[], &state, &["--volume", &named, "--config", config.to_str().expect("UTF-8")]);
    let said = scrubbed(&server);
    assert!(
        said.contains(if whole { "all of 1 content can be read, but disks erred" } else { "a.ts" }),
        "{layout}: {said}"
    );
    for target in ["/media/a.ts?rate=max", "/media/a.ts?rate=100M"] {
        let mut client = Client::try_to(server.address).expect("it listens");
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        // It may be reset: the bytes before that count.
        let _ = client.stream.read_to_end(&mut answer);
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let got = &answer[head..];
        assert!(got.len() <= content.len() && content.starts_with(got), "{layout}: wrong bytes among {}", got.len());
        assert_eq!(got.len() == content.len(), whole, "{layout} {target}: {} bytes", got.len());
    }
    let (_, metrics) = fetch(server.address, "GET", "/metrics").expect("an answer");
    let metrics = String::from_utf8_lossy(&metrics);
    let errors = metrics.lines().filter(|line| line.starts_with("isocast_disk_errors_total{") && !line.ends_with(" 0"));
    assert!(errors.count() > 0, "it is counted");
    server.stop();
}

#[test]
fn a_mirror_reads_wrong_bytes_from_the_other_disk() {
    wrong_bytes("mirror", 2, true);
}

#[test]
fn without_another_copy_wrong_bytes_are_not_sent() {
    wrong_bytes("span", 1, false);
}

#[test]
fn a_volume_on_one_disk_is_served() {
    serves("span", 1);
}

#[test]
fn a_stripe_is_served() {
    serves("stripe", 2);
}

#[test]
fn a_mirror_is_served() {
    serves("mirror", 2);
}

#[test]
fn a_new_disk_is_filled_during_streams() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), 3), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks[..2]);
    let films = films();
    let server = Server::on(&[], &state, &["--volume", &joined(&disks[..2])]);
    for (name, bytes) in &films {
        assert_eq!(put(server.address, &format!("/media/{name}"), bytes), 201);
    }
    server.stop();
    let (old, new) = (disks[1].to_str().expect("UTF-8"), disks[2].to_str().expect("UTF-8"));
    volume(&["replace", "--old", old, "--new", new, "--yes", "--fill-later"], &disks[..1]);
    let of_new = [disks[0].clone(), disks[2].clone()];
    let server = Server::on(&[], &state, &["--volume", &joined(&of_new)]);
    let during: Vec<u8> = pattern(2_500_000);
    assert_eq!(put(server.address, "/media/0/during.ts", &during), 201);
    gives_all(&server, &films, "while it is filled");
    let looked_after = volume_after_fill(&server);
    assert_eq!(looked_after["disks"][1]["state"], "active", "{looked_after}");
    assert_eq!(looked_after["disks"][1]["wrong_copies"], 0, "a copy that a new disk lacks is no wrong one");
    let ended = upkeep_ended(&server, "fill");
    assert!(ended["copies_lost"] == 0 && ended["error"].is_null(), "{ended}");
    server.stop();
    // The other disk dies: the new one has everything.
    let mut scrub = Command::new(crate::common::program());
    let output = scrub.args(["volume", "scrub", "--json", &joined(&of_new)]).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let third = folder.path().join("third");
    File::create(&third).and_then(|file| file.set_len(DISK_BYTES)).expect("there is room");
    let (old, third) = (disks[0].to_str().expect("UTF-8"), third.to_str().expect("UTF-8"));
    volume(&["replace", "--old", old, "--new", third, "--yes", "--fill-later"], &of_new[1..]);
    let server = Server::on(&[], &state, &["--volume", &format!("{new},{third}")]);
    gives_all(&server, &films, "from the disk that was filled");
    gives_all(&server, &[("0/during.ts".to_owned(), during)], "from the disk that was filled");
    volume_after_fill(&server);
    server.stop();
}

#[test]
fn wrong_bytes_are_mended_during_streams() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), 3), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks[..2]);
    let (named, films) = (joined(&disks[..2]), films());
    let server = Server::on(&[], &state, &["--volume", &named]);
    for (name, bytes) in &films {
        assert_eq!(put(server.address, &format!("/media/{name}"), bytes), 201);
    }
    server.stop();
    assert!(damage(&disks[0], &films[7].1) > 0, "something of it lies there");
    let server = Server::on(&[], &state, &["--volume", &named]);
    let says_unscrubbed = || server.json("/api/v1/alarms").to_string().contains("it was never scrubbed");
    assert!(says_unscrubbed());
    let asked = exchange(server.address, "POST", "/api/v1/volumes/films/scrub").expect("an answer");
    assert_eq!(asked.status, 202);
    gives_all(&server, &films, "while it is scrubbed");
    volume_after_upkeep(&server);
    assert!(!says_unscrubbed());
    let ended = upkeep_ended(&server, "scrub");
    assert!(
        ended["copies_written"].as_u64().is_some_and(|written| written > 0) && ended["copies_lost"] == 0,
        "{ended}"
    );
    assert_eq!(event(&server, "copy_mended").expect("it is told")["path"], "1/7.ts");
    let wrong_copies = || server.json("/api/v1/volumes")[0]["disks"][0]["wrong_copies"].clone();
    assert!(wrong_copies().as_u64() > Some(0), "{}", wrong_copies());
    let paths = [&disks[0], &disks[2], &disks[1]].map(|disk| disk.to_str().expect("UTF-8"));
    let replace = ["replace", "--old", paths[0], "--new", paths[1], paths[2], "--yes"];
    let replaced = run_volume_command(&server, &replace);
    assert!(replaced.0 == Some(0) && wrong_copies() == 0, "they left with the disk: {replaced:?} {}", wrong_copies());
    server.stop();
    let named = joined(&disks[1..]);
    let mut scrub = Command::new(crate::common::program());
    let output = scrub.args(["volume", "scrub", "--json", &named]).output().expect("the program runs");
    assert!(output.status.success(), "nothing is left: {}", String::from_utf8_lossy(&output.stdout));
}

/// A stream, and a read in the time left over, that find a copy wrong have it written anew, without a scrub.
#[test]
fn a_wrong_copy_found_by_a_stream_is_mended() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), 2), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    let (named, films) = (joined(&disks), films());
    let server = Server::on(&[], &state, &["--volume", &named]);
    for (name, bytes) in &films {
        assert_eq!(put(server.address, &format!("/media/{name}"), bytes), 201);
    }
    server.stop();
    let middle = usize::try_from(DISK_BYTES / 2).expect("64 bits");
    for (number, query) in [(5, "rate=100M"), (7, "rate=max")] {
        let (name, bytes) = &films[number];
        let pieces: usize = disks.iter().map(|disk| damage_before(disk, bytes, middle)).sum();
        assert!(pieces >= bytes.len().div_ceil(1 << 16), "each first copy");
        let server = Server::on(&[], &state, &["--volume", &named]);
        let (status, body) = fetch(server.address, "GET", &format!("/media/{name}?{query}")).expect("an answer");
        assert!(status == 200 && body == *bytes, "{name}: {status}, {} bytes", body.len());
        let parts = bytes.len().div_ceil(1 << 20);
        until("every part to be mended", || {
            let said = server.stderr_text();
            let mended = said.lines().filter(|line| line.contains("copy_mended") && line.contains(name.as_str()));
            if mended.count() == parts { Ok(()) } else { Err(said) }
        });
        let (_, said) = server.stop();
        assert!(!said.contains("copy_lost") && !said.contains("copy_unwritten"), "{said}");
    }
    let mut scrub = Command::new(crate::common::program());
    let output = scrub.args(["volume", "scrub", "--no-repair", "--json", &named]).output().expect("the program runs");
    assert!(output.status.success(), "nothing is left: {}", String::from_utf8_lossy(&output.stdout));
}

/// A content that no copy of gives whole is an alarm when a viewer meets it, and one event.
#[test]
fn damage_that_a_viewer_meets_is_an_alarm() {
    for layout in ["span", "mirror"] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        let (disks, state) = (disks(folder.path(), 2), folder.path().join("state"));
        volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
        let (named, film) = (joined(&disks), pattern(700_000));
        let server = Server::on(&[], &state, &["--volume", &named]);
        assert_eq!(put(server.address, "/media/film.ts", &film), 201);
        server.stop();
        let pieces: usize = disks.iter().map(|disk| damage(disk, &film)).sum();
        assert!(pieces >= film.len().div_ceil(1 << 16), "{layout}: {pieces}");
        let server = Server::on(&[], &state, &["--volume", &named]);
        let whole = fetch(server.address, "GET", "/media/film.ts?rate=max").is_ok_and(|(_, body)| body == film);
        assert!(!whole, "{layout}");
        until("an alarm", || {
            let alarms = server.json("/api/v1/alarms").to_string();
            if alarms.contains("volume_damaged") { Ok(()) } else { Err(alarms) }
        });
        until("the event", || event(&server, "copy_lost").map(drop).ok_or_else(|| server.stderr_text()));
        let (_, said) = server.stop();
        let lost = said.lines().filter(|line| line.contains("copy_lost")).count();
        assert_eq!(lost, 1, "{layout}: {said}");
    }
}

#[test]
fn a_disk_leaves_during_streams() {
    for layout in ["span", "stripe", "mirror"] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        let (disks, state) = (disks(folder.path(), 3), folder.path().join("state"));
        volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
        let films = films();
        let server = Server::on(&[], &state, &["--volume", &joined(&disks)]);
        for (name, bytes) in &films {
            assert_eq!(put(server.address, &format!("/media/{name}"), bytes), 201);
        }
        let remove = "/api/v1/volumes/films/disks/1/remove";
        assert_eq!(exchange(server.address, "POST", remove).expect("an answer").status, 202);
        gives_all(&server, &films, "while it leaves");
        let left = volume_after_upkeep(&server);
        assert!(left["disks"][1]["state"] == "left" && left["disks"][1]["disk"].is_null(), "{left}");
        let name = disks[1].file_name().and_then(|name| name.to_str()).expect("a name");
        for list in ["/api/v1/disks", "/api/v1/alarms"] {
            let shown = server.json(list).to_string();
            assert!(!shown.contains(name), "{list}: {shown}");
        }
        gives_all(&server, &films, "when it has left");
        assert_eq!(put(server.address, "/media/after.ts", &pattern(3_000_000)), 201);
        assert_eq!(exchange(server.address, "POST", remove).expect("an answer").status, 404, "it is gone");
        server.stop();
        let stay = [disks[0].clone(), disks[2].clone()];
        let mut scrub = Command::new(crate::common::program());
        let output = scrub.args(["volume", "scrub", "--json", &joined(&stay)]).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("\"contents\": 11"), "{layout}: {said}");
        let server = Server::on(&[], &state, &["--volume", &joined(&stay)]);
        gives_all(&server, &films, "after a restart without it");
        server.stop();
    }
}

#[test]
fn the_server_of_a_volume_replaces_scrubs_and_removes_its_disks() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), 5), folder.path().join("state"));
    let names: Vec<&str> = disks.iter().map(|disk| disk.to_str().expect("UTF-8")).collect();
    volume(&["create", "--name", "my films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks[..3]);
    let films = films();
    let server = Server::on(&[], &state, &["--volume", &joined(&disks[..3])]);
    for (name, bytes) in &films {
        assert_eq!(put(server.address, &format!("/media/{name}"), bytes), 201);
    }
    let others = joined(&[disks[0].clone(), disks[2].clone()]);
    let replace = |new: &str| ["replace", "--old", names[1], "--new", new, &others, "--json"].map(str::to_owned);
    let refused = run_volume_command(&server, &replace(names[3]).each_ref().map(String::as_str));
    assert!(refused.0 == Some(1) && refused.1.contains("--yes"), "{refused:?}");
    let small = folder.path().join("small");
    File::create(&small).and_then(|file| file.set_len(DISK_BYTES / 2)).expect("there is room");
    let small = replace(small.to_str().expect("UTF-8"));
    let refused = run_volume_command(&server, &[&small.each_ref().map(String::as_str)[..], &["--yes"]].concat());
    assert!(refused.0 == Some(1) && refused.1.contains("smaller"), "{refused:?}");
    let new = replace(names[3]);
    let done = run_volume_command(&server, &[&new.each_ref().map(String::as_str)[..], &["--yes"]].concat());
    assert!(done.0 == Some(0) && done.1.contains("\"lost_parts\": 0"), "{done:?}");
    gives_all(&server, &films, "with the new disk");
    let of_it = joined(&[disks[0].clone(), disks[2].clone(), disks[3].clone()]);
    let scrubbed = run_volume_command(&server, &["scrub", "--json", &of_it]);
    assert!(scrubbed.0 == Some(0) && scrubbed.1.contains("\"sound\": true"), "{scrubbed:?}");
    let removed = run_volume_command(&server, &["remove", "--old", names[0], "--yes", &of_it]);
    assert_eq!(removed.0, Some(0), "{removed:?}");
    assert_eq!(put(server.address, "/media/after.ts", &pattern(3_000_000)), 201);
    gives_all(&server, &films, "with a disk less");
    let again = run_volume_command(&server, &["remove", "--old", names[2], "--yes", &joined(&disks[2..4])]);
    assert!(again.0 == Some(1) && again.1.contains("too few"), "{again:?}");
    server.stop();
    let stay = joined(&disks[2..4]);
    let mut scrub = Command::new(crate::common::program());
    let output = scrub.args(["volume", "scrub", "--json", &stay]).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let server = Server::on(&[], &state, &["--volume", &stay]);
    gives_all(&server, &films, "after a restart");
    server.stop();
}

/// Breaks a recording and an upload off by ending the server: only the recording is there, and before the server is gone.
fn recording_at_the_end(layout: &str, count: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), count), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
    let (named, events) = (joined(&disks), folder.path().join("events.jsonl"));
    let log = format!("log.events={}", events.display());
    let arguments = ["--volume", &named, "--set", "limits.drain=100ms", "--set", &log];
    let server = Server::on(&[], &state, &arguments);
    let body = pattern(2_500_000);
    let clients: Vec<Client> = ["talk.ts?rate=8M", "new.ts"]
        .map(|target| {
            let mut client = Client::try_to(server.address).expect("it listens");
            let head = format!("PUT /media/{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n");
            client.stream.write_all(head.as_bytes()).expect("it reads");
            client.stream.write_all(&body).expect("it reads");
            client
        })
        .into();
    until("all of both", || {
        let (_, metrics) = fetch(server.address, "GET", "/metrics").expect("an answer");
        let metrics = String::from_utf8_lossy(&metrics).into_owned();
        if metrics.contains("isocast_upload_bytes_total 5000000") { Ok(()) } else { Err(metrics) }
    });
    let (status, said) = server.stop();
    assert!(status.success(), "{layout}: {said}");
    drop(clients);
    let told = std::fs::read_to_string(&events).expect("an event log");
    let kept = told.lines().find(|line| line.contains("recording_kept")).unwrap_or_else(|| panic!("{layout}: {told}"));
    assert!(kept.contains("talk.ts") && kept.contains("2500000") && kept.contains("\"after_restart\":false"), "{kept}");
    let server = Server::on(&[], &state, &arguments);
    let (status, stored) = fetch(server.address, "GET", "/media/talk.ts?rate=max").expect("an answer");
    assert!(status == 200 && stored == body, "{layout}: {status}, {} bytes", stored.len());
    assert_eq!(fetch(server.address, "GET", "/media/new.ts").expect("an answer").0, 404);
}

#[test]
fn a_recording_that_the_end_breaks_off_is_on_the_volume() {
    recording_at_the_end("stripe", 2);
    recording_at_the_end("mirror", 2);
}

/// No numbered name for one of 255 bytes is short enough: the recording fails, and the content that has its name stays.
#[test]
fn a_recording_with_no_free_name_on_a_volume_replaces_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), 1), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes"], &disks);
    let server = Server::on(&[], &state, &["--volume", &joined(&disks)]);
    let target = format!("/media/{}.ts", "x".repeat(252));
    assert_eq!(put(server.address, &target, b"first"), 201);
    let mut client = Client::try_to(server.address).expect("it listens");
    let head = format!("PUT {target}?rate=8M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nsecond");
    client.stream.write_all(head.as_bytes()).expect("it reads");
    until("its bytes", || {
        let (_, metrics) = fetch(server.address, "GET", "/metrics").expect("an answer");
        let metrics = String::from_utf8_lossy(&metrics).into_owned();
        if metrics.contains("isocast_upload_bytes_total 11") { Ok(()) } else { Err(metrics) }
    });
    drop(client);
    until("its end", || {
        let said = server.stderr_text();
        if said.contains("recording_lost") { Ok(()) } else { Err(said) }
    });
    let (status, stored) = fetch(server.address, "GET", &target).expect("an answer");
    assert_eq!((status, stored.as_slice()), (200, &b"first"[..]), "{}", server.stderr_text());
    server.stop();
}

/// The entry of the one job in `/api/v1/jobs`.
fn the_job(server: &Server) -> serde_json::Value {
    let (_, jobs) = fetch(server.address, "GET", "/api/v1/jobs").expect("an answer");
    serde_json::from_slice::<serde_json::Value>(&jobs).expect("JSON")[0].take()
}

#[test]
fn a_pull_into_a_volume_that_was_stopped_continues_within_the_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let [films, config] = ["films", "isocast.toml"].map(|name| folder.path().join(name));
    let film = pattern(6_000_000);
    std::fs::create_dir(&films).and_then(|()| std::fs::write(films.join("long.ts"), &film)).expect("there is room");
    let source = Server::on(&[&films], &folder.path().join("of-source"), &[]);
    let job = "name = 'pull'\nkind = 'copy'\nschedule = '@monthly'\nto = 'pulled'\nrate = '8M'";
    let job = format!("[[job]]\n{job}\nfrom = 'http://{}/media/'\n", source.address);
    std::fs::write(&config, job).expect("there is room");
    let disks = disks(folder.path(), 2);
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    let named = joined(&disks);
    let arguments = ["--volume", &named, "--config", config.to_str().expect("UTF-8")];
    let server = Server::on(&[], &folder.path().join("state"), &arguments);
    let ask = |what: &str| {
        let target = format!("/api/v1/jobs/pull/{what}");
        assert_eq!(exchange(server.address, "POST", &target).expect("an answer").status, 202, "{what}");
    };
    let when = |what: &str, holds: &dyn Fn(&serde_json::Value) -> bool| {
        until(what, || {
            let job = the_job(&server);
            if holds(&job) { Ok(job) } else { Err(job.to_string()) }
        })
    };
    ask("run");
    when("more than a part", &|job| job["running"]["bytes"].as_u64() >= Some(5 << 19));
    ask("stop");
    when("its end", &|job| job["running"].is_null());
    assert_eq!(fetch(server.address, "GET", "/media/pulled/long.ts").expect("an answer").0, 404, "it is not whole");
    let scrub = || {
        let (code, said) = run_volume_command(&server, &["scrub", &named]);
        assert_eq!(code, Some(0), "{said}");
    };
    scrub();
    ask("run");
    let pulled = when("all of it", &|job| job["running"].is_null() && job["last"]["outcome"] == "Succeeded");
    assert!(pulled["last"]["bytes"].as_u64() <= Some(6_000_000 - (1 << 20)), "what was there came again: {pulled}");
    gives_all(&server, &[("pulled/long.ts".into(), film)], "pulled");
    scrub();
}
