//! The plane's thread: the processor time that it takes, when it wakes, and that it does not spin.

use units::Nanos;

use crate::course::Course;
use crate::laws::Law;

/// Most waits in a row at one instant: far more than a tick of the largest plane needs.
const STEPS_AT_ONE_TIME_MAX: u32 = 100_000;

/// The thread of one run.
#[derive(Debug)]
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
    /// Waits since time last went on by more than its own work.
    steps_without_time: u32,
}

impl SimThread {
    pub(crate) fn new(request_cost: Nanos, wake_max: Nanos) -> Self {
        let (processor, delay) = (Nanos::ZERO, Nanos::ZERO);
        Self { request_cost, processor, wake_max, delay, called: false, brought: false, steps_without_time: 0 }
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
        course.waits(until, asked, self.brought);
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
