//! Permits: each call that reads or changes something takes one, and only this module makes them.
//!
//! Promise: a permit names a right, a path and the account that used it, and a call works on the path of its permit, so that no check
//! can be forgotten or be for another path (decision 0064). Not here: rights of accounts (`accounts`), proof of an account (the
//! front ends, `logins`).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::accounts::{Accounts, Holder, Right};
use crate::contents::ContentPath;

/// The source of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A program on this machine that speaks for no other client.
    Local,
    /// Not known to be one; with the reason.
    Remote(&'static str),
    /// A client that proved to be this account.
    Account(AccountName),
}

/// The name of an account with a right login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName(Arc<str>);

impl AccountName {
    pub(crate) fn proven(name: &str) -> Self {
        Self(name.into())
    }
}

/// The reason why a permit is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// An account may have the right.
    #[error("{0} need a user's name and password")]
    UserNeeded(RightUses),
    /// There is no account, and programs on this machine do not have the right either.
    #[error("no client may do that here: configure a user, or start the server with --local-writes")]
    NobodyMay,
    /// There is no account, and only programs on this machine have the right; with the reason why this is none.
    #[error("without configured users, {0} {1}; configure a user")]
    LocalOnly(RightUses, &'static str),
    /// The account does not have the right.
    #[error("this user has no right to such {0} here")]
    NoRight(RightUses),
}

/// Uses of a right, as texts name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RightUses(Right);

impl fmt::Display for RightUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Right::Read => "reads",
            Right::Write | Right::Delete | Right::Administer => "writes",
            Right::Share => "shares",
        })
    }
}

/// A right as a type, so that a permit for another is not taken.
pub trait RightKind {
    /// The right.
    const RIGHT: Right;
}

/// A right over one path.
pub trait PathRight: RightKind {}

/// A right over the whole server: over the root folder.
pub trait ServerRight: RightKind {}

/// Read or list.
#[derive(Debug, Clone, Copy)]
pub struct ToRead;
/// Store.
#[derive(Debug, Clone, Copy)]
pub struct ToWrite;
/// Remove.
#[derive(Debug, Clone, Copy)]
pub struct ToDelete;
/// See figures, streams and events: for those that may read everything.
#[derive(Debug, Clone, Copy)]
pub struct ToObserve;
/// Steer streams, jobs and volumes.
#[derive(Debug, Clone, Copy)]
pub struct ToAdminister;

impl RightKind for ToRead {
    const RIGHT: Right = Right::Read;
}
impl RightKind for ToWrite {
    const RIGHT: Right = Right::Write;
}
impl RightKind for ToDelete {
    const RIGHT: Right = Right::Delete;
}
impl RightKind for ToObserve {
    const RIGHT: Right = Right::Read;
}
impl RightKind for ToAdminister {
    const RIGHT: Right = Right::Administer;
}
impl PathRight for ToRead {}
impl PathRight for ToWrite {}
impl PathRight for ToDelete {}
impl ServerRight for ToObserve {}
impl ServerRight for ToAdminister {}

/// Leave to use the right `R` over a path.
#[derive(Debug, Clone)]
pub struct Permit<R> {
    path: ContentPath,
    account: Option<AccountName>,
    right: PhantomData<R>,
}

impl<R: RightKind> Permit<R> {
    const fn new(path: ContentPath, account: Option<AccountName>) -> Self {
        Self { path, account, right: PhantomData }
    }

    /// The path.
    #[must_use]
    pub const fn path(&self) -> &ContentPath {
        &self.path
    }

    /// The account that has the right; none: no login was needed.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.account.as_ref().map(|name| &*name.0)
    }
}

impl<R: PathRight> Permit<R> {
    /// For work that the configuration has the server do by itself, over `path`.
    #[must_use]
    pub const fn of_configuration(path: ContentPath) -> Self {
        Self::new(path, None)
    }
}

impl<R: ServerRight> Permit<R> {
    /// For work that the configuration has the server do by itself.
    #[must_use]
    pub fn of_server() -> Self {
        Self::new(ContentPath::root(), None)
    }
}

/// Whether `principal` has the right `R` over `path`.
///
/// # Errors
/// Why not.
pub(crate) fn permit<R: RightKind>(
    accounts: &dyn Accounts,
    principal: &Principal,
    path: &ContentPath,
) -> Result<Permit<R>, Denied> {
    let may = |holder| accounts.rights(holder).iter().any(|given| given.covers(R::RIGHT, path));
    if may(Holder::Anybody) || (*principal == Principal::Local && may(Holder::ThisMachine)) {
        return Ok(Permit::new(path.clone(), None));
    }
    let uses = RightUses(R::RIGHT);
    match principal {
        Principal::Account(name) if may(Holder::Account(&name.0)) => Ok(Permit::new(path.clone(), Some(name.clone()))),
        Principal::Account(_) => Err(Denied::NoRight(uses)),
        _ if accounts.any().is_some() => Err(Denied::UserNeeded(uses)),
        Principal::Remote(why) if may(Holder::ThisMachine) => Err(Denied::LocalOnly(uses, why)),
        Principal::Remote(_) | Principal::Local => Err(Denied::NobodyMay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{Account, ConfiguredAccounts, FolderRights, Rights};

    const FAR: Principal = Principal::Remote("from afar");

    fn path(text: &str) -> ContentPath {
        ContentPath::parse_encoded(text).expect("a path")
    }

    fn user(name: &str) -> Principal {
        Principal::Account(AccountName::proven(name))
    }

    /// Whether the right is permitted, or the reason why not.
    fn judged<R: RightKind>(
        accounts: &dyn Accounts,
        principal: &Principal,
        over: &str,
    ) -> Result<Option<String>, Denied> {
        let permit = permit::<R>(accounts, principal, &path(over))?;
        assert_eq!(permit.path(), &path(over));
        Ok(permit.user().map(str::to_owned))
    }

    #[test]
    fn configured_accounts_have_all_rights_and_the_others_read() {
        let accounts = ConfiguredAccounts::default();
        for principal in [Principal::Local, FAR, user("ada")] {
            assert_eq!(judged::<ToRead>(&accounts, &principal, "/a"), Ok(None));
            assert_eq!(judged::<ToObserve>(&accounts, &principal, "/"), Ok(None));
        }
        let writes = RightUses(Right::Write);
        assert_eq!(judged::<ToWrite>(&accounts, &Principal::Local, "/a"), Err(Denied::NobodyMay));
        assert_eq!(judged::<ToWrite>(&accounts, &FAR, "/a"), Err(Denied::NobodyMay));
        accounts.configure(&[], true);
        assert_eq!(judged::<ToWrite>(&accounts, &Principal::Local, "/a"), Ok(None));
        assert_eq!(judged::<ToAdminister>(&accounts, &Principal::Local, "/"), Ok(None));
        assert_eq!(judged::<ToWrite>(&accounts, &FAR, "/a"), Err(Denied::LocalOnly(writes, "from afar")));
        accounts.configure(&[("ada".to_owned(), String::new())], true);
        for principal in [Principal::Local, FAR] {
            assert_eq!(judged::<ToWrite>(&accounts, &principal, "/a"), Err(Denied::UserNeeded(writes)));
        }
        assert_eq!(judged::<ToWrite>(&accounts, &user("ada"), "/a"), Ok(Some("ada".to_owned())));
        assert_eq!(judged::<ToDelete>(&accounts, &user("ada"), "/a"), Ok(Some("ada".to_owned())));
        assert_eq!(judged::<ToWrite>(&accounts, &user("eve"), "/a"), Err(Denied::NoRight(writes)), "she was removed");
    }

    /// `ada` reads and writes below `/a`; no other account has a right.
    struct OneFolder;

    impl Accounts for OneFolder {
        fn account(&self, _name: &str) -> Option<Account> {
            self.any()
        }

        fn any(&self) -> Option<Account> {
            Some(Account { name: "ada".to_owned(), password_hash: String::new() })
        }

        fn rights(&self, holder: Holder<'_>) -> Arc<[FolderRights]> {
            let rights = Rights::of(&[Right::Read, Right::Write]);
            let given = FolderRights { folder: path("/a"), rights };
            if holder == Holder::Account("ada") { Arc::from([given]) } else { Arc::from([]) }
        }
    }

    #[test]
    fn rights_over_a_folder_end_there() {
        let ada = user("ada");
        let permitted = Ok(Some("ada".to_owned()));
        assert_eq!(judged::<ToRead>(&OneFolder, &ada, "/a/film.ts"), permitted);
        assert_eq!(judged::<ToWrite>(&OneFolder, &ada, "/a"), permitted);
        assert!(judged::<ToDelete>(&OneFolder, &ada, "/a/film.ts").is_err(), "she may not remove");
        assert!(judged::<ToRead>(&OneFolder, &ada, "/b").is_err(), "nor read elsewhere");
        assert!(judged::<ToObserve>(&OneFolder, &ada, "/").is_err(), "nor see the others' streams");
        let reads = RightUses(Right::Read);
        assert_eq!(judged::<ToRead>(&OneFolder, &Principal::Local, "/a"), Err(Denied::UserNeeded(reads)));
    }
}
