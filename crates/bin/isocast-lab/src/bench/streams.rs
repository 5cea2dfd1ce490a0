//! `bench streams`: HiTactix's figures 9 and 10 and HPSM/AVFS's tables 4.1–4.3 and 4.6, on this machine.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use units::Nanos;

use super::args::{ExperimentArgs, SECONDS_MAX};
use super::client::STREAMS_MAX;
use super::client::habits::ViewerHabits;
use super::experiment::RunRequest;
use super::report::ExperimentKind;
use super::search::{Search, SearchTry};
use super::server::Choice;
use super::session::Session;
use super::summary::Run;
use super::{Stop, network};
use crate::say;

/// Streams with which the search for a server that never refuses begins where nothing better is known.
const FROM: usize = 16;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamsCommand {
    #[command(flatten)]
    common: ExperimentArgs,
    /// Numbers of streams to measure.
    #[arg(long, value_delimiter = ',', default_value = "100,200,400", conflicts_with_all = ["find_max", "load"])]
    streams: Vec<usize>,
    /// Find the most streams carried: no stall, delivered / requested ≥ 0.999 but for bursts at the edges, and all admitted
    /// or the others refused.
    #[arg(long, conflicts_with = "load")]
    find_max: bool,
    /// Find the most, then measure this percentage of it for --duration.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    load: Option<usize>,
    /// Streams beyond which the search does not look; a server that refuses by itself gets this number at once.
    #[arg(long, default_value_t = 1_000)]
    max: usize,
    /// Streams with which the search for a server that never refuses begins [default: half of our server's number in the same
    /// run, else 16].
    #[arg(long)]
    from: Option<usize>,
    /// Time that a try of the search measures, unless a player stalls before: two blocks of the largest size or more.
    #[arg(long, default_value = "40s", value_parser = units::parse_duration)]
    probe: Nanos,
    /// Share of the viewers that pause in each minute; a pause lasts 20 s, in which nothing is read.
    #[arg(long, value_name = "PERCENT/min", default_value = "0", value_parser = share_in_a_minute)]
    pause: u64,
    /// Share of the viewers that seek in each minute: they close the connection and ask for the same content from another place on.
    #[arg(long, value_name = "PERCENT/min", default_value = "0", value_parser = share_in_a_minute)]
    seek: u64,
}

/// `90%` or `90`.
fn percent(text: &str) -> Result<usize, String> {
    match text.strip_suffix('%').unwrap_or(text).parse() {
        Ok(percent) if (1..=100).contains(&percent) => Ok(percent),
        _ => Err(format!("`{text}` is no percentage from 1% to 100%")),
    }
}

/// `10%/min`; the unit and the percent sign may be missing.
fn share_in_a_minute(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/min").unwrap_or(text);
    match number.strip_suffix('%').unwrap_or(number).parse() {
        Ok(percent) if percent <= 100 => Ok(percent),
        _ => Err(format!("`{text}` is no share of the viewers in a minute; write for example 10%/min")),
    }
}

impl StreamsCommand {
    /// Runs it.
    ///
    /// # Errors
    /// See [`super::BenchCommand::run`].
    pub(crate) fn run(self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.common.wants_network() {
            return network::run_inside(self.common.shape, stop);
        }
        self.common.warn_of_short_contents();
        let choices = self.common.choices()?;
        let searches = self.find_max || self.load.is_some();
        if searches && !(1..=STREAMS_MAX).contains(&self.max) {
            bail!(crate::wrong_usage(format_args!("--max {} must be 1 to {STREAMS_MAX}", self.max)));
        }
        if searches && (self.probe < Nanos::from_secs(1) || self.probe > Nanos::from_secs(SECONDS_MAX)) {
            bail!(crate::wrong_usage(format_args!("--probe must be from 1s to {SECONDS_MAX}s")));
        }
        // Every number is checked before the first run.
        let numbers = if searches { vec![self.max] } else { self.streams.clone() };
        numbers.iter().try_for_each(|&n| self.common.job(n).map(drop))?;
        let mut session = Session::begin(&self.common, ExperimentKind::Streams, "Streams", stop)?;
        for repeat in 0..self.common.repeat {
            if searches {
                let mut ours = None;
                for choice in &choices {
                    let most = self.search(&mut session, choice, repeat, ours)?;
                    if matches!(choice, Choice::Isocast) {
                        ours = Some(most).filter(|&most| most > 0);
                    }
                    if let Some(load) = self.load {
                        session.one(choice, &self.job((most * load / 100).max(1), repeat)?)?;
                    }
                }
                continue;
            }
            // Servers take turns within each number of streams: drift of the machine hits all alike.
            for &streams in &self.streams {
                for choice in &choices {
                    session.one(choice, &self.job(streams, repeat)?)?;
                }
            }
        }
        session.finish(out).map(drop)
    }

    fn job(&self, streams: usize, repeat: u32) -> anyhow::Result<RunRequest> {
        let job = self.common.job(streams)?;
        let habits = ViewerHabits { pause_percent: self.pause, seek_percent: self.seek };
        Ok(RunRequest { seed: job.seed + u64::from(repeat), habits, ..job })
    }

    /// Finds the most streams `choice` carries. Every run is kept.
    fn search(
        &self,
        session: &mut Session<'_>,
        choice: &Choice,
        repeat: u32,
        ours: Option<usize>,
    ) -> anyhow::Result<usize> {
        let mut search = Search::new(self.begin_with(choice, ours), self.max);
        let mut unharmed = Vec::new();
        while let Some(streams) = search.next() {
            let job = RunRequest { seconds: self.probe.0 / 1_000_000_000, give_up: true, ..self.job(streams, repeat)? };
            let run = session.one(choice, &job)?.clone();
            let is_unharmed = run.carried().is_some();
            search.tell(streams, SearchTry { unharmed: is_unharmed, before_refusal: run.before_first_no() });
            unharmed.extend(is_unharmed.then_some(run));
        }
        let most = search.found();
        // The last of the runs that show the result with the fewest admitted streams.
        let shows = |run: &&Run| most.streams > 0 && run.admitted >= most.streams;
        match unharmed.iter().rev().filter(shows).min_by_key(|run| run.admitted) {
            Some(run) => session.found(run, &most)?,
            None => say(format_args!("{}: not one stream was carried", choice.name())),
        }
        Ok(most.streams)
    }

    /// Streams to begin a search with. Our server refuses by itself: under a larger load it shows its limit and that the
    /// admitted streams keep their rates. The search for a server that never refuses begins at half of `ours`.
    fn begin_with(&self, choice: &Choice, ours: Option<usize>) -> usize {
        match choice {
            Choice::Isocast => self.max,
            _ => self.from.unwrap_or_else(|| ours.map_or(FROM, |ours| ours.div_ceil(2))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read() {
        assert_eq!((percent("90%"), percent("5")), (Ok(90), Ok(5)));
        assert!(percent("0").is_err() && percent("101%").is_err() && percent("x").is_err());
        let share = share_in_a_minute;
        assert_eq!((share("10%/min"), share("5%"), share("0")), (Ok(10), Ok(5), Ok(0)));
        assert!(share("101%/min").is_err() && share("10%/h").is_err() && share("-1").is_err());
    }
}
