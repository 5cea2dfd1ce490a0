//! Anonymous memory from the kernel, on huge pages where they can be had.
//!
//! Promise: page-aligned (2 MiB-aligned), zeroed, unmapped on drop, shared between threads by raw pointer only.
//! Not here: who may touch which byte when (`arena`, `pool`).

use std::io;
use std::num::NonZero;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Size of a huge page on x86-64 and on arm64 with 4 KiB pages; elsewhere only an alignment.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// What one call brings in.
const POPULATE_STEP_BYTES: usize = 16 * 1024 * 1024;
/// Threads that bring memory in: more do not clear it faster.
const POPULATORS_MAX: usize = 8;
/// Less is not worth a thread.
const POPULATOR_BYTES_MIN: usize = 256 * 1024 * 1024;

/// Memory of our own, addressed by raw pointer.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// What `mmap` gave; `base` lies in it.
    raw: NonNull<u8>,
    raw_bytes: usize,
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is only an address range; whoever reads or writes through its pointers states why that is sound.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method reads or writes the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` bytes (rounded up to 2 MiB), from reserved huge pages where `reserved` is set, else from
    /// ordinary memory that asks for transparent huge pages.
    ///
    /// # Errors
    /// The kernel's, when there is not that much address space or memory; with `reserved`, also when fewer huge pages
    /// are free.
    pub(crate) fn new(bytes: usize, reserved: bool) -> io::Result<Self> {
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(HUGE_PAGE_BYTES)
            .filter(|&bytes| bytes < usize::MAX / 2)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // An ordinary mapping is only page-aligned: one huge page more, so that an aligned start lies inside.
        let raw_bytes = if reserved { bytes } else { bytes + HUGE_PAGE_BYTES };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if reserved { libc::MAP_HUGETLB } else { 0 };
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory that exists.
        let raw = unsafe { libc::mmap(ptr::null_mut(), raw_bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let raw = NonNull::new(raw.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let lead = raw.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `lead` is less than a huge page, and one more than `bytes` was mapped (none is needed if `reserved`,
        // where the kernel aligns the address itself).
        let base = unsafe { raw.add(if reserved { 0 } else { lead }) };
        let mapping = Self { raw, raw_bytes, base, bytes };
        if !reserved {
            // Only advice: without transparent huge pages the memory is as good, its page tables are bigger.
            let _ = mapping.advise(libc::MADV_HUGEPAGE);
        }
        // A child (fork and exec by any library) must not inherit pages that a device writes to.
        let _ = mapping.advise(libc::MADV_DONTFORK);
        Ok(mapping)
    }

    /// First byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Brings the whole range in, on several processors at once: clearing it is most of a start's time.
    ///
    /// In steps, so that no call holds the address space for long: whoever wants to map something meanwhile waits for the
    /// call under way, and everybody's page faults behind that.
    ///
    /// # Errors
    /// The kernel's first; what was brought in stays.
    pub(crate) fn populate(&self) -> io::Result<()> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let helpers = processors.min(POPULATORS_MAX).min(self.bytes / POPULATOR_BYTES_MIN + 1) - 1;
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let work = || {
            loop {
                let at = next.fetch_add(POPULATE_STEP_BYTES, Ordering::Relaxed);
                if at >= self.bytes {
                    return;
                }
                if let Err(error) = self.populate_part(at, POPULATE_STEP_BYTES.min(self.bytes - at)) {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    next.store(self.bytes, Ordering::Relaxed);
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..helpers {
                // Where no thread can be had, the others (this one at least) do its part.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn populate_part(&self, at: usize, length: usize) -> io::Result<()> {
        assert!(at < self.bytes && length <= self.bytes - at, "inside the mapping");
        // SAFETY: inside the mapping (checked), so the address is, too; populating changes no contents.
        let done = unsafe { libc::madvise(self.base.as_ptr().add(at).cast(), length, libc::MADV_POPULATE_WRITE) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Gives the whole range advice.
    pub(crate) fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is ours; the advice used in this crate changes no contents of it.
        match unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Locks the range into memory.
    pub(crate) fn lock(&self) -> io::Result<()> {
        // SAFETY: the range is ours; locking changes no contents of it.
        match unsafe { libc::mlock(self.base.as_ptr().cast(), self.bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this address and length; nobody keeps a pointer past the owner's life (`arena`
        // and `pool` hand out memory only together with a share of the mapping).
        let unmapped = unsafe { libc::munmap(self.raw.as_ptr().cast(), self.raw_bytes) };
        debug_assert_eq!(unmapped, 0, "unmapping what was mapped cannot fail");
    }
}
