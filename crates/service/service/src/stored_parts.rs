//! The parts of an upload that is continued: contents under hidden names in the folder of its target.

use crate::contents::ContentPath;

/// Parts of an upload at most: more would come of requests of a few bytes only.
pub(crate) const PARTS_MAX: usize = 100_000;

/// The parts of an upload, in their order.
#[derive(Debug, Default)]
pub(crate) struct StoredParts {
    id: String,
    /// The upload, the offset and the bytes of each.
    pub(crate) parts: Vec<(String, u64, u64)>,
    pub(crate) end: u64,
    /// They were looked up since the server's start.
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

    /// Puts the parts of another behind these.
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
