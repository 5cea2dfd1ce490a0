//! Files of this machine, read and written past the page cache.
//!
//! Promise: nothing is left dirty in the page cache; a copy is a hidden file in the folder of its name until it is whole and durable.
//! A file system without direct I/O is read and written through the cache, which is emptied behind.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt, MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;
use client::{FileVersion, SourceFile, SourceReader, Tree};
use folder::LocalWalk;
use kernel::aligned::AlignedBlock;
use kernel::direct::DirectWriter;
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use store::{Walked, WalkedKind};
use units::limits::{CHUNK_BYTES, DIRECT_ALIGN};

use super::pacing::PacedReader;
use super::{CopyTarget, READ_BYTES, fill};

/// Bytes between two flushes of a file that is written through the page cache.
const FLUSH_BYTES: u64 = 8 << 20;
/// Bytes of a file's name in the hidden name of its copy: a name has at most 255 bytes.
const NAME_BYTES_MAX: usize = 200;
const PART: &str = ".isocast-cp-";

/// A file or folder of this machine.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub(super) fn is_folder(&self) -> bool {
        self.path.is_dir()
    }

    /// True for a target that keeps nothing (`/dev/null`).
    pub(super) fn is_sink(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|what| !what.is_file() && !what.is_dir())
    }

    pub(super) fn below(&self, name: &str) -> Self {
        Self { path: self.path.join(name) }
    }

    pub(super) fn shown(&self, name: &Path) -> String {
        let slash = if name.as_os_str().is_empty() { "" } else { "/" };
        format!("{}{slash}{}", self.path.display(), name.display())
    }

    fn at(&self, name: &Path) -> PathBuf {
        if name.as_os_str().is_empty() || self.is_sink() { self.path.clone() } else { self.path.join(name) }
    }

    /// True if it is in the other, or the other itself.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let (Ok(other), Some(whole)) = (other.path.canonicalize(), self.nearest()) else { return false };
        whole.starts_with(other)
    }

    /// Its whole path; if it does not exist yet, that of the nearest folder above it that does.
    fn nearest(&self) -> Option<PathBuf> {
        std::path::absolute(&self.path).ok()?.ancestors().find_map(|path| path.canonicalize().ok())
    }

    /// Its path below `root`, as a server of that folder names it; none if it lies elsewhere.
    pub(super) fn below_root(&self, root: &Path) -> Option<String> {
        let whole = std::path::absolute(&self.path).ok()?;
        let (there, missing) =
            whole.ancestors().find_map(|path| Some((path.canonicalize().ok()?, whole.strip_prefix(path).ok()?)))?;
        let below = there.strip_prefix(root.canonicalize().ok()?).ok()?.join(missing);
        Some(below.to_str()?.trim_end_matches('/').to_owned())
    }

    /// The entity tag that a server gives this version of a file.
    pub(super) fn etag(&self, name: &Path) -> anyhow::Result<String> {
        Ok(store::etag_of(&rustix::fs::stat(self.at(name))?))
    }

    pub(super) fn files(&self) -> anyhow::Result<Tree> {
        let what = fs::metadata(&self.path).with_context(|| self.path.display().to_string())?;
        if what.is_file() {
            let file = SourceFile { name: PathBuf::new(), bytes: what.len() };
            return Ok(Tree { files: vec![file], ..Tree::default() });
        }
        anyhow::ensure!(what.is_dir(), "{}: neither file nor folder", self.path.display());
        let mut tree = Tree { is_folder: true, ..Tree::default() };
        for met in LocalWalk::begin(&self.path).with_context(|| self.path.display().to_string())? {
            let Walked { path: name, kind } = match met {
                Ok(walked) => walked,
                Err(error) => {
                    tree.unreadable.push(format!("{}: {}", self.shown(&error.path), error.why));
                    continue;
                }
            };
            let is_part = name.file_name().is_some_and(|own| own.to_string_lossy().contains(PART));
            match kind {
                WalkedKind::Folder(_) => tree.folders.push(name),
                WalkedKind::File(file) if !is_part => tree.files.push(SourceFile { name, bytes: file.bytes() }),
                // A link to a file is copied as that file.
                WalkedKind::Other => match fs::metadata(self.at(&name)) {
                    Ok(what) if what.is_file() => tree.files.push(SourceFile { name, bytes: what.len() }),
                    _ => tree.passed_over += 1,
                },
                WalkedKind::File(_) => tree.passed_over += 1,
            }
        }
        tree.files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tree)
    }

    /// Removes a file, or a folder if nothing is in it: true if it is gone.
    pub(super) fn remove(&self, name: &Path) -> anyhow::Result<bool> {
        let path = self.at(name);
        let removed = if path.symlink_metadata()?.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        match removed {
            // Links and unfinished copies stay, which are not listed.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            removed => Ok(removed.map(|()| true)?),
        }
    }

    /// The permissions of a file or folder.
    pub(super) fn mode(&self, name: &Path) -> Option<u32> {
        Some(fs::metadata(self.at(name)).ok()?.mode() & 0o777)
    }

    /// Makes a folder, unless it is there. Its owner may write in it, whatever `mode` says.
    pub(super) fn make_folder(&self, name: &Path, mode: Option<u32>) -> anyhow::Result<()> {
        let path = self.at(name);
        if self.is_sink() || path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        Ok(fs::DirBuilder::new().mode(mode.unwrap_or(0o777) | 0o700).create(path)?)
    }

    pub(super) fn version(&self, name: &Path) -> anyhow::Result<FileVersion> {
        let path = self.at(name);
        let what = fs::metadata(&path)?;
        let whole = path.canonicalize()?;
        let tag = format!("{} {} {} {}", whole.display(), what.len(), what.mtime(), what.mtime_nsec());
        Ok(FileVersion { tag, bytes: what.len(), modified: what.modified().ok() })
    }

    /// The same; none if there is no file of this name.
    pub(super) fn find_version(&self, name: &Path) -> anyhow::Result<Option<FileVersion>> {
        match fs::metadata(self.at(name)) {
            Ok(what) if what.is_file() => self.version(name).map(Some),
            Ok(_) => Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn open(&self, name: &Path, from: u64) -> anyhow::Result<SourceReader> {
        let path = self.at(name);
        let (file, direct) = open(&path, OFlags::RDONLY, 0).with_context(|| path.display().to_string())?;
        let bytes = file.metadata()?.len();
        let reader = DirectReader { file, direct, at: from, buffer: AlignedBlock::zeroed(READ_BYTES), filled: 0..0 };
        Ok(SourceReader { reader: Box::new(reader), bytes })
    }

    /// Begins a copy of a file, or continues one of the same version of its source.
    pub(super) fn begin(
        &self,
        name: &Path,
        version: &FileVersion,
        mode: Option<u32>,
        resume: bool,
    ) -> anyhow::Result<PartialCopy> {
        let path = self.at(name);
        let mode = mode.unwrap_or(0o666);
        anyhow::ensure!(!path.is_dir(), "{} is a folder, which --delete would replace", path.display());
        if self.is_sink() {
            let file = File::options().write(true).open(&path).with_context(|| path.display().to_string())?;
            return Ok(PartialCopy {
                file,
                how: WriteMode::Sink,
                part: path.clone(),
                path,
                mode,
                modified: version.modified,
                written: 0,
                begun_with: 0,
                flushed: 0,
            });
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !name.as_os_str().is_empty() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let own = path.file_name().with_context(|| format!("{}: no name for a file", path.display()))?;
        let own = own.to_string_lossy();
        let kept = own.char_indices().take_while(|(at, c)| at + c.len_utf8() <= NAME_BYTES_MAX).count();
        let prefix = format!(".{}{PART}", own.chars().take(kept).collect::<String>());
        let mut hasher = DefaultHasher::new();
        (&own, &version.tag).hash(&mut hasher);
        let part = folder.join(format!("{prefix}{:016x}", hasher.finish()));
        let in_folder = || format!("cannot write in {}", folder.display());
        remove_others(folder, &prefix, &part).with_context(in_folder)?;
        if !resume && part.exists() {
            fs::remove_file(&part)?;
        }
        let opened = open(&part, OFlags::RDWR | OFlags::CREATE, mode | 0o600);
        let (file, direct) = opened.with_context(in_folder)?;
        // The last piece may be padding, or not durable: it is written again.
        let begun_with = file.metadata()?.len().saturating_sub(1);
        let begun_with = begun_with - begun_with % DIRECT_ALIGN;
        file.set_len(begun_with)?;
        let how = if direct { WriteMode::Direct(Box::new(DirectWriter::new())) } else { WriteMode::Buffered };
        let (modified, flushed) = (version.modified, begun_with);
        Ok(PartialCopy { file, how, path, part, mode, modified, written: begun_with, begun_with, flushed })
    }
}

/// Removes parts of other versions of the source: no copy will continue them.
fn remove_others(folder: &Path, prefix: &str, part: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) && entry.path() != part {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Opens a file for direct I/O, or through the page cache where the file system has no other way.
fn open(path: &Path, flags: OFlags, mode: u32) -> io::Result<(File, bool)> {
    let mode = Mode::from_raw_mode(mode);
    match rustix::fs::open(path, flags | OFlags::DIRECT | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok((file.into(), true)),
        Err(Errno::INVAL) => Ok((rustix::fs::open(path, flags | OFlags::CLOEXEC, mode)?.into(), false)),
        Err(error) => Err(error.into()),
    }
}

/// Reads a file in large pieces, whatever the caller takes at once.
struct DirectReader {
    file: File,
    direct: bool,
    /// Position in the file at which the next piece begins, or within it a resumed copy.
    at: u64,
    buffer: AlignedBlock,
    /// The rest of the buffer that was not taken yet.
    filled: std::ops::Range<usize>,
}

impl Read for DirectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.filled.is_empty() {
            let skip = usize::try_from(self.at % DIRECT_ALIGN).expect("a small number");
            let from = self.at - self.at % DIRECT_ALIGN;
            let count = self.file.read_at(self.buffer.bytes_mut(), from)?;
            if !self.direct {
                let _ = rustix::fs::fadvise(&self.file, from, None, Advice::DontNeed);
            }
            self.filled = skip.min(count)..count;
            self.at = from + count as u64;
            if self.filled.is_empty() {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.filled.len());
        buffer[..count].copy_from_slice(&self.buffer.bytes()[self.filled.start..self.filled.start + count]);
        self.filled.start += count;
        Ok(count)
    }
}

/// How a copy is written.
enum WriteMode {
    Direct(Box<DirectWriter>),
    Buffered,
    Sink,
}

/// A copy under way: a hidden file in the folder of its name.
pub(super) struct PartialCopy {
    file: File,
    how: WriteMode,
    part: PathBuf,
    path: PathBuf,
    /// The permissions that it gets, of those that the process gives to files.
    mode: u32,
    /// The time of its source.
    modified: Option<SystemTime>,
    /// Bytes written, with those of an earlier copy.
    written: u64,
    /// Bytes of an earlier copy.
    begun_with: u64,
    /// Bytes written through the page cache that are on the disk.
    flushed: u64,
}

impl CopyTarget for PartialCopy {
    fn begun_with(&self) -> u64 {
        self.begun_with
    }

    fn finish(mut self: Box<Self>, reader: &mut PacedReader<'_>, bytes: u64) -> anyhow::Result<()> {
        self.reserve(bytes)?;
        let mut buffer = AlignedBlock::zeroed(READ_BYTES);
        loop {
            let count = fill(reader, buffer.bytes_mut())?;
            self.write(&mut buffer, count)?;
            if count < READ_BYTES {
                break;
            }
        }
        let came = self.written;
        anyhow::ensure!(
            came == bytes,
            "{came} bytes came, {bytes} were announced: it was changed meanwhile; copy it again"
        );
        self.publish()
    }
}

impl PartialCopy {
    /// Takes the room that the whole file needs; where the file system cannot, a disk that is full is noticed later.
    fn reserve(&self, bytes: u64) -> anyhow::Result<()> {
        if matches!(self.how, WriteMode::Sink) || bytes == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                let _ = fs::remove_file(&self.part);
                Err(io::Error::from(error))
                    .with_context(|| format!("{}: no room for {}", self.path.display(), units::ByteCount(bytes)))
            }
            _ => Ok(()),
        }
    }

    /// Writes the next `count` bytes; fewer than a whole buffer only at the end.
    fn write(&mut self, buffer: &mut AlignedBlock, count: usize) -> anyhow::Result<()> {
        if count == 0 {
            return Ok(());
        }
        match &mut self.how {
            WriteMode::Sink => self.file.write_all(&buffer.bytes()[..count])?,
            WriteMode::Direct(writer) => {
                let padded = count.next_multiple_of(usize::try_from(DIRECT_ALIGN).expect("a small constant"));
                buffer.bytes_mut()[count..padded].fill(0);
                let bytes = &buffer.bytes()[..padded];
                let run = writer.write_run(self.file.as_fd(), self.written, &[bytes], CHUNK_BYTES, || true);
                if let Some(error) = run.error {
                    return Err(error).with_context(|| format!("cannot write {}", self.path.display()));
                }
            }
            WriteMode::Buffered => {
                let written = self.file.write_all_at(&buffer.bytes()[..count], self.written);
                written.with_context(|| format!("cannot write {}", self.path.display()))?;
                if self.written + count as u64 - self.flushed >= FLUSH_BYTES {
                    self.file.sync_data()?;
                    let _ = rustix::fs::fadvise(&self.file, self.flushed, None, Advice::DontNeed);
                    self.flushed = self.written;
                }
            }
        }
        self.written += count as u64;
        Ok(())
    }

    /// Gives it its name, whole and durable, with the time of its source: by that and its length it is known as a copy.
    fn publish(self) -> anyhow::Result<()> {
        if matches!(self.how, WriteMode::Sink) {
            return Ok(());
        }
        self.file.set_len(self.written)?;
        let given = self.file.metadata()?.mode();
        self.file.set_permissions(fs::Permissions::from_mode(given & self.mode))?;
        if let Some(modified) = self.modified {
            // A file system that keeps no such time copies anew each time.
            let _ = self.file.set_modified(modified);
        }
        self.file.sync_all().with_context(|| format!("cannot flush {}", self.path.display()))?;
        if matches!(self.how, WriteMode::Buffered) {
            let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        }
        fs::rename(&self.part, &self.path).with_context(|| format!("cannot name {}", self.path.display()))?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(File::open(folder)?.sync_all()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(folder: &Folder, version: &str, resume: bool) -> PartialCopy {
        let version = FileVersion { tag: version.to_owned(), bytes: 10_000, modified: None };
        folder.begin("".as_ref(), &version, None, resume).expect("room")
    }

    fn copied(folder: &Folder, version: &str, resume: bool, bytes: &[u8]) -> PartialCopy {
        let mut part = begun(folder, version, resume);
        let mut buffer = AlignedBlock::zeroed(READ_BYTES);
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        part.write(&mut buffer, bytes.len()).expect("written");
        part
    }

    #[test]
    fn a_copy_has_its_name_when_it_is_whole() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("film.ts");
        let folder = Folder::new(&path);
        drop(copied(&folder, "first", false, &[7; 10_000]));
        assert!(!path.exists() && fs::read_dir(scratch.path()).expect("listed").count() == 1);
        // Another version of the source begins anew, and leaves nothing of the first.
        let part = begun(&folder, "second", true);
        assert_eq!((part.written, fs::read_dir(scratch.path()).expect("listed").count()), (0, 1));
        drop(copied(&folder, "second", false, &[8; 10_000]));
        let mut part = begun(&folder, "second", true);
        assert!(part.written.is_multiple_of(DIRECT_ALIGN) && part.written >= 8192, "{}", part.written);
        let mut buffer = AlignedBlock::zeroed(READ_BYTES);
        let rest = 10_000 - usize::try_from(part.written).expect("small");
        buffer.bytes_mut()[..rest].fill(8);
        part.write(&mut buffer, rest).expect("written");
        part.publish().expect("named");
        assert_eq!(fs::read(&path).expect("there"), [8; 10_000]);
        assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 1);
    }

    #[test]
    fn a_file_is_read_from_anywhere() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("film.ts");
        let bytes: Vec<u8> =
            (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
        fs::write(&path, &bytes).expect("written");
        for from in [0, 4096, 5000, 2_999_999, 3_000_000] {
            let mut read = Vec::new();
            let mut opened = Folder::new(&path).open("".as_ref(), from).expect("opened");
            opened.reader.read_to_end(&mut read).expect("read");
            assert!(read == bytes[usize::try_from(from).expect("small")..], "from {from}");
            assert_eq!(opened.bytes, 3_000_000);
        }
    }
}
