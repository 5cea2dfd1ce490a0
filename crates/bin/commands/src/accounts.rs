//! Access of commands to the accounts in a server's state folder, whether the server runs or not.
//!
//! Promise: a change is in force on a running server when the command ends. Not here: the database (the crate `accounts`).

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use ::accounts::{ChangeAuthor, Database, announce};
use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use service::account_changes::{AccountChange, Changed};
use units::Nanos;

/// Arguments of commands on accounts.
#[derive(Debug, Args)]
pub(crate) struct StateOfServer {
    /// State folder of the server
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl StateOfServer {
    pub(crate) fn folder(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(program::state_of_service)
    }

    pub(crate) fn database(&self) -> anyhow::Result<Database> {
        Ok(Database::open(&self.folder())?)
    }

    /// Makes a change, and waits until it is in force.
    pub(crate) fn change(&self, change: AccountChange) -> anyhow::Result<Changed> {
        let mut results = self.database()?.apply(std::slice::from_ref(&change), ChangeAuthor::Operator, now())?;
        let changed = results.pop().context("a change has a result")??;
        announce(&self.folder(), Some(&change));
        Ok(changed)
    }

    /// Prints the result as JSON, or as a line.
    pub(crate) fn say(&self, out: &mut dyn Write, json: &Value, line: impl Display) -> anyhow::Result<()> {
        match self.json {
            true => writeln!(out, "{json}")?,
            false => writeln!(out, "{line}")?,
        }
        Ok(())
    }

    /// Prints a list as JSON, or each entry as text.
    pub(crate) fn list<T: Serialize>(
        &self,
        out: &mut dyn Write,
        entries: &[T],
        text: impl Fn(&T) -> String,
    ) -> anyhow::Result<()> {
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string(entries)?)?,
            false => entries.iter().try_for_each(|entry| writeln!(out, "{}", text(entry)))?,
        }
        Ok(())
    }

    /// Makes a change that returns a new credential.
    pub(crate) fn make(&self, change: AccountChange) -> anyhow::Result<(i64, String)> {
        match self.change(change)? {
            Changed::New { id, text } => Ok((id, text)),
            Changed::Done => anyhow::bail!("the change has no new credential"),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time after a span from now, seconds since 1970.
pub(crate) fn ends_after(span: Nanos) -> anyhow::Result<u64> {
    let seconds = span.0.div_ceil(1_000_000_000);
    ensure!(seconds > 0, "a credential that expires at once is of no use");
    Ok(now().saturating_add(seconds))
}

/// Text of a time.
pub(crate) fn shown(time: u64) -> String {
    // Formatting panics beyond the year 9999.
    httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_secs(time.min(253_402_300_799)))
}
