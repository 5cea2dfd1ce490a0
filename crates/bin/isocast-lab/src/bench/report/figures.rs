//! Plots of an experiment: HiTactix's figures 9, 10, 12 and 13, and further ones that the paper lacks.

use super::super::group::RunGroup;
use super::super::summary::{Run, Second};
use super::plot::{Plot, PlotLine};
use super::{ExperimentKind, Results};

/// The plots as SVG.
pub(super) fn of(results: &Results) -> anyhow::Result<Vec<String>> {
    let plots = match results.kind {
        ExperimentKind::Streams => over_streams(results),
        ExperimentKind::Jitter => over_time(results),
        ExperimentKind::Hls => over_viewers(results),
        ExperimentKind::Recorder => over_cameras(results),
    };
    let mut drawn = Vec::new();
    for plot in plots {
        drawn.extend(plot.svg()?);
    }
    Ok(drawn)
}

fn over_streams(results: &Results) -> Vec<Plot<'_>> {
    let x = "requested, Mbit/s";
    let requested = |g: &RunGroup| g.median("requested_mbps");
    let against = |y: &'static str| lines(results, move |g| Some((requested(g)?, g.median(y)?)));
    let mut rate = against("delivered_mbps");
    let most = rate.iter().flat_map(|l| &l.points).map(|p| p.0).fold(0.0, f64::max);
    rate.push(PlotLine { name: "as requested".to_owned(), points: vec![(0.0, 0.0), (most, most)], marked: false });
    vec![
        Plot { title: "Delivered against requested rate", x, y: "delivered, Mbit/s", lines: rate },
        Plot { title: "Processor use of the server", x, y: "% of one core", lines: against("server_cpu_percent") },
        Plot { title: "J over 1 s windows, mean of the streams", x, y: "J, %", lines: against("j_1s_mean") },
        Plot { title: "J over 100 ms windows, mean of the streams", x, y: "J, %", lines: against("j_100ms_mean") },
    ]
}

fn over_viewers(results: &Results) -> Vec<Plot<'_>> {
    let x = "HLS viewers";
    let against =
        |y: &'static str| lines(results, move |g| Some((super::super::quantiles::f(g.viewers as u64), g.median(y)?)));
    vec![
        Plot { title: "Segments in time", x, y: "Mbit/s", lines: against("hls_goodput_mbps") },
        Plot { title: "First byte of a segment, 99 %", x, y: "ms", lines: against("hls_first_byte_p99_ms") },
        Plot { title: "J over 1 s windows of the streams beside", x, y: "J, %", lines: against("j_1s_mean") },
    ]
}

fn over_cameras(results: &Results) -> Vec<Plot<'_>> {
    let x = "cameras";
    let against =
        |y: &'static str| lines(results, move |g| Some((super::super::quantiles::f(g.cameras as u64), g.median(y)?)));
    vec![
        Plot { title: "Recorded to the end", x, y: "cameras", lines: against("cameras_recorded") },
        Plot { title: "The longest that a camera was held up", x, y: "s", lines: against("camera_held_up_max_s") },
        Plot { title: "Viewers that stalled", x, y: "viewers", lines: against("stalled_streams") },
        Plot { title: "J over 1 s windows of the viewers", x, y: "J, %", lines: against("j_1s_mean") },
    ]
}

/// A line per server through its groups, by number of streams.
fn lines(results: &Results, point: impl Fn(&RunGroup) -> Option<(f64, f64)>) -> Vec<PlotLine> {
    let mut lines: Vec<PlotLine> = Vec::new();
    for group in &results.groups {
        let Some(point) = point(group) else { continue };
        match lines.iter_mut().find(|l| l.name == group.server) {
            Some(line) => line.points.push(point),
            None => lines.push(PlotLine { name: group.server.clone(), points: vec![point], marked: true }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}

fn over_time(results: &Results) -> Vec<Plot<'_>> {
    let x = "seconds";
    // The first run of each server stands for its repeats: a mean over runs would hide the course of a single viewer.
    let mut firsts: Vec<&Run> = Vec::new();
    for run in &results.runs {
        if !firsts.iter().any(|f| f.server == run.server) {
            firsts.push(run);
        }
    }
    let line = |name: &str, run: &Run, of: fn(&Second) -> Option<f64>| PlotLine {
        name: name.to_owned(),
        points: run.series.iter().filter_map(|s| Some((super::super::quantiles::f(s.at), of(s)?))).collect(),
        marked: false,
    };
    let mut plots: Vec<Plot<'_>> = firsts
        .iter()
        .map(|run| {
            let lines = vec![
                line("streams", run, |s| Some(s.delivered_mbps / 8.0)),
                line("uploads", run, |s| s.uploaded_mbps.map(|m| m / 8.0)),
            ];
            Plot { title: &run.server, x, y: "MB/s", lines }
        })
        .collect();
    let all = |of: fn(&Second) -> Option<f64>| firsts.iter().map(|run| line(&run.server, run, of)).collect();
    plots.push(Plot { title: "J over 1 s windows, mean of the streams", x, y: "J, %", lines: all(|s| Some(s.j_mean)) });
    plots.push(Plot { title: "Rate of the worst stream", x, y: "Mbit/s", lines: all(|s| Some(s.least_mbps)) });
    plots
}
