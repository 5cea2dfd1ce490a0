//! The handle to one disk's thread, and what both sides share.
//!
//! Promise: a caller never waits for ever. A full queue is `Busy`, a thread that is stuck in one system call for longer
//! than the configured patience is `DiskFailing` until it comes back; nobody joins it. Other disks do not notice.
//! Not here: what the thread does (`worker`).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use units::{DiskId, Nanos, UploadId};

use crate::event::EventSender;
use crate::grants::WakeFn;
use crate::operation::{ChangeAnswer, Operation, ReplyTo};
use crate::stats::DiskStats;
use crate::worker::Chunk;
use crate::{Reliance, StoreError};

/// Operations that wait for one disk's thread at most.
pub(crate) const OPERATIONS_MAX: usize = 1024;

/// What the thread and its callers both see.
pub(crate) struct DiskShared {
    pub(crate) id: DiskId,
    pub(crate) stats: DiskStats,
    /// When the thread began what it is doing; zero while it waits.
    busy_since: AtomicU64,
    /// Uploads whose handle was dropped, each with what had not been handed over of it. At most `UPLOADS_MAX` exist.
    aborted: Mutex<Vec<(UploadId, Option<Chunk>)>>,
    pub(crate) events: Arc<EventSender>,
    reliance: Arc<OnceLock<Reliance>>,
    waker: WakeFn,
    patience: Duration,
}

/// A caller's handle. The thread ends when the last one is gone.
#[derive(Debug, Clone)]
pub(crate) struct DiskHandle {
    pub(crate) shared: Arc<DiskShared>,
    operations: Option<mpsc::Sender<Operation>>,
}

impl fmt::Debug for DiskShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("id", &self.id).finish_non_exhaustive()
    }
}

impl DiskShared {
    pub(crate) fn new(
        id: DiskId,
        patience: Duration,
        waker: WakeFn,
        events: Arc<EventSender>,
        reliance: Arc<OnceLock<Reliance>>,
    ) -> Self {
        Self {
            id,
            stats: DiskStats::default(),
            busy_since: AtomicU64::new(0),
            aborted: Mutex::default(),
            events,
            reliance,
            waker,
            patience,
        }
    }

    /// Called by the thread around whatever may take long.
    pub(crate) fn set_busy(&self, busy: bool) {
        let since = if busy { kernel::clock::monotonic().0.max(1) } else { 0 };
        self.busy_since.store(since, Ordering::Relaxed);
    }

    /// True if the thread has been at one thing for longer than anybody should wait.
    pub(crate) fn is_stuck(&self) -> bool {
        let since = self.busy_since.load(Ordering::Relaxed);
        let patience = u64::try_from(self.patience.as_nanos()).unwrap_or(u64::MAX);
        since != 0 && kernel::clock::monotonic().saturating_sub(Nanos(since)).0 > patience
    }

    /// True if it answers, and who reads from the disk has nothing against it.
    pub(crate) fn is_relied_on(&self) -> bool {
        !self.is_stuck() && self.reliance.get().is_none_or(|reliance| reliance(self.id))
    }

    pub(crate) fn abort(&self, upload: UploadId, rest: Option<Chunk>) {
        self.aborted.lock().unwrap_or_else(PoisonError::into_inner).push((upload, rest));
        self.wake();
    }

    pub(crate) fn take_aborted(&self) -> Vec<(UploadId, Option<Chunk>)> {
        std::mem::take(&mut *self.aborted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if there is no upload that the thread has something to do with. Of one that is begun or ends just now the thread
    /// knows already: `aborted` is emptied before the gauge is looked at.
    pub(crate) fn is_settled(&self) -> bool {
        let none_ends = self.aborted.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        none_ends && self.stats.uploads_open.value() == 0
    }

    pub(crate) fn wake(&self) {
        (self.waker)();
    }
}

impl DiskHandle {
    pub(crate) fn new(shared: Arc<DiskShared>) -> (Self, mpsc::Receiver<Operation>) {
        let (sender, receiver) = mpsc::channel(OPERATIONS_MAX);
        (Self { shared, operations: Some(sender) }, receiver)
    }

    fn operations(&self) -> &mpsc::Sender<Operation> {
        self.operations.as_ref().expect("taken only by drop")
    }

    /// Has the thread do an operation, and waits for its answer, but no longer than twice the disk's patience. One whose
    /// caller has given up is not begun.
    pub(crate) async fn call<R>(&self, operation: impl FnOnce(ReplyTo<R>) -> Operation) -> Result<R, StoreError> {
        let (reply, mut answer) = oneshot::channel();
        self.post(operation(reply))?;
        // Twice: a thread that got stuck just before or after the call is known to be by then.
        for _ in 0..2 {
            match timeout(self.shared.patience, &mut answer).await {
                Ok(Ok(result)) => return result.map_err(|error| self.counted(error)),
                Ok(Err(_)) => return Err(StoreError::Closed),
                Err(_) if self.shared.is_stuck() => return Err(StoreError::DiskFailing(self.shared.id)),
                Err(_) => {}
            }
        }
        Err(StoreError::Busy)
    }

    /// What an answer means to callers; errors of the disk are counted, for no read of the data plane tells of these.
    fn counted(&self, error: StoreError) -> StoreError {
        let error = error.of_disk(self.shared.id);
        if matches!(error, StoreError::DiskFailing(_)) {
            self.shared.stats.errors.add(1);
        }
        error
    }

    /// Queues an operation without waiting.
    pub(crate) fn post(&self, operation: Operation) -> Result<(), StoreError> {
        if self.shared.is_stuck() {
            return Err(StoreError::DiskFailing(self.shared.id));
        }
        self.operations().try_send(operation).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                self.shared.stats.busy_refusals.add(1);
                StoreError::Busy
            }
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })?;
        self.shared.wake();
        Ok(())
    }

    /// A place in the queue, waited for. Cancelling the wait loses nothing.
    pub(crate) async fn place(&self) -> Result<mpsc::Permit<'_, Operation>, StoreError> {
        self.while_it_works(async { self.operations().reserve().await.map_err(|_| StoreError::Closed) }).await?
    }

    /// Waits for the answer to a change as long as the disk is relied on. What is given up then is never made, unless it
    /// was begun: [`StoreError::Unsettled`].
    pub(crate) async fn settle<T>(&self, mut change: ChangeAnswer<T>) -> Result<T, StoreError> {
        match self.while_it_works(&mut change.answer).await {
            Ok(answer) => answer.unwrap_or(Err(StoreError::Closed)).map_err(|error| error.of_disk(self.shared.id)),
            Err(silence) if change.give_up() => Err(silence),
            Err(_) => Err(StoreError::Unsettled(self.shared.id)),
        }
    }

    /// Waits for `event` as long as the disk is relied on: for what may rightly take long (grants are rare on a busy
    /// disk). One that hangs under the data plane's reads gets no grants, so that its thread never comes to hang, too.
    pub(crate) async fn while_it_works<T>(&self, event: impl Future<Output = T>) -> Result<T, StoreError> {
        let mut event = std::pin::pin!(event);
        loop {
            match timeout(self.shared.patience, event.as_mut()).await {
                Ok(value) => return Ok(value),
                Err(_) if !self.shared.is_relied_on() => return Err(StoreError::DiskFailing(self.shared.id)),
                Err(_) => {}
            }
        }
    }
}

impl Drop for DiskHandle {
    fn drop(&mut self) {
        // The thread sees that the queue has no senders left only if it looks: drop the sender first, then wake it.
        self.operations = None;
        self.shared.wake();
    }
}
