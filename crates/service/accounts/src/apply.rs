//! Changes of the database.
//!
//! Promise: each change of a set is made whole or not at all; those that are made become durable together. Every table has a limit.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use service::account_changes::{AccountChange, ChangeError, Changed, Grantee, LinkWish};
use service::accounts::{FolderRights, Right, Rights};
use service::budgets::{BudgetKey, BudgetLimit, BudgetLimits, BudgetRefusal};
use service::logins::{link_text, token_digest};
use service::reservation_ahead::ReservationWish;
use units::BitRate;

use crate::database::{Database, DatabaseError};
use crate::entries::{each, link_of, read_rights, stored_bits};
use crate::identities::account_of;
use crate::secrets::{KEY_BYTES, random, random_text, token_text};
use crate::steps::{MEMBERS_MAX, StepError, add_account, has_room};

/// Limits on entries.
const TOKENS_MAX: u64 = 100_000;
const LINKS_MAX: u64 = 100_000;
const RIGHTS_MAX: u64 = 100_000;
/// Tokens of one account.
const TOKENS_OF_ACCOUNT_MAX: u64 = 1000;
/// Logins of one account by browsers; a further one ends the oldest.
const LOGINS_OF_ACCOUNT_MAX: i64 = 32;
const BUDGETS_MAX: u64 = 100_000;
const RESERVATIONS_MAX: u64 = 1000;
/// Reservations ahead of one account.
const RESERVATIONS_OF_ACCOUNT_MAX: u64 = 100;
/// An expired link is listed, and its use is answered as one of an expired link, for this time, s.
const ENDED_KEPT: i64 = 30 * 24 * 3600;

type ChangeStep = Result<Changed, StepError>;

/// The author of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAuthor {
    /// A client of the server.
    Client,
    /// The operator of the machine, by a command.
    Operator,
}

impl Database {
    /// Makes changes, which become durable together; `now` is in seconds since 1970. Gives the result of each.
    ///
    /// # Errors
    /// None was made.
    pub fn apply(
        &mut self,
        changes: &[AccountChange],
        author: ChangeAuthor,
        now: u64,
    ) -> Result<Vec<Result<Changed, ChangeError>>, DatabaseError> {
        let now = signed(now);
        self.with(|connection| {
            let mut all = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut results = Vec::with_capacity(changes.len());
            for change in changes {
                let one = all.savepoint()?;
                match apply_by(author, &one, change, now) {
                    Ok(changed) => {
                        one.commit()?;
                        results.push(Ok(changed));
                    }
                    Err(StepError::Change(error)) => results.push(Err(error)),
                    Err(StepError::Database(error)) => return Err(error),
                }
            }
            all.commit()?;
            Ok(results)
        })
    }

    /// Makes accounts of `users`, names and hashes, with all rights; none that was taken over before, or has an account. Gives the names
    /// of those that were made.
    ///
    /// # Errors
    /// None was made.
    pub fn take_over(&mut self, users: &[(String, String)], now: u64) -> Result<Vec<String>, DatabaseError> {
        self.with(|connection| {
            let all = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut made = Vec::new();
            for (name, hash) in users {
                let is_new = all.execute("INSERT OR IGNORE INTO taken_over VALUES (?1)", [name])? == 1;
                let insert = "INSERT OR IGNORE INTO account (name, password_hash, created) VALUES (?1, ?2, ?3)";
                if is_new && all.execute(insert, params![name, hash, signed(now)])? == 1 {
                    all.execute("INSERT INTO account_right VALUES (?1, '/', ?2)", params![name, Rights::ALL.bits()])?;
                    made.push(name.clone());
                }
            }
            all.commit()?;
            Ok(made)
        })
    }

    /// Notes the uses of tokens, and ends expired tokens, logins, links and reservations: a clock that is set back brings none back.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn look_after(&mut self, used: &[(i64, u64)], now: u64) -> Result<(), DatabaseError> {
        let now = signed(now);
        self.with(|connection| {
            let all = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (id, at) in used {
                all.execute("UPDATE token SET last_used = ?2 WHERE id = ?1", params![id, signed(*at)])?;
            }
            for table in ["link", "token"] {
                all.execute(&format!("UPDATE {table} SET ended = 1 WHERE expires <= ?1 AND ended = 0"), [now])?;
            }
            all.execute("DELETE FROM token WHERE coalesce(last_used, created) + idle <= ?1", [now])?;
            all.execute("DELETE FROM link WHERE ended = 1 AND expires <= ?1", [now.saturating_sub(ENDED_KEPT)])?;
            all.execute("DELETE FROM reservation WHERE ends <= ?1", [now])?;
            all.execute("DELETE FROM token WHERE expires <= ?1", [now.saturating_sub(ENDED_KEPT)])?;
            all.execute(
                "DELETE FROM link_key WHERE id NOT IN (SELECT key FROM link) AND id < (SELECT max(id) FROM link_key)",
                [],
            )?;
            all.commit()
        })
    }
}

/// Makes a change by `author`. A client does not take the last administrator's rights: only the operator could make another one.
fn apply_by(author: ChangeAuthor, tables: &Connection, change: &AccountChange, now: i64) -> ChangeStep {
    let keeps = author == ChangeAuthor::Client && takes_rights(change) && has_administrator(tables)?;
    let changed = apply(tables, change, now)?;
    if keeps && !has_administrator(tables)? { Err(ChangeError::LastAdministrator.into()) } else { Ok(changed) }
}

fn apply(tables: &Connection, change: &AccountChange, now: i64) -> ChangeStep {
    match change {
        AccountChange::AddAccount { name, password_hash, rights } => {
            if exists(tables, name)? {
                return Err(ChangeError::AccountExists(name.clone()).into());
            }
            add_account(tables, name, password_hash, now)?;
            if !rights.is_empty() {
                tables.execute("INSERT INTO account_right VALUES (?1, '/', ?2)", params![name, rights.bits()])?;
            }
        }
        AccountChange::AddFirstAccount { name, password_hash } => {
            if has_administrator(tables)? {
                return Err(ChangeError::NotFirst.into());
            }
            let (name, password_hash, rights) = (name.clone(), password_hash.clone(), Rights::ALL);
            return apply(tables, &AccountChange::AddAccount { name, password_hash, rights }, now);
        }
        AccountChange::SetPassword { name, password_hash } => {
            let set = tables.execute("UPDATE account SET password_hash = ?2 WHERE name = ?1", [name, password_hash])?;
            one_of(set, || ChangeError::NoAccount(name.clone()))?;
            tables.execute("DELETE FROM token WHERE account = ?1 AND idle IS NOT NULL", [name])?;
        }
        AccountChange::RemoveAccount { name } => {
            let removed = tables.execute("DELETE FROM account WHERE name = ?1", [name])?;
            one_of(removed, || ChangeError::NoAccount(name.clone()))?;
            forget_budget(tables, &BudgetKey::Account(name.as_str().into()))?;
        }
        AccountChange::Grant { to, given } => grant(tables, to, given)?,
        AccountChange::Revoke { of, taken } => revoke(tables, of, taken)?,
        AccountChange::Membership { name, group, joins } => {
            check_account(tables, name)?;
            if *joins {
                has_room(tables, "member", MEMBERS_MAX, "members of groups")?;
                tables.execute("INSERT OR IGNORE INTO member VALUES (?1, ?2)", [group, name])?;
            } else {
                tables.execute("DELETE FROM member WHERE team = ?1 AND account = ?2", [group, name])?;
            }
        }
        AccountChange::AddToken { account, label, within, expires } => {
            check_account(tables, account)?;
            check_rights(tables, account, within)?;
            has_room(tables, "token", TOKENS_MAX, "tokens")?;
            let sql = "SELECT count(*) FROM token WHERE account = ?1 AND idle IS NULL";
            let held: i64 = tables.query_row(sql, [account], |row| row.get(0))?;
            if held.unsigned_abs() >= TOKENS_OF_ACCOUNT_MAX {
                return Err(ChangeError::TooMany(TOKENS_OF_ACCOUNT_MAX, "tokens of this user").into());
            }
            let text = token_text().map_err(|error| ChangeError::Unavailable(error.to_string()))?;
            let (folder, rights) = (within.folder.to_string(), within.rights.bits());
            tables.execute(
                "INSERT INTO token (digest, account, label, folder, rights, created, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![token_digest(&text), account, label, folder, rights, now, expires.map(signed)],
            )?;
            return Ok(Changed::New { id: tables.last_insert_rowid(), text });
        }
        AccountChange::AddLogin { account, label, expires, idle } => {
            check_account(tables, account)?;
            // With room for the new one.
            let sql = "DELETE FROM token WHERE id IN (SELECT id FROM token WHERE account = ?1 AND idle IS NOT NULL \
                       ORDER BY coalesce(last_used, created) DESC, id DESC LIMIT -1 OFFSET ?2)";
            tables.execute(sql, params![account, LOGINS_OF_ACCOUNT_MAX - 1])?;
            has_room(tables, "token", TOKENS_MAX, "tokens and logins")?;
            let text = random_text().map_err(|error| ChangeError::Unavailable(error.to_string()))?;
            tables.execute(
                "INSERT INTO token (digest, account, label, folder, rights, created, expires, idle) \
                 VALUES (?1, ?2, ?3, '/', ?4, ?5, ?6, ?7)",
                params![token_digest(&text), account, label, Rights::ALL.bits(), now, signed(*expires), signed(*idle)],
            )?;
            return Ok(Changed::New { id: tables.last_insert_rowid(), text });
        }
        AccountChange::AddProvenLogin { identity, label, expires, idle } => {
            let (account, label) = (account_of(tables, identity, now)?, label.clone());
            return apply(tables, &AccountChange::AddLogin { account, label, expires: *expires, idle: *idle }, now);
        }
        AccountChange::RevokeToken { id, of } => {
            let sql = "DELETE FROM token WHERE id = ?1 AND (?2 IS NULL OR account = ?2)";
            one_of(tables.execute(sql, params![id, of])?, || ChangeError::NoToken(*id))?;
            forget_budget(tables, &BudgetKey::Token(*id))?;
        }
        AccountChange::AddLink(wish) => return add_link(tables, wish, now),
        AccountChange::RevokeLink { id, of } => {
            let sql = "DELETE FROM link WHERE id = ?1 AND (?2 IS NULL OR account = ?2)";
            one_of(tables.execute(sql, params![id, of])?, || ChangeError::NoLink(*id))?;
            forget_budget(tables, &BudgetKey::Link(*id))?;
        }
        AccountChange::AddReservation(wish) => return add_reservation(tables, wish),
        AccountChange::RemoveReservation { id, of } => {
            let sql = "DELETE FROM reservation WHERE id = ?1 AND (?2 IS NULL OR account = ?2)";
            one_of(tables.execute(sql, params![id, of])?, || ChangeError::NoReservation(*id))?;
        }
        AccountChange::SetBudget { of, limits } => set_budget(tables, of, limits)?,
        AccountChange::Store { budgets, bytes } => store(tables, budgets, *bytes)?,
        AccountChange::UseLink { id, uses, stored } => use_link(tables, *id, *uses, *stored)?,
        AccountChange::RotateKeys => {
            tables.execute("DELETE FROM link", [])?;
            tables.execute("DELETE FROM link_key", [])?;
        }
    }
    Ok(Changed::Done)
}

/// Refuses rights of a token that its account has in no part of the folder. All accounts may read where the settings say so.
fn check_rights(tables: &Connection, account: &str, within: &FolderRights) -> Result<(), StepError> {
    let mut lacks = within.rights.without(Rights::of(&[Right::Read]));
    let sql = "SELECT folder, rights FROM account_right WHERE account = ?1 UNION ALL \
               SELECT folder, rights FROM team_right JOIN member USING (team) WHERE account = ?1";
    each(tables, sql, [account], |row| {
        let held = read_rights(row, 0)?.and_then(|given| given.within(within));
        lacks = lacks.without(held.map_or_else(Rights::default, |held| held.rights));
        Ok(())
    })?;
    match lacks.is_empty() {
        true => Ok(()),
        false => Err(ChangeError::BeyondUser(account.to_owned(), lacks, within.folder.clone()).into()),
    }
}

/// True if an account has the right to administer over everything, by itself or by a group.
fn has_administrator(tables: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM account_right WHERE folder = '/' AND rights & ?1) OR \
               EXISTS (SELECT 1 FROM member JOIN team_right USING (team) WHERE folder = '/' AND rights & ?1)";
    tables.query_row(sql, [Rights::of(&[Right::Administer]).bits()], |row| row.get(0))
}

const fn takes_rights(change: &AccountChange) -> bool {
    matches!(
        change,
        AccountChange::RemoveAccount { .. }
            | AccountChange::Revoke { .. }
            | AccountChange::Membership { joins: false, .. }
    )
}

fn grant(tables: &Connection, to: &Grantee, given: &FolderRights) -> Result<(), StepError> {
    let (table, holder, name) = holder_of(to);
    if let Grantee::Account(name) = to {
        check_account(tables, name)?;
    }
    has_room(tables, table, RIGHTS_MAX, "rights over folders")?;
    let sql = format!(
        "INSERT INTO {table} VALUES (?1, ?2, ?3) ON CONFLICT ({holder}, folder) DO UPDATE SET rights = rights | excluded.rights"
    );
    tables.execute(&sql, params![name, given.folder.to_string(), given.rights.bits()])?;
    Ok(())
}

fn revoke(tables: &Connection, of: &Grantee, taken: &FolderRights) -> Result<(), StepError> {
    let (table, holder, name) = holder_of(of);
    if let Grantee::Account(name) = of {
        check_account(tables, name)?;
    }
    let (folder, place) = (taken.folder.to_string(), format!("WHERE {holder} = ?1 AND folder = ?2"));
    let held = tables
        .query_row(&format!("SELECT rights FROM {table} {place}"), [name, &folder], |row| row.get(0))
        .optional()?;
    let held = stored_bits(held.unwrap_or_default());
    let left = held.without(taken.rights);
    if left == held {
        return Err(ChangeError::NotHeld(name.to_owned(), taken.folder.clone()).into());
    }
    if left.is_empty() {
        tables.execute(&format!("DELETE FROM {table} {place}"), [name, &folder])?;
    } else {
        tables.execute(&format!("UPDATE {table} SET rights = ?3 {place}"), params![name, folder, left.bits()])?;
    }
    Ok(())
}

fn add_link(tables: &Connection, wish: &LinkWish, now: i64) -> ChangeStep {
    if let Some(by) = &wish.by {
        check_account(tables, by)?;
    }
    has_room(tables, "link", LINKS_MAX, "links")?;
    let key = tables.query_row("SELECT max(id) FROM link_key", [], |row| row.get::<_, Option<i64>>(0))?;
    if key.is_none() {
        let secret = random::<KEY_BYTES>().map_err(|error| ChangeError::Unavailable(error.to_string()))?;
        tables.execute("INSERT INTO link_key (secret, created) VALUES (?1, ?2)", params![secret, now])?;
    }
    let networks: Vec<String> = wish.from.iter().map(ToString::to_string).collect();
    tables.execute(
        "INSERT INTO link (key, folder, rights, created, expires, rate, uses, networks, stored_max, account)
         VALUES ((SELECT max(id) FROM link_key), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            wish.given.folder.to_string(),
            wish.given.rights.bits(),
            now,
            signed(wish.expires),
            wish.rate.map(|rate| signed(rate.0)),
            wish.uses.map(signed),
            networks.join(","),
            wish.stored.map(signed),
            wish.by,
        ],
    )?;
    let id = tables.last_insert_rowid();
    // The text is made of the row as it will be read.
    let link = link_of(tables, id)?.ok_or(ChangeError::NoLink(id))?;
    Ok(Changed::New { id, text: link_text(&link) })
}

fn add_reservation(tables: &Connection, wish: &ReservationWish) -> ChangeStep {
    if let Some(by) = &wish.by {
        check_account(tables, by)?;
    }
    has_room(tables, "reservation", RESERVATIONS_MAX, "reservations")?;
    let sql = "SELECT count(*) FROM reservation WHERE account IS ?1";
    let held: i64 = tables.query_row(sql, [&wish.by], |row| row.get(0))?;
    if held.unsigned_abs() >= RESERVATIONS_OF_ACCOUNT_MAX {
        return Err(ChangeError::TooMany(RESERVATIONS_OF_ACCOUNT_MAX, "reservations of this user").into());
    }
    let session = random_text().map_err(|error| ChangeError::Unavailable(error.to_string()))?;
    tables.execute(
        "INSERT INTO reservation (account, path, rate, begins, ends, session, local) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            wish.by,
            wish.path.to_string(),
            signed(wish.rate.0),
            signed(wish.from),
            signed(wish.until),
            session,
            wish.local.to_string(),
        ],
    )?;
    Ok(Changed::New { id: tables.last_insert_rowid(), text: session })
}

fn use_link(tables: &Connection, id: i64, uses: i64, stored: i64) -> Result<(), StepError> {
    let read = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?, row.get::<_, i64>(3)?))
    };
    let sql = "SELECT uses, used, stored_max, stored FROM link WHERE id = ?1";
    let found = tables.query_row(sql, [id], read).optional()?;
    let (uses_max, used, stored_max, stored_so_far) = found.ok_or(ChangeError::NoLink(id))?;
    let used_then = used.saturating_add(uses).max(0);
    if let Some(most) = uses_max.filter(|most| uses > 0 && used_then > *most) {
        return Err(ChangeError::UsedUp(most.unsigned_abs()).into());
    }
    let stored_then = stored_so_far.saturating_add(stored).max(0);
    if let Some(most) = stored_max.filter(|most| stored > 0 && stored_then > *most) {
        let [limit, used, more] = [most, stored_so_far, stored].map(i64::unsigned_abs);
        return Err(ChangeError::StoredFull { limit, used, more }.into());
    }
    tables.execute("UPDATE link SET used = ?2, stored = ?3 WHERE id = ?1", [id, used_then, stored_then])?;
    Ok(())
}

/// Sets the limits of a holder that there is, in place of those that it had; without any, its budget goes.
fn set_budget(tables: &Connection, of: &BudgetKey, limits: &BudgetLimits) -> Result<(), StepError> {
    let count = |table: &str, id: i64| -> rusqlite::Result<i64> {
        tables.query_row(&format!("SELECT count(*) FROM {table} WHERE id = ?1"), [id], |row| row.get(0))
    };
    match of {
        BudgetKey::Account(name) => check_account(tables, name)?,
        BudgetKey::Token(id) if count("token", *id)? == 0 => return Err(ChangeError::NoToken(*id).into()),
        BudgetKey::Link(id) if count("link", *id)? == 0 => return Err(ChangeError::NoLink(*id).into()),
        _ => {}
    }
    let holder = of.to_string();
    tables.execute("DELETE FROM budget WHERE holder = ?1", [&holder])?;
    if !limits.is_empty() {
        has_room(tables, "budget", BUDGETS_MAX, "budgets")?;
        let rate = |rate: Option<BitRate>| rate.map(|rate| signed(rate.0));
        let BudgetLimits { streams, reserved, idle, download, upload, requests, stored } = *limits;
        tables.execute(
            "INSERT INTO budget VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                holder,
                streams.map(signed),
                rate(reserved),
                rate(idle),
                rate(download),
                rate(upload),
                requests.map(signed),
                stored.map(signed),
            ],
        )?;
    }
    Ok(())
}

/// Counts bytes that are stored within limits; negative: given back.
fn store(tables: &Connection, budgets: &[(BudgetKey, u64)], bytes: i64) -> Result<(), StepError> {
    for (budget, most) in budgets {
        let holder = budget.to_string();
        let sql = "SELECT bytes FROM budget_stored WHERE holder = ?1";
        let used: i64 = tables.query_row(sql, [&holder], |row| row.get(0)).optional()?.unwrap_or_default();
        let then = used.saturating_add(bytes).max(0);
        if bytes > 0 && then > signed(*most) {
            return Err(ChangeError::Budget(BudgetRefusal {
                budget: budget.clone(),
                limit: BudgetLimit::Stored,
                most: *most,
                used: used.unsigned_abs(),
                more: bytes.unsigned_abs(),
                frees_in: None,
            })
            .into());
        }
        if then == 0 {
            tables.execute("DELETE FROM budget_stored WHERE holder = ?1", [&holder])?;
            continue;
        }
        if used == 0 {
            has_room(tables, "budget_stored", BUDGETS_MAX, "budgets with stored bytes")?;
        }
        tables.execute("INSERT OR REPLACE INTO budget_stored VALUES (?1, ?2)", params![holder, then])?;
    }
    Ok(())
}

/// Removes the budget of a holder that is no more.
fn forget_budget(tables: &Connection, of: &BudgetKey) -> rusqlite::Result<()> {
    for table in ["budget", "budget_stored"] {
        tables.execute(&format!("DELETE FROM {table} WHERE holder = ?1"), [of.to_string()])?;
    }
    Ok(())
}

/// The table of a holder's rights, its column of holders, and the holder's name.
fn holder_of(holder: &Grantee) -> (&'static str, &'static str, &str) {
    match holder {
        Grantee::Account(name) => ("account_right", "account", name),
        Grantee::Group(name) => ("team_right", "team", name),
    }
}

fn exists(tables: &Connection, account: &str) -> rusqlite::Result<bool> {
    tables.query_row("SELECT count(*) FROM account WHERE name = ?1", [account], |row| Ok(row.get::<_, i64>(0)? > 0))
}

fn check_account(tables: &Connection, name: &str) -> Result<(), StepError> {
    if exists(tables, name)? { Ok(()) } else { Err(ChangeError::NoAccount(name.to_owned()).into()) }
}

fn one_of(changed: usize, missing: impl FnOnce() -> ChangeError) -> Result<(), StepError> {
    if changed == 1 { Ok(()) } else { Err(missing().into()) }
}

/// As SQLite keeps it; nothing is as large as where the two differ.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
