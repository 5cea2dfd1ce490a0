//! The data of an emulated disk: a sparse file, and a bit per 4 KiB page that is set if the page is not all zeros.
//!
//! Promise: pages of zeros take no memory, neither when written nor when read; writes not flushed can be undone as a
//! power cut does it. Not here: when requests are answered (`engine`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom};
use sim::drive::{CutReport, IMAGE_BYTES, Unflushed};

const PAGE: usize = 4096;
const PAGE_U64: u64 = IMAGE_BYTES;
static ZEROS: [u8; PAGE] = [0; PAGE];
/// Before-images kept for power cuts: far more than any drive's cache.
const UNDO_BYTES_MAX: usize = 256 << 20;

/// Bytes that a read yields.
#[derive(Debug)]
pub(crate) enum ImageContent {
    /// All zeros.
    Zeros,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// A flush under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flush {
    /// Power cuts before it came.
    cuts: u64,
    number: u64,
}

#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    /// One bit per page, set if the page may hold something.
    held: Vec<u64>,
    unflushed: Unflushed,
    /// The drive has no power: writes vanish.
    off: bool,
    /// Power cuts so far.
    cuts: u64,
    /// Buffers of answered reads, to be used again.
    spare: Vec<Vec<u8>>,
}

impl Image {
    /// Opens or makes the file with `size` bytes.
    pub(crate) fn open(path: &Path, size: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(size)?;
        let pages = size.div_ceil(PAGE_U64);
        let words = usize::try_from(pages.div_ceil(64)).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut image = Self {
            file,
            held: vec![0; words],
            unflushed: Unflushed::new(UNDO_BYTES_MAX),
            off: false,
            cuts: 0,
            spare: Vec::new(),
        };
        image.find_data(size)?;
        Ok(image)
    }

    fn find_data(&mut self, size: u64) -> io::Result<()> {
        let mut at = 0;
        while at < size {
            let start = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(rustix::io::Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start))?;
            for page in start / PAGE_U64..end.div_ceil(PAGE_U64) {
                self.hold(page);
            }
            at = end.max(start + 1);
        }
        Ok(())
    }

    fn slot(page: u64) -> (usize, u64) {
        (usize::try_from(page / 64).unwrap_or(usize::MAX), 1 << (page % 64))
    }

    fn holds(&self, page: u64) -> bool {
        let (word, bit) = Self::slot(page);
        self.held[word] & bit != 0
    }

    fn hold(&mut self, page: u64) {
        let (word, bit) = Self::slot(page);
        self.held[word] |= bit;
    }

    fn release(&mut self, page: u64) {
        let (word, bit) = Self::slot(page);
        self.held[word] &= !bit;
    }

    /// Reads a range.
    pub(crate) fn read(&mut self, offset: u64, bytes: usize) -> io::Result<ImageContent> {
        let end = offset + u64::try_from(bytes).unwrap_or(0);
        if !(offset / PAGE_U64..end.div_ceil(PAGE_U64)).any(|page| self.holds(page)) {
            return Ok(ImageContent::Zeros);
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(bytes, 0);
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(ImageContent::Bytes(buffer))
    }

    /// Gives a buffer back.
    pub(crate) fn recycle(&mut self, content: ImageContent) {
        if let ImageContent::Bytes(buffer) = content
            && self.spare.len() < 64
        {
            self.spare.push(buffer);
        }
    }

    /// Writes a range, as the command named `tag`.
    pub(crate) fn write(&mut self, tag: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.off {
            return Ok(());
        }
        let bytes = u64::try_from(data.len()).unwrap_or(0);
        let (file, held) = (&self.file, &self.held);
        self.unflushed.note(tag, offset, bytes, |block| {
            let (word, bit) = Self::slot(block / PAGE_U64);
            (held[word] & bit != 0).then(|| {
                let mut image = vec![0; PAGE].into_boxed_slice();
                // A page at the end of the file may be short; the missing bytes are zeros.
                let _short = file.read_at(&mut image, block);
                image
            })
        });
        let stored = self.store(offset, data);
        if stored.is_err() {
            // The extent of a failed write is unknown, as always; but it is not under way any more.
            let _taken = self.unflushed.acknowledge(tag);
        }
        stored
    }

    /// Stores pages: those of zeros become holes, the others are written in runs.
    fn store(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut run: Option<usize> = None;
        let mut at = 0;
        while at < data.len() {
            let position = offset + u64::try_from(at).unwrap_or(0);
            let within = usize::try_from(position % PAGE_U64).unwrap_or(0);
            let length = (PAGE - within).min(data.len() - at);
            let page = position / PAGE_U64;
            let zero = data[at..at + length] == ZEROS[..length];
            if zero && (length == PAGE || !self.holds(page)) {
                self.store_run(offset, data, run.take(), at)?;
                if self.holds(page) {
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(&self.file, flags, position, PAGE_U64)?;
                    self.release(page);
                }
            } else {
                self.hold(page);
                run.get_or_insert(at);
            }
            at += length;
        }
        self.store_run(offset, data, run, data.len())
    }

    fn store_run(&self, offset: u64, data: &[u8], run: Option<usize>, end: usize) -> io::Result<()> {
        match run {
            Some(start) => self.file.write_all_at(&data[start..end], offset + u64::try_from(start).unwrap_or(0)),
            None => Ok(()),
        }
    }

    /// The command named `tag` is answered with success; `durable`: the drive has no volatile cache. False if the power
    /// went before the answer, and took the write.
    #[must_use]
    pub(crate) fn acknowledge(&mut self, tag: u64, durable: bool) -> bool {
        let there = self.unflushed.acknowledge(tag);
        if durable {
            let flush = self.unflushed.begin_flush();
            self.unflushed.flushed(flush);
        }
        there
    }

    /// A flush came.
    pub(crate) fn begin_flush(&mut self) -> Flush {
        Flush { cuts: self.cuts, number: self.unflushed.begin_flush() }
    }

    /// The drive has done a flush. False if the power went before the answer: then nothing is promised.
    #[must_use]
    pub(crate) fn flushed(&mut self, flush: Flush) -> bool {
        let in_time = flush.cuts == self.cuts;
        if in_time {
            self.unflushed.flushed(flush.number);
        }
        in_time
    }

    /// Writes a power cut could undo now.
    pub(crate) fn unflushed(&self) -> usize {
        self.unflushed.len()
    }

    /// The power is gone: undoes or tears, by `seed`, the unflushed writes.
    pub(crate) fn cut(&mut self, seed: u64) -> io::Result<CutReport> {
        self.off = true;
        self.cuts += 1;
        let mut log = std::mem::replace(&mut self.unflushed, Unflushed::new(UNDO_BYTES_MAX));
        let mut changes: Vec<(u64, Box<[u8]>)> = Vec::new();
        let report = log.cut(
            seed,
            |block| {
                let mut now = vec![0; PAGE].into_boxed_slice();
                let _short = self.file.read_at(&mut now, block);
                now
            },
            |block, bytes| changes.push((block, bytes.into())),
        );
        let size = self.file.metadata()?.len();
        for (block, bytes) in changes {
            let room = usize::try_from(size - block).unwrap_or(PAGE).min(PAGE);
            self.store(block, &bytes[..room])?;
        }
        Ok(report)
    }

    /// The power is back.
    pub(crate) fn power_on(&mut self) {
        self.off = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_the_backing_file_refused_does_not_wait_for_an_answer_for_ever() {
        let path = std::env::temp_dir().join(format!("isocast-lab-image-{}", std::process::id()));
        let mut image = Image::open(&path, 1 << 20).expect("an image");
        image.write(1, 0, &[1; PAGE]).expect("written");
        // As a full file system does, it refuses the write.
        image.file = File::open(&path).expect("opens for reading only");
        let refused = image.write(2, 0, &[2; PAGE]);
        std::fs::remove_file(&path).expect("it was made");
        assert!(refused.is_err());
        assert!(image.acknowledge(1, false));
        let flush = image.begin_flush();
        assert!(image.flushed(flush));
        assert_eq!(image.unflushed(), 0, "what was refused would keep all later images in memory");
    }
}
