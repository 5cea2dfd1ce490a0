//! The database file: opens it, checks it, and migrates it to this version's tables.
//!
//! Promise: the file is readable by its owner only, and owned by the owner of its folder; each fault has an error of its own,
//! with the remedy; a database of a newer version is not changed. Not here: changes (`apply`), entries (`entries`).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::OFlags;
use rustix::process::geteuid;

/// The database in the state folder.
pub const FILE: &str = "state.db";
/// `PRAGMA application_id`: "isoc".
const APPLICATION: i32 = 0x6973_6f63;
/// Longest wait for another program that changes the database.
const BUSY_TIME_MAX: Duration = Duration::from_secs(5);

/// Migrations from one version of the tables to the next; `PRAGMA user_version` is the number of the steps that were made.
const MIGRATIONS: [&str; 6] = [
    "
    CREATE TABLE account (
        name TEXT PRIMARY KEY, password_hash TEXT NOT NULL, created INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE member (
        team TEXT NOT NULL, account TEXT NOT NULL REFERENCES account ON DELETE CASCADE, PRIMARY KEY (team, account)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX member_account ON member (account);
    CREATE TABLE account_right (
        account TEXT NOT NULL REFERENCES account ON DELETE CASCADE, folder TEXT NOT NULL, rights INTEGER NOT NULL,
        PRIMARY KEY (account, folder)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE team_right (
        team TEXT NOT NULL, folder TEXT NOT NULL, rights INTEGER NOT NULL, PRIMARY KEY (team, folder)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE token (
        id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,
        account TEXT NOT NULL REFERENCES account ON DELETE CASCADE, label TEXT NOT NULL, folder TEXT NOT NULL,
        rights INTEGER NOT NULL, created INTEGER NOT NULL, expires INTEGER, ended INTEGER NOT NULL DEFAULT 0,
        last_used INTEGER
    ) STRICT;
    CREATE INDEX token_account ON token (account);
    CREATE TABLE link_key (id INTEGER PRIMARY KEY AUTOINCREMENT, secret BLOB NOT NULL, created INTEGER NOT NULL) STRICT;
    CREATE TABLE link (
        id INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL REFERENCES link_key, folder TEXT NOT NULL,
        rights INTEGER NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
        rate INTEGER, uses INTEGER, used INTEGER NOT NULL DEFAULT 0, networks TEXT NOT NULL, stored_max INTEGER,
        stored INTEGER NOT NULL DEFAULT 0, account TEXT REFERENCES account ON DELETE CASCADE
    ) STRICT;
    CREATE INDEX link_account ON link (account);
    CREATE TABLE taken_over (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE token ADD COLUMN idle INTEGER;
",
    "
    CREATE TABLE budget (
        holder TEXT PRIMARY KEY, streams INTEGER, reserved INTEGER, idle INTEGER, download INTEGER, upload INTEGER,
        requests INTEGER, stored INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE budget_stored (holder TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE reservation (
        id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT REFERENCES account ON DELETE CASCADE, path TEXT NOT NULL,
        rate INTEGER NOT NULL, begins INTEGER NOT NULL, ends INTEGER NOT NULL, session TEXT NOT NULL UNIQUE,
        local TEXT NOT NULL
    ) STRICT;
    CREATE INDEX reservation_account ON reservation (account);
",
    "
    ALTER TABLE account ADD COLUMN identity TEXT;
    CREATE UNIQUE INDEX account_identity ON account (identity);
",
    "
    CREATE TABLE kept_line (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, line TEXT NOT NULL) STRICT;
",
];

/// An open database.
#[derive(Debug)]
pub struct Database {
    pub(crate) connection: Connection,
    path: PathBuf,
}

/// The reason why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file or its folder cannot be made or opened.
    #[error("cannot open the accounts in {0}: {1}")]
    Open(String, io::Error),
    /// The file of a copy cannot be made, for example because it exists.
    #[error("cannot write the copy {0}: {1}")]
    Copy(String, io::Error),
    /// Another program holds a lock of the database.
    #[error("another program has held the accounts in {0} for 5 s: end it, and try again")]
    Locked(String),
    /// Its disk is full.
    #[error("the disk of {0} is full: nothing was changed; make room and try again")]
    Full(String),
    /// The file is no database, or is damaged.
    #[error(
        "the accounts in {0} are damaged ({1}): put a backup in its place (`isocast state backup` makes them), or move it away and \
         make the accounts anew"
    )]
    Damaged(String, String),
    /// A newer version of this program made the database.
    #[error(
        "the accounts in {path} are of a newer version of isocast ({theirs}; this one knows {ours}): use that version"
    )]
    Newer {
        /// The database.
        path: String,
        /// Its version.
        theirs: u32,
        /// The newest version that this program supports.
        ours: u32,
    },
    /// The file is the database of another program.
    #[error("{0} is a database of another program: move it away")]
    Foreign(String),
    /// Any other error.
    #[error("the accounts in {0} cannot be used: {1}")]
    Other(String, #[source] rusqlite::Error),
}

impl Database {
    /// Opens the database in the state folder; makes both if they do not exist.
    ///
    /// # Errors
    /// The reason why the database cannot be used.
    pub fn open(state: &Path) -> Result<Self, DatabaseError> {
        let path = state.join(FILE);
        make_file(state, &path).map_err(|error| DatabaseError::Open(shown(&path), error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&path, flags);
        let mut database = Self { connection: opened.map_err(|error| fault(&path, error))?, path };
        database.prepare()?;
        Ok(database)
    }

    /// True if the file exists and is empty: it was emptied, or its first writer was interrupted. Opening it makes a new database.
    #[must_use]
    pub fn is_emptied(state: &Path) -> bool {
        fs::metadata(state.join(FILE)).is_ok_and(|facts| facts.len() == 0)
    }

    fn prepare(&mut self) -> Result<(), DatabaseError> {
        let found = self.with(|connection| {
            connection.busy_timeout(BUSY_TIME_MAX)?;
            let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
            let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            Ok((application, version, tables))
        })?;
        let (application, version, tables) = found;
        if application != APPLICATION && (application, version, tables) != (0, 0, 0) {
            return Err(DatabaseError::Foreign(shown(&self.path)));
        }
        if version > newest() {
            return Err(DatabaseError::Newer { path: shown(&self.path), theirs: version, ours: newest() });
        }
        self.with(|connection| {
            connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            connection
                .execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;")
        })?;
        self.check()?;
        if version < newest() {
            self.migrate()?;
        }
        Ok(())
    }

    /// Checks the database for damage.
    fn check(&self) -> Result<(), DatabaseError> {
        let said: String =
            self.with_shared(|connection| connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)))?;
        if said == "ok" { Ok(()) } else { Err(DatabaseError::Damaged(shown(&self.path), said)) }
    }

    fn migrate(&mut self) -> Result<(), DatabaseError> {
        self.with(|connection| {
            let changes = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Another program may have made the steps since the check.
            let made: u32 = changes.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            for (_, step) in (0..).zip(MIGRATIONS).filter(|(number, _)| *number >= made) {
                changes.execute_batch(step)?;
            }
            changes.execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {}",
                newest().max(made)
            ))?;
            changes.commit()
        })
    }

    /// Writes a copy of the present database to `target`, which must not exist.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn copy_to(&self, target: &Path) -> Result<(), DatabaseError> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
        made.map_err(|error| DatabaseError::Copy(shown(target), error))?;
        // The copy goes into an empty file, which SQLite treats as a new one.
        let name = target.to_string_lossy();
        let copied = self.connection.execute("VACUUM INTO ?1", [&name]);
        copied.map(|_| ()).map_err(|error| {
            let _ = fs::remove_file(target);
            fault(&self.path, error)
        })
    }

    /// Runs `work` on the connection, for changes.
    pub(crate) fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        work(&mut self.connection).map_err(|error| fault(&self.path, error))
    }

    /// The same for reads.
    pub(crate) fn with_shared<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        work(&self.connection).map_err(|error| fault(&self.path, error))
    }
}

/// Makes the file, readable by its owner only, unless it exists. The server's user owns it, even if root makes it.
fn make_file(state: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(state)?;
    let not_through_links = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(not_through_links);
    match options.open(path) {
        Ok(_) if geteuid().is_root() => {
            let folder = fs::metadata(state)?;
            chown(path, Some(folder.uid()), Some(folder.gid()))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let facts = fs::symlink_metadata(path)?;
            let is_own = facts.is_file() && facts.nlink() == 1;
            if is_own { Ok(()) } else { Err(io::Error::other("it is a link to another file: remove it")) }
        }
        Err(error) => Err(error),
    }
}

/// The version of this program's tables.
fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).expect("a few")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The fault behind an error of SQLite.
pub(crate) fn fault(path: &Path, error: rusqlite::Error) -> DatabaseError {
    let path = shown(path);
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => DatabaseError::Locked(path),
        Some(ErrorCode::DiskFull) => DatabaseError::Full(path),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DatabaseError::Damaged(path, error.to_string()),
        _ => DatabaseError::Other(path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    fn opened(state: &Path) -> Database {
        Database::open(state).expect("opened")
    }

    fn refusal(state: &Path) -> String {
        Database::open(state).expect_err("refused").to_string()
    }

    #[test]
    fn a_new_database_is_its_owners_and_is_opened_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        assert!(!Database::is_emptied(&state));
        drop(opened(&state));
        assert!(!Database::is_emptied(&state));
        let facts = fs::metadata(state.join(FILE)).expect("there");
        assert_eq!(facts.mode() & 0o777, 0o600);
        drop(opened(&state));
        let copy = folder.path().join("copy");
        opened(&state).copy_to(&copy).expect("copied");
        assert_eq!(fs::metadata(&copy).expect("there").mode() & 0o777, 0o600);
        let twice = opened(&state).copy_to(&copy).expect_err("it is there");
        assert!(matches!(twice, DatabaseError::Copy(..)), "{twice}");
        let restored = folder.path().join("restored");
        fs::create_dir(&restored).expect("a folder");
        fs::rename(copy, restored.join(FILE)).expect("moved");
        opened(&restored);
    }

    #[test]
    fn another_file_in_its_place_is_named_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        fs::write(&path, "no database, though long enough for one page of it".repeat(100)).expect("written");
        assert!(refusal(folder.path()).contains("are damaged"), "{}", refusal(folder.path()));
        assert!(fs::read_to_string(&path).expect("there").starts_with("no database"));
        fs::remove_file(&path).expect("removed");
        Connection::open(&path).expect("made").execute_batch("CREATE TABLE t (x)").expect("a table");
        assert!(refusal(folder.path()).contains("of another program"));
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).expect("a link");
        assert!(refusal(folder.path()).contains("a link to another file"));
    }

    #[test]
    fn a_newer_database_is_not_touched() {
        let folder = tempfile::tempdir().expect("a folder");
        opened(folder.path()).connection.execute_batch("PRAGMA user_version = 99").expect("set");
        assert!(refusal(folder.path()).contains("newer version of isocast (99; this one knows"));
    }

    #[test]
    fn damage_is_found_when_it_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(opened(folder.path()));
        let mut file = OpenOptions::new().write(true).open(folder.path().join(FILE)).expect("there");
        file.seek(SeekFrom::Start(4096)).expect("within");
        file.write_all(&[0xff; 4096]).expect("written");
        assert!(refusal(folder.path()).contains("are damaged"), "{}", refusal(folder.path()));
    }
}
