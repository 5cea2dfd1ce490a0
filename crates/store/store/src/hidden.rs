//! Hidden names of items before they have a name of their own, and after they lost it.
//!
//! Promise: no two items of a run have the same one, and no path that a client spells has one. Not here: the treatment of those that a
//! crash leaves (`storage::leftover`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use storage::leftover::{hidden_name, leftover};

/// A hidden name that no other item has; `own` is its name if it is to be found after a crash.
#[must_use]
pub fn next_hidden_name(own: Option<&str>) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = hidden_name(our_run(), NEXT.fetch_add(1, Ordering::Relaxed), own);
    debug_assert!(leftover(&name, our_run()).is_none(), "this run would take its own item for one that a crash left");
    name
}

/// Name of this run in hidden names. Not the process alone: in a container that is the same after a crash.
pub fn our_run() -> &'static str {
    static RUN: OnceLock<String> = OnceLock::new();
    RUN.get_or_init(|| {
        let process = rustix::process::getpid().as_raw_nonzero();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!("{process}-{:x}", since.as_nanos())
    })
}
