//! State that a disk's thread and its callers share.
//!
//! Promise: neither side waits for the other here. Not here: the callers' side (`disk`), the thread (`worker`).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use units::{DiskFault, DiskId, Nanos, UploadId};

use crate::buffers::Chunk;
use crate::error::StoreError;
use crate::event::EventSender;
use crate::grants::WakeFn;
use crate::lock::lock;
use crate::stats::DiskStats;

/// The data plane's verdict on a disk: it makes the reads of streams, and gives the grants.
pub type PlaneVerdict = Box<dyn Fn(DiskId) -> Option<DiskFault> + Send + Sync>;

/// State that the thread and its callers both see.
pub struct DiskShared {
    /// The disk.
    pub id: DiskId,
    /// Its name in errors (`disk sda`): another disk may take its place in a volume.
    name: Mutex<Arc<str>>,
    /// Its counts.
    pub stats: DiskStats,
    /// Time at which the thread began its present step; zero while it waits.
    busy_since: AtomicU64,
    /// Steps of the disk's openers, each with the time at which it began; gone when it ends.
    opening_since: Mutex<Vec<Weak<Nanos>>>,
    /// Uploads without a handle since it was dropped, each with its chunk that had not been handed over. At most `UPLOADS_MAX` exist.
    aborted: Mutex<Vec<(UploadId, Option<Chunk>)>>,
    /// The way of events to the operator.
    pub events: Arc<EventSender>,
    plane: Arc<OnceLock<PlaneVerdict>>,
    /// The disks whose work the thread does; changes need one of them.
    disks: Vec<DiskId>,
    waker: WakeFn,
    /// Time for which a caller waits.
    pub patience: Duration,
}

impl fmt::Debug for DiskShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskShared").field("id", &self.id).finish_non_exhaustive()
    }
}

impl DiskShared {
    /// The state of a disk of this name whose thread, for all of `disks`, `waker` wakes.
    pub fn new(
        (id, name, disks): (DiskId, String, Vec<DiskId>),
        patience: Duration,
        waker: WakeFn,
        events: Arc<EventSender>,
        plane: Arc<OnceLock<PlaneVerdict>>,
    ) -> Self {
        Self {
            id,
            name: Mutex::new(name.into()),
            stats: DiskStats::default(),
            busy_since: AtomicU64::new(0),
            opening_since: Mutex::default(),
            aborted: Mutex::default(),
            events,
            plane,
            disks,
            waker,
            patience,
        }
    }

    /// Another disk is in its place.
    pub fn rename(&self, name: String) {
        *lock(&self.name) = name.into();
    }

    /// The error of a disk that errs or does not answer.
    pub fn failing(&self) -> StoreError {
        StoreError::DiskFailing(Arc::clone(&lock(&self.name)))
    }

    /// The error as callers of the disk see it: an error of the drive is the disk's.
    pub fn own(&self, error: StoreError) -> StoreError {
        if error.is_of_drive() { self.failing() } else { error }
    }

    /// The error where a change may have been made or not.
    pub fn unsettled(&self) -> StoreError {
        StoreError::Unsettled(Arc::clone(&lock(&self.name)))
    }

    /// Called by the thread around each step that may take long.
    pub fn set_busy(&self, busy: bool) {
        let since = if busy { kernel::clock::monotonic().0.max(1) } else { 0 };
        self.busy_since.store(since, Ordering::Relaxed);
    }

    /// Does a step of one of the disk's openers.
    pub fn open_step<T>(&self, step: impl FnOnce() -> T) -> T {
        let since = Arc::new(kernel::clock::monotonic());
        let mut opening = lock(&self.opening_since);
        opening.retain(|other| other.strong_count() > 0);
        opening.push(Arc::downgrade(&since));
        drop(opening);
        // `since` goes when the step ends, by a panic too.
        step()
    }

    /// The steps of its openers that are under way.
    pub fn open_steps(&self) -> Vec<Weak<Nanos>> {
        lock(&self.opening_since).clone()
    }

    /// True if the thread has been at one step for longer than a caller should wait.
    pub fn is_stuck(&self) -> bool {
        let since = Nanos(self.busy_since.load(Ordering::Relaxed));
        since > Nanos::ZERO && self.is_long(since)
    }

    /// True if the thread, or one of its openers, has been at one step for as long.
    pub fn is_silent(&self) -> bool {
        self.is_stuck() || self.open_steps().iter().filter_map(Weak::upgrade).any(|since| self.is_long(*since))
    }

    fn is_long(&self, since: Nanos) -> bool {
        let patience = u64::try_from(self.patience.as_nanos()).unwrap_or(u64::MAX);
        kernel::clock::monotonic().saturating_sub(since).0 > patience
    }

    /// Failure of the disk: the worse of the data plane's verdict and the silence of its thread and openers.
    pub fn failure(&self) -> Option<DiskFault> {
        self.verdict(self.id, self.is_silent())
    }

    /// True if changes may wait for it: these need the thread and one of its disks, and no opener.
    pub fn is_relied_on(&self) -> bool {
        let is_stuck = self.is_stuck();
        self.disks.iter().any(|disk| self.verdict(*disk, is_stuck).is_none())
    }

    fn verdict(&self, disk: DiskId, is_silent: bool) -> Option<DiskFault> {
        let by_plane = self.plane.get().and_then(|plane| plane(disk));
        by_plane.max(is_silent.then_some(DiskFault::Hung))
    }

    /// The handle of an upload is gone; `rest` had come last.
    pub fn abort(&self, upload: UploadId, rest: Option<Chunk>) {
        let mut aborted = lock(&self.aborted);
        debug_assert!(aborted.iter().all(|(other, _)| *other != upload), "an upload has one handle");
        aborted.push((upload, rest));
        drop(aborted);
        self.wake();
    }

    /// The uploads without a handle since the last call.
    pub fn take_aborted(&self) -> Vec<(UploadId, Option<Chunk>)> {
        std::mem::take(&mut *lock(&self.aborted))
    }

    /// True if there is no upload that the thread has something to do with. Of an upload that begins or ends just now the thread
    /// knows already: `aborted` is emptied before the gauge is looked at.
    pub fn is_settled(&self) -> bool {
        let none_ends = lock(&self.aborted).is_empty();
        none_ends && self.stats.uploads_open.value() == 0
    }

    /// Ends a wait of the thread.
    pub fn wake(&self) {
        (self.waker)();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn shared() -> DiskShared {
        shared_of(vec![DiskId(0)], OnceLock::new())
    }

    /// The state of a thread without patience.
    fn shared_of(disks: Vec<DiskId>, plane: OnceLock<PlaneVerdict>) -> DiskShared {
        let (named, plane) = ((disks[0], "disk".to_owned(), disks), Arc::new(plane));
        DiskShared::new(named, Duration::ZERO, Arc::new(|| {}), Arc::default(), plane)
    }

    fn wait(is_over: impl Fn() -> bool) {
        while !is_over() {
            thread::yield_now();
        }
    }

    #[test]
    fn the_verdict_is_the_worse_of_the_planes_and_the_disks_own_silence() {
        assert!(shared().failure().is_none() && shared().is_relied_on(), "no plane has a verdict yet");
        for by_plane in [None, Some(DiskFault::Erring), Some(DiskFault::Hung)] {
            let shared = shared_of(vec![DiskId(0)], OnceLock::from(Box::new(move |_| by_plane) as PlaneVerdict));
            assert_eq!((shared.failure(), shared.is_relied_on()), (by_plane, by_plane.is_none()));
            shared.open_step(|| {
                wait(|| shared.is_silent());
                let verdict = (shared.failure(), shared.is_relied_on());
                assert_eq!(verdict, (Some(DiskFault::Hung), by_plane.is_none()), "changes need no opener");
            });
            assert_eq!((shared.failure(), shared.is_relied_on()), (by_plane, by_plane.is_none()));
            shared.set_busy(true);
            wait(|| shared.is_stuck());
            assert_eq!((shared.failure(), shared.is_relied_on()), (Some(DiskFault::Hung), false));
            shared.set_busy(false);
            assert_eq!((shared.failure(), shared.is_relied_on()), (by_plane, by_plane.is_none()));
        }
    }

    #[test]
    fn a_thread_of_several_disks_is_relied_on_as_long_as_one_is_good_and_shows_the_failure_of_its_own() {
        let faults = [None, Some(DiskFault::Erring), Some(DiskFault::Hung)];
        for (first, second) in faults.iter().flat_map(|first| faults.map(|second| (*first, second))) {
            let plane: PlaneVerdict = Box::new(move |disk| if disk == DiskId(3) { first } else { second });
            let shared = shared_of(vec![DiskId(3), DiskId(5)], OnceLock::from(plane));
            assert_eq!((shared.failure(), shared.is_relied_on()), (first, first.is_none() || second.is_none()));
            shared.set_busy(true);
            wait(|| shared.is_stuck());
            assert_eq!((shared.failure(), shared.is_relied_on()), (Some(DiskFault::Hung), false));
        }
    }

    #[test]
    fn an_opener_that_hangs_does_not_make_the_thread_stuck() {
        let shared = shared();
        assert!(!shared.is_silent());
        let (begun, held) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                shared.open_step(|| {
                    begun.wait();
                    held.wait();
                });
            });
            begun.wait();
            shared.open_step(|| {});
            wait(|| shared.is_silent());
            assert!(!shared.is_stuck() && shared.is_relied_on());
            held.wait();
        });
        assert!(!shared.is_silent());
    }

    #[test]
    fn a_step_of_an_opener_that_panics_is_over() {
        let shared = shared();
        let step = || shared.open_step(|| panic!("a fault"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(step)).is_err());
        assert!(shared.open_steps().iter().all(|step| step.strong_count() == 0));
    }
}
