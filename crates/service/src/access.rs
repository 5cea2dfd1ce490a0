//! Who may do what.
//!
//! Promise: every front end asks here before it calls the rest. Reading is open to all who reach the server; writing needs a
//! user, or, where none is configured and the settings allow it, a program on this machine. Not here: how a client says
//! who it is, and whether that is true (`logins`).

use units::BitRate;

use crate::config::ServiceConfig;
use crate::contents::ContentPath;

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
    /// No users are configured, and writes from this machine are not allowed either.
    #[error("nobody may write here: configure a user, or start the server with --local-writes")]
    NobodyMay,
    /// No users are configured, and only this machine may write.
    #[error("without configured users, writes are accepted from this machine only; configure a user")]
    LocalOnly,
}

/// Whether `principal` may do that to the content at `path`, at `rate` if one is to be reserved. Neither of the two makes a
/// difference yet.
///
/// # Errors
/// Why not.
pub fn authorize(
    config: &ServiceConfig,
    principal: &Principal,
    verb: Verb,
    _path: &ContentPath,
    _rate: Option<BitRate>,
) -> Result<(), Denied> {
    match (verb, principal) {
        (Verb::Read, _) | (_, Principal::User(_)) => Ok(()),
        _ if !config.users.is_empty() => Err(Denied::UserNeeded),
        _ if !config.local_writes => Err(Denied::NobodyMay),
        (_, Principal::Local) => Ok(()),
        _ => Err(Denied::LocalOnly),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::User;

    #[test]
    fn who_may_write() {
        let path = ContentPath::root();
        let ask =
            |config: &ServiceConfig, principal: &Principal| authorize(config, principal, Verb::Write, &path, None);
        let user = Principal::User("ada".to_owned());
        let closed = ServiceConfig::default();
        assert_eq!(ask(&closed, &Principal::Local), Err(Denied::NobodyMay));
        assert_eq!(authorize(&closed, &Principal::Anonymous, Verb::Read, &path, None), Ok(()));
        let local = ServiceConfig { local_writes: true, ..ServiceConfig::default() };
        assert_eq!(ask(&local, &Principal::Local), Ok(()));
        assert_eq!(ask(&local, &Principal::Anonymous), Err(Denied::LocalOnly));
        let users = vec![User { name: "ada".to_owned(), password_hash: String::new() }];
        let closed = ServiceConfig { users, local_writes: true, ..ServiceConfig::default() };
        assert_eq!(ask(&closed, &Principal::Local), Err(Denied::UserNeeded));
        assert_eq!(ask(&closed, &user), Ok(()));
    }
}
