//! Viewers whose hold ran out, and what they held: for a while they come before newcomers.
//!
//! Promise: pure (the time is an argument) and bounded; what is remembered of a viewer serves one start, of no more than it
//! held. Not here: who earns it (`session`), what it is worth (the data plane). See decisions/0013.

use units::Nanos;

use crate::session::{Terms, Viewer};

/// Remembered at most; with one more the one that would be forgotten first is.
pub const RETURNS_MAX: usize = 1024;

/// A viewer's right to come before newcomers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precedence {
    /// What it held.
    pub terms: Terms,
    /// When the right ends.
    pub until: Nanos,
}

/// Who has such a right.
#[derive(Debug, Default)]
pub struct Returns {
    entries: Vec<(Viewer, Precedence)>,
}

impl Returns {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nobody has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Remembers a viewer.
    pub fn remember(&mut self, viewer: &Viewer, precedence: Precedence) {
        if self.entries.len() >= RETURNS_MAX {
            let ends_first = (0..self.entries.len()).min_by_key(|&at| self.entries[at].1.until);
            self.entries.swap_remove(ends_first.expect("there are as many as can be"));
        }
        self.entries.push((viewer.clone(), precedence));
    }

    /// Takes a right to these terms out, if the viewer has one.
    pub fn take(&mut self, viewer: &Viewer, terms: Terms, now: Nanos) -> Option<Precedence> {
        let serves =
            |(other, had): &(Viewer, Precedence)| other == viewer && had.until > now && had.terms.cover(&terms);
        let at = self.entries.iter().position(serves)?;
        Some(self.entries.swap_remove(at).1)
    }

    /// Forgets whose time is up.
    pub fn forget(&mut self, now: Nanos) {
        self.entries.retain(|(_, precedence)| precedence.until > now);
    }
}

#[cfg(test)]
mod tests {
    use units::{BitRate, DiskId, LinkId};

    use super::*;

    const TERMS: Terms = Terms { disk: DiskId(0), link: LinkId(0), rate: BitRate(8_800_000), burst_bytes: 1000 };
    const UNTIL: Nanos = Nanos::from_secs(600);

    fn named(id: usize) -> Viewer {
        Viewer::Named(id.to_string())
    }

    fn with_one() -> Returns {
        let mut returns = Returns::default();
        returns.remember(&named(1), Precedence { terms: TERMS, until: UNTIL });
        returns
    }

    #[test]
    fn it_serves_one_start_of_who_has_it_in_its_time() {
        assert_eq!(with_one().take(&named(2), TERMS, Nanos::ZERO), None, "who never held anything has nothing");
        assert_eq!(with_one().take(&named(1), TERMS, UNTIL), None, "its time is up");
        let mut returns = with_one();
        assert!(returns.take(&named(1), TERMS, UNTIL.saturating_sub(Nanos(1))).is_some());
        assert_eq!(returns.take(&named(1), TERMS, Nanos::ZERO), None, "it is used");
    }

    #[test]
    fn it_serves_no_more_than_was_held() {
        let other = [
            Terms { rate: BitRate(TERMS.rate.0 + 1), ..TERMS },
            Terms { disk: DiskId(1), ..TERMS },
            Terms { link: LinkId(1), ..TERMS },
            Terms { burst_bytes: TERMS.burst_bytes + 1, ..TERMS },
        ];
        for terms in other {
            assert_eq!(with_one().take(&named(1), terms, Nanos::ZERO), None, "{terms:?}");
        }
        let less = Terms { rate: BitRate(1), burst_bytes: 0, ..TERMS };
        assert_eq!(with_one().take(&named(1), less, Nanos::ZERO).map(|had| had.terms), Some(TERMS));
    }

    #[test]
    fn the_one_that_ends_first_makes_room() {
        let mut returns = Returns::default();
        for id in 0..=RETURNS_MAX {
            returns.remember(&named(id), Precedence { terms: TERMS, until: UNTIL + Nanos(id as u64) });
            assert!(returns.len() <= RETURNS_MAX);
        }
        assert_eq!(returns.take(&named(0), TERMS, Nanos::ZERO), None);
        assert!(returns.take(&named(1), TERMS, Nanos::ZERO).is_some());
        returns.forget(UNTIL + Nanos(RETURNS_MAX as u64 - 1));
        assert_eq!(returns.len(), 1, "all but the last are over");
    }
}
