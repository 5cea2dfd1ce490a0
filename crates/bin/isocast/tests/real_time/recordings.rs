//! A server that is killed during several recordings keeps all of each but the bytes not durable yet, in every kind of store.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use super::recorders::{Recorder, recorded, wait_until_sent};
use crate::common::content::Chance;
use crate::common::disk::{Disk, FileSystem, possible};
use crate::common::server::Server;
use crate::common::volume::{disks, joined, volume};
use crate::common::{program, until};

const RECORDERS: u64 = 6;
/// Recordings on a disk that is pulled.
const PULLED: u64 = 64;
/// More bytes than are written to a disk here.
const DISK_BYTES_WRITTEN: u64 = 1 << 30;

/// Kills a server amid recordings, twice: the second time the recordings left by the first are there, too.
fn kill_and_look(serve: impl Fn() -> Server) {
    let mut all = Vec::new();
    for round in 0..2 {
        let server = serve();
        let recorders = Recorder::several(RECORDERS, &format!("cams/{round}"), &mut Chance(round));
        thread::scope(|scope| {
            let address = server.address;
            recorders.iter().for_each(|one| drop(scope.spawn(move || drop(one.run(address)))));
            wait_until_sent(&recorders);
            recorders.iter().for_each(Recorder::note_end);
            let said = server.kill();
            assert!(!said.contains("panicked"), "{said}");
        });
        let before = all.len();
        all.extend(recorded(recorders));
        let server = serve();
        for one in &all {
            one.assert_there(&server);
        }
        // They have their names before these are durable.
        until("an event for each", || {
            let events = server.stderr_text();
            let kept = events.lines().filter(|line| line.contains("\"after_restart\":true")).count();
            if kept == all.len() - before { Ok(()) } else { Err(format!("{kept} of {}: {events}", all.len() - before)) }
        });
        let (status, said) = server.stop();
        assert!(status.success() && !said.contains("panicked"), "{said}");
    }
}

fn on_volume(layout: &str, count: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), count), folder.path().join("state"));
    volume(&["create", "--name", "cams", "--layout", layout, "--unit", "1MiB", "--yes"], &disks);
    let named = joined(&disks);
    kill_and_look(|| Server::on(&[], &state, &["--volume", &named]));
    let scrubbed = Command::new(program()).args(["volume", "scrub", &named]).output().expect("the program runs");
    assert!(scrubbed.status.success(), "{layout}: {scrubbed:?}");
}

#[test]
fn a_killed_server_keeps_recordings_on_a_volume() {
    on_volume("span", 1);
}

#[test]
fn a_killed_server_keeps_recordings_on_a_mirror() {
    on_volume("mirror", 2);
}

#[test]
fn a_killed_server_keeps_recordings_in_a_folder() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let [media, state] = ["media", "state"].map(|name| folder.path().join(name));
    std::fs::create_dir(&media).expect("there is room");
    kill_and_look(|| Server::on(&[&media], &state, &[]));
}
#[test]
fn a_killed_server_keeps_recordings_on_a_stripe() {
    on_volume("stripe", 3);
}

#[test]
fn a_disk_that_is_pulled_amid_recordings_keeps_their_durable_bytes_and_harms_no_other() {
    if !possible(2 * DISK_BYTES_WRITTEN) {
        return;
    }
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disks = ["pulled", "spared"].map(|name| {
        let disk = Disk::up(&format!("recordings-{name}"), "16G", FileSystem::Ext4);
        fs::create_dir(disk.folder().join(name)).expect("made");
        disk
    });
    let folders = disks.each_ref().map(Disk::folder);
    let serve = || Server::on(&folders.each_ref().map(PathBuf::as_path), state.path(), &[]);
    let server = serve();
    let cameras = |count, name| Recorder::several(count, &format!("{name}/cam"), &mut Chance(count));
    let (pulled, spared) = (cameras(PULLED, "pulled"), cameras(RECORDERS, "spared"));
    thread::scope(|scope| {
        let address = server.address;
        pulled.iter().chain(&spared).for_each(|one| drop(scope.spawn(move || drop(one.run(address)))));
        wait_until_sent(&pulled);
        wait_until_sent(&spared);
        pulled.iter().chain(&spared).for_each(Recorder::note_end);
        disks[0].ctl("cut 1");
        until("the end of the recordings on the disk", || match server.metric("isocast_uploads") {
            left if left <= RECORDERS as f64 => Ok(()),
            left => Err(format!("{left} are left")),
        });
        wait_until_sent(&spared);
        spared.iter().for_each(Recorder::note_end);
        let said = server.kill();
        assert!(!said.contains("panicked"), "{said}");
    });
    disks[0].boot();
    let server = serve();
    let (pulled, spared) = (recorded(pulled), recorded(spared));
    assert!(!pulled.is_empty() && spared.len() == usize::try_from(RECORDERS).expect("few"), "they had room");
    for one in pulled.iter().chain(&spared) {
        one.assert_there(&server);
    }
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("panicked"), "{said}");
    disks.into_iter().for_each(Disk::end);
}
