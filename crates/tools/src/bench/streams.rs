//! `bench streams`: seed 001's figures 9 and 10 and seed 000's tables 4.1–4.3 and 4.6, on this machine.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use units::Nanos;

use super::args::{Common, SECONDS_MAX};
use super::client::STREAMS_MAX;
use super::experiment::Job;
use super::report::Kind;
use super::server::Choice;
use super::session::Session;
use super::{Stop, network};

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct StreamsCommand {
    #[command(flatten)]
    common: Common,
    /// Numbers of streams to measure.
    #[arg(long, value_delimiter = ',', default_value = "100,200,400", conflicts_with_all = ["find_max", "load"])]
    streams: Vec<usize>,
    /// Find the most streams carried: no stall, delivered / requested ≥ 0.999, and all admitted or the others told no.
    #[arg(long, conflicts_with = "load")]
    find_max: bool,
    /// Find the most, then measure this percentage of it for --duration.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    load: Option<usize>,
    /// The search looks no higher than this; a server that says no by itself is asked for so many at once.
    #[arg(long, default_value_t = 1_000)]
    max: usize,
    /// The search for a server that never says no begins with this many.
    #[arg(long, default_value_t = 16)]
    from: usize,
    /// How long a try of the search measures, unless a player stalls before: two blocks of the largest size or more.
    #[arg(long, default_value = "40s", value_parser = units::parse_duration)]
    probe: Nanos,
}

/// `90%` or `90`.
fn percent(text: &str) -> Result<usize, String> {
    match text.strip_suffix('%').unwrap_or(text).parse() {
        Ok(percent) if (1..=100).contains(&percent) => Ok(percent),
        _ => Err(format!("`{text}` is no percentage from 1% to 100%")),
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
        let choices = self.common.choices()?;
        let searches = self.find_max || self.load.is_some();
        if searches && !(1..=STREAMS_MAX).contains(&self.max) {
            bail!("--max {} must be 1 to {STREAMS_MAX}", self.max);
        }
        if searches && (self.probe < Nanos::from_secs(1) || self.probe > Nanos::from_secs(SECONDS_MAX)) {
            bail!("--probe must be from 1s to {SECONDS_MAX}s");
        }
        // Every number is checked before the first run.
        let numbers = if searches { vec![self.max] } else { self.streams.clone() };
        numbers.iter().try_for_each(|&n| self.common.job(n).map(drop))?;
        let mut session = Session::begin(&self.common, Kind::Streams, "Streams", stop)?;
        for repeat in 0..self.common.repeat {
            if searches {
                for choice in &choices {
                    let most = self.search(&mut session, choice, repeat)?;
                    if let Some(load) = self.load {
                        session.one(choice, &self.job((most * load / 100).max(1), repeat)?)?;
                    }
                }
                continue;
            }
            // Servers take turns within each number of streams: what drifts on the machine hits all alike.
            for &streams in &self.streams {
                for choice in &choices {
                    session.one(choice, &self.job(streams, repeat)?)?;
                }
            }
        }
        session.finish(out).map(drop)
    }

    fn job(&self, streams: usize, repeat: u32) -> anyhow::Result<Job> {
        let job = self.common.job(streams)?;
        Ok(Job { seed: job.seed + u64::from(repeat), ..job })
    }

    /// Finds the most streams `choice` carries. Every run is kept.
    fn search(&self, session: &mut Session<'_>, choice: &Choice, repeat: u32) -> anyhow::Result<usize> {
        // Ours says no by itself: asked for more than it can, it shows its limit and that the others keep theirs.
        let from = if matches!(choice, Choice::Isocast { .. }) { self.max } else { self.from };
        let (mut search, mut best) = (Search::new(from, self.max), None);
        while let Some(streams) = search.next() {
            let job = Job { seconds: self.probe.0 / 1_000_000_000, give_up: true, ..self.job(streams, repeat)? };
            let run = session.one(choice, &job)?.clone();
            if search.tell(run.carried()) {
                best = Some(run);
            }
        }
        if let Some(best) = best {
            session.found(&best, search.carried);
        } else {
            session.show.line(&format!("{}: not one stream was carried", choice.name()));
        }
        Ok(search.carried)
    }
}

/// A search for the largest number that is carried: doubles until it is too many, then halves the gap.
#[derive(Debug)]
struct Search {
    carried: usize,
    /// The least number known not to be carried.
    failed: Option<usize>,
    asked: usize,
    max: usize,
}

impl Search {
    fn new(from: usize, max: usize) -> Self {
        Self { carried: 0, failed: None, asked: from.clamp(1, max), max }
    }

    /// The next number to try; `None` when it is found to within 1 %, at least one stream.
    fn next(&self) -> Option<usize> {
        let found = match self.failed {
            Some(failed) => failed.saturating_sub(self.carried) <= 1.max(failed / 100),
            None => self.carried == self.max,
        };
        (!found).then_some(self.asked)
    }

    /// Of those asked for, so many were `carried` while the others were told no; `None` if somebody suffered. Whether
    /// this is the most so far.
    fn tell(&mut self, carried: Option<usize>) -> bool {
        let most = carried.is_some_and(|carried| carried > self.carried);
        match carried {
            Some(carried) if carried >= self.asked => self.carried = self.carried.max(carried),
            // The server has found the limit by itself.
            Some(carried) => {
                self.carried = self.carried.max(carried);
                self.failed = Some(self.carried + 1);
            }
            None => self.failed = Some(self.asked),
        }
        self.asked = match self.failed {
            Some(failed) => self.carried.midpoint(failed),
            None => (self.asked * 2).min(self.max),
        };
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(limit: usize, from: usize, max: usize) -> (usize, usize) {
        let (mut search, mut runs) = (Search::new(from, max), 0);
        while let Some(n) = search.next() {
            search.tell((n <= limit).then_some(n));
            runs += 1;
            assert!(runs < 40, "{search:?}");
        }
        (search.carried, runs)
    }

    #[test]
    fn the_search_finds_the_limit_in_few_runs() {
        for limit in [0, 1, 2, 15, 16, 17, 50, 54, 97] {
            assert_eq!(find(limit, 16, 1_000).0, limit);
        }
        let (found, runs) = find(731, 16, 1_000);
        assert!((724..=731).contains(&found), "{found}");
        assert!(runs <= 15, "{runs}");
        assert_eq!(find(5_000, 16, 400).0, 400);
    }

    #[test]
    fn a_server_that_says_no_by_itself_is_asked_once_or_halved_if_somebody_suffered() {
        let mut search = Search::new(128, 128);
        assert_eq!(search.next(), Some(128));
        assert!(search.tell(Some(95)));
        assert_eq!((search.next(), search.carried), (None, 95));
        let mut search = Search::new(128, 128);
        assert!(!search.tell(None));
        assert_eq!(search.next(), Some(64));
        assert!(search.tell(Some(64)));
        assert_eq!(search.next(), Some(96));
        assert!(search.tell(Some(90)));
        assert_eq!((search.next(), search.carried), (None, 90));
    }

    #[test]
    fn percentages_are_read() {
        assert_eq!((percent("90%"), percent("5")), (Ok(90), Ok(5)));
        assert!(percent("0").is_err() && percent("101%").is_err() && percent("x").is_err());
    }
}
