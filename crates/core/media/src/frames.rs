//! Sound in frames that follow each other without a container: MPEG layers I to III (ISO/IEC 11172-3 §2.4, 13818-3) and AAC in
//! ADTS (ISO/IEC 14496-3 §1.A.2), behind ID3v2 tags and other bytes. The curve comes from the lengths of frames at several
//! places, not from a Xing header, which is wrong for a file that was cut.

use units::Nanos;

use super::input::BudgetedFile;
use super::{Container, ContainerFacts, ProbeError, mpegts, places};

/// Consecutive frames of one kind that identify sound at the beginning of a file: fewer may occur by chance.
const ROW: usize = 4;
/// Consecutive frames of one kind that identify sound behind other bytes.
const ROW_LATER: usize = 20;
/// Bytes read at one place: at least half a second at any rate.
const PLACE_BYTES: usize = 64 << 10;
/// Bytes of a frame's header that are parsed.
const HEAD: usize = 7;
/// Most tags and runs of zeros that are skipped before the first frame.
const TAGS_MAX: usize = 32;
/// Zeros in a row that count as padding: no container begins with that many.
const PADDING_MIN: usize = 16;

/// A frame: its length, its samples, and the properties that all frames of a sound share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    kind: FrameKind,
    bytes: usize,
    samples: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FrameKind {
    container: Container,
    /// Version and layer.
    form: u8,
    samples_per_second: u64,
}

/// Kilobits a second by layer and index.
const RATES_1: [[u16; 14]; 3] = [
    [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
];
/// Kilobits a second at the halved sampling rates: layer I, layers II and III.
const RATES_2: [[u16; 14]; 2] = [
    [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
const ADTS_CLOCKS: [u64; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// The format of the frames that `start` begins with.
pub(super) fn begins(start: &[u8]) -> Option<Container> {
    row(start, ROW).map(|kind| kind.container)
}

/// The format of the frames that `start` holds behind other bytes.
pub(super) fn begins_later(start: &[u8]) -> Option<Container> {
    (0..start.len()).find_map(|at| row(&start[at..], ROW_LATER)).map(|kind| kind.container)
}

/// Offset of the first byte behind ID3v2 tags and their padding.
pub(super) fn first_byte(source: &mut BudgetedFile<'_>) -> Result<u64, ProbeError> {
    let mut at = 0;
    for _ in 0..TAGS_MAX {
        let start = source.view(at, mpegts::DETECT_BYTES)?;
        let zeros = start.iter().take_while(|byte| **byte == 0).count();
        at += match tag_bytes(start) {
            Some(tag) => tag,
            None if zeros < PADDING_MIN => break,
            None => u64::try_from(zeros).unwrap_or(0),
        };
    }
    Ok(at)
}

/// Length of the ID3v2 tag at the beginning of `start`.
fn tag_bytes(start: &[u8]) -> Option<u64> {
    let head = start.get(..10).filter(|head| head.starts_with(b"ID3"))?;
    let length = head[6..].iter().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f));
    Some(10 + length + if head[5] & 0x10 != 0 { 10 } else { 0 })
}

/// The curve of the frames from `first` on.
pub(super) fn probe(source: &mut BudgetedFile<'_>, first: u64) -> Result<ContainerFacts, ProbeError> {
    places::paced(source, first, PLACE_BYTES, playing_time)
}

/// Playing time of the frames that begin in `bytes`, of any kinds: the kind may change within recordings and joined files.
fn playing_time(bytes: &[u8]) -> Nanos {
    let (mut at, mut time, mut kind) = (0, Nanos::ZERO, None);
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEAD) {
        kind = kind.or_else(|| row(rest, ROW));
        match frame(rest).filter(|frame| kind == Some(frame.kind)) {
            Some(frame) => {
                time = time.saturating_add(super::ticks(frame.samples, frame.kind.samples_per_second));
                at += frame.bytes;
            }
            None if kind.is_some() => kind = None,
            None => at += 1,
        }
    }
    time
}

/// The kind of the first `count` frames in `bytes`, if it is the same for all.
fn row(bytes: &[u8], count: usize) -> Option<FrameKind> {
    let first = frame(bytes)?;
    let mut at = first.bytes;
    for _ in 1..count {
        let next = frame(bytes.get(at..)?).filter(|next| next.kind == first.kind)?;
        at += next.bytes;
    }
    Some(first.kind)
}

/// The frame at the start of `bytes`.
fn frame(bytes: &[u8]) -> Option<Frame> {
    let &[0xff, b1, b2, b3, b4, b5, b6] = bytes.first_chunk::<HEAD>()? else { return None };
    if b1 & 0xe0 != 0xe0 {
        return None;
    }
    let layer = usize::from(4 - (b1 >> 1 & 3));
    if layer == 4 {
        let length = usize::from(b3 & 3) << 11 | usize::from(b4) << 3 | usize::from(b5 >> 5);
        let samples_per_second = *ADTS_CLOCKS.get(usize::from(b2 >> 2 & 15))?;
        let kind = FrameKind { container: Container::Adts, form: b1, samples_per_second };
        let samples = 1024 * (u64::from(b6 & 3) + 1);
        return (b1 & 0xf0 == 0xf0 && length > HEAD).then_some(Frame { kind, bytes: length, samples });
    }
    // 3: version 1, 2: the halved sampling rates of version 2, 0: halved again.
    let version = b1 >> 3 & 3;
    let clock = [44_100u64, 48_000, 32_000].get(usize::from(b2 >> 2 & 3))?;
    let samples_per_second = match version {
        3 => *clock,
        2 => clock / 2,
        0 => clock / 4,
        _ => return None,
    };
    let index = usize::from(b2 >> 4).checked_sub(1)?;
    let rates = if version == 3 { &RATES_1[layer - 1] } else { &RATES_2[usize::from(layer > 1)] };
    let bits_per_second = u64::from(*rates.get(index)?) * 1000;
    let samples = match layer {
        1 => 384,
        3 if version != 3 => 576,
        _ => 1152,
    };
    // Layer I counts in slots of four bytes.
    let slot = if layer == 1 { 4 } else { 1 };
    let slots = samples * bits_per_second / (8 * slot * samples_per_second) + u64::from(b2 >> 1 & 1);
    let kind = FrameKind { container: Container::MpegAudio, form: b1 & 0xfe, samples_per_second };
    Some(Frame { kind, bytes: usize::try_from(slots * slot).ok()?, samples })
}
