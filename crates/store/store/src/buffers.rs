//! Memory of uploads: leased buffers, and how many of them an upload may have.
//!
//! Promise: the memory of uploads is bounded per upload and over all, and given back after a lull. An upload has buffers of its own from
//! its start: it continues, however many others are idle or slow. Its buffers beyond them come from the shared ones, and go back first;
//! as a client fills one buffer at a time, an upload without new bytes holds no more than its own.
//! Not here: when a buffer is filled and handed over (`upload`).

use std::io;
use std::sync::{Arc, Mutex};

use kernel::pool::{Lease, LeasePool};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use units::{ByteCount, Nanos, limits};

use crate::StoreError;
use crate::lock::lock;

/// Time for which a buffer's memory is kept for the next upload.
const LULL: Nanos = Nanos::from_secs(10);

/// A buffer of a best-effort upload. A client that sends 100 kbit/s fills it in five seconds.
pub const UPLOAD_BUFFER_BYTES: u64 = 64 * 1024;

/// Half of each chunk of memory is there for buffers that uploads have for themselves.
#[allow(clippy::cast_possible_truncation, reason = "a few")]
pub const UPLOADS_PER_CHUNK: usize = (limits::CHUNK_BYTES / UPLOAD_BUFFER_BYTES / 2) as usize;

/// Uploads resume at whole chunks, and a volume's units are whole chunks.
const _: () = assert!(limits::CHUNK_BYTES.is_multiple_of(UPLOAD_BUFFER_BYTES));

/// Upload buffers: the memory, and the share of each upload in it.
#[derive(Debug, Clone)]
pub struct UploadBuffers {
    pool: LeasePool,
    /// Those that uploads can have for themselves.
    own: Arc<Semaphore>,
    /// Those that they share.
    shared: Arc<Semaphore>,
}

impl UploadBuffers {
    /// Memory of `chunks` chunks for best-effort uploads, in short buffers: half of them for the uploads' own.
    pub fn for_uploads(chunks: usize) -> io::Result<Self> {
        let own = chunks.saturating_mul(UPLOADS_PER_CHUNK);
        let count = own.saturating_mul(2);
        let pool = LeasePool::with_leases_of(ByteCount(UPLOAD_BUFFER_BYTES), count)?;
        Ok(Self::of(pool, own, count - own))
    }

    /// Memory of `chunks` chunks for recordings, each of which has all of its memory for itself.
    pub fn for_recordings(chunks: usize) -> io::Result<Self> {
        let pool = LeasePool::new(chunks)?;
        Ok(Self::of(pool, chunks, 0))
    }

    /// Buffers of `pool`, so many of them for uploads' own, and so many that they share.
    fn of(pool: LeasePool, own: usize, shared: usize) -> Self {
        assert!(pool.count() == own + shared, "a permit always finds a buffer");
        Self { pool, own: Arc::new(Semaphore::new(own)), shared: Arc::new(Semaphore::new(shared)) }
    }

    /// Buffers for one upload: `own` of them for itself, and of those that are shared as many as make up `most`.
    ///
    /// # Errors
    /// [`StoreError::UploadMemory`] if the uploads under way have all of these.
    pub fn share(&self, own: u32, most: u32) -> Result<Arc<BufferShare>, StoreError> {
        debug_assert!(own > 0, "an upload continues with a buffer of its own, however slow the others are");
        debug_assert!(own <= most, "its own buffers are part of the most it has");
        let permit = Arc::clone(&self.own).try_acquire_many_owned(own).map_err(|_| StoreError::UploadMemory)?;
        let (own, most) = (index(own.into()), index(most.into()));
        let held = Mutex::default();
        Ok(Arc::new(BufferShare { buffers: self.clone(), own, most, held, returned: Notify::new(), _own: permit }))
    }

    /// The memory that all buffers of best-effort uploads take.
    pub fn uploads_bytes(&self) -> usize {
        self.pool.count().saturating_mul(index(UPLOAD_BUFFER_BYTES))
    }

    /// Buffers that uploads can still have for themselves.
    pub fn own_free(&self) -> usize {
        self.own.available_permits()
    }

    /// Gives memory back that was not used for a while.
    pub fn give_back(&self) {
        self.pool.give_back(LULL);
    }
}

/// The buffers of one upload.
#[derive(Debug)]
pub struct BufferShare {
    buffers: UploadBuffers,
    own: usize,
    most: usize,
    held: Mutex<HeldBuffers>,
    returned: Notify,
    _own: OwnedSemaphorePermit,
}

/// Buffers that an upload holds of its share.
#[derive(Debug, Default)]
struct HeldBuffers {
    count: usize,
    /// For as many of them as are not its own.
    shared: Vec<OwnedSemaphorePermit>,
}

impl BufferShare {
    /// An empty buffer: one of its own, or a shared one, whichever is free first. For one caller at a time.
    pub async fn lease(self: &Arc<Self>) -> Result<Chunk, StoreError> {
        loop {
            let held = lock(&self.held).count;
            if held < self.own {
                return Ok(self.take(None));
            }
            let shared = Arc::clone(&self.buffers.shared);
            tokio::select! {
                permit = shared.acquire_owned(), if held < self.most => {
                    return permit.map(|permit| self.take(Some(permit))).map_err(|_| StoreError::Closed);
                }
                () = self.returned.notified() => {}
            }
        }
    }

    fn take(self: &Arc<Self>, shared: Option<OwnedSemaphorePermit>) -> Chunk {
        let mut held = lock(&self.held);
        // One of its own may have come back meanwhile.
        let shared = shared.filter(|_| held.count >= self.own);
        held.shared.extend(shared);
        held.count += 1;
        assert!(held.count <= self.most, "an upload has its share of the buffers");
        debug_assert!(held.count - held.shared.len() <= self.own, "a buffer beyond its own has a permit of the shared");
        drop(held);
        let lease = self.buffers.pool.try_lease().expect("there are as many buffers as permits");
        Chunk { lease, filled: 0, _place: BufferPlace(Arc::clone(self)) }
    }
}

/// The place that a buffer takes of its upload's share.
#[derive(Debug)]
struct BufferPlace(Arc<BufferShare>);

impl Drop for BufferPlace {
    fn drop(&mut self) {
        let mut held = lock(&self.0.held);
        held.count -= 1;
        drop(held.shared.pop());
        debug_assert!(held.shared.len() <= held.count, "shared buffers go back first");
        debug_assert!(held.count - held.shared.len() <= self.0.own, "a buffer beyond its own keeps its permit");
        drop(held);
        self.0.returned.notify_one();
    }
}

/// Bytes on their way from a client to the disk. Dropping it frees the memory and wakes its upload, if that waits for some.
#[derive(Debug)]
pub struct Chunk {
    // Dropped before its place, so that a permit always finds a buffer.
    /// Its memory.
    pub lease: Lease,
    /// Bytes of it that are filled.
    pub filled: usize,
    _place: BufferPlace,
}

/// A number of bytes of chunks, as an index in memory.
pub fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("within a few chunks")
}

/// A length in memory, in bytes.
pub fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("usize is at most 64 bits")
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// A buffer, if the upload need not wait for it.
    async fn at_once(share: &Arc<BufferShare>) -> Option<Chunk> {
        let mut lease = pin!(share.lease());
        poll_fn(|context| {
            Poll::Ready(match lease.as_mut().poll(context) {
                Poll::Ready(chunk) => Some(chunk.expect("the pool is open")),
                Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn an_upload_always_has_a_buffer_of_its_own_and_idle_ones_hold_no_more() {
        // Eight for the uploads' own, eight to share.
        let buffers = UploadBuffers::for_uploads(1).unwrap();
        let shares: Vec<_> = (0..8).map(|_| buffers.share(1, 4).unwrap()).collect();
        assert!(matches!(buffers.share(1, 4), Err(StoreError::UploadMemory)), "a ninth upload would have none");
        let (mut written, mut filling) = (Vec::new(), Vec::new());
        for share in &shares {
            written.push(at_once(share).await.expect("its own"));
            filling.push(at_once(share).await.expect("a shared one"));
        }
        assert!(at_once(&shares[0]).await.is_none(), "all are used");
        // Buffers that the disk has written come back, and their clients send nothing: seven buffers are shared again.
        written.truncate(1);
        let mut flowing = Vec::new();
        for share in &shares[1..] {
            flowing.push(at_once(share).await.expect("a shared one, its own is being filled"));
        }
        assert!(at_once(&shares[1]).await.is_none());
        drop(flowing);
        let first = vec![at_once(&shares[0]).await.unwrap(), at_once(&shares[0]).await.unwrap()];
        assert!(at_once(&shares[0]).await.is_none(), "four are the most of one upload, however many are free");
        drop((first, written, filling, shares));
        assert_eq!(buffers.pool.free(), 16);
        assert_eq!((buffers.own.available_permits(), buffers.shared.available_permits()), (8, 8));
    }

    #[tokio::test]
    async fn a_waiter_for_a_shared_buffer_takes_its_own_once_back() {
        let buffers = UploadBuffers::for_recordings(2).unwrap();
        let share = buffers.share(1, 9).unwrap();
        let own = share.lease().await.unwrap();
        let mut waits = pin!(share.lease());
        assert!(poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await, "none is shared");
        drop(own);
        waits.await.unwrap();
    }
}
