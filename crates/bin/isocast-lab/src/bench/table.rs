//! Results as text tables.

use std::fmt::Write;

use super::group::RunGroup;

/// Columns of the table of groups: heading, figure, places.
const COLUMNS: [(&str, &str, usize); 18] = [
    ("admitted", "admitted", 0),
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

/// Further ones where viewers paused and sought.
const SEEK_COLUMNS: [(&str, &str, usize); 4] = [
    ("pauses", "pauses", 0),
    ("seeks", "seeks", 0),
    ("refused seeks", "refused_seeks", 0),
    ("TTFB of seeks p95 ms", "seek_first_byte_p95_ms", 0),
];

/// Further ones where HLS viewers were beside.
const HLS_COLUMNS: [(&str, &str, usize); 6] = [
    ("HLS asked Mb/s", "hls_asked_mbps", 0),
    ("in time Mb/s", "hls_goodput_mbps", 0),
    ("in time %", "hls_in_time", 2),
    ("refused %", "hls_refused", 2),
    ("first byte p99 ms", "hls_first_byte_p99_ms", 0),
    ("refusal p99 ms", "hls_refusal_p99_ms", 0),
];

/// Further ones where cameras recorded beside.
const CAMERA_COLUMNS: [(&str, &str, usize); 5] = [
    ("recorded", "cameras_recorded", 0),
    ("refused", "cameras_refused", 0),
    ("held up, s", "camera_held_up_max_s", 2),
    ("lost MB", "cameras_lost_mb", 3),
    ("CPU s/GB", "recording_cpu_s_per_gb", 2),
];

/// Medians, with the spread where there were several runs; the first row is the heading.
pub(crate) fn groups(groups: &[RunGroup]) -> Vec<Vec<String>> {
    let cameras: &[_] = if groups.iter().any(|group| group.cameras > 0) { &CAMERA_COLUMNS } else { &[] };
    let mut head = vec!["server".to_owned()];
    head.extend((!cameras.is_empty()).then(|| "cameras".to_owned()));
    head.extend(["streams", "runs"].map(str::to_owned));
    let hls: &[_] = if groups.iter().any(|group| group.viewers > 0) { &HLS_COLUMNS } else { &[] };
    let seeks: &[_] = if groups.iter().any(|group| group.figure("seeks").is_some()) { &SEEK_COLUMNS } else { &[] };
    let columns = || cameras.iter().chain(&COLUMNS).chain(seeks).chain(hls);
    head.extend(columns().map(|(heading, ..)| (*heading).to_owned()));
    let mut rows = vec![head];
    for group in groups {
        let mut row = vec![group.server.clone()];
        row.extend((!cameras.is_empty()).then(|| group.cameras.to_string()));
        row.extend([group.streams, group.runs].map(|count| count.to_string()));
        row.extend(columns().map(|&(_, name, places)| match group.figure(name) {
            None => "–".to_owned(),
            Some(f) if group.runs == 1 => format!("{:.places$}", f.median),
            Some(f) => format!("{:.places$} ({:.places$}…{:.places$})", f.median, f.min, f.max),
        }));
        rows.push(row);
    }
    rows
}

/// The table of groups as text.
pub(crate) fn text(of: &[RunGroup]) -> String {
    align(&groups(of))
}

/// Columns as wide as their widest cell; the first to the left, figures to the right.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
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
