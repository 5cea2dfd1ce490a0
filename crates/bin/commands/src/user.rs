//! `isocast user`: accounts, groups, and their rights over folders.
//!
//! Not here: passwords (`password`), tokens (`token`), links (`share`).

use std::fmt::Display;
use std::io::Write;

use api::{AccountEntry, GrantEntry, GroupEntry};
use clap::{Args, Subcommand};
use serde_json::json;
use service::account_changes::{AccountChange, Grantee, ListPart};
use service::accounts::{FolderRights, Rights};
use service::administration::{WishError, checked_name};
use service::budgets::BudgetKey;
use service::contents::ContentPath;
use service::logins::hash_password;

use crate::accounts::StateOfServer;
use crate::budget::BudgetOptions;
use crate::password::password;

/// Before the name of a group, where an account could stand as well.
const GROUP: &str = "group:";

/// Name the users of a server, and their rights over folders.
#[derive(Debug, Args)]
pub struct UserCommand {
    #[command(subcommand)]
    command: UserSubcommand,
}

#[derive(Debug, Subcommand)]
enum UserSubcommand {
    /// Add a user, with a password that is asked for (or read from standard input), and without rights of its own.
    Add {
        /// The user's name.
        #[arg(value_parser = name)]
        name: String,
        /// Give all rights over everything.
        #[arg(long)]
        admin: bool,
        #[command(flatten)]
        password: PasswordSource,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// List the users with their rights.
    List(StateOfServer),
    /// Set another password.
    Passwd {
        /// The user's name.
        name: String,
        #[command(flatten)]
        password: PasswordSource,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// Remove a user, with its tokens and the links that it made.
    Remove {
        /// The user's name.
        name: String,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// Give a user or a group rights over a folder and everything below it.
    Grant(RightsArgs),
    /// Take rights over a folder back.
    Revoke(RightsArgs),
    /// Put a user into a group.
    Join(MemberArgs),
    /// Take a user out of a group.
    Leave(MemberArgs),
    /// Limit a user or a group: streams, rates, requests, bytes stored. The limits given take the place of those that there are.
    Budget {
        /// The user's name, or `group:NAME`.
        #[arg(value_parser = grantee)]
        name: Grantee,
        #[command(flatten)]
        limits: BudgetOptions,
        #[command(flatten)]
        state: StateOfServer,
    },
    /// List the groups with their members and rights.
    Groups(StateOfServer),
}

#[derive(Debug, Args)]
struct PasswordSource {
    /// Read the password from standard input, also where that is a terminal.
    #[arg(long)]
    password_stdin: bool,
}

#[derive(Debug, Args)]
struct RightsArgs {
    /// The user's name, or `group:NAME`.
    #[arg(value_parser = grantee)]
    name: Grantee,
    /// The rights, separated by commas: read, write, delete, share, admin.
    rights: Rights,
    /// The folder, below `/media/`.
    #[arg(default_value = "/", value_parser = content_path)]
    folder: ContentPath,
    #[command(flatten)]
    state: StateOfServer,
}

#[derive(Debug, Args)]
struct MemberArgs {
    /// The user's name.
    name: String,
    /// The group's name.
    #[arg(value_parser = name)]
    group: String,
    #[command(flatten)]
    state: StateOfServer,
}

impl UserCommand {
    /// Runs the subcommand, and prints to `out`.
    ///
    /// # Errors
    /// The accounts cannot be read or changed, or there is no password.
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match &self.command {
            UserSubcommand::Add { name, admin, password: source, state } => {
                let rights = if *admin { Rights::ALL } else { Rights::default() };
                let password_hash = hash_password(&password(name, source.password_stdin)?);
                state.change(AccountChange::AddAccount { name: name.clone(), password_hash, rights })?;
                let next = match admin {
                    true => format!("{name} has all rights"),
                    false => format!(
                        "{name} has no rights of its own: `isocast user grant {name} read,write FOLDER` gives some"
                    ),
                };
                say(out, state, name, next)
            }
            UserSubcommand::Passwd { name, password: source, state } => {
                let password_hash = hash_password(&password(name, source.password_stdin)?);
                state.change(AccountChange::SetPassword { name: name.clone(), password_hash })?;
                say(out, state, name, format_args!("{name} has another password"))
            }
            UserSubcommand::Remove { name, state } => {
                state.change(AccountChange::RemoveAccount { name: name.clone() })?;
                say(out, state, name, format_args!("{name} is no user any more"))
            }
            UserSubcommand::Grant(args) => {
                let (to, given) = args.parts();
                args.state.change(AccountChange::Grant { to, given })?;
                args.say(out, "may now")
            }
            UserSubcommand::Revoke(args) => {
                let (of, taken) = args.parts();
                args.state.change(AccountChange::Revoke { of, taken })?;
                args.say(out, "may no longer")
            }
            UserSubcommand::Join(args) => args.change(out, true),
            UserSubcommand::Leave(args) => args.change(out, false),
            UserSubcommand::Budget { name, limits, state } => {
                let of = match name {
                    Grantee::Account(name) => BudgetKey::Account(name.as_str().into()),
                    Grantee::Group(name) => BudgetKey::Group(name.as_str().into()),
                };
                limits.set(out, state, of)
            }
            UserSubcommand::List(state) => {
                state.list(out, &state.database()?.accounts(&ListPart::default())?, account_lines)
            }
            UserSubcommand::Groups(state) => {
                state.list(out, &state.database()?.groups(&ListPart::default())?, |group: &GroupEntry| {
                    lines(format!("{}: {}", group.name, group.members.join(", ")), &group.rights)
                })
            }
        }
    }
}

/// Prints a line about a user that changed.
fn say(out: &mut dyn Write, state: &StateOfServer, name: &str, line: impl Display) -> anyhow::Result<()> {
    state.say(out, &json!({ "name": name }), line)
}

impl RightsArgs {
    fn parts(&self) -> (Grantee, FolderRights) {
        (self.name.clone(), FolderRights { folder: self.folder.clone(), rights: self.rights })
    }

    fn say(&self, out: &mut dyn Write, may: &str) -> anyhow::Result<()> {
        let name = match &self.name {
            Grantee::Account(name) => name.clone(),
            Grantee::Group(name) => format!("{GROUP}{name}"),
        };
        let line = format!("{name} {may}: {} in {} and below", self.rights, self.folder);
        say(out, &self.state, &name, line)
    }
}

impl MemberArgs {
    fn change(&self, out: &mut dyn Write, joins: bool) -> anyhow::Result<()> {
        let (name, group) = (self.name.clone(), self.group.clone());
        let line = format!("{name} is {} the group {group}", if joins { "in" } else { "no longer in" });
        self.state.change(AccountChange::Membership { name, group, joins })?;
        say(out, &self.state, &self.name, line)
    }
}

fn account_lines(account: &AccountEntry) -> String {
    let groups = account.groups.join(", ");
    let groups = if groups.is_empty() { groups } else { format!(" (groups: {groups})") };
    lines(format!("{}{groups}", account.name), &account.rights)
}

/// A holder of rights, and a line for each folder that it has some over.
fn lines(holder: String, rights: &[GrantEntry]) -> String {
    let line = |grant: &GrantEntry| format!("\n    {}: {}", grant.folder, grant.rights.join(","));
    holder + &rights.iter().map(line).collect::<String>()
}

fn name(text: &str) -> Result<String, WishError> {
    checked_name(text).map(str::to_owned)
}

fn grantee(text: &str) -> Result<Grantee, WishError> {
    match text.strip_prefix(GROUP) {
        Some(group) => name(group).map(Grantee::Group),
        None => Ok(Grantee::Account(text.to_owned())),
    }
}

/// A path of contents, as `/media/` has it; that may stand before it.
pub(crate) fn content_path(text: &str) -> Result<ContentPath, String> {
    let below = if text == "/media" { "/" } else { text };
    let below = below.strip_prefix("/media/").unwrap_or(below);
    ContentPath::parse(below).map_err(|error| format!("{error}; write for example `films/new`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_sent_by_basic_authentication() {
        assert!(name("alice").is_ok() && name("a:b").is_err() && name("").is_err());
        assert_eq!(grantee("group:cut"), Ok(Grantee::Group("cut".to_owned())));
        assert_eq!(grantee("cut"), Ok(Grantee::Account("cut".to_owned())));
        assert!(grantee("group:").is_err());
    }

    #[test]
    fn folders_are_those_below_media() {
        for (text, path) in [
            ("a/b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("/media/a", "/a"),
            ("/media", "/"),
            ("/", "/"),
            ("media/a", "/media/a"),
        ] {
            assert_eq!(content_path(text).map(|path| path.to_string()), Ok(path.to_owned()), "{text}");
        }
        assert!(content_path("a/../b").is_err() && content_path("a//b").is_err());
    }
}
