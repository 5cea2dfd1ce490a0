//! Programs that this one runs and waits for: itself for one experiment, servers, `ip` and `tc` for a network.
//!
//! Promise: a wish to stop is passed on once and the child given time to end in order; the child of a benchmark that
//! is killed gets a signal from the kernel.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use units::Nanos;

use crate::clock;
use crate::stop::Stop;

const SETPRIV: &str = "/usr/bin/setpriv";
/// Time for a child to end in order: an emulated disk's uploads are flushed.
const END_MAX: Nanos = Nanos::from_secs(90);
const PAUSE: Nanos = Nanos::from_millis(50);

/// `program`, to get `signal` when the thread that starts it ends (`setpriv`, where util-linux has it).
pub(crate) fn bound(program: &Path, signal: &str) -> Command {
    if !Path::new(SETPRIV).exists() {
        return Command::new(program);
    }
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// `program`, to get SIGTERM when this process ends, in a group of its own: an interrupt at the terminal reaches the
/// benchmark, which then stops it in order.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = bound(program, "TERM");
    command.process_group(0);
    command
}

/// Runs this program with `arguments` behind `prefix`, its output being ours, to its end or until `stop`.
///
/// # Errors
/// It failed, with the cause on standard error; or interrupted.
pub(crate) fn this_program(arguments: &[impl AsRef<OsStr>], prefix: &[String], stop: &Stop) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let words: Vec<&OsStr> = prefix.iter().map(OsStr::new).chain([program.as_os_str()]).collect();
    let mut command = command(Path::new(words[0]));
    command.args(&words[1..]).args(arguments).stdin(Stdio::null());
    let mut child = command.spawn().context("starting this program again")?;
    loop {
        if stop.is_set() {
            end(&mut child, END_MAX)?;
            bail!("interrupted with the part that was under way");
        }
        if let Some(status) = child.try_wait()? {
            // It has said so itself. Its results are kept, though no program reads its table any more.
            if !status.success() && status.code() != Some(crate::READER_GONE.into()) {
                bail!("it failed ({status}); the reason stands above");
            }
            return Ok(());
        }
        clock::sleep_until(clock::now() + PAUSE);
    }
}

/// Ends a program by SIGTERM, and after `span` by force.
///
/// # Errors
/// It did not end in time.
pub(crate) fn end(child: &mut Child, span: Nanos) -> anyhow::Result<()> {
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    kill_process(Pid::from_child(child), Signal::TERM)?;
    let deadline = clock::now() + span;
    while clock::now() < deadline {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        clock::sleep_until(clock::now() + PAUSE);
    }
    child.kill()?;
    child.wait()?;
    bail!("process {} did not end within {span} of SIGTERM and was killed", child.id())
}

/// Runs a program that ends by itself, and returns its output; `name` and the Debian `package` (if it is not ours) are for errors.
///
/// # Errors
/// It is not installed, or failed.
pub(crate) fn output(command: &mut Command, name: &str, package: &str) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| match package {
        "" => format!("`{name}` cannot be run"),
        package => format!("`{name}` cannot be run (Debian: `apt install {package}`)"),
    })?;
    if !output.status.success() {
        bail!("`{name}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command of `isocast`, and returns its output.
///
/// # Errors
/// It is not there, or failed.
pub(crate) fn isocast(arguments: &[&str]) -> anyhow::Result<String> {
    output(command(&crate::isocast()?).args(arguments), &format!("isocast {}", arguments.join(" ")), "")
}

/// Runs a command line of a tool, without quotation marks, and returns its output.
///
/// # Errors
/// As [`output`].
pub(crate) fn tool(line: &str, package: &str) -> anyhow::Result<String> {
    let mut words = line.split_ascii_whitespace();
    let program = words.next().context("a tool has a name")?;
    output(Command::new(program).args(words), line, package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_tool_is_named_with_its_package() {
        assert_eq!(tool("echo a b", "coreutils").unwrap(), "a b\n");
        let missing = format!("{:#}", tool("no-such-tool-here x", "thepackage").unwrap_err());
        assert!(missing.contains("apt install thepackage"), "{missing}");
        assert!(tool("ls /no/such/folder", "coreutils").unwrap_err().to_string().contains("/no/such/folder"));
    }
}
