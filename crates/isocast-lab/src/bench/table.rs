//! Results as text tables.

use std::fmt::Write;

use super::group::Group;
use super::summary::Run;

/// Columns of the table of groups: heading, figure, places.
const COLUMNS: [(&str, &str, usize); 17] = [
    ("req Mb/s", "requested_mbps", 0),
    ("got Mb/s", "delivered_mbps", 0),
    ("ratio", "ratio", 4),
    ("J1s %", "j_1s_mean", 3),
    ("worst stream", "j_1s_worst_stream", 2),
    ("J100ms %", "j_100ms_mean", 2),
    ("stalled", "stalled_streams", 0),
    ("TTFB p95 ms", "first_byte_p95_ms", 0),
    ("CPU %", "server_cpu_percent", 1),
    ("s/Gbit", "server_s_per_gbit", 4),
    ("client", "client_s_per_gbit", 4),
    ("machine", "machine_s_per_gbit", 4),
    ("RSS MiB", "server_rss_mib", 0),
    ("disk Mb/s", "disk_read_mbps", 0),
    ("up MB/s", "upload_mb_per_s", 1),
    ("of alone", "upload_share", 2),
    ("of left", "upload_share_of_left", 2),
];

/// Medians, with the spread where there were several runs; the first row is the heading.
pub(crate) fn groups(groups: &[Group]) -> Vec<Vec<String>> {
    let mut head = vec!["server".to_owned(), "streams".to_owned(), "runs".to_owned()];
    head.extend(COLUMNS.iter().map(|(heading, ..)| (*heading).to_owned()));
    let mut rows = vec![head];
    for group in groups {
        let mut row = vec![group.server.clone(), group.streams.to_string(), group.runs.to_string()];
        row.extend(COLUMNS.iter().map(|&(_, name, places)| match group.figure(name) {
            None => "–".to_owned(),
            Some(f) if group.runs == 1 => format!("{:.places$}", f.median),
            Some(f) => format!("{:.places$} ({:.places$}…{:.places$})", f.median, f.min, f.max),
        }));
        rows.push(row);
    }
    rows
}

/// The table of groups as text.
pub(crate) fn medians(of: &[Group]) -> String {
    align(&groups(of))
}

/// One line per run: seed 000's tables and what they left out.
pub(crate) fn streams(runs: &[Run]) -> String {
    let head = [
        "server",
        "streams",
        "admit",
        "first no at",
        "req Mb/s",
        "got Mb/s",
        "ratio",
        "J1s %",
        "worst",
        "J100ms %",
        "stalled",
        "TTFB p95",
        "CPU %",
        "s/Gbit",
        "client",
        "machine",
        "RSS MiB",
        "TCP MiB",
        "disk rd",
        "disk wr",
        "up MB/s",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(runs.iter().map(row));
    let mut text = align(&rows);
    for run in runs {
        for reason in run.reasons.iter().chain(&run.disturbed) {
            let _ = writeln!(text, "  {} × {}: {reason}", run.server, run.streams);
        }
    }
    text
}

#[allow(clippy::cast_precision_loss, reason = "for display")]
fn row(run: &Run) -> Vec<String> {
    let cost = &run.cost;
    let mib = |bytes: Option<u64>| or_dash(bytes.map(|b| b as f64 / 1_048_576.0), 0);
    let mark = if run.disturbed.is_empty() { "" } else { "*" };
    vec![
        format!("{}{mark}", run.server),
        run.streams.to_string(),
        run.admitted.to_string(),
        run.before_first_no().map_or_else(|| "–".to_owned(), |n| (n + 1).to_string()),
        format!("{:.1}", run.requested_bps / 1e6),
        format!("{:.1}", run.delivered_bps / 1e6),
        format!("{:.4}", run.ratio),
        format!("{:.3}", run.j_1s.mean),
        format!("{:.2}", run.j_1s.worst_stream),
        format!("{:.2}", run.j_100ms.mean),
        run.stalled_streams.to_string(),
        format!("{:.0} ms", run.first_byte_ms.p95),
        or_dash(cost.server_cpu_percent, 1),
        or_dash(cost.server_s_per_gbit, 4),
        or_dash(cost.client_s_per_gbit, 4),
        or_dash(cost.machine_s_per_gbit, 4),
        mib(cost.server_rss_bytes),
        mib(cost.tcp_bytes),
        or_dash(cost.disk_read_mbps, 0),
        or_dash(cost.disk_written_mbps, 0),
        or_dash(run.uploads.as_ref().map(|u| u.mb_per_s), 1),
    ]
}

fn or_dash(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |v| format!("{v:.places$}"))
}

/// Columns as wide as their widest cell; the first to the left, figures to the right.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (c, cell) in row.iter().enumerate() {
            let _ = match c {
                0 => write!(text, "{cell:<width$}", width = widths[c]),
                _ => write!(text, "  {cell:>width$}", width = widths[c]),
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".into(), "1".into()], vec!["bcd".into(), "100".into()]];
        assert_eq!(align(&rows), "a      1\nbcd  100\n");
    }
}
