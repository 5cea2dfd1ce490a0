//! `isocast ls`, `mv`, `rm` and `mkdir`: contents and folders of a server by their addresses.
//!
//! Promise: each change is one step of the server. Not here: copies (`isocast cp`).

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use api::EntryKind;
use clap::Args;
use client::{Login, Remote, RemoteEntry};
use copy::Failures;
use serde_json::json;

/// The account of a command.
#[derive(Debug, Args)]
struct AccountArgs {
    /// A file that holds `name:password` for the server.
    #[arg(long, value_name = "FILE")]
    login: Option<PathBuf>,
}

impl AccountArgs {
    fn remote(&self, url: &str) -> anyhow::Result<Remote> {
        let login = self.login.as_deref().map(Login::read).transpose()?;
        Remote::new(url, login.as_ref())
    }
}

/// List a folder of a server, or one content.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    account: AccountArgs,
    /// Print JSON: an array of entries.
    #[arg(long)]
    json: bool,
    /// The address of the folder or content, `http://HOST:PORT/media/…`.
    #[arg(value_name = "URL")]
    url: String,
}

impl ListArgs {
    /// Lists to `out`.
    ///
    /// # Errors
    /// There is nothing of this name; the server's own.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let remote = self.account.remote(&self.url)?;
        let entries = match remote.find("")? {
            Some(RemoteEntry::Folder(_)) => remote.entries("")?,
            Some(RemoteEntry::Content(content)) => {
                let name = client::decoded(self.url.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
                let line = format!("{:>14}  {name}", content.bytes);
                return match self.json {
                    true => Ok(writeln!(out, "{}", json!([{ "name": name, "kind": "file", "size": content.bytes }]))?),
                    false => Ok(writeln!(out, "{line}")?),
                };
            }
            None => bail!("{}: there is nothing of this name", self.url),
        };
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string(&entries)?)?);
        }
        for entry in entries {
            let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
            writeln!(out, "{:>14}  {}  {}{slash}", entry.size, entry.modified, entry.name)?;
        }
        Ok(())
    }
}

/// Give a content or folder of a server another name.
///
/// Into a folder that is there, it goes by its own name.
#[derive(Debug, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    account: AccountArgs,
    /// Replace the content that has the name.
    #[arg(long)]
    replace: bool,
    /// Print JSON: the address before and after.
    #[arg(long)]
    json: bool,
    /// Its address, `http://HOST:PORT/media/…`.
    #[arg(value_name = "URL")]
    from: String,
    /// The address that it gets, on the same server.
    #[arg(value_name = "TO")]
    to: String,
}

impl MoveArgs {
    /// Renames it.
    ///
    /// # Errors
    /// The server's own.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (from, mut to) = (self.account.remote(&self.from)?, self.account.remote(&self.to)?);
        if to.is_folder()? {
            let name = self.from.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            to = to.below(&client::decoded(name));
        }
        from.rename(&to, self.replace).with_context(|| format!("{} to {}: not moved", from.at(""), to.at("")))?;
        if self.json {
            writeln!(out, "{}", json!({ "from": from.at(""), "to": to.at("") }))?;
        }
        Ok(())
    }
}

/// Remove contents of a server, and with `-r` folders with all in them.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    account: AccountArgs,
    /// Remove folders with all in them, too.
    #[arg(short, long)]
    recursive: bool,
    /// Print JSON: the addresses removed.
    #[arg(long)]
    json: bool,
    /// The addresses, `http://HOST:PORT/media/…`.
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
}

impl RemoveArgs {
    /// Removes them, one after the other. A failure keeps no other from its removal.
    ///
    /// # Errors
    /// The server's own; a folder without `-r`.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (removed, failures) = each(&self.urls, |url| {
            let remote = self.account.remote(url)?;
            let is_folder = remote.is_folder()?;
            ensure!(!is_folder || self.recursive, "it is a folder: `-r` removes it with all in it");
            remote.remove_item()
        });
        if self.json {
            writeln!(out, "{}", json!({ "removed": removed }))?;
        }
        failures.judge("not removed")
    }
}

/// Make an empty folder on a server.
#[derive(Debug, Args)]
pub struct MakeFolderArgs {
    #[command(flatten)]
    account: AccountArgs,
    /// Make the folders above it, too, and be content with a folder that is there.
    #[arg(short, long)]
    parents: bool,
    /// Print JSON: the addresses made.
    #[arg(long)]
    json: bool,
    /// The addresses, `http://HOST:PORT/media/…`.
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
}

impl MakeFolderArgs {
    /// Makes them, one after the other. A failure stops no other.
    ///
    /// # Errors
    /// The server's own.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (made, failures) = each(&self.urls, |url| {
            let remote = self.account.remote(url)?;
            if self.parents { remote.make_folders() } else { remote.make_folder() }
        });
        if self.json {
            writeln!(out, "{}", json!({ "made": made }))?;
        }
        failures.judge("not made")
    }
}

/// Changes the item of each address. The addresses of those that were changed, and the failures of the others.
fn each(urls: &[String], change: impl Fn(&str) -> anyhow::Result<()>) -> (Vec<&String>, Failures) {
    let mut failures = Failures::default();
    let mut changed = Vec::new();
    for url in urls {
        match change(url) {
            Ok(()) => changed.push(url),
            Err(error) => failures.add(format_args!("{url}: {error:#}")),
        }
    }
    (changed, failures)
}
