//! The rate a content needs, from its container: MP4/MOV (plain and fragmented), MPEG-TS, Matroska/WebM, AVI, FLV, Ogg, and the sound
//! formats MP3, AAC (ADTS), FLAC, WAV; the formats that these name ([`Codec`]); and where a live stream can be cut ([`cuts`]).
//!
//! Promise: with any bytes, a probe ends without a panic, reads no more than its [`ProbeBudget`], and holds no more
//! memory than a small multiple of it; no length found in a file is believed before the file has these bytes. The rate
//! is the least constant one at which playing from the start never waits once [`PREROLL_MAX`] of it (beyond the
//! container's head) is there: see `curve`. Where only an average is known, [`HEADROOM_AVERAGE_PERCENT`] is added.
//! Not here: opening and reading a file (the caller gives a [`ReadAt`]); decoding, subtitles; the rate for a viewer that jumps into
//! a busier part (the rate holds from the start). Reasons against a library: docs/decisions/0004-container-probes-are-our-own.md.

mod boxes;
mod codecs;
mod curve;
pub mod cuts;
mod flac;
mod flv;
mod fragments;
mod frames;
mod input;
mod matroska;
mod mp4;
mod mpegts;
mod named_enum;
mod ogg;
mod places;
mod rate;
mod riff;

use std::io;

pub use codecs::{Codec, CodecSet};
pub use input::{ProbeBudget, ReadAt};
pub use mpegts::PACKET_SIZES;
pub use rate::{Container, MediaRate, RateSource};

use curve::Fit;
use input::BudgetedFile;
use units::{BitRate, Nanos};

/// The longest preroll, as a span of the rate found.
pub const PREROLL_MAX: Nanos = Nanos::from_secs(4);
/// Added to a rate that is only size over duration.
pub const HEADROOM_AVERAGE_PERCENT: u64 = 25;
/// Added to a rate known from marks some seconds apart (segments, cues, sampled clocks), between which bytes are taken
/// as evenly spread.
pub const HEADROOM_MARKS_PERCENT: u64 = 5;
/// Added to the rate of a transport stream if it differs between the places looked at.
pub const HEADROOM_SAMPLED_PERCENT: u64 = 12;

/// Reason that no rate was found.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It begins like none of the containers.
    #[error("none of the containers and sound formats that are known; give the stream a rate with `rate=`")]
    Unknown,
    /// The container is broken or cut short where its rate would be.
    #[error("the container is broken: {0}; give the stream a rate with `rate=`")]
    Broken(&'static str),
    /// It states no duration.
    #[error("the container does not tell its duration; give the stream a rate with `rate=`")]
    NoDuration,
    /// The structures that give its rate are beyond the budget.
    #[error("the container cannot be understood within {0} bytes and {1} reads; give the stream a rate with `rate=`")]
    OverBudget(u64, u32),
    /// Reading failed.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
}

/// Finds the rate of `input`.
///
/// # Errors
/// The container is unknown or incomplete, or reading failed.
pub fn probe(input: &mut dyn ReadAt, budget: ProbeBudget) -> Result<MediaRate, ProbeError> {
    let mut source = BudgetedFile::new(input, budget);
    let (container, first) = detect(&mut source)?.ok_or(ProbeError::Unknown)?;
    match container {
        Container::MpegAudio => source.codecs.extend([Codec::MpegAudio]),
        Container::Adts => source.codecs.extend([Codec::Aac]),
        Container::Flac => source.codecs.extend([Codec::Flac]),
        Container::MpegTs => {
            let found = cuts::stream_codecs(source.view(first, mpegts::DETECT_BYTES)?);
            source.codecs = found;
        }
        _ => {}
    }
    let found = match container {
        Container::Mp4 => mp4::probe(&mut source),
        Container::MpegTs => mpegts::probe(&mut source),
        Container::Matroska => matroska::probe(&mut source),
        Container::MpegAudio | Container::Adts => frames::probe(&mut source, first),
        Container::Flac => flac::probe(&mut source, first),
        Container::Wav => riff::probe_wave(&mut source),
        Container::Avi => riff::probe_avi(&mut source),
        Container::Flv => flv::probe(&mut source),
        Container::Ogg => ogg::probe(&mut source, first),
    }?;
    finish(container, &found, &source)
}

/// Findings of a container's reader.
#[derive(Debug)]
struct ContainerFacts {
    duration: Nanos,
    /// `None` where only the duration is known.
    fit: Option<Fit>,
    headroom_percent: u64,
    source: RateSource,
}

impl ContainerFacts {
    /// Only the duration is known.
    fn average(duration: Nanos) -> Self {
        let source = RateSource::ContainerDuration;
        Self { duration, fit: None, headroom_percent: HEADROOM_AVERAGE_PERCENT, source }
    }

    /// A curve was found.
    fn fitted(fit: Fit, duration: Nanos, headroom_percent: u64, source: RateSource) -> Self {
        Self { duration, fit: Some(fit), headroom_percent, source }
    }
}

/// The container, and its first byte.
fn detect(source: &mut BudgetedFile<'_>) -> Result<Option<(Container, u64)>, ProbeError> {
    let first = frames::first_byte(source)?;
    let start = source.view(first, mpegts::DETECT_BYTES)?;
    let packets = || mpegts::begins(start).then_some(Container::MpegTs);
    let found = detect_at(start).or_else(packets).or_else(|| frames::begins_later(start));
    Ok(found.map(|container| (container, first)))
}

/// The container that `start` begins with, if that kind begins in one way only.
fn detect_at(start: &[u8]) -> Option<Container> {
    let magics = [
        (matroska::MAGIC.as_slice(), Container::Matroska),
        (flac::MAGIC, Container::Flac),
        (flv::MAGIC, Container::Flv),
        (ogg::MAGIC, Container::Ogg),
    ];
    let magic = magics.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, container)| container);
    let movie = || mp4::begins(start).then_some(Container::Mp4);
    magic.or_else(|| riff::begins(start)).or_else(movie).or_else(|| frames::begins(start))
}

fn finish(container: Container, found: &ContainerFacts, source: &BudgetedFile<'_>) -> Result<MediaRate, ProbeError> {
    let size = source.size();
    let duration = found.duration;
    if duration < Nanos::from_millis(1) || duration > Nanos::from_secs(1_000_000_000) {
        return Err(ProbeError::NoDuration);
    }
    let fit = match found.fit {
        Some(fit) => fit,
        None => {
            let rate = rate::mean(size, duration);
            Fit { rate, preroll_bytes: rate.bytes_in(PREROLL_MAX) }
        }
    };
    // The whole is sent while it plays, heads and pictures of a cover with it.
    let whole = rate::mean(size, duration.saturating_add(PREROLL_MAX));
    let rate = BitRate(fit.rate.max(whole).0.saturating_mul(100 + found.headroom_percent) / 100);
    // The same range as rates in requests have.
    if !(1_000..=1_000_000_000_000).contains(&rate.0) {
        return Err(ProbeError::Broken("its rate would be below 1 kbit/s or above 1 Tbit/s"));
    }
    let preroll_bytes = fit.preroll_bytes.min(size);
    Ok(MediaRate { rate, preroll_bytes, container, source: found.source, duration, codecs: source.codecs })
}

/// Big-endian numbers at `at`, if they are there.
fn be_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn be_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// A little-endian number at `at`, if it is there.
fn le_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// `ticks` of a clock with `per_second` ticks, as a span.
fn ticks(ticks: u64, per_second: u64) -> Nanos {
    let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
