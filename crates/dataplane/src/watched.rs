//! Whether a file is still the version that was opened.
//!
//! Promise: a file at rest counts as changed as soon as its time of modification or its size is another; a file that was
//! being written when it was opened may grow, and nothing else. Once changed is changed for good.
//! Not here: looking at files (`kernel::version_check`), and when that is done (`plane::fetch`): decision 0012.

use std::sync::{Mutex, PoisonError};

/// A file that was written within this time before it was looked at counts as one that somebody is writing.
const AT_REST_NANOS: u128 = 2_000_000_000;

/// What is seen of a file from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    modified_nanos: i128,
    size: u64,
}

impl Facts {
    /// From its time of modification (nanoseconds since 1970, negative before) and its size in bytes.
    #[must_use]
    pub const fn new(modified_nanos: i128, size: u64) -> Self {
        Self { modified_nanos, size }
    }
}

/// What a look says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes that were there at the opening are still there.
    Same,
    /// Written, and not longer yet: look again in a moment. A writer's time is set before its bytes are counted.
    Unsure,
    /// Another version.
    Changed,
}

/// What is known of an open file. The plane's thread never asks: there is a lock inside.
#[derive(Debug)]
pub struct Watched(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    facts: Facts,
    growing: bool,
    changed: bool,
}

impl Watched {
    /// A file as it was opened at `now_nanos` (since 1970).
    #[must_use]
    pub fn new(opened: Facts, now_nanos: i128) -> Self {
        Self(Mutex::new(Seen { facts: opened, growing: is_being_written(opened, now_nanos), changed: false }))
    }

    /// What `facts`, seen at `now_nanos`, say of the version that was opened.
    pub fn judge(&self, facts: Facts, now_nanos: i128) -> Verdict {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.changed {
            return Verdict::Changed;
        }
        if facts == seen.facts {
            seen.growing &= is_being_written(facts, now_nanos);
            return Verdict::Same;
        }
        if seen.growing && facts.size > seen.facts.size {
            seen.facts = facts;
            return Verdict::Same;
        }
        if seen.growing && facts.size == seen.facts.size {
            return Verdict::Unsure;
        }
        seen.changed = true;
        Verdict::Changed
    }

    /// It stayed [`Verdict::Unsure`] for too long.
    pub fn give_up(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).changed = true;
    }

    /// True while somebody may be adding to it: then it wants to be looked at now and then, whoever reads it.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.growing && !seen.changed
    }
}

fn is_being_written(facts: Facts, now_nanos: i128) -> bool {
    // A time far in the future is none.
    (now_nanos - facts.modified_nanos).unsigned_abs() < AT_REST_NANOS
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i128 = 1_000_000_000;

    #[test]
    fn a_file_at_rest_may_not_change_at_all() {
        let rest = || Watched::new(Facts::new(100 * S, 5000), 200 * S);
        let (same, later) = (Facts::new(100 * S, 5000), 201 * S);
        assert_eq!(rest().judge(same, later), Verdict::Same);
        for facts in [Facts::new(201 * S, 5000), Facts::new(201 * S, 6000), Facts::new(100 * S, 4999)] {
            let watched = rest();
            assert_eq!(watched.judge(facts, later), Verdict::Changed, "{facts:?}");
            assert_eq!(watched.judge(same, later), Verdict::Changed, "for good, whatever its times are set to");
        }
    }

    #[test]
    fn a_file_that_is_being_written_may_grow_and_only_that() {
        let watched = Watched::new(Facts::new(100 * S, 5000), 101 * S);
        assert!(watched.is_growing());
        assert_eq!(watched.judge(Facts::new(102 * S, 6000), 102 * S), Verdict::Same);
        assert_eq!(watched.judge(Facts::new(103 * S, 6000), 103 * S), Verdict::Unsure);
        assert_eq!(watched.judge(Facts::new(103 * S, 6001), 103 * S), Verdict::Same);
        assert_eq!(watched.judge(Facts::new(104 * S, 6000), 104 * S), Verdict::Changed, "shorter");
        assert!(!watched.is_growing());
        let watched = Watched::new(Facts::new(100 * S, 5000), 101 * S);
        watched.give_up();
        assert_eq!(watched.judge(Facts::new(100 * S, 5000), 101 * S), Verdict::Changed);
    }

    #[test]
    fn growing_ends_with_a_rest() {
        let watched = Watched::new(Facts::new(100 * S, 5000), 101 * S);
        assert_eq!(watched.judge(Facts::new(100 * S, 5000), 110 * S), Verdict::Same);
        assert!(!watched.is_growing());
        assert_eq!(watched.judge(Facts::new(111 * S, 9000), 111 * S), Verdict::Changed);
        assert!(!Watched::new(Facts::new(900 * S, 1), 100 * S).is_growing(), "a time in the future says nothing");
    }
}
