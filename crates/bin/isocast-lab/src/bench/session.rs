//! Parts that experiments have in common: servers in turn, the yardstick, results shown and kept.

use std::io::Write;

use anyhow::bail;
use units::Nanos;

use super::args::ExperimentArgs;
use super::experiment::{self, RunRequest};
use super::report::{self, ExperimentKind, MostStreams, Results};
use super::search::Most;
use super::server::{Choice, ServerGround};
use super::summary::Run;
use super::{Stop, lab_disk, plan_count, scratch, table, yardstick};
use crate::say;

/// Under this name the disk profile that our server measured is kept.
const PROFILE: &str = "disk profile";

/// One experiment while it runs.
pub(crate) struct Session<'a> {
    common: &'a ExperimentArgs,
    ground: ServerGround,
    stop: &'a Stop,
    results: Results,
    /// Time for repeats of disturbed runs.
    spare: Nanos,
    /// Our server's disk profiles, measured once for all runs.
    _state: Option<tempfile::TempDir>,
}

impl<'a> Session<'a> {
    /// Begins: checks the folders served, and measures the yardstick where there will be writers.
    ///
    /// # Errors
    /// Wrong arguments, or a folder that cannot be read or written.
    pub(crate) fn begin(
        common: &'a ExperimentArgs,
        kind: ExperimentKind,
        title: &str,
        stop: &'a Stop,
    ) -> anyhow::Result<Self> {
        let mut ground = common.ground()?;
        // Faults that would otherwise come to light only after the first run.
        common.lab_disk.as_deref().map(lab_disk::statistics).transpose()?;
        common.out.as_deref().map(report::check).transpose()?;
        let state = if ground.state.is_none() { Some(scratch::folder()?) } else { None };
        if let Some(state) = &state {
            ground.state = Some(state.path().to_owned());
        }
        let label = common.label.clone().unwrap_or_else(|| format!("{kind:?}").to_lowercase());
        let title = common.title.as_deref().unwrap_or(title);
        let results = Results::new(kind, &label, title, ground.roots.first().map(|r| r.as_path()));
        let spare = common.repeats_within.unwrap_or(Nanos::MAX);
        let mut session = Self { common, ground, stop, results, spare, _state: state };
        if common.writers > 0 && !common.no_yardstick {
            session.measure_yardstick()?;
        }
        Ok(session)
    }

    fn measure_yardstick(&mut self) -> anyhow::Result<()> {
        let Some(root) = self.ground.roots.first() else { return Ok(()) };
        say(format_args!("one sequential durable writer alone"));
        let found = yardstick::measure(
            root,
            self.common.lab_disk.as_deref(),
            self.common.upload_size.0,
            yardstick::YARDSTICK,
            self.stop,
        )?;
        say(format_args!("one sequential durable writer alone: {:.1} MB/s", found.mb_per_s));
        self.results.yardstick = Some(found);
        Ok(())
    }

    /// Runs `job` against `choice` and keeps the result.
    ///
    /// # Errors
    /// The server cannot be measured; no stream at all worked; interrupted.
    pub(crate) fn one(&mut self, choice: &Choice, job: &RunRequest) -> anyhow::Result<&Run> {
        let (run, configuration) = experiment::run(choice, &self.ground, job, self.stop, &mut self.spare)?;
        if run.streams > 0 && run.failed == run.admitted && run.cameras.is_none() {
            bail!("{}: not one of {} streams worked: {}", run.server, run.streams, run.why_none());
        }
        say(format_args!("{}", run.sentence()));
        self.results.add(run, configuration);
        if let Some(folder) = &self.common.out {
            self.results.keep(folder)?;
        }
        let kept = self.results.runs.len() - 1;
        Ok(&self.results.runs[kept])
    }

    /// Runs `job` against each of these servers, with another seed in each repeat.
    ///
    /// # Errors
    /// As [`Self::one`].
    pub(crate) fn each(&mut self, choices: &[Choice], repeat: u32, job: &RunRequest) -> anyhow::Result<()> {
        let job = RunRequest { seed: job.seed + u64::from(repeat), ..job.clone() };
        choices.iter().try_for_each(|choice| self.one(choice, &job).map(drop))
    }

    /// Keeps the result of a search: `run` is the one that carried `most`.
    ///
    /// # Errors
    /// `isocast plan` has no answer about it.
    pub(crate) fn found(&mut self, run: &Run, most: &Most) -> anyhow::Result<()> {
        let uploads = run.uploads.as_ref();
        let planned = match (run.server_counts, self.ground.state.as_deref()) {
            (Some(words), Some(state)) => {
                plan_count::of(state, run.rate_bps, words.buffer_bytes, &self.ground.serve_args)?
            }
            _ => None,
        };
        let planned = planned.map(|(profile, planned)| {
            self.results.configurations.entry(PROFILE.to_owned()).or_insert(profile);
            planned
        });
        let found = MostStreams {
            server: run.server.clone(),
            rate_bps: run.rate_bps,
            streams: most.streams,
            too_many: most.too_many,
            resolution_percent: most.resolution_percent(),
            confirmed: most.confirmed,
            next_was_offered_bps: self.last_offer(&run.server),
            upload_mb_per_s: uploads.map(|u| u.mb_per_s),
            upload_share: uploads.and_then(|u| u.share_of_yardstick),
            upload_share_of_left: uploads.and_then(|u| u.share_of_left),
            planned,
        };
        say(format_args!("{}", found.sentence()));
        self.results.found.push(found);
        Ok(())
    }

    /// Rate that `server` offered with its last refusal.
    fn last_offer(&self, server: &str) -> Option<u64> {
        self.results.runs.iter().rev().filter(|run| run.server == server).find_map(|run| run.grantable_bps)
    }

    /// Shows the results, and writes them where an output folder is given.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn finish(self, out: &mut dyn Write) -> anyhow::Result<Results> {
        if let Some(folder) = &self.common.out {
            self.results.write(folder)?;
            say(format_args!("results in {}", folder.display()));
        }
        if self.common.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&self.results)?)?;
        } else {
            for (server, configuration) in &self.results.configurations {
                say(format_args!("--- {server} ---\n{configuration}"));
            }
            write!(out, "{}", table::text(&self.results.groups))?;
            for run in &self.results.runs {
                for reason in run.reasons.iter().chain(&run.disturbed) {
                    writeln!(out, "  {} × {}: {reason}", run.server, run.streams)?;
                }
            }
            for found in &self.results.found {
                writeln!(out, "{}", found.sentence())?;
            }
        }
        Ok(self.results)
    }
}
