//! The handle to one disk's thread, and its openers.
//!
//! Promise: a caller never waits for ever. A full queue is `Busy`, a thread that is stuck in one system call for longer than the
//! configured patience is `DiskFailing` until it comes back; no caller joins it. A stuck opener is so for queries alone. Other disks do not notice.
//! Not here: the work of the thread (`worker`).

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::StoreError;
use crate::openers::Openers;
use crate::operation::{ChangeAnswer, OPERATIONS_MAX, Operation, ReplyTo, StoreQuery};
use crate::shared::DiskShared;

/// A caller's handle. The thread ends when the last one is gone.
#[derive(Debug, Clone)]
pub struct DiskHandle {
    /// State that the thread shares.
    pub shared: Arc<DiskShared>,
    operations: Option<mpsc::Sender<Operation>>,
    /// Without these, the thread answers queries itself.
    openers: Option<Arc<Openers<StoreQuery>>>,
}

impl DiskHandle {
    /// A handle, and the operations that it queues, for the disk's thread.
    pub fn new(shared: Arc<DiskShared>) -> (Self, mpsc::Receiver<Operation>) {
        let (sender, receiver) = mpsc::channel(OPERATIONS_MAX);
        (Self { shared, operations: Some(sender), openers: None }, receiver)
    }

    /// Has queries answered by `openers`, which end with the last handle.
    #[must_use]
    pub fn with_openers(mut self, openers: Openers<StoreQuery>) -> Self {
        self.openers = Some(Arc::new(openers));
        self
    }

    fn operations(&self) -> &mpsc::Sender<Operation> {
        self.operations.as_ref().expect("taken only by drop")
    }

    /// Has the thread do an operation, and waits for its answer, but no longer than twice the disk's patience. The thread begins no
    /// operation of a caller that has given up.
    pub async fn call<R, O: Into<Operation>>(&self, operation: impl FnOnce(ReplyTo<R>) -> O) -> Result<R, StoreError> {
        let (reply, mut answer) = oneshot::channel();
        let operation = operation(reply).into();
        let is_stuck = self.stuck(&operation);
        self.post(operation)?;
        // Twice: a thread that got stuck just before or after the call is known to be by then.
        for _ in 0..2 {
            match timeout(self.shared.patience, &mut answer).await {
                Ok(answer) => return answer.unwrap_or(Err(StoreError::Closed)).map_err(|error| self.counted(error)),
                Err(_) if is_stuck(&self.shared) => return Err(self.shared.failing()),
                Err(_) => {}
            }
        }
        Err(StoreError::Busy)
    }

    /// The sign that `operation` gets no answer.
    fn stuck(&self, operation: &Operation) -> fn(&DiskShared) -> bool {
        match (operation, &self.openers) {
            (Operation::Query(_), Some(_)) => DiskShared::is_silent,
            _ => DiskShared::is_stuck,
        }
    }

    /// The error as callers see it; errors of the disk are counted, for no read of the data plane shows these, and so is an answer that
    /// a panic lost.
    fn counted(&self, error: StoreError) -> StoreError {
        let error = self.shared.own(error);
        if matches!(error, StoreError::DiskFailing(_) | StoreError::Closed) {
            self.shared.stats.errors.add(1);
        }
        error
    }

    /// Queues an operation without waiting.
    pub fn post(&self, operation: Operation) -> Result<(), StoreError> {
        if self.stuck(&operation)(&self.shared) {
            return Err(self.shared.failing());
        }
        let operation = match (operation, &self.openers) {
            (Operation::Query(query), Some(openers)) => return openers.put(query).map_err(|_| StoreError::Busy),
            (operation, _) => operation,
        };
        self.operations().try_send(operation).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })?;
        self.shared.wake();
        Ok(())
    }

    /// A place in the queue, waited for. Cancelling the wait loses nothing.
    pub async fn place(&self) -> Result<mpsc::Permit<'_, Operation>, StoreError> {
        self.while_it_works(async { self.operations().reserve().await.map_err(|_| StoreError::Closed) }).await?
    }

    /// Waits for the answer to a change as long as the disk is relied on. A change given up then is never made, unless the thread had
    /// begun it: [`StoreError::Unsettled`].
    pub async fn settle<T>(&self, mut change: ChangeAnswer<T>) -> Result<T, StoreError> {
        match self.while_it_works(&mut change.answer).await {
            Ok(answer) => answer.unwrap_or(Err(StoreError::Closed)).map_err(|error| self.shared.own(error)),
            Err(silence) if change.give_up() => Err(silence),
            Err(_) => Err(self.shared.unsettled()),
        }
    }

    /// Waits for `event` as long as the disk is relied on: for events that may rightly take long (grants are rare on a busy disk). A disk
    /// that hangs under the data plane's reads gets no grants: its thread does not get stuck, so these reads count, too.
    pub async fn while_it_works<T>(&self, event: impl Future<Output = T>) -> Result<T, StoreError> {
        let mut event = std::pin::pin!(event);
        loop {
            match timeout(self.shared.patience, event.as_mut()).await {
                Ok(value) => return Ok(value),
                Err(_) if !self.shared.is_relied_on() => return Err(self.shared.failing()),
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;
    use crate::operation::change;
    use crate::{ContentPath, StoreBuilder, StoreSettings};
    use units::DiskId;

    #[test]
    fn changes_pass_a_stuck_opener() {
        let settings = StoreSettings { patience: Duration::ZERO, ..StoreSettings::default() };
        let store = StoreBuilder::new(&settings).expect("memory is there");
        let shared = store.common().shared((DiskId(0), "disk".to_owned()), Arc::new(|| {}));
        let (begun, held) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (disk, gate) = (Arc::clone(&shared), (Arc::clone(&begun), Arc::clone(&held)));
        let openers = Openers::start(store.common(), "open", 1, move |_: StoreQuery| {
            disk.open_step(|| {
                gate.0.wait();
                gate.1.wait();
            });
        });
        let (handle, _operations) = DiskHandle::new(Arc::clone(&shared));
        let handle = handle.with_openers(openers.expect("a thread is there"));
        let path = ContentPath::root;
        let query = || handle.post(StoreQuery::LookUp { root: 0, path: path(), reply: oneshot::channel().0 }.into());
        let made = || handle.post(Operation::MakeFolder { root: 0, path: path(), reply: change().0 });
        query().expect("there is room");
        begun.wait();
        while !shared.is_silent() {
            std::thread::yield_now();
        }
        assert!(made().is_ok() && matches!(query(), Err(StoreError::DiskFailing(_))));
        held.wait();
    }
}
