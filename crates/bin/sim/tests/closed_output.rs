//! A run is judged to its end though its reader closes the output early.

use std::io::pipe;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_has_gone_changes_no_verdict() {
    for arguments in [&["--seeds", "2", "--trace"][..], &["--seeds", "2..4", "--verbose"]] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
        command.args(arguments).stdout(writer).stderr(Stdio::piped());
        let said = command.spawn().expect("the program runs").wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && errors.is_empty(), "{arguments:?}: {:?}: {errors}", said.status);
    }
}
