//! Budgets in commands: the limits of a user, a group, a token or a link, as options.
//!
//! Not here: holding requests to them (`service::budgets`).

use std::io::Write;

use clap::Args;
use serde_json::json;
use service::account_changes::AccountChange;
use service::budgets::{BudgetKey, BudgetLimits};
use units::{BitRate, ByteCount};

use crate::accounts::StateOfServer;

/// The limits of a budget.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits (those that are not given are unlimited)")]
pub(crate) struct BudgetOptions {
    /// Streams and recordings at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    streams: Option<u64>,
    /// Rate reserved at once.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    reserved: Option<BitRate>,
    /// Rate held without being read; what is beyond it yields to others.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    idle: Option<BitRate>,
    /// Rate of all bytes sent.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    download: Option<BitRate>,
    /// Rate of all bytes received.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    upload: Option<BitRate>,
    /// Requests per second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Bytes stored.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    stored: Option<ByteCount>,
}

impl BudgetOptions {
    fn limits(&self) -> BudgetLimits {
        BudgetLimits {
            streams: self.streams,
            reserved: self.reserved,
            idle: self.idle,
            download: self.download,
            upload: self.upload,
            requests: self.requests,
            stored: self.stored.map(|size| size.0),
        }
    }

    /// Sets the limits of a holder, in place of those that it has.
    ///
    /// # Errors
    /// There is no such holder, or the accounts cannot be changed.
    pub(crate) fn set(&self, out: &mut dyn Write, state: &StateOfServer, of: BudgetKey) -> anyhow::Result<()> {
        let (limits, holder) = (self.limits(), of.to_string());
        state.change(AccountChange::SetBudget { of, limits })?;
        let has = if limits.is_empty() { "no budget of its own any more" } else { "another budget" };
        state.say(out, &json!({ "budget": holder }), format_args!("{holder} has {has}"))
    }
}
