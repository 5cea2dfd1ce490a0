//! Events that wait for one target, and when each is sent next.
//!
//! Promise: urgent events go first, then the oldest; an event that the target did not take waits for its own next attempt, or until the
//! target answers again, and holds up no other; the queue is bounded, and each event leaves it as delivered, failed or dropped. Not here: sending (`post`), the file (`waiting_events`).

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use service::events;

/// Events that wait for one target.
pub(super) const WAITING_MAX: usize = 256;
/// Before the second attempt; each pause is twice the one before.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause: a target that was mended is found within this time.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// The age at which an event is given up; the schedule that Standard Webhooks 1.0.0 proposes ends then as well.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Attempts for an event that the target refuses: the last 15 s after the first, so that a receiver can be restarted.
const REFUSALS_MAX: u32 = 5;

/// An event that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WaitingEvent {
    pub(super) kind: String,
    /// The same in each attempt, and another for each event.
    pub(super) id: String,
    pub(super) line: String,
    happened: SystemTime,
    next: SystemTime,
    attempts: u32,
    /// The target answered its last attempt: it waits for its own next one, also while the target takes others.
    #[serde(skip)]
    is_refused: bool,
}

/// An attempt that the target did not take.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The target was not reached, was too slow, or requested another attempt.
    #[error("{0:#}")]
    Unreached(anyhow::Error),
    /// It answered that it does not want this event.
    #[error("{0:#}")]
    Refused(anyhow::Error),
    /// It answered 410: it wants no more events.
    #[error("{0:#}; no more events are sent to it until the configuration is read again")]
    Gone(anyhow::Error),
}

/// The events of one target, and their counts since the start of the server.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Vec<WaitingEvent>,
    /// The target wants no more events.
    pub(super) is_gone: bool,
    pub(super) delivered: u64,
    pub(super) retried: u64,
    pub(super) failed: u64,
    pub(super) dropped: u64,
    /// The failure of the last attempt.
    pub(super) error: Option<String>,
}

/// The next thing to do for a target.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Send(WaitingEvent),
    /// Nothing is due for this long, unless an event comes.
    Sleep(Duration),
}

impl WaitingEvent {
    pub(super) fn new(kind: String, id: String, line: String, now: SystemTime) -> Self {
        Self { kind, id, line, happened: now, next: now, attempts: 0, is_refused: false }
    }

    /// The time until its next attempt; a clock that was set back does not lengthen it beyond a pause.
    fn due_in(&self, now: SystemTime) -> Duration {
        self.next.duration_since(now).unwrap_or_default().min(PAUSE_MAX)
    }

    fn is_urgent(&self) -> bool {
        events::is_urgent(&self.kind)
    }
}

impl Queue {
    /// A queue with the events that another one of the same target left.
    pub(super) fn with(mut waiting: Vec<WaitingEvent>, now: SystemTime) -> Self {
        let dropped = waiting.len().saturating_sub(WAITING_MAX);
        waiting.drain(..dropped);
        waiting.iter_mut().for_each(|event| event.next = now);
        Self { waiting, dropped: dropped as u64, ..Self::default() }
    }

    /// The events that wait, by age.
    pub(super) fn waiting(&self) -> &[WaitingEvent] {
        &self.waiting
    }

    /// Takes an event; in a full queue the oldest event without urgency makes room.
    pub(super) fn push(&mut self, event: WaitingEvent) {
        if self.is_gone {
            self.dropped += 1;
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            self.dropped += 1;
            match self.waiting.iter().position(|event| !event.is_urgent()) {
                Some(oldest) => drop(self.waiting.remove(oldest)),
                None => return,
            }
        }
        self.waiting.push(event);
    }

    pub(super) fn next(&self, now: SystemTime) -> Next {
        let due = self.waiting.iter().filter(|event| event.due_in(now).is_zero());
        match due.min_by_key(|event| !event.is_urgent()) {
            Some(event) => Next::Send(event.clone()),
            None => Next::Sleep(self.waiting.iter().map(|event| event.due_in(now)).min().unwrap_or(PAUSE_MAX)),
        }
    }

    /// Notes the outcome of an attempt; gives the events that are given up with it.
    pub(super) fn settle(
        &mut self,
        sent: &WaitingEvent,
        outcome: &Result<(), Failure>,
        now: SystemTime,
    ) -> Vec<WaitingEvent> {
        self.error = outcome.as_ref().err().map(ToString::to_string);
        // A newer one may have taken its room meanwhile.
        let Some(at) = self.waiting.iter().position(|event| event.id == sent.id) else { return Vec::new() };
        let given_up = match outcome {
            Ok(()) => {
                self.waiting.remove(at);
                self.delivered += 1;
                // The target is back for all that it did not answer.
                for event in self.waiting.iter_mut().filter(|event| !event.is_refused) {
                    event.next = event.next.min(now);
                }
                return Vec::new();
            }
            Err(Failure::Gone(_)) => {
                self.is_gone = true;
                std::mem::take(&mut self.waiting)
            }
            Err(failure) => {
                let event = &mut self.waiting[at];
                event.attempts += 1;
                event.is_refused = matches!(failure, Failure::Refused(_));
                event.next = now + PAUSE_MIN.saturating_mul(1 << (event.attempts - 1).min(16)).min(PAUSE_MAX);
                let is_unwanted = event.is_refused && event.attempts >= REFUSALS_MAX;
                let is_old = now.duration_since(event.happened).unwrap_or_default() >= AGE_MAX;
                if !is_unwanted && !is_old {
                    self.retried += 1;
                    return Vec::new();
                }
                vec![self.waiting.remove(at)]
            }
        };
        self.failed += given_up.len() as u64;
        given_up
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    fn at(seconds: u64) -> SystemTime {
        START + Duration::from_secs(seconds)
    }

    fn event(kind: &str, number: u64) -> WaitingEvent {
        WaitingEvent::new(kind.to_owned(), number.to_string(), "{}".to_owned(), at(number))
    }

    fn sent(queue: &Queue, now: SystemTime) -> WaitingEvent {
        match queue.next(now) {
            Next::Send(event) => event,
            Next::Sleep(pause) => panic!("nothing is due for {pause:?}"),
        }
    }

    #[test]
    fn an_event_that_is_refused_holds_up_no_other_and_is_given_up_soon() {
        let mut queue = Queue::default();
        (0..3).for_each(|number| queue.push(event("upload_ended", number)));
        let refused = |queue: &mut Queue, now| {
            let event = sent(queue, now);
            (event.id.clone(), queue.settle(&event, &Err(Failure::Refused(anyhow!("400"))), now).len())
        };
        let mut now = at(10);
        assert_eq!(refused(&mut queue, now), ("0".to_owned(), 0));
        for id in ["1", "2"] {
            let event = sent(&queue, now);
            assert_eq!(event.id, id, "the first one waits for itself alone");
            assert!(queue.settle(&event, &Ok(()), now).is_empty());
        }
        assert_eq!(queue.next(now), Next::Sleep(Duration::from_secs(1)));
        for (pause, given_up) in [(1, 0), (2, 0), (4, 0), (8, 1)] {
            now += Duration::from_secs(pause);
            assert_eq!(refused(&mut queue, now), ("0".to_owned(), given_up));
        }
        assert_eq!((queue.delivered, queue.failed, queue.retried, queue.waiting.len()), (2, 1, 4, 0));
    }

    #[test]
    fn a_target_that_is_down_gets_each_event_until_a_day_is_over() {
        let mut queue = Queue::default();
        queue.push(event("miss", 0));
        let (mut now, mut attempts) = (at(0), 0);
        loop {
            let event = sent(&queue, now);
            attempts += 1;
            if !queue.settle(&event, &Err(Failure::Unreached(anyhow!("refused"))), now).is_empty() {
                break;
            }
            let Next::Sleep(pause) = queue.next(now) else { panic!("no pause after attempt {attempts}") };
            assert!(pause <= PAUSE_MAX);
            now += pause;
        }
        assert!((at(24 * 3600)..at(25 * 3600)).contains(&now), "{now:?}");
        assert_eq!((attempts, queue.failed), (12 + 24, 1), "twelve within 68 minutes, then one an hour");
    }

    #[test]
    fn urgent_events_go_first_and_keep_their_room_in_a_full_queue() {
        let mut queue = Queue::default();
        (0..10).for_each(|number| queue.push(event("disk_failing", number)));
        (10..2 * WAITING_MAX as u64).for_each(|number| queue.push(event("upload_ended", number)));
        assert_eq!(queue.waiting.len(), WAITING_MAX);
        assert_eq!(queue.dropped, WAITING_MAX as u64);
        queue.push(event("volume_disk", 1000));
        let mut order = Vec::new();
        while let Next::Send(event) = queue.next(at(2000)) {
            queue.settle(&event, &Ok(()), at(2000));
            order.push(event.id);
        }
        let urgent: Vec<_> = (0..10).chain([1000]).map(|number: u64| number.to_string()).collect();
        assert_eq!(order[..11], urgent);
        assert_eq!(order.len(), WAITING_MAX);
    }

    #[test]
    fn a_target_that_is_back_gets_all_that_it_did_not_answer_urgent_first() {
        let mut queue = Queue::default();
        (0..2).for_each(|number| queue.push(event("upload_ended", number)));
        queue.push(event("job_failed", 2));
        for now in [2, 3, 5, 9, 17, 33].map(at) {
            while let Next::Send(event) = queue.next(now) {
                queue.settle(&event, &Err(Failure::Unreached(anyhow!("refused"))), now);
            }
        }
        queue.push(event("upload_ended", 34));
        let mut order = Vec::new();
        while let Next::Send(event) = queue.next(at(34)) {
            queue.settle(&event, &Ok(()), at(34));
            order.push(event.id);
        }
        assert_eq!(order, ["34", "2", "0", "1"], "the one that finds the target back, then the urgent one");
    }

    #[test]
    fn a_target_that_is_gone_gets_no_more() {
        let mut queue = Queue::default();
        (0..3).for_each(|number| queue.push(event("miss", number)));
        let event = sent(&queue, at(5));
        assert_eq!(queue.settle(&event, &Err(Failure::Gone(anyhow!("410"))), at(5)).len(), 3);
        queue.push(event);
        assert_eq!((queue.failed, queue.dropped, queue.waiting.len()), (3, 1, 0));
    }

    #[test]
    fn a_clock_that_is_set_back_delays_an_event_by_a_pause_at_most() {
        let mut queue = Queue::default();
        queue.push(event("miss", 1_000_000));
        assert_eq!(queue.next(at(0)), Next::Sleep(PAUSE_MAX));
    }
}
