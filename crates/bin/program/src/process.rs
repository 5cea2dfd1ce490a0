//! Programs that the server runs: those of jobs and webhooks.
//!
//! Promise: each runs behind everything else (nice 19), without a shell; it gets its input, and its last output is kept; on request, or out
//! of time, the program and its children get SIGTERM, and SIGKILL soon after. Not here: the reason for the run.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Lowest of all.
const NICE: i32 = 19;
/// From SIGTERM to SIGKILL, and for its last words.
const GRACE: Duration = Duration::from_secs(5);
/// This number of the last bytes that it writes to standard error, and to standard output, are kept …
const OUTPUT_BYTES_MAX: usize = 1024;
/// … and the report has this number of last lines of one of the two.
const LINES_MAX: usize = 3;

/// End of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With exit code 0.
    Good,
    /// Otherwise: its exit code or signal, and its last words.
    Bad(String),
    /// Stopped on request: its last words.
    Stopped(String),
}

/// The reason that a program cannot be run.
#[must_use]
pub fn problem(command: &[String]) -> Option<String> {
    let program = command.first()?;
    let is_there = rustix::fs::access(program.as_str(), rustix::fs::Access::EXEC_OK);
    is_there.err().map(|error| format!("{program} cannot be run: {error}"))
}

/// Runs `command`, which is not empty, with `variables` added to its environment and `input` on its standard input, until it ends or `stop` does.
///
/// # Errors
/// It cannot be run.
pub async fn run(
    command: &[String],
    variables: &[(&str, &str)],
    input: &[u8],
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Exit> {
    let (program, arguments) = command.split_first().expect("a checked configuration names a program");
    let mut child = Command::new(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| anyhow::anyhow!("{program} cannot be run: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let _ = setpriority_process(group, NICE);
    let mut stdin = child.stdin.take().expect("it was asked for");
    let (stderr, stdout) = (child.stderr.take().expect("piped"), child.stdout.take().expect("piped"));
    let input = input.to_owned();
    // A program that does not read its input is none the worse for it.
    let feeding = tokio::spawn(async move { drop(stdin.write_all(&input).await) });
    let listening = tokio::spawn(async {
        let (errors, output) = tokio::join!(tail_of(stderr), tail_of(stdout));
        if errors.is_empty() { output } else { errors }
    });
    let ended = tokio::select! {
        status = child.wait() => Some(status),
        () = stop => None,
    };
    feeding.abort();
    let status = match ended {
        Some(status) => Some(status?),
        None => {
            end(&mut child, group).await;
            None
        }
    };
    if status.is_some_and(|status| status.success()) {
        listening.abort();
        return Ok(Exit::Good);
    }
    // Its children may hold its standard error open.
    let said = timeout(GRACE, listening).await.ok().and_then(Result::ok).unwrap_or_default();
    Ok(match status {
        Some(status) => Exit::Bad(format!("{program} {}{said}", how(status))),
        None => Exit::Stopped(said),
    })
}

/// Ends the program and its children.
async fn end(child: &mut Child, group: Option<Pid>) {
    for signal in [Signal::TERM, Signal::KILL] {
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
        if signal == Signal::TERM {
            tokio::select! {
                _ = child.wait() => {}
                () = sleep(GRACE) => {}
            }
        }
    }
    let _ = child.wait().await;
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The last lines that it wrote, behind a colon; empty if it wrote nothing.
async fn tail_of(mut output: impl AsyncRead + Unpin) -> String {
    let (mut said, mut piece) = (Vec::new(), [0; OUTPUT_BYTES_MAX]);
    while let Ok(count @ 1..) = output.read(&mut piece).await {
        said.extend_from_slice(&piece[..count]);
        let beyond = said.len().saturating_sub(OUTPUT_BYTES_MAX);
        said.drain(..beyond);
    }
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join(" / ")) }
}

/// The last line of a program's output that is not empty.
pub fn last_line(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    said.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
    }

    async fn exit(script: &str) -> Exit {
        run(&shell(script), &[("WHAT", "x")], b"in", pending()).await.expect("a shell")
    }

    #[tokio::test]
    async fn the_last_lines_of_a_program_are_the_reason() {
        assert_eq!(exit("read line; test \"$line$WHAT\" = inx").await, Exit::Good);
        let said = exit("for n in 1 2 3; do echo $n >&2; done; echo it is full >&2; echo out; exit 3").await;
        assert_eq!(said, Exit::Bad("/bin/sh exited with 3: 2 / 3 / it is full".to_owned()));
        let said = exit("echo only output; exit 1").await;
        assert_eq!(said, Exit::Bad("/bin/sh exited with 1: only output".to_owned()));
        assert_eq!(exit("kill -9 $$").await, Exit::Bad("/bin/sh was ended by signal 9".to_owned()));
        let error = run(&["/nonexistent".to_owned()], &[], b"", pending()).await.expect_err("not there");
        assert!(error.to_string().contains("/nonexistent cannot be run"), "{error}");
    }

    #[tokio::test]
    async fn a_stopped_program_ends_with_its_children() {
        let (tell, stop) = oneshot::channel::<()>();
        let scratch = tempfile::tempdir().expect("a folder");
        let file = scratch.path().join("pid");
        let script = shell(&format!("echo at work; sleep 1000 & echo $! > {}; wait", file.display()));
        let running = tokio::spawn(async move { run(&script, &[], b"", async { drop(stop.await) }).await });
        let started = loop {
            if let Some(id) = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<i32>().ok()) {
                break id;
            }
            sleep(Duration::from_millis(10)).await;
        };
        drop(tell);
        assert_eq!(running.await.expect("no panic").expect("ran"), Exit::Stopped(": at work".to_owned()));
        // The signal was sent; the kernel takes its time to end a process without a parent.
        let mut state = String::new();
        for _ in 0..1000 {
            state = std::fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{state}");
    }
}
