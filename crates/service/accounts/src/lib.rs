//! Accounts, groups, tokens and signed links, and lines of other state that must survive, kept in an SQLite database in the state folder.
//!
//! Promise: a change is durable before it is answered (write-ahead log, `synchronous=FULL`), and in force at once on a running server,
//! whichever program made it; a database that is locked, full, damaged or of a newer version is an error that names the remedy, and
//! changes nothing. One thread of a server has the database: requests are judged by facts in memory. Not here: judging
//! (`service::access`), hashing passwords. See decision 0066.

mod apply;
mod database;
mod entries;
mod identities;
mod keeper;
mod lines;
mod secrets;
mod steps;

pub use apply::ChangeAuthor;
pub use database::{Database, DatabaseError, FILE};
pub use secrets::{random, random_text};

#[cfg(test)]
mod tests;

pub use keeper::{CommandNotice, Keeper, KeeperError, announce, link_objection};
pub use lines::KeptLines;
