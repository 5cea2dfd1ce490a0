//! Boxes of ISO base media files (ISO/IEC 14496-12 §4.2): on the top level of a file, and within one in memory; and the
//! facts in the boxes that head a movie and its tracks.
//!
//! Promise: the length that a box states of itself is believed only as far as there are bytes. Not here: samples (`mp4`), fragments.

use units::Nanos;

use super::input::BudgetedFile;
use super::{ProbeError, be_u32, be_u64, ticks};

/// Most tracks that are looked at.
pub(super) const TRACKS_MAX: usize = 64;

/// A box of the file: where its contents lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopBox {
    pub(super) kind: [u8; 4],
    /// First byte of the box, head included.
    pub(super) start: u64,
    /// First byte after the head.
    pub(super) body: u64,
    /// First byte after the box.
    pub(super) end: u64,
}

/// The box at `at`; `None` where its head makes no sense.
pub(super) fn top_box(source: &mut BudgetedFile<'_>, at: u64) -> Result<Option<TopBox>, ProbeError> {
    let size = source.size();
    let head = source.view(at, 16)?;
    let kind: [u8; 4] = match head.get(4..8).and_then(|k| k.try_into().ok()) {
        Some(kind) => kind,
        None => return Ok(None),
    };
    let (head_bytes, length) = match be_u32(head, 0) {
        Some(0) => (8, size - at),
        Some(1) => (16, be_u64(head, 8).ok_or(ProbeError::Broken("a box ends too soon"))?),
        Some(short) => (8, u64::from(short)),
        None => return Ok(None),
    };
    if length < head_bytes {
        return Err(ProbeError::Broken("a box is shorter than its head"));
    }
    Ok(Some(TopBox { kind, start: at, body: at + head_bytes, end: at.saturating_add(length) }))
}

/// The children of a box in memory: kind and body.
pub(super) struct Boxes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Boxes<'a> {
    type Item = ([u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.0.get(4..8)?.try_into().ok()?;
        let (head, length) = match be_u32(self.0, 0)? {
            0 => (8, self.0.len()),
            1 => (16, usize::try_from(be_u64(self.0, 8)?).ok()?),
            short => (8, usize::try_from(short).ok()?),
        };
        let body = self.0.get(head..length.min(self.0.len()))?;
        self.0 = self.0.get(length..).unwrap_or_default();
        Some((kind, body))
    }
}

/// The first box down the path `kinds`.
pub(super) fn find<'a>(body: &'a [u8], kinds: &[&[u8; 4]]) -> Option<&'a [u8]> {
    kinds.iter().try_fold(body, |body, kind| Boxes(body).find(|(k, _)| k == *kind).map(|(_, body)| body))
}

/// Reads the start of `mvhd` or `mdhd`: ticks per second, and the duration in them (`None` if not known yet).
pub(super) fn clock(body: &[u8]) -> Option<(u64, Option<u64>)> {
    let (at, duration) = match body.first()? {
        1 => (20, be_u64(body, 24)?),
        _ => (12, u64::from(be_u32(body, 16)?)),
    };
    let unknown = duration == u64::MAX || duration == u64::from(u32::MAX) || duration == 0;
    Some((u64::from(be_u32(body, at)?), (!unknown).then_some(duration)))
}

/// Duration of the movie, from `moov`.
pub(super) fn movie_duration(moov: &[u8]) -> Option<Nanos> {
    let (per_second, duration) = clock(find(moov, &[b"mvhd"])?)?;
    let extended = find(moov, &[b"mvex", b"mehd"]).and_then(|body| match body.first()? {
        1 => be_u64(body, 4),
        _ => be_u32(body, 4).map(u64::from),
    });
    (per_second > 0).then_some(())?;
    extended.filter(|d| *d > 0).or(duration).map(|d| ticks(d, per_second))
}

/// The numbers of the tracks of picture and sound, and their ticks per second.
pub(super) fn played_tracks(moov: &[u8]) -> Vec<(u32, u64)> {
    let facts = |track: &[u8]| {
        let header = find(track, &[b"tkhd"])?;
        let number = be_u32(header, if header.first() == Some(&1) { 20 } else { 12 })?;
        let (per_second, _) = clock(find(track, &[b"mdia", b"mdhd"])?)?;
        let is_played = matches!(&handler(track)?, b"vide" | b"soun");
        (is_played && per_second > 0).then_some((number, per_second))
    };
    let tracks = Boxes(moov).filter(|(kind, _)| kind == b"trak").take(TRACKS_MAX);
    tracks.filter_map(|(_, track)| facts(track)).collect()
}

pub(super) fn handler(track: &[u8]) -> Option<[u8; 4]> {
    find(track, &[b"mdia", b"hdlr"])?.get(8..12)?.try_into().ok()
}
