//! Memory that direct reads and writes can take.
//!
//! Promise: it begins at an address that every disk takes ([`DIRECT_ALIGN`]), and is whole blocks long, without `unsafe`.
//! Not here: buffers of streams (`arena`) and of uploads (`pool`).

use units::limits::DIRECT_ALIGN;

const ALIGN: usize = 4096;
const _: () = assert!(ALIGN as u64 == DIRECT_ALIGN);

/// Whole blocks of bytes.
#[derive(Debug)]
pub struct AlignedBlock {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBlock {
    /// These bytes, with zeros up to a whole block.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let mut block = Self::zeroed(bytes.len());
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        block
    }

    /// Zeros: `length`, rounded up to a whole block.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        let length = length.next_multiple_of(ALIGN);
        let memory = vec![0; length + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self { memory, start, length }
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// All of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
