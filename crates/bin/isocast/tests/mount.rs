//! `isocast volume mount` with the real programs: `ls`, `cp`, `cmp`, `md5sum` and seeks in a mounted volume and a mounted folder,
//! each way to unmount, and a server that goes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::SystemTime;

use rustix::fs::statvfs;

use crate::common::client::pattern;
use crate::common::program_and_others;
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;
use crate::common::until;

/// True if this user may mount here.
fn permitted() -> bool {
    let has_device = rustix::fs::access("/dev/fuse", rustix::fs::Access::WRITE_OK).is_ok();
    if !has_device {
        skipped("a mount needs /dev/fuse");
    } else if !is_root() && Command::new("fusermount3").arg("-V").output().is_err() {
        skipped("a mount by who is not root needs `fusermount3`");
    } else {
        return true;
    }
    false
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// As the guide says, with the program that this user unmounts by.
fn unmount(folder: &Path, flags: &[&str]) -> Output {
    let folder = folder.to_str().expect("UTF-8");
    if is_root() {
        run("umount", &[flags, &[folder]].concat())
    } else {
        run("fusermount3", &[&["-u"], flags, &[folder]].concat())
    }
}

struct Mounted {
    child: Child,
    folder: PathBuf,
}

impl Mounted {
    fn at(server: &Server, below: &str, folder: &Path, arguments: &[&str]) -> Self {
        fs::create_dir_all(folder).expect("made");
        let url = format!("http://{}/media/{below}", server.address);
        let mut command = Command::new(program_and_others());
        command.args(["volume", "mount"]).args(arguments).arg(&url).arg(folder);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says so");
        assert!(line.contains("is mounted on"), "{line}");
        Self { child, folder: folder.to_owned() }
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/mounts").expect("/proc/mounts");
        mounts.contains(self.folder.to_str().expect("UTF-8"))
    }

    fn ended(&mut self) {
        assert!(self.child.wait().expect("it is our child").success());
        assert!(!self.is_mounted());
    }

    fn terminate(mut self) {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(told.success());
        self.ended();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A failed test must not leave its mount behind.
        if self.is_mounted() {
            let lazily = if is_root() { "-l" } else { "-z" };
            let _ = unmount(&self.folder, &[lazily]);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &str, arguments: &[&str]) -> Output {
    Command::new(command).args(arguments).output().expect("it is installed")
}

fn stdout_text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Contents, as files of a folder.
fn contents(folder: &Path) -> PathBuf {
    let root = folder.join("films");
    fs::create_dir_all(root.join("old/1 & 2")).expect("made");
    fs::write(root.join("empty.ts"), b"").expect("written");
    fs::write(root.join("long.ts"), pattern(9_000_001)).expect("written");
    fs::write(root.join("old/1 & 2/über 50%?.ts"), pattern(70_001)).expect("written");
    root
}

fn check_programs(films: &Path, mounted: &Path, scratch: &Path) {
    let listing = stdout_text(&run("ls", &["-lR", text(mounted)]));
    for part in ["9000001", "long.ts", "empty.ts", "old", "1 & 2", "70001", "über 50%?.ts", "-r--r--r--", "dr-xr-xr-x"]
    {
        assert!(listing.contains(part), "{part}: {listing}");
    }
    let copy = scratch.join("copy");
    stdout_text(&run("cp", &["-r", text(mounted), text(&copy)]));
    stdout_text(&run("diff", &["-r", text(films), text(&copy)]));
    stdout_text(&run("cmp", &[text(&films.join("long.ts")), text(&mounted.join("long.ts"))]));
    let sums =
        |folder: &Path| stdout_text(&Command::new("md5sum").arg("long.ts").current_dir(folder).output().expect("runs"));
    assert_eq!(sums(mounted), sums(films));
    assert!(fs::write(mounted.join("new"), b"x").is_err(), "it is read-only");
    assert!(fs::metadata(mounted.join("nothing")).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound));
    let modified =
        |folder: &Path| fs::metadata(folder.join("long.ts")).and_then(|facts| facts.modified()).expect("known");
    let difference = modified(films).duration_since(modified(mounted)).expect("not after");
    assert!(difference.as_secs() < 2, "{difference:?}");
    let space = statvfs(mounted).expect("the server says how full it is");
    assert!(0 < space.f_bavail && space.f_bavail <= space.f_blocks, "{} of {}", space.f_bavail, space.f_blocks);
}

/// A library's scanner passes over a folder with an unchanged time.
fn check_folder_times(server: &Server, below: &str, mounted: &Path) {
    let modified = |folder: &str| {
        fs::metadata(mounted.join(folder)).and_then(|facts| facts.modified()).expect("the server knows it")
    };
    let before = ["", "old"].map(modified);
    assert!(before.iter().all(|time| *time > SystemTime::UNIX_EPOCH), "{before:?}");
    let mut names = 0u64..;
    until("a new name to change the time of its folder", || {
        let name = format!("/media/{below}old/new-{}", names.next().unwrap_or(0));
        assert_eq!(server.put(&name, "", b"new").status, 201);
        let now = modified("old");
        if now > before[1] { Ok(()) } else { Err(format!("{now:?}")) }
    });
}

fn check_seeks(mounted: &Path) {
    let expected = pattern(9_000_001);
    let mut file = File::open(mounted.join("long.ts")).expect("there");
    for (offset, length) in [(8_999_990, 100), (0, 10), (4_000_000, 300_000), (3_000_000, 2_000_000), (9_000_001, 5)] {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset)).expect("in the file");
        file.by_ref().take(length).read_to_end(&mut bytes).expect("read");
        let start = usize::try_from(offset).expect("small");
        let end = expected.len().min(start + usize::try_from(length).expect("small"));
        assert!(bytes == expected[start..end], "{offset}");
    }
    // From behind to the front, and two at once.
    for offset in (0..8_999_000).rev().step_by(400_000) {
        let mut bytes = [0; 1000];
        file.read_exact_at(&mut bytes, offset).expect("read");
        let start = usize::try_from(offset).expect("small");
        assert!(bytes == expected[start..start + 1000], "{offset}");
    }
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| scope.spawn(|| fs::read(mounted.join("long.ts")).expect("read")));
        for reader in readers {
            assert!(reader.join().expect("no panic") == expected);
        }
    });
}

#[test]
fn programs_read_the_mounted_contents() {
    if !permitted() {
        return;
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let films = contents(scratch.path());
    let server = Server::on(&[&films], &scratch.path().join("state"), &[]);
    let mut mounted = Mounted::at(&server, "", &scratch.path().join("mount"), &[]);
    check_programs(&films, &mounted.folder, scratch.path());
    let mut again = Command::new(program_and_others());
    again.args(["volume", "mount", &format!("http://{}/media/", server.address)]).arg(&mounted.folder);
    let again = again.output().expect("the program runs");
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(1) && said.contains("/media/ is mounted on"), "{said}");
    check_seeks(&mounted.folder);
    check_folder_times(&server, "", &mounted.folder);
    stdout_text(&unmount(&mounted.folder, &[]));
    mounted.ended();
}

#[test]
fn a_volume_is_mounted_below_a_folder_of_it_and_at_a_rate() {
    if !permitted() {
        return;
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let films = contents(scratch.path());
    let [one, two] = ["one", "two"].map(|name| scratch.path().join(name));
    for disk in [&one, &two] {
        File::create(disk).and_then(|file| file.set_len(96 << 20)).expect("there is room");
    }
    let disks = format!("{},{}", text(&one), text(&two));
    let volume = |arguments: &[&str]| {
        stdout_text(&Command::new(program_and_others()).arg("volume").args(arguments).output().expect("runs"))
    };
    volume(&["create", "--name", "v", "--layout", "mirror", "--unit", "1MiB", "--yes", text(&one), text(&two)]);
    volume(&["import", &disks, text(&films)]);
    let server = Server::on(&[], &scratch.path().join("state"), &["--volume", &disks]);
    let mounted = Mounted::at(&server, "films", &scratch.path().join("mount"), &["--rate", "40Mbit/s"]);
    check_programs(&films, &mounted.folder, scratch.path());
    check_seeks(&mounted.folder);
    check_folder_times(&server, "films/", &mounted.folder);
    let space = statvfs(&mounted.folder).expect("the server says how full it is");
    assert!(space.f_blocks * space.f_frsize <= 96 << 20, "a mirror has room for the contents of one disk");
    // A file that is still open does not hold up the end of the mount.
    let mut open = File::open(mounted.folder.join("long.ts")).expect("there");
    open.read_exact(&mut [0; 1000]).expect("read");
    mounted.terminate();
    assert!(open.seek(SeekFrom::Start(8 << 20)).and_then(|_| open.read(&mut [0; 10])).is_err());
}

#[test]
fn a_server_that_is_gone_gives_errors() {
    if !permitted() {
        return;
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let films = contents(scratch.path());
    let server = Server::on(&[&films], &scratch.path().join("state"), &[]);
    let folder = scratch.path().join("mount");
    let mounted = Mounted::at(&server, "", &folder, &[]);
    let file = File::open(folder.join("long.ts")).expect("there");
    let address = server.address.to_string();
    server.kill();
    let io_error = Some(rustix::io::Errno::IO.raw_os_error());
    assert_eq!(file.read_exact_at(&mut [0; 10], 8_000_000).map_err(|error| error.raw_os_error()), Err(io_error));
    until("the kernel to ask again", || match fs::metadata(folder.join("empty.ts")) {
        Err(error) if error.raw_os_error() == io_error => Ok(()),
        other => Err(format!("{other:?}")),
    });
    // With the server back at the same address, the reads continue.
    let _server = Setup::on(&[&films], &scratch.path().join("state"), &[]).listen(&address).start();
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 8_000_000).expect("read");
    assert_eq!(bytes, pattern(8_000_010)[8_000_000..]);
    drop(file);
    mounted.terminate();
    let refused = run(
        text(&program_and_others()),
        &["volume", "mount", &format!("http://{address}/media/nothing"), text(&folder)],
    );
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no such folder"));
}
