//! A disk that is mounted at a served folder while the server runs is served, without a restart by hand.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::client::{Client, pattern};
use crate::common::skip::skipped;
use crate::common::{PATIENCE, free_address};

/// A server in a mount namespace of its own, which ends with this.
struct Confined(Child);

impl Confined {
    /// Runs a shell's `script` among its mounts.
    fn run(&self, script: &str) {
        let process = self.0.id().to_string();
        let status = Command::new("nsenter").args(["--target", &process, "--mount", "sh", "-ec", script]).status();
        assert!(status.is_ok_and(|status| status.success()), "{script}");
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status from a server that may be about to start again; `None` without an answer.
fn status(address: SocketAddr, target: &str) -> Option<u16> {
    Client::try_to(address).ok()?.try_ask("GET", target).ok().map(|answer| answer.status)
}

fn wait_for(address: SocketAddr, target: &str, wanted: u16) {
    let deadline = Instant::now() + PATIENCE;
    while status(address, target) != Some(wanted) {
        assert!(Instant::now() < deadline, "{target}: {:?}", status(address, target));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_disk_that_is_mounted_later_is_served_once_nothing_runs() {
    let mounts = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        return skipped("it needs to mount, which takes root");
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (root, state) = (folder.path().join("media"), folder.path().join("state"));
    fs::create_dir(&root).expect("made");
    fs::write(root.join("below.ts"), pattern(4_000_000)).expect("written");
    // It is to be the same address when it starts again.
    let address = free_address();
    let mut command = Command::new("unshare");
    command.args(["--mount", env!("CARGO_BIN_EXE_isocast"), "serve", "--set", "plane.memory=64MiB", "--listen"]);
    command.arg(address.to_string()).arg("--state").arg(&state).arg("--root").arg(&root);
    let server = Confined(command.stderr(Stdio::null()).spawn().expect("the program starts"));
    wait_for(address, "/ready", 200);
    let mut watching = Client::to(address);
    watching.get("/media/below.ts?rate=2M&burst=0");
    assert_eq!(watching.head().status, 200);
    server.run(&format!("mount -t tmpfs none {0} && echo later >{0}/above.ts", root.display()));
    wait_for(address, "/media/above.ts", 503);
    assert_eq!(watching.take(1_000_000).len(), 1_000_000, "who watches is not disturbed");
    drop(watching);
    wait_for(address, "/media/above.ts", 200);
    assert_eq!(status(address, "/media/below.ts"), Some(404), "what is below the mount point is not served");
}

#[test]
fn a_disk_that_is_measured_anew_is_taken_up_without_a_new_start() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (root, state) = (folder.path().join("media"), folder.path().join("state"));
    fs::create_dir(&root).expect("made");
    let image = folder.path().join("image");
    let made = "truncate -s 200M \"$0\" && mkfs.ext4 -q \"$0\"";
    let made = Command::new("sh").args(["-ec", made]).arg(&image).output();
    let mount = "mount -o loop \"$0\" \"$1\"";
    let mounts = Command::new("unshare").args(["--mount", "sh", "-ec", mount]).args([&image, &root]).output();
    if ![made, mounts].iter().all(|output| output.as_ref().is_ok_and(|output| output.status.success())) {
        return skipped("it needs to mount a file, which takes root");
    }
    let config = folder.path().join("isocast.toml");
    let job = "[[job]]\nname = \"measure\"\nkind = \"measure\"\nschedule = \"@yearly\"\n";
    fs::write(&config, format!("access.local_writes = true\nplane.memory = \"64MiB\"\n{job}")).expect("written");
    let address = free_address();
    let mut command = Command::new("unshare");
    let serve = format!("{mount} && head -c 64000000 /dev/zero >\"$1/a.ts\" && shift 1 && exec \"$@\"");
    command.args(["--mount", "sh", "-ec", &serve]).args([&image, &root]);
    command.args([env!("CARGO_BIN_EXE_isocast"), "serve", "--config"]).arg(&config);
    command.arg("--listen").arg(address.to_string()).arg("--state").arg(&state).arg("--root").arg(&root);
    let _server = Confined(command.stderr(Stdio::null()).spawn().expect("the program starts"));
    wait_for(address, "/ready", 200);
    let events = || {
        let mut client = Client::to(address);
        client.get("/api/v1/events");
        client
            .answer(true)
            .json()
            .as_array()
            .expect("a list")
            .iter()
            .map(|event| event["event"].clone())
            .collect::<Vec<_>>()
    };
    let mut follower = Client::to(address);
    follower.get("/media/a.ts?rate=max");
    assert_eq!(follower.head().status, 200);
    assert_eq!(follower.take(64_000_000).len(), 64_000_000);
    assert_eq!(Client::to(address).try_ask("POST", "/api/v1/jobs/measure/run").expect("an answer").status, 202);
    let deadline = Instant::now() + PATIENCE;
    while !events().iter().any(|event| event == "disk_measured") {
        assert!(Instant::now() < deadline, "{:?}", events());
        std::thread::sleep(Duration::from_millis(100));
    }
    let all = events();
    assert_eq!(all.iter().filter(|event| *event == "server_started").count(), 1, "{all:?}");
    follower.get("/media/a.ts?rate=8M&burst=0");
    assert_eq!(follower.head().status, 200, "a connection from before is served");
}
