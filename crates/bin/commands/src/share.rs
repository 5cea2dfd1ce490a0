//! `isocast share`: signed links, by which clients without an account read a content or folder, or store into one.
//!
//! Not here: their verification (`service::logins`), their use (the front ends).

use std::io::{self, Write};

use ::accounts::link_objection;
use anyhow::{Context as _, ensure};
use api::LinkEntry;
use clap::{Args, Subcommand};
use ipnet::IpNet;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use service::account_changes::{AccountChange, LinkWish, ListPart};
use service::accounts::{FolderRights, Right, Rights, parse_network};
use service::budgets::BudgetKey;
use service::contents::ContentPath;
use units::{BitRate, ByteCount, Nanos, counted};

use crate::accounts::{StateOfServer, ends_after, shown};
use crate::budget::BudgetOptions;
use crate::user::content_path;

/// Characters that a name in a path must escape.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Print a link by which clients without an account read a content or a folder.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ShareCommand {
    #[command(subcommand)]
    command: Option<ShareSubcommand>,
    #[command(flatten)]
    link: LinkArgs,
}

#[derive(Debug, Args)]
struct LinkArgs {
    /// The content or folder, below `/media/`.
    path: Option<String>,
    /// The time from now until it expires.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = units::parse_duration)]
    expires: Nanos,
    /// The rate of its streams, and the most that they may have.
    #[arg(long, conflicts_with = "upload", value_parser = units::parse_rate)]
    rate: Option<BitRate>,
    /// The number of times that it may be used.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    uses: Option<u64>,
    /// An address or network of the clients that may use it (repeatable).
    #[arg(long, value_name = "ADDR|NET", value_parser = parse_network)]
    from: Vec<IpNet>,
    /// Let clients store new contents in the folder, instead of reading it.
    #[arg(long)]
    upload: bool,
    /// The most that may be stored by it.
    #[arg(long, value_name = "SIZE", requires = "upload", value_parser = units::parse_size)]
    stored: Option<ByteCount>,
    /// Address of the server, as its clients know it.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    state: StateOfServer,
}

#[derive(Debug, Subcommand)]
enum ShareSubcommand {
    /// List the links.
    List {
        #[command(flatten)]
        state: StateOfServer,
    },
    /// Limit a link: streams, rates, requests, bytes stored. The limits given take the place of those that there are.
    Budget {
        /// Its number, as `isocast share list` shows it.
        id: i64,
        #[command(flatten)]
        limits: BudgetOptions,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// Revoke a link.
    Revoke {
        /// Its number, as `isocast share list` shows it.
        id: i64,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// Sign links with another key from now on, and end all that there are.
    Rotate {
        #[command(flatten)]
        state: StateOfServer,
    },
}

impl ShareCommand {
    /// Makes a link or runs the subcommand, and prints to `out`.
    ///
    /// # Errors
    /// The accounts cannot be read or changed.
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match &self.command {
            None => self.link.make(out),
            Some(ShareSubcommand::List { state }) => {
                state.list(out, &state.database()?.links(None, &ListPart::default())?, link_line)
            }
            Some(ShareSubcommand::Budget { id, limits, state }) => limits.set(out, state, BudgetKey::Link(*id)),
            Some(ShareSubcommand::Revoke { id, state }) => {
                state.change(AccountChange::RevokeLink { id: *id, of: None })?;
                state.say(out, &json!({ "id": id }), format_args!("link {id} is revoked"))
            }
            Some(ShareSubcommand::Rotate { state }) => {
                state.change(AccountChange::RotateKeys)?;
                state.say(out, &json!({ "rotated": true }), "all links made so far are ended")
            }
        }
    }
}

fn link_line(link: &LinkEntry) -> String {
    let rate = link.rate_bps.map_or_else(String::new, |rate| format!("; {}", BitRate(rate)));
    let uses = link.uses.map_or_else(String::new, |uses| format!("; used {} of {}", link.used, counted(uses, "time")));
    let stored = link
        .stored_max
        .map_or_else(String::new, |most| format!("; {} of {} stored", ByteCount(link.stored), ByteCount(most)));
    let by = link.by.as_ref().map_or_else(String::new, |by| format!("; by {by}"));
    let end = if link.share.is_some() { "expires" } else { "expired" };
    let (rights, at) = (link.rights.join(","), shown(link.expires));
    format!("{} {}: {rights}; {end} {at}{rate}{uses}{stored}{by}", link.id, link.path)
}

impl LinkArgs {
    fn make(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let text = self.path.as_deref().context("name a content or a folder: `isocast share films/new.mp4`")?;
        let path = content_path(text).map_err(anyhow::Error::msg)?;
        let is_address = self.url.starts_with("http://") || self.url.starts_with("https://");
        ensure!(is_address, "`{}` is no address of a server; write for example `http://media.example:8080`", self.url);
        let rights = Rights::of(&[if self.upload { Right::Write } else { Right::Read }]);
        let given = FolderRights { folder: path.clone(), rights };
        match link_objection(&self.state.folder(), &given) {
            Ok(objection) => ensure!(objection.is_none(), "{}", objection.unwrap_or_default()),
            Err(_) => {
                writeln!(io::stderr(), "no server answers: whether there is a `{}` was not looked at", path.joined())?
            }
        }
        let (id, share) = self.state.make(AccountChange::AddLink(LinkWish {
            given,
            expires: ends_after(self.expires)?,
            rate: self.rate,
            uses: self.uses,
            from: self.from.clone(),
            stored: self.stored.map(|size| size.0),
            by: None,
        }))?;
        let is_folder = self.upload || text.ends_with('/') || path.components().is_empty();
        let url = address(&self.url, &path, is_folder, &share);
        self.state.say(out, &json!({ "id": id, "url": url, "share": share }), &url)
    }
}

/// The address of a shared path.
fn address(server: &str, path: &ContentPath, is_folder: bool, share: &str) -> String {
    let names = path.components().iter().map(|name| format!("/{}", utf8_percent_encode(name, NAME)));
    let slash = if is_folder { "/" } else { "" };
    format!("{}/media{}{slash}?share={share}", server.trim_end_matches('/'), names.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_shared_paths() {
        let path = ContentPath::parse("a b/ü.mp4").expect("a path");
        assert_eq!(address("http://h:1/", &path, false, "1-a"), "http://h:1/media/a%20b/%C3%BC.mp4?share=1-a");
        assert_eq!(address("http://h:1", &ContentPath::root(), true, "1-a"), "http://h:1/media/?share=1-a");
    }
}
