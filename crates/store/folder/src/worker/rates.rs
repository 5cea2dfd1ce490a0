//! Finding the rate of a content by a container probe.

use std::io;

use content::Content;
use content::layout::ContentFile;
use rustix::fs::fstat;

use media::{MediaRate, ProbeBudget, ProbeError, probe};
use store::content_reader::ContentReader;
use store::entry::Stamp;
use store::{ContentPath, NameKind, StoreError};

use super::folders::Folders;

impl Folders {
    /// Finds and remembers the rate of a content, if that was not done yet.
    pub(super) fn find_rate(&self, root: usize, path: &ContentPath) -> Result<(), StoreError> {
        let root = self.root(root)?;
        let found = self.find(&root, path)?;
        if found.entry.kind == NameKind::File && self.common.index.rate(&Stamp::of(&found.stat)).is_none() {
            let content = self.content_of(&root, &found)?;
            self.rate_of(&content);
        }
        Ok(())
    }

    /// The rate of an open content: remembered, or looked for now and remembered. Nothing if it has none.
    pub(super) fn rate_of(&self, content: &Content) -> Option<MediaRate> {
        let before = Stamp::of(&fstat(&content.file().file).ok()?);
        if let Some(known) = self.common.index.rate(&before) {
            return known;
        }
        self.shared.stats.probes.add(1);
        let result = probe(&mut ContentReader::new(&content.layout, content.size, read_now), ProbeBudget::default());
        // A file that changes while it is looked into, or cannot be read just now, is looked into again.
        let unchanged = fstat(&content.file().file).is_ok_and(|stat| Stamp::of(&stat) == before);
        match result {
            Err(ProbeError::Io(_)) => None,
            result => {
                let rate = result.ok();
                if unchanged {
                    self.common.index.insert(&before, rate);
                }
                rate
            }
        }
    }
}

/// At once, outside the disk's schedule.
fn read_now(file: &ContentFile, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::pread(&file.file, buffer, position)?)
}
