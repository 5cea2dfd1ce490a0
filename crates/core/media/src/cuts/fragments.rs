//! Boxes of a fragmented MP4 as they come (ISO/IEC 14496-12 §8.8): `ftyp` and `moov`, and the fragments that begin with a key frame.

use super::{CutLook, CutPlace};
use crate::boxes::{Boxes, find};
use crate::{be_u32, be_u64};

/// A longer head of a movie or fragment is not kept.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Kinds of boxes that go before a fragment's `moof`.
const BEFORE: [&[u8; 4]; 6] = [b"styp", b"sidx", b"prft", b"emsg", b"free", b"uuid"];
/// A sample that cannot be decoded without others (§8.8.3.1).
const NOT_SYNC: u32 = 0x1_0000;

/// The boxes of a stream.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// Bytes still to come of the box that has begun; and true if they are kept as part of the head.
    left: u64,
    is_kept: bool,
    /// True behind the media of a fragment, or behind the head.
    may_begin: bool,
    head: Vec<u8>,
    /// True once `head` is complete.
    has_movie: bool,
    /// True if the stream begins anew: the next file has a head of its own.
    begins_anew: bool,
}

impl Fragments {
    /// `ftyp` and `moov`.
    pub(super) fn head(&self) -> Vec<u8> {
        if self.begins_anew { Vec::new() } else { self.head.clone() }
    }

    pub(super) fn look(&mut self, bytes: &[u8]) -> CutLook {
        if self.left > 0 {
            return self.pass(bytes, CutPlace::Byte);
        }
        let (kind, head, length) = match box_at(bytes, 0) {
            Ok(found) => found,
            Err(look) => return look,
        };
        let mut place = CutPlace::Byte;
        self.begins_anew = self.may_begin && &kind == b"ftyp";
        if self.begins_anew {
            place = CutPlace::Key;
        } else if self.may_begin && (&kind == b"moof" || BEFORE.contains(&&kind)) {
            match self.place(bytes) {
                Ok(found) => place = found,
                Err(look) => return look,
            }
        }
        self.is_kept = &kind == b"ftyp" || &kind == b"moov";
        if self.is_kept && self.has_movie {
            self.head.clear();
        }
        self.has_movie = &kind == b"moov" || (self.has_movie && !self.is_kept);
        self.may_begin = &kind == b"mdat" || &kind == b"moov" || (self.may_begin && place == CutPlace::Byte);
        self.left = length;
        let fits = usize::try_from(length).is_ok_and(|length| length <= HEAD_BYTES_MAX.saturating_sub(self.head.len()));
        if length < head || (self.is_kept && !fits) {
            // Not understood: no more places, and all further bytes are passed on as they are.
            *self = Self { left: u64::MAX, ..Self::default() };
        }
        self.pass(bytes, place)
    }

    /// Passes on the available bytes of the box that has begun.
    fn pass(&mut self, bytes: &[u8], place: CutPlace) -> CutLook {
        let count = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        if self.is_kept {
            self.head.extend_from_slice(&bytes[..count]);
        }
        self.left -= u64::try_from(count).unwrap_or(0);
        CutLook::Passes(count, place)
    }

    /// The place before the boxes that begin here: a fragment's, if they lead to its `moof`.
    fn place(&self, bytes: &[u8]) -> Result<CutPlace, CutLook> {
        let mut at = 0;
        loop {
            let (kind, head, length) = box_at(bytes, at)?;
            let (head, end) = match (usize::try_from(head), usize::try_from(length)) {
                (Ok(head), Ok(length)) if length >= head && length <= HEAD_BYTES_MAX - at => (head, at + length),
                _ => return Ok(CutPlace::Border),
            };
            if &kind == b"moof" {
                let body = bytes.get(at + head..end).ok_or(CutLook::Needs(end))?;
                return Ok(if self.begins_with_key(body) { CutPlace::Key } else { CutPlace::Border });
            }
            if !BEFORE.contains(&&kind) {
                return Ok(CutPlace::Byte);
            }
            at = end;
        }
    }

    /// The first sample of each track in it can be decoded without others.
    fn begins_with_key(&self, moof: &[u8]) -> bool {
        let mut tracks = Boxes(moof).filter(|(kind, _)| kind == b"traf");
        tracks.all(|(_, track)| self.first_flags(track).is_none_or(|flags| flags & NOT_SYNC == 0))
    }

    /// The flags of a track's first sample (§8.8.7, §8.8.8).
    fn first_flags(&self, track: &[u8]) -> Option<u32> {
        let run = find(track, &[b"trun"])?;
        let flags = be_u32(run, 0)?;
        let behind = |bits: &[u32]| bits.iter().filter(|bit| flags & *bit != 0).count() * 4;
        if flags & 0x4 != 0 {
            return be_u32(run, 8 + behind(&[0x1]));
        }
        if flags & 0x400 != 0 {
            return be_u32(run, 8 + behind(&[0x1, 0x100, 0x200]));
        }
        let header = find(track, &[b"tfhd"])?;
        let flags = be_u32(header, 0)?;
        if flags & 0x20 != 0 {
            let before = [(0x1, 8), (0x2, 4), (0x8, 4), (0x10, 4)];
            let at: usize = before.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, bytes)| bytes).sum();
            return be_u32(header, 8 + at);
        }
        self.default_flags(be_u32(header, 4)?)
    }

    /// Returns the default flags of a track's samples in `moov` (§8.8.3).
    fn default_flags(&self, track: u32) -> Option<u32> {
        let movie = Boxes(&self.head).find(|(kind, _)| kind == b"moov")?.1;
        let extends = find(movie, &[b"mvex"])?;
        let own = Boxes(extends).find(|(kind, body)| kind == b"trex" && be_u32(body, 4) == Some(track))?.1;
        be_u32(own, 20)
    }
}

/// The kind of the box that begins at `at`, the length of its head and its own; a box that ends with the file has no end.
fn box_at(bytes: &[u8], at: usize) -> Result<([u8; 4], u64, u64), CutLook> {
    let needs = |count: usize| CutLook::Needs(at + count);
    let short = be_u32(bytes, at).ok_or(needs(8))?;
    let kind = bytes.get(at + 4..at + 8).and_then(|kind| kind.try_into().ok()).ok_or(needs(8))?;
    match short {
        0 => Ok((kind, 8, u64::MAX)),
        1 => Ok((kind, 16, be_u64(bytes, at + 8).ok_or(needs(16))?)),
        short => Ok((kind, 8, short.into())),
    }
}
