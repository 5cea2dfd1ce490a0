//! Timetable: the jobs that are to begin now, and the time of the next look.
//!
//! Promise: a job never runs twice at once; a run that cannot begin within a minute of its time (the server was down, the machine
//! slept, the run before it continues) is counted as missed, and made up by one run where that is wanted.

use std::time::Duration;

use jiff::Timestamp;

use crate::CronSchedule;

/// A run that begins later than this has missed its time.
const LATE_MAX: Duration = Duration::from_secs(60);
/// Missed runs that are counted one by one.
const COUNTED_MAX: u64 = 1000;

/// Policy for runs that missed their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// Nothing: the next one comes at its time.
    #[default]
    Skip,
    /// One run makes up for all of them, as soon as it can.
    Once,
}

/// All jobs, by the number under which they were added.
#[derive(Debug, Default)]
pub struct Timetable {
    entries: Vec<TimedJob>,
    /// Time of the last look: a clock that was set back is noticed.
    last_look: Option<Timestamp>,
}

#[derive(Debug)]
struct TimedJob {
    schedule: CronSchedule,
    policy: Missed,
    /// The next run, as the expression names it; none: it never comes again.
    nominal: Option<Timestamp>,
    is_running: bool,
    missed: u64,
}

impl TimedJob {
    /// Returns the time at which the next run begins.
    fn begin(&self) -> Option<Timestamp> {
        Some(self.schedule.begin(self.nominal?))
    }

    /// True if the job is to begin now. Counts the runs that missed their time, and finds the next one.
    fn is_due(&mut self, now: Timestamp) -> bool {
        if self.is_running || self.begin().is_none_or(|begin| begin > now) {
            return false;
        }
        let (mut passed, mut is_in_time) = (0, false);
        while passed < COUNTED_MAX
            && let Some(begin) = self.begin().filter(|begin| *begin <= now)
        {
            is_in_time = now.duration_since(begin).unsigned_abs() <= LATE_MAX;
            passed += 1;
            self.nominal = self.nominal.and_then(|nominal| self.schedule.after(nominal));
        }
        if self.begin().is_some_and(|begin| begin <= now) {
            self.nominal = self.schedule.after(now);
        }
        let begins = is_in_time || self.policy == Missed::Once;
        self.missed += passed - u64::from(begins);
        begins
    }
}

impl Timetable {
    /// Adds a job with runs up to `last` begun or counted already. Returns its number: they count from 0.
    pub fn add(&mut self, schedule: CronSchedule, policy: Missed, last: Timestamp) -> usize {
        let nominal = schedule.after(last);
        self.entries.push(TimedJob { schedule, policy, nominal, is_running: false, missed: 0 });
        self.entries.len() - 1
    }

    /// The jobs that are to begin now; they are taken to run from now on.
    pub fn begin_due(&mut self, now: Timestamp) -> Vec<usize> {
        if self.last_look.replace(now).is_some_and(|asked| now < asked) {
            for entry in &mut self.entries {
                let next = entry.schedule.after(now);
                entry.nominal = entry.nominal.min(next).or(next);
            }
        }
        let due: Vec<usize> =
            self.entries.iter_mut().enumerate().filter_map(|(at, entry)| entry.is_due(now).then_some(at)).collect();
        due.iter().for_each(|&at| self.entries[at].is_running = true);
        due
    }

    /// Begins a job although it is not due. False: it runs already.
    pub fn begin(&mut self, job: usize) -> bool {
        let was_running = std::mem::replace(&mut self.entries[job].is_running, true);
        !was_running
    }

    /// Notes the end of a job's run.
    pub fn end(&mut self, job: usize) {
        self.entries[job].is_running = false;
    }

    /// Returns the time of the next call of [`Timetable::begin_due`]. It leaves running jobs out: call at their end, too.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.entries.iter().filter(|entry| !entry.is_running).filter_map(TimedJob::begin).min()
    }

    /// Returns the time of a job's next run.
    #[must_use]
    pub fn next_run(&self, job: usize) -> Option<Timestamp> {
        self.entries[job].begin()
    }

    /// Runs of a job that did not begin at their time, and were not made up for.
    #[must_use]
    pub fn missed(&self, job: usize) -> u64 {
        self.entries[job].missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    fn hourly(policy: Missed, jitter: Duration) -> Timetable {
        let mut timetable = Timetable::default();
        let schedule = CronSchedule::parse("0 * * * *", TimeZone::UTC, jitter, "hourly").expect("good");
        timetable.add(schedule, policy, minute(-1));
        timetable
    }

    /// The time this number of minutes after midnight of a day.
    fn minute(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_795_392_000 + 60 * minutes).expect("in range")
    }

    #[test]
    fn a_run_begins_at_its_time_and_never_during_another() {
        let mut timetable = hourly(Missed::Skip, Duration::ZERO);
        assert_eq!((timetable.next_wakeup(), timetable.begin_due(minute(-1))), (Some(minute(0)), vec![]));
        assert_eq!(timetable.begin_due(minute(0)), [0]);
        assert_eq!((timetable.begin_due(minute(60)), timetable.next_wakeup()), (vec![], None), "it runs");
        assert!(!timetable.begin(0));
        timetable.end(0);
        assert_eq!((timetable.begin_due(minute(100)), timetable.missed(0)), (vec![], 1), "that of one o'clock");
        assert_eq!((timetable.next_run(0), timetable.begin_due(minute(120))), (Some(minute(120)), vec![0]));
        timetable.end(0);
        assert!(timetable.begin(0) && timetable.begin_due(minute(180)).is_empty(), "begun by hand");
        timetable.end(0);
        assert_eq!(timetable.begin_due(minute(181)), [0], "a minute late is in time");
    }

    #[test]
    fn missed_runs_are_made_up_for_by_one_run() {
        for (policy, runs, missed) in [(Missed::Skip, 0, 6), (Missed::Once, 1, 5)] {
            let mut timetable = hourly(policy, Duration::ZERO);
            assert_eq!(timetable.begin_due(minute(5 * 60 + 30)).len(), runs, "asleep until half past five");
            assert_eq!((timetable.missed(0), timetable.next_run(0)), (missed, Some(minute(360))));
        }
        let mut timetable = hourly(Missed::Once, Duration::ZERO);
        assert_eq!(timetable.begin_due(minute(0)), [0]);
        timetable.end(0);
        assert!(timetable.begin_due(minute(30)).is_empty(), "nothing was missed");
    }

    #[test]
    fn a_long_sleep_is_not_counted_run_by_run() {
        let mut timetable = hourly(Missed::Skip, Duration::ZERO);
        assert!(timetable.begin_due(minute(60 * 24 * 365 + 30)).is_empty());
        assert_eq!((timetable.missed(0), timetable.next_run(0)), (COUNTED_MAX, Some(minute(60 * 24 * 365 + 60))));
    }

    #[test]
    fn a_clock_that_is_set_back_puts_nothing_off() {
        let mut timetable = hourly(Missed::Skip, Duration::ZERO);
        assert!(timetable.begin_due(minute(10_001)).is_empty());
        assert!(timetable.begin_due(minute(1)).is_empty());
        assert_eq!(timetable.next_wakeup(), Some(minute(60)));
    }

    proptest! {
        /// With runs of any length and looks at any time: each hour is run, missed, or still to come, and none twice.
        #[test]
        fn every_run_is_accounted_for(steps in prop::collection::vec((1i64..400, any::<bool>()), 1..60), once in any::<bool>(), jitter in 0u64..3000) {
            let policy = if once { Missed::Once } else { Missed::Skip };
            let mut timetable = hourly(policy, Duration::from_secs(jitter));
            let (mut now, mut runs, mut is_running) = (0, 0u64, false);
            for (minutes, ends) in steps {
                now += minutes;
                if is_running && ends {
                    timetable.end(0);
                    is_running = false;
                }
                let begun = timetable.begin_due(minute(now));
                prop_assert!(!is_running || begun.is_empty());
                is_running |= !begun.is_empty();
                runs += begun.len() as u64;
                let next = timetable.next_run(0).expect("hours go on");
                prop_assert!(is_running || next > minute(now));
                let accounted = u64::try_from((next.as_second() - minute(0).as_second()) / 3600).expect("after the start");
                prop_assert_eq!(runs + timetable.missed(0), accounted);
            }
        }
    }
}
