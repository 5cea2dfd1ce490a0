//! `isocast doctor`: the facts of a machine that decide whether streams hold: network, disks, file systems, permissions, the server.
//!
//! Promise: only reads; every finding names the fact, why it matters with a figure, and the command that mends it. Facts that the kernel
//! does not show are passed over; a missing program is named with the facts that it would show. Not here: the sources of the facts
//! (`host`).

mod disks;
mod folders;
mod host;
mod network;
mod process;
mod running;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use api::AlarmSeverity;
use clap::Args;
use client::{Login, ServerApi, USUAL_SERVER};
use serde::Serialize;
use units::counted;

use host::Examined;
use running::ServerLook;

/// Time for which the disks' work is counted.
const MEASURED_SPAN: Duration = Duration::from_secs(1);

/// Check the machine and its server for faults that make streams late, and say how to mend each.
///
/// Exits with 1 if something serious was found.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Folders that are served or are to be; without any, those of the server, or else all disks are looked at.
    #[arg(value_name = "ROOT")]
    roots: Vec<PathBuf>,
    /// The server that reports its own figures [default: http://127.0.0.1:8080, if one answers there].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A file that holds `name:password` or a token, where reading the server's figures needs a login.
    #[arg(long, visible_alias = "token", value_name = "FILE")]
    login: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A fault, and its remedy.
#[derive(Debug, Serialize)]
struct Finding {
    severity: AlarmSeverity,
    /// Name of the check; `about` names the interface, disk or folder.
    check: &'static str,
    about: String,
    seen: String,
    why: String,
    mend: String,
}

/// Findings so far.
#[derive(Debug, Default)]
struct FindingList(Vec<Finding>);

/// A finding that gets its reason and its remedy, and is on the list then.
#[must_use]
struct NewFinding<'a>(&'a mut FindingList, Finding);

impl FindingList {
    /// Begins a finding with its fact.
    fn add(
        &mut self,
        severity: AlarmSeverity,
        check: &'static str,
        about: &str,
        seen: impl Into<String>,
    ) -> NewFinding<'_> {
        let (about, seen) = (about.to_owned(), seen.into());
        NewFinding(self, Finding { severity, check, about, seen, why: String::new(), mend: String::new() })
    }

    fn serious(&mut self, check: &'static str, about: &str, seen: impl Into<String>) -> NewFinding<'_> {
        self.add(AlarmSeverity::Serious, check, about, seen)
    }

    fn advice(&mut self, check: &'static str, about: &str, seen: impl Into<String>) -> NewFinding<'_> {
        self.add(AlarmSeverity::Advice, check, about, seen)
    }

    /// Facts that are not to be had, and how to have them.
    fn not_looked_at(&mut self, about: &str, reason: &str, mend: &str) {
        self.advice("not-looked-at", about, reason)
            .why("whether something is wrong there is not known: 0 findings of it mean nothing")
            .mend(mend);
    }
}

impl NewFinding<'_> {
    fn why(mut self, why: impl Into<String>) -> Self {
        self.1.why = why.into();
        self
    }

    fn mend(mut self, mend: impl Into<String>) {
        self.1.mend = mend.into();
        self.0.0.push(self.1);
    }
}

/// All that is found on this machine.
fn examine(host: &Examined, roots: &[PathBuf], server: Option<&ServerLook>, port: Option<u16>) -> Vec<Finding> {
    let mut list = FindingList::default();
    network::examine(&mut list, host);
    disks::examine(&mut list, host, roots);
    roots.iter().for_each(|root| folders::examine(&mut list, host, root));
    process::examine(&mut list, host, port);
    server.into_iter().for_each(|server| running::examine(&mut list, server));
    list.0.sort_by_key(|one| one.severity);
    list.0
}

impl DoctorArgs {
    /// Examines the machine, and prints the findings to `out`.
    ///
    /// # Errors
    /// Something serious was found, a folder is not there, or the server that was named does not answer.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut roots = Vec::with_capacity(self.roots.len());
        for root in &self.roots {
            roots.push(root.canonicalize().with_context(|| root.display().to_string())?);
        }
        let host = Examined::this();
        let url = self.url.as_deref().unwrap_or(USUAL_SERVER);
        let login = self.login.as_deref().map(Login::read).transpose()?;
        let server = match ServerLook::take(&host, &ServerApi::new(url, login), MEASURED_SPAN) {
            Err(_) if self.url.is_none() => None,
            look => Some(look?),
        };
        let port = local_port(url).filter(|_| server.is_some());
        if let (Some(_), Some(look), true) = (port, &server, roots.is_empty()) {
            let folders = look.disks.iter().flat_map(|disk| &disk.folders).map(PathBuf::from);
            roots.extend(folders.filter(|folder| folder.is_dir()));
        }
        let found = examine(&host, &roots, server.as_ref(), port);
        let text =
            if self.json { serde_json::to_string_pretty(&found)? + "\n" } else { shown(&found, server.is_some()) };
        out.write_all(text.as_bytes())?;
        out.flush()?;
        let count = found.iter().filter(|one| one.severity == AlarmSeverity::Serious).count();
        anyhow::ensure!(count == 0, "{}", counted(count, "serious finding"));
        Ok(())
    }
}

/// The port of an address of this machine; none for another machine.
fn local_port(url: &str) -> Option<u16> {
    let (host, port) = url.split_once("://")?.1.split('/').next()?.rsplit_once(':')?;
    matches!(host, "localhost" | "[::1]").then_some(()).or_else(|| host.starts_with("127.").then_some(()))?;
    port.parse().ok()
}

fn shown(found: &[Finding], server: bool) -> String {
    let mut text = String::new();
    for one in found {
        let severity = if one.severity == AlarmSeverity::Serious { "SERIOUS" } else { "advice " };
        text.push_str(&format!(
            "{severity}  {} ({}): {}\n         why:  {}\n         mend: {}\n",
            one.about, one.check, one.seen, one.why, one.mend
        ));
    }
    if found.is_empty() {
        text.push_str("nothing found\n");
    }
    if !server {
        text.push_str("no server answers: its own figures were not checked (`--url` names it)\n");
    }
    text
}

#[cfg(test)]
mod tests;
