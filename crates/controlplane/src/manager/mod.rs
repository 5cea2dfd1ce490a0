//! The stream manager: joins a source, stages and a sink, as HPSM did (seed 000 §3.3).
//!
//! Promise: a source, stage or sink is one module; adding one touches nothing else but its line in [`registry`]. What
//! flows is bounded by one piece: a source is asked for the next one when the sink has taken the last. A sink that fails
//! ends the join at once, also while the source has nothing to give.
//! Not here: content → HTTP socket, which the data plane does by itself between one command and one report (`media`):
//! its bytes never pass the control plane, so no stage can stand in that join. See docs/stream-manager.md.

mod body;
mod limit;
pub mod registry;
mod tally;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use http::HeaderMap;

use crate::config::Config;
use crate::contents::{Published, UploadSink};
use crate::message::reply::Reply;
use crate::problem;

pub(crate) use body::request_body;
pub use registry::stages;

/// Where bytes come from.
pub trait Source: Send {
    /// The next piece; none at the end.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, Reply>> + Send + '_>>;
}

/// What happens to bytes on their way: they are looked at, changed or refused. Never slow: a stage runs between reading
/// a socket and writing to a disk.
pub trait Stage: Send {
    /// Lets a piece pass, perhaps changed.
    ///
    /// # Errors
    /// What the client is answered; the join ends and nothing of it is kept.
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply>;

    /// All pieces have passed.
    ///
    /// # Errors
    /// As for [`Stage::pass`].
    fn end(&mut self) -> Result<(), Reply> {
        Ok(())
    }
}

/// What a stage can know of the join when it is made.
pub struct Origin<'a> {
    /// The request's fields.
    pub headers: &'a HeaderMap,
    /// Settings.
    pub config: &'a Config,
    /// Counts what was received, for the metrics.
    pub received_bytes: &'a AtomicU64,
}

/// Carries all bytes of `source` through `stages` into `sink`, and finishes it. If anything fails, or the future is
/// dropped, the sink is dropped unfinished: nothing of it is kept.
///
/// # Errors
/// What the client is answered.
pub async fn join(
    mut source: impl Source,
    mut stages: Vec<Box<dyn Stage + '_>>,
    mut sink: Box<dyn UploadSink>,
) -> Result<Published, Reply> {
    loop {
        let next = tokio::select! {
            biased;
            next = source.next() => next?,
            Err(error) = sink.failed() => return Err(problem::of_store(&error)),
        };
        let Some(mut piece) = next else { break };
        for stage in &mut stages {
            piece = stage.pass(piece)?;
        }
        sink.append(&piece).await.map_err(|error| problem::of_store(&error))?;
    }
    for stage in &mut stages {
        stage.end()?;
    }
    sink.finish().await.map_err(|error| problem::of_store(&error))
}

/// The document's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/stream-manager.md")]
struct DocumentedExample;
