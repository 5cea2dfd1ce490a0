//! Figures as rows of text, for the screen and for `--once`.

use api::{Alarm, AlarmSeverity, Class, Direction, Disk, DiskFailure, HeldUpBy, SessionFigures, Stream, System};
use units::ByteCount;
use units::real;

use super::figures::Figures;

/// The columns of streams.
pub(super) const STREAM_COLUMNS: [&str; 9] =
    ["ID", "CLIENT", "RATE", "NOW", "J %", "MISSES", "HELD UP BY", "SESSION", "PATH"];
/// The columns of disks.
pub(super) const DISK_COLUMNS: [&str; 9] =
    ["DISK", "STREAMS", "RT %", "BE %", "IDLE %", "LATE", "PROMISED %", "FREE %", "MORE"];

/// A stream's row; `now` is the rate that it sends or receives, bits per second, where that is known.
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

/// Contents of a session, and by how much they were late.
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
    let state = match disk.failure {
        None => "",
        Some(DiskFailure::Erring) => " errs",
        Some(DiskFailure::Hung) => " hangs",
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
        format!("{} viewers of 8.8, or {} cameras of 4 Mbit/s", disk.more_streams, disk.more_recordings),
    ]
}

/// Number of late blocks, and the lateness of the latest.
fn late(buckets: &[u64]) -> String {
    let count: u64 = buckets.iter().sum();
    let Some(latest) = buckets.iter().rposition(|count| *count > 0) else { return "0".to_owned() };
    if latest + 1 == buckets.len() {
        return format!("{count} (> {} ms)", 1u64 << (latest - 1));
    }
    format!("{count} (< {} ms)", 1u64 << latest)
}

/// The machine in three lines.
pub(super) fn system_lines(system: &System) -> [String; 3] {
    let share = |share: Option<f64>| share.map_or_else(|| "?".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), |bytes| ByteCount(bytes).to_string());
    let rate = |bps: u64| format!("{} Mbit/s", megabits(real(bps)));
    [
        format!(
            "isocast {}  up {:.0} s  streams {}  uploads {}  connections {}  misses {}  refused {}",
            system.version,
            system.uptime_seconds,
            system.streams,
            system.uploads,
            system.connections,
            system.misses,
            system.refused
        ),
        format!(
            "processors {}  this server {}  memory {} of {}  buffers {} used, {} promised of {}",
            share(system.cpu_share),
            share(system.process_cpu),
            bytes(system.memory_bytes),
            bytes(system.memory_total_bytes),
            ByteCount(system.buffers.used_bytes),
            ByteCount(system.buffers.promised_bytes),
            ByteCount(system.buffers.total_bytes)
        ),
        format!(
            "promised {}  sent {}  uploaded {}  disks {}  interfaces {}",
            rate(system.promised_bps),
            rate(system.network_bps),
            rate(system.upload_bps),
            rate(system.disk_bps),
            system.interfaces_bps.map_or_else(|| "?".to_owned(), rate)
        ),
    ]
}

/// An alarm in one line.
pub(super) fn alarm_line(alarm: &Alarm) -> String {
    let severity = if alarm.severity == AlarmSeverity::Serious { "ALARM " } else { "advice" };
    format!("{severity}  {}: {}", printable(&alarm.about), printable(&alarm.text))
}

/// All of it as text.
pub(super) fn text(figures: &Figures) -> String {
    let mut lines = system_lines(&figures.system).to_vec();
    lines.extend(figures.alarms.iter().map(alarm_line));
    lines.push(String::new());
    lines.extend(aligned(DISK_COLUMNS, figures.disks.iter().map(disk_row).collect()));
    lines.push(String::new());
    lines.extend(aligned(STREAM_COLUMNS, figures.streams.iter().map(|stream| stream_row(stream, None)).collect()));
    lines.join("\n") + "\n"
}

fn aligned<const N: usize>(columns: [&str; N], rows: Vec<[String; N]>) -> Vec<String> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(columns[at].len());
    let widths: [usize; N] = std::array::from_fn(width);
    let heads = columns.map(str::to_owned);
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    std::iter::once(&heads).chain(&rows).map(line).collect()
}

/// A name that a client chose, without control characters, which a terminal would obey.
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
    fn names_do_not_write_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a?[2Jb");
    }
}
