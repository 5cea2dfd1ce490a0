//! Repeated runs taken together: median and spread.

use serde::{Deserialize, Serialize};

use super::summary::Run;

/// Runs of the same server, number of streams and rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunGroup {
    /// The server measured.
    pub server: String,
    /// Streams requested.
    pub streams: usize,
    /// Rate of each, bit/s.
    pub rate_bps: u64,
    /// HLS viewers beside.
    #[serde(default)]
    pub viewers: usize,
    /// Cameras beside.
    #[serde(default)]
    pub cameras: usize,
    /// Whether they were tries of a search.
    #[serde(default)]
    pub probe: bool,
    /// Runs taken together; disturbed ones only if there are no others.
    pub runs: usize,
    /// Each figure.
    pub figures: Vec<Figure>,
}

/// One figure of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Name of the figure, a key of [`KEYS`].
    pub name: String,
    /// The middle one; of an even number the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

type GroupKey = (&'static str, fn(&Run) -> Option<f64>);

/// The figures reports speak of, by name.
pub(crate) const KEYS: [GroupKey; 40] = [
    ("admitted", |r| Some(super::quantiles::f(r.admitted as u64))),
    ("before_refusal", |r| r.before_refusal.map(|n| super::quantiles::f(n as u64))),
    ("requested_mbps", |r| Some(r.requested_bps / 1e6)),
    ("delivered_mbps", |r| Some(r.delivered_bps / 1e6)),
    ("ratio", |r| Some(r.ratio)),
    ("j_1s_mean", |r| Some(r.j_1s.mean)),
    ("j_1s_worst_stream", |r| Some(r.j_1s.worst_stream)),
    ("j_100ms_mean", |r| Some(r.j_100ms.mean)),
    ("stalled_streams", |r| Some(super::quantiles::f(r.stalled_streams as u64))),
    ("first_byte_p95_ms", |r| Some(r.first_byte_ms.p95)),
    ("server_cpu_percent", |r| r.cost.server_cpu_percent),
    ("server_s_per_gbit", |r| r.cost.server_s_per_gbit),
    ("client_s_per_gbit", |r| r.cost.client_s_per_gbit),
    ("machine_s_per_gbit", |r| r.cost.machine_s_per_gbit),
    ("server_rss_mib", |r| r.cost.server_rss_bytes.map(|b| super::quantiles::f(b) / 1_048_576.0)),
    ("tcp_mib", |r| r.cost.tcp_bytes.map(|b| super::quantiles::f(b) / 1_048_576.0)),
    ("disk_read_mbps", |r| r.cost.disk_read_mbps),
    ("network_mbps", |r| Some(r.cost.network_mbps)),
    ("upload_mb_per_s", |r| r.uploads.as_ref().map(|u| u.mb_per_s)),
    ("upload_share", |r| r.uploads.as_ref()?.share_of_yardstick),
    ("upload_share_of_left", |r| r.uploads.as_ref()?.share_of_left),
    ("late_blocks", |r| r.own_words.map(|w| super::quantiles::f(w.late_blocks))),
    ("late_ticks", |r| r.own_words.map(|w| super::quantiles::f(w.late_ticks))),
    ("mib_per_stream", |r| r.own_words?.bytes_per_stream().map(|b| super::quantiles::f(b) / 1_048_576.0)),
    ("j_1s_with_writer", |r| r.with_writer.map(|p| p.j_mean)),
    ("pauses", |r| r.habits.map(|h| super::quantiles::f(h.pauses))),
    ("seeks", |r| r.habits.map(|h| super::quantiles::f(h.seeks))),
    ("refused_seeks", |r| r.habits.map(|h| super::quantiles::f(h.refused_seeks))),
    ("seek_first_byte_p95_ms", |r| r.habits.map(|h| h.first_byte_ms.p95)),
    ("hls_asked_mbps", |r| {
        r.crowd.as_ref().map(|c| super::quantiles::f(c.rate_bps) * super::quantiles::f(c.viewers as u64) / 1e6)
    }),
    ("hls_goodput_mbps", |r| r.crowd.as_ref().map(|c| c.goodput_bps / 1e6)),
    ("hls_in_time", |r| r.crowd.as_ref().map(|c| c.share(c.in_time))),
    ("hls_refused", |r| r.crowd.as_ref().map(|c| c.share(c.refused))),
    ("hls_first_byte_p99_ms", |r| r.crowd.as_ref().map(|c| c.first_byte_ms.p99)),
    ("hls_refusal_p99_ms", |r| r.crowd.as_ref().map(|c| c.refusal_ms.p99)),
    ("cameras_recorded", |r| r.cameras.as_ref().map(|c| super::quantiles::f(c.recorded as u64))),
    ("cameras_refused", |r| r.cameras.as_ref().map(|c| super::quantiles::f(c.refused as u64))),
    ("camera_held_up_max_s", |r| r.cameras.as_ref().map(|c| c.held_up_ms.max / 1000.0)),
    ("cameras_lost_mb", |r| r.cameras.as_ref().map(|c| super::quantiles::f(c.lost_bytes) / 1e6)),
    ("recording_cpu_s_per_gb", |r| r.cameras.as_ref()?.cpu_s_per_gb),
];

impl RunGroup {
    /// A figure by name.
    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.name == name)
    }

    /// A figure's median.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.figure(name).map(|f| f.median)
    }
}

/// Puts runs of the same kind together, in the order in which the kinds first occur.
pub(crate) fn groups(runs: &[Run]) -> Vec<RunGroup> {
    let mut kinds: Vec<RunKind<'_>> = Vec::new();
    for run in runs {
        let kind = kind_of(run);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of_kind = |kind: &RunKind<'_>| -> Vec<&Run> {
        let all = runs.iter().filter(|r| kind_of(r) == *kind);
        let (good, bad): (Vec<_>, Vec<_>) = all.partition(|r| r.disturbed.is_empty());
        if good.is_empty() { bad } else { good }
    };
    kinds
        .iter()
        .map(|kind| {
            let runs = of_kind(kind);
            let figure = |(name, of): &GroupKey| figure(name, runs.iter().filter_map(|r| of(r)).collect());
            RunGroup {
                server: kind.server.to_owned(),
                streams: kind.streams,
                rate_bps: kind.rate_bps,
                probe: kind.probe,
                viewers: kind.viewers,
                cameras: kind.cameras,
                runs: runs.len(),
                figures: KEYS.iter().filter_map(figure).collect(),
            }
        })
        .collect()
}

/// Tells which runs are repeats of each other.
#[derive(Debug, PartialEq)]
struct RunKind<'a> {
    server: &'a str,
    streams: usize,
    rate_bps: u64,
    probe: bool,
    viewers: usize,
    cameras: usize,
}

fn kind_of(run: &Run) -> RunKind<'_> {
    RunKind {
        server: &run.server,
        streams: run.streams,
        rate_bps: run.rate_bps,
        probe: run.probe,
        viewers: run.crowd.as_ref().map_or(0, |crowd| crowd.viewers),
        cameras: run.cameras.as_ref().map_or(0, |cameras| cameras.cameras),
    }
}

fn figure(name: &str, mut values: Vec<f64>) -> Option<Figure> {
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
        let of = |values: &[f64]| figure("x", values.to_vec()).map(|f| (f.median, f.min, f.max));
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
