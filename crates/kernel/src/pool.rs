//! Leased buffers for uploads: a bounded number of aligned 1 MiB pieces of memory that direct I/O can write from.
//!
//! Promise: never more than the bound, never handed to two holders, comes back when dropped, and whoever waits is told.
//! Not here: who waits how (give [`LeasePool::new`] a hook that wakes it).

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use units::limits;

use crate::mapping::Mapping;

/// Bytes of one lease, aligned for direct I/O.
#[allow(clippy::cast_possible_truncation, reason = "1 MiB fits any usize")]
pub const LEASE_BYTES: usize = limits::CHUNK_BYTES as usize;

/// A bounded set of buffers. Clones share it.
#[derive(Clone)]
pub struct LeasePool(Arc<Shared>);

struct Shared {
    memory: Mapping,
    free: ArrayQueue<usize>,
    returned: Box<dyn Fn() + Send + Sync>,
}

/// One buffer, the holder's alone until dropped. Its contents at first are whatever the last holder left.
pub struct Lease {
    pool: Arc<Shared>,
    index: usize,
}

impl LeasePool {
    /// A pool of `count` buffers. Memory is taken from the system when a buffer is first used and stays with the pool.
    /// `returned` is called after each lease that comes back, by the thread that dropped it: wake a waiter, do no work.
    ///
    /// # Errors
    /// The kernel's, if the address space cannot be had; invalid input if `count` is zero.
    pub fn new(count: usize, returned: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a pool needs at least one buffer"));
        }
        let bytes = count.checked_mul(LEASE_BYTES).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let memory = Mapping::new(bytes)?;
        let free = ArrayQueue::new(count);
        for index in 0..count {
            let _ = free.push(index); // has room for exactly these
        }
        Ok(Self(Arc::new(Shared { memory, free, returned: Box::new(returned) })))
    }

    /// A buffer, if one is free. To wait for one: register with the hook's wake-up first, then try.
    #[must_use]
    pub fn try_lease(&self) -> Option<Lease> {
        let index = self.0.free.pop()?;
        Some(Lease { pool: Arc::clone(&self.0), index })
    }

    /// Buffers that are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.free.len()
    }

    /// Buffers in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.free.capacity()
    }
}

impl fmt::Debug for LeasePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeasePool({} of {} free)", self.free(), self.count())
    }
}

impl Lease {
    fn first_byte(&self) -> *mut u8 {
        // SAFETY: `index < count`, and the mapping holds `count` leases.
        unsafe { self.pool.memory.base().add(self.index * LEASE_BYTES).as_ptr() }
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece is mapped while the pool lives (we hold a share), initialised (zeroed by the kernel), and
        // ours alone: its index left the free queue when this lease was made and returns only when it is dropped.
        unsafe { slice::from_raw_parts(self.first_byte(), LEASE_BYTES) }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { slice::from_raw_parts_mut(self.first_byte(), LEASE_BYTES) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let put = self.pool.free.push(self.index);
        debug_assert!(put.is_ok(), "the queue has room for every index, and each is in it at most once");
        (self.pool.returned)();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({})", self.index)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn leases_are_bounded_aligned_distinct_and_come_back() {
        let returned = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&returned);
        let pool = LeasePool::new(3, move || {
            counter.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
        let mut leases: Vec<Lease> = (0..3).map(|_| pool.try_lease().unwrap()).collect();
        assert!(pool.try_lease().is_none());
        for (n, lease) in leases.iter_mut().enumerate() {
            assert_eq!(lease.len(), LEASE_BYTES);
            assert!(lease.as_ptr().addr().is_multiple_of(usize::try_from(limits::DIRECT_ALIGN).unwrap()));
            lease.fill(u8::try_from(n).unwrap() + 1);
        }
        for (n, lease) in leases.iter().enumerate() {
            assert!(lease.iter().all(|&b| usize::from(b) == n + 1));
        }
        drop(leases.pop());
        assert_eq!((returned.load(Ordering::SeqCst), pool.free()), (1, 1));
        assert!(pool.try_lease().is_some());
    }

    #[test]
    fn a_lease_may_outlive_its_pool_and_move_between_threads() {
        let pool = LeasePool::new(1, || ()).unwrap();
        let mut lease = pool.try_lease().unwrap();
        drop(pool);
        lease[LEASE_BYTES - 1] = 7;
        let last = thread::spawn(move || lease[LEASE_BYTES - 1]).join().unwrap();
        assert_eq!(last, 7);
    }

    #[test]
    fn an_empty_pool_is_refused() {
        assert_eq!(LeasePool::new(0, || ()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(LeasePool::new(usize::MAX, || ()).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }
}
