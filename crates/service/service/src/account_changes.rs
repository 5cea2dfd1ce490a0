//! Changes of accounts, tokens and links: of commands and of front ends, made by a store of accounts.
//!
//! Promise: a change is made whole and kept, or not at all, with the reason. Not here: keeping them (the crate `accounts`).

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use api::{AccountEntry, GroupEntry, LinkEntry, TokenEntry};
use ipnet::IpNet;
use units::BitRate;

use crate::accounts::{FolderRights, Rights};
use crate::budgets::{BudgetKey, BudgetLimits, BudgetRefusal};
use crate::contents::ContentPath;
use crate::reservation_ahead::ReservationWish;

/// A holder of granted rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grantee {
    /// An account.
    Account(String),
    /// All members of a group.
    Group(String),
}

/// A user that a provider of identities has proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenIdentity {
    /// One text for one user for ever.
    pub subject: String,
    /// The account's name.
    pub name: String,
    /// All groups of the account; none: they stay as they are.
    pub groups: Option<Vec<String>>,
    /// An account is added, without rights and password, if there is none of the name.
    pub may_add: bool,
}

/// A link to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkWish {
    /// Path and rights.
    pub given: FolderRights,
    /// The time from which it is no longer valid, seconds since 1970.
    pub expires: u64,
    /// The rate of its streams, and the most that they may have.
    pub rate: Option<BitRate>,
    /// How often it may be used.
    pub uses: Option<u64>,
    /// Networks from which it is valid; empty: from all.
    pub from: Vec<IpNet>,
    /// Bytes that may be stored by it.
    pub stored: Option<u64>,
    /// The account that makes it; none: the operator.
    pub by: Option<String>,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountChange {
    /// A new account, with these rights over everything.
    AddAccount {
        /// Its name.
        name: String,
        /// PHC string of an argon2 hash of its password.
        password_hash: String,
        /// Its rights.
        rights: Rights,
    },
    /// The first account that administers the server, with all rights over everything.
    AddFirstAccount {
        /// Its name.
        name: String,
        /// As of any account.
        password_hash: String,
    },
    /// Another password. It ends the logins of the account's browsers.
    SetPassword {
        /// The account.
        name: String,
        /// As of a new account.
        password_hash: String,
    },
    /// Removes an account with its tokens and links.
    RemoveAccount {
        /// The account.
        name: String,
    },
    /// Gives rights in addition to the present ones.
    Grant {
        /// Their holder.
        to: Grantee,
        /// The rights.
        given: FolderRights,
    },
    /// Takes rights over this very folder back.
    Revoke {
        /// Their holder.
        of: Grantee,
        /// The rights.
        taken: FolderRights,
    },
    /// Puts an account into a group, or takes it out.
    Membership {
        /// The account.
        name: String,
        /// The group.
        group: String,
        /// True: it is a member from now on.
        joins: bool,
    },
    /// A new token.
    AddToken {
        /// The account that it belongs to.
        account: String,
        /// Its purpose, for lists.
        label: String,
        /// Its bounds.
        within: FolderRights,
        /// The time from which it is no longer valid, seconds since 1970.
        expires: Option<u64>,
    },
    /// A new login of a browser. Beyond a limit it ends the account's oldest one.
    AddLogin {
        /// The account.
        account: String,
        /// The browser, for lists.
        label: String,
        /// The time from which it is no longer valid, seconds since 1970.
        expires: u64,
        /// The time without a use after which it is no longer valid either, s.
        idle: u64,
    },
    /// A new login of a browser whose user a provider of identities has proven. The account is the one to which the identity belongs, else
    /// the one of its name, to which it belongs from then on.
    AddProvenLogin {
        /// The identity.
        identity: ProvenIdentity,
        /// As of [`AccountChange::AddLogin`], from here on.
        label: String,
        /// The time from which it is no longer valid.
        expires: u64,
        /// The time without a use after which it is no longer valid either, s.
        idle: u64,
    },
    /// Removes a token, or a login.
    RevokeToken {
        /// Its number.
        id: i64,
        /// Only if it is of this account.
        of: Option<String>,
    },
    /// A new link.
    AddLink(LinkWish),
    /// Ends a link.
    RevokeLink {
        /// Its number.
        id: i64,
        /// Only if this account made it.
        of: Option<String>,
    },
    /// Counts one use of a link, or bytes that are stored by it, as far as it may.
    UseLink {
        /// Its number.
        id: i64,
        /// Uses begun; negative: given back.
        uses: i64,
        /// Bytes to be stored; negative: given back.
        stored: i64,
    },
    /// Sets the limits of an account, a group, a token or a link, in place of those that it has; none: it has no budget of its own.
    SetBudget {
        /// The holder.
        of: BudgetKey,
        /// The limits.
        limits: BudgetLimits,
    },
    /// Counts bytes towards what may be stored.
    Store {
        /// The budgets, with their limits.
        budgets: Vec<(BudgetKey, u64)>,
        /// Bytes to be stored; negative: given back.
        bytes: i64,
    },
    /// A new reservation ahead.
    AddReservation(ReservationWish),
    /// Removes a reservation ahead.
    RemoveReservation {
        /// Its number.
        id: i64,
        /// Only if this account made it.
        of: Option<String>,
    },
    /// Signs links with another key from now on, and ends the earlier ones.
    RotateKeys,
}

impl AccountChange {
    /// The call of the API that makes such a change, and its path below `/api/v1`, for the event log; none: no command makes it.
    #[must_use]
    pub fn call(&self) -> Option<(&'static str, String)> {
        let holder = |grantee: &Grantee, calls: [&'static str; 2], end| match grantee {
            Grantee::Account(name) => (calls[0], format!("/users/{name}/{end}")),
            Grantee::Group(name) => (calls[1], format!("/groups/{name}/{end}")),
        };
        Some(match self {
            Self::AddAccount { name, .. } => ("AddUser", format!("/users/{name}")),
            Self::SetPassword { name, .. } => ("SetPassword", format!("/users/{name}/password")),
            Self::RemoveAccount { name } => ("RemoveUser", format!("/users/{name}")),
            Self::Grant { to, .. } => holder(to, ["GrantUser", "GrantGroup"], "grant"),
            Self::Revoke { of, .. } => holder(of, ["RevokeUser", "RevokeGroup"], "revoke"),
            Self::Membership { name, group, joins } => {
                (if *joins { "Join" } else { "Leave" }, format!("/groups/{group}/members/{name}"))
            }
            Self::AddToken { account, .. } => ("AddToken", format!("/users/{account}")),
            Self::RevokeToken { id, .. } => ("RevokeToken", format!("/tokens/{id}")),
            Self::AddLink(wish) => ("AddShare", format!("/shares{}", wish.given.folder)),
            Self::RevokeLink { id, .. } => ("RevokeShare", format!("/shares/{id}")),
            Self::RotateKeys => ("RotateShares", "/shares/rotate".to_owned()),
            Self::SetBudget { of, .. } => ("SetBudget", format!("/budgets/{of}")),
            _ => return None,
        })
    }
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It was made.
    Done,
    /// The number and text of a new token or link, which is shown this once; or of a reservation and its session.
    New {
        /// For lists.
        id: i64,
        /// The credential.
        text: String,
    },
}

/// The reason why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is no such account.
    #[error("there is no user {0}")]
    NoAccount(String),
    /// There is such an account already.
    #[error("there is a user {0} already; `isocast user passwd {0}` sets another password")]
    AccountExists(String),
    /// There is no such account, and none is added.
    #[error(
        "there is no user {0} here, and logins of the provider add none (`openid.add_users`): ask an administrator for one"
    )]
    NotAdded(String),
    /// Another identity has the account.
    #[error(
        "the user {0} belongs to another user of the provider: an administrator may remove it, or give yours another name"
    )]
    OtherIdentity(String),
    /// An account administers the server already.
    #[error("the server has an administrator already: log in, or ask that one")]
    NotFirst,
    /// No account would administer the server any more.
    #[error("no user would administer the server any more: give another one `admin` over `/` first")]
    LastAdministrator,
    /// There is no such token.
    #[error("there is no token {0}")]
    NoToken(i64),
    /// There is no such link.
    #[error("there is no link {0}")]
    NoLink(i64),
    /// There is no such reservation.
    #[error("there is no reservation {0}")]
    NoReservation(i64),
    /// These rights are not held over this very folder.
    #[error("{0} has none of these rights over {1} itself; `isocast user list` shows which it has")]
    NotHeld(String, ContentPath),
    /// Rights of a token that its account has nowhere in the folder.
    #[error(
        "{0} has no right to {1} in {2}, and a token has rights of its user alone; `isocast user grant` gives that one more"
    )]
    BeyondUser(String, Rights, ContentPath),
    /// The link was used as often as it may be.
    #[error("this link was used as often as it may be, {0} times")]
    UsedUp(u64),
    /// As many bytes were stored by the link as may be.
    #[error("by this link {limit} bytes may be stored; {used} are, and {more} do not fit")]
    StoredFull {
        /// The most.
        limit: u64,
        /// Those that are.
        used: u64,
        /// Those of this upload.
        more: u64,
    },
    /// A budget does not admit it.
    #[error(transparent)]
    Budget(#[from] BudgetRefusal),
    /// A limit on the number of entries.
    #[error("there are {0} {1} already, the most that there may be")]
    TooMany(u64, &'static str),
    /// Nothing is kept now; with the reason.
    #[error("the accounts cannot be changed now: {0}")]
    Unavailable(String),
}

/// A change or look under way.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = Result<T, ChangeError>> + Send + 'a>>;

/// A change under way.
pub type PendingChange<'a> = Waiting<'a, Changed>;

/// A part of a list: at most `limit` entries that come after the key `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPart<K> {
    /// Key of the last entry of the part before it; the default: from the beginning.
    pub after: K,
    /// Most entries.
    pub limit: usize,
}

impl<K: Default> Default for ListPart<K> {
    /// The whole list.
    fn default() -> Self {
        Self { after: K::default(), limit: usize::MAX }
    }
}

/// A store of accounts that makes changes. The facts of [`crate::accounts::Accounts`] are changed before it answers.
pub trait AccountStore: Send + Sync + 'static {
    /// Makes a change. It waits for a disk, and blocks no thread of the caller.
    fn change(&self, change: AccountChange) -> PendingChange<'_>;

    /// Accounts, by name.
    fn accounts(&self, part: ListPart<String>) -> Waiting<'_, Vec<AccountEntry>>;

    /// Groups that have members or rights, by name.
    fn groups(&self, part: ListPart<String>) -> Waiting<'_, Vec<GroupEntry>>;

    /// Tokens and logins, of one account or of all, by number.
    fn tokens(&self, of: Option<String>, part: ListPart<i64>) -> Waiting<'_, Vec<TokenEntry>>;

    /// Links, made by one account or by all, by number.
    fn links(&self, by: Option<String>, part: ListPart<i64>) -> Waiting<'_, Vec<LinkEntry>>;

    /// Bytes stored, by the text of the budget that they count towards.
    fn stored(&self) -> Waiting<'_, HashMap<String, u64>>;

    /// Notes that a token was used now. Never waits.
    fn token_used(&self, id: i64);
}
