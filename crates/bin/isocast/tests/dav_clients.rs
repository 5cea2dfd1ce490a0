//! The share with programs that mount it: davfs2, rclone and gvfs. Each is skipped by name where it is not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::client::pattern;
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;

/// Small files that a mount stores.
const FILES: usize = 50;

fn is_missing(path: &str) -> bool {
    let missing = !Path::new(path).exists();
    if missing {
        skipped(&format!("{path} is not there"));
    }
    missing
}

/// A mounted share, which ends with it.
struct MountedShare(PathBuf);

impl Drop for MountedShare {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn is_forbidden() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped("a mount of a share needs root");
    }
    !is_root || is_missing("/dev/fuse")
}

/// An edit, a save by another name, small files, a large one and a removal, as a user of a mounted folder makes them.
fn edit(share: &MountedShare) {
    let at = |name: &str| share.0.join(name);
    fs::write(at("a.txt"), "first").expect("a new file");
    fs::write(at("a.txt~"), "second").expect("a draft");
    fs::rename(at("a.txt~"), at("a.txt")).expect("a save by another name");
    fs::create_dir(at("many")).expect("a folder");
    for number in 0..FILES {
        fs::write(at("many").join(number.to_string()), format!("file {number}")).expect("a small file");
    }
    fs::write(at("large"), pattern(20_000_000)).expect("a large file");
    fs::write(at("gone"), "x").expect("a file");
    fs::remove_file(at("gone")).expect("a removal");
}

fn assert_stored(server: &Server) {
    let stored = |name: &str| fs::read(server.root.join(name)).expect("stored");
    assert_eq!(stored("a.txt"), b"second");
    for number in 0..FILES {
        assert_eq!(stored(&format!("many/{number}")), format!("file {number}").as_bytes());
    }
    assert!(stored("large") == pattern(20_000_000));
    assert_eq!(fs::read_dir(server.root.join("many")).expect("a folder").count(), FILES);
    let mut names = server.names();
    names.retain(|name| name != "lost+found");
    assert_eq!(names, ["a.txt", "large", "many"]);
}

#[test]
fn davfs2_edits_a_mounted_share() {
    if is_missing("/usr/sbin/mount.davfs") || is_forbidden() {
        return;
    }
    let server = Setup::default().start();
    let (folder, settings) = (server.folders.path().join("mounted"), server.folders.path().join("davfs2.conf"));
    fs::create_dir(&folder).expect("a folder");
    fs::write(&settings, "ask_auth 0\ndelay_upload 0\n").expect("room");
    let mut mount = Command::new("mount");
    mount.args(["-t", "davfs", "-o"]).arg(format!("conf={}", settings.display()));
    mount.arg(format!("http://{}/media/", server.address)).arg(&folder).stdin(Stdio::null());
    assert!(mount.status().expect("mount runs").success());
    let share = MountedShare(folder);
    edit(&share);
    // It sends the rest before it ends.
    drop(share);
    assert_stored(&server);
}

#[test]
fn rclone_edits_a_mounted_share() {
    if is_missing("/usr/bin/rclone") || is_missing("/usr/bin/fusermount3") || is_forbidden() {
        return;
    }
    let server = Setup::default().start();
    let folder = server.folders.path().join("mounted");
    fs::create_dir(&folder).expect("a folder");
    let mut mount = Command::new("rclone");
    mount.args(["--config", "/dev/null", "--webdav-vendor", "other", "--webdav-url"]);
    mount.arg(format!("http://{}/media/", server.address)).args(["mount", ":webdav:"]).arg(&folder);
    mount.args(["--vfs-cache-mode", "writes", "--vfs-write-back", "2s", "--daemon", "--cache-dir"]);
    mount.arg(server.folders.path().join("cache"));
    assert!(mount.status().expect("rclone runs").success());
    let share = MountedShare(folder);
    edit(&share);
    // It does not send the rest when it ends.
    server.wait_for("all files", |server| {
        let count = fs::read_dir(server.root.join("many")).map_or(0, Iterator::count);
        count == FILES && server.root.join("large").exists() && server.names().len() == 3
    });
    drop(share);
    assert_stored(&server);
}

/// Runs commands of a desktop, on a bus of their own, and gives their output.
fn on_desktop(server: &Server, commands: &str) -> String {
    let mut shell = Command::new("dbus-run-session");
    shell.args(["--", "sh", "-e", "-c", commands]);
    shell.env("SHARE", format!("{}/media", server.address)).env("HOME", server.folders.path());
    // Names are printed as bytes of UTF-8, whatever the locale of the test is.
    shell.env("LC_ALL", "C.UTF-8");
    let output = shell.stdin(Stdio::null()).output().expect("dbus-run-session runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn gvfs_copies_saves_and_renames() {
    if is_missing("/usr/bin/gio") || is_missing("/usr/libexec/gvfsd-dav") || is_missing("/usr/bin/dbus-run-session") {
        return;
    }
    let server = Setup::default().start();
    let commands = "cd; echo one > one.txt; gio mount dav://$SHARE/; gio mkdir dav://$SHARE/d
        gio copy one.txt dav://$SHARE/d/; gio move dav://$SHARE/d/one.txt dav://$SHARE/d/two.txt
        echo two | gio save dav://$SHARE/d/two.txt; gio cat dav://$SHARE/d/two.txt
        gio rename dav://$SHARE/d/two.txt 'ü & #.txt'; gio copy one.txt dav://$SHARE/d/gone; gio remove dav://$SHARE/d/gone
        gio list -l dav://$SHARE/d/";
    let said = on_desktop(&server, commands);
    assert!(said.contains("two\n") && said.contains("ü & #.txt\t4\t(regular)"), "{said}");
    assert_eq!(fs::read(server.root.join("d/ü & #.txt")).expect("renamed"), b"two\n");
    assert_eq!(fs::read_dir(server.root.join("d")).expect("a folder").count(), 1);
}
