//! Logins: a name and a password that are a user's.
//!
//! Promise: argon2 is slow on purpose, so a right login is remembered for a while by a keyed hash, and is not verified again
//! meanwhile; a storm of wrong ones takes one processor at most, and keeps no other network waiting (`login_queue`); those of one
//! address are verified in the order they came, so that a right one behind the same proxy has its turn as well; the time of an
//! answer does not show whether the name is a user's; and a login that cannot be verified within seconds is answered with a request
//! to try again. No password is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use argon2::{Argon2, PasswordHash, PasswordVerifier};

use crate::access::{AccountName, Principal};
use crate::accounts::Accounts;
use crate::lock::lock;
use crate::login_queue::LoginQueue;

/// A login that was right is not verified again for so long after its last use.
const REMEMBERED_TIME: Duration = Duration::from_secs(600);
/// Remembered at once.
const REMEMBERED_MAX: usize = 1024;
/// Longest wait for a verification to begin: 512 of 10 ms each, and sooner than clients give up.
const WAIT_MAX: Duration = Duration::from_secs(5);

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

/// Logins that were verified, and those that are.
#[derive(Default)]
pub struct Logins {
    /// Two independent 64-bit hashes of each verified login, and the time until which it is remembered.
    verified: Mutex<HashMap<(u64, u64), Instant>>,
    keys: (RandomState, RandomState),
    /// One at a time: guessing must not take all processors.
    queue: Arc<LoginQueue>,
}

impl Logins {
    /// The principal, if `name` and `password` are those of an account. `from` is where they were sent from.
    ///
    /// # Errors
    /// They are not, or that cannot be found out now.
    pub async fn login(
        &self,
        accounts: &dyn Accounts,
        name: &str,
        password: &str,
        from: IpAddr,
    ) -> Result<Principal, LoginError> {
        let account = accounts.account(name);
        let is_known = account.is_some();
        // A login under an unknown name takes as long as any other: it is verified against another account's hash.
        let hash = account.or_else(|| accounts.any()).ok_or(LoginError::Wrong)?.password_hash;
        let secret = (name, &hash, password);
        let key = (self.keys.0.hash_one(secret), self.keys.1.hash_one(secret));
        let now = Instant::now();
        if let Some(until) = lock(&self.verified).get_mut(&key).filter(|until| **until > now) {
            *until = now + REMEMBERED_TIME;
            return Ok(Principal::Account(AccountName::proven(name)));
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
        Ok(Principal::Account(AccountName::proven(name)))
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::{PasswordHasher, SaltString};
    use argon2::{Algorithm, Params, Version};

    use super::*;
    use crate::accounts::ConfiguredAccounts;
    use crate::login_queue::WAITING_MAX;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn accounts() -> ConfiguredAccounts {
        let salt = SaltString::encode_b64(b"0123456789abcdef").expect("a salt");
        let quick = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8, 1, 1, None).expect("parameters"));
        let hash = |password: &[u8]| quick.hash_password(password, &salt).expect("a hash").to_string();
        let user = |name: &str, password| (name.to_owned(), hash(password));
        let accounts = ConfiguredAccounts::default();
        accounts.configure(&[user("ada", b"secret"), user("eve", b"other")], false);
        accounts
    }

    #[tokio::test]
    async fn a_storm_of_wrong_passwords_keeps_nobody_out() {
        let (logins, accounts) = (Arc::new(Logins::default()), Arc::new(accounts()));
        let user = Ok(Principal::Account(AccountName::proven("ada")));
        assert_eq!(logins.login(&*accounts, "ada", "secret", address(1)).await, user);
        assert_eq!(
            logins.login(&*accounts, "bob", "secret", address(1)).await,
            Err(LoginError::Wrong),
            "ada's password"
        );
        // No other verification begins while this is held.
        let held = logins.queue.turn(address(9)).await.expect("nobody waits");
        let ask = |name: &'static str, password: String, from| {
            let (logins, accounts) = (Arc::clone(&logins), Arc::clone(&accounts));
            tokio::spawn(async move { logins.login(&*accounts, name, &password, from).await })
        };
        let storm: Vec<_> = (0..WAITING_MAX).map(|guess| ask("ada", guess.to_string(), address(1))).collect();
        while logins.queue.waiting() < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(logins.login(&*accounts, "ada", "secret", address(1)).await, user, "it is remembered");
        assert_eq!(
            logins.login(&*accounts, "eve", "other", address(1)).await,
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
        let wrong = outcomes.iter().filter(|outcome| **outcome == Err(LoginError::Wrong)).count();
        assert_eq!((wrong, outcomes.len()), (WAITING_MAX - 1, WAITING_MAX), "each of the others had its turn");
        assert_eq!(logins.queue.waiting(), 0);
    }

    #[tokio::test]
    async fn a_name_that_is_no_user_waits_for_a_verification_too() {
        let (logins, accounts) = (Logins::default(), accounts());
        let held = logins.queue.turn(address(9)).await.expect("nobody waits");
        let mut login = std::pin::pin!(logins.login(&accounts, "bob", "secret", address(1)));
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
        let (logins, accounts) = (Arc::new(Logins::default()), Arc::new(accounts()));
        let held = logins.queue.turn(address(9)).await.expect("nobody waits");
        let ask = |password: String| {
            let (logins, accounts) = (Arc::clone(&logins), Arc::clone(&accounts));
            tokio::spawn(async move { logins.login(&*accounts, "ada", &password, address(1)).await })
        };
        let waiting = |count| logins.queue.waiting() == count;
        let before: Vec<_> = (0..50).map(|guess| ask(guess.to_string())).collect();
        while !waiting(50) {
            tokio::task::yield_now().await;
        }
        let right = ask("secret".to_owned());
        while !waiting(51) {
            tokio::task::yield_now().await;
        }
        let after: Vec<_> = (50..100).map(|guess| ask(guess.to_string())).collect();
        drop(held);
        assert_eq!(right.await.expect("no panic"), Ok(Principal::Account(AccountName::proven("ada"))));
        assert!(before.iter().all(tokio::task::JoinHandle::is_finished), "it came after those before it");
        assert!(after.iter().any(|guess| !guess.is_finished()), "and before those behind it");
    }
}
