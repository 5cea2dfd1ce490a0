//! `isocast lab disk` for real: mounts, loop devices, faults, power cuts; and that nothing is left behind.
//!
//! Needs root, FUSE and loop devices. Where a test cannot run it checks instead that the program says what is missing.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::until;

struct Disk {
    name: String,
}

fn isocast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isocast"))
        .args(["lab", "disk"])
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// True if emulated disks are possible here. If not, the program must say why.
fn possible() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if root && Path::new("/dev/fuse").exists() && Path::new("/dev/loop-control").exists() {
        return true;
    }
    let said = isocast(&["up", "cannot"]);
    assert_eq!(said.status.code(), Some(1));
    let said = text(&said);
    assert!(["root", "/dev/fuse", "/dev/loop-control"].iter().any(|what| said.contains(what)), "{said}");
    eprintln!("not run: {said}");
    false
}

impl Disk {
    /// A small disk with ext4.
    fn up(purpose: &str, arguments: &[&str]) -> Self {
        let disk = Self { name: format!("test-{purpose}-{}", std::process::id()) };
        disk.raise(arguments);
        disk
    }

    fn raise(&self, arguments: &[&str]) {
        let said = isocast(&[&["up", &self.name, "--set", "size=2G"], arguments].concat());
        assert!(said.status.success(), "{}", text(&said));
    }

    fn home(&self) -> PathBuf {
        Path::new("/run/isocast-lab").join(&self.name)
    }

    fn mount(&self) -> PathBuf {
        self.home().join("mnt")
    }

    fn state(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.home().join("state.json")).expect("a state")).expect("JSON")
    }

    fn device(&self) -> PathBuf {
        PathBuf::from(self.state()["device"].as_str().expect("a device"))
    }

    fn daemon(&self) -> String {
        self.state()["daemon"]["pid"].to_string()
    }

    fn ctl(&self, command: &str) -> String {
        let said = isocast(&["ctl", &self.name, command]);
        assert!(said.status.success(), "{command}: {}", text(&said));
        text(&said)
    }

    fn stat(&self) -> serde_json::Value {
        let said = isocast(&["stat", &self.name, "--json"]);
        serde_json::from_slice(&said.stdout).expect("JSON")
    }

    fn down(&self) {
        let said = isocast(&["down", &self.name]);
        assert!(said.status.success(), "{}", text(&said));
    }

    /// Mounts, loop devices, files and the daemon are gone.
    fn assert_nothing_left(&self, daemon: &str) {
        let mounts = fs::read_to_string("/proc/mounts").expect("/proc/mounts");
        assert!(!mounts.contains(&self.name), "{mounts}");
        for entry in fs::read_dir("/sys/block").expect("/sys/block").flatten() {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            assert!(!backing.contains(&self.name), "{:?} is over {backing}", entry.file_name());
        }
        assert!(!self.home().exists());
        assert!(!Path::new("/dev/shm/isocast-lab").join(format!("{}.img", self.name)).exists());
        let command = fs::read_to_string(format!("/proc/{daemon}/cmdline")).unwrap_or_default();
        assert!(!command.contains(&self.name), "the daemon still runs");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A failed test must not leave its disk behind; after a good one there is nothing to do.
        let _again = isocast(&["down", &self.name]);
    }
}

fn write_durably(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("a file");
    file.write_all(bytes).expect("written");
    file.sync_all().expect("durable");
    File::open(path.parent().expect("a directory")).expect("opens").sync_all().expect("durable");
}

#[test]
fn a_disk_stores_what_is_written_and_leaves_nothing() {
    if !possible() {
        return;
    }
    let disk = Disk::up("plain", &[]);
    let daemon = disk.daemon();
    assert!(text(&isocast(&["list"])).contains(&disk.name));
    assert!(text(&isocast(&["up", &disk.name])).contains("already up"));
    let device = disk.device();
    let number = device.file_name().expect("a name").to_string_lossy().into_owned();
    let queue =
        |key: &str| fs::read_to_string(format!("/sys/block/{number}/{key}")).expect("a setting").trim().to_owned();
    assert_eq!(queue("loop/dio"), "1");
    assert_eq!(queue("queue/rotational"), "1");
    assert_eq!(queue("queue/write_cache"), "write back");
    assert_eq!(queue("queue/read_ahead_kb"), "128");

    let data: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    disk.ctl("reset");
    write_durably(&disk.mount().join("a file"), &data);
    let stat = disk.stat();
    assert!(stat["flushes"].as_u64() > Some(0), "a sync must reach the drive as a flush: {stat}");
    assert!(stat["written_bytes"].as_u64() >= Some(1_200_000), "{stat}");
    let out = Command::new("umount").arg(disk.mount()).status().expect("umount runs");
    assert!(out.success());
    assert!(Command::new("mount").arg(&device).arg(disk.mount()).status().expect("mount runs").success());
    assert_eq!(fs::read(disk.mount().join("a file")).expect("reads"), data);
    disk.down();
    disk.assert_nothing_left(&daemon);
    assert!(text(&isocast(&["down", &disk.name])).contains("was not up"));
}

#[test]
fn a_killed_daemon_a_hung_drive_and_a_busy_mount_come_down() {
    if !possible() {
        return;
    }
    let disk = Disk::up("killed", &[]);
    let daemon = disk.daemon();
    fs::write(disk.mount().join("dirty"), vec![7; 1 << 20]).expect("written to the page cache");
    assert!(Command::new("kill").args(["-9", &daemon]).status().expect("kill runs").success());
    disk.down();
    disk.assert_nothing_left(&daemon);

    // `up` after a crash of the same name cleans up first.
    disk.raise(&[]);
    let daemon = disk.daemon();
    assert!(Command::new("kill").args(["-9", &daemon]).status().expect("kill runs").success());
    disk.raise(&[]);
    disk.assert_daemon_gone(&daemon);

    // A hung drive, with a request under way.
    let daemon = disk.daemon();
    let device = disk.device();
    disk.ctl("hang");
    let reader = std::thread::spawn(move || fs::read(device).map(|_| ()).is_ok());
    disk.down();
    let _ended = reader.join().expect("the reader ends");
    disk.assert_nothing_left(&daemon);

    // A mount in use.
    disk.raise(&[]);
    let daemon = disk.daemon();
    let held = File::create(disk.mount().join("held")).expect("a file");
    disk.down();
    let mounts = fs::read_to_string("/proc/mounts").expect("/proc/mounts");
    assert!(!mounts.contains(&disk.name));
    drop(held);
    disk.assert_daemon_gone(&daemon);
}

impl Disk {
    fn assert_daemon_gone(&self, daemon: &str) {
        let command = fs::read_to_string(format!("/proc/{daemon}/cmdline")).unwrap_or_default();
        assert!(!command.contains(&self.name), "the daemon still runs");
    }
}

#[test]
fn faults_reach_the_reader_and_go_away() {
    if !possible() {
        return;
    }
    let disk = Disk::up("faults", &["--fs", "none"]);
    let read = |offset: u64| {
        let file = File::open(disk.device()).expect("opens");
        // A fresh page each time: buffered pages that failed are not kept.
        file.read_exact_at(&mut [0; 512], offset)
    };
    disk.ctl("timing off; fault 1G 1M r");
    assert!(read(1 << 30).is_err());
    assert!(read(512 << 20).is_ok());
    disk.ctl("fault clear");
    assert!(read(1 << 30).is_ok());
    disk.ctl("die");
    assert!(read(256 << 20).is_err());
    assert_eq!(disk.stat()["alive"], false);
    disk.ctl("revive");
    assert!(read(256 << 20).is_ok());
    let wrong = isocast(&["ctl", &disk.name, "explode"]);
    assert!(!wrong.status.success() && text(&wrong).contains("fault START LENGTH"));
    let beyond = isocast(&["ctl", &disk.name, "fault 2G 4K"]);
    assert!(!beyond.status.success() && text(&beyond).contains("beyond the disk"), "{}", text(&beyond));
    disk.down();
}

#[test]
fn after_a_power_cut_what_was_flushed_is_there() {
    if !possible() {
        return;
    }
    let disk = Disk::up("power", &[]);
    let pattern =
        |file: u32| -> Vec<u8> { (0..50_000u32).flat_map(|i| (i ^ (file * 0x0101_0101)).to_le_bytes()).collect() };
    for round in 0..3u32 {
        disk.ctl("timing off");
        for file in 0..4 {
            write_durably(&disk.mount().join(format!("kept-{round}-{file}")), &pattern(round * 4 + file));
        }
        // These are in the page cache or the drive's cache, and promised to nobody.
        for file in 0..20 {
            let path = disk.mount().join(format!("lost-{round}-{file}"));
            fs::write(&path, pattern(file)).expect("written to the page cache");
        }
        disk.ctl(&format!("cut {round}"));
        let device = disk.device();
        // The file system is beyond use: let go of it, then replay its journal as after a boot.
        until("the end of the dead mount", || {
            let said = Command::new("umount").arg(disk.mount()).output().expect("umount runs");
            if said.status.success() { Ok(()) } else { Err(text(&said)) }
        });
        disk.ctl("revive");
        let check = Command::new("e2fsck").args(["-p", "-f"]).arg(&device).output().expect("e2fsck runs");
        assert!(check.status.code().is_some_and(|code| code <= 1), "round {round}: {}", text(&check));
        assert!(Command::new("mount").arg(&device).arg(disk.mount()).status().expect("mount runs").success());
        for earlier in 0..=round {
            for file in 0..4 {
                let found = fs::read(disk.mount().join(format!("kept-{earlier}-{file}"))).expect("it was durable");
                assert!(found == pattern(earlier * 4 + file), "kept-{earlier}-{file} changed in round {round}");
            }
        }
    }
    disk.down();
}

#[test]
fn films_are_spread_over_the_whole_disk() {
    if !possible() {
        return;
    }
    let disk = Disk::up("fill", &[]);
    let said = isocast(&["fill", &disk.name, "--files", "8", "--size", "16M", "--spread"]);
    assert!(said.status.success(), "{}", text(&said));
    // Whatever a file system would rather leave for later: the last is in the disk's last fifth.
    let reach = text(&said).split(" GiB").next().and_then(|t| t.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(reach.is_some_and(|gib| gib >= 1.6), "{}", text(&said));
    let films: Vec<_> = fs::read_dir(disk.mount()).expect("reads").flatten().map(|e| e.file_name()).collect();
    assert_eq!(films.iter().filter(|name| name.to_string_lossy().starts_with("film-")).count(), 8);
    assert_eq!(disk.stat()["timing"], "model");
    let too_much = isocast(&["fill", &disk.name, "--files", "900", "--size", "16M"]);
    assert!(!too_much.status.success() && text(&too_much).contains("are free"));
    disk.down();
}

/// The program in the background; killed if the test fails.
struct Running(Child);

impl Running {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        Self(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }

    fn end(mut self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().expect("kill runs");
        assert!(sent.success() && !self.0.wait().expect("it ends").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Nothing is left of the disk, now or soon.
fn until_gone(disk: &Disk, daemon: &str) {
    until("the end of the disk", || if disk.home().exists() { Err("it is there".to_owned()) } else { Ok(()) });
    disk.assert_nothing_left(daemon);
}

#[test]
fn a_disk_goes_with_the_process_it_was_made_for() {
    if !possible() {
        return;
    }
    let owner = Running::start("sleep", &["1000"]);
    let disk = Disk::up("owned", &["--owner", &owner.0.id().to_string()]);
    let daemon = disk.daemon();
    assert_eq!(disk.stat()["timing"], "model");
    owner.end("-KILL");
    until_gone(&disk, &daemon);
}

#[test]
fn a_check_that_is_ended_leaves_nothing() {
    if !possible() || Command::new("fio").arg("--version").output().is_err() {
        return;
    }
    for signal in ["-TERM", "-HUP", "-KILL"] {
        let arguments = ["lab", "disk", "check", "--profile", "ssd-sata", "--seconds", "600", "--set", "size=1G"];
        let check = Running::start(env!("CARGO_BIN_EXE_isocast"), &arguments);
        let disk = Disk { name: format!("check-{}", check.0.id()) };
        until("the disk of the check", || {
            let up = fs::read(disk.home().join("state.json"))
                .is_ok_and(|text| text.windows(13).any(|t| t == b"\"ready\": true"));
            if up { Ok(()) } else { Err("not yet".to_owned()) }
        });
        let daemon = disk.daemon();
        check.end(signal);
        until_gone(&disk, &daemon);
    }
}

#[test]
fn wrong_use_says_what_to_write() {
    for (arguments, hint) in [
        (vec!["up", "a/b"], "letters, digits"),
        (vec!["up", "x", "--set", "speed=1"], "unknown drive parameter"),
        (vec!["up", "x", "--set", "avg=9"], "unit"),
        (vec!["up", "x", "--profile", "floppy"], "t7k250"),
        (vec!["stat", "nobody-has-this"], "is not up"),
    ] {
        let said = isocast(&arguments);
        assert!(!said.status.success());
        assert!(text(&said).contains(hint), "{arguments:?}: {}", text(&said));
    }
}
