//! `isocast user`: the users that may write, without another program to make hashes.
//!
//! Promise: a password is never shown, kept or taken from the command line; the file is replaced whole, readable by its owner
//! and the group of its folder only. Not here: checking passwords (the control plane).

use std::fs;
use std::io::{self, BufRead, IsTerminal as _, Read as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, SaltString};
use clap::{Args, Subcommand};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use toml::{Table, Value};

/// The part of the configuration that this program writes, beside the file that people write.
const PART: &str = "conf.d/users.toml";
/// No password is longer.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Name the users that may upload and delete.
#[derive(Debug, Args)]
pub struct UserCommand {
    #[command(subcommand)]
    command: UserSubcommand,
}

#[derive(Debug, Subcommand)]
enum UserSubcommand {
    /// Add a user, or change a password, which is asked for (or read from standard input).
    Add {
        /// The user's name.
        #[arg(value_parser = user_name)]
        name: String,
        #[command(flatten)]
        place: UsersFile,
    },
    /// Remove a user that was added.
    Remove {
        /// The user's name.
        name: String,
        #[command(flatten)]
        place: UsersFile,
    },
    /// List the users that were added.
    List {
        #[command(flatten)]
        place: UsersFile,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct UsersFile {
    /// Configuration file of the server; users are kept in `conf.d/users.toml` beside it.
    #[arg(long, value_name = "FILE", default_value = "/etc/isocast/isocast.toml")]
    config: PathBuf,
}

impl UserCommand {
    /// Runs the subcommand, and prints to `out`.
    ///
    /// # Errors
    /// The file cannot be read or written, or there is no password.
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match &self.command {
            UserSubcommand::Add { name, place } => {
                let mut users = place.read()?;
                let hash = hashed(&password(name)?)?;
                users.insert(name.clone(), Value::String(hash));
                place.write(users)?;
                writeln!(out, "{name} may write once the server has read it (`systemctl reload isocast`, or SIGHUP)")?;
            }
            UserSubcommand::Remove { name, place } => {
                let mut users = place.read()?;
                ensure!(users.remove(name).is_some(), "{} has no user {name}", place.part().display());
                place.write(users)?;
                writeln!(
                    out,
                    "{name} may not write once the server has read it (`systemctl reload isocast`, or SIGHUP)"
                )?;
            }
            UserSubcommand::List { place, json } => {
                let users = place.read()?;
                let names: Vec<&String> = users.keys().collect();
                if *json {
                    writeln!(out, "{}", serde_json::to_string(&names)?)?;
                } else {
                    names.iter().try_for_each(|name| writeln!(out, "{name}"))?;
                }
            }
        }
        Ok(())
    }
}

impl UsersFile {
    fn part(&self) -> PathBuf {
        self.config.parent().unwrap_or(Path::new("")).join(PART)
    }

    fn read(&self) -> anyhow::Result<Table> {
        let part = self.part();
        let text = match fs::read_to_string(&part) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", part.display())),
        };
        let mut table: Table = text.parse().with_context(|| format!("{} is no TOML", part.display()))?;
        match table.remove("users") {
            Some(Value::Table(users)) if table.is_empty() => Ok(users),
            None if table.is_empty() => Ok(Table::new()),
            _ => bail!("{} holds more than users: move the rest into a file of its own", part.display()),
        }
    }

    /// Writes the file beside and puts it in its place: a reader meanwhile gets the old file or the new one.
    fn write(&self, users: Table) -> anyhow::Result<()> {
        let part = self.part();
        let folder = part.parent().context("the configuration has no folder")?;
        let text = format!("# Written by `isocast user`.\n{}", Table::from_iter([("users".to_owned(), users.into())]));
        let write = || -> io::Result<()> {
            fs::create_dir_all(folder)?;
            device::state_file::replace_with(&part, 0o640, |file| {
                // The server reads the file as a member of the folder's group. A user without the right to change the
                // group is the server's own anyway.
                let _ = std::os::unix::fs::fchown(&*file, None, Some(fs::metadata(folder)?.gid()));
                file.write_all(text.as_bytes())
            })
        };
        write().with_context(|| format!("cannot write {}", part.display()))
    }
}

fn user_name(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.len() <= 64 && text.chars().all(|c| !c.is_control() && c != ':');
    if plain {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 64 bytes, no colon and no control characters".to_owned())
    }
}

/// From the terminal, twice and unseen; or the first line of standard input.
fn password(name: &str) -> anyhow::Result<String> {
    let password = if io::stdin().is_terminal() {
        let first = unseen(&format!("password of {name}: "))?;
        ensure!(unseen("once more: ")? == first, "the two are not the same; nothing was changed");
        first
    } else {
        line()?
    };
    ensure!(!password.is_empty(), "an empty password is none; nothing was changed");
    Ok(password)
}

fn line() -> anyhow::Result<String> {
    read_password(&mut io::stdin().lock())
}

fn read_password(input: &mut dyn BufRead) -> anyhow::Result<String> {
    let mut text = String::new();
    // Beyond the longest: a line's end, or the byte that is too much.
    input.take(PASSWORD_BYTES_MAX + 2).read_line(&mut text).context("cannot read the password")?;
    let password = text.trim_end_matches(['\r', '\n']);
    let fits = u64::try_from(password.len()).is_ok_and(|bytes| bytes <= PASSWORD_BYTES_MAX);
    ensure!(fits, "the password is longer than {PASSWORD_BYTES_MAX} bytes; nothing was changed");
    Ok(password.to_owned())
}

/// A line that the terminal does not show.
fn unseen(prompt: &str) -> anyhow::Result<String> {
    let terminal = io::stdin();
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let mut screen = io::stderr();
    let asked = write!(screen, "{prompt}").map_err(anyhow::Error::from).and_then(|()| line());
    tcsetattr(&terminal, OptionalActions::Flush, &shown)?;
    writeln!(screen)?;
    asked
}

fn hashed(password: &str) -> anyhow::Result<String> {
    let mut salt = [0; 16];
    rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty())?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| anyhow::anyhow!("{error}"))?;
    let hash =
        Argon2::default().hash_password(password.as_bytes(), &salt).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use argon2::{PasswordHash, PasswordVerifier};

    use super::*;

    #[test]
    fn a_hash_fits_its_password_and_no_other() {
        let hash = hashed("correct horse").expect("hashed");
        let hash = PasswordHash::new(&hash).expect("a PHC string");
        assert!(Argon2::default().verify_password(b"correct horse", &hash).is_ok());
        assert!(Argon2::default().verify_password(b"wrong", &hash).is_err());
    }

    #[test]
    fn a_password_is_taken_whole_or_refused() {
        let read = |length: usize, end: &str| read_password(&mut format!("{}{end}", "p".repeat(length)).as_bytes());
        for end in ["", "\n", "\r\n"] {
            assert_eq!(read(1024, end).expect("the longest").len(), 1024, "{end:?}");
            let error = read(1025, end).expect_err("too long").to_string();
            assert!(error.contains("longer than 1024 bytes"), "{error}");
        }
        assert!(read(1_000_000, "\n").is_err());
    }

    #[test]
    fn users_are_kept_and_others_files_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = UsersFile { config: folder.path().join("isocast.toml") };
        let mut users = place.read().expect("none yet");
        users.insert("a \"b\"".to_owned(), Value::String("$argon2id$x".to_owned()));
        place.write(users.clone()).expect("written");
        assert_eq!(place.read().expect("read"), users);
        assert_eq!(fs::metadata(place.part()).expect("there").mode() & 0o777, 0o640);
        fs::write(place.part(), "listen = \"127.0.0.1:1\"\n[users]\n").expect("written");
        assert!(place.read().is_err(), "what people wrote there is not lost");
    }

    #[test]
    fn a_name_can_be_sent_by_basic_authentication() {
        assert!(user_name("alice").is_ok() && user_name("a:b").is_err() && user_name("").is_err());
    }
}
