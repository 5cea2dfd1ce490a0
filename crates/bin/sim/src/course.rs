//! The course of a run: virtual time, chance, the events to come, the log of those that were, and the first broken law.
//!
//! Promise: events come in the order of (time, number). Not here: their effects (`world`), the chance of viewers of segments.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

use units::Nanos;

use crate::events::{ControlAction, WorldEvent};
use crate::laws::{BrokenLaw, Judgement, Law};
use crate::log::{LogKind, RunLog, Trace};
use crate::random::Random;

/// The course of one run.
#[derive(Debug)]
pub(crate) struct Course {
    now: Nanos,
    to_come: BTreeMap<(Nanos, u64), WorldEvent>,
    next_event: u64,
    random: Random,
    demand: Random,
    log: RunLog,
    broken: Option<BrokenLaw>,
}

impl Course {
    /// `random` draws the course of the plane's requests, `demand` the demand and the faults.
    pub(crate) fn new(random: Random, demand: Random, trace: Trace) -> Self {
        let (now, log) = (Nanos::from_secs(1), RunLog::new(trace));
        Self { now, to_come: BTreeMap::new(), next_event: 0, random, demand, log, broken: None }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The chance of the plane's requests.
    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The chance of the demand and of faults.
    pub(crate) fn demand(&mut self) -> &mut Random {
        &mut self.demand
    }

    pub(crate) fn schedule(&mut self, at: Nanos, event: WorldEvent) {
        self.next_event += 1;
        self.to_come.insert((at, self.next_event), event);
    }

    pub(crate) fn schedule_in(&mut self, span: Nanos, event: WorldEvent) {
        self.schedule(self.now.saturating_add(span), event);
    }

    pub(crate) fn act_in(&mut self, span: Nanos, action: ControlAction) {
        self.schedule_in(span, WorldEvent::Control(action));
    }

    /// Time of the next event.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.to_come.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next event, if it is due by `at`.
    pub(crate) fn take_due(&mut self, at: Nanos) -> Option<WorldEvent> {
        self.to_come.first_entry().filter(|first| first.key().0 <= at).map(OccupiedEntry::remove)
    }

    /// It is `at`, if it was earlier.
    pub(crate) fn advance(&mut self, at: Nanos) {
        self.now = self.now.max(at);
    }

    /// Notes an event.
    pub(crate) fn log(&mut self, kind: LogKind, a: u64, b: u64, text: impl FnOnce() -> String) {
        self.log.event(self.now, kind, a, b, text);
    }

    /// Notes that a law is broken, if none was before.
    pub(crate) fn broke(&mut self, law: Law, description: impl Into<String>) {
        self.broke_at(law, self.now, description);
    }

    /// The same of a time that has passed.
    pub(crate) fn broke_at(&mut self, law: Law, at: Nanos, description: impl Into<String>) {
        self.broken.get_or_insert_with(|| BrokenLaw { law, at, description: description.into() });
    }

    /// Notes a finding.
    pub(crate) fn check(&mut self, law: Law, finding: Result<(), String>) {
        self.judge(finding.map_err(|description| (law, description)));
    }

    /// Notes a finding that says which law it is.
    pub(crate) fn judge(&mut self, finding: Judgement) {
        if let Err((law, description)) = finding {
            self.broke(law, description);
        }
    }

    pub(crate) fn broken(&self) -> Option<&BrokenLaw> {
        self.broken.as_ref()
    }

    pub(crate) fn history(&self) -> &RunLog {
        &self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_broken_law_is_kept() {
        let mut course = Course::new(Random::new(1), Random::new(2), Trace::Off);
        course.check(Law::OneOwner, Ok(()));
        assert_eq!(course.broken(), None);
        course.check(Law::OneOwner, Err("first".into()));
        course.broke(Law::NoPanic, "second");
        assert_eq!(course.broken().map(|b| (b.law, b.at)), Some((Law::OneOwner, course.now())));
    }
}
