//! Programs that run during the streams, as monitoring of a server does: SNMP walks, scrapes, `isocast doctor`.
//!
//! Promise: each is begun once a second, or when it has ended if it takes longer; how often it ran and failed is counted; at the end of
//! the run nothing of it is left. Not here: their output.

use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use units::Nanos;

use super::client::{ClientPlan, RunProgress};
use super::{Stop, child, clock};

const PERIOD: Nanos = Nanos::from_secs(1);
const PAUSE: Nanos = Nanos::from_millis(50);

/// Runs and failures of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BesideFigures {
    /// Command line as given to the shell.
    pub command: String,
    /// Runs that ended by themselves.
    pub runs: u64,
    /// Of these, with another status than 0.
    pub failed: u64,
}

/// Runs `command` again and again from the start of `plan` to its end, `{address}` being the server's.
///
/// # Errors
/// There is no shell.
pub(super) fn repeat(
    command: &str,
    plan: &ClientPlan,
    stop: &Stop,
    progress: &RunProgress,
) -> anyhow::Result<BesideFigures> {
    let mut found = BesideFigures { command: command.to_owned(), runs: 0, failed: 0 };
    let words = command.replace("{address}", &plan.terms.address.to_string());
    let is_over = || stop.is_set() || clock::now() >= progress.end(plan);
    let mut next = plan.begin;
    while !is_over() {
        clock::sleep_until(next.min(clock::now() + PAUSE));
        if clock::now() < next {
            continue;
        }
        let mut shell = child::command(Path::new("/bin/sh"));
        shell.args(["-c", &words]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = shell.spawn().with_context(|| format!("running `{command}`"))?;
        let status = loop {
            match running.try_wait()? {
                None if is_over() => break end(&mut running)?,
                None => clock::sleep_until(clock::now() + PAUSE),
                ended => break ended,
            }
        };
        if let Some(status) = status {
            found.runs += 1;
            found.failed += u64::from(!status.success());
        }
        next = (next + PERIOD).max(clock::now());
    }
    Ok(found)
}

/// Ends the command and the processes it started.
fn end(running: &mut Child) -> anyhow::Result<Option<std::process::ExitStatus>> {
    if let Some(group) = i32::try_from(running.id()).ok().and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ = kill_process_group(group, Signal::TERM);
    }
    running.wait()?;
    Ok(None)
}
