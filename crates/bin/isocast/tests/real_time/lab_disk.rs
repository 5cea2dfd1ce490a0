//! `isocast lab disk` for real: mounts, loop devices, faults, power cuts; and that nothing is left behind.
//!
//! Needs root, FUSE and loop devices. A test that cannot run checks instead that the program names the missing part.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::disk::{Disk, FileSystem, lab, permitted, text};
use crate::common::{program_and_others, until};
use device::calibrate::{Options, load_or_calibrate};
use units::Nanos;

/// True if emulated disks are possible here. If not, the program must say why.
fn possible() -> bool {
    if permitted() {
        return true;
    }
    let said = lab(&["up", "cannot"]);
    assert_eq!(said.status.code(), Some(1));
    let said = text(&said);
    assert!(["root", "/dev/fuse", "/dev/loop-control"].iter().any(|what| said.contains(what)), "{said}");
    crate::common::skip::skipped(said.trim());
    false
}

/// A small disk with ext4.
fn small(purpose: &str) -> Disk {
    Disk::up(purpose, "2G", FileSystem::Ext4)
}

fn write_durably(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("a file");
    file.write_all(bytes).expect("written");
    file.sync_all().expect("durable");
    File::open(path.parent().expect("a directory")).expect("opens").sync_all().expect("durable");
}

#[test]
fn a_lab_disk_stores_its_writes_and_leaves_nothing() {
    if !possible() {
        return;
    }
    let disk = small("plain");
    let daemon = disk.daemon();
    assert!(text(&lab(&["list"])).contains(&disk.name));
    assert!(text(&lab(&["up", &disk.name])).contains("already up"));
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
    let again = lab(&["down", &disk.name]);
    assert_eq!(again.status.code(), Some(1), "as `stat` and `ctl` of a disk that is not there");
    assert!(text(&again).contains("is not up"), "{}", text(&again));
}

#[test]
fn a_killed_daemon_a_hung_drive_and_a_busy_mount_come_down() {
    if !possible() {
        return;
    }
    let disk = small("killed");
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

#[test]
fn faults_reach_the_reader_and_go_away() {
    if !possible() {
        return;
    }
    let disk = Disk::up("faults", "2G", FileSystem::None);
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
    let wrong = lab(&["ctl", &disk.name, "explode"]);
    assert!(!wrong.status.success() && text(&wrong).contains("fault START LENGTH"));
    let beyond = lab(&["ctl", &disk.name, "fault 2G 4K"]);
    assert!(!beyond.status.success() && text(&beyond).contains("beyond the disk"), "{}", text(&beyond));
    disk.down();
}

#[test]
fn flushed_bytes_survive_a_power_cut() {
    if !possible() {
        return;
    }
    let disk = small("power");
    let pattern =
        |file: u32| -> Vec<u8> { (0..50_000u32).flat_map(|i| (i ^ (file * 0x0101_0101)).to_le_bytes()).collect() };
    for round in 0..3u32 {
        disk.ctl("timing off");
        for file in 0..4 {
            write_durably(&disk.mount().join(format!("kept-{round}-{file}")), &pattern(round * 4 + file));
        }
        // These are in the page cache or the drive's cache, and need not survive.
        for file in 0..20 {
            let path = disk.mount().join(format!("lost-{round}-{file}"));
            fs::write(&path, pattern(file)).expect("written to the page cache");
        }
        disk.ctl(&format!("cut {round}"));
        disk.boot();
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
    let disk = small("fill");
    let said = lab(&["fill", &disk.name, "--files", "8", "--size", "16M", "--spread", "--json"]);
    assert!(said.status.success(), "{}", text(&said));
    let filled: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    // In spite of the file system's choice of places, the last is in the disk's last fifth.
    assert!(filled["last_position_bytes"].as_u64() >= Some((2 << 30) / 5 * 4), "{filled}");
    assert!(filled["files"] == 8 && filled["file_bytes"] == 16 << 20, "{filled}");
    let films: Vec<_> = fs::read_dir(disk.mount()).expect("reads").flatten().map(|e| e.file_name()).collect();
    assert_eq!(films.iter().filter(|name| name.to_string_lossy().starts_with("film-")).count(), 8);
    assert_eq!(disk.stat()["timing"], "model");
    let too_much = lab(&["fill", &disk.name, "--files", "900", "--size", "16M"]);
    assert!(!too_much.status.success() && text(&too_much).contains("are free"));
    let down = lab(&["down", &disk.name, "--json"]);
    assert_eq!(serde_json::from_slice::<Vec<String>>(&down.stdout).expect("JSON"), [disk.name.as_str()]);
}

#[test]
fn disks_come_down_with_a_closed_output() {
    if !possible() {
        return;
    }
    let disks = ["unheard", "unheard-too"].map(|purpose| Disk::up(purpose, "64M", FileSystem::Ext4));
    let daemons = disks.each_ref().map(Disk::daemon);
    // In use: a warning for each.
    let held = disks.each_ref().map(|disk| File::create(disk.mount().join("held")).expect("a file"));
    let closed = || std::io::pipe().expect("a pipe").1;
    let mut down = Command::new(program_and_others());
    down.args(["lab", "disk", "down", &disks[0].name, &disks[1].name]).stdout(closed()).stderr(closed());
    assert_eq!(down.status().expect("the program runs").code(), Some(141), "nobody reads its output");
    drop(held);
    for (disk, daemon) in disks.iter().zip(&daemons) {
        until_gone(disk, daemon);
    }
}

/// A folder for a test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(purpose: &str) -> Self {
        let path = std::env::temp_dir().join(format!("isocast-{purpose}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn text(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_backing_file_is_kept_and_never_cut_or_stretched() {
    if !possible() {
        return;
    }
    let folder = Folder::new("backing");
    let backing = folder.text("disk.img");
    let disk = Disk::raised("backed", "64M", FileSystem::Ext4, &["--backing", &backing]);
    fs::write(disk.mount().join("film"), "a film").expect("written");
    disk.down();
    for size in ["size=32M", "size=128M"] {
        let said = lab(&["up", &disk.name, "--backing", &backing, "--set", size]);
        assert!(!said.status.success() && text(&said).contains("--set size=67108864B"), "{}", text(&said));
        assert_eq!(fs::metadata(&backing).expect("it is there").len(), 64 << 20);
    }
    disk.raise(&["--backing", &backing]);
    assert_eq!(fs::read_to_string(disk.mount().join("film")).expect("it is there"), "a film");
    let daemon = disk.daemon();
    disk.down();
    disk.assert_nothing_left(&daemon);
}

#[test]
fn a_full_backing_file_is_an_error_that_is_counted() {
    if !possible() {
        return;
    }
    let folder = Folder::new("full");
    let mount = ["-t", "tmpfs", "-o", "size=8m", "none", &folder.text("")];
    assert!(Command::new("mount").args(mount).status().expect("mount runs").success());
    let backing = folder.text("disk.img");
    let disk = Disk::raised("full", "64M", FileSystem::None, &["--backing", &backing]);
    let device = fs::OpenOptions::new().write(true).open(disk.device()).expect("opens");
    let written = device.write_all_at(&vec![7; 16 << 20], 0).and_then(|()| device.sync_all());
    assert!(written.is_err(), "more than there is room for");
    drop(device);
    assert!(disk.stat()["errors"].as_u64() > Some(0), "{}", disk.stat());
    disk.end();
    assert!(Command::new("umount").arg(folder.text("")).status().expect("umount runs").success());
}

#[test]
fn a_mount_point_that_was_made_goes_with_the_disk() {
    if !possible() {
        return;
    }
    let folder = Folder::new("mount-point");
    let disk = Disk::raised("point", "64M", FileSystem::Ext4, &["--mount", &folder.text("made/for/it")]);
    disk.end();
    assert!(!Path::new(&folder.text("made")).exists());
    fs::create_dir(folder.text("there")).expect("a folder");
    let disk = Disk::raised("point", "64M", FileSystem::Ext4, &["--mount", &folder.text("there")]);
    disk.end();
    assert!(Path::new(&folder.text("there")).exists(), "it was there before");
}

/// The program in the background; killed if the test fails.
struct Running(Child);

impl Running {
    fn start(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Self {
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
    until("the end of the disk", || disk.left(daemon));
}

#[test]
fn a_disk_goes_with_the_process_it_was_made_for() {
    if !possible() {
        return;
    }
    let owner = Running::start("sleep", &["1000"]);
    let disk = Disk::owned(owner.0.id(), "2G");
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
        let check = Running::start(program_and_others(), &arguments);
        let disk = Disk::named(format!("check-{}", check.0.id()));
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
fn wrong_arguments_get_a_hint() {
    for (arguments, hint) in [
        (vec!["up", "a/b"], "letters, digits"),
        (vec!["up", "x", "--set", "speed=1"], "unknown drive parameter"),
        (vec!["up", "x", "--set", "avg=9"], "unit"),
        (vec!["up", "x", "--profile", "floppy"], "t7k250"),
        (vec!["stat", "nobody-has-this"], "is not up"),
    ] {
        let said = lab(&arguments);
        assert!(!said.status.success());
        assert!(text(&said).contains(hint), "{arguments:?}: {}", text(&said));
    }
    for command in ["", " ", " ; ;"] {
        let said = lab(&["ctl", "nobody-has-this", command]);
        assert_eq!(said.status.code(), Some(2), "`{command}`: {}", text(&said));
        assert!(text(&said).contains("timing on|off"), "`{command}`: {}", text(&said));
    }
}

/// A profile measured during others' reads promises too little for as long as it is kept.
#[test]
fn a_profile_measured_during_other_reads_is_marked_and_not_kept() {
    if !possible() {
        return;
    }
    let disk = small("busy");
    let device = disk.device();
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let measure = || {
        let go_on = &mut |_| std::ops::ControlFlow::Continue(());
        let options = Options { time_max: Nanos::from_secs(2), ..Options::default() };
        load_or_calibrate(state.path(), &disk.mount(), options, go_on).expect("measured")
    };
    // Reads until its file is gone.
    let run_file = state.path().join("run");
    fs::write(&run_file, "").expect("written");
    let script = "while [ -e \"$0\" ]; do dd if=\"$1\" of=/dev/null bs=1M count=64 iflag=direct status=none; done";
    let mut other = Command::new("sh").arg("-c").arg(script).arg(&run_file).arg(&device).spawn().expect("a shell");
    let busy = measure();
    fs::remove_file(&run_file).expect("it was there");
    assert!(other.wait().expect("waited for").success());
    let told = |notes: &[String]| notes.iter().any(|note| note.contains("isocast disk calibrate --state"));
    assert!(busy.disturbed && told(&busy.notes), "{:?}", busy.notes);
    let quiet = measure();
    assert!(!quiet.disturbed && !told(&quiet.notes), "it was measured again: {:?}", quiet.notes);
    assert_eq!(measure().profile, quiet.profile, "and kept");
    disk.end();
}
