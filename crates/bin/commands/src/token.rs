//! `isocast token`: credentials of users for programs.
//!
//! Promise: the text of a token is shown once, when it is made. Not here: its verification (`service::logins`).

use std::io::Write;

use api::TokenEntry;
use clap::{Args, Subcommand};
use serde_json::json;
use service::account_changes::{AccountChange, ListPart};
use service::accounts::{FolderRights, Rights};
use service::budgets::BudgetKey;
use service::contents::ContentPath;
use units::Nanos;

use crate::accounts::{StateOfServer, ends_after, shown};
use crate::budget::BudgetOptions;
use crate::user::content_path;

/// Make tokens, by which programs log in as a user, within bounds.
#[derive(Debug, Args)]
pub struct TokenCommand {
    #[command(subcommand)]
    command: TokenSubcommand,
}

#[derive(Debug, Subcommand)]
enum TokenSubcommand {
    /// Print a new token, which cannot be shown again.
    Add {
        /// The user that it belongs to.
        user: String,
        /// The rights that it may use, as far as the user has them, separated by commas: read, write, delete, share, admin.
        #[arg(long)]
        rights: Rights,
        /// The folder that it is bound to.
        #[arg(long, default_value = "/", value_parser = content_path)]
        folder: ContentPath,
        /// The time from now until it expires, `7d` for example.
        #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
        expires: Option<Nanos>,
        /// Its purpose, for the list.
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// List the tokens, without their texts.
    List {
        /// Those of this user only.
        user: Option<String>,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// Limit a token: streams, rates, requests, bytes stored. The limits given take the place of those that there are.
    Budget {
        /// Its number, as `isocast token list` shows it.
        id: i64,
        #[command(flatten)]
        limits: BudgetOptions,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// Revoke a token.
    Revoke {
        /// Its number, as `isocast token list` shows it.
        id: i64,
        #[command(flatten)]
        state: StateOfServer,
    },
}

impl TokenCommand {
    /// Runs the subcommand, and prints to `out`.
    ///
    /// # Errors
    /// The accounts cannot be read or changed.
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match &self.command {
            TokenSubcommand::Add { user, rights, folder, expires, label, state } => {
                let (id, token) = state.make(AccountChange::AddToken {
                    account: user.clone(),
                    label: label.clone(),
                    within: FolderRights { folder: folder.clone(), rights: *rights },
                    expires: expires.map(ends_after).transpose()?,
                })?;
                state.say(out, &json!({ "id": id, "token": token }), &token)
            }
            TokenSubcommand::List { user, state } => {
                state.list(out, &state.database()?.tokens(user.as_deref(), &ListPart::default())?, token_line)
            }
            TokenSubcommand::Budget { id, limits, state } => limits.set(out, state, BudgetKey::Token(*id)),
            TokenSubcommand::Revoke { id, state } => {
                state.change(AccountChange::RevokeToken { id: *id, of: None })?;
                state.say(out, &json!({ "id": id }), format_args!("token {id} is revoked"))
            }
        }
    }
}

fn token_line(token: &TokenEntry) -> String {
    let expires = token.expires.map_or_else(|| "never expires".to_owned(), |at| format!("expires {}", shown(at)));
    let used = token.last_used.map_or_else(|| "never used".to_owned(), |at| format!("last used {}", shown(at)));
    let (rights, label) = (token.rights.join(","), &token.label);
    format!("{} {}: {rights} in {}; {expires}; {used} {label}", token.id, token.user, token.folder)
}
