//! The figures of one run, from the client's results and the counters.

use serde::{Deserialize, Serialize};
use units::{BitRate, Nanos, real};

use super::account::RunCounters;
use super::client::crowd::CrowdFigures;
use super::client::habits::HabitFigures;
use super::client::{
    ClientReport, Jitter, LATE_BOUND, SHORT_IN_LONG, StreamFate, StreamResult, WINDOW, expected, jitter,
};
use super::quantiles::Quantiles;
use super::reasons;
use super::side_programs::BesideFigures;

/// More stolen processor time than this makes a run disturbed, percent of the machine.
const STOLEN_PERCENT_MAX: f64 = 2.0;
/// More late looks of the client than this make a run disturbed, of all looks.
const LATE_SHARE_MAX: f64 = 0.001;
/// Of a server that sends once a second, chance decides the part that falls into a run: standard deviation per stream, in
/// seconds of its rate (the difference of two phases, each uniform).
const EDGES_SECONDS: f64 = 0.41;
/// Delivered / requested of streams that were carried, but for [`EDGES_SECONDS`].
pub(crate) const RATIO_MIN: f64 = 0.999;

/// One run: a number of streams at one rate against one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Run {
    /// Which server: `isocast`, `nginx`, or the URL; in older results also `isocast-fifo`, in order of arrival.
    pub server: String,
    /// Streams requested.
    pub streams: usize,
    /// Rate of each, bit/s.
    pub rate_bps: u64,
    /// Seconds measured.
    pub seconds: u64,
    /// Streams that were not refused.
    pub admitted: usize,
    /// Of these, those that began before the first refusal; all of them if none was, `None` in results older
    /// than the figure. `isocast plan` predicts this number: later ones may still fit where the disk is faster.
    pub before_refusal: Option<usize>,
    /// The resource short for the first refused stream, as far as the server says; `None` in results older than the figure.
    pub first_short: Option<String>,
    /// Seconds until the first refusal came; `None` in results older than the figure. A stream that is admitted and does not get its first
    /// bytes in time is refused after seconds, one without room at once.
    pub first_refusal_seconds: Option<f64>,
    /// Longest wait for a refusal, seconds; `None` without a refusal, and in results older than the figure.
    pub refusal_seconds_max: Option<f64>,
    /// Streams refused (answered with an error status at the start).
    pub refused: usize,
    /// The rate the last refusal offered.
    pub grantable_bps: Option<u64>,
    /// Streams that broke or never got a byte.
    pub failed: usize,
    /// Refusals that were not 503 with the rate that could be granted.
    pub refused_unexplained: usize,
    /// Whether it was a try of a search.
    pub probe: bool,
    /// Whether it ended at the first stall, as the probes of a search do.
    pub given_up: bool,
    /// Reasons of the first few failed streams.
    pub reasons: Vec<String>,
    /// Times a content was over and requested again.
    pub restarts: u64,
    /// Bit/s requested, refused streams included.
    pub requested_bps: f64,
    /// Bit/s delivered to admitted streams.
    pub delivered_bps: f64,
    /// Delivered / requested, of the admitted streams while they requested something.
    pub ratio: f64,
    /// J over 1 s windows.
    pub j_1s: JitterSpread,
    /// J over 100 ms windows.
    pub j_100ms: JitterSpread,
    /// Streams with a player that stalled.
    pub stalled_streams: usize,
    /// Stalls of all players.
    pub stalls: u64,
    /// Seconds all players stood still, together.
    pub stall_seconds: f64,
    /// Time to first byte of the admitted streams, ms.
    pub first_byte_ms: Quantiles,
    /// Cost of the run.
    pub cost: Cost,
    /// Uploads during the streams.
    pub uploads: Option<super::writer::UploadFigures>,
    /// Statistics of the emulated disk, where there is one.
    pub lab: Option<super::lab_disk::LabFigures>,
    /// Clients that took nothing beside the streams, those admitted.
    pub stalled_clients: Option<usize>,
    /// Hostile clients beside the streams.
    pub hostile: Option<super::hostile::HostileFigures>,
    /// Commands that ran beside the streams.
    pub beside: Vec<BesideFigures>,
    /// HLS viewers beside the streams.
    pub crowd: Option<CrowdFigures>,
    /// Recordings of cameras beside the streams.
    pub cameras: Option<super::cameras::CameraFigures>,
    /// Pauses and seeks of viewers, where the run has some.
    pub habits: Option<HabitFigures>,
    /// The server's own figures of the run, where it is one of ours.
    #[serde(rename = "own_words")]
    pub server_counts: Option<super::server_counts::ServerCounts>,
    /// Before the writers began, where they began later than measuring.
    pub before_writer: Option<RunPhase>,
    /// With the writers at work, where they began later than measuring.
    pub with_writer: Option<RunPhase>,
    /// Reasons that make the run unfit to be counted; empty if none.
    pub disturbed: Vec<String>,
    /// Second by second.
    pub series: Vec<Second>,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunPhase {
    /// Mean over streams and seconds of J (1 s), percent.
    pub j_mean: f64,
    /// The worst stream's worst second, percent.
    pub j_worst_second: f64,
    /// Mean over streams and windows of J (100 ms), percent.
    pub j_100ms_mean: f64,
    /// Delivered, Mbit/s.
    pub delivered_mbps: f64,
}

impl RunPhase {
    /// Of some seconds of a run; `None` if there are none.
    pub(crate) fn of(seconds: &[Second]) -> Option<Self> {
        let mean = |of: fn(&Second) -> f64| seconds.iter().map(of).sum::<f64>() / real(seconds.len() as u64);
        (!seconds.is_empty()).then(|| Self {
            j_mean: mean(|s| s.j_mean),
            j_worst_second: seconds.iter().map(|s| s.j_worst).fold(0.0, f64::max),
            j_100ms_mean: mean(|s| s.j_100ms_mean),
            delivered_mbps: mean(|s| s.delivered_mbps),
        })
    }
}

/// J of several streams, percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JitterSpread {
    /// Mean over the streams of each one's time average.
    pub mean: f64,
    /// The worst stream's time average.
    pub worst_stream: f64,
    /// The worst window of any stream.
    pub worst_window: f64,
}

/// Cost of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// The server's processor use, percent of one core.
    pub server_cpu_percent: Option<f64>,
    /// The server's processor seconds per Gbit delivered; this and the next two are `None` where nothing was.
    pub server_s_per_gbit: Option<f64>,
    /// The client's.
    pub client_s_per_gbit: Option<f64>,
    /// The whole machine's.
    pub machine_s_per_gbit: Option<f64>,
    /// The whole machine's processor use, percent of one core.
    pub machine_cpu_percent: f64,
    /// The server's resident memory at the end, bytes.
    pub server_rss_bytes: Option<u64>,
    /// TCP buffers of the machine at the end, bytes.
    pub tcp_bytes: Option<u64>,
    /// Read from the disk, Mbit/s.
    pub disk_read_mbps: Option<f64>,
    /// Written to the disk, Mbit/s.
    pub disk_written_mbps: Option<f64>,
    /// The disk was busy, percent.
    pub disk_busy_percent: Option<f64>,
    /// Bodies received, Mbit/s.
    pub network_mbps: f64,
    /// Stolen from the machine, percent of it.
    pub stolen_percent: f64,
}

/// One second of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Second {
    /// Seconds since measuring began, at its end.
    pub at: u64,
    /// Delivered to all streams, Mbit/s.
    pub delivered_mbps: f64,
    /// The least any admitted stream got, Mbit/s.
    pub least_mbps: f64,
    /// The most any stream got, Mbit/s.
    pub most_mbps: f64,
    /// Mean of J over the streams, percent.
    pub j_mean: f64,
    /// The worst stream's J, percent.
    pub j_worst: f64,
    /// Mean J over 100 ms windows in this second, percent.
    pub j_100ms_mean: f64,
    /// The server's processor use, percent of one core.
    pub server_cpu_percent: Option<f64>,
    /// The server's resident memory, bytes.
    pub server_rss_bytes: Option<u64>,
    /// Read from the disk, Mbit/s.
    pub disk_read_mbps: Option<f64>,
    /// Written to the disk, Mbit/s.
    pub disk_written_mbps: Option<f64>,
    /// Uploads and other writers, Mbit/s acknowledged.
    pub uploaded_mbps: Option<f64>,
}

impl Run {
    /// The figures. `samples` are counters at the start of measuring and after each second.
    pub(crate) fn of(server: &str, rate: BitRate, report: &ClientReport, samples: &[RunCounters]) -> Self {
        let seconds = report.seconds;
        let admitted: Vec<&StreamResult> = report.streams.iter().filter(|s| !s.fate.is_refusal()).collect();
        let length = Nanos::from_secs(seconds).as_secs_f64();
        let bytes: u64 = admitted.iter().map(|s| s.grid.total()).sum();
        let delivered_bps = real(bytes) * 8.0 / length;
        let mut first: Vec<f64> = admitted.iter().filter_map(|s| Some(s.first_byte?.as_millis_f64())).collect();
        let refusals = || {
            report.streams.iter().filter_map(|s| match &s.fate {
                StreamFate::Refused { waited, .. } => Some(waited.as_secs_f64()),
                _ => None,
            })
        };
        let mut run = Self {
            server: server.to_owned(),
            streams: report.streams.len(),
            rate_bps: rate.0,
            seconds,
            admitted: admitted.len(),
            before_refusal: Some(report.streams.iter().take_while(|s| !s.fate.is_refusal()).count()),
            refused: report.streams.len() - admitted.len(),
            first_short: report.streams.iter().find_map(|s| match &s.fate {
                StreamFate::Refused { reason, .. } => reason.short(),
                _ => None,
            }),
            first_refusal_seconds: refusals().next(),
            refusal_seconds_max: refusals().reduce(f64::max),
            grantable_bps: report.streams.iter().rev().find_map(|s| match &s.fate {
                StreamFate::Refused { reason, .. } => reason.grantable_bps,
                _ => None,
            }),
            refused_unexplained: report.streams.iter().filter(|s| is_unexplained(&s.fate)).count(),
            failed: admitted.iter().filter(|s| s.fate != StreamFate::Delivered).count(),
            reasons: reasons_of(&report.streams),
            restarts: admitted.iter().map(|s| u64::from(s.restarts)).sum(),
            requested_bps: real(rate.0) * real(report.streams.len() as u64),
            delivered_bps,
            ratio: ratio(&admitted, rate),
            j_1s: spread(admitted.iter().filter_map(|s| s.grid.jitter_long(rate))),
            j_100ms: spread(admitted.iter().filter_map(|s| s.grid.jitter_short(rate))),
            stalled_streams: admitted.iter().filter(|s| s.stalls.count > 0).count(),
            stalls: admitted.iter().map(|s| u64::from(s.stalls.count)).sum(),
            stall_seconds: admitted.iter().map(|s| s.stalls.time.as_secs_f64()).sum(),
            first_byte_ms: Quantiles::of(&mut first),
            cost: cost(samples, report.cpu, delivered_bps, length),
            series: series(&admitted, rate, samples, seconds),
            ..Self::default()
        };
        run.disturbed = disturbed(report, &run.cost);
        run
    }

    /// Result in a sentence, for progress messages.
    pub(crate) fn sentence(&self) -> String {
        let Self { admitted, streams, failed, stalled_streams, ratio, .. } = self;
        let before = self.before_first_no().map(|n| format!(" ({n} before the first refusal)")).unwrap_or_default();
        let (j, first_byte) = (self.j_1s.mean, self.first_byte_ms.p95);
        let mut text = format!(
            "  {admitted} of {streams} admitted{before}, {failed} failed, {stalled_streams} stalled, ratio {ratio:.4}, J {j:.3} %, \
             first byte {first_byte:.0} ms (95 %)"
        );
        text.extend(self.server_counts.map(|w| format!(", late blocks {}", w.late_blocks)));
        text.extend(self.uploads.as_ref().map(|u| format!(", uploads {:.1} MB/s", u.mb_per_s)));
        text.extend(self.habits.map(|h| {
            let (pauses, seeks, refused, first) = (h.pauses, h.seeks, h.refused_seeks, h.first_byte_ms.p95);
            format!(
                ", {pauses} pauses, {seeks} seeks ({refused} refused), first byte after a seek {first:.0} ms (95 %)"
            )
        }));
        text.extend(self.crowd.as_ref().map(|crowd| {
            let CrowdFigures { in_time, due, refused, failed, first_byte_ms, .. } = crowd;
            let first = first_byte_ms.p99;
            format!(
                ", HLS {in_time} of {due} in time, {refused} refused, {failed} failed, first byte {first:.0} ms (99 %)"
            )
        }));
        text.extend(self.cameras.as_ref().map(|cameras| format!(", {}", cameras.sentence())));
        text.extend(self.hostile.map(|h| {
            let (connections, asked, answered, most) =
                (h.connections, h.health_requests, h.health_answered, h.health_ms_max);
            format!(", hostile: {connections} connections, /health {answered} of {asked}, {most:.0} ms at most")
        }));
        text.extend(self.given_up.then_some("; given up"));
        let beside = |one: &BesideFigures| format!("; beside: `{}` {} ×, {} failed", one.command, one.runs, one.failed);
        text.extend(self.beside.iter().map(beside));
        text
    }

    /// Reason for a run without a working stream.
    pub(crate) fn why_none(&self) -> String {
        let offered = self.grantable_bps.map(|bps| format!("; {} could have been granted", BitRate(bps)));
        match self.reasons.as_slice() {
            [] => format!("answered 503, no room{}", offered.unwrap_or_default()),
            reasons if self.admitted == 0 => format!("{}; is the URL right?", reasons.join("; ")),
            reasons => reasons.join("; "),
        }
    }

    /// Streams admitted before the first refusal, if there was one and that is known.
    pub(crate) fn before_first_no(&self) -> Option<usize> {
        self.before_refusal.filter(|_| self.refused > 0)
    }

    /// Streams that were carried: those admitted, if none of them suffered and each refusal of the others named the
    /// rate that could be granted; the criterion of a search for the most.
    pub(crate) fn carried(&self) -> Option<usize> {
        // Three deviations: else a peer that sends in bursts would fail by chance, the more often the fewer its streams.
        let edges = 3.0 * EDGES_SECONDS / (real(self.seconds) * real(self.admitted as u64).sqrt());
        let unharmed = self.failed == 0 && self.stalled_streams == 0 && self.ratio >= RATIO_MIN - edges;
        (unharmed && self.refused_unexplained == 0 && !self.given_up).then_some(self.admitted)
    }
}

fn spread(streams: impl Iterator<Item = Jitter>) -> JitterSpread {
    let (mut sum, mut count, mut spread) = (0.0, 0.0, JitterSpread::default());
    for j in streams {
        sum += j.mean;
        count += 1.0;
        spread.worst_stream = spread.worst_stream.max(j.mean);
        spread.worst_window = spread.worst_window.max(j.worst);
    }
    spread.mean = if count > 0.0 { sum / count } else { 0.0 };
    spread
}

/// Delivered / requested while something was requested; 0 if nothing was.
fn ratio(streams: &[&StreamResult], rate: BitRate) -> f64 {
    let windows = || streams.iter().flat_map(|s| s.grid.all_short());
    let asked = expected(rate, WINDOW) * real(windows().count() as u64);
    if asked > 0.0 { real(windows().sum()) / asked } else { 0.0 }
}

/// A refusal without status 503 or without the rate that could be granted.
fn is_unexplained(fate: &StreamFate) -> bool {
    matches!(fate, StreamFate::Refused { status, reason, .. } if *status != 503 || reason.grantable_bps.is_none())
}

fn reasons_of(streams: &[StreamResult]) -> Vec<String> {
    let mut kept = Vec::new();
    for stream in streams {
        match &stream.fate {
            StreamFate::Delivered | StreamFate::Refused { status: 503, .. } => {}
            StreamFate::Refused { status, .. } => reasons::keep(&mut kept, format!("answered {status}")),
            StreamFate::Silent => reasons::keep(&mut kept, "not one byte came".to_owned()),
            StreamFate::Failed { reason } => reasons::keep(&mut kept, reason.clone()),
        }
    }
    kept
}

/// A counter's growth from the first to the last sample.
fn growth(samples: &[RunCounters], of: impl Fn(&RunCounters) -> Option<u64>) -> Option<f64> {
    let (first, last) = (of(samples.first()?)?, of(samples.last()?)?);
    Some(real(last.saturating_sub(first)))
}

fn cost(samples: &[RunCounters], client: Nanos, delivered_bps: f64, length: f64) -> Cost {
    let gbit = delivered_bps * length / 1e9;
    let per_gbit = |seconds: f64| (gbit > 0.0).then(|| seconds / gbit);
    let seconds = |of: fn(&RunCounters) -> Option<u64>| growth(samples, of).map(|ns| ns / 1e9);
    let mbps = |of: fn(&RunCounters) -> Option<u64>| growth(samples, of).map(|bytes| bytes * 8.0 / length / 1e6);
    let server = seconds(|c| c.server_cpu_ns);
    let machine = seconds(|c| Some(c.machine_cpu_ns)).unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let last = samples.last().copied().unwrap_or_default();
    Cost {
        server_cpu_percent: server.map(|s| s / length * 100.0),
        server_s_per_gbit: server.and_then(per_gbit),
        client_s_per_gbit: per_gbit(client.as_secs_f64()),
        machine_s_per_gbit: per_gbit(machine),
        machine_cpu_percent: machine / length * 100.0,
        server_rss_bytes: last.server_rss_bytes,
        tcp_bytes: last.tcp_bytes,
        disk_read_mbps: mbps(|c| c.disk_read_bytes),
        disk_written_mbps: mbps(|c| c.disk_written_bytes),
        disk_busy_percent: seconds(|c| c.disk_busy_ns).map(|s| s / length * 100.0),
        network_mbps: delivered_bps / 1e6,
        stolen_percent: seconds(|c| Some(c.stolen_ns)).unwrap_or(0.0) / length / real(cores) * 100.0,
    }
}

fn disturbed(report: &ClientReport, cost: &Cost) -> Vec<String> {
    let mut reasons = Vec::new();
    let late = report.lateness;
    if real(late.over_10ms) > real(late.looks) * LATE_SHARE_MAX {
        let (n, of) = (late.over_10ms, late.looks);
        reasons.push(format!("the client was more than {LATE_BOUND} late {n} times of {of}"));
    }
    if cost.stolen_percent > STOLEN_PERCENT_MAX {
        reasons.push(format!("{:.1} % of the machine's processor time was stolen", cost.stolen_percent));
    }
    reasons
}

fn series(streams: &[&StreamResult], rate: BitRate, samples: &[RunCounters], seconds: u64) -> Vec<Second> {
    let (long, short) = (expected(rate, Nanos::from_secs(1)), expected(rate, WINDOW));
    let mut series = Vec::new();
    for (n, at) in (0..usize::try_from(seconds).unwrap_or(0)).zip(1..) {
        let got = || streams.iter().filter_map(|s| s.grid.long(n));
        let j = jitter(got(), long).unwrap_or_default();
        let windows = || n * SHORT_IN_LONG..(n + 1) * SHORT_IN_LONG;
        let got_short = streams.iter().flat_map(|s| windows().filter_map(|n| s.grid.short(n)));
        let j_short = jitter(got_short, short).unwrap_or_default();
        let pair = samples.get(n..n + 2).unwrap_or_default();
        let mbps = |of: fn(&RunCounters) -> Option<u64>| growth(pair, of).map(|bytes| bytes * 8.0 / 1e6);
        series.push(Second {
            at,
            delivered_mbps: real(streams.iter().map(|s| s.grid.second(n)).sum()) * 8.0 / 1e6,
            least_mbps: real(got().min().unwrap_or(0)) * 8.0 / 1e6,
            most_mbps: real(got().max().unwrap_or(0)) * 8.0 / 1e6,
            j_mean: j.mean,
            j_worst: j.worst,
            j_100ms_mean: j_short.mean,
            server_cpu_percent: growth(pair, |c| c.server_cpu_ns).map(|ns| ns / 1e7),
            server_rss_bytes: pair.last().and_then(|c| c.server_rss_bytes),
            disk_read_mbps: mbps(|c| c.disk_read_bytes),
            disk_written_mbps: mbps(|c| c.disk_written_bytes),
            uploaded_mbps: None,
        });
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: nginx, 17 streams over 8 s, no stall, and 0.9989 or 1.0021 by chance.
    #[test]
    fn bursts_of_a_second_are_no_lack_and_a_lack_is_one() {
        let run = |admitted, seconds, ratio| Run { admitted, seconds, ratio, ..Run::default() };
        assert_eq!(run(17, 8, 0.9951).carried(), Some(17));
        assert_eq!(run(17, 8, 0.94).carried(), None);
        assert_eq!(run(50, 40, 0.998).carried(), Some(50));
        assert_eq!(run(50, 40, 0.99).carried(), None);
        assert_eq!(Run { stalled_streams: 1, ..run(50, 40, 1.0) }.carried(), None);
        assert_eq!(run(0, 40, 0.0).carried(), Some(0), "all were told no");
    }

    #[test]
    fn cost_is_differences_per_gbit() {
        let at = |server, machine| RunCounters {
            server_cpu_ns: Some(server),
            machine_cpu_ns: machine,
            disk_read_bytes: Some(machine / 1000),
            ..RunCounters::default()
        };
        let samples = [at(1_000_000_000, 10_000_000_000), at(0, 0), at(2_000_000_000, 14_000_000_000)];
        let cost = cost(&samples, Nanos::from_millis(500), 1e9, 10.0);
        assert_eq!(cost.server_cpu_percent, Some(10.0));
        assert_eq!(cost.server_s_per_gbit, Some(0.1));
        assert!((cost.client_s_per_gbit.unwrap() - 0.05).abs() < 1e-9);
        assert!((cost.machine_s_per_gbit.unwrap() - 0.4).abs() < 1e-9);
        assert_eq!(cost.disk_read_mbps, Some(3.2));
        assert_eq!(cost.disk_written_mbps, None);
        let nothing = super::cost(&samples, Nanos::from_millis(500), 0.0, 10.0);
        assert_eq!((nothing.server_s_per_gbit, nothing.client_s_per_gbit), (None, None), "no figure from nothing");
    }
}
