//! Who may do what.
//!
//! Promise: every front end asks here before it calls the rest. Reading is open to all who reach the server; writing needs a
//! user, or where none is configured, a program on this machine. Not here: how a client says who it is.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use tokio::sync::Semaphore;
use units::BitRate;

use crate::config::Config;
use crate::contents::ContentPath;
use crate::media_service::lock;

/// A verified login is not verified again for so long.
const REMEMBERED_TIME: Duration = Duration::from_secs(300);
/// Verified logins remembered at once.
const REMEMBERED_MAX: usize = 1024;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Somebody.
    Anonymous,
    /// A program on this machine that nobody else speaks through.
    Local,
    /// Somebody who proved to be this user.
    User(String),
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// To read or list.
    Read,
    /// To store.
    Write,
    /// To remove.
    Delete,
}

/// Why it is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// A user may.
    #[error("writes need a user's name and password")]
    UserNeeded,
    /// No users are configured, and only this machine may write.
    #[error("without configured users, writes are accepted from this machine only; configure a user")]
    LocalOnly,
}

/// Verified logins, remembered for a while: argon2 is slow on purpose, and a player that records sends many requests.
pub struct Access {
    /// Keyed hashes of what was verified, and until when. Two independent 64-bit hashes: no password is kept.
    verified: Mutex<HashMap<(u64, u64), Instant>>,
    keys: (RandomState, RandomState),
    /// Verifications at once: guessing must not take all processors.
    verifying: Semaphore,
}

impl Default for Access {
    fn default() -> Self {
        Self { verified: Mutex::default(), keys: Default::default(), verifying: Semaphore::new(1) }
    }
}

impl Access {
    /// Whether `principal` may do that to the content at `path`, at `rate` if one is to be reserved.
    ///
    /// # Errors
    /// Why not.
    pub fn authorize(
        config: &Config,
        principal: &Principal,
        verb: Verb,
        _path: &ContentPath,
        _rate: Option<BitRate>,
    ) -> Result<(), Denied> {
        match (verb, principal) {
            (Verb::Read, _) | (_, Principal::User(_)) => Ok(()),
            (_, Principal::Local) if config.users.is_empty() => Ok(()),
            _ if config.users.is_empty() => Err(Denied::LocalOnly),
            _ => Err(Denied::UserNeeded),
        }
    }

    /// Whether that is a user's name and password.
    pub async fn login(&self, config: &Config, name: &str, password: &str) -> Option<Principal> {
        let user = config.users.iter().find(|user| user.name == name)?;
        let secret = (&user.name, &user.password_hash, password);
        let key = (self.keys.0.hash_one(secret), self.keys.1.hash_one(secret));
        let now = Instant::now();
        let principal = Principal::User(name.to_owned());
        if lock(&self.verified).get(&key).is_some_and(|until| *until > now) {
            return Some(principal);
        }
        let _permit = self.verifying.acquire().await.ok()?;
        let (hash, password) = (user.password_hash.clone(), password.to_owned());
        let verification = tokio::task::spawn_blocking(move || {
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        });
        if !verification.await.unwrap_or(false) {
            return None;
        }
        let mut verified = lock(&self.verified);
        verified.retain(|_, until| *until > now);
        if verified.len() < REMEMBERED_MAX {
            verified.insert(key, now + REMEMBERED_TIME);
        }
        Some(principal)
    }
}
