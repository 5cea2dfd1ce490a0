//! Logins: a name and a password that are a user's, the text of a token, that of a signed link.
//!
//! Promise: argon2 is slow on purpose, so a right login is remembered for a while by a keyed hash, and is not verified again
//! meanwhile; a storm of wrong ones takes one processor at most, and keeps no other network waiting (`login_queue`); those of one
//! address are verified in the order they came, so that a right one behind the same proxy has its turn as well; the time of an
//! answer does not show whether the name is a user's (others are verified against a hash that no password has); and a login that cannot be verified within seconds is answered with a request
//! to try again. No password is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHasher, SaltString};
use argon2::{Argon2, PasswordHash, PasswordVerifier};

use sha2::{Digest as _, Sha256};

use crate::access::{AccountName, Principal, ProvenLink};
use crate::accounts::{AccountToken, Accounts, CredentialKind, SignedLink};
use crate::lock::lock;
use crate::login_queue::LoginQueue;

/// A login that was right is not verified again for this time after its last use.
const REMEMBERED_TIME: Duration = Duration::from_secs(600);
/// Remembered at once.
const REMEMBERED_MAX: usize = 1024;
/// Longest wait for a verification to begin: 512 of 10 ms each, and sooner than clients give up.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The hash against which an unknown name is verified, of the same cost as others. Its password is random and was not kept.
const NO_ACCOUNT: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$nHqI2YoaI7ANSJCu66bf/g$sJYIZpTxPLb3BmnRY2aAprhRPdL5HMMwq+6ecZqm8HM";
/// Before the text of a token, so that programs that look for secrets find it.
pub const TOKEN_PREFIX: &str = "isocast_";

/// Reason of a failed login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// There is no such user, or this is not its password.
    #[error("the name or the password is wrong")]
    Wrong,
    /// Too many passwords are being verified.
    #[error("too many passwords are being verified; try again in a second")]
    Busy,
}

/// A login that is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RightLogin {
    pub(crate) principal: Principal,
    /// It was verified before, and not again.
    pub(crate) is_remembered: bool,
}

/// The reason why a token or a link is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// There is none of this text, or it was revoked.
    #[error("this {0} is not known: it is not whole, was altered or revoked")]
    Unknown(&'static str),
    /// Its time is over.
    #[error("this {0} has expired")]
    Expired(&'static str),
    /// It is for other networks.
    #[error("this link is not for clients of your network")]
    Elsewhere,
}

/// The account of the token with this text.
///
/// # Errors
/// It is not valid.
pub fn of_token(accounts: &Accounts, text: &str) -> Result<(Arc<AccountToken>, Principal), CredentialError> {
    let token = valid(accounts, text, "token", |kind| kind == CredentialKind::Token)?;
    let principal = Principal::Account(AccountName::of_token(Arc::clone(&token)));
    Ok((token, principal))
}

/// The account of the browser's login with this text, with all its rights: it was begun by a password.
///
/// # Errors
/// It is not valid.
pub fn of_browser(accounts: &Accounts, text: &str) -> Result<(Arc<AccountToken>, Principal), CredentialError> {
    let login = valid(accounts, text, "login", |kind| kind != CredentialKind::Token)?;
    let principal = Principal::Account(AccountName::proven(&login.account));
    Ok((login, principal))
}

/// The credential with this text, if it is of a kind that fits and valid now.
fn valid(
    accounts: &Accounts,
    text: &str,
    name: &'static str,
    fits: impl Fn(CredentialKind) -> bool,
) -> Result<Arc<AccountToken>, CredentialError> {
    let found = accounts.facts().tokens.get(&token_digest(text)).map(Arc::clone);
    let token = found.filter(|token| fits(token.kind)).ok_or(CredentialError::Unknown(name))?;
    let idle_ends = match token.kind {
        CredentialKind::Token => None,
        CredentialKind::Browser { idle_ends } => Some(idle_ends),
    };
    if token.expires.into_iter().chain(idle_ends).any(|end| end <= accounts.now()) {
        return Err(CredentialError::Expired(name));
    }
    Ok(token)
}

/// The key by which a token is kept: its text cannot be found from it.
#[must_use]
pub fn token_digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The link with this text, if it is valid now, for a client at `from`.
///
/// # Errors
/// It is not.
pub fn of_link(accounts: &Accounts, text: &str, from: IpAddr) -> Result<Principal, CredentialError> {
    let unknown = CredentialError::Unknown("link");
    let (id, signature) = link_parts(text).ok_or(unknown)?;
    let link = accounts.facts().links.get(&id).map(Arc::clone).ok_or(unknown)?;
    // All bytes are compared, so that the time shows nothing.
    let differs = link.signature.iter().zip(signature).fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs));
    if differs != 0 {
        return Err(unknown);
    }
    if link.expires <= accounts.now() {
        return Err(CredentialError::Expired("link"));
    }
    if !link.admits(from) {
        return Err(CredentialError::Elsewhere);
    }
    Ok(Principal::Link(ProvenLink::proven(link)))
}

/// The text of a link, which stands in the query as `share=`: its number and its signature.
#[must_use]
pub fn link_text(link: &SignedLink) -> String {
    let signature = link.signature.iter().map(|byte| format!("{byte:02x}"));
    format!("{}-{}", link.id, signature.collect::<String>())
}

fn link_parts(text: &str) -> Option<(i64, [u8; 16])> {
    let (id, digits) = text.split_once('-')?;
    if digits.len() != 32 || !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let signature = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
    id.bytes().all(|digit| digit.is_ascii_digit()).then_some(())?;
    Some((id.parse().ok()?, signature))
}

/// The shortest new password, bytes: NIST SP 800-63B, 3.1.1.2, asks for 8 characters where there is a second proof.
pub const PASSWORD_BYTES_MIN: usize = 8;
/// The longest password, bytes.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// A PHC string of an argon2id hash with a random salt. It takes 20 ms of a processor and 19 MiB.
///
/// # Panics
/// The system has no random bytes.
#[must_use]
pub fn hash_password(password: &str) -> String {
    let salt = SaltString::generate(&mut OsRng);
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    hash.expect("the default parameters take passwords of any length").to_string()
}

/// Logins by passwords that were verified, and those that are.
#[derive(Default)]
pub(crate) struct PasswordLogins {
    /// Two independent 64-bit hashes of each verified login, and the time until which it is remembered.
    verified: Mutex<HashMap<(u64, u64), Instant>>,
    keys: (RandomState, RandomState),
    /// One at a time: guessing must not take all processors.
    queue: Arc<LoginQueue>,
}

impl PasswordLogins {
    /// The principal, if `name` and `password` are those of an account. `from` is where they were sent from.
    ///
    /// # Errors
    /// They are not, or that cannot be found out now.
    pub(crate) async fn login(
        &self,
        accounts: &Accounts,
        name: &str,
        password: &str,
        from: IpAddr,
    ) -> Result<RightLogin, LoginError> {
        let right =
            |is_remembered| Ok(RightLogin { principal: Principal::Account(AccountName::proven(name)), is_remembered });
        let known = accounts.facts().accounts.get(name).and_then(|account| account.password_hash.clone());
        let is_known = known.is_some();
        // A login under an unknown name takes as long as any other.
        let hash = known.unwrap_or_else(|| Arc::from(NO_ACCOUNT));
        let secret = (name, &hash, password);
        let key = (self.keys.0.hash_one(secret), self.keys.1.hash_one(secret));
        let now = Instant::now();
        if let Some(until) = lock(&self.verified).get_mut(&key).filter(|until| **until > now) {
            *until = now + REMEMBERED_TIME;
            return right(true);
        }
        let turn = tokio::time::timeout(WAIT_MAX, self.queue.turn(from)).await;
        let _turn = turn.ok().flatten().ok_or(LoginError::Busy)?;
        let password = password.to_owned();
        let verification = tokio::task::spawn_blocking(move || {
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        });
        if !verification.await.unwrap_or(false) || !is_known {
            return Err(LoginError::Wrong);
        }
        self.queue.forgive(from);
        let mut verified = lock(&self.verified);
        verified.retain(|_, until| *until > now);
        if verified.len() < REMEMBERED_MAX {
            verified.insert(key, now + REMEMBERED_TIME);
        }
        right(false)
    }
}

#[cfg(test)]
mod tests {
    use argon2::{Algorithm, Params, Version};

    use super::*;
    use crate::accounts::{Account, AccountFacts};
    use crate::accounts::{FolderRights, Rights};
    use crate::contents::ContentPath;
    use crate::login_queue::WAITING_MAX;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn accounts() -> Accounts {
        let salt = SaltString::encode_b64(b"0123456789abcdef").expect("a salt");
        let quick = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8, 1, 1, None).expect("parameters"));
        let user = |name: &str, password: &[u8]| {
            let hash = quick.hash_password(password, &salt).expect("a hash").to_string();
            (
                name.to_owned(),
                Account { password_hash: Some(hash.into()), rights: Arc::from([]), groups: Arc::from([]) },
            )
        };
        let accounts = Accounts::default();
        let both = [user("ada", b"secret"), user("eve", b"other")].into();
        accounts.put(AccountFacts { accounts: both, ..AccountFacts::default() });
        accounts
    }

    async fn login(
        logins: &PasswordLogins,
        accounts: &Accounts,
        name: &str,
        password: &str,
        from: IpAddr,
    ) -> Result<Principal, LoginError> {
        logins.login(accounts, name, password, from).await.map(|login| login.principal)
    }

    #[tokio::test]
    async fn a_storm_of_wrong_passwords_locks_no_user_out() {
        let (logins, accounts) = (Arc::new(PasswordLogins::default()), Arc::new(accounts()));
        let user = Ok(Principal::Account(AccountName::proven("ada")));
        assert_eq!(login(&logins, &accounts, "ada", "secret", address(1)).await, user);
        assert_eq!(
            login(&logins, &accounts, "bob", "secret", address(1)).await,
            Err(LoginError::Wrong),
            "ada's password"
        );
        // No other verification begins while this is held.
        let held = logins.queue.turn(address(9)).await.expect("nobody waits");
        let ask = |name: &'static str, password: String, from| {
            let (logins, accounts) = (Arc::clone(&logins), Arc::clone(&accounts));
            tokio::spawn(async move { login(&logins, &accounts, name, &password, from).await })
        };
        let storm: Vec<_> = (0..WAITING_MAX).map(|guess| ask("ada", guess.to_string(), address(1))).collect();
        while logins.queue.waiting() < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(login(&logins, &accounts, "ada", "secret", address(1)).await, user, "it is remembered");
        assert_eq!(
            login(&logins, &accounts, "eve", "other", address(1)).await,
            Err(LoginError::Busy),
            "no place is left"
        );
        let elsewhere = ask("eve", "other".to_owned(), address(2));
        // It takes the place of a guess.
        while !storm.iter().any(tokio::task::JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
        drop(held);
        assert!(elsewhere.await.expect("no panic").is_ok(), "another address waits for one of them at most");
        assert!(storm.iter().any(|guess| !guess.is_finished()), "and not for all");
        let mut outcomes = Vec::new();
        for guess in storm {
            outcomes.push(guess.await.expect("no panic"));
        }
        // On a busy machine the last ones have waited for as long as they may.
        let is_wrong = |outcome: &&Result<_, _>| matches!(outcome, Err(LoginError::Wrong | LoginError::Busy));
        assert_eq!(outcomes.iter().filter(is_wrong).count(), WAITING_MAX, "none is right");
        assert_eq!(logins.queue.waiting(), 0);
    }

    #[tokio::test]
    async fn a_name_that_is_no_user_waits_for_a_verification_too() {
        let (logins, accounts) = (PasswordLogins::default(), accounts());
        let held = logins.queue.turn(address(9)).await.expect("nobody waits");
        let mut login = std::pin::pin!(login(&logins, &accounts, "bob", "secret", address(1)));
        tokio::select! {
            biased;
            _ = &mut login => panic!("it was told at once"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(logins.queue.waiting(), 1);
        drop(held);
        assert_eq!(login.await, Err(LoginError::Wrong));
    }

    #[tokio::test]
    async fn a_right_password_amid_a_storm_from_its_own_address_has_its_turn() {
        let (logins, accounts) = (Arc::new(PasswordLogins::default()), Arc::new(accounts()));
        let held = logins.queue.turn(address(9)).await.expect("nobody waits");
        let ask = |password: String| {
            let (logins, accounts) = (Arc::clone(&logins), Arc::clone(&accounts));
            tokio::spawn(async move { login(&logins, &accounts, "ada", &password, address(1)).await })
        };
        let waiting = |count| logins.queue.waiting() == count;
        let before: Vec<_> = (0..10).map(|guess| ask(guess.to_string())).collect();
        while !waiting(10) {
            tokio::task::yield_now().await;
        }
        let right = ask("secret".to_owned());
        while !waiting(11) {
            tokio::task::yield_now().await;
        }
        let after: Vec<_> = (10..20).map(|guess| ask(guess.to_string())).collect();
        drop(held);
        assert_eq!(right.await.expect("no panic"), Ok(Principal::Account(AccountName::proven("ada"))));
        assert!(before.iter().all(tokio::task::JoinHandle::is_finished), "it came after those before it");
        assert!(after.iter().any(|guess| !guess.is_finished()), "and before those behind it");
    }

    #[test]
    fn an_unknown_name_costs_as_much_as_a_known_one() {
        let hash = PasswordHash::new(NO_ACCOUNT).expect("a PHC string");
        let salt = SaltString::encode_b64(&[0; 16]).expect("a salt");
        let ours = Argon2::default().hash_password(b"x", &salt);
        assert_eq!(hash.params, ours.expect("hashed").params);
        assert!(Argon2::default().verify_password(b"", &hash).is_err());
    }

    #[test]
    fn a_token_is_found_by_its_whole_text_until_it_expires() {
        let accounts = accounts();
        let token = |expires, kind| {
            Arc::new(AccountToken {
                id: 1,
                digest: [1; 32],
                account: "ada".into(),
                within: FolderRights::all(),
                expires,
                kind,
            })
        };
        let browser = |idle_ends| CredentialKind::Browser { idle_ends };
        let tokens = [
            ("a", None, CredentialKind::Token),
            ("b", Some(1), CredentialKind::Token),
            ("c", Some(u64::MAX), CredentialKind::Token),
            ("d", Some(u64::MAX), browser(u64::MAX)),
            ("e", Some(u64::MAX), browser(1)),
            ("f", Some(1), browser(u64::MAX)),
        ];
        let tokens = tokens.map(|(text, expires, kind)| (token_digest(text), token(expires, kind))).into();
        accounts.put(AccountFacts { tokens, ..AccountFacts::default() });
        assert!(of_token(&accounts, "a").is_ok() && of_token(&accounts, "c").is_ok());
        assert!(of_browser(&accounts, "d").is_ok());
        for text in ["e", "f"] {
            assert_eq!(of_browser(&accounts, text).err(), Some(CredentialError::Expired("login")), "{text}");
        }
        assert_eq!(of_browser(&accounts, "a").err(), Some(CredentialError::Unknown("login")), "a token is no login");
        assert_eq!(of_token(&accounts, "d").err(), Some(CredentialError::Unknown("token")), "and a login no token");
        assert_eq!(of_token(&accounts, "b").err(), Some(CredentialError::Expired("token")));
        for text in ["", "A", "ab", "a "] {
            assert_eq!(of_token(&accounts, text).err(), Some(CredentialError::Unknown("token")), "{text}");
        }
    }

    #[test]
    fn a_link_is_valid_unaltered_until_it_expires_and_from_its_networks() {
        let accounts = accounts();
        let link = SignedLink {
            id: 7,
            signature: [0xa5; 16],
            given: FolderRights { folder: ContentPath::root(), rights: Rights::ALL },
            expires: u64::MAX,
            rate: None,
            uses: None,
            from: vec!["192.0.2.0/28".parse().expect("a network")],
            stored: None,
            by: None,
        };
        let old = SignedLink { id: 8, expires: 1, ..link.clone() };
        let texts = [link_text(&link), link_text(&old)];
        let links = [(7, Arc::new(link)), (8, Arc::new(old))].into();
        accounts.put(AccountFacts { links, ..AccountFacts::default() });
        let check = |text: &str, from| of_link(&accounts, text, from).err();
        assert_eq!(check(&texts[0], address(1)), None);
        assert_eq!(check(&texts[0], address(99)), Some(CredentialError::Elsewhere));
        assert_eq!(check(&texts[1], address(1)), Some(CredentialError::Expired("link")));
        let digits = &texts[0][2..];
        let altered = [
            format!("8-{}", digits.replacen('a', "b", 1)),
            format!("7-{}", &digits[..30]),
            format!("+7-{digits}"),
            format!("7-+{}", &digits[1..]),
            format!("7-{}", digits.to_uppercase()),
            "9223372036854775808-".to_owned() + digits,
            String::new(),
            "-".to_owned(),
        ];
        for text in altered {
            assert_eq!(check(&text, address(1)), Some(CredentialError::Unknown("link")), "{text}");
        }
    }
}
