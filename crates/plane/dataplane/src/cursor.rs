//! Cursor of a stream: its place in the bytes that it sends, and in those that are read ahead.
//!
//! Not here: sockets (`pacer`), disks and buffers (`fetcher`).

use std::ops::Range;

use content::Segment;
use units::ContentVersion;
use units::limits::CACHE_PAGE_BYTES;

use crate::cache::PageKey;
use crate::control::Delivery;

/// The segments of a delivery, in order: all data that a cursor needs of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentList<'a> {
    pub(crate) version: ContentVersion,
    pub(crate) segments: &'a [Segment],
}

impl<'a> SegmentList<'a> {
    pub(crate) fn of(delivery: &'a Delivery) -> Self {
        Self { version: delivery.content.version, segments: &delivery.segments }
    }

    /// Bytes of content in all segments.
    pub(crate) fn payload(self) -> u64 {
        self.ranges().map(Segment::length).sum()
    }

    /// The ranges of the content, without the literal bytes between them.
    pub(crate) fn ranges(self) -> impl Iterator<Item = &'a Segment> {
        self.segments.iter().filter(|segment| matches!(segment, Segment::Range { .. }))
    }

    /// The range that is read, if it is one.
    pub(crate) fn range(self) -> Option<Range<u64>> {
        let mut ranges = self.ranges();
        match (ranges.next(), ranges.next()) {
            (Some(&Segment::Range { offset, length }), None) => Some(offset..offset + length),
            _ => None,
        }
    }
}

/// A place in a delivery's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// Index of the segment.
    pub(crate) segment: usize,
    /// Bytes of it already passed.
    pub(crate) passed: u64,
    /// Bytes of content passed in all segments.
    pub(crate) payload: u64,
}

/// The bytes at a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtCursor {
    /// Literal bytes, with the number left in the segment.
    Literal { left: u64 },
    /// Content: the page, the offset in it, and how many bytes of it belong to this segment from here.
    Content { key: PageKey, within: u64, left: u64 },
    /// Behind the last segment.
    End,
}

impl Cursor {
    /// The bytes at this place; finished segments are stepped over.
    pub(crate) fn place(&mut self, segment_list: SegmentList<'_>) -> AtCursor {
        while let Some(segment) = segment_list.segments.get(self.segment) {
            let length = segment.length();
            if self.passed < length {
                return match *segment {
                    Segment::Bytes(_) => AtCursor::Literal { left: length - self.passed },
                    Segment::Range { offset, .. } => {
                        let at = offset + self.passed;
                        let within = at % CACHE_PAGE_BYTES;
                        let key = PageKey { version: segment_list.version, index: at / CACHE_PAGE_BYTES };
                        AtCursor::Content { key, within, left: (CACHE_PAGE_BYTES - within).min(length - self.passed) }
                    }
                };
            }
            self.segment += 1;
            self.passed = 0;
        }
        AtCursor::End
    }

    /// The content at or behind this cursor: literal segments are stepped over as well.
    pub(crate) fn next_content(&mut self, segment_list: SegmentList<'_>) -> Option<(PageKey, u64, u64)> {
        loop {
            match self.place(segment_list) {
                AtCursor::Literal { left } => self.passed += left,
                AtCursor::Content { key, within, left } => return Some((key, within, left)),
                AtCursor::End => return None,
            }
        }
    }

    /// Passes `bytes` of content.
    pub(crate) fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
        self.payload += bytes;
    }
}
