//! The table of locks (RFC 4918 §6, §7): a state machine over paths.
//!
//! Promise: no two locks that exclude each other hold at one time; at most [`LOCKS_MAX`] in all and [`HOLDER_LOCKS_MAX`] of one holder; a
//! lock ends at its time. A path is its names with slashes between them, the root is empty. Not here: the clock and the making of tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::path::{is_below, parents, range_below};
use crate::xml::XmlElement;

/// Most locks at once.
pub const LOCKS_MAX: usize = 4096;
/// Most locks of one holder.
pub const HOLDER_LOCKS_MAX: usize = 1024;

/// Seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixSeconds(pub u64);

/// Whether other locks may lie on the same resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockScope {
    /// None.
    Exclusive,
    /// Other shared ones.
    Shared,
}

/// A lock for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DavLock {
    /// Its name, a URI that no other lock ever has.
    pub token: String,
    /// Path of the resource that was locked.
    pub root: String,
    /// Exclusive or shared.
    pub scope: LockScope,
    /// It covers everything below its root, too.
    pub is_deep: bool,
    /// The client's words on itself.
    pub owner: Option<XmlElement>,
    /// The account that may use it; none: any client that has the right to write without a login.
    pub holder: Option<String>,
    /// Its time from the last refresh on, in seconds.
    pub seconds: u64,
    /// Its end.
    pub expires: UnixSeconds,
}

/// Reason for which a lock is not made, refreshed or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Another lock excludes it; with the path of that.
    #[error("another lock is on `{0}`")]
    Conflict(String),
    /// There are as many as there may be.
    #[error("there are as many locks as there may be: 4096, of one user 1024")]
    TooMany,
    /// No lock with this token covers the path.
    #[error("no lock with this token is on this path")]
    Unknown,
    /// Another account's.
    #[error("this lock is another user's")]
    OtherHolder,
}

/// The tokens that a request submits, and the account that it has its right by.
#[derive(Debug, Clone, Copy)]
pub struct Submitted<'a> {
    /// The tokens.
    pub tokens: &'a [&'a str],
    /// The account.
    pub holder: Option<&'a str>,
}

impl Submitted<'_> {
    fn has(&self, lock: &DavLock) -> bool {
        self.holder == lock.holder.as_deref() && self.tokens.contains(&lock.token.as_str())
    }
}

/// All locks.
#[derive(Debug, Default)]
pub struct LockTable {
    by_root: BTreeMap<String, Vec<DavLock>>,
    /// How many of them each holder has.
    of_holders: BTreeMap<Option<String>, usize>,
    count: usize,
    /// No lock ends before this; none: there was none yet.
    first_end: Option<UnixSeconds>,
}

impl LockTable {
    /// Forgets the locks whose time is over.
    pub fn expire(&mut self, now: UnixSeconds) {
        if self.first_end.is_none_or(|end| end > now) {
            return;
        }
        self.retain(|lock| lock.expires > now);
        self.first_end = self.all().map(|lock| lock.expires).min();
    }

    fn retain(&mut self, mut keeps: impl FnMut(&DavLock) -> bool) {
        let Self { by_root, of_holders, count, .. } = self;
        by_root.retain(|_, locks| {
            locks.retain(|lock| {
                let is_kept = keeps(lock);
                if !is_kept {
                    uncount(of_holders, count, lock);
                }
                is_kept
            });
            !locks.is_empty()
        });
    }

    /// Adds a lock.
    ///
    /// # Errors
    /// [`LockError::Conflict`], [`LockError::TooMany`].
    pub fn add(&mut self, lock: DavLock) -> Result<(), LockError> {
        let is_excluded = |other: &&DavLock| LockScope::Exclusive == lock.scope || LockScope::Exclusive == other.scope;
        let below = lock.is_deep.then(|| self.below(&lock.root));
        if let Some(other) = self.covering(&lock.root).chain(below.into_iter().flatten()).find(is_excluded) {
            return Err(LockError::Conflict(other.root.clone()));
        }
        let of_holder = self.of_holders.get(&lock.holder).copied().unwrap_or(0);
        if self.count >= LOCKS_MAX || of_holder >= HOLDER_LOCKS_MAX {
            return Err(LockError::TooMany);
        }
        self.enter(lock);
        Ok(())
    }

    fn enter(&mut self, lock: DavLock) {
        self.count += 1;
        self.first_end = Some(self.first_end.map_or(lock.expires, |end| end.min(lock.expires)));
        *self.of_holders.entry(lock.holder.clone()).or_default() += 1;
        self.by_root.entry(lock.root.clone()).or_default().push(lock);
    }

    /// The lock with this token that covers `path`, for its holder.
    ///
    /// # Errors
    /// [`LockError::Unknown`], [`LockError::OtherHolder`].
    pub fn find(&self, path: &str, token: &str, holder: Option<&str>) -> Result<&DavLock, LockError> {
        let found = self.covering(path).find(|lock| lock.token == token).ok_or(LockError::Unknown)?;
        if found.holder.as_deref() == holder { Ok(found) } else { Err(LockError::OtherHolder) }
    }

    /// Puts a lock in the place of the one with the same root and token.
    pub fn replace(&mut self, lock: DavLock) {
        self.remove(&lock.root, &lock.token);
        self.enter(lock);
    }

    /// Removes the lock with this root and token.
    pub fn remove(&mut self, root: &str, token: &str) {
        let Some(locks) = self.by_root.get_mut(root) else { return };
        for lock in locks.extract_if(.., |lock| lock.token == token) {
            uncount(&mut self.of_holders, &mut self.count, &lock);
        }
        if locks.is_empty() {
            self.by_root.remove(root);
        }
    }

    /// Removes all locks on `path` and below it: its resource is gone.
    pub fn remove_tree(&mut self, path: &str) {
        self.retain(|lock| !is_below(&lock.root, path));
    }

    /// The locks that cover `path`: its own, and those of folders above it with infinite depth.
    pub fn covering<'a, 'p>(&'a self, path: &'p str) -> impl Iterator<Item = &'a DavLock> + use<'a, 'p> {
        let own = self.by_root.get(path).into_iter().flatten();
        let above = parents(path).filter_map(|above| self.by_root.get(above)).flatten();
        own.chain(above.filter(|lock| lock.is_deep))
    }

    /// The locks below `path`, without its own.
    fn below(&self, path: &str) -> impl Iterator<Item = &DavLock> + use<'_> {
        self.by_root.range(range_below(path)).flat_map(|(_, locks)| locks)
    }

    /// True if there is a lock on `path` or below it.
    pub(crate) fn has_below(&self, path: &str) -> bool {
        self.by_root.contains_key(path) || self.below(path).next().is_some()
    }

    /// All locks.
    pub fn all(&self) -> impl Iterator<Item = &DavLock> {
        self.by_root.values().flatten()
    }

    /// Whether a request may change the resource at `path`, and if `tree`, all below it.
    ///
    /// # Errors
    /// The root of a lock whose token it has to submit.
    pub fn may_change(&self, path: &str, tree: bool, submitted: Submitted<'_>) -> Result<(), String> {
        allows(self.covering(path), submitted)?;
        if !tree {
            return Ok(());
        }
        let mut below = self.by_root.range(range_below(path)).map(|(root, _)| root);
        below.try_for_each(|root| allows(self.covering(root), submitted))
    }
}

/// A lock is gone.
fn uncount(of_holders: &mut BTreeMap<Option<String>, usize>, count: &mut usize, lock: &DavLock) {
    *count -= 1;
    let left = of_holders.get_mut(&lock.holder).expect("each lock is counted");
    *left -= 1;
    if *left == 0 {
        of_holders.remove(&lock.holder);
    }
}

/// Of shared locks on one resource, one token is enough (RFC 4918 §6.2).
fn allows<'a>(locks: impl Iterator<Item = &'a DavLock>, submitted: Submitted<'_>) -> Result<(), String> {
    let mut missing = None;
    for lock in locks {
        if submitted.has(lock) {
            return Ok(());
        }
        missing = missing.or_else(|| Some(lock.root.clone()));
    }
    missing.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock(root: &str, scope: LockScope, is_deep: bool, number: usize) -> DavLock {
        DavLock {
            token: format!("t:{number}"),
            root: root.to_owned(),
            scope,
            is_deep,
            owner: None,
            holder: None,
            seconds: 10,
            expires: UnixSeconds(10),
        }
    }

    const NONE: Submitted<'_> = Submitted { tokens: &[], holder: None };

    #[test]
    fn a_deep_lock_covers_all_below_it() {
        let mut table = LockTable::default();
        table.add(lock("a", LockScope::Exclusive, true, 1)).unwrap();
        for path in ["a", "a/b", "a/b/c"] {
            assert_eq!(table.may_change(path, false, NONE), Err("a".to_owned()), "{path}");
            assert_eq!(table.add(lock(path, LockScope::Shared, false, 2)), Err(LockError::Conflict("a".to_owned())));
        }
        assert_eq!((table.may_change("ab", true, NONE), table.may_change("", false, NONE)), (Ok(()), Ok(())));
        assert_eq!(table.may_change("", true, NONE), Err("a".to_owned()), "the tree of the root");
        assert_eq!(table.add(lock("", LockScope::Exclusive, true, 2)), Err(LockError::Conflict("a".to_owned())));
        let mine = Submitted { tokens: &["t:0", "t:1"], holder: None };
        assert_eq!(table.may_change("a/b", true, mine), Ok(()));
        assert_eq!(table.may_change("a/b", true, Submitted { holder: Some("eve"), ..mine }), Err("a".to_owned()));
        table.add(lock("", LockScope::Exclusive, false, 2)).unwrap();
        assert_eq!(table.may_change("x", true, NONE), Ok(()), "a shallow lock covers its resource");
    }

    #[test]
    fn shared_locks_coexist_and_one_token_is_enough() {
        let mut table = LockTable::default();
        table.add(lock("a", LockScope::Shared, false, 1)).unwrap();
        table.add(lock("a", LockScope::Shared, false, 2)).unwrap();
        assert_eq!(table.add(lock("a", LockScope::Exclusive, false, 3)), Err(LockError::Conflict("a".to_owned())));
        assert_eq!(table.may_change("a", false, Submitted { tokens: &["t:2"], holder: None }), Ok(()));
        assert_eq!(table.may_change("a", false, NONE), Err("a".to_owned()));
        table.remove("a", "t:1");
        table.remove("a", "t:2");
        assert_eq!((table.may_change("a", false, NONE), table.count), (Ok(()), 0));
    }

    #[test]
    fn a_lock_is_found_refreshed_and_ends() {
        let mut table = LockTable::default();
        let held = DavLock { holder: Some("ada".to_owned()), ..lock("a", LockScope::Exclusive, true, 1) };
        table.add(held.clone()).unwrap();
        assert_eq!(table.find("a/b", "t:1", Some("ada")), Ok(&held));
        assert_eq!(table.find("a", "t:1", None), Err(LockError::OtherHolder));
        assert_eq!(table.find("b", "t:1", Some("ada")), Err(LockError::Unknown));
        table.replace(DavLock { expires: UnixSeconds(20), ..held });
        table.expire(UnixSeconds(19));
        assert_eq!(table.all().count(), 1);
        table.expire(UnixSeconds(20));
        assert_eq!((table.all().count(), table.count), (0, 0));
    }

    #[test]
    fn locks_are_bounded() {
        let mut table = LockTable::default();
        for number in 0..=LOCKS_MAX {
            let holder = Some((number / HOLDER_LOCKS_MAX).to_string());
            let made = table.add(DavLock { holder, ..lock(&number.to_string(), LockScope::Exclusive, false, number) });
            assert_eq!(made, if number < LOCKS_MAX { Ok(()) } else { Err(LockError::TooMany) });
        }
        table.remove_tree("");
        for number in 0..=HOLDER_LOCKS_MAX {
            let made = table.add(lock(&number.to_string(), LockScope::Exclusive, false, number));
            assert_eq!(made.is_ok(), number < HOLDER_LOCKS_MAX);
        }
    }

    proptest! {
        /// An exclusive lock shares no resource with another lock, and the count is that of the locks.
        #[test]
        fn exclusive_locks_exclude(steps in prop::collection::vec((0..6_usize, any::<bool>(), any::<bool>(), 0..4_u8), 1..40)) {
            let paths = ["", "a", "a/b", "a/b/c", "ab", "d"];
            let mut table = LockTable::default();
            for (number, (path, exclusive, is_deep, step)) in steps.into_iter().enumerate() {
                let scope = if exclusive { LockScope::Exclusive } else { LockScope::Shared };
                match step {
                    0 => table.remove_tree(paths[path]),
                    _ => drop(table.add(lock(paths[path], scope, is_deep, number))),
                }
                prop_assert_eq!(table.count, table.all().count());
                prop_assert_eq!(table.of_holders.values().sum::<usize>(), table.count);
                for path in paths {
                    let covering: Vec<_> = table.covering(path).collect();
                    prop_assert!(covering.len() < 2 || covering.iter().all(|lock| lock.scope == LockScope::Shared));
                }
            }
        }
    }
}
