//! A disk that is mounted at a served folder while the server runs is served, without a restart by hand.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::common::client::{Client, pattern};
use crate::common::skip::skipped;

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
    let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
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
