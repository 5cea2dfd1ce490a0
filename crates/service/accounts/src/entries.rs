//! The database read: as facts that judge requests, and as lists.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::{AccountEntry, GrantEntry, GroupEntry, LinkEntry, TokenEntry};
use rusqlite::{Connection, OptionalExtension as _, Row};
use service::accounts::{Account, AccountFacts, AccountToken, FolderRights, Rights, SignedLink};
use service::contents::ContentPath;
use service::logins::link_text;
use units::BitRate;

use crate::database::{Database, DatabaseError};
use crate::secrets::signature;

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
            let mut rights: HashMap<String, Vec<FolderRights>> = HashMap::new();
            let granted = "SELECT account, folder, rights FROM account_right UNION ALL \
                           SELECT account, folder, rights FROM team_right JOIN member USING (team)";
            each(tables, granted, |row| {
                if let Some(given) = read_rights(row, 1)? {
                    rights.entry(row.get(0)?).or_default().push(given);
                }
                Ok(())
            })?;
            let mut facts = AccountFacts::default();
            each(tables, "SELECT name, password_hash FROM account", |row| {
                let name: String = row.get(0)?;
                let rights = Arc::from(rights.remove(&name).unwrap_or_default());
                let account = Account { password_hash: Some(row.get::<_, String>(1)?.into()), rights };
                facts.accounts.insert(name, account);
                Ok(())
            })?;
            each(tables, "SELECT digest, id, account, iif(ended, 0, expires), folder, rights FROM token", |row| {
                let account: String = row.get(2)?;
                let Some(within) = read_rights(row, 4)? else { return Ok(()) };
                let expires = row.get::<_, Option<i64>>(3)?.map(i64::unsigned_abs);
                let token = AccountToken { id: row.get(1)?, account: account.into(), within, expires };
                facts.tokens.insert(row.get(0)?, Arc::new(token));
                Ok(())
            })?;
            each(tables, LINK, |row| {
                if let Some(link) = read_link(row)? {
                    facts.links.insert(link.id, Arc::new(link));
                }
                Ok(())
            })?;
            Ok(facts)
        })
    }

    /// All accounts, by name.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn accounts(&self) -> Result<Vec<AccountEntry>, DatabaseError> {
        self.with_shared(|tables| {
            let mut rights = grants(tables, "SELECT account, folder, rights FROM account_right ORDER BY folder")?;
            let mut groups: HashMap<String, Vec<String>> = HashMap::new();
            each(tables, "SELECT account, team FROM member ORDER BY team", |row| {
                groups.entry(row.get(0)?).or_default().push(row.get(1)?);
                Ok(())
            })?;
            let mut entries = Vec::new();
            each(tables, "SELECT name, created FROM account ORDER BY name", |row| {
                let name: String = row.get(0)?;
                let (groups, rights) = (groups.remove(&name), rights.remove(&name));
                entries.push(AccountEntry {
                    name,
                    groups: groups.unwrap_or_default(),
                    rights: rights.unwrap_or_default(),
                    created: row.get::<_, i64>(1)?.unsigned_abs(),
                });
                Ok(())
            })?;
            Ok(entries)
        })
    }

    /// All groups that have members or rights, by name.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn groups(&self) -> Result<Vec<GroupEntry>, DatabaseError> {
        self.with_shared(|tables| {
            let mut rights = grants(tables, "SELECT team, folder, rights FROM team_right ORDER BY folder")?;
            let mut members: BTreeMap<String, Vec<String>> =
                rights.keys().cloned().map(|name| (name, vec![])).collect();
            each(tables, "SELECT team, account FROM member ORDER BY account", |row| {
                members.entry(row.get(0)?).or_default().push(row.get(1)?);
                Ok(())
            })?;
            let entry = |(name, members)| {
                let rights = rights.remove(&name).unwrap_or_default();
                GroupEntry { name, members, rights }
            };
            Ok(members.into_iter().map(entry).collect())
        })
    }

    /// All tokens, or those of an account.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn tokens(&self, of: Option<&str>) -> Result<Vec<TokenEntry>, DatabaseError> {
        self.with_shared(|tables| {
            let mut entries = Vec::new();
            let sql = "SELECT account, id, label, folder, rights, created, expires, last_used FROM token ORDER BY id";
            each(tables, sql, |row| {
                let user: String = row.get(0)?;
                if of.is_some_and(|of| of != user) {
                    return Ok(());
                }
                let time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs));
                entries.push(TokenEntry {
                    id: row.get(1)?,
                    user,
                    label: row.get(2)?,
                    folder: row.get(3)?,
                    rights: words(stored_bits(row.get(4)?)),
                    created: time(5)?.unwrap_or_default(),
                    expires: time(6)?,
                    last_used: time(7)?,
                });
                Ok(())
            })?;
            Ok(entries)
        })
    }

    /// All links, or those that an account made.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn links(&self, by: Option<&str>) -> Result<Vec<LinkEntry>, DatabaseError> {
        let facts = self.facts()?;
        self.with_shared(|tables| {
            let mut entries = Vec::new();
            let sql = "SELECT id, folder, rights, created, expires, ended, rate, uses, used, networks, stored_max, stored, account \
                       FROM link ORDER BY id";
            each(tables, sql, |row| {
                let made_by: Option<String> = row.get(12)?;
                if by.is_some() && made_by.as_deref() != by {
                    return Ok(());
                }
                let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs));
                let id = row.get(0)?;
                let is_valid = !row.get::<_, bool>(5)?;
                let networks: String = row.get(9)?;
                entries.push(LinkEntry {
                    id,
                    path: row.get(1)?,
                    rights: words(stored_bits(row.get(2)?)),
                    share: facts.links.get(&id).filter(|_| is_valid).map(|link| link_text(link)),
                    created: number(3)?.unwrap_or_default(),
                    expires: number(4)?.unwrap_or_default(),
                    rate_bps: number(6)?,
                    uses: number(7)?,
                    used: number(8)?.unwrap_or_default(),
                    from: networks.split(',').filter(|network| !network.is_empty()).map(str::to_owned).collect(),
                    stored_max: number(10)?,
                    stored: number(11)?.unwrap_or_default(),
                    by: made_by,
                });
                Ok(())
            })?;
            Ok(entries)
        })
    }
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

fn each(
    tables: &Connection,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = tables.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

fn grants(tables: &Connection, sql: &str) -> rusqlite::Result<HashMap<String, Vec<GrantEntry>>> {
    let mut all: HashMap<String, Vec<GrantEntry>> = HashMap::new();
    each(tables, sql, |row| {
        let entry = GrantEntry { folder: row.get(1)?, rights: words(stored_bits(row.get(2)?)) };
        all.entry(row.get(0)?).or_default().push(entry);
        Ok(())
    })?;
    Ok(all)
}

/// The folder in this column and the rights in the next; none where that is no path of a content, which gives no right.
fn read_rights(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<FolderRights>> {
    let rights = stored_bits(row.get(column + 1)?);
    let folder = ContentPath::parse(&row.get::<_, String>(column)?).ok();
    Ok(folder.map(|folder| FolderRights { folder, rights }))
}

/// A link with its signature; none where its path or a network is not understood. One that has ended stays, with a time that is over.
fn read_link(row: &Row<'_>) -> rusqlite::Result<Option<SignedLink>> {
    let Some(given) = read_rights(row, 1)? else { return Ok(None) };
    let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs));
    let networks: String = row.get(6)?;
    let from = networks.split(',').filter(|network| !network.is_empty()).map(str::parse).collect::<Result<_, _>>();
    let Ok(from) = from else { return Ok(None) };
    let mut link = SignedLink {
        id: row.get(0)?,
        signature: [0; 16],
        given,
        expires: number(3)?.unwrap_or_default(),
        rate: number(4)?.map(BitRate),
        uses: number(5)?,
        from,
        stored: number(7)?,
        by: row.get::<_, Option<String>>(8)?.map(Arc::from),
    };
    link.signature = signature(&row.get::<_, Vec<u8>>(9)?, &link);
    if row.get::<_, bool>(10)? {
        link.expires = 0;
    }
    Ok(Some(link))
}

fn words(rights: Rights) -> Vec<String> {
    if rights.is_empty() { Vec::new() } else { rights.to_string().split(',').map(str::to_owned).collect() }
}
