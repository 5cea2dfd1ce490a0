//! `isocast-mount`: the contents of a server as a folder of this machine, for programs that read files. `isocast volume mount` starts it.
//!
//! Promise: every byte is read by the server, through its disks' schedules, as for any client; nothing is written. A server
//! that is gone gives errors, at the latest when it was silent for a minute, never a program that waits for ever.
//! Not here: names and attributes (`tree`), reading an open file (`reader`).

// They panic once their reader has gone, and the mount would stay.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod names;
mod reader;
mod tree;

use std::fmt::Arguments;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Parser;
use client::{Login, Remote};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use units::BitRate;

use tree::MountedTree;

/// Threads that fetch names and attributes; each open file has one more, which reads.
const NAME_THREADS: usize = 4;
/// The longest wait, after the order to end, for programs that still read.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Mount the contents of an Isocast as a folder, for programs that read files. Stays until it is unmounted or gets the order to end.
#[derive(Debug, Parser)]
#[command(name = "isocast-mount", version, about)]
struct MountCommandLine {
    /// Guarantee each file that is read this rate, for example 15Mbit/s.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    rate: Option<BitRate>,
    /// Let other users of this machine read, too.
    #[arg(long)]
    allow_other: bool,
    /// A file that holds `name:password`, for the server.
    #[arg(long, value_name = "FILE")]
    login: Option<PathBuf>,
    /// The address of the folder to mount, `http://HOST:PORT/media/…`.
    #[arg(value_name = "URL")]
    url: String,
    /// The folder at which it is mounted.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    match MountCommandLine::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to standard error, and ignores its errors.
fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "isocast-mount: {line}");
}

impl MountCommandLine {
    fn run(self) -> anyhow::Result<()> {
        let login = self.login.as_deref().map(Login::read).transpose()?;
        let remote = Remote::new(&self.url, login.as_ref())?;
        ensure!(remote.is_folder()?, "{}: the server has no such folder", self.url);
        let mut options = Config::default();
        options.mount_options = vec![
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::DefaultPermissions,
            MountOption::FSName(self.url.clone()),
            MountOption::Subtype("isocast".into()),
        ];
        options.acl = if self.allow_other { SessionACL::All } else { SessionACL::Owner };
        options.n_threads = Some(NAME_THREADS);
        let tree = MountedTree::new(remote, self.rate);
        let (mut signalled, on_signal) = UnixStream::pair()?;
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            pipe::register(signal, on_signal.try_clone()?).context("installing signal handlers")?;
        }
        let folder = self.folder.canonicalize().with_context(|| self.folder.display().to_string())?;
        if let Some(url) = mounted_on(&folder) {
            bail!("{url} is mounted on {} already: unmount it, or name another folder", folder.display());
        }
        let session =
            Session::new(tree, &folder, &options).with_context(|| format!("cannot mount on {}", folder.display()))?;
        let mut out = io::stdout().lock();
        writeln!(out, "{} is mounted on {}", self.url, self.folder.display())?;
        out.flush()?;
        drop(out);
        let (tell, ends) = mpsc::channel();
        let ended = tell.clone();
        thread::Builder::new().name("session".into()).spawn(move || ended.send(Some(session.run())))?;
        thread::Builder::new().name("signals".into()).spawn(move || {
            if signalled.read_exact(&mut [0]).is_ok() {
                let _ = tell.send(detach(&folder).err().map(Err));
            }
        })?;
        match ends.recv().context("a thread of the mount ended")? {
            Some(outcome) => outcome.context("the mount ended"),
            // A program with a file open keeps the session; the end of this program ends that.
            None => ends.recv_timeout(END_TIME_MAX).ok().flatten().unwrap_or(Ok(())).context("the mount ended"),
        }
    }
}

/// The address that a mount of this program already shows on the folder; the last one of several is seen.
fn mounted_on(folder: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let escapes = [("\\", "\\134"), (" ", "\\040"), ("\t", "\\011"), ("\n", "\\012")];
    let shown = escapes.iter().fold(folder.to_str()?.to_owned(), |path, (from, to)| path.replace(from, to));
    let line = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some(&shown))?;
    // After the separator: type, source, options (proc(5)).
    let (kind, source) = line.split_once(" - ")?.1.split_once(' ')?;
    let source = source.split(' ').next().unwrap_or_default();
    // A kernel may leave the subtype out.
    (kind.starts_with("fuse") && source.contains("/media")).then(|| source.to_owned())
}

/// Takes the mount away, also where a file is still open. A user other than root can do that by way of `fusermount3` only.
fn detach(folder: &Path) -> io::Result<()> {
    if rustix::mount::unmount(folder, UnmountFlags::DETACH).is_ok() {
        return Ok(());
    }
    let status = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(folder).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3: {status}"))) }
}
