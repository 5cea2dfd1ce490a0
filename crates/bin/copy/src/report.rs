//! Cost of a copy: rate, processor, throughput, as in the tables of the evaluation of HPSM (4.4 and 4.5).

use std::time::{Duration, Instant};

use client::Tree;
use serde_json::json;
use units::{BitRate, ByteCount};
use units::{counted, real};

use crate::failures::Failures;
use crate::machine;
use service::machine::MachineSample;

/// Entries that no copy takes: pipes, sockets, devices, links to a folder.
pub const PASSED_OVER: &str = "passed over: neither file nor folder, or a link to a folder";

/// Cost of a copy.
pub struct Summary {
    rate: Option<BitRate>,
    began: Instant,
    begun: Option<MachineSample>,
    /// Files copied.
    pub files: u64,
    /// Bytes copied now.
    pub bytes: u64,
    /// Time of copying, without comparing.
    pub(super) copying: Duration,
    /// Bytes that an earlier copy had left.
    pub(super) resumed_bytes: u64,
    /// Files that were there.
    pub(super) left_as_they_are: u64,
    /// Files read again and found the same.
    pub(super) compared: u64,
    passed_over: u64,
    excluded: u64,
    /// Files stored under hidden names, which a server does not list.
    pub(super) hidden: Failures,
    /// Files removed from the destination.
    pub(super) removed: u64,
    /// Files that were not copied, with the reasons.
    pub failures: Failures,
}

impl Summary {
    pub(super) fn begin(rate: Option<BitRate>, tree: &Tree) -> Self {
        let mut failures = Failures::default();
        tree.unreadable.iter().for_each(|what| failures.add(what));
        Self {
            rate,
            began: Instant::now(),
            begun: machine::sample(),
            files: 0,
            bytes: 0,
            copying: Duration::ZERO,
            resumed_bytes: 0,
            left_as_they_are: 0,
            compared: 0,
            passed_over: tree.passed_over,
            excluded: tree.excluded,
            hidden: Failures::default(),
            removed: 0,
            failures,
        }
    }

    /// Adds the copy of another source.
    pub(super) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.copying += other.copying;
        self.resumed_bytes += other.resumed_bytes;
        self.left_as_they_are += other.left_as_they_are;
        self.compared += other.compared;
        self.passed_over += other.passed_over;
        self.excluded += other.excluded;
        self.removed += other.removed;
        self.hidden.append(other.hidden);
        self.failures.append(other.failures);
    }

    /// Fails if a file or folder was not copied.
    ///
    /// # Errors
    /// How many, and the first of them.
    pub fn check(&self) -> anyhow::Result<()> {
        self.failures.judge("not copied")
    }

    /// Whether the requested rate was kept; none without such a rate. The last byte of a copy leaves when it is due, so its mean is
    /// the rate: a twentieth covers opening and syncing the files.
    fn is_rate_kept(&self) -> Option<bool> {
        let rate = self.rate.filter(|_| self.bytes > 0)?;
        Some(self.throughput_bps() >= real(rate.0) * 0.95)
    }

    /// Says that the rate was not kept, if it was not.
    pub(super) fn broken_rate(&self) -> Option<String> {
        let rate = self.rate.filter(|_| self.is_rate_kept() == Some(false))?;
        let reached = self.throughput_bps() / 1e6;
        Some(format!(
            "the rate of {rate} was not kept: {reached:.1} Mbit/s were reached; the slower side carries no more"
        ))
    }

    fn throughput_bps(&self) -> f64 {
        if self.bytes == 0 { 0.0 } else { real(self.bytes) * 8.0 / self.copying.as_secs_f64().max(1e-6) }
    }

    /// Processor seconds of this process, their percentage of the time since the beginning, comparing included, and busy share of all
    /// processors.
    fn processor(&self) -> Option<(f64, f64, f64)> {
        let (begun, now) = (self.begun?, machine::sample()?);
        let total = now.cpu_total_seconds - begun.cpu_total_seconds;
        let busy = if total > 0.0 { (now.cpu_busy_seconds - begun.cpu_busy_seconds) / total } else { 0.0 };
        let own = now.process_seconds - begun.process_seconds;
        Some((own, own / self.began.elapsed().as_secs_f64().max(1e-3) * 100.0, busy))
    }

    pub(super) fn table(&self) -> String {
        let asked = self.rate.map_or_else(|| "max".to_owned(), |rate| format!("{:.1}", real(rate.0) / 1e6));
        let (_, own, busy) = self.processor().unwrap_or_default();
        let mut text = format!(
            "rate [Mbit/s]  CPU [%]  machine [%]  throughput [Mbit/s]\n{asked:>13}  {own:7.1}  {:11.1}  {:19.2}\n{} in {}, {:.1} s\n",
            busy * 100.0,
            self.throughput_bps() / 1e6,
            ByteCount(self.bytes),
            counted(self.files, "file"),
            self.copying.as_secs_f64(),
        );
        let further = [
            (self.left_as_they_are, "there already"),
            (self.compared, "read again: the same on both sides"),
            (self.removed, "removed, which the source does not have"),
            (self.excluded, "excluded"),
            (self.passed_over, PASSED_OVER),
        ];
        for (count, what) in further.into_iter().filter(|(count, _)| *count > 0) {
            text.push_str(&format!("{count} {what}\n"));
        }
        if self.hidden.count() > 0 {
            text.push_str(&format!("{} stored, which a server does not list: {}\n", self.hidden.count(), self.hidden));
        }
        if self.resumed_bytes > 0 {
            text.push_str(&format!("{} were there from an earlier copy\n", ByteCount(self.resumed_bytes)));
        }
        text
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        let processor = self.processor();
        let object = json!({
            "rate_bps": self.rate.map(|rate| rate.0),
            "throughput_bps": self.throughput_bps(),
            "rate_kept": self.is_rate_kept(),
            "cpu_seconds": processor.map(|(own, ..)| own),
            "cpu_percent": processor.map(|(_, percent, _)| percent),
            "machine_cpu_percent": processor.map(|(.., busy)| busy * 100.0),
            "seconds": self.copying.as_secs_f64(),
            "bytes": self.bytes,
            "files": self.files,
            "resumed_bytes": self.resumed_bytes,
            "left_as_they_are": self.left_as_they_are,
            "compared": self.compared,
            "passed_over": self.passed_over,
            "excluded": self.excluded,
            "hidden": self.hidden.count(),
            "removed": self.removed,
            "failed": self.failures.count(),
        });
        Ok(serde_json::to_string_pretty(&object)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_that_of_the_time_since_the_beginning() {
        let summary = Summary::begin(None, &Tree::default());
        // As a copy that finds all files there and compares them: it copies for no time at all.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        let (own, percent, _) = summary.processor().expect("/proc is there");
        assert!(percent <= own / 0.1 * 100.0, "{percent} % of {own} s");
    }
}
