//! The plane's thread: the processor time that it takes, when it wakes, and that it does not spin.

use units::Nanos;

use crate::course::Course;
use crate::laws::Law;

/// Most waits in a row at one instant: far more than a tick of the largest plane needs.
const STEPS_AT_ONE_TIME_MAX: u32 = 100_000;
/// Fruitless waits in a row that are allowed: one may ask for a time that has just passed, not again and again.
const FRUITLESS_MAX: u32 = 1;

/// The thread of one run.
#[derive(Debug, Default)]
pub(crate) struct SimThread {
    /// Processor time per request (a send, a read, a completion), and in all.
    request_cost: Nanos,
    processor: Nanos,
    /// Longest time that it usually takes to wake.
    wake_max: Nanos,
    /// Its next wake-up is late by this much.
    delay: Nanos,
    /// It has called for something since its last wait, and that brought something.
    called: bool,
    brought: bool,
    /// Waits in a row that were asked for in the past and brought nothing.
    fruitless: u32,
    /// Waits since time last went on by more than its own work.
    steps_without_time: u32,
}

impl SimThread {
    pub(crate) fn new(request_cost: Nanos, wake_max: Nanos) -> Self {
        Self { request_cost, wake_max, ..Self::default() }
    }

    pub(crate) fn processor(&self) -> Nanos {
        self.processor
    }

    /// It calls for something that is no read and no send.
    pub(crate) fn calls(&mut self) {
        self.called = true;
    }

    /// It begins to wait, having queued so many `requests`.
    pub(crate) fn waits(&mut self, until: Nanos, requests: usize, course: &mut Course) {
        let asked = std::mem::take(&mut self.called) || requests > 0;
        let fruitless = until <= course.now() && !asked && !self.brought;
        self.fruitless = if fruitless { self.fruitless + 1 } else { 0 };
        if self.fruitless > FRUITLESS_MAX {
            course.broke(Law::NoSpinning, format!("waits until {until}, {} times in a row", self.fruitless));
        }
        self.charge(requests, course);
        self.steps_without_time += 1;
    }

    /// It has waited since `begun`, and takes a moment to wake; a fault may make it a long one. Returns by how much.
    pub(crate) fn wakes(&mut self, begun: Nanos, course: &mut Course) -> Nanos {
        if course.now() > begun {
            self.steps_without_time = 0;
        }
        let delay = std::mem::take(&mut self.delay);
        let usual = Nanos(course.random().below(self.wake_max.0));
        course.advance(course.now().saturating_add(delay).saturating_add(usual));
        delay
    }

    /// It receives so many completions, and perhaps other `news`.
    pub(crate) fn receives(&mut self, completions: usize, news: bool, course: &mut Course) {
        self.brought = completions > 0 || news;
        self.charge(completions, course);
    }

    /// Its next wake-up is late.
    pub(crate) fn delay(&mut self, delay: Nanos) {
        self.delay = delay;
    }

    pub(crate) fn is_delayed(&self) -> bool {
        self.delay > Nanos::ZERO
    }

    pub(crate) fn judge_spinning(&self, course: &mut Course) {
        if self.steps_without_time > STEPS_AT_ONE_TIME_MAX {
            course.broke(Law::NoSpinning, "time does not go on");
        }
    }

    /// Processor time for `requests`, and as much real time.
    fn charge(&mut self, requests: usize, course: &mut Course) {
        let spent = self.request_cost.saturating_mul(requests as u64 + 1);
        self.processor += spent;
        course.advance(course.now() + spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Trace;
    use crate::random::Random;

    #[test]
    fn spinning_is_waiting_for_the_past_again_and_again() {
        let (mut thread, mut course) =
            (SimThread::new(Nanos::ZERO, Nanos(1)), Course::new(Random::new(1), Random::new(2), Trace::Off));
        let (past, future) = (Nanos::ZERO, Nanos::MAX);
        for _ in 0..100 {
            thread.waits(past, 0, &mut course);
            thread.waits(future, 0, &mut course);
            thread.waits(past, 1, &mut course);
            thread.receives(1, false, &mut course);
            thread.waits(past, 0, &mut course);
            thread.receives(0, false, &mut course);
        }
        assert_eq!(course.broken(), None);
        thread.waits(past, 0, &mut course);
        thread.waits(past, 0, &mut course);
        assert_eq!(course.broken().map(|b| b.law), Some(Law::NoSpinning));
    }
}
