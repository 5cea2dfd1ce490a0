//! Finding the rate of a content: a container probe that reads past the page cache.

use std::io;
use std::os::fd::OwnedFd;

use dataplane::control::Content;
use kernel::aligned::AlignedBlock;
use rustix::fs::fstat;
use units::limits;

use crate::buffers::index;
use crate::entry::Stamp;
use crate::{ContentPath, NameKind, StoreError};
use media::{MediaRate, ProbeBudget, ProbeError, ReadAt, probe};

use super::Worker;

/// Read at once at most.
const WINDOW_BYTES: usize = 256 * 1024;

/// A content, read at any offset with direct reads where it is open for them.
struct Reader<'a> {
    file: &'a OwnedFd,
    size: u64,
    memory: AlignedBlock,
}

impl<'a> Reader<'a> {
    fn new(content: &'a Content) -> Self {
        Self { file: &content.file().file, size: content.size, memory: AlignedBlock::zeroed(WINDOW_BYTES + 1) }
    }
}

impl ReadAt for Reader<'_> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let lead = offset % limits::DIRECT_ALIGN;
        let skip = index(lead);
        let wanted = buf.len().min(WINDOW_BYTES);
        let length = (skip + wanted).next_multiple_of(index(limits::DIRECT_ALIGN));
        let window = &mut self.memory.bytes_mut()[..length];
        let read = rustix::io::pread(self.file, &mut *window, offset - lead)?;
        let given = read.saturating_sub(skip).min(wanted);
        buf[..given].copy_from_slice(&window[skip..skip + given]);
        Ok(given)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl Worker {
    /// Finds and remembers the rate of a content, if that was not done yet.
    pub(super) fn find_rate(&mut self, root: usize, path: &ContentPath) -> Result<(), StoreError> {
        let found = self.find(root, path)?;
        if found.entry.kind == NameKind::File && self.index.rate(&Stamp::of(&found.stat)).is_none() {
            let content = self.content_of(root, &found)?;
            self.rate_of(&content);
        }
        Ok(())
    }

    /// The rate of an open content: remembered, or looked for now and remembered. Nothing if it has none.
    pub(super) fn rate_of(&mut self, content: &Content) -> Option<MediaRate> {
        let before = Stamp::of(&fstat(&content.file().file).ok()?);
        if let Some(known) = self.index.rate(&before) {
            return known;
        }
        self.shared.stats.probes.add(1);
        let result = probe(&mut Reader::new(content), ProbeBudget::default());
        // A file that changes while it is looked into, or cannot be read just now, is looked into again.
        let unchanged = fstat(&content.file().file).is_ok_and(|stat| Stamp::of(&stat) == before);
        match result {
            Err(ProbeError::Io(_)) => None,
            result => {
                let rate = result.ok();
                if unchanged {
                    self.index.insert(&before, rate);
                }
                rate
            }
        }
    }
}
