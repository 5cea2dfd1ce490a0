//! Accounts of users that a provider of identities has proven.
//!
//! Promise: an identity has one account, and an account one identity: a user who takes another's name at the provider does not get that
//! other's account.

use rusqlite::{Connection, OptionalExtension as _};
use service::account_changes::{ChangeError, ProvenIdentity};

use crate::entries::NO_PASSWORD;
use crate::steps::{MEMBERS_MAX, StepError, add_account, has_room};

/// The account of an identity: the one to which it belongs, else the one of its name, which is added if that may be. Its groups are those of
/// the identity from then on, if it names any.
pub(crate) fn account_of(tables: &Connection, identity: &ProvenIdentity, now: i64) -> Result<String, StepError> {
    let ProvenIdentity { subject, name, groups, may_add } = identity;
    let sql = "SELECT name FROM account WHERE identity = ?1";
    let account = match tables.query_row(sql, [subject], |row| row.get(0)).optional()? {
        Some(known) => known,
        None => {
            claim(tables, (subject, name), *may_add, now)?;
            name.clone()
        }
    };
    if let Some(groups) = groups {
        tables.execute("DELETE FROM member WHERE account = ?1", [&account])?;
        for group in groups {
            has_room(tables, "member", MEMBERS_MAX, "members of groups")?;
            tables.execute("INSERT OR IGNORE INTO member VALUES (?1, ?2)", [group, &account])?;
        }
    }
    Ok(account)
}

/// Gives the account `name` to the identity that has none.
fn claim(tables: &Connection, (subject, name): (&String, &String), may_add: bool, now: i64) -> Result<(), StepError> {
    let sql = "SELECT identity FROM account WHERE name = ?1";
    match tables.query_row(sql, [name], |row| row.get::<_, Option<String>>(0)).optional()? {
        Some(None) => {}
        Some(Some(_)) => return Err(ChangeError::OtherIdentity(name.clone()).into()),
        None if may_add => add_account(tables, name, NO_PASSWORD, now)?,
        None => return Err(ChangeError::NotAdded(name.clone()).into()),
    }
    tables.execute("UPDATE account SET identity = ?1 WHERE name = ?2", [subject, name])?;
    Ok(())
}
