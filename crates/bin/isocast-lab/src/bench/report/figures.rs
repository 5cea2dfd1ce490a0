//! Plots of an experiment: HiTactix's figures 9, 10, 12 and 13, and further ones that the paper lacks.

use units::real;

use super::super::summary::{Run, Second};
use super::plot::{Plot, PlotLine};
use super::{ExperimentKind, Results};

/// The plots as SVG.
pub(super) fn of(results: &Results) -> anyhow::Result<Vec<String>> {
    let plots = match results.kind {
        ExperimentKind::Streams => over_streams(results),
        ExperimentKind::Jitter => over_time(results),
        ExperimentKind::Hls => over(results, ("HLS viewers", "viewers"), &OVER_VIEWERS),
        ExperimentKind::Recorder => over(results, ("cameras", "cameras"), &OVER_CAMERAS),
    };
    let drawn: Vec<Option<String>> = plots.iter().map(Plot::svg).collect::<anyhow::Result<_>>()?;
    Ok(drawn.into_iter().flatten().collect())
}

/// Title, unit and figure of a plot.
type PlottedFigure = (&'static str, &'static str, &'static str);

const OVER_STREAMS: [PlottedFigure; 4] = [
    ("Delivered against requested rate", "delivered, Mbit/s", "delivered_mbps"),
    ("Processor use of the server", "% of one core", "server_cpu_percent"),
    ("J over 1 s windows, mean of the streams", "J, %", "j_1s_mean"),
    ("J over 100 ms windows, mean of the streams", "J, %", "j_100ms_mean"),
];
const OVER_VIEWERS: [PlottedFigure; 3] = [
    ("Segments in time", "Mbit/s", "hls_goodput_mbps"),
    ("First byte of a segment, 99 %", "ms", "hls_first_byte_p99_ms"),
    ("J over 1 s windows of the streams beside", "J, %", "j_1s_mean"),
];
const OVER_CAMERAS: [PlottedFigure; 4] = [
    ("Recorded to the end", "cameras", "cameras_recorded"),
    ("The longest that a camera was held up", "s", "camera_held_up_max_s"),
    ("Viewers that stalled", "viewers", "stalled_streams"),
    ("J over 1 s windows of the viewers", "J, %", "j_1s_mean"),
];

fn over_streams(results: &Results) -> Vec<Plot<'_>> {
    let mut plots = over(results, ("requested, Mbit/s", "requested_mbps"), &OVER_STREAMS);
    if let Some(rate) = plots.first_mut() {
        let most = rate.lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max);
        let points = vec![(0.0, 0.0), (most, most)];
        rate.lines.push(PlotLine { name: "as requested".to_owned(), points, marked: false });
    }
    plots
}

/// A line per server through its groups, by the figure `by`; a group without it has none of what is counted.
fn over<'a>(results: &'a Results, (x, by): (&'a str, &str), figures: &[PlottedFigure]) -> Vec<Plot<'a>> {
    let plot = |&(title, y, figure): &PlottedFigure| {
        let mut lines = Vec::new();
        for group in &results.groups {
            if let Some(value) = group.median(figure) {
                PlotLine::add(&mut lines, &group.server, (group.median(by).unwrap_or(0.0), value));
            }
        }
        lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        Plot { title, x, y, lines }
    };
    figures.iter().map(plot).collect()
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
        points: run.series.iter().filter_map(|s| Some((real(s.at), of(s)?))).collect(),
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
