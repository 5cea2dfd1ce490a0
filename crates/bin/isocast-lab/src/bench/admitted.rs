//! Count of the streams that our server admits, and a check that it carries them.
//!
//! Promise: only streams admitted before the first refusal count, of contents spread over the disks; those are then run alone.
//! Not here: the search for the most of a server that never refuses (`search`).

use units::{BitRate, Nanos};

use super::experiment::{self, RunRequest};
use super::server::{Choice, ServerGround};
use super::{Stop, clock};

/// Span without measuring after the last stream began: start bursts are over then.
const WARM_UP: Nanos = Nanos::from_secs(6);
/// Span of counting after the last request. A start waits up to 5 s for room (docs/reference/http.md), then for its first bytes; until
/// these come it is neither in nor out. On a slow drive 95 % had them after 4.6 s; 20 s is four times that.
const DECIDED_SECONDS: u64 = 20;
/// Attempts at most where the processor was short.
const TRIES_MAX: u32 = 3;
/// Media that a modelled player holds before it plays.
const PLAYER_START: Nanos = Nanos::from_secs(2);

/// A refusal that came later than this is of a start that waited for its first bytes.
const AT_ONCE_SECONDS: f64 = 0.5;

/// Streams that begin in a minute. A disk that is nearly full gives the first bytes of few new ones in the time that they may take: the
/// server then refuses a start, not a stream for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StartsPerMinute(pub u64);

impl StartsPerMinute {
    fn ramp(self, streams: usize) -> Nanos {
        Nanos::from_secs((streams as u64 * 60).div_ceil(self.0))
    }

    /// Bytes that a content needs to last for a run of `streams` streams that measures for `seconds`.
    pub(super) fn bytes_needed(self, rate: BitRate, streams: usize, seconds: u64) -> u64 {
        let span = Nanos::from_secs(DECIDED_SECONDS).max(WARM_UP + Nanos::from_secs(seconds));
        rate.bytes_in(self.ramp(streams) + span + PLAYER_START + PLAYER_START)
    }
}

/// The streams to request.
#[derive(Debug, Clone)]
pub(super) struct RequestedStreams {
    /// Rate of each.
    pub rate: BitRate,
    /// At which pace they begin.
    pub starts: StartsPerMinute,
    /// A content for each of them: no two share reads.
    pub contents: Vec<String>,
    /// Whole seconds for which those admitted run.
    pub seconds: u64,
    /// The emulated disk: its lateness shows whether the machine disturbed the run.
    pub lab_disk: Option<String>,
}

/// Result of the request.
#[derive(Debug, Clone)]
pub(super) struct AdmittedStreams {
    /// Admitted before the first refusal.
    pub streams: usize,
    /// Of these, players that ran dry.
    pub stalled: usize,
    /// The resource short for the first refused stream; `None` without a refusal: there were no more contents to request.
    pub short: Option<String>,
    /// Seconds until this refusal came.
    pub refused_after: Option<f64>,
    /// Streams refused when as many ran alone, blocks that were late then, and disturbances of the run.
    pub remarks: Vec<String>,
}

impl AdmittedStreams {
    /// Remarks that a reader of the figures needs.
    pub(super) fn notes(&self) -> Vec<String> {
        let limit = match (self.short.as_deref(), self.refused_after) {
            (None, _) => "no stream was refused, since there were no more contents that are long enough".to_owned(),
            (Some(short), _) if !short.starts_with("disk") => format!("not a disk was short, but: {short}"),
            (Some(short), Some(after)) if after > AT_ONCE_SECONDS => {
                format!("{short}: a start was refused after {after:.1} s without a byte")
            }
            (Some(short), _) => format!("{short} was full"),
        };
        [limit].into_iter().chain(self.remarks.iter().cloned()).collect()
    }
}

/// Asks for a stream of each content, then for as many as were admitted.
///
/// # Errors
/// The server cannot be started, or the benchmark was interrupted.
pub(super) fn admitted(
    ground: &ServerGround,
    requested: &RequestedStreams,
    stop: &Stop,
) -> anyhow::Result<AdmittedStreams> {
    let run = |streams, warm_up, seconds| {
        let job = request(requested, streams, warm_up, seconds);
        experiment::run(&Choice::Isocast, ground, &job, stop, &mut Nanos(0))
    };
    // The server also looks at the processor, which other programs of the machine make short: this experiment measures the disks.
    let mut tries = 0;
    let all = loop {
        tries += 1;
        let (all, _) = run(requested.contents.len(), Nanos::ZERO, DECIDED_SECONDS)?;
        if tries == TRIES_MAX || all.first_short.as_deref() != Some("processor") {
            break all;
        }
    };
    // A stream without a byte until then was neither admitted nor refused, and does not count.
    let streams = all.before_first_no().unwrap_or(all.admitted).min(all.admitted - all.failed);
    let short = all.before_first_no().map(|_| all.first_short.unwrap_or_default());
    let refused_after = all.first_refusal_seconds;
    let mut remarks: Vec<String> = all.disturbed.iter().map(|why| format!("while they were counted: {why}")).collect();
    if all.failed > 0 {
        remarks.push(format!(
            "{} broke off or got nothing while they were counted: {}",
            all.failed,
            all.reasons.join("; ")
        ));
    }
    if streams == 0 {
        return Ok(AdmittedStreams { streams, stalled: 0, short, refused_after, remarks });
    }
    let (alone, _) = run(streams, WARM_UP, requested.seconds)?;
    remarks.extend(alone.disturbed.iter().map(|why| format!("while they ran: {why}")));
    if alone.refused > 0 {
        let short = alone.first_short.as_deref().unwrap_or("nothing known");
        remarks.push(format!("{} of the {streams} were refused when they ran (short: {short})", alone.refused));
    }
    if alone.failed > 0 {
        remarks.push(format!(
            "{} of the {streams} broke off or got nothing when they ran: {}",
            alone.failed,
            alone.reasons.join("; ")
        ));
    }
    if alone.restarts > 0 {
        remarks.push(format!("{} contents ended while they ran, and were asked for again", alone.restarts));
    }
    if let Some(late) = alone.server_counts.map(|words| words.late_blocks).filter(|late| *late > 0) {
        remarks.push(format!("{late} blocks were late while they ran"));
    }
    Ok(AdmittedStreams { streams, stalled: alone.stalled_streams, short, refused_after, remarks })
}

fn request(requested: &RequestedStreams, streams: usize, warm_up: Nanos, seconds: u64) -> RunRequest {
    RunRequest {
        streams,
        rate: requested.rate,
        contents: requested.contents.clone(),
        ramp: requested.starts.ramp(streams),
        warm_up,
        seconds,
        start: PLAYER_START,
        rebuffer: PLAYER_START,
        // Sessions of an earlier run may still hold their reservations.
        seed: clock::now().0,
        cold: true,
        lab_disk: requested.lab_disk.clone(),
        ..RunRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_lasts_for_ramp_warm_up_run_and_player_buffer() {
        let starts = StartsPerMinute(1200);
        assert_eq!(starts.bytes_needed(BitRate(8_000_000), 100, 20), 35_000_000);
        assert_eq!(starts.bytes_needed(BitRate(8_000_000), 100, 1), 29_000_000, "counting takes longer");
    }
}
