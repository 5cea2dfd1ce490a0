//! Containers: MP4 boxes and tables, transport stream packets and clocks, EBML elements.

use media::cuts::{CutFinder, KEY_WAIT};
use media::{ProbeBudget, probe};

/// MP4, plain and fragmented.
pub fn mp4(bytes: &[u8]) {
    probe_file(b"\0\0\0\x10ftypisom\0\0\0\0", bytes);
}

/// Transport streams, whose packets need no beginning.
pub fn mpegts(bytes: &[u8]) {
    probe_file(&[], bytes);
}

/// EBML elements, cues and clusters.
pub fn matroska(bytes: &[u8]) {
    probe_file(b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff", bytes);
}

/// Live streams in pieces whose lengths are the bytes themselves, in some of which a cut is due: nothing is lost.
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

/// Looks into a file that begins with `beginning` and goes on with `data`: any bytes give an answer, and one that says
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
