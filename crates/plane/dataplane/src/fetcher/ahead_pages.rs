//! Marks of the pages that a delivery has read before their turn.

use units::limits::CACHE_PAGE_BYTES;

/// A delivery reads no farther ahead than this, for every stream has room for marks of this number of pages. Chosen: enough for seven disks
/// with units of 8 MiB.
pub(super) const AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Follows from that.
const MARKS: u64 = AHEAD_BYTES_MAX / CACHE_PAGE_BYTES;
/// Follows: marks of a word.
const BITS: u64 = 64;
/// Follows: words of marks.
const WORDS: usize = 4;
const _: () = assert!(MARKS == WORDS as u64 * BITS);

/// Marks of pages of one content, by their number: all within [`AHEAD_BYTES_MAX`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AheadPages([u64; WORDS]);

impl AheadPages {
    fn place(index: u64) -> (usize, u64) {
        let at = index % MARKS;
        (usize::try_from(at / BITS).expect("small"), 1 << (at % BITS))
    }

    pub(super) fn has(&self, index: u64) -> bool {
        let (word, bit) = Self::place(index);
        self.0[word] & bit != 0
    }

    pub(super) fn add(&mut self, index: u64) {
        let (word, bit) = Self::place(index);
        self.0[word] |= bit;
    }

    /// False if it was not marked.
    pub(super) fn remove(&mut self, index: u64) -> bool {
        let (word, bit) = Self::place(index);
        let had = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        had
    }

    pub(super) const fn is_empty(&self) -> bool {
        matches!(self.0, [0, 0, 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_pages_go_round() {
        let mut pages = AheadPages::default();
        for index in 200..400 {
            pages.add(index);
        }
        assert!(pages.has(200) && pages.has(399) && !pages.has(400) && !pages.has(199));
        assert!((200..400).all(|index| pages.remove(index)) && !pages.remove(300) && pages.is_empty());
    }
}
