//! One upload that continues (tus), cut again and again: its connection, its server by SIGKILL, the power of its disk.
//!
//! Promise: the offset answered after a cut is never less than an earlier one, and the content has the sent bytes. The contents and the
//! state of the server lie on disks that lose their power together. `ISOCAST_CRASH_ROUNDS` (2): six cuts each; a release needs 50.

use std::fs;

use super::crash::setting;
use crate::common::client::pattern;
use crate::common::content::Chance;
use crate::common::disk::{Disk, FileSystem, possible};
use crate::common::server::Server;
use crate::common::volume::volume;
use crate::tus::{create, cut, offset, patch};

const UPLOAD_BYTES: usize = 24_000_000;
/// With the parts of the upload, and the file system's own writes.
const DISK_BYTES_WRITTEN: u64 = 512 << 20;

/// With a volume: the contents lie on a disk of their own.
fn cut_upload(file_system: FileSystem, with_volume: bool) {
    if !possible(DISK_BYTES_WRITTEN * (1 + u64::from(with_volume))) {
        return;
    }
    let disk = Disk::up(&format!("upload-{file_system:?}"), "8G", file_system);
    let of_volume = with_volume.then(|| Disk::up("upload-volume", "8G", FileSystem::None));
    let disks: Vec<Disk> = [disk].into_iter().chain(of_volume).collect();
    disks.iter().for_each(|disk| drop(disk.ctl("timing off")));
    let (media, state) = (disks[0].folder().join("media"), disks[0].folder().join("state"));
    let devices: Vec<_> = disks[1..].iter().map(Disk::device).collect();
    let device = devices.first().map(|device| device.display().to_string());
    let start = || match &device {
        Some(device) => Server::on(&[], &state, &["--volume", device]),
        None => Server::on(&[&media], &state, &[]),
    };
    if with_volume {
        volume(&["create", "--name", "v", "--layout", "span", "--yes"], &devices);
    } else {
        fs::create_dir(&media).expect("a folder");
        // Behind an overlay there is no device to measure, but files.
        for file in 0..8 {
            fs::write(media.join(file.to_string()), vec![1; 8 << 20]).expect("room");
        }
        Server::calibrate(&media, &state);
    }
    let cuts = 6 * setting("ISOCAST_CRASH_ROUNDS", 2);
    let (bytes, mut chance, mut server) = (pattern(UPLOAD_BYTES), Chance(setting("ISOCAST_CRASH_SEED", 1)), start());
    let upload = create(&server, "new/film.ts", bytes.len());
    let mut at = 0;
    for number in 0..cuts {
        let part = bytes.len() / usize::try_from(2 * cuts).expect("few");
        let length = usize::try_from(chance.within(1, part as u64)).expect("small");
        // A whole request in between: its bytes are acknowledged. A broken request may come to its bytes later.
        if number % 2 == 1 {
            let answer = patch(&server, &upload, at, &bytes[at..at + length]);
            assert!([204, 409].contains(&answer.status), "cut {number}: {}", answer.status);
            at = if answer.status == 204 { at + length } else { offset(&server, &upload) };
        }
        let piece = &bytes[at..at + length];
        let sent = cut(&server, &upload, at, piece, bytes.len() - at);
        match number % 3 {
            0 => drop(sent),
            1 => {
                server.kill();
                drop(sent);
                server = start();
            }
            _ => {
                lose_power(&disks, number, server);
                drop(sent);
                server = start();
            }
        }
        let now = offset(&server, &upload);
        assert!((at..=bytes.len()).contains(&now), "cut {number}: {now} bytes after {at}");
        assert_eq!(server.get("/media/new/film.ts").status, 404, "nothing half is visible");
        at = now;
    }
    println!("{cuts} cuts, {at} bytes by then");
    at = offset(&server, &upload);
    assert_eq!(patch(&server, &upload, at, &bytes[at..]).status, 204);
    lose_power(&disks, cuts, server);
    let server = start();
    assert!(server.get("/media/new/film.ts").body == bytes, "the content that was sent, durably");
    server.stop();
    disks.into_iter().for_each(Disk::end);
}

/// Cuts the power of all disks, and gives it back.
fn lose_power(disks: &[Disk], seed: u64, server: Server) {
    disks.iter().for_each(|disk| drop(disk.ctl(&format!("cut {seed}"))));
    server.kill();
    for disk in disks {
        disk.boot();
        disk.ctl("timing off");
    }
}

#[test]
fn an_upload_continues_after_power_cuts() {
    cut_upload(FileSystem::Ext4, false);
}

#[test]
fn an_upload_continues_after_power_cuts_behind_a_page_cache() {
    cut_upload(FileSystem::Overlay, false);
}

#[test]
fn an_upload_to_a_volume_continues_after_power_cuts() {
    cut_upload(FileSystem::Ext4, true);
}
