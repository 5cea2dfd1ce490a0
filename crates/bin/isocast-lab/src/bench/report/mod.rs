//! Results of a benchmark: raw results, and the reports that `isocast-lab report` makes of them.
//!
//! Promise: everything shown is made from the raw results in the same folder, so that it can be made again.

mod command;
mod comparison;
mod figures;
mod html;
mod plot;

pub(crate) use command::ReportCommand;
pub(crate) use plot::{Plot, PlotLine};

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::group::{RunGroup, groups};
use super::host::Host;
use super::plan_count::Planned;
use super::summary::Run;
use super::yardstick::Yardstick;
use units::BitRate;

/// Marks a file as raw results of this program, and their shape.
const FORMAT: &str = "isocast-bench-1";

/// The kinds of experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExperimentKind {
    /// Numbers of streams.
    Streams,
    /// Streams, then writers.
    Jitter,
    /// Streams that run with HLS viewers.
    Hls,
    /// Streams that run with cameras.
    Recorder,
}

/// The most streams a server carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MostStreams {
    /// The server measured.
    pub server: String,
    /// Rate of a stream, bit/s.
    pub rate_bps: u64,
    /// Streams carried.
    pub streams: usize,
    /// The least number that was not carried, or was refused; `None` if the search's highest was carried.
    pub too_many: Option<usize>,
    /// Gap between the two, percent.
    pub resolution_percent: Option<f64>,
    /// Whether it was carried twice and nothing was left to try.
    pub confirmed: bool,
    /// The rate offered to the next one, where the server refuses by itself.
    pub next_was_offered_bps: Option<u64>,
    /// Rate of uploads meanwhile, 10^6 bytes per second.
    pub upload_mb_per_s: Option<f64>,
    /// The same as a share of one sequential durable writer's with the disk to itself.
    pub upload_share: Option<f64>,
    /// The same as a share of that writer's rate in the time that reads left.
    pub upload_share_of_left: Option<f64>,
    /// The plan of `isocast plan`, from the profile that the server measured.
    pub planned: Option<Planned>,
}

impl MostStreams {
    /// Result in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let mut text = format!("{}: {} streams of {} carried", self.server, self.streams, BitRate(self.rate_bps));
        match (self.too_many, self.resolution_percent) {
            (Some(too_many), Some(percent)) => {
                let _ = write!(text, ", {too_many} not (resolution {percent:.1} %)");
            }
            _ => text.push_str(", more were not tried"),
        }
        text.push_str(if self.confirmed { ", confirmed" } else { ", NOT confirmed" });
        if let Some(uploads) = self.upload_mb_per_s {
            let _ = write!(text, ", uploads {uploads:.1} MB/s");
        }
        if let Some(share) = self.upload_share {
            let _ = write!(text, " ({:.0} % of one writer alone)", share * 100.0);
        }
        if let Some(share) = self.upload_share_of_left {
            let _ = write!(text, " ({:.0} % of one writer in the time left)", share * 100.0);
        }
        if let Some(offered) = self.next_was_offered_bps {
            let _ = write!(text, "; the next one was offered {}", BitRate(offered));
        }
        if let Some(planned) = &self.planned {
            let _ = write!(text, "; planned {} (limit: {})", planned.streams, planned.limited_by);
            if self.upload_mb_per_s.is_some() {
                let _ = write!(text, " with uploads of {:.1} MB/s or more", planned.upload_mb_per_s);
            }
        }
        text
    }
}

/// The raw results of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// [`FORMAT`].
    pub format: String,
    /// The kind of experiment.
    pub kind: ExperimentKind,
    /// Its name: of its files, and in reports.
    pub label: String,
    /// Subject in a line.
    pub title: String,
    /// Machine and date.
    pub host: Host,
    /// The command line.
    pub command: Vec<String>,
    /// Configuration of each server.
    pub configurations: BTreeMap<String, String>,
    /// Rate of a sequential durable writer there.
    pub yardstick: Option<Yardstick>,
    /// Results of searches.
    pub found: Vec<MostStreams>,
    /// Repeated runs taken together.
    pub groups: Vec<RunGroup>,
    /// Each run.
    pub runs: Vec<Run>,
}

impl Results {
    /// Results of `runs` measured here and now.
    pub(crate) fn new(kind: ExperimentKind, label: &str, title: &str, root: Option<&Path>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            kind,
            label: label.to_owned(),
            title: title.to_owned(),
            host: Host::here(root),
            command: std::env::args().collect(),
            configurations: BTreeMap::new(),
            yardstick: None,
            found: Vec::new(),
            groups: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds a run, its server's configuration, and compares its uploads with the yardstick.
    pub(crate) fn add(&mut self, mut run: Run, configuration: String) {
        if let (Some(uploads), Some(yardstick)) = (&mut run.uploads, &self.yardstick) {
            uploads.compare(yardstick);
        }
        self.configurations.entry(run.server.clone()).or_insert(configuration);
        self.runs.push(run);
        self.groups = groups(&self.runs);
    }

    /// Keeps the results so far in `label.unfinished`: a benchmark that is broken off leaves it, and no results that
    /// would pass for whole.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        self.save(folder, "unfinished").map(drop)
    }

    /// Writes `label.json` into `folder`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = self.save(folder, "json")?;
        // There is none where nothing was kept before.
        let _ = fs::remove_file(path.with_file_name(format!("{}.unfinished", self.label)));
        Ok(())
    }

    fn save(&self, folder: &Path, ending: &str) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let path = folder.join(format!("{}.{ending}", self.label));
        let text = serde_json::to_string(self)? + "\n";
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// Makes `folder`, and sees that it can be written.
///
/// # Errors
/// It cannot.
pub(crate) fn check(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    tempfile::tempfile_in(folder).map(drop).with_context(|| format!("writing into {}", folder.display()))
}

/// All results in `folder`, by label.
///
/// # Errors
/// The folder or a file of results cannot be read.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Vec<Results>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            // Other JSON may lie there; a file that names our format must be readable.
            if text.contains(FORMAT) {
                let results = serde_json::from_str(&text);
                all.push(results.with_context(|| format!("reading the results in {}", path.display()))?);
            }
        }
    }
    all.sort_by(|a: &Results, b: &Results| a.label.cmp(&b.label));
    Ok(all)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::summary::Second;
    use super::*;

    /// Two servers at two numbers of streams.
    pub(in super::super) fn sample(label: &str) -> Results {
        let mut results = Results::new(ExperimentKind::Streams, label, "Contents in memory", None);
        for (server, streams) in [("isocast", 100), ("nginx", 100), ("isocast", 200), ("nginx", 200)] {
            let rate = f64::from(streams) * 8.8e6;
            let run = Run {
                server: server.to_owned(),
                streams: usize::try_from(streams).unwrap(),
                admitted: usize::try_from(streams).unwrap(),
                rate_bps: 8_800_000,
                seconds: 1,
                requested_bps: rate,
                delivered_bps: rate * 0.9999,
                ratio: 0.9999,
                series: vec![Second { at: 1, delivered_mbps: rate / 1e6, ..Second::default() }],
                ..Run::default()
            };
            results.add(run, format!("how <{server}> was set up"));
        }
        results
    }

    #[test]
    fn written_results_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let results = sample("warm");
        results.keep(folder.path()).unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        results.write(folder.path()).unwrap();
        assert!(!folder.path().join("warm.unfinished").exists());
        assert_eq!(read(folder.path()).unwrap(), [results]);
    }
}
