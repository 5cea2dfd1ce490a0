//! Accounts of a server under test.

use std::collections::HashMap;
use std::sync::Arc;

use api::{AccountEntry, GroupEntry, LinkEntry, TokenEntry};
use argon2::password_hash::{PasswordHasher, SaltString};
use service::account_changes::{AccountChange, AccountStore, ChangeError, ListPart, PendingChange, Waiting};
use service::accounts::{Account, AccountFacts, FolderRights};

/// A store of accounts with one entry in each list, in which nothing can be changed.
pub struct NoStore;

impl AccountStore for NoStore {
    fn change(&self, _: AccountChange) -> PendingChange<'_> {
        Box::pin(async { Err(ChangeError::Unavailable("there is no store".to_owned())) })
    }

    fn accounts(&self, _: ListPart<String>) -> Waiting<'_, Vec<AccountEntry>> {
        let entry = AccountEntry { name: "ada".to_owned(), groups: Vec::new(), rights: Vec::new(), created: 1 };
        Box::pin(async { Ok(vec![entry]) })
    }

    fn groups(&self, _: ListPart<String>) -> Waiting<'_, Vec<GroupEntry>> {
        let entry = GroupEntry { name: "cut".to_owned(), members: Vec::new(), rights: Vec::new() };
        Box::pin(async { Ok(vec![entry]) })
    }

    fn tokens(&self, _: Option<String>, _: ListPart<i64>) -> Waiting<'_, Vec<TokenEntry>> {
        let entry = TokenEntry {
            id: 1,
            user: "ada".to_owned(),
            is_login: false,
            label: String::new(),
            folder: "/".to_owned(),
            rights: Vec::new(),
            created: 1,
            expires: None,
            last_used: None,
        };
        Box::pin(async { Ok(vec![entry]) })
    }

    fn links(&self, _: Option<String>, _: ListPart<i64>) -> Waiting<'_, Vec<LinkEntry>> {
        let entry = LinkEntry {
            id: 1,
            path: "/".to_owned(),
            rights: Vec::new(),
            share: None,
            created: 1,
            expires: 2,
            rate_bps: None,
            uses: None,
            used: 0,
            from: Vec::new(),
            stored_max: None,
            stored: 0,
            by: None,
        };
        Box::pin(async { Ok(vec![entry]) })
    }

    fn stored(&self) -> Waiting<'_, HashMap<String, u64>> {
        Box::pin(async { Ok(HashMap::new()) })
    }

    fn token_used(&self, _: i64) {}
}

/// Accounts with these names, passwords and rights.
pub fn users(users: &[(&str, &str, FolderRights)]) -> AccountFacts {
    let account = |(name, password, given): &(&str, &str, FolderRights)| {
        let hash = password_hash(password).into();
        (
            (*name).to_owned(),
            Account { password_hash: Some(hash), rights: Arc::from([given.clone()]), groups: Arc::from([]) },
        )
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
