//! The rate a content needs, from its container: MP4/MOV (plain and fragmented), MPEG-TS, Matroska/WebM; and where a live stream can be
//! cut ([`cuts`]).
//!
//! Promise: whatever the bytes are, it never panics, ends, reads no more than its [`ProbeBudget`], and holds no more
//! memory than a small multiple of it; no length found in a file is believed before that many bytes were there. The
//! rate is the least constant one at which playing from the start never waits once [`PREROLL_MAX`] of it (beyond the
//! container's head) is there: see `curve`. Where only an average is known, [`HEADROOM_AVERAGE_PERCENT`] is added.
//! Not here: opening and reading a file (the caller gives a [`ReadAt`]); decoding, codecs, subtitles; what a viewer needs who jumps into a busier part (the rate holds from the
//! start). Why no library does this: docs/decisions/0004-container-probes-are-our-own.md.

mod boxes;
mod curve;
pub mod cuts;
mod fragments;
mod input;
mod matroska;
mod mp4;
mod mpegts;
mod rate;

use std::io;

pub use input::{ProbeBudget, ReadAt};
pub use mpegts::PACKET_SIZES;
pub use rate::{Container, MediaRate};

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
/// Added to the rate of a transport stream whose rate differs between the places looked at.
pub const HEADROOM_SAMPLED_PERCENT: u64 = 12;

/// Why no rate was found.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It begins like none of the containers.
    #[error("not an MP4, MPEG-TS or Matroska file; give the stream a rate with `rate=`")]
    Unknown,
    /// The container is broken or cut short where its rate would be.
    #[error("the container is broken: {0}; give the stream a rate with `rate=`")]
    Broken(&'static str),
    /// It says nowhere how long it plays.
    #[error("the container does not tell its duration; give the stream a rate with `rate=`")]
    NoDuration,
    /// What would tell its rate is out of reach of the budget.
    #[error("the container cannot be understood within {0} bytes and {1} reads; give the stream a rate with `rate=`")]
    OverBudget(u64, u32),
    /// Reading failed.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
}

/// Finds the rate of `input`.
///
/// # Errors
/// It is no container that is known, or not a whole one, or reading failed.
pub fn probe(input: &mut dyn ReadAt, budget: ProbeBudget) -> Result<MediaRate, ProbeError> {
    let mut source = BudgetedFile::new(input, budget);
    let start = source.view(0, mpegts::DETECT_BYTES)?;
    let container = detect(start).ok_or(ProbeError::Unknown)?;
    let found = match container {
        Container::Mp4 => mp4::probe(&mut source),
        Container::MpegTs => mpegts::probe(&mut source),
        Container::Matroska => matroska::probe(&mut source),
    }?;
    finish(container, &found, source.size())
}

/// What a container's reader found.
#[derive(Debug)]
struct ContainerFacts {
    duration: Nanos,
    /// `None` where only the duration is known.
    fit: Option<Fit>,
    headroom_percent: u64,
}

impl ContainerFacts {
    /// Only the duration is known.
    fn average(duration: Nanos) -> Self {
        Self { duration, fit: None, headroom_percent: HEADROOM_AVERAGE_PERCENT }
    }
}

fn detect(start: &[u8]) -> Option<Container> {
    if start.starts_with(&matroska::MAGIC) {
        Some(Container::Matroska)
    } else if mp4::begins(start) {
        Some(Container::Mp4)
    } else {
        mpegts::begins(start).then_some(Container::MpegTs)
    }
}

fn finish(container: Container, found: &ContainerFacts, size: u64) -> Result<MediaRate, ProbeError> {
    let duration = found.duration;
    if duration < Nanos::from_millis(1) || duration > Nanos::from_secs(1_000_000_000) {
        return Err(ProbeError::NoDuration);
    }
    let fit = match found.fit {
        Some(fit) => fit,
        None => {
            let bits = u128::from(size) * 8_000_000_000 / u128::from(duration.0);
            let rate = BitRate(u64::try_from(bits).unwrap_or(u64::MAX));
            Fit { rate, preroll_bytes: rate.bytes_in(PREROLL_MAX) }
        }
    };
    let rate = BitRate(fit.rate.0.saturating_mul(100 + found.headroom_percent) / 100);
    // The same range as rates in requests have.
    if !(1_000..=1_000_000_000_000).contains(&rate.0) {
        return Err(ProbeError::Broken("its rate would be below 1 kbit/s or above 1 Tbit/s"));
    }
    Ok(MediaRate { rate, preroll_bytes: fit.preroll_bytes.min(size), container, duration })
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

/// `ticks` of a clock with `per_second` ticks, as a span.
fn ticks(ticks: u64, per_second: u64) -> Nanos {
    let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
