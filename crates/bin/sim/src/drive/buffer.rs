//! The read buffer: a few segments, each a contiguous run of bytes; one of them grows while the head reads on.
//!
//! Not here: when the head reads (`rotating`).

use units::Nanos;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BufferSegment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    used: Nanos,
}

#[derive(Debug)]
pub(crate) struct ReadBuffer {
    segments: Vec<BufferSegment>,
    capacity: u64,
}

impl ReadBuffer {
    pub(crate) fn new(bytes: u64, segments: u32) -> Self {
        let count = if bytes == 0 { 0 } else { segments };
        Self {
            segments: vec![BufferSegment::default(); usize::try_from(count).unwrap_or(0)],
            capacity: bytes.checked_div(u64::from(count)).unwrap_or(0),
        }
    }

    /// Bytes one segment holds; zero without a buffer.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The segment that holds the byte at `offset`.
    pub(crate) fn holding(&self, offset: u64) -> Option<usize> {
        self.segments.iter().position(|s| s.start <= offset && offset < s.end)
    }

    pub(crate) fn segment(&self, index: usize) -> BufferSegment {
        self.segments[index]
    }

    pub(crate) fn touch(&mut self, index: usize, now: Nanos) {
        self.segments[index].used = now;
    }

    /// Grows a segment to `end`; bytes that no longer fit drop out at its front.
    pub(crate) fn grow(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.capacity));
    }

    /// Takes the segment not used for longest for a run that begins at `offset`.
    pub(crate) fn take(&mut self, offset: u64, now: Nanos) -> Option<usize> {
        let (index, segment) = self.segments.iter_mut().enumerate().min_by_key(|(_, s)| s.used)?;
        *segment = BufferSegment { start: offset, end: offset, used: now };
        Some(index)
    }

    /// Forgets all segments that overlap a range; true if segment `watched` was touched.
    pub(crate) fn forget(&mut self, start: u64, end: u64, watched: Option<usize>) -> bool {
        let mut touched = false;
        for (index, s) in self.segments.iter_mut().enumerate() {
            if s.start < end && start < s.end {
                *s = BufferSegment::default();
                touched |= Some(index) == watched;
            }
        }
        touched
    }

    pub(crate) fn clear(&mut self) {
        self.segments.fill(BufferSegment::default());
    }
}
