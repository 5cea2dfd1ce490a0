//! Guard against panics: a panic ends only its own request.
//!
//! Promise: each panic is counted once; the panic hook has logged it with its place in the code before. Not here: the answer to
//! the request (the front ends).

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crate::MediaService;

/// Runs `work`; `None` if it panicked.
pub async fn guarded<T>(service: &MediaService, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    // Unwind safety: the state that requests share is behind locks whose poisoning `lock` ignores.
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(poll) => poll.map(Some),
        Err(_) => {
            service.connection_stats.panics.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(None)
        }
    })
    .await
}
