//! The FUSE file system: one directory with one file, `disk`; the engine serves its bytes.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    WriteFlags,
};

use super::engine::DiskEngine;

const ROOT: INodeNo = INodeNo(1);
const DISK: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// Requests are at most this long: FUSE's 256 pages.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

pub(crate) struct FuseFile {
    pub(crate) engine: Arc<DiskEngine>,
    pub(crate) size: u64,
}

impl FuseFile {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let directory = ino == ROOT;
        let epoch = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino,
            size: if directory { 0 } else { self.size },
            blocks: 0,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for FuseFile {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without asynchronous direct I/O the loop device would wait for each request in turn: no queue depth.
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::Error::other("this kernel's FUSE has no asynchronous direct I/O (Linux 3.13 has)"))?;
        let refused = |what: &str| io::Error::other(format!("FUSE refused {what}"));
        config.set_max_write(REQUEST_BYTES_MAX).map_err(|_| refused("writes of 1 MiB"))?;
        config.set_max_background(512).map_err(|_| refused("512 requests under way"))?;
        config.set_congestion_threshold(512).map_err(|_| refused("512 requests under way"))?;
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == ROOT && name == "disk" {
            reply.entry(&FOREVER, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(ino));
    }

    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let room = self.size.saturating_sub(offset);
        let bytes = u32::try_from(room).unwrap_or(u32::MAX).min(size).min(REQUEST_BYTES_MAX);
        if bytes == 0 { reply.data(&[]) } else { self.engine.read(offset, bytes, reply) }
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = u64::try_from(data.len()).ok().and_then(|bytes| offset.checked_add(bytes));
        if end.is_none_or(|end| end > self.size) {
            reply.error(Errno::ENOSPC);
        } else {
            self.engine.write(offset, data, reply);
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // Sent when a descriptor is closed: not a flush of the disk.
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.engine.flush(reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.size / 4096, 0, 0, 2, 0, 4096, 255, 4096);
    }
}
