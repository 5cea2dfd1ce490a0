//! Reads of a content that is being opened: its checksums, its container's index. Somebody waits for them, and the disk may be full.
//!
//! Promise: each is made on a grant of its disk's schedule. A drive that is kept full of the streams' reads let some that came beside them
//! wait for 10 s. Not here: what is read (`opener`).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};

use content::layout::{ContentFile, ContentLayout};
use kernel::aligned::AlignedBlock;
use rustix::io::pread;

use super::core::Task;
use super::{SharedCore, lock};
use crate::buffers::count;
use crate::content_reader::ContentReader;

/// One of them, for the disk's thread.
#[derive(Debug)]
pub(super) struct SmallRead {
    file: OwnedFd,
    position: u64,
    length: usize,
    reply: SyncSender<io::Result<(AlignedBlock, usize)>>,
}

impl SmallRead {
    /// Bytes to read.
    pub(super) fn bytes(&self) -> u64 {
        count(self.length)
    }

    /// On a grant.
    pub(super) fn run(self) {
        let mut block = AlignedBlock::zeroed(self.length);
        let read = pread(&self.file, &mut block.bytes_mut()[..self.length], self.position);
        // Who waited may have gone to another copy.
        let _ = self.reply.send(read.map(|read| (block, read)).map_err(io::Error::from));
    }
}

/// Reads a content by them.
pub(super) fn reader<'a>(
    core: &'a SharedCore,
    layout: &'a ContentLayout,
    size: u64,
) -> ContentReader<'a, impl FnMut(&ContentFile, u64, &mut [u8]) -> io::Result<usize>> {
    ContentReader::new(layout, size, |file, position, buffer| read(core, file, position, buffer))
}

/// Has the thread of the file's disk read, and waits as long as the disk is relied on.
fn read(core: &SharedCore, file: &ContentFile, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let (reply, answer) = sync_channel(1);
    let small = SmallRead { file: file.file.try_clone()?, position, length: buffer.len(), reply };
    let mut locked = lock(core);
    let member = locked.members.iter().flatten().find(|member| member.disk == file.disk);
    let (number, shared) = member.map(|member| (member.member, member.shared.clone())).ok_or_else(gone)?;
    locked.tell(number, Task::Small(small));
    drop(locked);
    while shared.is_relied_on() {
        match answer.recv_timeout(shared.patience) {
            Ok(read) => {
                let (block, read) = read?;
                buffer[..read].copy_from_slice(&block.bytes()[..read]);
                return Ok(read);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(gone())
}

/// The disk was taken out, or does not answer.
fn gone() -> io::Error {
    rustix::io::Errno::IO.into()
}
