//! The parts of a resumable upload: contents under hidden names in the folder of its target.

use crate::contents::ContentPath;

/// Most parts of an upload: only requests of a few bytes each would make more.
pub(crate) const PARTS_MAX: usize = 100_000;

/// The parts of an upload, in their order.
#[derive(Debug, Default)]
pub(crate) struct StoredParts {
    id: String,
    /// The upload, and the offset and length of each part.
    pub(crate) parts: Vec<(String, u64, u64)>,
    pub(crate) end: u64,
    /// True if the parts were looked up since the server's start.
    pub(crate) is_known: bool,
}

impl StoredParts {
    pub(crate) fn of(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.parts.push((self.id.clone(), self.end, bytes));
        self.end += bytes;
    }

    /// Appends the parts of another upload.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.parts.extend(other.parts.iter().cloned());
        self.end += other.end;
    }

    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }
}

/// The path of the part of an upload that begins at `offset`.
pub(crate) fn part_path(target: &ContentPath, id: &str, offset: u64) -> ContentPath {
    target.reserved_sibling(&format!("{id}-{offset:016x}"))
}
