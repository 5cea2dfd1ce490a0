//! Watch on a file: it must stay the version that was opened.
//!
//! Promise: a file at rest counts as changed as soon as its time of modification or its size is another, unless it is known
//! that the time was set and nothing written; a file that was being written when it was opened may grow, and nothing else.
//! Once changed is changed for good.
//! Not here: looks at files (`kernel::version_check`), and the times of looks (`fetcher`): decision 0012.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, mem};

/// A file that was written within this time before a look counts as being written. Decision 0012.
const AT_REST_NANOS: u128 = 2_000_000_000;

/// The fields of `stat` by which a version of a file is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    modified_nanos: i128,
    size: u64,
}

impl FileStat {
    /// A stat with this time of modification (nanoseconds since 1970, negative before) and this size in bytes.
    #[must_use]
    pub const fn new(modified_nanos: i128, size: u64) -> Self {
        Self { modified_nanos, size }
    }
}

/// Verdict of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeVerdict {
    /// The bytes that were there at the opening are still there.
    Same,
    /// Its time is another and the reason not known yet: look again in a moment. The kernel sets the time of a write before
    /// it counts the bytes and before it reports the write.
    Unsure,
    /// Another version.
    Changed,
}

/// Counts of the changes to a file since the start of its watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Writes to its bytes.
    pub writes: u64,
    /// Settings of its times, permissions, owner or links (`touch`, `chmod`, a backup).
    pub settings: u64,
}

/// Counter of the changes to a file.
pub trait ChangeCounter: fmt::Debug + Send + Sync {
    /// Returns all changes up to now. None if one may have been missed.
    fn changes(&self) -> Option<Changes>;
}

/// State of an open file's version. The plane's thread never uses it: there is a lock inside.
#[derive(Debug)]
pub struct WatchedContent {
    seen: Mutex<Seen>,
    counter: Option<Box<dyn ChangeCounter>>,
}

#[derive(Debug)]
struct Seen {
    stat: FileStat,
    /// None without a counter, or without a reliable count.
    changes: Option<Changes>,
    growing: bool,
    changed: bool,
}

impl WatchedContent {
    /// The watch of a file that was opened at `now_nanos` (since 1970).
    #[must_use]
    pub fn new(opened: FileStat, now_nanos: i128) -> Self {
        let growing = is_being_written(opened, now_nanos);
        Self { seen: Mutex::new(Seen { stat: opened, changes: None, growing, changed: false }), counter: None }
    }

    /// The same, with a counter that distinguishes settings from writes and stood at `begun` before the look at the file.
    #[must_use]
    pub fn counted_by(mut self, counter: Box<dyn ChangeCounter>, begun: Changes) -> Self {
        self.seen.get_mut().unwrap_or_else(PoisonError::into_inner).changes = Some(begun);
        self.counter = Some(counter);
        self
    }

    /// Returns the changes up to now. Call it before `stat`, so that each counted setting is in the time that `stat` returns.
    pub fn changes(&self) -> Option<Changes> {
        self.counter.as_ref()?.changes()
    }

    /// Judges the version that was opened, by `changes` and then `stat`, seen at `now_nanos`.
    pub fn judge(&self, changes: Option<Changes>, stat: FileStat, now_nanos: i128) -> ChangeVerdict {
        let mut seen = self.lock();
        if seen.changed {
            return ChangeVerdict::Changed;
        }
        let before = mem::replace(&mut seen.changes, changes);
        let (was_written, was_set) = match before.zip(changes) {
            Some((before, now)) => (now.writes > before.writes, now.settings > before.settings),
            None => (false, false),
        };
        if was_written && !seen.growing {
            seen.changed = true;
            return ChangeVerdict::Changed;
        }
        if stat == seen.stat {
            seen.growing &= is_being_written(stat, now_nanos);
            return ChangeVerdict::Same;
        }
        if seen.growing && stat.size > seen.stat.size {
            seen.stat = stat;
            return ChangeVerdict::Same;
        }
        if stat.size == seen.stat.size {
            if was_set && !was_written {
                seen.stat = stat;
                return ChangeVerdict::Same;
            }
            if seen.growing || changes.is_some() {
                return ChangeVerdict::Unsure;
            }
        }
        seen.changed = true;
        ChangeVerdict::Changed
    }

    /// Marks the file as changed, after too many verdicts of [`ChangeVerdict::Unsure`].
    pub fn give_up(&self) {
        self.lock().changed = true;
    }

    /// True while a writer may be extending it: then it needs a look now and then, also without readers.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        let seen = self.lock();
        seen.growing && !seen.changed
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_being_written(stat: FileStat, now_nanos: i128) -> bool {
    // A time far in the future is none.
    (now_nanos - stat.modified_nanos).unsigned_abs() < AT_REST_NANOS
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i128 = 1_000_000_000;

    #[test]
    fn a_file_at_rest_may_not_change_at_all() {
        let rest = || WatchedContent::new(FileStat::new(100 * S, 5000), 200 * S);
        let (same, later) = (FileStat::new(100 * S, 5000), 201 * S);
        assert_eq!(rest().judge(None, same, later), ChangeVerdict::Same);
        for stat in [FileStat::new(201 * S, 5000), FileStat::new(201 * S, 6000), FileStat::new(100 * S, 4999)] {
            let watched = rest();
            assert_eq!(watched.judge(None, stat, later), ChangeVerdict::Changed, "{stat:?}");
            assert_eq!(
                watched.judge(None, same, later),
                ChangeVerdict::Changed,
                "for good, whatever its times are set to"
            );
        }
    }

    #[test]
    fn a_file_that_is_being_written_may_grow_and_only_that() {
        let watched = WatchedContent::new(FileStat::new(100 * S, 5000), 101 * S);
        assert!(watched.is_growing());
        assert_eq!(watched.judge(None, FileStat::new(102 * S, 6000), 102 * S), ChangeVerdict::Same);
        assert_eq!(watched.judge(None, FileStat::new(103 * S, 6000), 103 * S), ChangeVerdict::Unsure);
        assert_eq!(watched.judge(None, FileStat::new(103 * S, 6001), 103 * S), ChangeVerdict::Same);
        assert_eq!(watched.judge(None, FileStat::new(104 * S, 6000), 104 * S), ChangeVerdict::Changed, "shorter");
        assert!(!watched.is_growing());
        let watched = WatchedContent::new(FileStat::new(100 * S, 5000), 101 * S);
        watched.give_up();
        assert_eq!(watched.judge(None, FileStat::new(100 * S, 5000), 101 * S), ChangeVerdict::Changed);
    }

    #[test]
    fn a_set_time_is_no_change_and_an_unset_one_is_checked_again() {
        #[derive(Debug)]
        struct Uncounted;
        impl ChangeCounter for Uncounted {
            fn changes(&self) -> Option<Changes> {
                None
            }
        }
        let rest = || {
            WatchedContent::new(FileStat::new(100 * S, 5000), 200 * S)
                .counted_by(Box::new(Uncounted), Changes::default())
        };
        let done = |writes, settings| Some(Changes { writes, settings });
        let (old, new) = (FileStat::new(100 * S, 5000), FileStat::new(201 * S, 5000));
        let watched = rest();
        assert_eq!(watched.judge(done(0, 1), new, 201 * S), ChangeVerdict::Same, "touched");
        assert_eq!(watched.judge(done(0, 1), new, 202 * S), ChangeVerdict::Same);
        assert_eq!(
            watched.judge(done(0, 1), FileStat::new(203 * S, 5000), 203 * S),
            ChangeVerdict::Unsure,
            "nobody is known"
        );
        assert_eq!(watched.judge(done(0, 2), FileStat::new(203 * S, 5000), 203 * S), ChangeVerdict::Same, "told later");
        assert_eq!(
            watched.judge(done(1, 3), FileStat::new(204 * S, 5000), 204 * S),
            ChangeVerdict::Changed,
            "written as well"
        );
        assert_eq!(watched.judge(done(1, 3), old, 205 * S), ChangeVerdict::Changed, "for good");
        assert_eq!(rest().judge(done(1, 0), old, 201 * S), ChangeVerdict::Changed, "written, and its time set back");
        assert_eq!(
            rest().judge(done(0, 1), FileStat::new(201 * S, 5001), 201 * S),
            ChangeVerdict::Changed,
            "another size"
        );
        assert_eq!(rest().judge(None, new, 201 * S), ChangeVerdict::Changed, "events were lost");
        let watched = rest();
        assert_eq!(watched.judge(done(0, 1), old, 201 * S), ChangeVerdict::Same, "its permissions were set");
        assert_eq!(watched.judge(done(0, 1), new, 202 * S), ChangeVerdict::Unsure, "which explains no later time");
    }

    #[test]
    fn growing_ends_with_a_rest() {
        let watched = WatchedContent::new(FileStat::new(100 * S, 5000), 101 * S);
        assert_eq!(watched.judge(None, FileStat::new(100 * S, 5000), 110 * S), ChangeVerdict::Same);
        assert!(!watched.is_growing());
        assert_eq!(watched.judge(None, FileStat::new(111 * S, 9000), 111 * S), ChangeVerdict::Changed);
        assert!(
            !WatchedContent::new(FileStat::new(900 * S, 1), 100 * S).is_growing(),
            "a time in the future says nothing"
        );
    }
}
