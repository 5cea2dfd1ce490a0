//! Accounts, tokens and signed links as facts in memory, and the rights of clients over folders.
//!
//! Promise: answers come from memory and depend on no request; another set of facts is in force from the next request on. Not here:
//! where facts are kept (the crate `accounts`), verifying a password (`logins`), judging a request (`access`).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use ipnet::IpNet;
use units::BitRate;

use crate::budgets::{BudgetKey, BudgetLimits, BudgetRules};
use crate::contents::ContentPath;
use crate::reservation_ahead::ReservationAhead;

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
    /// PHC string of an argon2 hash of its password; none: no password is right.
    pub password_hash: Option<Arc<str>>,
    /// Its own rights, and those of its groups.
    pub rights: Arc<[FolderRights]>,
    /// Its groups.
    pub groups: Arc<[Arc<str>]>,
}

/// The holder of a credential that stands for an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// A program: a token.
    Token,
    /// A browser, after a login by password.
    Browser {
        /// The time from which it is no longer valid unless it is used, seconds since 1970.
        idle_ends: u64,
    },
}

/// A token: a credential of an account for a program, or for a browser that logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountToken {
    /// Its number, for lists.
    pub id: i64,
    /// The SHA-256 of its text.
    pub digest: [u8; 32],
    /// The account that it belongs to.
    pub account: Arc<str>,
    /// The bounds: it has no right of the account beyond these.
    pub within: FolderRights,
    /// The time from which it is no longer valid, seconds since 1970.
    pub expires: Option<u64>,
    /// Its holder.
    pub kind: CredentialKind,
}

/// A signed link: rights over a path for all clients that have its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedLink {
    /// Its number, for lists.
    pub id: i64,
    /// The signature over all that follows.
    pub signature: [u8; 16],
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
    /// The account that made it; none: the operator.
    pub by: Option<Arc<str>>,
}

/// All accounts, tokens and links.
#[derive(Debug, Default)]
pub struct AccountFacts {
    /// By name.
    pub accounts: HashMap<String, Account>,
    /// By the SHA-256 of their texts.
    pub tokens: HashMap<[u8; 32], Arc<AccountToken>>,
    /// By number.
    pub links: HashMap<i64, Arc<SignedLink>>,
    /// Budgets of accounts, groups, tokens and links.
    pub budgets: BudgetRules,
    /// Reservations ahead, by the names of their sessions.
    pub reservations: HashMap<String, Arc<ReservationAhead>>,
}

/// Rights without an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRights {
    /// All clients read everything.
    pub all_read: bool,
    /// While there is no account, programs on this machine have all rights.
    pub local_writes: bool,
}

impl Default for OpenRights {
    fn default() -> Self {
        Self { all_read: true, local_writes: false }
    }
}

/// The facts in force.
#[derive(Debug)]
pub struct Accounts {
    facts: RwLock<Arc<AccountFacts>>,
    open: RwLock<OpenRights>,
    /// Budgets of the settings.
    budgets: RwLock<Arc<BudgetRules>>,
    clock: SteadyClock,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            facts: RwLock::default(),
            open: RwLock::default(),
            budgets: RwLock::default(),
            clock: SteadyClock::start(),
        }
    }
}

impl Accounts {
    /// Puts other facts in force.
    pub fn put(&self, facts: AccountFacts) {
        *self.facts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(facts);
    }

    /// Puts other rights without an account in force.
    pub fn open(&self, open: OpenRights) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = open;
    }

    /// Puts other budgets of the settings in force.
    pub fn limit(&self, budgets: BudgetRules) {
        *self.budgets.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(budgets);
    }

    /// The budgets in force; none: none is set.
    #[must_use]
    pub fn budgets(&self) -> Option<BudgetsInForce> {
        let settings = Arc::clone(&self.budgets.read().unwrap_or_else(PoisonError::into_inner));
        let budgets = BudgetsInForce { facts: self.facts(), settings };
        (!budgets.settings.is_empty() || !budgets.facts.budgets.is_empty()).then_some(budgets)
    }

    /// The limits of one budget in force.
    #[must_use]
    pub fn limits(&self, key: &BudgetKey) -> BudgetLimits {
        self.budgets().map_or_else(BudgetLimits::default, |budgets| budgets.limits(key))
    }

    /// The rate of the streams of a budget's link, beyond which it gives none.
    pub(crate) fn link_rate(&self, key: &BudgetKey) -> Option<BitRate> {
        let BudgetKey::Link(id) = key else { return None };
        self.facts().links.get(id)?.rate
    }

    /// The facts in force.
    #[must_use]
    pub fn facts(&self) -> Arc<AccountFacts> {
        Arc::clone(&self.facts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The rights in force.
    pub(crate) fn rights(&self) -> RightsInForce {
        let open = *self.open.read().unwrap_or_else(PoisonError::into_inner);
        RightsInForce { facts: self.facts(), open }
    }

    /// True if `holder` has `right` over `path`.
    #[must_use]
    pub fn may(&self, holder: Holder<'_>, right: Right, path: &ContentPath) -> bool {
        self.rights().may(holder, right, path)
    }

    /// True if an account administers the server.
    #[must_use]
    pub fn has_administrator(&self) -> bool {
        let administers = |name: &String| self.may(Holder::Account(name), Right::Administer, &ContentPath::root());
        self.facts().accounts.keys().any(administers)
    }

    /// Seconds since 1970 by a clock that is never set back.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }
}

/// The rights in force at one moment: a request is judged by them throughout.
#[derive(Debug)]
pub(crate) struct RightsInForce {
    pub(crate) facts: Arc<AccountFacts>,
    open: OpenRights,
}

impl RightsInForce {
    /// True if `holder` has `right` over `path`.
    pub(crate) fn may(&self, holder: Holder<'_>, right: Right, path: &ContentPath) -> bool {
        match holder {
            Holder::Anybody => self.open.all_read && right == Right::Read,
            Holder::ThisMachine => self.open.local_writes && self.facts.accounts.is_empty(),
            Holder::Account(name) => self
                .facts
                .accounts
                .get(name)
                .is_some_and(|account| account.rights.iter().any(|given| given.covers(right, path))),
        }
    }
}

/// The budgets in force at one moment.
#[derive(Debug)]
pub struct BudgetsInForce {
    facts: Arc<AccountFacts>,
    settings: Arc<BudgetRules>,
}

impl BudgetsInForce {
    /// The limits of a budget: those that commands set, and those of the settings where they set none.
    #[must_use]
    pub fn limits(&self, key: &BudgetKey) -> BudgetLimits {
        self.facts.budgets.limits(key).or(self.settings.limits(key))
    }

    /// Holders with limits of their own.
    pub fn limited(&self) -> impl Iterator<Item = &BudgetKey> {
        self.facts.budgets.named().chain(self.settings.named())
    }
}

/// A clock that shows the system's time, but is not set back while the server runs: what has expired stays so.
#[derive(Debug)]
struct SteadyClock {
    started: Instant,
    at_start: Duration,
}

impl SteadyClock {
    fn start() -> Self {
        Self { started: Instant::now(), at_start: wall() }
    }

    fn now(&self) -> u64 {
        wall().max(self.at_start + self.started.elapsed()).as_secs()
    }
}

fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl SignedLink {
    /// True if it may be used from `address`.
    #[must_use]
    pub fn admits(&self, address: IpAddr) -> bool {
        self.from.is_empty() || self.from.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network; write for example `10.0.0.0/8`, `192.0.2.7` or `2001:db8::/32`")]
pub struct NetworkError(String);

/// Reads a network, `10.0.0.0/8`, or an address as the network of itself.
///
/// # Errors
/// It is neither.
pub fn parse_network(text: &str) -> Result<IpNet, NetworkError> {
    let address = || text.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
    text.parse::<IpNet>()
        .ok()
        .map(|network| network.trunc())
        .or_else(address)
        .ok_or_else(|| NetworkError(text.to_owned()))
}

impl Right {
    /// All of them, with the words that settings and commands have for them.
    const WORDS: [(Self, &'static str); 5] = [
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Delete, "delete"),
        (Self::Share, "share"),
        (Self::Administer, "admin"),
    ];

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

    /// As a database keeps the set.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set that is kept so; bits that mean nothing are left out.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Those of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Right::WORDS.iter().filter(|(right, _)| self.has(*right));
        let words: Vec<&str> = held.map(|(_, word)| *word).collect();
        if words.is_empty() { f.write_str("none") } else { f.write_str(&words.join(",")) }
    }
}

/// A word that names no right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no right; write for example `read,write`, of read, write, delete, share, admin")]
pub struct UnknownRight(String);

impl FromStr for Rights {
    type Err = UnknownRight;

    fn from_str(text: &str) -> Result<Self, UnknownRight> {
        text.split(',').try_fold(Self::default(), |rights, word| {
            let known = Right::WORDS.iter().find(|(_, known)| *known == word.trim());
            known.map(|(right, _)| rights.with(Self::of(&[*right]))).ok_or_else(|| UnknownRight(word.to_owned()))
        })
    }
}

impl FolderRights {
    /// All rights over everything.
    #[must_use]
    pub fn all() -> Self {
        Self { folder: ContentPath::root(), rights: Rights::ALL }
    }

    /// True if `right` over `path` is among them.
    #[must_use]
    pub fn covers(&self, right: Right, path: &ContentPath) -> bool {
        self.rights.has(right) && path.lies_in(&self.folder)
    }

    /// Those that are within `bounds` as well; none: no right is.
    #[must_use]
    pub fn within(&self, bounds: &Self) -> Option<Self> {
        let (lower, upper) = if self.folder.lies_in(&bounds.folder) { (self, bounds) } else { (bounds, self) };
        let rights = self.rights.without(self.rights.without(bounds.rights));
        let overlap = lower.folder.lies_in(&upper.folder) && !rights.is_empty();
        overlap.then(|| Self { folder: lower.folder.clone(), rights })
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
        let all = FolderRights::all();
        assert!(all.covers(Right::Administer, &ContentPath::root()) && all.covers(Right::Delete, &path("/x")));
    }

    #[test]
    fn rights_are_read_as_they_are_written() {
        for bits in 1..=Rights::ALL.bits() {
            let rights = Rights::from_bits(bits);
            assert_eq!(rights.to_string().parse(), Ok(rights));
        }
        assert_eq!(Rights::default().to_string(), "none");
        for text in ["", "none", "read;write", "reads", "read,"] {
            assert!(text.parse::<Rights>().is_err(), "{text}");
        }
    }
}
