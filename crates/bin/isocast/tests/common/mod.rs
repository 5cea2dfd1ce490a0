//! Parts that tests of the real program share: the server, a plain client, emulated disks, contents and chance from a seed.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

/// The same client as the control plane's own tests.
#[path = "../../../../front/http/tests/support/client.rs"]
pub mod client;
pub mod content;
pub mod disk;
pub mod http;
pub mod server;
pub mod skip;
pub mod small;
pub mod volume;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than anything here takes; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The program: that built with the test, or that of `ISOCAST_BIN`.
pub fn program() -> PathBuf {
    std::env::var_os("ISOCAST_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_isocast")), PathBuf::from)
}

/// The program with working `lab`, `bench` and `volume mount`: `isocast-lab` and `isocast-mount` are in its folder. Cargo builds no other
/// package's programs for a test of this one.
pub fn program_and_others() -> PathBuf {
    let program = program();
    for name in ["isocast-lab", "isocast-mount"] {
        let beside = program.with_file_name(name);
        assert!(
            beside.exists(),
            "{} is missing: run `cargo test --workspace --no-run`, or let ISOCAST_BIN name a program that has it beside it",
            beside.display()
        );
    }
    program
}

/// An address of this machine with a port that is free, and stays so until the test takes it: servers of other tests listen at 127.0.0.1.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.77:0").and_then(|port| port.local_addr()).expect("a port")
}

/// Repeats `look` until it finds something: for changes by the kernel or another process, which send no notice.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    until_done(what, || look().map_err(|last| (0, last)))
}

/// Repeats `look` until it finds something, for as long as the number that it gives grows: for work that takes as long as its machine needs.
pub fn until_done<T>(what: &str, mut look: impl FnMut() -> Result<T, (u64, String)>) -> T {
    let (mut done, mut end) = (0, Instant::now() + PATIENCE);
    loop {
        match look() {
            Ok(found) => return found,
            Err((now, _)) if now > done => (done, end) = (now, Instant::now() + PATIENCE),
            Err((_, last)) => assert!(Instant::now() < end, "{what} does not come: {last}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
