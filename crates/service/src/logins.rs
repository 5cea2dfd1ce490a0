//! Whether a name and a password are a user's.
//!
//! Promise: argon2 is slow on purpose, so what was right is remembered for a while by a keyed hash, and is not verified again
//! meanwhile; a storm of wrong ones takes one processor at most, its address waits for itself only, and who cannot be
//! verified within a second is told to come again. No password is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use tokio::sync::Semaphore;

use crate::access::Principal;
use crate::config::ServiceConfig;
use crate::lock::lock;

/// What was right is not verified again for so long after its last use.
const REMEMBERED_TIME: Duration = Duration::from_secs(600);
/// Remembered at once.
const REMEMBERED_MAX: usize = 1024;
/// Verifications of one address that run or wait at once: two, so that a program's second connection need not come again.
const PER_ADDRESS_MAX: usize = 2;
/// Addresses whose verifications run or wait at once.
const ADDRESSES_MAX: usize = 256;
/// Longest wait for a verification to begin.
const WAIT_MAX: Duration = Duration::from_millis(700);

/// Why nobody was logged in.
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
pub struct Logins {
    /// Two independent 64-bit hashes of what was verified, and until when it is remembered.
    verified: Mutex<HashMap<(u64, u64), Instant>>,
    keys: (RandomState, RandomState),
    /// One at a time: guessing must not take all processors.
    verifying: Semaphore,
    waiting: Mutex<HashMap<IpAddr, usize>>,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            verified: Mutex::default(),
            keys: Default::default(),
            verifying: Semaphore::new(1),
            waiting: Mutex::default(),
        }
    }
}

impl Logins {
    /// Who that is, if `name` and `password` are a user's. `from` is where it was sent from.
    ///
    /// # Errors
    /// They are not, or that cannot be found out now.
    pub async fn login(
        &self,
        config: &ServiceConfig,
        name: &str,
        password: &str,
        from: IpAddr,
    ) -> Result<Principal, LoginError> {
        let user = config.users.iter().find(|user| user.name == name).ok_or(LoginError::Wrong)?;
        let secret = (&user.name, &user.password_hash, password);
        let key = (self.keys.0.hash_one(secret), self.keys.1.hash_one(secret));
        let now = Instant::now();
        if let Some(until) = lock(&self.verified).get_mut(&key).filter(|until| **until > now) {
            *until = now + REMEMBERED_TIME;
            return Ok(Principal::User(name.to_owned()));
        }
        let _turn = self.turn(from).ok_or(LoginError::Busy)?;
        let permit = tokio::time::timeout(WAIT_MAX, self.verifying.acquire()).await;
        let _permit = permit.ok().and_then(Result::ok).ok_or(LoginError::Busy)?;
        let (hash, password) = (user.password_hash.clone(), password.to_owned());
        let verification = tokio::task::spawn_blocking(move || {
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        });
        if !verification.await.unwrap_or(false) {
            return Err(LoginError::Wrong);
        }
        let mut verified = lock(&self.verified);
        verified.retain(|_, until| *until > now);
        if verified.len() < REMEMBERED_MAX {
            verified.insert(key, now + REMEMBERED_TIME);
        }
        Ok(Principal::User(name.to_owned()))
    }

    /// A turn of this address, if it has one left.
    fn turn(&self, from: IpAddr) -> Option<Turn<'_>> {
        let address = network(from);
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= ADDRESSES_MAX && !waiting.contains_key(&address) {
            return None;
        }
        let count = waiting.entry(address).or_default();
        if *count >= PER_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(Turn { logins: self, address })
    }
}

/// A verification of an address that runs or waits; over when dropped.
struct Turn<'a> {
    logins: &'a Logins,
    address: IpAddr,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.logins.waiting);
        if let Some(count) = waiting.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.address);
            }
        }
    }
}

/// Whoever has an IPv6 address has the 2^64 beside it as well.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::{PasswordHasher, SaltString};
    use std::sync::Arc;

    use super::*;
    use crate::config::User;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn config() -> ServiceConfig {
        let salt = SaltString::encode_b64(b"0123456789abcdef").expect("a salt");
        let password_hash = Argon2::default().hash_password(b"secret", &salt).expect("a hash").to_string();
        ServiceConfig { users: vec![User { name: "ada".to_owned(), password_hash }], ..ServiceConfig::default() }
    }

    #[tokio::test]
    async fn a_storm_of_wrong_passwords_takes_nobody_elses_turn() {
        let (logins, config) = (Arc::new(Logins::default()), Arc::new(config()));
        let user = Ok(Principal::User("ada".to_owned()));
        assert_eq!(logins.login(&config, "ada", "secret", address(1)).await, user);
        assert_eq!(logins.login(&config, "bob", "secret", address(1)).await, Err(LoginError::Wrong));
        // Nobody else's verification ends while this is held.
        let held = logins.verifying.acquire().await.expect("it is never closed");
        let storm: Vec<_> = (0..50)
            .map(|guess| {
                let (logins, config) = (Arc::clone(&logins), Arc::clone(&config));
                tokio::spawn(async move { logins.login(&config, "ada", &guess.to_string(), address(1)).await })
            })
            .collect();
        while lock(&logins.waiting).get(&address(1)) != Some(&PER_ADDRESS_MAX) {
            tokio::task::yield_now().await;
        }
        assert_eq!(logins.login(&config, "ada", "secret", address(1)).await, user, "it is remembered");
        assert_eq!(logins.login(&config, "ada", "x", address(1)).await, Err(LoginError::Busy), "no turn is left");
        assert!(logins.turn(address(2)).is_some(), "another address has its own");
        drop(held);
        let mut outcomes = Vec::new();
        for guess in storm {
            outcomes.push(guess.await.expect("no panic"));
        }
        assert!(outcomes.iter().all(Result::is_err) && outcomes.contains(&Err(LoginError::Busy)));
        assert!(lock(&logins.waiting).is_empty());
    }

    #[test]
    fn a_network_of_ipv6_has_one_turn() {
        let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(network(parse("2001:db8::1")), network(parse("2001:db8::ffff:1")));
        assert_ne!(network(parse("2001:db8::1")), network(parse("2001:db8:0:1::1")));
        assert_eq!(network(parse("::ffff:192.0.2.1")), address(1));
    }
}
