//! Reads a content for a container probe: past the page cache where its files are open for direct reads.

use std::io;

use content::layout::{ContentFile, ContentLayout};
use kernel::aligned::AlignedBlock;
use media::ReadAt;
use units::limits;

use crate::buffers::{count, index};

/// Read at once at most.
const WINDOW_BYTES: usize = 256 * 1024;

/// A content, read at any offset: bytes that one disk does not give are read from the next copy.
pub struct ContentReader<'a, R> {
    layout: &'a ContentLayout,
    size: u64,
    /// Reads a file at a position.
    read: R,
    memory: AlignedBlock,
}

/// The bytes of a content that was just stored.
pub struct StoredReader<'a>(pub &'a [u8]);

impl ReadAt for StoredReader<'_> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let from = index(offset.min(self.size()));
        let there = &self.0[from..][..buf.len().min(self.0.len() - from)];
        buf[..there.len()].copy_from_slice(there);
        Ok(there.len())
    }

    fn size(&self) -> u64 {
        count(self.0.len())
    }
}

impl<'a, R: FnMut(&ContentFile, u64, &mut [u8]) -> io::Result<usize>> ContentReader<'a, R> {
    /// A reader of a content of `size` bytes, which reads files by `read`.
    pub fn new(layout: &'a ContentLayout, size: u64, read: R) -> Self {
        Self { layout, size, read, memory: AlignedBlock::zeroed(WINDOW_BYTES + index(limits::DIRECT_ALIGN)) }
    }

    /// Reads from one copy, as much as lies together.
    pub fn read_copy(&mut self, copy: usize, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let skip = offset % limits::DIRECT_ALIGN;
        let Some(piece) = self.layout.piece(copy, offset - skip, count(WINDOW_BYTES)) else { return Ok(0) };
        debug_assert!(piece.length <= count(WINDOW_BYTES), "a piece is no longer than it was asked for");
        let wanted = index(piece.length.saturating_sub(skip)).min(buf.len());
        let length = (index(skip) + wanted).next_multiple_of(index(limits::DIRECT_ALIGN));
        let window = &mut self.memory.bytes_mut()[..length];
        let file = &self.layout.files()[usize::from(piece.file)];
        let read = (self.read)(file, piece.offset, &mut *window)?;
        debug_assert!(read <= window.len(), "a read fills its window at most");
        let given = read.saturating_sub(index(skip)).min(wanted);
        buf[..given].copy_from_slice(&window[index(skip)..index(skip) + given]);
        Ok(given)
    }
}

impl<R: FnMut(&ContentFile, u64, &mut [u8]) -> io::Result<usize>> ReadAt for ContentReader<'_, R> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let there = index(self.size.saturating_sub(offset)).min(buf.len());
        let mut outcome = Ok(0);
        for copy in 0..self.layout.copies() {
            outcome = self.read_copy(copy, offset, &mut buf[..there]);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn size(&self) -> u64 {
        self.size
    }
}
