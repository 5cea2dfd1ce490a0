//! Leased buffers for uploads: a bounded number of aligned pieces of memory, all of one length, from which direct I/O can write.
//!
//! Promise: there are never more buffers than the bound; a buffer has one holder, and returns to the pool when the lease is
//! dropped; the fewest possible buffers have memory, and the memory of free ones can be given back. Not here: waiting for a
//! buffer.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use units::{ByteCount, Nanos, limits};

use crate::clock::monotonic;
use crate::mapping::Mapping;

/// Bytes of one lease by default.
#[allow(clippy::cast_possible_truncation, reason = "1 MiB fits any usize")]
pub const LEASE_BYTES: usize = limits::CHUNK_BYTES as usize;

/// A bounded set of buffers. Clones share it.
#[derive(Clone)]
pub struct LeasePool(Arc<PoolShared>);

struct PoolShared {
    memory: Mapping,
    count: usize,
    lease_bytes: usize,
    /// Free buffers: the most recently used is taken first.
    free: Mutex<Vec<FreeLease>>,
}

/// A buffer without a holder.
#[derive(Debug, Clone, Copy)]
struct FreeLease {
    index: usize,
    /// Time of its return to the pool. `None`: the buffer has no memory.
    since: Option<Nanos>,
}

impl PoolShared {
    fn free(&self) -> MutexGuard<'_, Vec<FreeLease>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A leased buffer, exclusive to its holder until it is dropped. At first it has the bytes of the last holder.
pub struct Lease {
    pool: Arc<PoolShared>,
    index: usize,
}

impl LeasePool {
    /// A pool of `count` buffers of [`LEASE_BYTES`].
    ///
    /// # Errors
    /// As [`LeasePool::with_leases_of`].
    pub fn new(count: usize) -> io::Result<Self> {
        Self::with_leases_of(ByteCount(limits::CHUNK_BYTES), count)
    }

    /// A pool of `count` buffers of `size` bytes each, a multiple of [`limits::DIRECT_ALIGN`]. Memory is taken from the system when a
    /// buffer is first used, and stays with the pool until [`LeasePool::give_back`].
    ///
    /// # Errors
    /// The kernel's error, if it refuses the address space; `InvalidInput` if `count` or the size is zero, or the size is not aligned.
    pub fn with_leases_of(size: ByteCount, count: usize) -> io::Result<Self> {
        if count == 0 || size.0 == 0 || !size.0.is_multiple_of(limits::DIRECT_ALIGN) {
            let what = "a pool needs at least one buffer, of a length that direct writes take";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let lease_bytes = usize::try_from(size.0).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let bytes = count.checked_mul(lease_bytes).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let memory = Mapping::new(bytes)?;
        let free = (0..count).rev().map(|index| FreeLease { index, since: None }).collect();
        Ok(Self(Arc::new(PoolShared { memory, count, lease_bytes, free: Mutex::new(free) })))
    }

    /// A buffer, if one is free.
    #[must_use]
    pub fn try_lease(&self) -> Option<Lease> {
        let index = self.0.free().pop()?.index;
        Some(Lease { pool: Arc::clone(&self.0), index })
    }

    /// Gives back the memory of the buffers that had no holder for `lull`. A concurrent lease waits at most while the memory of
    /// one buffer is given back.
    pub fn give_back(&self, lull: Nanos) {
        let now = monotonic();
        loop {
            let mut free = self.0.free();
            let unused = |free: &FreeLease| free.since.is_some_and(|since| now.saturating_sub(since) >= lull);
            let Some(place) = free.iter().position(unused) else { return };
            let from = free[place].index * self.0.lease_bytes;
            // If the kernel refuses to take the memory, it stays; the next attempt is made only after the buffer was used again.
            let _ = self.0.memory.discard(from..from + self.0.lease_bytes);
            free[place].since = None;
        }
    }

    /// Buffers that are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.free().len()
    }

    /// Buffers in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count
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
        unsafe { self.pool.memory.base().add(self.index * self.pool.lease_bytes).as_ptr() }
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece is mapped while the pool lives (we hold a share), initialised (zeroed by the kernel), and
        // ours alone: its index left the free list when this lease was made and returns only when it is dropped.
        unsafe { slice::from_raw_parts(self.first_byte(), self.pool.lease_bytes) }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { slice::from_raw_parts_mut(self.first_byte(), self.pool.lease_bytes) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.free().push(FreeLease { index: self.index, since: Some(monotonic()) });
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({})", self.index)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn leases_are_bounded_aligned_distinct_and_come_back() {
        let pool = LeasePool::new(3).unwrap();
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
        assert_eq!(pool.free(), 1);
        assert!(pool.try_lease().is_some());
    }

    #[test]
    fn a_lease_may_outlive_its_pool_and_move_between_threads() {
        let pool = LeasePool::new(1).unwrap();
        let mut lease = pool.try_lease().unwrap();
        drop(pool);
        lease[LEASE_BYTES - 1] = 7;
        let last = thread::spawn(move || lease[LEASE_BYTES - 1]).join().unwrap();
        assert_eq!(last, 7);
    }

    #[test]
    fn one_after_the_other_is_one_buffer_and_its_memory_is_given_back_after_a_lull() {
        let pool = LeasePool::new(4).unwrap();
        let place = pool.try_lease().unwrap().as_ptr();
        let mut lease = pool.try_lease().unwrap();
        assert_eq!(lease.as_ptr(), place, "not another one");
        lease.fill(7);
        pool.give_back(Nanos::ZERO);
        assert!(lease.iter().all(|&byte| byte == 7), "it is in use");
        drop(lease);
        pool.give_back(Nanos::from_secs(3600));
        let lease = pool.try_lease().unwrap();
        assert!(lease.iter().all(|&byte| byte == 7), "that was no lull");
        drop(lease);
        pool.give_back(Nanos::ZERO);
        assert!(pool.try_lease().unwrap().iter().all(|&byte| byte == 0), "other memory");
    }

    #[test]
    fn small_leases_lie_next_to_each_other() {
        let pool = LeasePool::with_leases_of(ByteCount(8192), 2).unwrap();
        let (mut one, mut other) = (pool.try_lease().unwrap(), pool.try_lease().unwrap());
        assert!(one.len() == 8192 && other.len() == 8192 && pool.try_lease().is_none());
        one.fill(1);
        other.fill(2);
        assert!(one.iter().all(|&byte| byte == 1) && other.iter().all(|&byte| byte == 2));
        pool.give_back(Nanos::ZERO);
        assert!(one.iter().all(|&byte| byte == 1), "it is in use");
        for size in [0, 4095] {
            assert_eq!(LeasePool::with_leases_of(ByteCount(size), 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn an_empty_pool_is_refused() {
        assert_eq!(LeasePool::new(0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(LeasePool::new(usize::MAX).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }
}
