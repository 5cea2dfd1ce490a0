//! Passwords as commands take them.
//!
//! Promise: a password is never shown, kept or taken from the command line; the operator may set a shorter one than clients may.
//! Not here: verifying passwords (`service::logins`).

use std::io::{self, BufRead, IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, ensure};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use service::logins::{PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN};

/// From the terminal, twice and unseen; or the first line of standard input, if that is no terminal or `from_input`.
pub(crate) fn password(name: &str, from_input: bool) -> anyhow::Result<String> {
    let password = if !from_input && io::stdin().is_terminal() {
        let first = unseen(&format!("password of {name}: "))?;
        ensure!(unseen("once more: ")? == first, "the two are not the same; nothing was changed");
        first
    } else {
        line()?
    };
    ensure!(!password.is_empty(), "an empty password is none; nothing was changed");
    if password.len() < PASSWORD_BYTES_MIN {
        writeln!(io::stderr(), "warning: a password of fewer than {PASSWORD_BYTES_MIN} bytes is guessed soon")?;
    }
    Ok(password)
}

fn line() -> anyhow::Result<String> {
    read_password(&mut io::stdin().lock())
}

fn read_password(input: &mut dyn BufRead) -> anyhow::Result<String> {
    let mut text = String::new();
    // Beyond the longest: a line's end, or the byte that is too much.
    input.take(u64::try_from(PASSWORD_BYTES_MAX + 2)?).read_line(&mut text).context("cannot read the password")?;
    let password = text.trim_end_matches(['\r', '\n']);
    ensure!(
        password.len() <= PASSWORD_BYTES_MAX,
        "the password is longer than {PASSWORD_BYTES_MAX} bytes; nothing was changed"
    );
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

#[cfg(test)]
mod tests {
    use argon2::{Argon2, PasswordHash, PasswordVerifier};

    use super::*;

    #[test]
    fn a_hash_fits_its_password_and_no_other() {
        let hash = service::logins::hash_password("correct horse");
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
}
