//! Films in segments: how many bytes each has, and where it lies.
//!
//! Not here: the order of requests (`viewers`).

use std::os::fd::OwnedFd;

use units::{DiskId, limits};

use crate::contents::{SimContent, SimContents};
use crate::load::{SegmentLayout, SegmentViewers};
use crate::random::Random;

/// One track of a film: its pictures, or its sound.
#[derive(Debug)]
pub(crate) struct SegmentTrack {
    /// Its files lie on these in turn.
    disks: Vec<DiskId>,
    position: u64,
    segments: Vec<FilmSegment>,
    files: FilmFiles,
}

/// One segment of a track.
#[derive(Debug, Clone, Copy)]
struct FilmSegment {
    /// From the start of the track.
    offset: u64,
    bytes: u64,
}

/// The contents of a track, by their number, once requested.
#[derive(Debug)]
enum FilmFiles {
    OfSegments(Vec<Option<u32>>),
    OfTrack(Option<u32>),
}

/// A range of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentRange {
    pub(crate) content: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A film somewhere on these disks: its files lie one behind the other, as those of a folder do, or on one disk after the other, as in
/// a striped volume.
pub(crate) fn new_film(
    load: &SegmentViewers,
    disks: &[DiskId],
    capacity: u64,
    random: &mut Random,
) -> Vec<SegmentTrack> {
    let count = load.film.0.div_ceil(load.segment.0.max(1)).max(1);
    let mut tracks = Vec::new();
    let mut length = 0;
    for rate in load.rates() {
        let largest = rate.bytes_in(load.segment).max(1);
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share"
        )]
        let smallest = ((largest as f64 * load.smallest) as u64).clamp(1, largest);
        let mut offset = 0;
        let mut segments = Vec::new();
        for _ in 0..count {
            let bytes = random.between(smallest, largest);
            segments.push(FilmSegment { offset, bytes });
            offset += match load.layout {
                SegmentLayout::Files => bytes.next_multiple_of(limits::DIRECT_ALIGN),
                SegmentLayout::Ranges => bytes,
            };
        }
        let files = match load.layout {
            SegmentLayout::Files => FilmFiles::OfSegments(vec![None; segments.len()]),
            SegmentLayout::Ranges => FilmFiles::OfTrack(None),
        };
        tracks.push(SegmentTrack { disks: disks.to_vec(), position: length, segments, files });
        length += offset.next_multiple_of(limits::DIRECT_ALIGN);
    }
    let room = capacity.checked_sub(length).expect("a disk is larger than a film");
    let position = random.below(room / limits::DIRECT_ALIGN) * limits::DIRECT_ALIGN;
    tracks.iter_mut().for_each(|track| track.position += position);
    tracks
}

impl SegmentTrack {
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Where the segment lies; makes a content of it when it is first asked for.
    pub(crate) fn range(&mut self, segment: usize, contents: &mut SimContents) -> SegmentRange {
        let FilmSegment { offset, bytes } = self.segments[segment];
        let last = self.segments[self.segments.len() - 1];
        let (file, within, size, position) = match &mut self.files {
            FilmFiles::OfSegments(files) => (&mut files[segment], 0, bytes, self.position + offset),
            FilmFiles::OfTrack(file) => (file, offset, last.offset + last.bytes, self.position),
        };
        let (disks, first) = (&self.disks, segment % self.disks.len());
        let of_film = |version, _: &OwnedFd| SimContent::of_film(version, (disks, first), size, position);
        let content = *file.get_or_insert_with(|| contents.add(of_film));
        SegmentRange { content, offset: within, bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use units::{BitRate, Nanos};

    use super::*;

    fn film(layout: SegmentLayout) -> Vec<SegmentTrack> {
        let load = SegmentViewers {
            layout,
            smallest: 0.5,
            sound: Some(BitRate(128_000)),
            film: Nanos::from_secs(60),
            ..SegmentViewers::of_hls(1)
        };
        new_film(&load, &[DiskId(0)], 1 << 40, &mut Random::new(1))
    }

    fn contents() -> SimContents {
        SimContents::empty(File::open("/dev/null").expect("/dev/null opens").into())
    }

    #[test]
    fn files_of_a_film_lie_behind_each_other_and_are_made_once() {
        let (mut film, mut contents) = (film(SegmentLayout::Files), contents());
        assert_eq!(film.iter().map(SegmentTrack::len).collect::<Vec<_>>(), [10, 10]);
        let ranges: Vec<SegmentRange> = (0..10).map(|nth| film[0].range(nth, &mut contents)).collect();
        assert_eq!(ranges[3], film[0].range(3, &mut contents));
        assert_eq!(contents.count(), 10);
        assert!(ranges.iter().all(|range| range.offset == 0 && (3_300_000..=6_600_000).contains(&range.bytes)));
        let sound = film[1].range(0, &mut contents);
        assert_eq!((sound.content, contents.content(10).size()), (10, sound.bytes));
        let end = film[0].position + film[0].segments[9].offset + ranges[9].bytes;
        assert_eq!(film[1].position, end.next_multiple_of(limits::DIRECT_ALIGN));
    }

    #[test]
    fn ranges_of_a_film_are_of_one_content_for_each_track() {
        let (mut film, mut contents) = (film(SegmentLayout::Ranges), contents());
        let (first, second) = (film[0].range(0, &mut contents), film[0].range(1, &mut contents));
        assert_eq!((second.content, second.offset), (first.content, first.bytes));
        let last = film[0].range(9, &mut contents);
        assert_eq!((contents.count(), contents.content(0).size()), (1, last.offset + last.bytes));
    }
}
