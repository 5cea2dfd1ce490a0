//! Who may write.
//!
//! Promise: every front end asks here before it stores, removes or stops something. Reading is open to all who reach the server;
//! writing needs a user, or, where none is configured and the settings allow it, a program on this machine. Not here: how a
//! client says who it is, and whether that is true (`logins`).

use crate::config::ServiceConfig;

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

/// Whether `principal` may write.
///
/// # Errors
/// Why not.
pub fn may_write(config: &ServiceConfig, principal: &Principal) -> Result<(), Denied> {
    match principal {
        Principal::User(_) => Ok(()),
        _ if !config.users.is_empty() => Err(Denied::UserNeeded),
        _ if !config.local_writes => Err(Denied::NobodyMay),
        Principal::Local => Ok(()),
        Principal::Anonymous => Err(Denied::LocalOnly),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write() {
        let user = Principal::User("ada".to_owned());
        let closed = ServiceConfig::default();
        assert_eq!(may_write(&closed, &Principal::Local), Err(Denied::NobodyMay));
        let local = ServiceConfig { local_writes: true, ..ServiceConfig::default() };
        assert_eq!(may_write(&local, &Principal::Local), Ok(()));
        assert_eq!(may_write(&local, &Principal::Anonymous), Err(Denied::LocalOnly));
        let users = vec![("ada".to_owned(), String::new())];
        let closed = ServiceConfig { users, local_writes: true, ..ServiceConfig::default() };
        assert_eq!(may_write(&closed, &Principal::Local), Err(Denied::UserNeeded));
        assert_eq!(may_write(&closed, &user), Ok(()));
    }
}
