//! The proofs of a principal that requests carry: a name with its password, the text of a token, of a browser's login or of a signed
//! link, and the code of the first account; and the uses of links.
//!
//! Promise: once there are accounts, each wrong password is an event, each right one when it is verified. Not here: verifying a password (`logins`), the rights of a
//! principal (`access`), keeping accounts (the crate `accounts`).

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use crate::access::{Permit, Principal, ToRead, ToWrite};
use crate::account_changes::{AccountChange, AccountStore, ChangeError};
use crate::accounts::Accounts;
use crate::events::{self, Events};
use crate::link_uses::LinkUses;
use crate::logins::{self, CredentialError, LoginError, PasswordLogins};
use crate::session::Viewer;

/// See the module.
pub struct CredentialProofs {
    accounts: Arc<Accounts>,
    store: Arc<dyn AccountStore>,
    events: Arc<Events>,
    passwords: PasswordLogins,
    /// Digest of the code by which the first account is made, while there is none.
    first_code: OnceLock<[u8; 32]>,
    link_uses: LinkUses,
    hasher: RandomState,
}

impl CredentialProofs {
    pub(crate) fn new(accounts: &Arc<Accounts>, store: &Arc<dyn AccountStore>, events: &Arc<Events>) -> Self {
        Self {
            accounts: Arc::clone(accounts),
            store: Arc::clone(store),
            events: Arc::clone(events),
            passwords: PasswordLogins::default(),
            first_code: OnceLock::new(),
            link_uses: LinkUses::default(),
            hasher: RandomState::new(),
        }
    }

    /// The principal, if `name` and `password` are those of an account. `from` is where they were sent from.
    ///
    /// # Errors
    /// They are not, or that cannot be found out now.
    pub async fn by_password(&self, name: &str, password: &str, from: IpAddr) -> Result<Principal, LoginError> {
        // Without accounts there is no name to hide.
        if self.accounts.facts().accounts.is_empty() {
            return Err(LoginError::Wrong);
        }
        let login = self.passwords.login(&self.accounts, name, password, from).await;
        // One that is remembered was logged when it was verified.
        if login.as_ref().map_or_else(|error| *error == LoginError::Wrong, |login| !login.is_remembered) {
            self.events.tell(events::login(name, (from, login.is_ok()), SystemTime::now()));
        }
        login.map(|login| login.principal)
    }

    /// The principal of the token with this text.
    ///
    /// # Errors
    /// It is not valid.
    pub fn by_token(&self, text: &str) -> Result<Principal, CredentialError> {
        let (token, principal) = logins::of_token(&self.accounts, text)?;
        self.store.token_used(token.id);
        Ok(principal)
    }

    /// The principal of the browser's login with this text, and the number of that.
    ///
    /// # Errors
    /// It is not valid.
    pub fn by_browser(&self, text: &str) -> Result<(i64, Principal), CredentialError> {
        let (login, principal) = logins::of_browser(&self.accounts, text)?;
        self.store.token_used(login.id);
        Ok((login.id, principal))
    }

    /// The principal of the signed link with this text, for a client at `from`.
    ///
    /// # Errors
    /// It is not valid, or not there.
    pub fn by_link(&self, text: &str, from: IpAddr) -> Result<Principal, CredentialError> {
        logins::of_link(&self.accounts, text, from)
    }

    /// Lets the first account be made by this code, as long as there is none. Has no effect the second time.
    pub fn offer_first_account(&self, code: &str) {
        let _ = self.first_code.set(logins::token_digest(code));
    }

    /// True if it is that code. Digests are compared, so that the time shows nothing.
    pub(crate) fn is_first_code(&self, code: &str) -> bool {
        self.first_code.get().is_some_and(|digest| *digest == logins::token_digest(code))
    }

    /// Counts a use of the permit's link, if its uses are limited and this read of `viewer` begins one: a read of a whole content that was
    /// shared itself does, any other one unless its viewer has begun one before.
    ///
    /// # Errors
    /// The link is used up, or that cannot be found out now.
    pub async fn use_link(&self, permit: &Permit<ToRead>, viewer: &Viewer, is_whole: bool) -> Result<(), ChangeError> {
        let Some(link) = permit.link().filter(|link| link.uses.is_some()) else { return Ok(()) };
        let (viewer, now) = (self.hasher.hash_one(viewer), Instant::now());
        let begins = is_whole && link.given.folder == *permit.path();
        if !begins && self.link_uses.lasts(link.id, viewer, now) {
            return Ok(());
        }
        self.store.change(AccountChange::UseLink { id: link.id, uses: 1, stored: 0 }).await?;
        self.link_uses.begin(link.id, viewer, now);
        Ok(())
    }

    /// Takes uploads, and their bytes, of those that the permit's link permits, if these are limited; negative: gives them back.
    ///
    /// # Errors
    /// As many are not left, or that cannot be found out now.
    pub async fn store_by_link(&self, permit: &Permit<ToWrite>, uses: i64, bytes: i64) -> Result<(), ChangeError> {
        let link = permit.link().filter(|link| link.stored.is_some() || link.uses.is_some());
        let Some(link) = link else { return Ok(()) };
        self.store.change(AccountChange::UseLink { id: link.id, uses, stored: bytes }).await.map(drop)
    }
}
