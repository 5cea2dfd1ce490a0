//! A disk of a volume gets another state: it came, failed and is taken out, was filled, or has left.
//!
//! Promise: the change is durable on the other disks before anything else is acknowledged; the disks are written to
//! without the volume being held.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use volume::{DiskWrite, MemberId};

use super::part::AlignedBlock;
use super::{SharedCore, lock};
use crate::StoreError;
use crate::buffers::count;

/// What is to be written for it: steps, each flushed, to these files.
pub(super) struct MemberChange {
    pub(super) steps: Vec<Vec<DiskWrite>>,
    pub(super) files: BTreeMap<MemberId, OwnedFd>,
}

impl MemberChange {
    pub(super) fn make_durable(self, core: &SharedCore) {
        for step in &self.steps {
            for write in step {
                if let Some(file) = self.files.get(&write.member) {
                    // A disk that fails now is found by its own thread.
                    let _ = write_whole(file, write.position, AlignedBlock::new(&write.bytes).bytes());
                }
            }
            for file in self.files.values() {
                let _ = rustix::fs::fdatasync(file);
            }
        }
        lock(core).end_change();
    }
}

/// Takes `member` out because of `error`; where it has the only copies, the volume takes no more changes instead.
pub(super) fn take_out(core: &SharedCore, member: MemberId, error: &StoreError) {
    let change = lock(core).begin_take_out(member, error);
    if let Some(change) = change {
        change.make_durable(core);
    }
}

/// Reads until the buffer is full or the file ends; gives how many bytes that were.
pub(super) fn read_whole(file: &OwnedFd, position: u64, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(file, &mut buffer[done..], position + count(done))? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}

pub(super) fn write_whole(file: &OwnedFd, mut position: u64, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::pwrite(file, bytes, position)?;
        bytes = &bytes[written..];
        position += count(written);
    }
    Ok(())
}
