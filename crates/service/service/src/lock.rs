//! Locks of tables that no panic leaves half-changed: they can be taken after a panic, too.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock, also after a panic under it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
