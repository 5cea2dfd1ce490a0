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

#[test]
fn a_part_that_there_is_not_is_wrong_usage_and_the_parts_are_named() {
    for (arguments, part) in [
        (&["bench", "papers", "--list", "--only", "tipc", "--only", "nosuch"][..], "hitactix-12"),
        (&["bench", "all", "--quick", "--only", "nosuch"], "memory"),
        (&["disk", "check", "--only", "nosuch"], "outer"),
    ] {
        let refused = run(arguments);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("--only nosuch: there is no such part; there are ") && said.contains(part), "{said}");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}

#[test]
fn values_that_do_not_fit_together_are_wrong_usage() {
    for (arguments, said) in [
        (&["bench", "streams"][..], "name a server to measure"),
        (&["bench", "streams", "--url", "ftp://x/", "--content", "a"], "must begin with http://"),
        (&["bench", "plain", "--root", "/", "--out", "/x", "--duration", "3s", "--alone", "5s"], "leaves no time"),
        (&["disk", "up", "a/b"], "cannot name a disk"),
        (&["plan", "--disk", "desktop", "--rate", "8M", "--layout", "mirror"], "a mirror has at least 2 disks"),
    ] {
        let refused = run(arguments);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {refused:?}");
    }
}
