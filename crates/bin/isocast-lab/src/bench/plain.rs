//! `bench plain`: streams without a cyclic schedule (HiTactix, figure 13): each reads its file at its rate through the page cache and
//! the kernel's scheduler, and after a while writers begin.
//!
//! It serves no clients: it is the program that the paper compares with, a reader and a writer on the same disk. The same load with the
//! schedule is `bench jitter` (figure 12).

use std::fs::{self, File};
use std::io::{Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::bail;
use clap::Args;
use units::{BitRate, Nanos, real};

use super::figure_table::{FigureOutput, FigureTable, TableFigure};
use super::{Stop, clock, files, scratch};

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlainCommand {
    /// A folder on the disk that is read and written.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Streams; the paper's 18 MB/s are 16 of 9 Mbit/s.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    streams: u32,
    /// Rate of a stream.
    #[arg(long, default_value = "9M", value_parser = units::parse_rate)]
    rate: BitRate,
    /// Time to measure, in whole seconds.
    #[arg(long, default_value = "60s", value_parser = units::parse_duration)]
    duration: Nanos,
    /// Span after which the writers begin.
    #[arg(long, default_value = "20s", value_parser = units::parse_duration)]
    alone: Nanos,
    /// Writers: each writes 10 MB after 10 MB and syncs each.
    #[arg(long, default_value_t = 1)]
    writers: u32,
    /// Measure 15 s, of which 5 s alone, to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: FigureOutput,
}

/// A reader's cycle, as the paper's.
const CYCLE: Nanos = Nanos::from_millis(250);
/// A reader's calls, and a writer's.
const CALL_BYTES: usize = 64 << 10;
const UPLOAD_BYTES: usize = 10_000_000;
const SECOND: Nanos = Nanos::from_secs(1);

/// Bytes moved in each second.
type Seconds = Arc<Vec<AtomicU64>>;

impl PlainCommand {
    /// Runs it.
    ///
    /// # Errors
    /// The folder cannot be written, or there is no room.
    pub(crate) fn run(self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        let (span, alone) = if self.quick {
            (SECOND.saturating_mul(15), SECOND.saturating_mul(5))
        } else {
            (self.duration, self.alone)
        };
        if alone >= span {
            bail!(crate::wrong_usage(format_args!(
                "--alone {alone} leaves no time for the writers: --duration is {span}"
            )));
        }
        let seconds = usize::try_from(span.0 / SECOND.0)?;
        let folder = scratch::folder_in(&self.root)?;
        let bytes = self.rate.bytes_in(span + SECOND);
        let files: Vec<_> = (0..self.streams).map(|number| folder.path().join(format!("film-{number}"))).collect();
        files.iter().try_for_each(|file| files::write_cold(file, bytes, stop))?;
        let counts = || -> Seconds { Arc::new((0..seconds).map(|_| AtomicU64::new(0)).collect()) };
        let (read, written) = (files.iter().map(|_| counts()).collect::<Vec<_>>(), counts());
        let begun = clock::now() + CYCLE;
        thread::scope(|scope| {
            for (file, counts) in files.iter().zip(&read) {
                scope.spawn(move || read_at(file, self.rate, (begun, span), counts, stop));
            }
            for number in 0..self.writers {
                let (path, written) = (folder.path().join(format!("upload-{number}")), &written);
                scope.spawn(move || write_from(&path, begun + alone, (begun, span), written, stop));
            }
        });
        stop.check()?;
        let mut table = FigureTable::new(
            "plain",
            "Streams and an upload through the page cache, without the cyclic schedule",
            "second",
            &[
                TableFigure::new("streams_mb_per_s", "streams, MB/s", 1),
                TableFigure::new("writers_mb_per_s", "writers, MB/s", 1),
                TableFigure::new("j_percent", "J, %", 1),
                TableFigure::new("j_worst_percent", "J of the worst stream, %", 1),
            ],
            Some(&self.root),
        )
        .linear();
        table.note(format!(
            "{} readers of {} each, cold, 64 KiB a call, each cycle of {CYCLE}; after {alone} {} writers of 10 MB with a sync each. J: how far \
             the bytes of a second are from the rate, in the mean of the streams",
            self.streams, self.rate, self.writers
        ));
        let asked = real(self.rate.bytes_in(SECOND));
        for second in 0..seconds {
            let of = |counts: &Seconds| real(counts[second].load(Ordering::Relaxed));
            let deviations: Vec<f64> = read.iter().map(|counts| (of(counts) - asked).abs() / asked * 100.0).collect();
            let values = [
                ("streams_mb_per_s", read.iter().map(of).sum::<f64>() / 1e6),
                ("writers_mb_per_s", of(&written) / 1e6),
                ("j_percent", deviations.iter().sum::<f64>() / real(deviations.len() as u64)),
                ("j_worst_percent", deviations.iter().copied().fold(0.0, f64::max)),
            ];
            table.add("without a schedule", real(second as u64 + 1), &values);
        }
        table.finish(&self.output, out)
    }
}

/// Counts bytes that were moved now.
fn count(counts: &Seconds, begun: Nanos, bytes: u64) {
    let second = clock::now().saturating_sub(begun).0 / SECOND.0;
    if let Some(count) = usize::try_from(second).ok().and_then(|second| counts.get(second)) {
        count.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Reads a file at a rate: in each cycle the bytes of a cycle; a late cycle does not wait before the next.
fn read_at(path: &Path, rate: BitRate, (begun, span): (Nanos, Nanos), counts: &Seconds, stop: &Stop) {
    let Ok(mut file) = File::open(path) else { return };
    let mut call = vec![0; CALL_BYTES];
    for cycle in 0..span.0 / CYCLE.0 {
        clock::sleep_until(begun + CYCLE.saturating_mul(cycle));
        let mut left = rate.bytes_in(CYCLE);
        while left > 0 && !stop.is_set() && clock::now() < begun + span {
            let wanted = usize::try_from(left).unwrap_or(CALL_BYTES).min(CALL_BYTES);
            match file.read(&mut call[..wanted]) {
                Ok(0) | Err(_) => return,
                Ok(got) => {
                    count(counts, begun, got as u64);
                    left -= got as u64;
                }
            }
        }
    }
}

/// Writes 10 MB again and again, as uploads do, from `first` on.
fn write_from(path: &Path, first: Nanos, (begun, span): (Nanos, Nanos), counts: &Seconds, stop: &Stop) {
    let piece = vec![2; CALL_BYTES];
    clock::sleep_until(first);
    while clock::now() < begun + span && !stop.is_set() {
        let Ok(mut file) = File::create(path) else { return };
        let whole = (0..UPLOAD_BYTES.div_ceil(CALL_BYTES)).all(|_| file.write_all(&piece).is_ok());
        if !whole || file.sync_all().is_err() {
            return;
        }
        let bytes = file.stream_position().unwrap_or(0);
        count(counts, begun, bytes);
    }
    let _ = fs::remove_file(path);
}
