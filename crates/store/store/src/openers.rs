//! The threads that open and look up contents of a disk or volume: each open waits for reads of its own, and a drive serves those of
//! several in less time than one after the other.
//!
//! Promise: no more operations wait than the queue holds; once its owner is gone, the threads do all that wait, and end. An operation
//! that panics ends alone. Not here: the operations themselves (crates `folder` and `volumes`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use crate::StoreCommon;
use crate::lock::lock;
use crate::operation::OPERATIONS_MAX;

/// The queue of the operations `T` that the threads take.
#[derive(Debug)]
pub struct Openers<T>(SyncSender<T>);

impl<T: Send + 'static> Openers<T> {
    /// Starts `threads` of them, which do operations by `perform`.
    ///
    /// # Errors
    /// A thread cannot be had: as the system says it.
    pub fn start(
        common: &StoreCommon,
        name: &str,
        threads: usize,
        perform: impl Fn(T) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        assert!(threads > 0, "an operation is taken by a thread");
        let (sender, receiver) = mpsc::sync_channel(OPERATIONS_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let (receiver, perform) = (Arc::clone(&receiver), perform.clone());
            common.spawn(name.to_owned(), move || run(&receiver, &perform))?;
        }
        Ok(Self(sender))
    }

    /// Queues an operation; gives it back if too many wait.
    ///
    /// # Errors
    /// The operation.
    pub fn put(&self, operation: T) -> Result<(), T> {
        self.0.try_send(operation).map_err(|error| match error {
            mpsc::TrySendError::Full(operation) | mpsc::TrySendError::Disconnected(operation) => operation,
        })
    }
}

fn run<T>(operations: &Mutex<Receiver<T>>, perform: &impl Fn(T)) {
    loop {
        let next = lock(operations).recv();
        let Ok(operation) = next else { return };
        // The panic hook has logged it, and the lost answer is counted where it is awaited. Shared state is behind `lock`.
        let _ = catch_unwind(AssertUnwindSafe(|| perform(operation)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{StoreBuilder, StoreSettings};

    const THREADS: usize = 4;

    #[test]
    fn an_operation_that_panics_ends_alone() {
        let store = StoreBuilder::new(&StoreSettings::default()).expect("memory is there");
        let openers = Openers::start(store.common(), "open", 1, |answer: Option<mpsc::Sender<()>>| {
            answer.expect("a fault").send(()).expect("awaited");
        });
        let openers = openers.expect("a thread is there");
        let (sender, done) = mpsc::channel();
        openers.put(None).expect("there is room");
        openers.put(Some(sender)).expect("there is room");
        assert_eq!(done.recv(), Ok(()));
    }

    #[test]
    fn operations_are_done_beside_each_other_and_one_too_many_is_given_back() {
        let store = StoreBuilder::new(&StoreSettings::default()).expect("memory is there");
        let (begun, held, done) =
            (Arc::new(Barrier::new(THREADS + 1)), Arc::new(Barrier::new(THREADS + 1)), Arc::new(AtomicUsize::new(0)));
        let (gate, count) = ((Arc::clone(&begun), Arc::clone(&held)), Arc::clone(&done));
        let openers = Openers::start(store.common(), "open", THREADS, move |waits: bool| {
            if waits {
                gate.0.wait();
                gate.1.wait();
            }
            count.fetch_add(1, Ordering::Relaxed);
        });
        let openers = openers.expect("threads are there");
        (0..THREADS).for_each(|_| openers.put(true).expect("there is room"));
        begun.wait();
        (0..OPERATIONS_MAX).for_each(|_| openers.put(false).expect("there is room"));
        assert_eq!(openers.put(false), Err(false));
        drop(openers);
        held.wait();
        // Each thread has a part in `done` until it ends.
        while Arc::strong_count(&done) > 1 {
            std::thread::yield_now();
        }
        assert_eq!(done.load(Ordering::Relaxed), THREADS + OPERATIONS_MAX);
    }
}
