//! The program itself: it helps, and refuses unknown commands. This test also makes `cargo test --workspace` build the
//! program, which the tests of `isocast` need.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isocast-lab")).args(arguments).output().expect("it was built")
}

#[test]
fn each_command_helps_and_an_unknown_one_is_refused() {
    for arguments in [
        &["--help"][..],
        &["bench", "--help"],
        &["disk", "--help"],
        &["net", "--help"],
        &["plan", "--help"],
        &["report", "--help"],
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: isocast-lab"), "{arguments:?}: {output:?}");
    }
    let refused = run(&["bench", "--no-such-thing"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--no-such-thing"), "{refused:?}");
}
