//! Memory that is looked at soon is fetched into the processor's cache while something else is done.
//!
//! Promise: nothing is changed, and nothing is waited for. Not here: what is looked at next (`dataplane`).

/// Bytes that a cache fetches together, on all processors we know of at least.
const LINE_BYTES: usize = 64;

/// Begins to fetch all of `entry`; on processors for which the language has no name for it, nothing.
pub(crate) fn prefetch<T>(entry: &T) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::from_ref(entry).cast::<i8>().wrapping_byte_add(offset);
        // SAFETY: an address is all that the instruction takes; whatever lies there is neither read nor written, and a wrong one
        // is no fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (entry, LINE_BYTES);
}
