//! Containers and formats of sound: MP4 boxes and tables, transport stream packets and clocks, EBML elements.

use media::cuts::{CutFinder, KEY_WAIT};
use media::{ProbeBudget, probe};

/// MP4, plain and fragmented.
pub fn mp4(bytes: &[u8]) {
    probe_file(b"\0\0\0\x10ftypisom\0\0\0\0", bytes);
}

/// Transport streams: their packets need no beginning.
pub fn mpegts(bytes: &[u8]) {
    probe_file(&[], bytes);
}

/// EBML elements, cues and clusters.
pub fn matroska(bytes: &[u8]) {
    probe_file(b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff", bytes);
}

/// Sound and movies in frames, chunks, tags and pages. The first byte chooses the kind.
pub fn sound(bytes: &[u8]) {
    const BEGINNINGS: [&[u8]; 7] = [
        b"\xff\xfb\x90\x64",
        b"\xff\xf1\x60\x40",
        b"fLaC\0\0\0\x22",
        b"RIFF\0\x10\0\0WAVEfmt \x10\0\0\0",
        b"RIFF\0\x10\0\0AVI LIST\0\x01\0\0hdrl",
        b"FLV\x01\x05\0\0\0\x09\0\0\0\0",
        b"OggS\0\x02\0\0\0\0\0\0\0\0",
    ];
    if let Some((first, rest)) = bytes.split_first() {
        probe_file(BEGINNINGS[usize::from(*first) % BEGINNINGS.len()], rest);
    }
    // As it comes, so that real files serve as seeds.
    probe_file(&[], bytes);
}

/// Live streams in pieces with lengths from the bytes themselves, in some of which a cut is due: nothing is lost.
pub fn cuts(bytes: &[u8]) {
    let (mut finder, mut rest, mut came) = (CutFinder::default(), bytes, Vec::new());
    while let Some(first) = rest.first() {
        let (piece, left) = rest.split_at((usize::from(*first) * 7 + 1).min(rest.len()));
        let passed = finder.pass(piece, (*first > 99).then_some(KEY_WAIT));
        let bytes = passed.before.len() + passed.bytes;
        assert!(passed.cut.is_none_or(|cut| cut.at <= bytes));
        came.extend_from_slice(&passed.before);
        came.extend_from_slice(&piece[..passed.bytes]);
        rest = left;
    }
    came.extend(finder.rest());
    assert!(came == bytes);
}

/// Looks into a file that begins with `beginning` and continues with `data`: any bytes give an answer, and a file that says
/// something says something possible.
fn probe_file(beginning: &[u8], data: &[u8]) {
    let file = [beginning, data].concat();
    let mut input = file.as_slice();
    if let Ok(media) = probe(&mut input, ProbeBudget::default()) {
        assert!(media.rate.0 > 0 && media.duration.0 > 0);
        assert!(media.preroll_bytes <= u64::try_from(file.len()).unwrap_or(u64::MAX));
    }
    // As it comes, so that real files serve as seeds.
    let mut input = data;
    let _ = probe(&mut input, ProbeBudget { bytes: 1 << 20, reads: 16 });
}
