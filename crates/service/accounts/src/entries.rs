//! The database read: as facts that judge requests, and as lists.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::{AccountEntry, GrantEntry, GroupEntry, LinkEntry, TokenEntry};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use service::account_changes::ListPart;
use service::accounts::{Account, AccountFacts, AccountToken, CredentialKind, FolderRights, Rights, SignedLink};
use service::budgets::{BudgetLimits, BudgetRules, BudgetScope};
use service::contents::ContentPath;
use service::logins::link_text;
use service::reservation_ahead::{ReservationAhead, ReservationWish};
use units::BitRate;

use crate::database::{Database, DatabaseError};
use crate::secrets::signature;

/// The password hash of an account that has no password.
pub(crate) const NO_PASSWORD: &str = "";
/// The groups of each account.
const GROUPS: &str = "SELECT account, team FROM member ORDER BY team";
/// The columns of a link, for [`read_link`].
const LINK: &str = "SELECT link.id, folder, rights, expires, rate, uses, networks, stored_max, account, secret, ended \
                    FROM link JOIN link_key ON link_key.id = link.key";

impl Database {
    /// All that requests are judged by.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn facts(&self) -> Result<AccountFacts, DatabaseError> {
        self.with_shared(|tables| {
            let granted = "SELECT account, folder, rights FROM account_right UNION ALL \
                           SELECT account, folder, rights FROM team_right JOIN member USING (team)";
            let mut rights = by_key(tables, granted, |row| read_rights(row, 1))?;
            let mut groups = by_key(tables, GROUPS, |row| Ok(row.get::<_, String>(1)?.into()))?;
            let mut facts = AccountFacts { budgets: budgets(tables)?, ..AccountFacts::default() };
            each(tables, "SELECT name, password_hash FROM account", [], |row| {
                let name: String = row.get(0)?;
                let rights = rights.remove(&name).into_iter().flatten().flatten().collect();
                let groups = Arc::from(groups.remove(&name).unwrap_or_default());
                let hash: String = row.get(1)?;
                let password_hash = (hash != NO_PASSWORD).then(|| hash.into());
                let account = Account { password_hash, rights, groups };
                facts.accounts.insert(name, account);
                Ok(())
            })?;
            let sql = "SELECT digest, id, account, iif(ended, 0, expires), folder, rights, \
                       coalesce(last_used, created) + idle FROM token";
            each(tables, sql, [], |row| {
                let account: String = row.get(2)?;
                let Some(within) = read_rights(row, 4)? else { return Ok(()) };
                let expires = number(row, 3)?;
                let kind =
                    number(row, 6)?.map_or(CredentialKind::Token, |idle_ends| CredentialKind::Browser { idle_ends });
                let (digest, id) = (row.get(0)?, row.get(1)?);
                let token = AccountToken { id, digest, account: account.into(), within, expires, kind };
                facts.tokens.insert(digest, Arc::new(token));
                Ok(())
            })?;
            let links = all(tables, LINK, [], read_link)?.into_iter().flatten();
            facts.links = links.map(|link| (link.id, Arc::new(link))).collect();
            let sql = "SELECT id, account, path, rate, begins, ends, session, local FROM reservation";
            let reservations = all(tables, sql, [], read_reservation)?.into_iter().flatten();
            facts.reservations = reservations.map(|ahead| (ahead.session.clone(), Arc::new(ahead))).collect();
            Ok(facts)
        })
    }

    /// Accounts, by name.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn accounts(&self, part: &ListPart<String>) -> Result<Vec<AccountEntry>, DatabaseError> {
        self.with_shared(|tables| {
            let mut rights = grants(tables, "SELECT account, folder, rights FROM account_right ORDER BY folder")?;
            let mut groups = by_key(tables, GROUPS, |row| row.get(1))?;
            let sql = "SELECT name, created FROM account WHERE name > ?1 ORDER BY name LIMIT ?2";
            all(tables, sql, params![part.after, most(part)], |row| {
                let name: String = row.get(0)?;
                let groups = groups.remove(&name).unwrap_or_default();
                let rights = rights.remove(&name).unwrap_or_default();
                Ok(AccountEntry { name, groups, rights, created: row.get::<_, i64>(1)?.unsigned_abs() })
            })
        })
    }

    /// Groups that have members or rights, by name.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn groups(&self, part: &ListPart<String>) -> Result<Vec<GroupEntry>, DatabaseError> {
        self.with_shared(|tables| {
            let mut rights = grants(tables, "SELECT team, folder, rights FROM team_right ORDER BY folder")?;
            let mut members: BTreeMap<String, Vec<String>> =
                rights.keys().cloned().map(|name| (name, vec![])).collect();
            members.extend(by_key(tables, "SELECT team, account FROM member ORDER BY account", |row| row.get(1))?);
            let entry = |(name, members)| {
                let rights = rights.remove(&name).unwrap_or_default();
                GroupEntry { name, members, rights }
            };
            let later = members.into_iter().filter(|(name, _)| *name > part.after);
            Ok(later.take(part.limit).map(entry).collect())
        })
    }

    /// Tokens and logins, of all accounts or of one, by number.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn tokens(&self, of: Option<&str>, part: &ListPart<i64>) -> Result<Vec<TokenEntry>, DatabaseError> {
        self.with_shared(|tables| {
            let sql = "SELECT account, id, label, folder, rights, created, expires, last_used, idle IS NOT NULL FROM token \
                       WHERE id > ?1 AND (?2 IS NULL OR account = ?2) ORDER BY id LIMIT ?3";
            all(tables, sql, params![part.after, of, most(part)], |row| {
                Ok(TokenEntry {
                    id: row.get(1)?,
                    user: row.get(0)?,
                    is_login: row.get(8)?,
                    label: row.get(2)?,
                    folder: row.get(3)?,
                    rights: words(stored_bits(row.get(4)?)),
                    created: number(row, 5)?.unwrap_or_default(),
                    expires: number(row, 6)?,
                    last_used: number(row, 7)?,
                })
            })
        })
    }

    /// Links, made by all or by one account, by number.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn links(&self, by: Option<&str>, part: &ListPart<i64>) -> Result<Vec<LinkEntry>, DatabaseError> {
        self.with_shared(|tables| {
            let sql = "SELECT id, folder, rights, created, expires, ended, rate, uses, used, networks, stored_max, stored, account \
                       FROM link WHERE id > ?1 AND (?2 IS NULL OR account = ?2) ORDER BY id LIMIT ?3";
            all(tables, sql, params![part.after, by, most(part)], |row| {
                let id = row.get(0)?;
                let is_valid = !row.get::<_, bool>(5)?;
                let networks: String = row.get(9)?;
                Ok(LinkEntry {
                    id,
                    path: row.get(1)?,
                    rights: words(stored_bits(row.get(2)?)),
                    share: link_of(tables, id)?.filter(|_| is_valid).map(|link| link_text(&link)),
                    created: number(row, 3)?.unwrap_or_default(),
                    expires: number(row, 4)?.unwrap_or_default(),
                    rate_bps: number(row, 6)?,
                    uses: number(row, 7)?,
                    used: number(row, 8)?.unwrap_or_default(),
                    from: networks.split(',').filter(|network| !network.is_empty()).map(str::to_owned).collect(),
                    stored_max: number(row, 10)?,
                    stored: number(row, 11)?.unwrap_or_default(),
                    by: row.get(12)?,
                })
            })
        })
    }

    /// Bytes stored, by the text of the budget that they count towards.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn stored(&self) -> Result<HashMap<String, u64>, DatabaseError> {
        self.with_shared(|tables| {
            let sql = "SELECT holder, bytes FROM budget_stored";
            let stored = all(tables, sql, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
            Ok(stored.into_iter().collect())
        })
    }
}

/// The budgets that are set.
fn budgets(tables: &Connection) -> rusqlite::Result<BudgetRules> {
    let sql = "SELECT holder, streams, reserved, idle, download, upload, requests, stored FROM budget";
    let rules = all(tables, sql, [], |row| {
        let Ok(scope) = row.get::<_, String>(0)?.parse::<BudgetScope>() else { return Ok(None) };
        let rate = |column| Ok::<_, rusqlite::Error>(number(row, column)?.map(BitRate));
        let limits = BudgetLimits {
            streams: number(row, 1)?,
            reserved: rate(2)?,
            idle: rate(3)?,
            download: rate(4)?,
            upload: rate(5)?,
            requests: number(row, 6)?,
            stored: number(row, 7)?,
        };
        Ok(Some((scope, limits)))
    })?;
    Ok(BudgetRules::new(rules.into_iter().flatten()))
}

/// The link of this number.
pub(crate) fn link_of(tables: &Connection, id: i64) -> rusqlite::Result<Option<SignedLink>> {
    let found = tables.query_row(&format!("{LINK} WHERE link.id = ?1"), [id], read_link).optional()?;
    Ok(found.flatten())
}

/// Rights as they are kept.
pub(crate) fn stored_bits(bits: i64) -> Rights {
    Rights::from_bits(u8::try_from(bits).unwrap_or_default())
}

/// A number of a column that may be empty.
fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs))
}

/// Most entries of a part, as SQLite takes it.
fn most<K>(part: &ListPart<K>) -> i64 {
    i64::try_from(part.limit).unwrap_or(i64::MAX)
}

/// All rows, as `read` reads them.
fn all<T>(
    tables: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut all = Vec::new();
    each(tables, sql, values, |row| read(row).map(|one| all.push(one)))?;
    Ok(all)
}

/// The rows of each key, which is their first column, as `read` reads them.
fn by_key<V>(
    tables: &Connection,
    sql: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<V>,
) -> rusqlite::Result<HashMap<String, Vec<V>>> {
    let mut all: HashMap<String, Vec<V>> = HashMap::new();
    each(tables, sql, [], |row| {
        all.entry(row.get(0)?).or_default().push(read(row)?);
        Ok(())
    })?;
    Ok(all)
}

pub(crate) fn each(
    tables: &Connection,
    sql: &str,
    values: impl Params,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = tables.prepare(sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

fn grants(tables: &Connection, sql: &str) -> rusqlite::Result<HashMap<String, Vec<GrantEntry>>> {
    by_key(tables, sql, |row| Ok(GrantEntry { folder: row.get(1)?, rights: words(stored_bits(row.get(2)?)) }))
}

/// The folder in this column and the rights in the next; none where that is no path of a content, which gives no right.
pub(crate) fn read_rights(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<FolderRights>> {
    let rights = stored_bits(row.get(column + 1)?);
    let folder = ContentPath::parse(&row.get::<_, String>(column)?).ok();
    Ok(folder.map(|folder| FolderRights { folder, rights }))
}

/// A link with its signature; none where its path or a network is not understood. An ended one stays, with a time that is over.
fn read_link(row: &Row<'_>) -> rusqlite::Result<Option<SignedLink>> {
    let Some(given) = read_rights(row, 1)? else { return Ok(None) };
    let networks: String = row.get(6)?;
    let from = networks.split(',').filter(|network| !network.is_empty()).map(str::parse).collect::<Result<_, _>>();
    let Ok(from) = from else { return Ok(None) };
    let mut link = SignedLink {
        id: row.get(0)?,
        signature: [0; 16],
        given,
        expires: number(row, 3)?.unwrap_or_default(),
        rate: number(row, 4)?.map(BitRate),
        uses: number(row, 5)?,
        from,
        stored: number(row, 7)?,
        by: row.get::<_, Option<String>>(8)?.map(Arc::from),
    };
    link.signature = signature(&row.get::<_, Vec<u8>>(9)?, &link);
    if row.get::<_, bool>(10)? {
        link.expires = 0;
    }
    Ok(Some(link))
}

/// A reservation ahead; none where its path or address is not understood.
fn read_reservation(row: &Row<'_>) -> rusqlite::Result<Option<ReservationAhead>> {
    let (path, local): (String, String) = (row.get(2)?, row.get(7)?);
    let (Ok(path), Ok(local)) = (ContentPath::parse(&path), local.parse()) else { return Ok(None) };
    let wish = ReservationWish {
        by: row.get(1)?,
        path,
        rate: BitRate(number(row, 3)?.unwrap_or_default()),
        from: number(row, 4)?.unwrap_or_default(),
        until: number(row, 5)?.unwrap_or_default(),
        local,
    };
    Ok(Some(ReservationAhead { id: row.get(0)?, session: row.get(6)?, wish }))
}

fn words(rights: Rights) -> Vec<String> {
    if rights.is_empty() { Vec::new() } else { rights.to_string().split(',').map(str::to_owned).collect() }
}
