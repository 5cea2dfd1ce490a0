//! The files of the contents open in the plane, each once however many streams read it.
//!
//! Promise: a file stays registered while a stream or a read needs it, and not longer. Not here: opening (the store).

use std::sync::Arc;

use content::Content;
use units::ContentVersion;

use crate::port::FileSlot;

#[derive(Debug)]
struct FileEntry {
    content: Arc<Content>,
    /// Which of its files.
    file: u16,
    /// Streams that read it and reads that are out for it.
    users: u32,
}

/// The table.
#[derive(Debug)]
pub(crate) struct FileTable {
    entries: Vec<Option<FileEntry>>,
    free: Vec<u32>,
    /// Slots by version and file, sorted, for finding.
    sorted: Vec<((ContentVersion, u16), u32)>,
}

impl FileTable {
    pub(crate) fn new(capacity: usize) -> Self {
        let count = u32::try_from(capacity).expect("a table of at most 2^32 files");
        Self {
            entries: (0..capacity).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            sorted: Vec::with_capacity(capacity),
        }
    }

    /// Whether this number of further files can be open.
    pub(crate) fn has_room(&self, files: usize) -> bool {
        self.free.len() >= files
    }

    /// Where a file of a content is open, if it is.
    pub(crate) fn find(&self, version: ContentVersion, file: u16) -> Option<FileSlot> {
        let at = self.sorted.binary_search_by_key(&(version, file), |&(key, _)| key).ok()?;
        Some(FileSlot(self.sorted[at].1))
    }

    /// One more user of a file of `content`; its slot if it is the first and the file must be registered.
    pub(crate) fn open(&mut self, content: &Arc<Content>, file: u16) -> Option<FileSlot> {
        let key = (content.version, file);
        match self.sorted.binary_search_by_key(&key, |&(key, _)| key) {
            Ok(at) => {
                self.user(FileSlot(self.sorted[at].1));
                None
            }
            Err(at) => {
                let slot = self.free.pop().expect("as many files as streams and reads");
                self.sorted.insert(at, (key, slot));
                debug_assert!(self.is_summed(), "each slot is free or listed");
                self.entries[slot as usize] = Some(FileEntry { content: Arc::clone(content), file, users: 1 });
                Some(FileSlot(slot))
            }
        }
    }

    /// One more user of an open file.
    pub(crate) fn user(&mut self, slot: FileSlot) {
        self.entry(slot).users += 1;
    }

    /// One user less; the content if that was the last.
    pub(crate) fn release(&mut self, slot: FileSlot) -> Option<Arc<Content>> {
        let entry = self.entry(slot);
        entry.users -= 1;
        if entry.users > 0 {
            return None;
        }
        let entry = self.entries[slot.0 as usize].take()?;
        let key = (entry.content.version, entry.file);
        let at = self.sorted.binary_search_by_key(&key, |&(key, _)| key);
        self.sorted.remove(at.expect("an open file is listed"));
        self.free.push(slot.0);
        debug_assert!(self.is_summed(), "each slot is free or listed");
        Some(entry.content)
    }

    /// The content of the file that is open in a slot.
    pub(crate) fn content(&self, slot: FileSlot) -> &Arc<Content> {
        &self.entries[slot.0 as usize].as_ref().expect("the slot is in use").content
    }

    fn is_summed(&self) -> bool {
        self.sorted.len() + self.free.len() == self.entries.len() && self.sorted.is_sorted_by_key(|&(key, _)| key)
    }

    fn entry(&mut self, slot: FileSlot) -> &mut FileEntry {
        self.entries[slot.0 as usize].as_mut().expect("the slot is in use")
    }
}
