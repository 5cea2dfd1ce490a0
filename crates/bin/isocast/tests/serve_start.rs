//! Starts that fail: the error names the reason and the next step.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::common::client::{Client, pattern};
use crate::common::server::{Server, Setup};
use crate::common::{PATIENCE, free_address};
use rustix::process::{Pid, Signal, kill_process};

/// Error output of a server that cannot start, under a shell's `limits`.
fn refused(limits: &str, state: &Path) -> String {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let script = format!("{limits} exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_isocast"), "serve", "--listen", "127.0.0.1:0", "--root"]);
    command.arg(root.path()).arg("--state").arg(state).args(["--set", "plane.memory=64MiB"]);
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().expect("a shell");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_state_folder_has_one_server_at_a_time() {
    let server = Server::start();
    let state = server.folders.path().join("state");
    let said = refused("", &state);
    let process = std::fs::read_to_string(state.join("lock")).expect("the lock").trim().to_owned();
    assert!(said.contains(&format!("(process {process})")) && said.contains("--state DIR"), "{said}");
    assert_eq!(server.get("/ready").status, 200, "the first does not notice");
}

#[test]
fn a_log_that_no_program_reads_ends_the_start() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let fifo = folder.path().join("fifo");
    let shown = fifo.display();
    let said = refused(&format!("mkfifo '{shown}'; export ISOCAST_LOG__ACCESS='{shown}';"), folder.path());
    assert!(said.contains(&format!("{shown}: it is a FIFO that no program reads")), "{said}");
}

#[test]
fn an_idle_server_holds_less_than_a_hundred_megabytes() {
    // The memory it may use under load does not count.
    let server = Setup::default().set("plane.memory=2GiB").start();
    server.file("film.ts", &pattern(3_000_000));
    assert_eq!(server.get("/media/film.ts").body.len(), 3_000_000);
    let held = server.resident_bytes();
    // An optimised program has 15 MiB of its file in memory, measured.
    assert!((1 << 20..80 << 20).contains(&held), "{held} bytes");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named() {
    // Not even root makes files there.
    let said = refused("", Path::new("/sys/kernel"));
    assert!(said.contains("the state folder /sys/kernel") && said.contains("--state DIR"), "{said}");
}

#[test]
fn a_lock_that_is_a_link_is_refused_and_its_target_kept() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (state, other) = (folder.path().join("state"), folder.path().join("other"));
    fs::create_dir(&state).expect("a folder");
    fs::write(&other, "precious").expect("a file");
    std::os::unix::fs::symlink(&other, state.join("lock")).expect("a link");
    for _ in ["a symbolic link", "a second name"] {
        let said = refused("", &state);
        assert!(said.contains("state/lock is a link to another file: remove it"), "{said}");
        assert_eq!(fs::read_to_string(&other).expect("a file"), "precious");
        fs::remove_file(state.join("lock")).expect("removed");
        fs::hard_link(&other, state.join("lock")).expect("a link");
    }
}

#[test]
fn a_root_that_cannot_be_opened_is_named_once() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isocast"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--root"]).arg(folder.path().join("none"));
    let output = command.arg("--state").arg(folder.path()).output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("none: name a folder"), "{said}");
    assert_eq!(said.matches("(os error 2)").count(), 1, "{said}");
}

#[test]
fn granted_and_missing_permissions_are_reported() {
    let server = Setup::default().verbose().start();
    let said = server.stderr_text();
    let data_plane = said.lines().find(|line| line.contains("data plane: ")).expect("a line of what it has");
    for subject in ["open files", "priority", "locked in memory"] {
        assert!(said.contains(subject), "{subject}: {said}");
    }
    assert!(!data_plane.contains("not locked") && !data_plane.contains("no real-time"), "{data_plane}");
}

/// Root is bound by the limit only without the capability.
const NO_LOCKED_MEMORY: &str = "ulimit -l 0; \
    [ \"$(id -u)\" != 0 ] || set -- setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\";";

#[test]
fn a_server_that_cannot_have_io_uring_says_why_and_serves() {
    let server = Setup::default().verbose().limits(NO_LOCKED_MEMORY).start();
    if server.stderr_text().contains("runs on io_uring") {
        crate::common::skip::skipped("this kernel does not count rings as locked memory (Linux 6.18 does)");
        return;
    }
    let said = server.stderr_text();
    assert!(said.contains("runs on ordinary system calls") && said.contains("ulimit -l unlimited"), "{said}");
    let bytes = pattern(3_000_000);
    server.file("film.bin", &bytes);
    assert!(server.get("/media/film.bin?rate=80M").body == bytes);
    assert_eq!(server.put("/media/new.bin", "", &bytes).status, 201);
    assert!(server.get("/media/new.bin").body == bytes);
}

#[test]
fn missing_io_uring_limits_are_reported_before_measuring() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let limits = format!("{NO_LOCKED_MEMORY} export ISOCAST_PLANE__ENGINE=io_uring; set -- timeout -s KILL 20 \"$@\";");
    let said = refused(&limits, &folder.path().join("state"));
    if said.contains("serving ") {
        crate::common::skip::skipped("this kernel does not count rings as locked memory (Linux 6.18 does)");
        return;
    }
    assert!(said.contains("ulimit -l unlimited"), "{said}");
    assert_eq!(said.lines().count(), 1, "nothing was measured before: {said}");
}

#[test]
fn limits_of_the_system_are_named_with_the_remedy() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for limit in ["ulimit -n", "ulimit -v"] {
        let value = if limit == "ulimit -n" { 10 } else { 200_000 };
        let said = refused(&format!("{limit} {value};"), &folder.path().join("state"));
        assert!(said.contains(limit) && !said.contains("too many operations are under way"), "{limit}: {said}");
    }
}

#[test]
fn a_taken_port_is_reported_before_any_other_step() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let state = folder.path().join("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isocast"));
    command.args(["serve", "--listen", &address, "--root"]).arg(folder.path()).arg("--state").arg(&state);
    let output = command.output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("another program has it"), "{said}");
    assert_eq!((said.lines().count(), state.exists()), (1, false), "nothing was measured or made: {said}");
}

/// A server that is still starting, on a port that was free a moment ago.
struct Begun(Child, SocketAddr);

impl Begun {
    fn new(folder: &Path) -> Self {
        let address = free_address();
        let root = folder.join("root");
        fs::create_dir_all(&root).expect("a root");
        let events = format!("log.events={}", folder.join("events.jsonl").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_isocast"));
        command
            .args(["serve", "--listen", &address.to_string(), "--root"])
            .arg(root)
            .arg("--state")
            .arg(folder.join("state"));
        command.args(["--set", "plane.memory=64MiB", "--set", &events]).stderr(Stdio::null());
        Self(command.spawn().expect("the program"), address)
    }

    /// Status of `path` as soon as the port is taken.
    fn status(&self, path: &str) -> u16 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let asked = Client::try_to(self.1).and_then(|mut client| client.try_ask("GET", path));
            match asked {
                Ok(answer) => return answer.status,
                Err(error) => assert!(Instant::now() < deadline, "no answer: {error}"),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(process, signal).expect("it runs");
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_start_answers_survives_a_hang_up_and_reads_the_configuration_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let begun = Begun::new(folder.path());
    assert_eq!(begun.status("/health"), 200);
    begun.signal(Signal::HUP);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match begun.status("/ready") {
            200 => break,
            status => assert_eq!(status, 503, "not ready yet"),
        }
        assert!(Instant::now() < deadline);
    }
    while !fs::read_to_string(folder.path().join("events.jsonl")).is_ok_and(|text| text.contains("configuration_re")) {
        assert!(Instant::now() < deadline, "the hang-up was lost");
    }
}

#[test]
fn a_start_ends_on_sigterm() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut begun = Begun::new(folder.path());
    assert_eq!(begun.status("/health"), 200);
    begun.signal(Signal::TERM);
    assert_eq!(begun.0.wait().expect("our child").code(), Some(0));
}
