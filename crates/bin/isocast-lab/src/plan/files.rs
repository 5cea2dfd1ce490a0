//! The rate that a content needs, as `serve` finds it in the file, and from where.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use media::{MediaRate, ProbeBudget, ReadAt};
use serde::Serialize;
use units::{BitRate, ByteCount};

/// The rate of one file. Without one, only the reason.
#[derive(Debug, Serialize)]
pub(super) struct FileRow {
    file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub(super) rate: Option<FileRate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct FileRate {
    size_bytes: u64,
    container: &'static str,
    duration_seconds: f64,
    pub(super) rate_bps: u64,
    rate_source: &'static str,
    mean_bps: u64,
}

struct OpenFile {
    file: File,
    size: u64,
}

impl ReadAt for OpenFile {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl FileRow {
    pub(super) fn of(file: &Path) -> Self {
        match FileRate::of(file) {
            Ok(rate) => Self { file: file.to_owned(), rate: Some(rate), error: None },
            Err(error) => Self { file: file.to_owned(), rate: None, error: Some(format!("{error:#}")) },
        }
    }

    /// Why it has no rate.
    pub(super) fn reason(&self) -> Option<String> {
        self.error.as_ref().map(|error| format!("{}: {error}", self.file.display()))
    }
}

impl FileRate {
    fn of(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).context("it cannot be opened")?;
        let about = file.metadata().context("it cannot be read")?;
        anyhow::ensure!(about.is_file(), "it is no file");
        let size = about.len();
        let found = media::probe(&mut OpenFile { file, size }, ProbeBudget::default())?;
        let MediaRate { rate, container, source, duration, .. } = found;
        Ok(Self {
            size_bytes: size,
            container: container.name(),
            duration_seconds: duration.as_secs_f64(),
            rate_bps: rate.0,
            rate_source: source.name(),
            mean_bps: found.mean(size).0,
        })
    }
}

pub(super) fn table(rows: &[FileRow]) -> String {
    let mut text = format!(
        "{:>14} {:>14} {:>11} {:>10}  {:<11} {:<18}  file\n",
        "rate", "size/duration", "duration", "size", "container", "found from"
    );
    for row in rows {
        let Some(rate) = &row.rate else { continue };
        let FileRate { size_bytes, container, duration_seconds, rate_bps, rate_source, mean_bps } = rate;
        let _ = writeln!(
            text,
            "{:>14} {:>14} {duration_seconds:>9.1} s {:>10}  {container:<11} {rate_source:<18}  {}",
            BitRate(*rate_bps).to_string(),
            BitRate(*mean_bps).to_string(),
            ByteCount(*size_bytes).to_string(),
            row.file.display()
        );
    }
    text
}
