//! The program itself: it helps, and refuses arguments that cannot be mounted. That it has a test also makes `cargo test --workspace` build
//! it, which the tests of `isocast` need.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isocast-mount")).args(arguments).output().expect("it was built")
}

#[test]
fn the_program_prints_help_and_refuses_invalid_mounts() {
    let help = run(&["--help"]);
    assert!(
        help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Usage: isocast-mount"),
        "{help:?}"
    );
    let cases: [(&[&str], i32, &str); 5] = [
        (&[], 2, "<URL> <DIR>"),
        (&["--rate", "fast", "http://127.0.0.1:1/media/", "/tmp"], 2, "fast"),
        (&["http://127.0.0.1:1/films", "/tmp"], 1, "http://HOST:PORT/media/FILE"),
        (&["http://127.0.0.1:1/media/", "/tmp"], 1, "no program listens there"),
        (&["--login", "/nowhere", "http://127.0.0.1:1/media/", "/tmp"], 1, "/nowhere"),
    ];
    for (arguments, code, why) in cases {
        let refused = run(arguments);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(code) && said.contains(why), "{arguments:?}: {said}");
    }
}
