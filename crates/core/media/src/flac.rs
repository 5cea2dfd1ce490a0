//! FLAC (RFC 9639): the curve from the numbers of frames at several places of the file; never more than the same sound takes without
//! compression. The samples that the head counts are not needed, and do not hold for a file that was cut, or that was sent live.

use units::BitRate;

use super::curve::{Fit, Mark};
use super::input::BudgetedFile;
use super::{
    ContainerFacts, HEADROOM_MARKS_PERCENT, PREROLL_MAX, ProbeError, RateSource, be_u16, be_u32, be_u64, places, ticks,
};

pub(super) const MAGIC: &[u8] = b"fLaC";
/// Metadata blocks passed to find the first frame.
const BLOCKS_MAX: usize = 64;

/// Facts on frames from the head of the stream.
#[derive(Debug, Clone, Copy)]
struct FlacStream {
    samples_per_second: u64,
    /// Of a frame, where all have as many.
    block_samples: u64,
    /// Bytes of a second without compression.
    raw: BitRate,
}

pub(super) fn probe(source: &mut BudgetedFile<'_>, first: u64) -> Result<ContainerFacts, ProbeError> {
    let mut at = first + 4;
    let mut stream = None;
    for _ in 0..BLOCKS_MAX {
        let block = source.exact::<4>(at)?;
        if block[0] & 0x7f == 0 && stream.is_none() {
            stream = FlacStream::read(&source.exact::<18>(at + 4)?);
        }
        at += 4 + u64::from(be_u32(&block, 0).unwrap_or(0) & 0xff_ffff);
        if block[0] & 0x80 != 0 {
            break;
        }
    }
    let stream = stream.ok_or(ProbeError::Broken("it has no stream information"))?;
    let first = source.exact::<4>(at)?;
    let found = places::sampled(source, at, |bytes| frames(bytes, first, stream))?;
    match found.fit {
        // Not even noise saves the heads of frames.
        Some(fit) if fit.rate.0 * (100 + found.headroom_percent) > stream.raw.0 * (100 + HEADROOM_MARKS_PERCENT) => {
            let fit = Fit { rate: stream.raw, preroll_bytes: at + stream.raw.bytes_in(PREROLL_MAX) };
            Ok(ContainerFacts::fitted(fit, found.duration, HEADROOM_MARKS_PERCENT, RateSource::Header))
        }
        _ => Ok(found),
    }
}

impl FlacStream {
    /// 16 bits of the least and the greatest block, 48 of frames' lengths, 20 of samples a second, 3 of channels less one, 5 of bits a
    /// sample less one.
    fn read(head: &[u8; 18]) -> Option<Self> {
        let fields = be_u64(head, 10)?;
        let samples_per_second = fields >> 44;
        let bits = ((fields >> 41 & 7) + 1) * ((fields >> 36 & 31) + 1);
        let block_samples = u64::from(be_u16(head, 2)?);
        let raw = BitRate(samples_per_second * bits);
        (samples_per_second > 0).then_some(Self { samples_per_second, block_samples, raw })
    }
}

/// Frames that begin in `bytes`: where, and their times. Their heads are like that of the first, apart from the length of the block,
/// and have a checksum.
fn frames(bytes: &[u8], first: [u8; 4], stream: FlacStream) -> Vec<Mark> {
    let alike = |head: &[u8]| head[..2] == first[..2] && head[2] & 15 == first[2] & 15 && head[3] == first[3];
    let starts = bytes.windows(4).enumerate().filter(|(_, head)| head[0] == 0xff && alike(head));
    let time = |(at, _): (usize, &[u8])| {
        let number = number(&bytes[at..])?;
        let samples = if first[1] & 1 == 1 { number } else { number.checked_mul(stream.block_samples)? };
        Some(Mark::at(at, ticks(samples, stream.samples_per_second)))
    };
    starts.filter_map(time).collect()
}

/// The number in the head of a frame, coded like a character in UTF-8 of up to seven bytes, if the checksum behind it is right.
fn number(head: &[u8]) -> Option<u64> {
    let lead = *head.get(4)?;
    let length = match lead.leading_ones() {
        0 => 1,
        1 | 8 => return None,
        ones => usize::try_from(ones).ok()?,
    };
    let rest = head.get(5..4 + length)?;
    let low = if length == 1 { lead } else { lead & (0x7f >> length) };
    let value = rest.iter().fold(u64::from(low), |sum, byte| sum << 6 | u64::from(byte & 0x3f));
    let block = match head[2] >> 4 {
        6 => 1,
        7 => 2,
        _ => 0,
    };
    let clock = match head[2] & 15 {
        12 => 1,
        13 | 14 => 2,
        _ => 0,
    };
    let end = 4 + length + block + clock;
    (checksum(head.get(..end)?) == *head.get(end)?).then_some(value)
}

/// CRC-8 with the polynomial x⁸ + x² + x + 1.
fn checksum(bytes: &[u8]) -> u8 {
    let step = |sum: u8| if sum & 0x80 == 0 { sum << 1 } else { sum << 1 ^ 7 };
    bytes.iter().fold(0, |sum, byte| (0..8).fold(sum ^ byte, |sum, _| step(sum)))
}
