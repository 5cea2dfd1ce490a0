//! Reads of a content that is being opened: its checksums, its container's index. An open waits for them, and the disk may be full.
//!
//! Promise: each is made on a grant of its disk's schedule. A drive that is kept full of the streams' reads let some that came concurrently
//! them wait for 10 s. Not here: the choice of the reads (`opener`).

use std::io;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use content::layout::{ContentFile, ContentLayout};
use volume::{ReadDisk, ReadError};

use super::SharedCore;
use super::live::{Member, Task};
use super::small_read::SmallRead;
use store::content_reader::ContentReader;
use store::lock::lock;

/// Reads a content by them.
pub(super) fn reader<'a>(
    core: &'a SharedCore,
    layout: &'a ContentLayout,
    size: u64,
) -> ContentReader<'a, impl FnMut(&ContentFile, u64, &mut [u8]) -> io::Result<usize>> {
    ContentReader::new(layout, size, |file, position, buffer| read(core, file, position, buffer))
}

/// Reads a volume's disks by them.
pub(super) struct GrantedReads<'a> {
    core: &'a SharedCore,
    is_any_gone: bool,
}

impl<'a> GrantedReads<'a> {
    pub(super) const fn new(core: &'a SharedCore) -> Self {
        Self { core, is_any_gone: false }
    }

    /// True if a disk did not answer, was taken out, or the server ends: its bytes are not known.
    pub(super) const fn is_any_gone(&self) -> bool {
        self.is_any_gone
    }
}

impl ReadDisk for GrantedReads<'_> {
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let is_own = |member: &&Member| member.member.index() == disk;
        let read = read_of(self.core, is_own, position, buffer);
        self.is_any_gone |= read.is_none();
        match read {
            Some(Ok(length)) if length == buffer.len() => Ok(()),
            _ => Err(ReadError),
        }
    }
}

fn read(core: &SharedCore, file: &ContentFile, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
    read_of(core, |member| member.disk == file.disk, position, buffer).unwrap_or_else(|| Err(gone()))
}

/// Has the thread of a disk read, and waits as long as the disk is relied on. None if it is not, or not there.
fn read_of(
    core: &SharedCore,
    is_requested: impl Fn(&&Member) -> bool,
    position: u64,
    buffer: &mut [u8],
) -> Option<io::Result<usize>> {
    let (reply, answer) = sync_channel(1);
    let mut locked = lock(core);
    let member = locked.live.members.there.iter().flatten().find(is_requested)?;
    let (number, shared) = (member.member, member.shared.clone());
    let file = match member.file.try_clone() {
        Ok(file) => file,
        Err(error) => return Some(Err(error)),
    };
    locked.live.members.tell(number, Task::Small(SmallRead::new(file, position, buffer.len(), reply)));
    drop(locked);
    while shared.is_relied_on() {
        match answer.recv_timeout(shared.patience) {
            Ok(read) => {
                return Some(read.map(|(block, read)| {
                    buffer[..read].copy_from_slice(&block.bytes()[..read]);
                    read
                }));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    None
}

/// The disk was taken out, or does not answer.
fn gone() -> io::Error {
    rustix::io::Errno::IO.into()
}
