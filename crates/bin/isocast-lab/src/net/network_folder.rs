//! Folder of an emulated network: one folder with its control socket, logs, and the commands for its guests.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};

const LINE_BYTES_MAX: u64 = 64 << 10;

/// The folder of one network.
#[derive(Debug, Clone)]
pub(super) struct NetworkFolder {
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

/// Result of a command on a node.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) status: i32,
    pub(super) out: Vec<u8>,
    pub(super) err: Vec<u8>,
}

impl NetworkFolder {
    pub(super) fn of(name: &str) -> anyhow::Result<Self> {
        crate::check_name("network", name)?;
        Ok(Self { name: name.to_owned(), folder: above().join(name) })
    }

    /// All networks that have left something.
    pub(super) fn all() -> Vec<Self> {
        let entries = fs::read_dir(above()).into_iter().flatten().flatten();
        let mut all: Vec<Self> = entries.filter_map(|e| Self::of(&e.file_name().to_string_lossy()).ok()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(super) fn make(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)?;
        // Others may be in it.
        let _ = fs::remove_dir(above());
        Ok(())
    }

    pub(super) fn control(&self) -> PathBuf {
        self.folder.join("control")
    }

    /// Sends the network's daemon one order; its answer may take as long as the work ordered.
    ///
    /// # Errors
    /// It is not up, or refuses.
    pub(super) fn ask(&self, line: &str) -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(self.control())
            .with_context(|| format!("network `{}` is not up; see `isocast lab net list`", self.name))?;
        writeln!(stream, "{line}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("the network's daemon does not answer")?;
        match answer.trim_end().strip_prefix("error: ") {
            Some(why) => bail!("{why}"),
            None if answer.is_empty() => bail!("the network's daemon has ended"),
            None => Ok(answer.trim_end().to_owned()),
        }
    }

    /// Runs a command line on a node and waits for its end.
    ///
    /// # Errors
    /// There is no such network or node.
    pub(super) fn run(&self, node: usize, words: &[String]) -> anyhow::Result<Ran> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = |suffix: &str| self.folder.join(format!("{id}.{suffix}"));
        fs::write(path("sh"), script(words))
            .with_context(|| format!("network `{}` is not up; see `isocast lab net list`", self.name))?;
        let asked = self.ask(&format!("run {node} {id}"));
        let read = |suffix| fs::read(path(suffix)).unwrap_or_default();
        let ran = asked.and_then(|status| Ok(Ran { status: status.parse()?, out: read("out"), err: read("err") }));
        for suffix in ["sh", "out", "err"] {
            // A command that did not begin left no output.
            let _ = fs::remove_file(path(suffix));
        }
        ran
    }
}

/// Shell script with which a node runs a command line as the caller would: in the same folder, unless that is one the node has
/// of its own, and with programs of the caller's `PATH` behind the node's.
fn script(words: &[String]) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let folder = std::env::current_dir().unwrap_or_default();
    let path = std::env::var("PATH").unwrap_or_default();
    let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let (folder, path) = (quoted(&folder.to_string_lossy()), quoted(&path));
    format!("cd {folder} 2>/dev/null\nexport PATH=\"$PATH:\"{path}\nexec {}\n", line.join(" "))
}

/// Reads the one line that a client sends.
pub(super) fn line(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Parent folder of all networks of this user.
fn above() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/isocast-lab-net");
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| Path::new(folder).is_dir());
    let uid = rustix::process::geteuid().as_raw();
    own.map_or_else(|| std::env::temp_dir().join(format!("isocast-lab-net-{uid}")), |own| own.join("isocast-lab-net"))
}
