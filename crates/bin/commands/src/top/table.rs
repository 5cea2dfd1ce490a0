//! Figures as rows of text, for the screen and for `--once`.

use api::{
    Alarm, AlarmSeverity, Class, Direction, Disk, DiskFailure, HeldUpBy, JobStatus, SessionFigures, Stream, System,
    UpkeepStatus, VolumeStatus,
};
use units::real;
use units::{ByteCount, counted};

use super::figures::Figures;

/// A column: its heading, its width in characters, and its rank. A narrow screen shows the columns with the lowest ranks.
pub(super) struct Column(pub(super) &'static str, pub(super) u16, u8);

/// The columns of streams. The last column takes the remaining width.
pub(super) const STREAM_COLUMNS: [Column; 9] = [
    Column("ID", 6, 4),
    Column("CLIENT", 18, 3),
    Column("RATE", 8, 1),
    Column("NOW", 8, 2),
    Column("J %", 8, 7),
    Column("MISSES", 8, 6),
    Column("HELD UP BY", 10, 5),
    Column("SESSION", 14, 8),
    Column("PATH", 11, 0),
];
/// The columns of disks. The last column takes the remaining width.
pub(super) const DISK_COLUMNS: [Column; 9] = [
    Column("DISK", 14, 0),
    Column("STREAMS", 7, 1),
    Column("RT %", 5, 5),
    Column("BE %", 5, 6),
    Column("IDLE %", 6, 7),
    Column("LATE", 14, 4),
    Column("PROMISED %", 10, 2),
    Column("FREE %", 6, 3),
    Column("MORE", 45, 8),
];

/// The indexes of the columns that fit into `width` characters, in their order; at least one.
pub(super) fn fitting<const N: usize>(columns: &[Column; N], width: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..N).collect();
    by_rank.sort_by_key(|at| columns[*at].2);
    let mut taken = 0;
    by_rank.retain(|at| {
        let Column(_, needed, rank) = columns[*at];
        let fits = rank == 0 || taken + needed <= width;
        taken += if fits { needed + 1 } else { 0 };
        fits
    });
    by_rank.sort_unstable();
    by_rank
}

/// Shortens a text to its last `width` characters: paths differ at their ends.
pub(super) fn end_of(text: &str, width: usize) -> String {
    match text.chars().count() {
        count if count <= width => text.to_owned(),
        count => format!("…{}", text.chars().skip(count + 1 - width.max(1)).collect::<String>()),
    }
}

/// Sets items one behind the other, on lines of `width` characters.
pub(super) fn flow(items: &[String], width: usize) -> Vec<String> {
    joined(items.iter().map(String::as_str), "  ", width)
}

/// Breaks a text between words into lines of `width` characters.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    joined(text.split(' '), " ", width)
}

/// Shortens a text to the words that fit on a line of `width` characters, with `…` if words are left out.
pub(super) fn beginning_of(text: &str, width: usize) -> String {
    match wrapped(text, width) {
        lines if lines.len() < 2 => text.to_owned(),
        _ => wrapped(text, width.saturating_sub(2)).swap_remove(0) + " …",
    }
}

fn joined<'a>(items: impl Iterator<Item = &'a str>, gap: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.chars().count() + gap.len() + item.chars().count() <= width => {
                line.push_str(gap);
                line.push_str(item);
            }
            _ => lines.push(item.to_owned()),
        }
    }
    lines
}

/// A stream's row; `now` is its present rate in bits per second, if known.
pub(super) fn stream_row(stream: &Stream, now: Option<f64>) -> [String; 9] {
    let rate = match stream.class {
        Class::Constant => megabits(real(stream.rate_bps)),
        Class::BestEffort => "max".to_owned(),
    };
    let way = if stream.direction == Direction::In { "< " } else { "" };
    let held = match stream.held_up_by {
        None if stream.over_rate => "its rate",
        None => "",
        Some(HeldUpBy::Client) => "client",
        Some(HeldUpBy::Disk) => "disk",
    };
    [
        stream.id.to_string(),
        stream.client.clone(),
        rate,
        now.map(megabits).unwrap_or_default(),
        stream.j_percent.map(|j| format!("{j:.3}")).unwrap_or_default(),
        stream.misses.to_string(),
        held.to_owned(),
        stream.session.as_ref().map(session).unwrap_or_default(),
        format!("{way}{}", printable(&stream.path)),
    ]
}

/// Text of a session: the number of its contents, and their lateness or J.
fn session(session: &SessionFigures) -> String {
    match (session.lag_seconds > 0.0, session.j_percent) {
        (true, _) => format!("{}, {:.1} s late", session.contents, session.lag_seconds),
        (false, Some(j)) => format!("{}, J {j:.3}", session.contents),
        (false, None) => session.contents.to_string(),
    }
}

/// A disk's row.
pub(super) fn disk_row(disk: &Disk) -> [String; 9] {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let phase = |share: fn(&api::Phases) -> f64| disk.phases.as_ref().map(|p| percent(share(p))).unwrap_or_default();
    let carried = format!("{} viewers of 8.8, or {} cameras of 4 Mbit/s", disk.more_streams, disk.more_recordings);
    let (state, more) = match disk.failure {
        None => ("", carried),
        Some(DiskFailure::Erring) => (" errs", "none while it errs".to_owned()),
        Some(DiskFailure::Hung) => (" hangs", "none until it answers".to_owned()),
    };
    [
        format!("{}{state}", printable(&disk.name)),
        disk.streams.to_string(),
        phase(|p| p.real_time),
        phase(|p| p.best_effort),
        phase(|p| p.idle),
        late(&disk.lateness),
        percent(disk.promised_share),
        percent(disk.free_share),
        more,
    ]
}

/// Text: the number of late blocks, and a bound of the greatest lateness.
fn late(buckets: &[u64]) -> String {
    let count: u64 = buckets.iter().sum();
    let Some(latest) = buckets.iter().rposition(|count| *count > 0) else { return "0".to_owned() };
    if latest + 1 == buckets.len() {
        return format!("{count} (> {} ms)", 1u64 << (latest - 1));
    }
    format!("{count} (< {} ms)", 1u64 << latest)
}

/// Figures of the server and its machine, as items in three lines.
pub(super) fn system_items(system: &System) -> [Vec<String>; 3] {
    let share = |share: Option<f64>| share.map_or_else(|| "?".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), |bytes| ByteCount(bytes).to_string());
    let rate = |bps: u64| format!("{} Mbit/s", megabits(real(bps)));
    [
        vec![
            format!("isocast {}", system.version),
            format!("up {:.0} s", system.uptime_seconds),
            format!("streams {}", system.streams),
            format!("uploads {}", system.uploads),
            format!("connections {}", system.connections),
            format!("misses {}", system.misses),
            format!("refused {}", system.refused),
        ],
        vec![
            format!("processors {}", share(system.cpu_share)),
            format!("this server {}", share(system.process_cpu)),
            format!("memory {} of {}", bytes(system.memory_bytes), bytes(system.memory_total_bytes)),
            format!(
                "buffers {} used, {} promised of {}",
                ByteCount(system.buffers.used_bytes),
                ByteCount(system.buffers.promised_bytes),
                ByteCount(system.buffers.total_bytes)
            ),
        ],
        vec![
            format!("promised {}", rate(system.promised_bps)),
            format!("sent {}", rate(system.network_bps)),
            format!("uploaded {}", rate(system.upload_bps)),
            format!("disks {}", rate(system.disk_bps)),
            format!("interfaces {}", system.interfaces_bps.map_or_else(|| "?".to_owned(), rate)),
        ],
    ]
}

/// Volumes and running jobs, one line each.
pub(super) fn work_lines(figures: &Figures) -> Vec<String> {
    let running = figures.jobs.iter().filter(|job| job.running.is_some());
    figures.volumes.iter().map(volume_line).chain(running.map(job_line)).collect()
}

fn volume_line(volume: &VolumeStatus) -> String {
    let free = ByteCount(volume.free_bytes);
    let mut line =
        format!("volume {} ({}): {}, {free} free", volume.name, volume.layout, counted(volume.contents, "content"));
    let fine = ["active", "left"];
    for (number, disk) in volume.disks.iter().enumerate().filter(|(_, disk)| !fine.contains(&disk.state.as_str())) {
        line += &format!(", disk {number} {}", disk.state);
    }
    if volume.damaged_contents > 0 {
        line += &format!(", {} damaged", volume.damaged_contents);
    }
    if let Some(UpkeepStatus { kind, seen_bytes, total_bytes, .. }) = &volume.upkeep {
        line += &format!(", {kind} {}", done_of(*seen_bytes, *total_bytes));
    }
    printable(&line)
}

fn job_line(job: &JobStatus) -> String {
    let done = job.running.as_ref().map(|run| done_of(run.bytes, run.bytes_total)).unwrap_or_default();
    printable(&format!("job {} ({}): {done}", job.name, job.kind))
}

fn done_of(done: u64, total: u64) -> String {
    match total {
        0 => format!("{} done", ByteCount(done)),
        total => format!("{} of {}", ByteCount(done), ByteCount(total)),
    }
}

/// An alarm in one line.
pub(super) fn alarm_line(alarm: &Alarm) -> String {
    let severity = if alarm.severity == AlarmSeverity::Serious { "ALARM " } else { "advice" };
    format!("{severity}  {}: {}", printable(&alarm.about), printable(&alarm.text))
}

/// All figures as text.
pub(super) fn text(figures: &Figures) -> String {
    let mut lines = system_items(&figures.system).map(|items| items.join("  ")).to_vec();
    lines.extend(figures.alarms.iter().map(alarm_line));
    lines.extend(work_lines(figures));
    lines.push(String::new());
    lines.extend(aligned(&DISK_COLUMNS, figures.disks.iter().map(disk_row).collect()));
    lines.push(String::new());
    lines.extend(aligned(&STREAM_COLUMNS, figures.streams.iter().map(|stream| stream_row(stream, None)).collect()));
    lines.join("\n") + "\n"
}

fn aligned<const N: usize>(columns: &[Column; N], rows: Vec<[String; N]>) -> Vec<String> {
    let heads: [String; N] = std::array::from_fn(|at| columns[at].0.to_owned());
    let width = |at: usize| rows.iter().chain([&heads]).map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    std::iter::once(&heads).chain(&rows).map(line).collect()
}

/// Replaces the control characters of a name that a client chose: a terminal would obey them.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn megabits(bps: f64) -> String {
    format!("{:.1}", bps / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_in_words() {
        assert_eq!(late(&[0; 14]), "0");
        assert_eq!(late(&[0, 2, 0, 1, 0, 0]), "3 (< 8 ms)");
        assert_eq!(late(&[0, 2, 0, 1]), "3 (> 4 ms)");
    }

    #[test]
    fn a_disk_that_errs_has_no_room() {
        let disk = |failure: serde_json::Value| {
            let disk = serde_json::json!({
                "id": 0, "name": "sda", "model": "M", "rotational": true, "capacity_bytes": 1, "free_bytes": 1,
                "failing": !failure.is_null(), "failure": failure, "phases": null, "rt_bytes": 0, "be_bytes": 0, "rt_queued": 0,
                "be_queued": 0, "commits": 0, "errors": 0, "promised_share": 0.6, "free_share": 0.3, "slowdown": 1.0,
                "lateness": [], "streams": 2, "more_streams": 17, "more_recordings": 21,
            });
            disk_row(&serde_json::from_value(disk).expect("a disk"))[8].clone()
        };
        assert_eq!(disk(serde_json::Value::Null), "17 viewers of 8.8, or 21 cameras of 4 Mbit/s");
        assert_eq!(disk(serde_json::to_value(DiskFailure::Erring).expect("JSON")), "none while it errs");
    }

    #[test]
    fn columns_of_the_highest_ranks_go_first() {
        let heads =
            |width| fitting(&STREAM_COLUMNS, width).into_iter().map(|at| STREAM_COLUMNS[at].0).collect::<Vec<_>>();
        assert_eq!(heads(200).len(), 9);
        assert_eq!(heads(80), ["ID", "CLIENT", "RATE", "NOW", "MISSES", "HELD UP BY", "PATH"]);
        assert_eq!(heads(20), ["RATE", "PATH"]);
        assert_eq!(heads(3), ["PATH"]);
    }

    #[test]
    fn items_flow_over_lines_and_paths_show_their_ends() {
        let items = ["s sort", "r reverse", "q end"].map(str::to_owned);
        assert_eq!(flow(&items, 40), ["s sort  r reverse  q end"]);
        assert_eq!(flow(&items, 18), ["s sort  r reverse", "q end"]);
        assert_eq!(end_of("series/one/1.ts", 8), "…ne/1.ts");
        assert_eq!(end_of("1.ts", 8), "1.ts");
    }

    #[test]
    fn names_do_not_write_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a?[2Jb");
    }
}
