//! Accounts of a server under test.

use std::sync::Arc;

use argon2::password_hash::{PasswordHasher, SaltString};
use service::account_changes::{AccountChange, AccountStore, ChangeError, PendingChange};
use service::accounts::{Account, AccountFacts, FolderRights};

/// A store of accounts in which nothing can be changed.
pub struct NoStore;

impl AccountStore for NoStore {
    fn change(&self, _: AccountChange) -> PendingChange<'_> {
        Box::pin(async { Err(ChangeError::Unavailable("there is no store".to_owned())) })
    }

    fn token_used(&self, _: i64) {}
}

/// Accounts with these names, passwords and rights.
pub fn users(users: &[(&str, &str, FolderRights)]) -> AccountFacts {
    let account = |(name, password, given): &(&str, &str, FolderRights)| {
        let hash = password_hash(password).into();
        ((*name).to_owned(), Account { password_hash: Some(hash), rights: Arc::from([given.clone()]) })
    };
    AccountFacts { accounts: users.iter().map(account).collect(), ..AccountFacts::default() }
}

/// A hash of a password that costs next to nothing.
pub fn password_hash(password: &str) -> String {
    let salt = SaltString::encode_b64(b"eightbytes").expect("a salt");
    let params = argon2::Params::new(argon2::Params::MIN_M_COST, 1, 1, None).expect("parameters");
    let hasher = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    hasher.hash_password(password.as_bytes(), &salt).expect("a hash").to_string()
}
