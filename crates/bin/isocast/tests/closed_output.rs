//! A command that writes to a pipe without a reader ends quietly, as programs do that SIGPIPE ends.

use std::io::pipe;
use std::process::{Command, Output, Stdio};

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn isocast(arguments: &str, out: Stdio, errors: Stdio) -> Output {
    let mut command = Command::new(crate::common::program_and_others());
    command.args(arguments.split_ascii_whitespace()).stdout(out).stderr(errors);
    command.spawn().expect("the program runs").wait_with_output().expect("it ends")
}

#[test]
fn commands_end_quietly_when_their_reader_has_gone() {
    for arguments in [
        "config show --root /tmp",
        "disk calibrate /dev/shm",
        "lab disk list --json",
        "lab disk params",
        "plan --disk desktop --rate 8.8M --simulate 0",
        "plan --disk desktop --rate 8.8M --simulate 0 --json",
    ] {
        let said = isocast(arguments, closed(), Stdio::piped());
        assert_eq!(said.status.code(), Some(141), "{arguments}: {:?}", said.status);
        assert!(said.stderr.is_empty(), "{arguments}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

#[test]
fn an_error_on_a_closed_stderr_sets_the_exit_code() {
    let said = isocast("lab disk stat nobody-has-this", Stdio::piped(), closed());
    assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(1), &b""[..]));
}
