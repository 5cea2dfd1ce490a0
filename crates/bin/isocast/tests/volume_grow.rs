//! A volume grows while it is served: disks come, and get new contents and moved copies.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use crate::common::http::fetch;
use crate::common::server::Server;
use crate::common::until;
use crate::common::volume::{
    DISK_BYTES, disks, event, films, gives_all, joined, pattern, put, run_volume_command, volume, volume_after_upkeep,
};

/// Bytes of the best-effort class that a disk has moved.
fn moved(server: &Server, disk: usize) -> u64 {
    let (_, disks) = fetch(server.address, "GET", "/api/v1/disks").expect("an answer");
    let disks: serde_json::Value = serde_json::from_slice(&disks).expect("JSON");
    let disks = disks.as_array().expect("a list");
    let disk = disks
        .iter()
        .find(|known| known["folders"][0].as_str().is_some_and(|path| path.ends_with(&format!("disk{disk}"))));
    disk.expect("it is listed")["be_bytes"].as_u64().expect("a number")
}

#[test]
fn a_disk_comes_while_the_volume_is_served() {
    for layout in ["span", "mirror"] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        let (disks, state) = (disks(folder.path(), 4), folder.path().join("state"));
        volume(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes"], &disks[..2]);
        let films = films();
        let server = Server::on(&[], &state, &["--volume", &joined(&disks[..2])]);
        for (name, bytes) in &films {
            assert_eq!(put(server.address, &format!("/media/{name}"), bytes), 201);
        }
        let free = volume_after_upkeep(&server)["free_bytes"].as_u64().expect("a number");
        let names: Vec<&str> = disks.iter().map(|disk| disk.to_str().expect("UTF-8")).collect();
        let two = joined(&disks[..2]);
        let unasked = run_volume_command(&server, &["add", "--new", names[2], &two]);
        assert!(unasked.0 == Some(1) && unasked.1.contains("--yes"), "{unasked:?}");
        for _ in 0..2 {
            let added = run_volume_command(&server, &["add", "--new", names[2], "--yes", "--json", &two]);
            assert!(added.0 == Some(0) && added.1.contains("\"disk\": 2"), "{added:?}");
        }
        let grown = volume_after_upkeep(&server);
        assert!(grown["disks"][2]["state"] == "active", "{grown}");
        until("the measurement of the new disk, or that it waits", || {
            let (_, alarms) = fetch(server.address, "GET", "/api/v1/alarms").expect("an answer");
            let alarms = String::from_utf8(alarms).expect("text");
            let is_known =
                alarms.contains("until this one is measured") || server.stderr_text().contains("disk_measured");
            if is_known { Ok(()) } else { Err(alarms) }
        });
        assert!(grown["free_bytes"].as_u64() > Some(free + free / 3), "{free} and then {grown}");
        let again = run_volume_command(&server, &["add", "--new", names[3], "--yes", &joined(&disks[..3])]);
        assert!(again.0 == Some(1) && again.1.contains("start the server again"), "{again:?}");
        for number in 0..4 {
            assert_eq!(put(server.address, &format!("/media/new{number}.ts"), &pattern(3_000_000 + number)), 201);
        }
        until("what is new on the new disk", || match moved(&server, 2) {
            0..3_000_000 => Err(moved(&server, 2).to_string()),
            _ => Ok(()),
        });
        gives_all(&server, &films, "with a disk more");
        let balanced = run_volume_command(&server, &["rebalance", "--json", &joined(&disks[..3])]);
        assert!(balanced.0 == Some(0) && !balanced.1.contains("\"moved_parts\": 0"), "{balanced:?}");
        let again = run_volume_command(&server, &["rebalance", "--json", &joined(&disks[..3])]);
        assert!(again.0 == Some(0) && again.1.contains("\"moved_parts\": 0"), "{again:?}");
        gives_all(&server, &films, "balanced");
        server.kill();
        let server = Server::on(&[], &state, &["--volume", &joined(&disks[..3])]);
        gives_all(&server, &films, "after a restart");
        let new: Vec<_> = (0..4).map(|number| (format!("new{number}.ts"), pattern(3_000_000 + number))).collect();
        gives_all(&server, &new, "after a restart");
        server.stop();
        let status =
            Command::new(crate::common::program()).args(["volume", "status", "--json", &joined(&disks[..3])]).output();
        let status: serde_json::Value =
            serde_json::from_slice(&status.expect("the program runs").stdout).expect("JSON");
        let free = |disk: usize| status["disks"][disk]["free_units"].as_i64().expect("a number");
        assert!((0..3).all(|disk| free(disk).abs_diff(free(0)) <= 2), "{layout}: {status}");
        let server = Server::on(&[], &state, &["--volume", &joined(&disks[..3])]);
        // A place is free for the next disk; a removed disk leaves its own.
        let added = run_volume_command(&server, &["add", "--new", names[3], "--yes", "--json", &joined(&disks[..3])]);
        assert!(added.0 == Some(0) && added.1.contains("\"disk\": 3"), "{added:?}");
        let removed = run_volume_command(&server, &["remove", "--old", names[0], "--yes", &joined(&disks)]);
        assert_eq!(removed.0, Some(0), "{removed:?}");
        let back = run_volume_command(
            &server,
            &["add", "--new", names[0], "--yes", "--json", "--force", &joined(&disks[1..])],
        );
        assert!(back.0 == Some(0) && back.1.contains("\"disk\": 0"), "{back:?}");
        gives_all(&server, &films, "with four disks");
        let (_, said) = server.stop();
        assert!(!said.contains("panicked"), "{said}");
        let scrubbed = Command::new(crate::common::program())
            .args(["volume", "scrub", "--json", &joined(&disks)])
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&[&scrubbed.stdout[..], &scrubbed.stderr].concat()).into_owned();
        assert!(scrubbed.status.success() && said.contains("\"contents\": 14"), "{layout}: {said}");
    }
}

/// A disk that is a file.
struct FileDisk(std::fs::File);

impl volume::ReadDisk for FileDisk {
    fn read(&mut self, _: usize, position: u64, buffer: &mut [u8]) -> Result<(), volume::ReadError> {
        self.0.read_exact_at(buffer, position).map_err(|_| volume::ReadError)
    }
}

/// True if all of a content lies in the outer half of the one disk of its volume.
fn lies_outside(disk: &Path, name: &str) -> bool {
    let mut file = FileDisk(std::fs::File::open(disk).expect("it is there"));
    let identified = volume::identify(&[DISK_BYTES], &mut file).expect("a volume");
    let volume = volume::open(&identified, &mut file).expect("a volume");
    let content = volume.find(name).expect("it is there");
    content.parts.iter().all(|part| part.first.unit < volume.members().unit_count(part.first.member).div_ceil(2))
}

#[test]
fn most_read_contents_move_outwards_on_an_idle_volume() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), 1), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes"], &disks);
    let server = Server::on(&[], &state, &["--volume", &joined(&disks)]);
    let contents: Vec<_> = (0..7).map(|number| (format!("{number}.ts"), pattern(9_000_000 + number))).collect();
    for (name, bytes) in &contents {
        assert_eq!(put(server.address, &format!("/media/{name}"), bytes), 201);
    }
    assert!(lies_outside(&disks[0], "0.ts") && !lies_outside(&disks[0], "6.ts"));
    for _ in 0..3 {
        gives_all(&server, &contents[6..], "what is read most");
    }
    let moved = until("what is read most to move", || event(&server, "upkeep_ended").ok_or(String::new()));
    assert!(moved["upkeep"] == "zones" && moved["copies_lost"] == 0, "{moved}");
    let status = volume_after_upkeep(&server);
    assert!(status["moved_copies"].as_u64() >= Some(9) && status["last_upkeep"].is_null(), "{status}");
    gives_all(&server, &contents, "after the move");
    // It is durable, and where it was is free again.
    server.kill();
    assert!(lies_outside(&disks[0], "6.ts"));
    let server = Server::on(&[], &state, &["--volume", &joined(&disks)]);
    gives_all(&server, &contents, "after a restart");
    // A content that is read may be moved again, and its old place is free when the move is durable.
    until("room", || match put(server.address, "/media/7.ts", &pattern(20_000_000)) {
        201 => Ok(()),
        other => Err(other.to_string()),
    });
    server.stop();
    let scrub = Command::new(crate::common::program()).args(["volume", "scrub"]).args(&disks).output();
    let scrub = scrub.expect("the program runs");
    assert!(scrub.status.success(), "{scrub:?}");
}
