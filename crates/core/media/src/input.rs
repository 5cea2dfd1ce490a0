//! Input of a probe: any file, within a budget.

use std::io;

use super::ProbeError;
use super::codecs::CodecSet;

/// Least bytes of one read, also where a reader needs fewer: neighbouring structures then cost one read.
const READ_BYTES: usize = 8 << 10;
/// The most a reader may look at in one view.
pub(crate) const VIEW_MAX: usize = 1 << 20;
/// Reads begin and end on this boundary (or at the end of the file), so that direct I/O can serve them.
const ALIGN: u64 = 4096;

/// A file that can be read at any offset.
pub trait ReadAt {
    /// Reads into `buf` from `offset`, like `pread`: fewer bytes than `buf` holds are no error, 0 is the end.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Bytes in the file.
    fn size(&self) -> u64;
}

impl ReadAt for &[u8] {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn size(&self) -> u64 {
        u64::try_from(self.len()).unwrap_or(u64::MAX)
    }
}

/// Limits of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeBudget {
    /// Bytes read in all.
    pub bytes: u64,
    /// Calls of [`ReadAt::read_at`].
    pub reads: u32,
}

impl Default for ProbeBudget {
    fn default() -> Self {
        Self { bytes: 16 << 20, reads: 192 }
    }
}

/// A file with the rest of its budget and the part of it that was read last.
pub(crate) struct BudgetedFile<'a> {
    input: &'a mut dyn ReadAt,
    size: u64,
    budget: ProbeBudget,
    left: ProbeBudget,
    window: Vec<u8>,
    start: u64,
    /// The formats that the container's reader has found so far.
    pub(crate) codecs: CodecSet,
}

impl<'a> BudgetedFile<'a> {
    pub(crate) fn new(input: &'a mut dyn ReadAt, budget: ProbeBudget) -> Self {
        let size = input.size();
        Self { input, size, budget, left: budget, window: Vec::new(), start: 0, codecs: CodecSet::NONE }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn left(&self) -> ProbeBudget {
        self.left
    }

    /// `want` bytes from `offset` (at most [`VIEW_MAX`]); fewer only at the end of the file.
    pub(crate) fn view(&mut self, offset: u64, want: usize) -> Result<&[u8], ProbeError> {
        let want = want.min(VIEW_MAX).min(usize::try_from(self.size.saturating_sub(offset)).unwrap_or(VIEW_MAX));
        if want == 0 {
            return Ok(&[]);
        }
        let held = |start: u64, len: usize| {
            let skip = usize::try_from(offset.checked_sub(start)?).ok()?;
            (skip.checked_add(want)? <= len).then_some(skip)
        };
        let skip = match held(self.start, self.window.len()) {
            Some(skip) => skip,
            None => {
                self.fill(offset, want)?;
                usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(self.window.len())
            }
        };
        Ok(&self.window[skip..self.window.len().min(skip + want)])
    }

    /// Offsets of at most `count` places of `bytes` each, spread evenly from `first` to the end of the file.
    pub(crate) fn places(&self, first: u64, count: u64, bytes: usize) -> impl Iterator<Item = u64> + use<> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(1);
        let room = self.size.saturating_sub(bytes).saturating_sub(first);
        let count = count.min(room.div_ceil(bytes) + 1);
        (0..count).map(move |number| {
            let skip = u128::from(room) * u128::from(number) / u128::from(count.max(2) - 1);
            first + u64::try_from(skip).unwrap_or(0)
        })
    }

    /// `N` bytes from `offset`, all of them.
    pub(crate) fn exact<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], ProbeError> {
        self.view(offset, N)?.try_into().map_err(|_| ProbeError::Broken("it ends too soon"))
    }

    /// `bytes` from `offset` on, all of them, in memory that grows only as they arrive.
    pub(crate) fn whole(&mut self, offset: u64, bytes: u64) -> Result<Vec<u8>, ProbeError> {
        let mut all = Vec::new();
        let mut at = offset;
        let end = offset.checked_add(bytes).filter(|end| *end <= self.size);
        let end = end.ok_or(ProbeError::Broken("it ends too soon"))?;
        while at < end {
            let part = self.view(at, usize::try_from(end - at).unwrap_or(VIEW_MAX))?;
            if part.is_empty() {
                return Err(ProbeError::Broken("it ends too soon"));
            }
            at += u64::try_from(part.len()).unwrap_or(0);
            all.extend_from_slice(part);
        }
        Ok(all)
    }

    /// Reads a window that holds `want` bytes from `offset`, as far as the file goes.
    fn fill(&mut self, offset: u64, want: usize) -> Result<(), ProbeError> {
        let start = offset / ALIGN * ALIGN;
        let end = offset.saturating_add(u64::try_from(want.max(READ_BYTES)).unwrap_or(0));
        let end = end.next_multiple_of(ALIGN).min(self.size);
        let length = usize::try_from(end - start).unwrap_or(0);
        self.window.clear();
        self.window.resize(length, 0);
        self.start = start;
        let mut done = 0;
        while done < length {
            let bytes = u64::try_from(length - done).unwrap_or(u64::MAX);
            if self.left.reads == 0 || self.left.bytes < bytes {
                self.window.clear();
                return Err(ProbeError::OverBudget(self.budget.bytes, self.budget.reads));
            }
            self.left.reads -= 1;
            let at = start + u64::try_from(done).unwrap_or(0);
            let n = match self.input.read_at(at, &mut self.window[done..]) {
                Ok(n) => n.min(length - done),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.window.clear();
                    return Err(error.into());
                }
            };
            self.left.bytes -= u64::try_from(n).unwrap_or(0);
            if n == 0 {
                break;
            }
            done += n;
        }
        self.window.truncate(done);
        Ok(())
    }
}
