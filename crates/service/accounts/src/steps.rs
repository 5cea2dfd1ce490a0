//! Steps that several changes of the database have in common, and their errors.

use rusqlite::{Connection, params};
use service::account_changes::ChangeError;

/// Limits on entries.
const ACCOUNTS_MAX: u64 = 10_000;
pub(crate) const MEMBERS_MAX: u64 = 100_000;

/// The error of a step: of the change, or of the database.
pub(crate) enum StepError {
    Change(ChangeError),
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for StepError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<ChangeError> for StepError {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

/// Adds an account, without rights.
pub(crate) fn add_account(tables: &Connection, name: &str, password_hash: &str, now: i64) -> Result<(), StepError> {
    has_room(tables, "account", ACCOUNTS_MAX, "users")?;
    let sql = "INSERT INTO account (name, password_hash, created) VALUES (?1, ?2, ?3)";
    tables.execute(sql, params![name, password_hash, now])?;
    Ok(())
}

/// Refuses one entry more of a table that is full.
pub(crate) fn has_room(tables: &Connection, table: &str, most: u64, entries: &'static str) -> Result<(), StepError> {
    let count: i64 = tables.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    if count.unsigned_abs() < most { Ok(()) } else { Err(ChangeError::TooMany(most, entries).into()) }
}
