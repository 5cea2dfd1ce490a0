//! The default folder of the state.

use std::path::{Path, PathBuf};

/// The state folder if none is given: systemd's `StateDirectory`, else the user's (or root's) usual place.
#[must_use]
pub fn default_state() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user =
        || Some(variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?.join("isocast"));
    variable("STATE_DIRECTORY").or_else(of_user).unwrap_or_else(|| PathBuf::from("/var/lib/isocast"))
}

/// The state folder of the server on this machine, for its commands: that of the service, if this user may change it, else that of a
/// server which this user starts.
#[must_use]
pub fn state_of_service() -> PathBuf {
    let service = Path::new("/var/lib/isocast");
    let is_ours = std::env::var_os("STATE_DIRECTORY").is_none() && rustix::process::geteuid().is_root();
    if is_ours && service.is_dir() { service.to_owned() } else { default_state() }
}
