//! The mounted tree, as the kernel requests it: folders by the server's listings, contents by their heads.
//!
//! Promise: an open file is read by a thread of its own, so that a paced read holds up no other. Everything that is open has a
//! limit. Not here: the requests to the server for a read (`reader`).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::{EntryKind, ListingEntry};
use client::{Remote, RemoteContent, RemoteEntry};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    Request,
};
use jiff::Timestamp;
use units::BitRate;

use crate::names::Names;
use crate::reader::FileReader;
use crate::say;

/// The time for which the kernel keeps an answer: as old as the server's listings may be.
const VALID: Duration = Duration::from_secs(1);
/// Files that are open at once: each has a thread and some memory.
const OPEN_FILES_MAX: usize = 256;
/// Folders that are open at once.
const OPEN_FOLDERS_MAX: usize = 256;
/// The block size in the attributes: programs that follow it read this much at once.
const READ_BYTES: u32 = 1 << 20;
/// The unit in which `df` counts.
const BLOCK_BYTES: u32 = 4096;
/// The longest name that a server gives.
const NAME_BYTES_MAX: u32 = 255;

/// See the module.
pub(crate) struct MountedTree {
    remote: Remote,
    rate: Option<BitRate>,
    names: Mutex<Names>,
    files: Mutex<HashMap<u64, Sender<PendingFileRead>>>,
    folders: Mutex<HashMap<u64, Arc<Vec<ListingEntry>>>>,
    next_handle: AtomicU64,
    /// The error that was reported last.
    last_error: Mutex<String>,
}

/// A read that the kernel waits for.
struct PendingFileRead {
    offset: u64,
    bytes: u32,
    reply: ReplyData,
}

impl MountedTree {
    pub(crate) fn new(remote: Remote, rate: Option<BitRate>) -> Self {
        Self {
            remote,
            rate,
            names: Mutex::new(Names::new()),
            files: Mutex::default(),
            folders: Mutex::default(),
            next_handle: AtomicU64::new(1),
            last_error: Mutex::default(),
        }
    }

    fn path(&self, number: INodeNo) -> Result<String, Errno> {
        lock(&self.names).path(number).ok_or(Errno::ESTALE)
    }

    fn find(&self, path: &str) -> Result<RemoteEntry, Errno> {
        let found = self.remote.find(path);
        self.reported(found)?.ok_or(Errno::ENOENT)
    }

    /// Programs get the number of an error: its words go to standard error, once.
    fn reported<T>(&self, outcome: anyhow::Result<T>) -> Result<T, Errno> {
        outcome.map_err(|error| {
            tell(&self.last_error, &error);
            Errno::EIO
        })
    }

    fn next_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    fn open_file(&self, number: INodeNo) -> Result<FileHandle, Errno> {
        let path = self.path(number)?;
        let RemoteEntry::Content(version) = self.find(&path)? else { return Err(Errno::EISDIR) };
        let handle = self.next_handle();
        let rate = self.rate.map(|rate| (rate, format!("mount-{}-{handle}", std::process::id())));
        let reader = FileReader::new(self.remote.clone(), path, version, rate);
        let (asked, asks) = channel();
        let mut files = lock(&self.files);
        if files.len() >= OPEN_FILES_MAX {
            return Err(Errno::EMFILE);
        }
        thread::Builder::new().name("reader".into()).spawn(move || serve(reader, &asks)).map_err(|_| Errno::EAGAIN)?;
        files.insert(handle, asked);
        Ok(FileHandle(handle))
    }

    fn open_folder(&self, number: INodeNo) -> Result<FileHandle, Errno> {
        let path = self.path(number)?;
        let entries = self.remote.entries(&path);
        let mut entries = self.reported(entries)?;
        // By its name a link to a folder is found; listed, it would lead a walk round in circles.
        entries.retain(|entry| !(entry.is_link && entry.kind == EntryKind::Directory));
        let handle = self.next_handle();
        let mut folders = lock(&self.folders);
        if folders.len() >= OPEN_FOLDERS_MAX {
            return Err(Errno::EMFILE);
        }
        folders.insert(handle, Arc::new(entries));
        Ok(FileHandle(handle))
    }

    /// Fills the answer with the entries behind those given before.
    fn list(
        &self,
        number: INodeNo,
        handle: FileHandle,
        after: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), Errno> {
        let folder = self.path(number)?;
        let entries = lock(&self.folders).get(&handle.0).cloned().ok_or(Errno::EBADF)?;
        for (at, dots) in (1u64..).zip([".", ".."]) {
            if at > after
                && reply.add(
                    number,
                    at,
                    dots,
                    &VALID,
                    &attributes(number, &RemoteEntry::Folder(UNIX_EPOCH)),
                    Generation(0),
                )
            {
                return Ok(());
            }
        }
        for (at, entry) in (3u64..).zip(entries.iter()) {
            if at <= after {
                continue;
            }
            let number = lock(&self.names).tell(joined(&folder, &entry.name));
            let facts = attributes(number, &of_listing(entry));
            if reply.add(number, at, &entry.name, &VALID, &facts, Generation(0)) {
                // It did not fit, so that the kernel did not get it.
                lock(&self.names).forget(number, 1);
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Takes the lock, also after a panic under it: none leaves a table half-changed.
fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The life of an open file's thread: until it is closed.
fn serve(mut reader: FileReader, asks: &Receiver<PendingFileRead>) {
    let last_error = Mutex::default();
    for PendingFileRead { offset, bytes, reply } in asks {
        match reader.read(offset, bytes) {
            Ok(bytes) => reply.data(bytes),
            Err(error) => {
                tell(&last_error, &error);
                reply.error(Errno::EIO);
            }
        }
    }
}

/// Prints an error, unless it repeats the last one.
fn tell(last_error: &Mutex<String>, error: &anyhow::Error) {
    let words = format!("{error:#}");
    let mut last_error = lock(last_error);
    if *last_error != words {
        say(format_args!("{words}"));
        *last_error = words;
    }
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn of_listing(entry: &ListingEntry) -> RemoteEntry {
    let modified = entry.modified.parse::<Timestamp>().map_or(UNIX_EPOCH, SystemTime::from);
    match entry.kind {
        EntryKind::Directory => RemoteEntry::Folder(modified),
        EntryKind::File => {
            RemoteEntry::Content(RemoteContent { bytes: entry.size, modified: Some(modified), etag: None })
        }
    }
}

fn attributes(number: INodeNo, entry: &RemoteEntry) -> FileAttr {
    let (kind, perm, size, modified) = match entry {
        RemoteEntry::Folder(modified) => (FileType::Directory, 0o555, 0, *modified),
        RemoteEntry::Content(content) => {
            (FileType::RegularFile, 0o444, content.bytes, content.modified.unwrap_or(UNIX_EPOCH))
        }
    };
    FileAttr {
        ino: number,
        size,
        blocks: size.div_ceil(512),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind,
        perm,
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: READ_BYTES,
        flags: 0,
    }
}

impl Filesystem for MountedTree {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Listings bring the attributes that `ls -l` requests.
        config
            .add_capabilities(InitFlags::FUSE_DO_READDIRPLUS)
            .map_err(|_| io::Error::other("this kernel's FUSE has no READDIRPLUS (Linux 3.9 has)"))
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name.to_str().ok_or(Errno::ENOENT).and_then(|name| {
            let path = joined(&self.path(parent)?, name);
            let entry = self.find(&path)?;
            Ok(attributes(lock(&self.names).tell(path), &entry))
        });
        match found {
            Ok(facts) => reply.entry(&VALID, &facts, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        lock(&self.names).forget(number, lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.path(number).and_then(|path| self.find(&path));
        match found {
            Ok(entry) => reply.attr(&VALID, &attributes(number, &entry)),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(number) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(file) = lock(&self.files).get(&handle.0).cloned() else { return reply.error(Errno::EBADF) };
        if let Err(unserved) = file.send(PendingFileRead { offset, bytes, reply }) {
            unserved.0.reply.error(Errno::EIO);
        }
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.files).remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        match self.reported(self.remote.space()) {
            Ok((all, free)) => {
                let (all, free) = (all / u64::from(BLOCK_BYTES), free / u64::from(BLOCK_BYTES));
                reply.statfs(all, free, free, 0, 0, BLOCK_BYTES, NAME_BYTES_MAX, BLOCK_BYTES);
            }
            Err(error) => reply.error(error),
        }
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.open_folder(number) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        after: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.list(number, handle, after, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        lock(&self.folders).remove(&handle.0);
        reply.ok();
    }
}
