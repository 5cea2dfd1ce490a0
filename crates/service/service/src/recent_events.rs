//! The latest events, kept in memory for clients that follow them.
//!
//! Promise: an event is added without waiting for any client; a client that follows too slowly misses the oldest, and can
//! tell from the numbers. Not here: the right to follow them, and the protocol (`http`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::access::{Permit, ToObserve};
use crate::lock::lock;

/// Events kept.
const KEPT: usize = 256;

/// The latest events, numbered from 1.
#[derive(Debug, Default)]
pub struct RecentEvents {
    kept: Mutex<VecDeque<KeptEvent>>,
    /// The number of the last one.
    last: watch::Sender<u64>,
}

/// An event that is kept.
#[derive(Debug, Clone)]
struct KeptEvent {
    line: Arc<str>,
    /// It names a client, an account or a content.
    is_private: bool,
}

impl RecentEvents {
    /// Adds one, a JSON object in one line.
    pub(crate) fn add(&self, line: Arc<str>, is_private: bool) {
        let mut kept = lock(&self.kept);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(KeptEvent { line, is_private });
        // Under the lock, so that numbers and events belong together.
        self.last.send_modify(|last| *last += 1);
    }

    /// Those kept that came after this number and that the permit may see, with their numbers, the oldest first. A number that was never
    /// given is one of an earlier start of the server: all kept ones come after it.
    #[must_use]
    pub fn after(&self, number: u64, permit: &Permit<ToObserve>) -> Vec<(u64, Arc<str>)> {
        let kept = lock(&self.kept);
        let last = *self.last.borrow();
        let number = if number > last { 0 } else { number };
        let first = last + 1 - kept.len() as u64;
        let seen = |(at, event): (u64, &KeptEvent)| {
            let is_seen = at > number && (permit.sees_others() || !event.is_private);
            is_seen.then(|| (at, Arc::clone(&event.line)))
        };
        (first..).zip(kept.iter()).filter_map(seen).collect()
    }

    /// The number of the last one, which changes with every further one.
    #[must_use]
    pub fn last(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_and_numbers_go_on() {
        let (latest, permit) = (RecentEvents::default(), Permit::of_server());
        assert!(latest.after(0, &permit).is_empty());
        let added = KEPT as u64 + 10;
        (1..=added).for_each(|number| latest.add(format!("{number}").into(), true));
        let all = latest.after(0, &permit);
        assert_eq!((all.len(), all[0].0, &*all[0].1), (KEPT, 11, "11"));
        assert_eq!(latest.after(added - 1, &permit), [(added, format!("{added}").into())]);
        assert!(latest.after(added, &permit).is_empty());
        assert_eq!(latest.after(added + 1, &permit).len(), KEPT, "a number of an earlier start");
        assert_eq!(*latest.last().borrow(), added);
    }
}
