//! The course of a run: virtual time, chance, the events to come, the log of those that were, and the first broken law.
//!
//! Promise: events come in the order of (time, number). Not here: their effects (`world`), the control side's chance.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

use units::Nanos;

use crate::events::{ControlAction, WorldEvent};
use crate::laws::{BrokenLaw, Judgement, Law, Laws};
use crate::log::{LogKind, RunLog, Trace};
use crate::random::Random;

/// The course of one run.
#[derive(Debug)]
pub(crate) struct Course {
    now: Nanos,
    to_come: BTreeMap<(Nanos, u64), WorldEvent>,
    next_event: u64,
    random: Random,
    log: RunLog,
    laws: Laws,
}

impl Course {
    pub(crate) fn new(random: Random, trace: Trace) -> Self {
        let (log, laws) = (RunLog::new(trace), Laws::default());
        Self { now: Nanos::from_secs(1), to_come: BTreeMap::new(), next_event: 0, random, log, laws }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The chance of the world.
    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
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

    /// The action after a random time with this mean; never, if it is zero.
    pub(crate) fn act_after(&mut self, mean: Nanos, random: &mut Random, action: ControlAction) {
        if mean > Nanos::ZERO {
            self.act_in(random.wait(mean), action);
        }
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
        self.laws.broke(law, self.now, description);
    }

    /// The same of a time that has passed.
    pub(crate) fn broke_at(&mut self, law: Law, at: Nanos, description: String) {
        self.laws.broke(law, at, description);
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

    /// The plane waits, see [`Laws::waits`].
    pub(crate) fn waits(&mut self, until: Nanos, asked: bool, brought: bool) {
        self.laws.waits(self.now, until, asked, brought);
    }

    pub(crate) fn broken(&self) -> Option<&BrokenLaw> {
        self.laws.broken()
    }

    pub(crate) fn history(&self) -> &RunLog {
        &self.log
    }
}
