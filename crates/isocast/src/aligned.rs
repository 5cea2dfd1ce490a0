//! Memory that direct I/O can take.
//!
//! Promise: it begins at an address that every disk takes ([`DIRECT_ALIGN`]), without `unsafe`.
//! Not here: buffers of streams and uploads (crates `kernel` and `dirstore`).

use units::limits::DIRECT_ALIGN;

/// So many zeroed bytes that begin at a multiple of [`DIRECT_ALIGN`].
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    pub(crate) fn new(length: usize) -> Self {
        let align = usize::try_from(DIRECT_ALIGN).expect("a small constant");
        let memory = vec![0; length + align];
        let start = memory.as_ptr().align_offset(align);
        Self { memory, start, length }
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}
