//! `isocast cp`: copies or reads files at a given rate, between folders and Isocast servers.
//!
//! Promise: the rate is kept as the server keeps it (`schedule::pace`); local files are read and written past the page cache
//! where their file system can do that; a copy gets its name when it is whole and durable. Bytes read from a server or sent to
//! a server pass that server's schedule, at a rate that it admitted. A file that cannot be copied is skipped and named at the
//! end. Not here: reading and writing at either end (`local`, the crate `client`).

mod command;
mod failures;
mod local;
pub mod machine;
mod pacing;
pub mod pattern;
mod rclone;
mod report;
mod served;
mod shared;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use client::{FileVersion, Login, NoAnswer, REOPEN_PAUSES, RateRefusal, Remote, SourceFile, SourceReader, Tree};
use units::BitRate;

pub use command::CopyArgs;
use command::Item;
pub use failures::Failures;
use local::Folder;
pub use pacing::MoveProgress;
use pacing::{PacedReader, Pacing};
pub use rclone::Rclone;
pub use report::{PASSED_OVER, Summary};
pub use served::OwnFolder;
use shared::{LocalServer, SharedFolder};

/// Bytes of one read, at either end.
const READ_BYTES: usize = 1 << 20;

/// One end of a copy.
pub enum Endpoint {
    /// A file or folder of this machine.
    Here(Folder),
    /// A file or folder of this machine that a running server serves.
    Shared(SharedFolder),
    /// A content or folder of an Isocast server.
    There(Remote),
    /// The contents of the server in this process; reads go through its schedule, too.
    Served(OwnFolder),
    /// A target of `rclone`; only written.
    Rclone(Rclone),
}

impl Endpoint {
    fn new(text: &str, login: Option<&Login>, server: Option<&LocalServer>, is_written: bool) -> anyhow::Result<Self> {
        if let Some((scheme, _)) = text.split_once("://") {
            anyhow::ensure!(matches!(scheme, "http" | "https"), "{text}: only http:// and https:// are understood");
            return Ok(Self::There(Remote::new(text, login)?));
        }
        let folder = Folder::new(text);
        let shared = server.map(|server| server.through(&folder, is_written)).transpose()?.flatten();
        Ok(shared.map_or(Self::Here(folder), Self::Shared))
    }

    /// The folder on this machine, if the end is one.
    fn here(&self) -> Option<&Folder> {
        match self {
            Self::Here(folder) | Self::Shared(SharedFolder { folder, .. }) => Some(folder),
            _ => None,
        }
    }

    /// The files at this end, or the one file that it is.
    ///
    /// # Errors
    /// There is no file, or the end cannot be read.
    pub fn files(&self) -> anyhow::Result<Tree> {
        match self {
            Self::Here(folder) | Self::Shared(SharedFolder { folder, .. }) => folder.files(),
            Self::There(remote) => remote.files(),
            Self::Served(own) => own.files(),
            Self::Rclone(rclone) => bail!("{rclone} is only written to"),
        }
    }

    /// Name of a file at this end, for messages.
    fn shown(&self, name: &Path) -> String {
        match self {
            Self::Here(folder) | Self::Shared(SharedFolder { folder, .. }) => folder.shown(name),
            Self::There(remote) => remote.at(&name.to_string_lossy()),
            Self::Served(served) => served.shown(&name.to_string_lossy()),
            Self::Rclone(rclone) => format!("{rclone}/{}", name.display()),
        }
    }

    /// The version that a file has now.
    fn version(&self, name: &Path) -> anyhow::Result<FileVersion> {
        match self {
            Self::Here(folder) | Self::Shared(SharedFolder { folder, .. }) => folder.version(name),
            Self::There(remote) => remote.version(utf8(name)?),
            Self::Served(own) => own.version(utf8(name)?),
            Self::Rclone(rclone) => bail!("{rclone} is only written to"),
        }
    }

    /// Opens a file for reading from byte `from`. A server sends it at `rate`; after a broken connection, reading continues at
    /// the next byte.
    fn open(&self, name: &Path, from: u64, rate: Option<BitRate>) -> anyhow::Result<SourceReader> {
        match self {
            Self::Here(folder) => folder.open(name, from),
            Self::Shared(shared) => shared.open(name, from, rate),
            Self::There(remote) => remote.open_resumed(utf8(name)?, from, rate),
            Self::Served(own) => own.open(utf8(name)?, from, rate),
            Self::Rclone(rclone) => bail!("{rclone} is only written to"),
        }
    }

    /// The version of the file of this name at the destination, if it exists.
    fn stored(&self, name: &Path) -> anyhow::Result<Option<FileVersion>> {
        match self {
            Self::Here(folder) => folder.find_version(name),
            Self::Shared(SharedFolder { remote, .. }) | Self::There(remote) => remote.find_version(utf8(name)?),
            Self::Served(own) => own.find_version(utf8(name)?),
            Self::Rclone(rclone) => Ok(rclone.find_version(utf8(name)?)),
        }
    }

    /// True if this end lies in the other, or is the same.
    fn is_within(&self, other: &Self) -> bool {
        let at_server = |end: &Self| match end {
            Self::There(remote) | Self::Shared(SharedFolder { remote, .. }) => Some(remote.clone()),
            _ => None,
        };
        let is_below = |(this, other): (Remote, Remote)| this.is_within(&other);
        let here = self.here().zip(other.here()).is_some_and(|(this, other)| this.is_within(other));
        here || at_server(self).zip(at_server(other)).is_some_and(is_below)
    }

    fn is_folder(&self) -> anyhow::Result<bool> {
        match self {
            Self::Here(folder) | Self::Shared(SharedFolder { folder, .. }) => Ok(folder.is_folder()),
            Self::There(remote) => remote.is_folder(),
            Self::Served(own) => own.is_folder(),
            Self::Rclone(_) => Ok(true),
        }
    }

    /// Fails for a name that this end cannot store.
    fn check_name(&self, name: &Path) -> anyhow::Result<()> {
        if matches!(self, Self::Here(_)) { Ok(()) } else { utf8(name).map(drop) }
    }

    /// True if this end is a server that hides files of this name.
    fn hides(&self, name: &Path) -> bool {
        let is_hidden = || name.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
        !matches!(self, Self::Here(_) | Self::Rclone(_)) && is_hidden()
    }

    /// Removes a file or an empty folder; true if it is removed.
    fn remove(&self, (name, is_folder): &Item) -> anyhow::Result<bool> {
        match self {
            Self::Here(folder) => folder.remove(name),
            Self::Shared(SharedFolder { remote, .. }) | Self::There(remote) if *is_folder => {
                remote.remove_empty_folder(utf8(name)?)
            }
            Self::Shared(SharedFolder { remote, .. }) | Self::There(remote) => {
                remote.remove(utf8(name)?).map(|()| true)
            }
            Self::Served(_) | Self::Rclone(_) => bail!("nothing is removed there"),
        }
    }

    /// The permissions of a file or folder of this machine.
    fn mode(&self, name: &Path) -> Option<u32> {
        self.here()?.mode(name)
    }

    /// Makes a folder unless it exists, with `mode` if given.
    fn make_folder(&self, name: &Path, mode: Option<u32>) -> anyhow::Result<()> {
        match self {
            Self::Here(folder) => folder.make_folder(name, mode),
            Self::Shared(SharedFolder { remote, .. }) | Self::There(remote) => remote.below(utf8(name)?).make_folders(),
            Self::Served(own) => own.make_folders(utf8(name)?),
            Self::Rclone(_) => Ok(()),
        }
    }

    /// Begins a copy of a file, or continues a kept partial copy of this version if `--resume` asks for it. The copy gets its
    /// name when it is whole.
    fn begin<'a>(
        &'a self,
        file: &'a SourceFile,
        version: &'a FileVersion,
        mode: Option<u32>,
        CopyTerms { rate, resume, .. }: CopyTerms,
    ) -> anyhow::Result<Box<dyn CopyTarget + 'a>> {
        let name = || utf8(&file.name);
        Ok(match self {
            Self::Here(folder) => Box::new(folder.begin(&file.name, version, mode, resume)?),
            Self::Served(own) => Box::new(own.begin(file, rate, version)?),
            Self::Shared(shared) => whole(name()?, move |name, reader| shared.put(name, version, rate, reader)),
            Self::There(remote) => whole(name()?, move |name, reader| remote.put(name, version, rate, reader)),
            Self::Rclone(rclone) => whole(name()?, move |name, reader| rclone.put(name, version.bytes, reader)),
        })
    }
}

/// A copy of a file while it is written.
trait CopyTarget {
    /// Bytes that an interrupted copy has left.
    fn begun_with(&self) -> u64 {
        0
    }

    /// Ends the copy unfinished, for this reason.
    fn give_up(&mut self, _reason: &str) {}

    /// Writes the remaining bytes, up to `bytes` in all, and gives the copy its name.
    fn finish(self: Box<Self>, reader: &mut PacedReader<'_>, bytes: u64) -> anyhow::Result<()>;
}

/// A copy that cannot be resumed: each attempt sends all bytes.
struct WholeCopy<'a, F>(&'a str, F);

fn whole<'a, F>(name: &'a str, send: F) -> Box<dyn CopyTarget + 'a>
where
    F: FnOnce(&str, &mut PacedReader<'_>) -> anyhow::Result<()> + 'a,
{
    Box::new(WholeCopy(name, send))
}

impl<F: FnOnce(&str, &mut PacedReader<'_>) -> anyhow::Result<()>> CopyTarget for WholeCopy<'_, F> {
    fn finish(self: Box<Self>, reader: &mut PacedReader<'_>, _bytes: u64) -> anyhow::Result<()> {
        (self.1)(self.0, reader)
    }
}

/// The name as UTF-8, which servers require.
fn utf8(name: &Path) -> anyhow::Result<&str> {
    name.to_str().context("its name is not UTF-8, which no server can be asked for")
}

/// True if the stored file is a copy of this version: of the same length, and of the same time, if both times are known.
fn is_copy(stored: &FileVersion, source: &FileVersion) -> bool {
    // Servers keep no times before 1970.
    let is_same = |(stored, source)| is_same_time(stored, source) || is_same_time(stored, source.max(UNIX_EPOCH));
    stored.bytes == source.bytes && stored.modified.zip(source.modified).is_none_or(is_same)
}

/// True if `stored` is the time `source` as some file system keeps it: in nanoseconds, 100 ns (NTFS, CIFS), 10 ms (exFAT), a second
/// (ext3, HTTP) or two (FAT).
fn is_same_time(stored: SystemTime, source: SystemTime) -> bool {
    let (stored, source) = (nanos(stored), nanos(source));
    [1, 100, 10_000_000, 1_000_000_000, 2_000_000_000].iter().any(|step| stored == source - source.rem_euclid(*step))
}

/// Nanoseconds since 1970.
fn nanos(time: SystemTime) -> i128 {
    let of = |span: Duration| i128::from(span.as_secs()) * 1_000_000_000 + i128::from(span.subsec_nanos());
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -of(before.duration()), of)
}

/// Options of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyTerms {
    /// The rate; `None`: as fast as possible.
    pub rate: Option<BitRate>,
    /// Skip files that were copied whole and have not changed since.
    pub resume: bool,
    /// Read both sides again after the copy and compare them.
    pub verify: bool,
}

/// Copies the file or folder at `source`. `moved` receives the progress, and may stop it. A file that cannot be copied is
/// skipped, and the summary names it.
///
/// # Errors
/// The copy was stopped, an end does not answer, or a rate was refused. Copies made before stay.
pub fn copy(
    source: Endpoint,
    destination: Endpoint,
    terms: CopyTerms,
    moved: &Arc<MoveProgress>,
) -> anyhow::Result<Summary> {
    let tree = source.files()?;
    copy_tree(&tree, &source, &destination, terms, moved)
}

/// A file or folder of this machine, read or written directly.
pub fn here(path: PathBuf) -> Endpoint {
    Endpoint::Here(Folder::new(path))
}

/// Copies as [`copy`] does, as fast as possible, and shows the progress.
pub fn copy_shown(source: Endpoint, destination: Endpoint) -> anyhow::Result<Summary> {
    let moved = Arc::default();
    let shown = pacing::show_progress(&moved);
    let outcome = copy(source, destination, CopyTerms { rate: None, resume: false, verify: false }, &moved);
    shown.end();
    outcome
}

fn copy_tree(
    tree: &Tree,
    source: &Endpoint,
    destination: &Endpoint,
    terms: CopyTerms,
    moved: &Arc<MoveProgress>,
) -> anyhow::Result<Summary> {
    let bytes: u64 = tree.files.iter().map(|file| file.bytes).sum();
    moved.expect(bytes.saturating_mul(if terms.verify { 2 } else { 1 }));
    let mut copying = Copying {
        source,
        destination,
        terms,
        // A server sends its first bytes a tick ahead of the requested rate; in a short copy that makes a
        // difference.
        pacing: terms.rate.map(Pacing::new),
        summary: Summary::begin(terms.rate, tree),
        moved: Arc::clone(moved),
    };
    copying.make_folders(tree);
    for file in &tree.files {
        moved.check()?;
        let Err(error) = copying.file_or_wait(file) else { continue };
        moved.check()?;
        if error.is::<RateRefusal>() || error.is::<NoAnswer>() {
            // Each further file would fail as well.
            copying.summary.failures.add_first(format_args!("{error:#}; no other was tried after it"));
            break;
        }
        copying.summary.failures.add(format_args!("{error:#}"));
    }
    Ok(copying.summary)
}

/// State of a copy of several files.
struct Copying<'a> {
    source: &'a Endpoint,
    destination: &'a Endpoint,
    terms: CopyTerms,
    moved: Arc<MoveProgress>,
    pacing: Option<Pacing>,
    summary: Summary,
}

impl Copying<'_> {
    /// Makes the folders; at a server only empty ones, since each file makes its own folders.
    fn make_folders(&mut self, tree: &Tree) {
        let mut folders: Vec<&Path> = tree.folders.iter().map(PathBuf::as_path).collect();
        folders.extend(tree.is_folder.then_some(Path::new("")));
        folders.sort_unstable();
        let has_file = |folder: &Path| {
            let first = tree.files.partition_point(|file| file.name.as_path() < folder);
            tree.files.get(first).is_some_and(|file| file.name.starts_with(folder))
        };
        let is_here = matches!(self.destination, Endpoint::Here(_));
        for folder in folders.into_iter().filter(|folder| is_here || !has_file(folder)) {
            if let Err(error) = self.destination.make_folder(folder, self.source.mode(folder)) {
                self.summary.failures.add(format_args!("{}: not made: {error:#}", self.destination.shown(folder)));
            }
        }
    }

    /// Copies one file. If the server stops after its answer, waits for the server as within a file.
    fn file_or_wait(&mut self, file: &SourceFile) -> anyhow::Result<()> {
        let mut pauses = REOPEN_PAUSES.iter();
        loop {
            let copied = self.file(file);
            let is_gone = copied.as_ref().is_err_and(anyhow::Error::is::<NoAnswer>);
            let has_answered = self.summary.files + self.summary.left_as_they_are > 0;
            match pauses.next() {
                Some(pause) if is_gone && has_answered => thread::sleep(*pause),
                _ => return copied,
            }
            self.moved.check()?;
        }
    }

    /// Copies one file, unless the destination has it already.
    fn file(&mut self, file: &SourceFile) -> anyhow::Result<()> {
        let shown = self.source.shown(&file.name);
        let began = Instant::now();
        let version = self.source.version(&file.name).with_context(|| format!("{shown}: not copied"))?;
        if self.terms.resume && self.is_copied(file, &version).with_context(|| format!("{shown}: not copied"))? {
            self.moved.pass_over(file.bytes);
            self.summary.left_as_they_are += 1;
        } else {
            self.copy(file, &version).with_context(|| format!("{shown}: not copied"))?;
            self.summary.copying += began.elapsed();
            self.summary.files += 1;
            if self.destination.hides(&file.name) {
                self.summary.hidden.add(file.name.display());
            }
            self.moved.file_is_done(0);
        }
        if self.terms.verify {
            self.compare(file).context(shown.clone())?;
            self.summary.compared += 1;
        }
        Ok(())
    }

    /// True if the destination has a copy of this version.
    fn is_copied(&self, file: &SourceFile, version: &FileVersion) -> anyhow::Result<bool> {
        Ok(self.destination.stored(&file.name)?.is_some_and(|stored| is_copy(&stored, version)))
    }

    fn copy(&mut self, file: &SourceFile, version: &FileVersion) -> anyhow::Result<()> {
        let destination = self.destination;
        let mut target = destination.begin(file, version, self.source.mode(&file.name), self.terms)?;
        let begun_with = target.begun_with();
        let opened = self.source.open(&file.name, begun_with, self.terms.rate);
        let opened = opened.inspect_err(|error| target.give_up(&error.to_string()))?;
        let is_same = begun_with == 0
            || self.source.version(&file.name).inspect_err(|error| target.give_up(&error.to_string()))? == *version;
        if !is_same || opened.bytes != version.bytes {
            let reason = "it was changed meanwhile; copy it again";
            target.give_up(reason);
            bail!(reason);
        }
        self.moved.pass_over(begun_with);
        self.summary.resumed_bytes += begun_with;
        target.finish(&mut self.paced(opened.reader), opened.bytes)?;
        self.summary.bytes += opened.bytes - begun_with;
        Ok(())
    }

    /// Reads both sides, at the same rate.
    fn compare(&mut self, file: &SourceFile) -> anyhow::Result<()> {
        let rate = self.terms.rate;
        let (source, copy) = (self.source.open(&file.name, 0, rate)?, self.destination.open(&file.name, 0, rate)?);
        let mut copy = copy.reader;
        let mut source = self.paced(source.reader);
        let (mut ours, mut theirs) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
        let mut at = 0u64;
        loop {
            let (count, other) = (fill(&mut source, &mut ours)?, fill(&mut *copy, &mut theirs)?);
            if ours[..count] != theirs[..other] {
                let same = ours[..count].iter().zip(&theirs[..other]).take_while(|(a, b)| a == b).count();
                bail!("the copy differs from byte {} on; copy it again without --resume", at + same as u64);
            }
            at += count as u64;
            if count < READ_BYTES {
                return Ok(());
            }
        }
    }

    fn paced<'a>(&'a mut self, reader: Box<dyn Read + 'a>) -> PacedReader<'a> {
        PacedReader::new(reader, self.pacing.as_mut(), &self.moved)
    }
}

/// Reads until the buffer is full or the reader ends.
fn fill(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match reader.read(&mut buffer[count..])? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}
