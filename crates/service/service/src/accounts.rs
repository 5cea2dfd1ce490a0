//! Accounts, and the rights that they and other clients have over folders.
//!
//! Promise: facts only; no answer depends on a request. Not here: verifying a password (`logins`), judging a request
//! (`access`).

use std::sync::{Arc, PoisonError, RwLock};

use crate::contents::ContentPath;

/// A right over a content, or over a folder and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read contents, list folders.
    Read,
    /// Store contents, make folders.
    Write,
    /// Remove contents and folders.
    Delete,
    /// Give others a link to contents.
    Share,
    /// Steer the server: streams, jobs, volumes, accounts.
    Administer,
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

/// Rights over a folder and everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderRights {
    /// The folder.
    pub folder: ContentPath,
    /// The rights.
    pub rights: Rights,
}

/// A holder of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder<'a> {
    /// All clients.
    Anybody,
    /// Programs on this machine.
    ThisMachine,
    /// The account of this name.
    Account(&'a str),
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// PHC string of an argon2 hash of its password.
    pub password_hash: String,
}

/// The store of accounts and rights. Called for each request that needs them: an implementation answers from memory.
pub trait Accounts: Send + Sync + 'static {
    /// The account of this name.
    fn account(&self, name: &str) -> Option<Account>;

    /// One of the accounts, whichever; none: there is no account. A login under an unknown name is verified against it, so that it takes
    /// as long.
    fn any(&self) -> Option<Account>;

    /// The rights of a holder.
    fn rights(&self, holder: Holder<'_>) -> Arc<[FolderRights]>;
}

impl Right {
    const fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Delete => 4,
            Self::Share => 8,
            Self::Administer => 16,
        }
    }
}

impl Rights {
    /// All rights.
    pub const ALL: Self = Self(31);

    /// These rights.
    #[must_use]
    pub fn of(rights: &[Right]) -> Self {
        Self(rights.iter().fold(0, |bits, right| bits | right.bit()))
    }

    /// True if the set has this right.
    #[must_use]
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }
}

impl FolderRights {
    /// True if `right` over `path` is among them.
    #[must_use]
    pub fn covers(&self, right: Right, path: &ContentPath) -> bool {
        self.rights.has(right) && path.lies_in(&self.folder)
    }
}

/// The accounts of a configuration file: everybody reads everything, and each account has all rights. While there is no account, programs
/// on this machine have all rights if the settings say so.
#[derive(Debug)]
pub struct ConfiguredAccounts {
    table: RwLock<AccountTable>,
    none: Arc<[FolderRights]>,
    read_all: Arc<[FolderRights]>,
    all: Arc<[FolderRights]>,
}

#[derive(Debug, Default)]
struct AccountTable {
    accounts: Vec<Account>,
    local_writes: bool,
}

impl Default for ConfiguredAccounts {
    fn default() -> Self {
        let over_all = |rights| Arc::from([FolderRights { folder: ContentPath::root(), rights }]);
        Self {
            table: RwLock::default(),
            none: Arc::from([]),
            read_all: over_all(Rights::of(&[Right::Read])),
            all: over_all(Rights::ALL),
        }
    }
}

impl ConfiguredAccounts {
    /// Puts other accounts in force, from the next request on: their names, and hashes of their passwords.
    pub fn configure(&self, users: &[(String, String)], local_writes: bool) {
        let account = |(name, password_hash): &(String, String)| Account {
            name: name.clone(),
            password_hash: password_hash.clone(),
        };
        let table = AccountTable { accounts: users.iter().map(account).collect(), local_writes };
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn read<T>(&self, read: impl FnOnce(&AccountTable) -> T) -> T {
        read(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Accounts for ConfiguredAccounts {
    fn account(&self, name: &str) -> Option<Account> {
        self.read(|table| table.accounts.iter().find(|account| account.name == name).cloned())
    }

    fn any(&self) -> Option<Account> {
        self.read(|table| table.accounts.first().cloned())
    }

    fn rights(&self, holder: Holder<'_>) -> Arc<[FolderRights]> {
        let has_all = |table: &AccountTable| match holder {
            Holder::Anybody => false,
            Holder::ThisMachine => table.accounts.is_empty() && table.local_writes,
            Holder::Account(name) => table.accounts.iter().any(|account| account.name == name),
        };
        let rights = match holder {
            Holder::Anybody => &self.read_all,
            _ if self.read(has_all) => &self.all,
            _ => &self.none,
        };
        Arc::clone(rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ContentPath {
        ContentPath::parse_encoded(text).expect("a path")
    }

    #[test]
    fn rights_cover_their_folder_and_everything_below() {
        let given = FolderRights { folder: path("/a/b"), rights: Rights::of(&[Right::Read, Right::Share]) };
        for (right, below, covered) in [
            (Right::Read, "/a/b", true),
            (Right::Read, "/a/b/c/d.ts", true),
            (Right::Share, "/a/b/c", true),
            (Right::Write, "/a/b/c", false),
            (Right::Read, "/a", false),
            (Right::Read, "/", false),
            (Right::Read, "/a/bc", false),
        ] {
            assert_eq!(given.covers(right, &path(below)), covered, "{right:?} {below}");
        }
        let all = FolderRights { folder: ContentPath::root(), rights: Rights::ALL };
        assert!(all.covers(Right::Administer, &ContentPath::root()) && all.covers(Right::Delete, &path("/x")));
    }
}
