//! Panics: the request at fault is answered with 500, and nothing else suffers.
//!
//! Promise: each is counted once; the panic hook has logged it with its place before. Not here: a delivery under way; its
//! connection closes.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crate::message::reply::Reply;
use crate::problem;
use crate::shared::ConnectionStats;

/// Runs `work`, which holds no socket.
///
/// # Errors
/// It panicked; the answer to its request.
pub(crate) async fn guarded<T>(stats: &ConnectionStats, work: impl Future<Output = T>) -> Result<T, Reply> {
    let mut work = pin!(work);
    // The state that all requests share is behind locks that are taken after a panic, too (`service::lock`).
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => {
            stats.panics.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Err(problem::fault()))
        }
    })
    .await
}
