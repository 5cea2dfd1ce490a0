//! Panics: the request at fault ends, and nothing else suffers.
//!
//! Promise: each is counted once; the panic hook has logged it with its place before. Not here: the answer to the request (the front ends).

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crate::MediaService;

/// Runs `work`; none: it panicked.
pub async fn guarded<T>(service: &MediaService, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    // The state that all requests share is behind locks that are taken after a panic, too (`lock`).
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(poll) => poll.map(Some),
        Err(_) => {
            service.connection_stats.panics.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(None)
        }
    })
    .await
}
