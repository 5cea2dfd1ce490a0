//! Forecast of a start: the coming round that has room for it, and when its first bytes will have been read then.
//!
//! One step from round to round answers two questions by one bound, the time to first byte. A stream that starts *now* has the queue of today
//! before it ([`DiskTable::starts_behind`]). A rate that is offered or promised is one with which a viewer starts whenever it likes, and
//! seeks later: every round counts, with all promised streams running and no queue ([`DiskTable::starts_at_any_time`]).
//!
//! Promise: a start that is forecast has its first bytes in time if the disk does what it has promised. Not here: the place in the table
//! (`disk_table`), the reads of a start (`start_cost`). See docs/decisions/0007.

use units::Nanos;

use super::demand_load::{DiskDemand, RoundLoad};
use super::disk_table::{DiskTable, PlannedLoads};
use super::rounds::SLOTS;
use super::start_cost::{StartConditions, StartCost};

/// The share of a round that is left when a start is tried that has waited for this round, at any time. Chosen.
const STARTS_WITH: f64 = 0.9;

/// The loads of the coming rounds once the streams that wait for a start have theirs, in their order, each in the first
/// round that has room ([`DiskTable::starts_behind`]).
#[derive(Debug, Clone)]
pub struct StartForecast {
    planned: PlannedLoads,
    /// The earliest that the next one can start, in seconds.
    at: f64,
    /// The conditions that the first to start in its round will meet.
    conditions: StartConditions,
    /// The reads with which others start in that round.
    started: RoundLoad,
}

impl StartForecast {
    /// Goes on to the next round.
    fn pass_round(&mut self, table: &DiskTable) {
        self.at += self.conditions.remaining * table.round().as_secs_f64();
        self.conditions.queued_seconds += table.seconds(self.started);
        self.conditions = table.next_conditions(&self.planned, self.conditions);
        self.planned.forget_starts_before(self.conditions.round);
        self.started = RoundLoad::default();
    }
}

impl DiskTable {
    /// The loads of the coming rounds, for the streams that will start in them from `now` on.
    #[must_use]
    pub fn forecast(&self, now: Nanos, conditions: &StartConditions) -> StartForecast {
        let mut planned = self.planned().clone();
        planned.forget_starts_before(conditions.round);
        StartForecast { planned, at: now.as_secs_f64(), conditions: *conditions, started: RoundLoad::default() }
    }

    /// True if a demand that was asked for at `asked_at` and starts after all those in the forecast has its first bytes in time; it then
    /// is in the forecast as well.
    #[must_use]
    pub fn starts_behind(
        &self,
        forecast: &mut StartForecast,
        demand: &DiskDemand,
        start: &StartCost,
        asked_at: Nanos,
    ) -> bool {
        let deadline = asked_at.saturating_add(self.first_byte_max()).as_secs_f64();
        let mut tried = forecast.clone();
        while tried.at < deadline {
            let queued_seconds = tried.conditions.queued_seconds + self.seconds(tried.started);
            let start = StartCost { conditions: StartConditions { queued_seconds, ..tried.conditions }, ..*start };
            if let Some(first) = self.first_round(&tried.planned, demand, &start) {
                let is_in_time = tried.at + self.first_byte_seconds(demand, &start, first) <= deadline;
                if is_in_time {
                    tried.planned.enter_start(demand, &start, first);
                    tried.started = tried.started.plus(start.reads(first, demand)[0]);
                    *forecast = tried;
                }
                return is_in_time;
            }
            tried.pass_round(self);
        }
        false
    }

    /// True if a demand that fits has its first bytes in time whichever round it is asked for in, once all promised streams run and the
    /// reads of other starts are over; `start` says how large its own are. Promises without a place yet count as evenly spread.
    #[must_use]
    pub fn starts_at_any_time(&self, demand: &DiskDemand, start: &StartCost) -> bool {
        let settled = self.settled();
        let mut rounds = [StartConditions::idle(0); SLOTS];
        // Once around the table shows the work that each round finds left of those before it.
        for at in 1..2 * SLOTS {
            rounds[at % SLOTS] = self.next_conditions(&settled, rounds[(at - 1) % SLOTS]);
        }
        let (within, round) = (self.first_byte_max().as_secs_f64(), self.round().as_secs_f64());
        let is_in_time = |asked: usize, at: usize| {
            // Nothing may be left of the round in which it is asked for.
            let remaining = if at == asked { 0.0 } else { STARTS_WITH };
            let conditions = StartConditions { remaining, ..rounds[at % SLOTS] };
            let start = StartCost { conditions, ..*start };
            // The later its first regular read, the longer the first read of its start.
            let last = conditions.round + u64::from(demand.period);
            (at - asked) as f64 * round + self.first_byte_seconds(demand, &start, last) <= within
                && self.rounds_with_room(&settled, demand, &start).next().is_some()
        };
        let mut asked = 0;
        while asked < SLOTS {
            // The last round in time is so for all that are asked for before it.
            let Some(at) = (asked..asked + SLOTS).rev().find(|&at| is_in_time(asked, at)) else { return false };
            asked = at.max(asked + 1);
        }
        true
    }

    /// The conditions of a start in the round after these, with nothing left of this one but what it cannot do.
    fn next_conditions(&self, planned: &PlannedLoads, now: StartConditions) -> StartConditions {
        let carried = (now.queued_seconds - now.remaining * self.seconds_to_promise()).max(0.0);
        let round = now.round + 1;
        StartConditions { queued_seconds: carried + self.seconds(planned.at(round)), ..StartConditions::idle(round) }
    }

    /// Seconds from a start to its first bytes: everything that is queued before them is read.
    fn first_byte_seconds(&self, demand: &DiskDemand, start: &StartCost, first: u64) -> f64 {
        start.conditions.queued_seconds + self.seconds(start.reads(first, demand)[0])
    }
}
