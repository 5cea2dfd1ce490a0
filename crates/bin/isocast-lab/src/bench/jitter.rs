//! `bench jitter`: the second experiment of HiTactix (§5.2, figures 12 and 13). Streams run alone for a while, then writers
//! upload without pause. The difference of J shows the effect on the streams.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use units::{BitRate, Nanos};

use super::args::ExperimentArgs;
use super::experiment::{RunRequest, Writers};
use super::report::{ExperimentKind, Results};
use super::session::Session;
use super::summary::Run;
use super::{Stop, network};

/// Rate of a stream: 16 streams are the paper's 18 MB/s.
const RATE: BitRate = BitRate(9_000_000);
const DURATION: Nanos = Nanos::from_secs(90);

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct JitterCommand {
    #[command(flatten)]
    common: ExperimentArgs,
    /// Streams; the paper's 18 MB/s are 16 of 9 Mbit/s.
    #[arg(long, default_value_t = 16)]
    streams: usize,
    /// Time from the beginning of measuring to that of the writers, in whole seconds.
    #[arg(long, default_value = "30s", value_parser = units::parse_duration)]
    alone: Nanos,
}

impl JitterCommand {
    /// Runs it.
    ///
    /// # Errors
    /// See [`super::BenchCommand::run`].
    pub(crate) fn run(mut self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.common.wants_network() {
            return network::run_inside(self.common.shape, stop);
        }
        self.common.warn_of_short_contents();
        self.common.writers = self.common.writers.max(1);
        self.common.rate.get_or_insert(RATE);
        self.common.duration.get_or_insert(DURATION);
        let choices = self.common.choices()?;
        if self.alone >= self.common.duration() {
            bail!(crate::wrong_usage(format_args!(
                "--alone {} leaves no time for the writers: --duration is {}",
                self.alone,
                self.common.duration()
            )));
        }
        let base = self.common.job(self.streams)?;
        let base = RunRequest { writers: Writers { after: self.alone, ..base.writers }, ..base };
        let mut session =
            Session::begin(&self.common, ExperimentKind::Jitter, "Streams, then uploads beside them", stop)?;
        for repeat in 0..self.common.repeat {
            session.each(&choices, repeat, &base)?;
        }
        let json = self.common.json;
        let results = session.finish(out)?;
        if !json {
            write!(out, "{}", phases(&results))?;
        }
        Ok(())
    }
}

/// Text: J before and with the writers, one line per run.
fn phases(results: &Results) -> String {
    use std::fmt::Write;
    let mut text = String::from("\nJ (1 s), mean of streams and seconds; the worst second of any stream behind it:\n");
    for run in &results.runs {
        let (Some(before), Some(with)) = (run.before_writer, run.with_writer) else { continue };
        let share = run.uploads.as_ref().and_then(|u| u.share_of_yardstick);
        let share = share.map(|s| format!(", {:.0} % of one writer alone", s * 100.0)).unwrap_or_default();
        let left = run.uploads.as_ref().and_then(|u| u.share_of_left);
        let left = left.map(|s| format!(", {:.0} % of it in the time left", s * 100.0)).unwrap_or_default();
        let _ = writeln!(
            text,
            "{:<16} alone {:.3} % ({:.1})   with uploads {:.3} % ({:.1})   uploads {:.1} MB/s{share}{left}",
            run.server,
            before.j_mean,
            before.j_worst_second,
            with.j_mean,
            with.j_worst_second,
            run.uploads.as_ref().map_or(0.0, |u| u.mb_per_s),
        );
    }
    let over = |run: &Run| run.uploads.as_ref().and_then(|u| u.share_of_left).is_some_and(|share| share > 1.0);
    if results.runs.iter().any(over) {
        text.push_str(
            "More than 100 % of the time left: that server answers before an upload is durable, the one writer waits for each.\n",
        );
    }
    text
}
