//! Anonymous memory from the kernel, on huge pages if available.
//!
//! Promise: 2 MiB-aligned, zeroed, unmapped on drop, shared between threads by raw pointer only. At first a mapping is only
//! address space: the first access to a page, or [`Mapping::populate`], takes the memory. Not here: the rules for touching a
//! byte (`arena`, `pool`).

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// Size of a huge page on x86-64 and on arm64 with 4 KiB pages; elsewhere only an alignment.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The smallest page size.
const PAGE_BYTES: usize = 4096;

/// Linux 6.1.
const MADV_COLLAPSE: libc::c_int = 25;

/// A private mapping, accessed by raw pointer.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Start of the address range from `mmap`; `base` lies in that range.
    raw: NonNull<u8>,
    raw_bytes: usize,
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is only an address range; code that reads or writes through its pointers states why that is sound.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method reads or writes memory in use (`populate`).
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` bytes (rounded up to 2 MiB), with advice for transparent huge pages.
    ///
    /// # Errors
    /// The kernel's error, if address space is short.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(HUGE_PAGE_BYTES)
            .filter(|&bytes| bytes < usize::MAX / 2)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // The kernel aligns a mapping to small pages only, so one more huge page is mapped: an aligned start then lies inside.
        let raw_bytes = bytes + HUGE_PAGE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory that exists.
        let raw = unsafe { libc::mmap(ptr::null_mut(), raw_bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let raw = NonNull::new(raw.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let lead = raw.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `lead` is less than a huge page, and one more than `bytes` was mapped.
        let base = unsafe { raw.add(lead) };
        let mapping = Self { raw, raw_bytes, base, bytes };
        // Only advice: without transparent huge pages the memory works as well, with larger page tables.
        let _ = mapping.advise(0..bytes, libc::MADV_HUGEPAGE);
        // A child (fork and exec by any library) must not inherit pages that a device writes to.
        let _ = mapping.advise(0..bytes, libc::MADV_DONTFORK);
        Ok(mapping)
    }

    /// First byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Takes memory for addresses that have none; their contents are lost.
    ///
    /// # Errors
    /// The kernel's error; memory taken before it stays.
    pub(crate) fn populate(&self, range: Range<usize>) -> io::Result<()> {
        match self.advise(range.clone(), libc::MADV_POPULATE_WRITE) {
            // Before Linux 5.14, an access to each page has the same effect.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                for at in range.step_by(PAGE_BYTES) {
                    // SAFETY: `advise` checked that the range lies in the mapping; no code uses memory that is only
                    // being brought in.
                    unsafe { self.base.as_ptr().add(at).write_volatile(0) };
                }
                Ok(())
            }
            populated => populated,
        }
    }

    /// Merges the small pages of a range into huge ones, if the kernel can: before Linux 6.14, memory that was given back in
    /// small pages is taken again in small pages.
    pub(crate) fn collapse(&self, range: Range<usize>) {
        let _ = self.advise(range, MADV_COLLAPSE);
    }

    /// Locks a range into memory.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub(crate) fn lock(&self, range: Range<usize>) -> io::Result<()> {
        let (first, length) = self.part(range);
        // SAFETY: the range is ours; locking changes no contents of it.
        done(unsafe { libc::mlock(first.cast(), length) })
    }

    /// Gives the memory of a range back to the system. Its contents are lost, and the next access takes other memory.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub(crate) fn discard(&self, range: Range<usize>) -> io::Result<()> {
        let (first, length) = self.part(range.clone());
        // Locked memory cannot be given back.
        // SAFETY: the range is ours; unlocking changes no contents of it.
        done(unsafe { libc::munlock(first.cast(), length) })?;
        self.advise(range, libc::MADV_DONTNEED)
    }

    fn advise(&self, range: Range<usize>, advice: libc::c_int) -> io::Result<()> {
        let (first, length) = self.part(range);
        // SAFETY: the range is ours. Only `discard` and `populate` change contents, as their callers want.
        done(unsafe { libc::madvise(first.cast(), length, advice) })
    }

    fn part(&self, range: Range<usize>) -> (*mut u8, usize) {
        assert!(range.start <= range.end && range.end <= self.bytes, "inside the mapping");
        // SAFETY: inside the mapping (checked), so the address is, too.
        (unsafe { self.base.as_ptr().add(range.start) }, range.len())
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this address and length; no holder keeps a pointer past the owner's life
        // (`arena` and `pool` hand out memory only together with a share of the mapping).
        let unmapped = unsafe { libc::munmap(self.raw.as_ptr().cast(), self.raw_bytes) };
        debug_assert_eq!(unmapped, 0, "unmapping a mapped range cannot fail");
    }
}
