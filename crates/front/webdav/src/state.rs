//! Locks and dead properties as one state, and the changes by which it is kept.
//!
//! Promise: the same changes in the same order give the same state. Not here: keeping them.

use serde::{Deserialize, Serialize};

use crate::lock::{DavLock, LockTable};
use crate::property::DeadProperties;
use crate::xml::XmlElement;

/// Locks and dead properties.
#[derive(Debug, Default)]
pub struct DavState {
    /// The locks.
    pub locks: LockTable,
    /// The dead properties.
    pub properties: DeadProperties,
}

/// A change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DavChange {
    /// A lock was made or refreshed.
    Locked(DavLock),
    /// A lock ended.
    Unlocked {
        /// Its root.
        root: String,
        /// Its token.
        token: String,
    },
    /// A resource has these dead properties.
    Properties {
        /// Its path.
        path: String,
        /// All of them.
        properties: Vec<XmlElement>,
    },
    /// A resource, with all below it, has another path.
    Moved {
        /// Before.
        from: String,
        /// Now.
        to: String,
    },
    /// A resource was copied.
    Copied {
        /// Its path.
        from: String,
        /// That of the copy.
        to: String,
        /// With all below it.
        is_deep: bool,
    },
    /// A resource, with all below it, is gone.
    Removed {
        /// Its path.
        path: String,
    },
}

impl DavState {
    /// Makes a change. Locks stay where they are when resources move (RFC 4918 §7.5, §7.6).
    pub fn apply(&mut self, change: DavChange) {
        match change {
            DavChange::Locked(lock) => self.locks.replace(lock),
            DavChange::Unlocked { root, token } => self.locks.remove(&root, &token),
            DavChange::Properties { path, properties } => self.properties.set(&path, properties),
            DavChange::Moved { from, to } => {
                self.locks.remove_tree(&from);
                self.properties.move_tree(&from, &to);
            }
            DavChange::Copied { from, to, is_deep } => self.properties.copy_tree(&from, &to, is_deep),
            DavChange::Removed { path } => {
                self.locks.remove_tree(&path);
                self.properties.remove_tree(&path);
            }
        }
    }

    /// True if there is a lock or a dead property at `path` or below it.
    #[must_use]
    pub fn knows(&self, path: &str) -> bool {
        self.locks.has_below(path) || self.properties.has_below(path)
    }

    /// The changes that make this state of an empty one.
    pub fn changes(&self) -> impl Iterator<Item = DavChange> {
        let locks = self.locks.all().cloned().map(DavChange::Locked);
        let properties = self
            .properties
            .all()
            .map(|(path, properties)| DavChange::Properties { path: path.to_owned(), properties: properties.to_vec() });
        locks.chain(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{LockScope, UnixSeconds};
    use crate::xml::XmlName;

    #[test]
    fn a_state_is_made_again_of_its_changes() {
        let lock = |root: &str| DavLock {
            token: format!("t:{root}"),
            root: root.to_owned(),
            scope: LockScope::Exclusive,
            is_deep: false,
            owner: None,
            holder: None,
            seconds: 1,
            expires: UnixSeconds(5),
        };
        let mut state = DavState::default();
        for root in ["a", "b/c", "d"] {
            state.apply(DavChange::Locked(lock(root)));
        }
        state.apply(DavChange::Properties {
            path: "b/c".to_owned(),
            properties: vec![XmlElement::new(XmlName::dav("x"))],
        });
        state.apply(DavChange::Moved { from: "b".to_owned(), to: "d".to_owned() });
        state.apply(DavChange::Removed { path: "a".to_owned() });
        let changes: Vec<_> = state.changes().collect();
        let kept: Vec<_> = changes.iter().map(|change| serde_json::to_string(change).unwrap()).collect();
        let mut again = DavState::default();
        kept.iter().for_each(|line| again.apply(serde_json::from_str(line).unwrap()));
        assert_eq!(again.changes().collect::<Vec<_>>(), changes);
        let roots: Vec<_> = again.locks.all().map(|lock| lock.root.as_str()).collect();
        assert_eq!((roots, again.properties.of("d/c").len()), (vec!["d"], 1));
    }
}
