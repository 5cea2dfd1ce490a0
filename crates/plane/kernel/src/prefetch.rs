//! Prefetch of memory into the processor's cache, ahead of its use, while other work is done.
//!
//! Promise: nothing is changed, and nothing is waited for. Not here: the choice of the memory (`dataplane`).

/// Bytes that a cache fetches together, on all processors we know of at least.
const LINE_BYTES: usize = 64;

/// Begins to fetch all of `entry`; on processors for which the language has no name for it, nothing.
pub(crate) fn prefetch<T>(entry: &T) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::from_ref(entry).cast::<i8>().wrapping_byte_add(offset);
        // SAFETY: the instruction takes an address only; the bytes there are neither read nor written, and a wrong address is no
        // fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (entry, LINE_BYTES);
}
