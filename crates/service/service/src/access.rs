//! Who may write.
//!
//! Promise: what stores, removes or stops something takes a [`WritePermit`], which only [`may_write`] gives to a client. Reading
//! is open to all who reach the server; writing needs a user, or, where none is configured and the settings allow it, a program
//! on this machine. Not here: how a client says who it is, and whether that is true (the front ends, `logins`).

use crate::config::ServiceConfig;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A program on this machine that nobody else speaks through.
    Local,
    /// Not known to be one; with why not.
    Remote(&'static str),
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
    /// No users are configured, and only this machine may write; with why that is not known to be it.
    #[error("without configured users, writes {0}; configure a user")]
    LocalOnly(&'static str),
}

/// Somebody may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritePermit {
    user: Option<String>,
}

impl WritePermit {
    /// For what the server does by itself, as its configuration says.
    #[must_use]
    pub const fn of_configuration() -> Self {
        Self { user: None }
    }

    /// The user who may; none: no users are configured.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

/// Whether `principal` may write.
///
/// # Errors
/// Why not.
pub fn may_write(config: &ServiceConfig, principal: Principal) -> Result<WritePermit, Denied> {
    match principal {
        Principal::User(name) => Ok(WritePermit { user: Some(name) }),
        _ if !config.users.is_empty() => Err(Denied::UserNeeded),
        _ if !config.local_writes => Err(Denied::NobodyMay),
        Principal::Local => Ok(WritePermit { user: None }),
        Principal::Remote(why) => Err(Denied::LocalOnly(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write() {
        let user = Principal::User("ada".to_owned());
        let nobody = ServiceConfig::default();
        assert_eq!(may_write(&nobody, Principal::Local), Err(Denied::NobodyMay));
        let local = ServiceConfig { local_writes: true, ..ServiceConfig::default() };
        assert_eq!(may_write(&local, Principal::Local), Ok(WritePermit { user: None }));
        assert_eq!(may_write(&local, Principal::Remote("from afar")), Err(Denied::LocalOnly("from afar")));
        let users = vec![("ada".to_owned(), String::new())];
        let closed = ServiceConfig { users, local_writes: true, ..ServiceConfig::default() };
        assert_eq!(may_write(&closed, Principal::Local), Err(Denied::UserNeeded));
        assert_eq!(may_write(&closed, Principal::Remote("from afar")), Err(Denied::UserNeeded));
        assert_eq!(may_write(&closed, user).expect("a user").user(), Some("ada"));
    }
}
