//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nothing is left half-done by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
