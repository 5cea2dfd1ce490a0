//! A place that the program `rclone` knows: S3, WebDAV and many others, as one end of a copy.
//!
//! Promise: `rclone` is given bytes (`rcat`), so that reading them stays this program's, at its rate; it is ended before its input is
//! when a copy breaks off, so that nothing cut off gets a name. Not here: rclone's remotes, which its own configuration has.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use client::FileVersion;
use program::process;
use serde::Deserialize;

use super::pacing::PacedReader;
use super::{READ_BYTES, fill};

/// The most bytes of its output that are kept.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024;
/// The exit code for a folder of a remote that does not exist yet.
const NO_FOLDER: i32 = 3;

/// `REMOTE:PATH`, and the files there at the beginning.
pub struct Rclone {
    remote: String,
    lengths: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct RcloneEntry {
    #[serde(rename = "Path")]
    path: String,
    #[serde(rename = "Size")]
    size: i64,
}

impl Rclone {
    /// Lists the files that are there.
    ///
    /// # Errors
    /// `rclone` is not installed, or says no.
    pub fn new(remote: &str) -> anyhow::Result<Self> {
        let output = command(&["lsjson", "--recursive", "--files-only", "--no-mimetype", "--no-modtime", remote])
            .stdin(Stdio::null())
            .output()
            .context("rclone cannot be run: install it (`apt-get install rclone`)")?;
        if output.status.code() == Some(NO_FOLDER) {
            return Ok(Self { remote: remote.to_owned(), lengths: BTreeMap::new() });
        }
        if !output.status.success() {
            bail!("rclone cannot list {remote}: {}", last_line(&output.stderr));
        }
        let listed: Vec<RcloneEntry> = serde_json::from_slice(&output.stdout).context("reading rclone's list")?;
        let lengths = listed.into_iter().filter_map(|file| Some((file.path, u64::try_from(file.size).ok()?))).collect();
        Ok(Self { remote: remote.to_owned(), lengths })
    }

    /// The reason that a copy to `remote` (`REMOTE:PATH`) would fail now: this user has no such remote, or no `rclone`.
    pub fn unknown_remote(remote: &str) -> Option<String> {
        let (name, _) = remote.split_once(':')?;
        match command(&["listremotes"]).stdin(Stdio::null()).output() {
            Err(_) => Some("rclone cannot be run: install it (`apt-get install rclone`)".to_owned()),
            Ok(listed) => {
                let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
                let is_known =
                    listed.lines().any(|known| known.trim_end_matches(':') == name.split(',').next().unwrap_or(name));
                (!is_known).then(|| format!("rclone has no remote `{name}` for this user (`rclone config`)"))
            }
        }
    }

    /// The file of this name, without the time when it was written.
    pub(super) fn find_version(&self, name: &str) -> Option<FileVersion> {
        let bytes = self.lengths.get(name).copied()?;
        Some(FileVersion { tag: String::new(), bytes, modified: None })
    }

    pub(super) fn put(&self, name: &str, bytes: u64, reader: &mut PacedReader<'_>) -> anyhow::Result<()> {
        let slash = if self.remote.ends_with([':', '/']) || name.is_empty() { "" } else { "/" };
        let to = format!("{}{slash}{name}", self.remote);
        let mut child = command(&["rcat", "--size", &bytes.to_string(), &to])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("rclone cannot be run")?;
        let fed = feed(&mut child, bytes, reader);
        if fed.is_err() {
            let _ = child.kill();
        }
        drop(child.stdin.take());
        let mut said = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            stderr.take(OUTPUT_BYTES_MAX).read_to_end(&mut said)?;
        }
        let status = child.wait()?;
        match fed {
            // It ended before all was there: its output gives the reason.
            Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(is_broken_pipe) => {
                bail!("rclone cannot write {to}: {}", last_line(&said))
            }
            Err(error) => Err(error),
            Ok(()) if status.success() => Ok(()),
            Ok(()) => bail!("rclone cannot write {to}: {}", last_line(&said)),
        }
    }
}

impl fmt::Display for Rclone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rclone:{}", self.remote)
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("rclone");
    // No user can answer: failures are reported soon.
    command.args(["--ask-password=false", "--retries=1", "--low-level-retries=3", "--timeout=60s", "--contimeout=10s"]);
    command.args(arguments);
    command
}

fn feed(child: &mut Child, bytes: u64, reader: &mut PacedReader<'_>) -> anyhow::Result<()> {
    let mut stdin = child.stdin.take().context("a pipe to rclone")?;
    let mut buffer = vec![0; READ_BYTES];
    let mut fed = 0;
    let outcome = loop {
        let count = match fill(reader, &mut buffer) {
            Ok(count) => count,
            Err(error) => break Err(error.into()),
        };
        if let Err(error) = stdin.write_all(&buffer[..count]) {
            break Err(error.into());
        }
        fed += count as u64;
        if count < buffer.len() {
            break if fed == bytes { Ok(()) } else { Err(anyhow::anyhow!("{fed} bytes came, {bytes} were announced")) };
        }
    };
    // Closed by the caller: where it is closed early, the bytes received so far would get its name.
    child.stdin = Some(stdin);
    outcome
}

fn is_broken_pipe(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

/// The last thing it said.
fn last_line(said: &[u8]) -> String {
    process::last_line(said).unwrap_or_else(|| "it does not say why".to_owned())
}
