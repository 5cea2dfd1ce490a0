//! A command that writes to a pipe without a reader ends quietly, as programs do that SIGPIPE ends; a full pipe holds up no server.

use std::io::{Write as _, pipe};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::http::fetch;
use crate::common::{program, until};

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

#[test]
fn a_server_ends_though_nothing_reads_its_full_pipe() {
    let (reader, mut writer) = pipe().expect("a pipe");
    let bytes = rustix::pipe::fcntl_getpipe_size(&writer).expect("its size");
    writer.write_all(&vec![b'\n'; bytes]).expect("written");
    let root = tempfile::tempdir().expect("a folder");
    let free = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = free.local_addr().expect("its address");
    drop(free);
    let mut serve = Command::new(program());
    serve.args(["serve", "--listen", &address.to_string(), "--set", "plane.memory=32MiB", "--state"]);
    serve.arg(root.path().join("state")).arg(root.path()).stdin(Stdio::null()).stderr(writer);
    let mut child = serve.spawn().expect("the program starts");
    until("the server", || match fetch(address, "GET", "/ready") {
        Ok((200, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert!(child.wait().expect("it ends").success());
    drop(reader);
}
