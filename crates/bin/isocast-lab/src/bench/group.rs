//! Groups of repeated runs: median and spread of each figure.

use serde::{Deserialize, Serialize};
use units::real;

use super::summary::Run;

/// Runs of the same server, number of streams and rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunGroup {
    /// The server measured.
    pub server: String,
    /// Streams requested.
    pub streams: usize,
    /// Rate of each stream, bit/s.
    pub rate_bps: u64,
    /// True for the tries of a search.
    #[serde(default)]
    pub probe: bool,
    /// Number of runs in the group; disturbed runs count only if there are no others.
    pub runs: usize,
    /// The figures of the group.
    pub figures: Vec<Figure>,
}

/// One figure of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Name of the figure, as in [`FIGURES`].
    pub name: String,
    /// The median; of an even number of runs the mean of the middle two.
    pub median: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
}

/// A figure of a run.
pub(crate) struct RunFigure {
    /// Its name in the raw results.
    pub name: &'static str,
    /// Its heading in the table of groups; empty if it is not shown there.
    pub heading: &'static str,
    /// Decimal places.
    pub places: usize,
    of: fn(&Run) -> Option<f64>,
}

const fn figure(name: &'static str, heading: &'static str, places: usize, of: fn(&Run) -> Option<f64>) -> RunFigure {
    RunFigure { name, heading, places, of }
}

/// The figures of reports, in the order of the table's columns.
pub(crate) const FIGURES: [RunFigure; 42] = [
    figure("cameras", "cameras", 0, |r| r.cameras.as_ref().map(|c| count(c.cameras))),
    figure("viewers", "", 0, |r| r.crowd.as_ref().map(|c| count(c.viewers))),
    figure("cameras_recorded", "recorded", 0, |r| r.cameras.as_ref().map(|c| count(c.recorded))),
    figure("cameras_refused", "refused", 0, |r| r.cameras.as_ref().map(|c| count(c.refused))),
    figure("camera_held_up_max_s", "held up, s", 2, |r| r.cameras.as_ref().map(|c| c.held_up_ms.max / 1000.0)),
    figure("cameras_lost_mb", "lost MB", 3, |r| r.cameras.as_ref().map(|c| real(c.lost_bytes) / 1e6)),
    figure("recording_cpu_s_per_gb", "CPU s/GB", 2, |r| r.cameras.as_ref()?.cpu_s_per_gb),
    figure("admitted", "admitted", 0, |r| Some(count(r.admitted))),
    figure("before_refusal", "", 0, |r| r.before_refusal.map(count)),
    figure("requested_mbps", "req Mb/s", 0, |r| Some(r.requested_bps / 1e6)),
    figure("delivered_mbps", "got Mb/s", 0, |r| Some(r.delivered_bps / 1e6)),
    figure("ratio", "ratio", 4, |r| Some(r.ratio)),
    figure("j_1s_mean", "J1s %", 3, |r| Some(r.j_1s.mean)),
    figure("j_1s_worst_stream", "worst stream", 2, |r| Some(r.j_1s.worst_stream)),
    figure("j_100ms_mean", "J100ms %", 2, |r| Some(r.j_100ms.mean)),
    figure("j_1s_with_writer", "", 3, |r| r.with_writer.map(|p| p.j_mean)),
    figure("stalled_streams", "stalled", 0, |r| Some(count(r.stalled_streams))),
    figure("first_byte_p95_ms", "TTFB p95 ms", 0, |r| Some(r.first_byte_ms.p95)),
    figure("server_cpu_percent", "CPU %", 1, |r| r.cost.server_cpu_percent),
    figure("server_s_per_gbit", "s/Gbit", 4, |r| r.cost.server_s_per_gbit),
    figure("client_s_per_gbit", "client", 4, |r| r.cost.client_s_per_gbit),
    figure("machine_s_per_gbit", "machine", 4, |r| r.cost.machine_s_per_gbit),
    figure("server_rss_mib", "RSS MiB", 0, |r| r.cost.server_rss_bytes.map(mib)),
    figure("tcp_mib", "", 0, |r| r.cost.tcp_bytes.map(mib)),
    figure("disk_read_mbps", "disk Mb/s", 0, |r| r.cost.disk_read_mbps),
    figure("network_mbps", "", 0, |r| Some(r.cost.network_mbps)),
    figure("upload_mb_per_s", "up MB/s", 1, |r| r.uploads.as_ref().map(|u| u.mb_per_s)),
    figure("upload_share", "of alone", 2, |r| r.uploads.as_ref()?.share_of_yardstick),
    figure("upload_share_of_left", "of left", 2, |r| r.uploads.as_ref()?.share_of_left),
    figure("late_blocks", "", 0, |r| r.server_counts.map(|w| real(w.late_blocks))),
    figure("late_ticks", "", 0, |r| r.server_counts.map(|w| real(w.late_ticks))),
    figure("mib_per_stream", "", 0, |r| r.server_counts?.bytes_per_stream().map(mib)),
    figure("pauses", "pauses", 0, |r| r.habits.map(|h| real(h.pauses))),
    figure("seeks", "seeks", 0, |r| r.habits.map(|h| real(h.seeks))),
    figure("refused_seeks", "refused seeks", 0, |r| r.habits.map(|h| real(h.refused_seeks))),
    figure("seek_first_byte_p95_ms", "TTFB of seeks p95 ms", 0, |r| r.habits.map(|h| h.first_byte_ms.p95)),
    figure("hls_asked_mbps", "HLS asked Mb/s", 0, |r| {
        r.crowd.as_ref().map(|c| real(c.rate_bps) * count(c.viewers) / 1e6)
    }),
    figure("hls_goodput_mbps", "in time Mb/s", 0, |r| r.crowd.as_ref().map(|c| c.goodput_bps / 1e6)),
    figure("hls_in_time", "in time %", 2, |r| r.crowd.as_ref().map(|c| c.share(c.in_time))),
    figure("hls_refused", "refused %", 2, |r| r.crowd.as_ref().map(|c| c.share(c.refused))),
    figure("hls_first_byte_p99_ms", "first byte p99 ms", 0, |r| r.crowd.as_ref().map(|c| c.first_byte_ms.p99)),
    figure("hls_refusal_p99_ms", "refusal p99 ms", 0, |r| r.crowd.as_ref().map(|c| c.refusal_ms.p99)),
];

fn count(count: usize) -> f64 {
    real(count as u64)
}

fn mib(bytes: u64) -> f64 {
    real(bytes) / 1_048_576.0
}

impl RunGroup {
    /// A figure by name.
    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.name == name)
    }

    /// The median of a figure.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.figure(name).map(|f| f.median)
    }

    /// A figure with its spread, or a dash where there is none.
    pub(crate) fn cell(&self, name: &str, places: usize, unit: &str) -> String {
        match self.figure(name) {
            None => "–".to_owned(),
            Some(f) if self.runs == 1 => format!("{:.places$}{unit}", f.median),
            Some(f) => format!("{:.places$}{unit} ({:.places$}…{:.places$})", f.median, f.min, f.max),
        }
    }
}

/// Groups runs of the same kind, in the order in which the kinds first occur.
pub(crate) fn groups(runs: &[Run]) -> Vec<RunGroup> {
    let mut kinds: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        match kinds.iter_mut().find(|kind| are_repeats(kind[0], run)) {
            Some(kind) => kind.push(run),
            None => kinds.push(vec![run]),
        }
    }
    let group = |all: Vec<&Run>| {
        let (good, bad): (Vec<_>, Vec<_>) = all.into_iter().partition(|r| r.disturbed.is_empty());
        let runs = if good.is_empty() { bad } else { good };
        let of_all = |figure: &RunFigure| spread(figure.name, runs.iter().filter_map(|r| (figure.of)(r)).collect());
        RunGroup {
            server: runs[0].server.clone(),
            streams: runs[0].streams,
            rate_bps: runs[0].rate_bps,
            probe: runs[0].probe,
            runs: runs.len(),
            figures: FIGURES.iter().filter_map(of_all).collect(),
        }
    };
    kinds.into_iter().map(group).collect()
}

fn are_repeats(a: &Run, b: &Run) -> bool {
    let beside = |run: &Run| {
        (run.crowd.as_ref().map(|crowd| crowd.viewers), run.cameras.as_ref().map(|cameras| cameras.cameras))
    };
    (&a.server, a.streams, a.rate_bps, a.probe, beside(a)) == (&b.server, b.streams, b.rate_bps, b.probe, beside(b))
}

fn spread(name: &str, mut values: Vec<f64>) -> Option<Figure> {
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    Some(Figure { name: name.to_owned(), median: low.midpoint(high), min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |values: &[f64]| spread("x", values.to_vec()).map(|f| (f.median, f.min, f.max));
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(of(&[4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn disturbed_runs_count_only_where_there_is_nothing_better() {
        let run = |streams, ratio, disturbed: bool| Run {
            streams,
            ratio,
            disturbed: if disturbed { vec!["late".to_owned()] } else { Vec::new() },
            ..Run::default()
        };
        let runs = [run(1, 0.5, true), run(1, 1.0, false), run(2, 0.7, true), run(1, 0.9, false)];
        let groups = groups(&runs);
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].runs, groups[0].median("ratio")), (2, Some(0.95)));
        assert_eq!((groups[1].runs, groups[1].median("ratio")), (1, Some(0.7)));
    }
}
