//! Sound in frames that follow each other without a container: MPEG layers I to III (ISO/IEC 11172-3 §2.4, 13818-3) and AAC in ADTS
//! (ISO/IEC 14496-3 §1.A.2), behind an ID3v2 tag or none. The curve comes from the lengths of frames at several places: the promise of a
//! Xing head is not needed, and does not hold for a file that was cut.

use units::Nanos;

use super::curve::Marks;
use super::input::BudgetedFile;
use super::{Container, ContainerFacts, HEADROOM_MARKS_PERCENT, HEADROOM_SAMPLED_PERCENT, ProbeError, RateSource};

/// Frames of one kind in a row are no chance.
const ROW: usize = 4;
/// Places that are looked at, and how much there: half a second at least of any rate.
const PLACES: u64 = 24;
const PLACE_BYTES: usize = 64 << 10;
/// Bytes of the head of a frame that are needed.
const HEAD: usize = 7;

/// A frame: how long it is and lasts, and the properties that all frames of a sound share.
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
/// Of the halved sampling rates: layer I, layers II and III.
const RATES_2: [[u16; 14]; 2] = [
    [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
const ADTS_CLOCKS: [u64; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// The format of the frames that `start` begins with.
pub(super) fn begins(start: &[u8]) -> Option<Container> {
    row(start).map(|kind| kind.container)
}

/// Bytes of the ID3v2 tag that `start` begins with.
pub(super) fn tag_bytes(start: &[u8]) -> Option<u64> {
    let head = start.get(..10).filter(|head| head.starts_with(b"ID3"))?;
    let length = head[6..].iter().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f));
    Some(10 + length + if head[5] & 0x10 != 0 { 10 } else { 0 })
}

pub(super) fn probe(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let first = tag_bytes(source.view(0, 10)?).unwrap_or(0);
    let size = source.size();
    let mut kind = None;
    // Bytes and samples at each place.
    let mut places: Vec<(u64, u64)> = Vec::new();
    for at in source.places(first, PLACES, PLACE_BYTES) {
        let bytes = match source.view(at, PLACE_BYTES) {
            Ok(bytes) => bytes,
            Err(ProbeError::OverBudget(..)) if !places.is_empty() => break,
            Err(error) => return Err(error),
        };
        places.extend(measure(bytes, &mut kind));
    }
    let kind = kind.ok_or(ProbeError::NoDuration)?;
    let count = u64::try_from(places.len()).unwrap_or(u64::MAX).max(1);
    let mut marks = Marks::default();
    let mut time = Nanos::ZERO;
    // Each place stands for an equal part of the file.
    let borders = (0..=count)
        .map(|n| first + u64::try_from(u128::from(size - first) * u128::from(n) / u128::from(count)).unwrap_or(0));
    let borders: Vec<u64> = borders.collect();
    for (pair, (bytes, samples)) in borders.windows(2).zip(&places) {
        marks.add(time, pair[0]);
        let part = u128::from(pair[1] - pair[0]) * u128::from(*samples) / u128::from(*bytes);
        time = time.saturating_add(super::ticks(u64::try_from(part).unwrap_or(u64::MAX), kind.samples_per_second));
    }
    let (fit, duration) = marks.fit(Some(time), size).ok_or(ProbeError::NoDuration)?;
    let headroom = if varies(&places) { HEADROOM_SAMPLED_PERCENT } else { HEADROOM_MARKS_PERCENT };
    Ok(ContainerFacts::fitted(fit, duration, headroom, RateSource::FramesSampled))
}

/// Bytes and samples of the whole frames in `bytes`. `kind` is that of the frames that count: the first found.
fn measure(bytes: &[u8], kind: &mut Option<FrameKind>) -> Option<(u64, u64)> {
    let (mut at, mut passed, mut samples) = (0, 0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEAD) {
        let begins = passed == 0;
        let next =
            frame(rest).filter(|found| kind.is_none_or(|kind| kind == found.kind) && at + found.bytes <= bytes.len());
        match next.filter(|_| !begins || row(rest).is_some()) {
            Some(found) => {
                kind.get_or_insert(found.kind);
                at += found.bytes;
                passed += u64::try_from(found.bytes).unwrap_or(0);
                samples += found.samples;
            }
            None if begins => at += 1,
            None => break,
        }
    }
    (passed > 0).then_some((passed, samples))
}

/// The kind of [`ROW`] frames of one kind that `bytes` begin with.
fn row(bytes: &[u8]) -> Option<FrameKind> {
    let first = frame(bytes)?;
    let mut at = first.bytes;
    for _ in 1..ROW {
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

/// Whether the frames of any two places differ by more than a fiftieth in their pace.
fn varies(places: &[(u64, u64)]) -> bool {
    let paces = || places.iter().map(|(bytes, samples)| u128::from(*samples) * (1 << 32) / u128::from(*bytes));
    let (least, most) = (paces().min().unwrap_or(0), paces().max().unwrap_or(0));
    (most - least) * 50 > most
}
