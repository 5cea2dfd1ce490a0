//! Permits: each call that reads or changes something takes one, and only this module makes them.
//!
//! Promise: a permit names a right, a path and the account that used it, and a call works on the path of its permit, so that no check
//! can be forgotten or be for another path (decision 0064). Not here: rights of accounts (`accounts`), proof of an account (the
//! front ends, `logins`).

use std::marker::PhantomData;
use std::sync::Arc;

use crate::accounts::{AccountToken, Accounts, FolderRights, Holder, Right, RightsInForce, SignedLink};
use crate::budgets::{BudgetKey, ChargedBudgets};
use crate::client::{Client, Requester};
use crate::contents::{ContentPath, PathError};
pub use crate::right_kinds::{
    PathRight, RightKind, RightUses, ServerRight, ToAdminister, ToDelete, ToObserve, ToRead, ToSeeBudgets, ToShare,
    ToWrite,
};

/// The source of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A program on this machine that speaks for no other client.
    Local,
    /// Not known to be one; with the reason.
    Remote(&'static str),
    /// A client that proved to be this account.
    Account(AccountName),
    /// A client that has a signed link.
    Link(ProvenLink),
}

/// The name of an account with a right login, and the bounds of the token that it logged in by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName {
    name: Arc<str>,
    token: Option<Arc<AccountToken>>,
}

impl AccountName {
    pub(crate) fn proven(name: &str) -> Self {
        Self { name: name.into(), token: None }
    }

    pub(crate) fn of_token(token: Arc<AccountToken>) -> Self {
        Self { name: Arc::clone(&token.account), token: Some(token) }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The part of the account's rights that its token leaves.
    pub(crate) fn bounded(&self, given: &FolderRights) -> Option<FolderRights> {
        self.token.as_ref().map_or_else(|| Some(given.clone()), |token| given.within(&token.within))
    }
}

impl Principal {
    /// The account, or the number of the signed link (`link:7`; names of accounts have no colon), for logs.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Account(account) => Some(account.name()),
            Self::Link(link) => Some(&link.name),
            Self::Local | Self::Remote(_) => None,
        }
    }
}

/// A link with a right signature that is valid now, and where it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenLink {
    link: Arc<SignedLink>,
    name: Arc<str>,
}

impl ProvenLink {
    pub(crate) fn proven(link: Arc<SignedLink>) -> Self {
        let name = format!("link:{}", link.id).into();
        Self { link, name }
    }
}

/// The reason why a permit is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// An account may have the right.
    #[error("{0} need a user's name and password, or a token")]
    UserNeeded(RightUses),
    /// There is no account, and programs on this machine do not have the right either.
    #[error(
        "no client may do that here: add a user (`isocast user add NAME`), or start the server with --local-writes"
    )]
    NoWriters,
    /// There is no account, and only programs on this machine have the right; with the reason why this is none.
    #[error("without users, {0} {1}; add a user (`isocast user add NAME`)")]
    LocalOnly(RightUses, &'static str),
    /// The account does not have the right.
    #[error("this user has no right to such {0} here")]
    NoRight(RightUses),
    /// A token manages no credentials.
    #[error("a token makes and ends no credentials: log in with the password")]
    ByToken,
    /// The signed link does not give the right.
    #[error("this link gives no right to such {0} here")]
    NotByLink(RightUses),
}

/// Leave to use the right `R` over a path.
#[derive(Debug, Clone)]
pub struct Permit<R> {
    path: ContentPath,
    by: PermitHolder,
    right: PhantomData<R>,
}

/// The holder of a permit.
#[derive(Debug, Clone)]
enum PermitHolder {
    /// No login was needed, or the server itself.
    Anybody,
    /// An account; true: it administers the server.
    Account(AccountName, bool),
    /// A client with a link.
    Link(ProvenLink),
}

impl<R: RightKind> Permit<R> {
    const fn new(path: ContentPath, by: PermitHolder) -> Self {
        Self { path, by, right: PhantomData }
    }

    /// The path.
    #[must_use]
    pub const fn path(&self) -> &ContentPath {
        &self.path
    }

    /// The account that has the right; none: no login was needed.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match &self.by {
            PermitHolder::Account(account, _) => Some(account.name()),
            PermitHolder::Anybody | PermitHolder::Link(_) => None,
        }
    }

    /// The account, or the number of the signed link (`link:7`), that has the right, for logs; none: no login was needed.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        match &self.by {
            PermitHolder::Account(account, _) => Some(account.name()),
            PermitHolder::Link(link) => Some(&link.name),
            PermitHolder::Anybody => None,
        }
    }

    /// Its holder at `client`, for the event log.
    pub(crate) fn by(&self, client: Client) -> Requester<'_> {
        Requester { address: client.address, user: self.holder() }
    }

    /// The signed link that gives the right.
    #[must_use]
    pub const fn link(&self) -> Option<&Arc<SignedLink>> {
        match &self.by {
            PermitHolder::Link(proven) => Some(&proven.link),
            PermitHolder::Anybody | PermitHolder::Account(..) => None,
        }
    }

    /// True unless its right was taken back meanwhile: its account, token or link was removed, or has the right no longer. The end of a token's
    /// or link's time takes nothing back.
    pub(crate) fn is_in_force(&self, rights: &RightsInForce) -> bool {
        match &self.by {
            PermitHolder::Anybody => true,
            PermitHolder::Account(account, _) => {
                let is_kept = |token: &Arc<AccountToken>| rights.facts.tokens.contains_key(&token.digest);
                account.token.as_ref().is_none_or(is_kept) && account.has(rights, R::RIGHT, &self.path)
            }
            PermitHolder::Link(ProvenLink { link, .. }) => {
                rights.facts.links.contains_key(&link.id) && link.gives(rights, R::RIGHT, &self.path)
            }
        }
    }

    /// The budgets to which requests of `client` with this permit are charged.
    #[must_use]
    pub fn charged(&self, accounts: &Accounts, client: Client) -> ChargedBudgets {
        match &self.by {
            PermitHolder::Anybody => ChargedBudgets::of(&[client.budget()]),
            PermitHolder::Link(proven) => ChargedBudgets::of(&[BudgetKey::Link(proven.link.id), client.budget()]),
            PermitHolder::Account(account, _) => {
                let mut keys = vec![BudgetKey::Account(Arc::clone(&account.name))];
                if let Some(known) = accounts.facts().accounts.get(account.name()) {
                    keys.extend(known.groups.iter().map(|group| BudgetKey::Group(Arc::clone(group))));
                }
                keys.extend(account.token.as_ref().map(|token| BudgetKey::Token(token.id)));
                ChargedBudgets::of(&keys)
            }
        }
    }

    /// True if it may see the names, addresses and paths of other clients: every client where all may read, else those that administer
    /// the server.
    #[must_use]
    pub const fn sees_others(&self) -> bool {
        matches!(self.by, PermitHolder::Anybody | PermitHolder::Account(_, true))
    }
}

impl<R: PathRight> Permit<R> {
    /// The same for `path`, which lies below this one's, or is the hidden name under which it is made.
    pub(crate) fn at(&self, path: ContentPath) -> Self {
        Self::new(path, self.by.clone())
    }

    /// The same for the item of this name in its folder.
    ///
    /// # Errors
    /// The fault of the name.
    pub fn child(&self, name: &str) -> Result<Self, PathError> {
        self.path.child(name).map(|path| self.at(path))
    }

    /// For work that the configuration has the server do by itself, over `path`.
    #[must_use]
    pub const fn of_configuration(path: ContentPath) -> Self {
        Self::new(path, PermitHolder::Anybody)
    }
}

impl<R: ServerRight> Permit<R> {
    /// For work that the configuration has the server do by itself.
    #[must_use]
    pub fn of_server() -> Self {
        Self::new(ContentPath::root(), PermitHolder::Anybody)
    }
}

/// Leave of an account to see and change its own credentials: password, tokens, links, logins. Of an account that administers the server,
/// those of all.
#[derive(Debug, Clone)]
pub struct OwnPermit {
    account: Option<Arc<str>>,
    administers: bool,
}

impl OwnPermit {
    /// The account; none: no login was needed.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// The only account of which it may see and change credentials; none: those of all.
    #[must_use]
    pub fn only(&self) -> Option<&str> {
        self.account.as_deref().filter(|_| !self.administers)
    }
}

/// Whether `principal` may see and change credentials. A token may not, unless it administers the server: else it could make itself one with
/// wider bounds.
///
/// # Errors
/// Why not.
pub(crate) fn permit_own(accounts: &Accounts, principal: &Principal) -> Result<OwnPermit, Denied> {
    match permit::<ToAdminister>(accounts, principal, &ContentPath::root()) {
        Ok(all) => Ok(OwnPermit { account: all.user().map(Arc::from), administers: true }),
        Err(denied) => match principal {
            Principal::Account(AccountName { name, token: None })
                if accounts.facts().accounts.contains_key(&**name) =>
            {
                Ok(OwnPermit { account: Some(Arc::clone(name)), administers: false })
            }
            Principal::Account(AccountName { token: Some(_), .. }) => Err(Denied::ByToken),
            _ => Err(denied),
        },
    }
}

/// Whether `principal` may see budgets: an account that has no right over the server sees its own.
///
/// # Errors
/// Why not.
pub(crate) fn permit_budgets(accounts: &Accounts, principal: &Principal) -> Result<Permit<ToSeeBudgets>, Denied> {
    let root = ContentPath::root();
    permit(accounts, principal, &root).or_else(|denied| match principal {
        Principal::Account(account) if accounts.facts().accounts.contains_key(account.name()) => {
            Ok(Permit::new(root, PermitHolder::Account(account.clone(), false)))
        }
        _ => Err(denied),
    })
}

/// Whether `principal` has the right `R` over `path`.
///
/// # Errors
/// Why not.
pub(crate) fn permit<R: RightKind>(
    accounts: &Accounts,
    principal: &Principal,
    path: &ContentPath,
) -> Result<Permit<R>, Denied> {
    let rights = accounts.rights();
    if let Principal::Link(proven) = principal
        && proven.link.gives(&rights, R::RIGHT, path)
    {
        return Ok(Permit::new(path.clone(), PermitHolder::Link(proven.clone())));
    }
    let may = |holder| rights.may(holder, R::RIGHT, path);
    if let Principal::Account(account) = principal
        && account.has(&rights, R::RIGHT, path)
    {
        let administers = may(Holder::Anybody) || account.may(&rights, Right::Administer, &ContentPath::root());
        return Ok(Permit::new(path.clone(), PermitHolder::Account(account.clone(), administers)));
    }
    if may(Holder::Anybody) || (*principal == Principal::Local && may(Holder::ThisMachine)) {
        return Ok(Permit::new(path.clone(), PermitHolder::Anybody));
    }
    let uses = RightUses(R::RIGHT);
    match principal {
        Principal::Account(_) => Err(Denied::NoRight(uses)),
        Principal::Link(_) => Err(Denied::NotByLink(uses)),
        _ if !rights.facts.accounts.is_empty() => Err(Denied::UserNeeded(uses)),
        Principal::Remote(why) if may(Holder::ThisMachine) => Err(Denied::LocalOnly(uses, why)),
        Principal::Remote(_) | Principal::Local => Err(Denied::NoWriters),
    }
}

/// Whether `principal` has the right `R` over any path: judged before a look that finds the path.
///
/// # Errors
/// Why not.
pub(crate) fn permit_somewhere<R: PathRight>(accounts: &Accounts, principal: &Principal) -> Result<Permit<R>, Denied> {
    let mut folders = Vec::new();
    match principal {
        Principal::Link(proven) => folders.push(proven.link.given.folder.clone()),
        Principal::Account(account) => {
            folders.extend(account.token.iter().map(|token| token.within.folder.clone()));
            let facts = accounts.facts();
            let rights = facts.accounts.get(account.name()).map(|known| Arc::clone(&known.rights));
            folders.extend(rights.iter().flat_map(|rights| rights.iter()).map(|given| given.folder.clone()));
        }
        Principal::Local | Principal::Remote(_) => {}
    }
    let over_all = permit(accounts, principal, &ContentPath::root());
    folders.iter().fold(over_all, |judged, folder| judged.or_else(|_| permit(accounts, principal, folder)))
}

impl SignedLink {
    /// True if it gives the right. It gives none that the account that made it has lost.
    fn gives(&self, rights: &RightsInForce, right: Right, path: &ContentPath) -> bool {
        let shares = |by: &Arc<str>| {
            let has = |right| rights.may(Holder::Account(by), right, path);
            has(Right::Share) && (has(right) || rights.may(Holder::Anybody, right, path))
        };
        self.given.covers(right, path) && self.by.as_ref().is_none_or(shares)
    }
}

impl AccountName {
    /// True if it is an account that has the right, by itself or as anybody.
    fn has(&self, rights: &RightsInForce, right: Right, path: &ContentPath) -> bool {
        rights.facts.accounts.contains_key(self.name())
            && (self.may(rights, right, path) || rights.may(Holder::Anybody, right, path))
    }

    /// True if it has the right, within the bounds of its token.
    fn may(&self, rights: &RightsInForce, right: Right, path: &ContentPath) -> bool {
        self.token.as_ref().is_none_or(|token| token.within.covers(right, path))
            && rights.may(Holder::Account(&self.name), right, path)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::accounts::{Account, AccountFacts, CredentialKind, OpenRights, Rights};

    const FAR: Principal = Principal::Remote("from afar");

    fn path(text: &str) -> ContentPath {
        ContentPath::parse_encoded(text).expect("a path")
    }

    fn user(name: &str) -> Principal {
        Principal::Account(AccountName::proven(name))
    }

    fn given(folder: &str, rights: &[Right]) -> FolderRights {
        FolderRights { folder: path(folder), rights: Rights::of(rights) }
    }

    /// Accounts with these rights.
    fn accounts(all_read: bool, held: &[(&str, FolderRights)]) -> Accounts {
        let account = |given: &FolderRights| Account {
            password_hash: None,
            rights: Arc::from([given.clone()]),
            groups: Arc::from([]),
        };
        let accounts = held.iter().map(|(name, given)| ((*name).to_owned(), account(given))).collect();
        let known = Accounts::default();
        known.put(AccountFacts { accounts, ..AccountFacts::default() });
        known.open(OpenRights { all_read, local_writes: true });
        known
    }

    /// Whether the right is permitted, or the reason why not.
    fn judged<R: RightKind>(accounts: &Accounts, principal: &Principal, over: &str) -> Result<Option<String>, Denied> {
        let permit = permit::<R>(accounts, principal, &path(over))?;
        assert_eq!(permit.path(), &path(over));
        Ok(permit.user().map(str::to_owned))
    }

    #[test]
    fn all_clients_read_until_that_is_changed() {
        let nobody = Accounts::default();
        for principal in [Principal::Local, FAR, user("ada")] {
            assert_eq!(judged::<ToRead>(&nobody, &principal, "/a"), Ok(None));
            assert_eq!(judged::<ToObserve>(&nobody, &principal, "/"), Ok(None));
        }
        let writes = RightUses(Right::Write);
        assert_eq!(judged::<ToWrite>(&nobody, &Principal::Local, "/a"), Err(Denied::NoWriters));
        assert_eq!(judged::<ToWrite>(&nobody, &FAR, "/a"), Err(Denied::NoWriters));
        let local = accounts(true, &[]);
        assert_eq!(judged::<ToWrite>(&local, &Principal::Local, "/a"), Ok(None));
        assert_eq!(judged::<ToAdminister>(&local, &Principal::Local, "/"), Ok(None));
        assert_eq!(judged::<ToWrite>(&local, &FAR, "/a"), Err(Denied::LocalOnly(writes, "from afar")));
        let ada = accounts(true, &[("ada", FolderRights::all())]);
        for principal in [Principal::Local, FAR] {
            assert_eq!(judged::<ToWrite>(&ada, &principal, "/a"), Err(Denied::UserNeeded(writes)));
        }
        let refused = judged::<ToAdminister>(&ada, &user("eve"), "/").map_err(|denied| denied.to_string());
        assert_eq!(refused, Err("this user has no right to such administrative calls here".to_owned()));
        assert_eq!(judged::<ToWrite>(&ada, &user("ada"), "/a"), Ok(Some("ada".to_owned())));
        assert_eq!(judged::<ToDelete>(&ada, &user("ada"), "/a"), Ok(Some("ada".to_owned())));
        assert_eq!(judged::<ToWrite>(&ada, &user("eve"), "/a"), Err(Denied::NoRight(writes)), "she was removed");
    }

    #[test]
    fn rights_over_a_folder_end_there() {
        let known = accounts(false, &[("ada", given("/a", &[Right::Read, Right::Write]))]);
        let ada = user("ada");
        let permitted = Ok(Some("ada".to_owned()));
        assert_eq!(judged::<ToRead>(&known, &ada, "/a/film.ts"), permitted);
        assert_eq!(judged::<ToWrite>(&known, &ada, "/a"), permitted);
        assert!(judged::<ToDelete>(&known, &ada, "/a/film.ts").is_err(), "she may not remove");
        assert!(judged::<ToRead>(&known, &ada, "/b").is_err(), "nor read elsewhere");
        assert!(judged::<ToObserve>(&known, &ada, "/").is_err(), "nor see the others' streams");
        let reads = RightUses(Right::Read);
        assert_eq!(judged::<ToRead>(&known, &Principal::Local, "/a"), Err(Denied::UserNeeded(reads)));
    }

    #[test]
    fn a_token_has_rights_of_its_account_within_its_bounds() {
        let known = accounts(false, &[("ada", given("/a", &[Right::Read, Right::Write]))]);
        let token = |within| {
            let kind = CredentialKind::Token;
            let token = AccountToken { id: 1, digest: [1; 32], account: "ada".into(), within, expires: None, kind };
            Principal::Account(AccountName::of_token(Arc::new(token)))
        };
        let reader = token(given("/a/b", &[Right::Read]));
        assert!(judged::<ToRead>(&known, &reader, "/a/b/c").is_ok());
        assert!(judged::<ToRead>(&known, &reader, "/a").is_err(), "above its folder");
        assert!(judged::<ToWrite>(&known, &reader, "/a/b/c").is_err(), "another right");
        let wide = token(FolderRights::all());
        assert!(judged::<ToWrite>(&known, &wide, "/a").is_ok());
        assert!(judged::<ToRead>(&known, &wide, "/b").is_err(), "its account has no right there");
        assert!(judged::<ToAdminister>(&known, &wide, "/").is_err());
    }

    /// A link to read below `/a`, made by an account or by the operator.
    fn link(by: Option<&str>) -> Principal {
        let link = SignedLink {
            id: 1,
            signature: [0; 16],
            given: given("/a", &[Right::Read]),
            expires: u64::MAX,
            rate: None,
            uses: None,
            from: Vec::new(),
            stored: None,
            by: by.map(Into::into),
        };
        Principal::Link(ProvenLink::proven(Arc::new(link)))
    }

    #[test]
    fn a_link_gives_its_right_over_its_path_and_no_other() {
        let known = accounts(false, &[]);
        let link = link(None);
        assert_eq!(judged::<ToRead>(&known, &link, "/a/b"), Ok(None));
        let reads = RightUses(Right::Read);
        assert_eq!(judged::<ToRead>(&known, &link, "/b"), Err(Denied::NotByLink(reads)));
        assert!(judged::<ToWrite>(&known, &link, "/a/b").is_err() && judged::<ToObserve>(&known, &link, "/").is_err());
        known.open(OpenRights { all_read: true, local_writes: false });
        assert_eq!(judged::<ToRead>(&known, &link, "/b"), Ok(None), "as anybody");
    }

    #[test]
    fn a_permit_is_in_force_until_its_right_is_taken_back() {
        let known = accounts(true, &[("ada", given("/a", &[Right::Read]))]);
        let token = Arc::new(AccountToken {
            id: 1,
            digest: [1; 32],
            account: "ada".into(),
            within: FolderRights::all(),
            expires: Some(0),
            kind: CredentialKind::Token,
        });
        let of = |principal: &Principal| permit::<ToRead>(&known, principal, &path("/a/b")).expect("permitted");
        let by_token = of(&Principal::Account(AccountName::of_token(Arc::clone(&token))));
        let (by_password, by_link, by_anybody) = (of(&user("ada")), of(&link(None)), of(&FAR));
        let in_force = || {
            let rights = known.rights();
            [&by_password, &by_token, &by_link, &by_anybody].map(|permit| permit.is_in_force(&rights))
        };
        assert_eq!(in_force(), [true, false, false, true], "there is no such token or link any more");
        let Principal::Link(ProvenLink { link: shared, .. }) = link(None) else { unreachable!("a link") };
        let ada = known.facts().accounts["ada"].clone();
        let facts = |ada: Option<Account>| AccountFacts {
            accounts: ada.map(|ada| ("ada".to_owned(), ada)).into_iter().collect(),
            tokens: HashMap::from([(token.digest, Arc::clone(&token))]),
            links: HashMap::from([(shared.id, Arc::clone(&shared))]),
            ..AccountFacts::default()
        };
        known.put(facts(Some(ada.clone())));
        assert_eq!(in_force(), [true; 4], "that the token's time is over takes nothing back");
        known.put(facts(Some(Account { rights: Arc::from([]), ..ada })));
        assert_eq!(in_force(), [true; 4], "all may read");
        known.open(OpenRights { all_read: false, local_writes: false });
        assert_eq!(in_force(), [false, false, true, true], "what anybody read ends by itself");
        known.put(facts(None));
        known.open(OpenRights { all_read: true, local_writes: false });
        assert_eq!(in_force(), [false, false, true, true], "she was removed");
    }

    #[test]
    fn a_link_gives_no_right_that_its_maker_has_lost() {
        let held = |rights: &[Right]| accounts(false, &[("ada", given("/a", rights))]);
        let link = link(Some("ada"));
        assert!(judged::<ToRead>(&held(&[Right::Read, Right::Share]), &link, "/a/b").is_ok());
        for lost in [&[Right::Read][..], &[Right::Share]] {
            assert!(judged::<ToRead>(&held(lost), &link, "/a/b").is_err(), "{lost:?}");
        }
    }

    #[test]
    fn accounts_manage_their_own_credentials_and_administrators_those_of_all() {
        let known = accounts(true, &[("ada", FolderRights::all()), ("bob", given("/", &[Right::Read]))]);
        let own = |principal: &Principal| permit_own(&known, principal).map(|own| own.only().map(str::to_owned));
        assert_eq!(own(&user("ada")), Ok(None));
        assert_eq!(own(&user("bob")), Ok(Some("bob".to_owned())));
        assert!(own(&user("eve")).is_err(), "she was removed");
        assert!(own(&FAR).is_err() && own(&Principal::Local).is_err());
        let token = |account: &str, rights: &[Right]| {
            let (within, kind) = (given("/", rights), CredentialKind::Token);
            let token = AccountToken { id: 1, digest: [1; 32], account: account.into(), within, expires: None, kind };
            own(&Principal::Account(AccountName::of_token(Arc::new(token))))
        };
        assert_eq!(token("bob", &[Right::Read]), Err(Denied::ByToken));
        assert_eq!(token("ada", &[Right::Read]), Err(Denied::ByToken));
        assert_eq!(token("ada", &[Right::Administer]), Ok(None));
    }

    #[test]
    fn only_administrators_see_others_where_not_all_may_read() {
        let known = accounts(false, &[("ada", FolderRights::all()), ("bob", given("/", &[Right::Read]))]);
        let sees = |principal| permit::<ToObserve>(&known, &principal, &ContentPath::root()).map(|p| p.sees_others());
        assert_eq!((sees(user("ada")), sees(user("bob"))), (Ok(true), Ok(false)));
        known.open(OpenRights { all_read: true, local_writes: false });
        assert_eq!(sees(FAR), Ok(true));
    }
}
