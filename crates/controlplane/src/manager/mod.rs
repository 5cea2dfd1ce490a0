//! The stream manager: joins a source, stages and a sink, as HPSM did (docs/references.md).
//!
//! Promise: a source, stage or sink is one module; adding one touches nothing else but its line in [`registry`]. What
//! flows is bounded by one piece: a source is asked for the next one when the sink has taken the last. A sink that fails
//! ends the join at once, also while the source has nothing to give.
//! Not here: who is answered what when a join breaks (`upload`, `media`), and content → HTTP socket where no stage and
//! no other sink applies: that the data plane does by itself between one command and one report. See
//! docs/stream-manager.md.

mod body;
mod delivered;
mod limit;
mod playlist;
pub mod registry;
mod response;
mod store;
mod tally;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use http::HeaderMap;

use crate::config::Config;
use crate::message::reply::Reply;

pub(crate) use body::request_body;
pub(crate) use delivered::delivered;
pub(crate) use response::{Framing, Response};
pub(crate) use store::store;

/// A step of a join under way. What it fails with is what the client is answered, where it still can be.
pub type Step<'a, T> = Pin<Box<dyn Future<Output = Result<T, Reply>> + Send + 'a>>;

/// Where bytes come from.
pub trait Source: Send {
    /// The next piece; none at the end.
    fn next(&mut self) -> Step<'_, Option<Bytes>>;
}

/// What happens to bytes on their way: they are looked at, changed or refused. Never slow: a stage runs on a thread that
/// serves other requests as well, between reading from one side and writing to the other.
pub trait Stage: Send {
    /// What the stage makes of the content, in a word that may stand in an entity tag (letters, digits, `-`), if what
    /// comes out is not what went in. Then the length is not known beforehand, and a delivery has no ranges.
    fn alters(&self) -> Option<&'static str> {
        None
    }

    /// Lets a piece pass, perhaps changed. An empty piece says that there is nothing to pass on yet.
    ///
    /// # Errors
    /// What the client is answered; the join ends.
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply>;

    /// All pieces have passed. Gives what was held back.
    ///
    /// # Errors
    /// As for [`Stage::pass`].
    fn end(&mut self) -> Result<Bytes, Reply> {
        Ok(Bytes::new())
    }
}

/// Where bytes go to.
pub trait Sink: Send {
    /// What is there in the end.
    type Done;

    /// Takes the next piece, never an empty one; waits while it is behind.
    fn take(&mut self, piece: Bytes) -> Step<'_, ()>;

    /// Waits for its failure, which may come while nothing is given to it; for ever if there is none.
    fn failed(&mut self) -> Step<'_, Infallible> {
        Box::pin(std::future::pending())
    }

    /// All pieces have been taken. Called once at most, and nothing after it.
    fn finish(&mut self) -> Step<'_, Self::Done>;
}

/// What a stage can know of an upload when it is made.
pub struct Origin<'a> {
    /// The request's fields.
    pub headers: &'a HeaderMap,
    /// Settings.
    pub config: &'a Config,
    /// Counts what all uploads received, for the metrics.
    pub received_bytes: &'a AtomicU64,
    /// Counts what this one received, for the listing of streams, if it is a recording.
    pub recorded_bytes: Option<&'a AtomicU64>,
}

/// What a stage or a sink can know of a delivery when it is made.
pub struct Wanted<'a> {
    /// The content's path below `/media/`, decoded.
    pub path: &'a str,
    /// The request's query, as it was sent.
    pub query: Option<&'a str>,
    /// The request's fields.
    pub headers: &'a HeaderMap,
    /// Bytes of the content.
    pub size: u64,
}

/// A join that broke: by whom, and what the client is answered if nothing went out yet.
#[derive(Debug)]
pub enum Broken {
    /// The source ended before its time.
    Source(Reply),
    /// A stage refused.
    Stage(Reply),
    /// The sink takes no more.
    Sink(Reply),
}

impl From<Broken> for Reply {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Source(reply) | Broken::Stage(reply) | Broken::Sink(reply) => reply,
        }
    }
}

/// Carries all bytes of `source` through `stages` into `sink`, which is not finished by it.
///
/// # Errors
/// The first part that failed; nothing more is asked of the others.
pub async fn carry<S: Sink + ?Sized>(
    source: &mut impl Source,
    stages: &mut [Box<dyn Stage + '_>],
    sink: &mut S,
) -> Result<(), Broken> {
    loop {
        let next = tokio::select! {
            biased;
            next = source.next() => next.map_err(Broken::Source)?,
            Err(reply) = sink.failed() => return Err(Broken::Sink(reply)),
        };
        let Some(piece) = next else { break };
        give(through(stages, piece)?, sink).await?;
    }
    for nth in 0..stages.len() {
        let held_back = stages[nth].end().map_err(Broken::Stage)?;
        give(through(&mut stages[nth + 1..], held_back)?, sink).await?;
    }
    Ok(())
}

fn through(stages: &mut [Box<dyn Stage + '_>], mut piece: Bytes) -> Result<Bytes, Broken> {
    for stage in stages {
        if piece.is_empty() {
            break;
        }
        piece = stage.pass(piece).map_err(Broken::Stage)?;
    }
    Ok(piece)
}

async fn give<S: Sink + ?Sized>(piece: Bytes, sink: &mut S) -> Result<(), Broken> {
    if piece.is_empty() { Ok(()) } else { sink.take(piece).await.map_err(Broken::Sink) }
}

/// Carries all bytes of `source` through `stages` into `sink`, and finishes it. Where it fails, or the future is dropped,
/// `sink` stays unfinished.
///
/// # Errors
/// What the client is answered.
pub async fn join<S: Sink + ?Sized>(
    mut source: impl Source,
    mut stages: Vec<Box<dyn Stage + '_>>,
    sink: &mut S,
) -> Result<S::Done, Reply> {
    carry(&mut source, &mut stages, sink).await?;
    sink.finish().await
}

/// The document's examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/stream-manager.md")]
struct DocumentedExample;

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    struct Pieces(Vec<&'static str>);

    impl Source for Pieces {
        fn next(&mut self) -> Step<'_, Option<Bytes>> {
            let next = if self.0.is_empty() { None } else { Some(Bytes::from(self.0.remove(0))) };
            Box::pin(async { Ok(next) })
        }
    }

    /// Passes pieces on one late.
    #[derive(Default)]
    struct Late(Bytes);

    impl Stage for Late {
        fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
            Ok(std::mem::replace(&mut self.0, piece))
        }

        fn end(&mut self) -> Result<Bytes, Reply> {
            Ok(std::mem::take(&mut self.0))
        }
    }

    /// Refuses what is empty: nobody is to be bothered with it.
    struct NotEmpty;

    impl Stage for NotEmpty {
        fn pass(&mut self, piece: Bytes) -> Result<Bytes, Reply> {
            if piece.is_empty() { Err(Reply::empty(StatusCode::BAD_REQUEST)) } else { Ok(piece) }
        }
    }

    #[derive(Default)]
    struct Collected(Vec<Bytes>);

    impl Sink for Collected {
        type Done = Vec<Bytes>;

        fn take(&mut self, piece: Bytes) -> Step<'_, ()> {
            self.0.push(piece);
            Box::pin(async { Ok(()) })
        }

        fn finish(&mut self) -> Step<'_, Vec<Bytes>> {
            let all = std::mem::take(&mut self.0);
            Box::pin(async { Ok(all) })
        }
    }

    #[tokio::test]
    async fn what_is_held_back_passes_the_later_stages() {
        let stages = || -> Vec<Box<dyn Stage>> {
            vec![Box::new(Late::default()), Box::new(NotEmpty), Box::new(Late::default()), Box::new(NotEmpty)]
        };
        let passed = join(Pieces(vec!["a", "b", "c"]), stages(), &mut Collected::default()).await;
        assert_eq!(passed.expect("all passed"), ["a", "b", "c"]);
        let passed = join(Pieces(Vec::new()), stages(), &mut Collected::default()).await;
        assert!(passed.expect("nothing to pass").is_empty());
    }

    #[tokio::test]
    async fn whoever_fails_is_named() {
        let mut all: [Box<dyn Stage>; 1] = [Box::new(NotEmpty)];
        let broken = carry(&mut Pieces(vec![""]), &mut all, &mut Collected::default()).await;
        assert!(broken.is_ok(), "empty pieces are no pieces");
        struct Refusing;
        impl Stage for Refusing {
            fn pass(&mut self, _: Bytes) -> Result<Bytes, Reply> {
                Err(Reply::empty(StatusCode::IM_A_TEAPOT))
            }
        }
        let mut all: [Box<dyn Stage>; 1] = [Box::new(Refusing)];
        let broken = carry(&mut Pieces(vec!["a"]), &mut all, &mut Collected::default()).await;
        assert!(matches!(broken, Err(Broken::Stage(reply)) if reply.status == StatusCode::IM_A_TEAPOT));
    }
}
