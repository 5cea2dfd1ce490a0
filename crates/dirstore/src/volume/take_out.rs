//! A disk of a volume fails: it is taken out, and the volume goes on with the other copies where there are any.
//!
//! Promise: that the disk is out is durable on the others before anything else is acknowledged; the disks are written to
//! without the volume being held.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use volume::{DiskWrite, MemberId};

use super::part::AlignedBlock;
use super::{SharedCore, lock};
use crate::StoreError;
use crate::upload::count;

/// What is to be written so that a disk is out: two steps, each flushed, to these files.
pub(super) struct TakingOut {
    pub(super) steps: [Vec<DiskWrite>; 2],
    pub(super) files: BTreeMap<MemberId, OwnedFd>,
}

/// Takes `member` out because of `error`; where it has the only copies, the volume takes no more changes instead.
pub(super) fn take_out(core: &SharedCore, member: MemberId, error: &StoreError) {
    let Some(taking_out) = lock(core).begin_take_out(member, error) else { return };
    for step in &taking_out.steps {
        for write in step {
            if let Some(file) = taking_out.files.get(&write.member) {
                // A second disk that fails now is found by its own thread.
                let _ = write_whole(file, write.position, AlignedBlock::new(&write.bytes).bytes());
            }
        }
        for file in taking_out.files.values() {
            let _ = rustix::fs::fdatasync(file);
        }
    }
    lock(core).end_take_out();
}

pub(super) fn write_whole(file: &OwnedFd, mut position: u64, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::pwrite(file, bytes, position)?;
        bytes = &bytes[written..];
        position += count(written);
    }
    Ok(())
}
