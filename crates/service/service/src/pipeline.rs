//! Pipes and stages: a delivery with bytes that come out here instead of leaving by the client's socket, and functions that
//! are put into its way, as HPSM joined a source, functions and a sink.
//!
//! Promise: a stage is one type; adding one touches nothing here. The data plane delivers as always, admitted and paced, but
//! to an outlet. A pipe holds one piece of at most [`PIECE_BYTES`]; bytes that are not fetched slow the stream as a slow client does,
//! and dropping the pipe ends it. See docs/stream-manager.md.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use content::Segment;
use dataplane::control::{DeliveryDestination, Outcome};
use dataplane::outlet::Outlet;
use units::BitRate;

use crate::budget_meter::Metered;
use crate::budget_use;
use crate::budgets::ChargedBudgets;
use crate::delivery::{self, DeliveryError, DeliveryRequest, Paced};
use crate::media_service::MediaService;

/// Largest piece.
const PIECE_BYTES: u32 = 64 * 1024;
/// Name in the event log of an end that the plane knows nothing of.
const STAGE_FAILED: &str = "StageFailed";

/// A step on the way of the bytes: it looks at them, changes or refuses them. Never slow: a stage runs on a thread that serves
/// other requests as well.
pub trait Stage: Send {
    /// The stage's change of the content, in a word that may stand in an entity tag (letters, digits, `-`), if the bytes that
    /// leave the stage differ from those that enter it. Then the length is not known beforehand, and a delivery has no ranges.
    fn alters(&self) -> Option<&'static str> {
        None
    }

    /// Lets a piece pass, perhaps changed. An empty piece says that there is nothing to pass on yet.
    ///
    /// # Errors
    /// Why it does not pass; the transfer ends.
    fn pass(&mut self, piece: Bytes) -> Result<Bytes, StageError>;

    /// All pieces have passed. Gives the bytes held back.
    ///
    /// # Errors
    /// As for [`Stage::pass`].
    fn end(&mut self) -> Result<Bytes, StageError> {
        Ok(Bytes::new())
    }
}

/// A stage refused a piece; the text is fit to be shown to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StageError(pub String);

/// Stages, in the order in which pieces pass them.
#[derive(Default)]
pub struct Stages(pub Vec<Box<dyn Stage>>);

impl Stages {
    /// The words of all stages that alter the bytes; none if none does.
    #[must_use]
    pub fn alteration(&self) -> Option<String> {
        let words: Vec<&str> = self.0.iter().filter_map(|stage| stage.alters()).collect();
        (!words.is_empty()).then(|| words.join("."))
    }

    /// Lets a piece pass all of them.
    ///
    /// # Errors
    /// The first refusal.
    pub fn pass(&mut self, piece: Bytes) -> Result<Bytes, StageError> {
        Self::pass_from(&mut self.0, piece)
    }

    /// All pieces have passed: the bytes held back, each stage's through those after it.
    ///
    /// # Errors
    /// The first refusal.
    pub fn end(&mut self) -> Result<Bytes, StageError> {
        let mut rest = BytesMut::new();
        for nth in 0..self.0.len() {
            let held_back = self.0[nth].end()?;
            rest.extend_from_slice(&Self::pass_from(&mut self.0[nth + 1..], held_back)?);
        }
        Ok(rest.freeze())
    }

    fn pass_from(stages: &mut [Box<dyn Stage>], mut piece: Bytes) -> Result<Bytes, StageError> {
        for stage in stages {
            if piece.is_empty() {
                break;
            }
            piece = stage.pass(piece)?;
        }
        Ok(piece)
    }
}

/// Why a pipe gives nothing more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipeError {
    /// A stage refused.
    #[error("{0}")]
    Stage(#[from] StageError),
    /// Nothing came of the delivery, for the reason for which it might not have been started either.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// The delivery ended before its time, though some of it had come.
    #[error("the delivery broke off")]
    BrokenOff(Outcome),
}

/// A delivery with bytes that come out here.
pub struct Pipe {
    service: Arc<MediaService>,
    outlet: Arc<Outlet>,
    /// Bytes of a send may be left there.
    is_posted: bool,
    left: u64,
    rate: Option<BitRate>,
    stages: Stages,
    /// None once its end is logged, and where there is nothing to deliver.
    paced: Option<Paced>,
    /// The budgets for which its bytes wait; none: they have a rate, or no such budget.
    metered: Option<ChargedBudgets>,
    ended: bool,
}

/// Starts a delivery into a pipe, through `stages`.
///
/// # Errors
/// Why it was not started.
pub(crate) async fn open(
    service: &Arc<MediaService>,
    request: DeliveryRequest,
    stages: Stages,
) -> Result<Pipe, DeliveryError> {
    let outlet = Arc::<Outlet>::default();
    let left = request.body.iter().map(Segment::length).sum();
    let stated_rate = request.terms.decision.rate();
    let charged = request.charged.clone();
    // The plane has no streams without bytes, but stages may still add some.
    let paced = match left {
        0 => None,
        _ => Some(
            delivery::open(service, request, DeliveryDestination::Outlet(Arc::clone(&outlet)), &|_| Vec::new())
                .await
                .map_err(|(_, error)| error)?,
        ),
    };
    let service = Arc::clone(service);
    let rate = paced.as_ref().map_or(stated_rate, Paced::rate);
    let metered = (rate.is_none() && budget_use::is_metered(&service, &charged, Metered::Download)).then_some(charged);
    Ok(Pipe { service, outlet, is_posted: false, left, rate, stages, paced, metered, ended: false })
}

impl Pipe {
    /// The rate that it was granted.
    #[must_use]
    pub const fn rate(&self) -> Option<BitRate> {
        self.rate
    }

    /// The next piece, never an empty one; none at the end.
    ///
    /// # Errors
    /// A stage refused, or the delivery broke off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, PipeError> {
        while self.left > 0 {
            let Some(piece) = self.piece().await else { return Err(self.broken_off().await) };
            let bytes = piece.len() as u64;
            self.left = self.left.checked_sub(bytes).expect("the plane sends its segments and nothing else");
            if let Some(charged) = &self.metered {
                budget_use::wait_for(&self.service, charged, Metered::Download, bytes).await;
            }
            let passed = self.stages.pass(piece);
            let passed = self.unless_refused(passed).await?;
            if !passed.is_empty() {
                return Ok(Some(passed));
            }
        }
        if self.ended {
            return Ok(None);
        }
        self.ended = true;
        let rest = self.stages.end();
        let rest = self.unless_refused(rest).await?;
        if let Some(paced) = self.paced.take() {
            paced.finished().await;
        }
        Ok((!rest.is_empty()).then_some(rest))
    }

    /// Takes the bytes that have come, or waits for some; none at the delivery's end.
    async fn piece(&mut self) -> Option<Bytes> {
        let (paced, mut piece) = (self.paced.as_mut()?, Vec::new());
        while piece.is_empty() {
            if !self.is_posted && !paced.posted().await {
                return None;
            }
            self.is_posted = self.outlet.take(PIECE_BYTES, &mut piece);
        }
        Some(piece.into())
    }

    async fn unless_refused(&mut self, passed: Result<Bytes, StageError>) -> Result<Bytes, PipeError> {
        if passed.is_err()
            && let Some(paced) = self.paced.take()
        {
            paced.stop();
            paced.finished_as(Some(STAGE_FAILED)).await;
        }
        Ok(passed?)
    }

    /// Why the plane sent less than all of it.
    async fn broken_off(&mut self) -> PipeError {
        let Some(paced) = self.paced.take() else { return PipeError::BrokenOff(Outcome::Stopped) };
        match paced.finished().await.end {
            Ok(end) => PipeError::BrokenOff(end.outcome),
            Err(error) => error.into(),
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.outlet.close();
        if let Some(paced) = self.paced.take() {
            paced.stop();
            self.service.runtime.spawn(async move { drop(paced.finished_as(Some("ClientGone")).await) });
        }
    }
}

/// The document's examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/stream-manager.md")]
struct DocumentedExample;

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes pieces on one late.
    #[derive(Default)]
    struct Late(Bytes);

    impl Stage for Late {
        fn alters(&self) -> Option<&'static str> {
            Some("late")
        }

        fn pass(&mut self, piece: Bytes) -> Result<Bytes, StageError> {
            Ok(std::mem::replace(&mut self.0, piece))
        }

        fn end(&mut self) -> Result<Bytes, StageError> {
            Ok(std::mem::take(&mut self.0))
        }
    }

    /// Refuses an empty piece: no stage is to get one.
    struct NotEmpty;

    impl Stage for NotEmpty {
        fn pass(&mut self, piece: Bytes) -> Result<Bytes, StageError> {
            if piece.is_empty() { Err(StageError("empty".to_owned())) } else { Ok(piece) }
        }
    }

    #[test]
    fn bytes_held_back_pass_the_later_stages() {
        let all: Vec<Box<dyn Stage>> =
            vec![Box::new(Late::default()), Box::new(NotEmpty), Box::new(Late::default()), Box::new(NotEmpty)];
        let mut stages = Stages(all);
        assert_eq!(stages.alteration().as_deref(), Some("late.late"));
        let mut passed = Vec::new();
        for piece in ["a", "b", "c"] {
            passed.extend_from_slice(&stages.pass(piece.into()).expect("nothing empty"));
        }
        passed.extend_from_slice(&stages.end().expect("nothing empty"));
        assert_eq!(passed, b"abc");
    }

    #[test]
    fn a_refusal_ends_it() {
        struct Refusing;
        impl Stage for Refusing {
            fn pass(&mut self, _: Bytes) -> Result<Bytes, StageError> {
                Err(StageError("no".to_owned()))
            }
        }
        let mut stages = Stages(vec![Box::new(NotEmpty), Box::new(Refusing)]);
        assert_eq!(stages.alteration(), None);
        assert_eq!(stages.pass("a".into()), Err(StageError("no".to_owned())));
    }
}
