//! Deliveries that pass stages, or go to another sink than the client's socket.
//!
//! The data plane delivers as always, but into one end of a pair of sockets (`manager::delivered`); what comes out of the
//! other end passes the stages and goes to the sink, here. Promise: whatever ends first, the delivery, a stage, the sink
//! or the client, ends the others; what fails before the first byte is out is answered with a problem, later the
//! response breaks off.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use dataplane::control::{Command, Ending, Outcome};
use http::StatusCode;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;
use units::Nanos;

use super::plan::{StreamPlan, segment_bytes};
use super::{Asking, Attempt, Ran, Reading, prepare_socket};
use crate::manager::registry::Passage;
use crate::manager::{Broken, Framing, Response, Sink, Stage, Step, carry, delivered};
use crate::message::head::Version;
use crate::message::reply::Reply;

/// What became of a passage.
enum Passed {
    /// It ended: the plane's account, and what broke the passage, if anything did.
    Ended(Ending, Result<(), Broken>),
    /// Not admitted.
    Refused(dataplane::control::Refusal),
    /// A queue is full, or no descriptors are left.
    Busy,
    /// The plane is gone.
    Lost,
}

impl Reading {
    /// As [`Reading::attempt`], through `passage`.
    pub(super) async fn attempt_passing(
        &self,
        asking: &mut Asking<'_>,
        client: TcpStream,
        passage: &mut Passage,
    ) -> Attempt {
        let Passage { stages, sink } = passage;
        match sink {
            None => self.respond(asking, client, stages).await,
            Some(sink) => self.take_elsewhere(asking, client, stages, sink.as_mut()).await,
        }
    }

    /// Through stages to the client.
    async fn respond(&self, asking: &mut Asking<'_>, client: TcpStream, stages: &mut [Box<dyn Stage>]) -> Attempt {
        let plan = &asking.prepared.plan;
        let rate = asking.decision.rate();
        if prepare_socket(&client, self.buffer_bytes(rate)).is_err() {
            return Attempt::Ended(None);
        }
        let head = self.response_head(plan, rate);
        let head_bytes = head.len() as u64;
        let mut response = Response::new(client, head, self.framing(plan), self.shared.config().stall_max);
        let (end, carried) = match self.pass(asking, stages, &mut response).await {
            Passed::Ended(end, carried) => (end, carried),
            Passed::Refused(refusal) => {
                return response.break_off().map_or(Attempt::Ended(None), |client| Attempt::Refused(client, refusal));
            }
            Passed::Busy => return response.break_off().map_or(Attempt::Ended(None), Attempt::Busy),
            Passed::Lost => return Attempt::Ended(None),
        };
        let finished = match carried {
            Ok(()) => response.finish().await.map_err(Broken::Sink),
            Err(broken) => Err(broken),
        };
        let failed = match (response.lost(), &finished) {
            // A client that is there takes what it is given, unless the stages made it too long or too short.
            (None, Err(Broken::Stage(_) | Broken::Sink(_))) => Some(STAGE_FAILED),
            _ => None,
        };
        let sent_bytes = response.sent_bytes();
        let end = Ending { sent_bytes, outcome: response.lost().unwrap_or(end.outcome), ..end };
        self.tell_end(asking.ticket.stream, &asking.prepared.path, &end, failed);
        let broken = match finished {
            Ok(()) => {
                self.log(plan.status, sent_bytes.saturating_sub(head_bytes));
                return Attempt::Ended(self.keeps_alive(plan).then(|| response.into_socket()));
            }
            Err(broken) => broken,
        };
        match response.break_off() {
            Some(client) => Attempt::Ended(self.answer(client, &broken.into()).await),
            None => {
                self.log(plan.status, sent_bytes.saturating_sub(head_bytes));
                Attempt::Ended(None)
            }
        }
    }

    /// Through stages to a sink; the client is answered what the sink says.
    async fn take_elsewhere(
        &self,
        asking: &mut Asking<'_>,
        client: TcpStream,
        stages: &mut [Box<dyn Stage>],
        sink: &mut dyn Sink<Done = Reply>,
    ) -> Attempt {
        let stall_max = self.shared.config().stall_max;
        let mut watched = Watched { sink, client: &client, stall_max, gone: false };
        let (end, carried) = match self.pass(asking, stages, &mut watched).await {
            Passed::Ended(end, carried) => (end, carried),
            Passed::Refused(refusal) => return Attempt::Refused(client, refusal),
            Passed::Busy => return Attempt::Busy(client),
            Passed::Lost => return Attempt::Ended(None),
        };
        let finished = match carried {
            Ok(()) => watched.finish().await.map_err(Broken::Sink),
            Err(broken) => Err(broken),
        };
        let gone = watched.gone;
        let end = if gone { Ending { outcome: Outcome::ClientGone, ..end } } else { end };
        let failed = match &finished {
            Err(Broken::Sink(_)) if !gone => Some(SINK_FAILED),
            Err(Broken::Stage(_)) => Some(STAGE_FAILED),
            _ => None,
        };
        self.tell_end(asking.ticket.stream, &asking.prepared.path, &end, failed);
        if gone {
            self.log(asking.prepared.plan.status, 0);
            return Attempt::Ended(None);
        }
        Attempt::Ended(self.answer(client, &finished.unwrap_or_else(Reply::from)).await)
    }

    /// Runs the delivery and the passage beside each other, to the end of both.
    async fn pass<S: Sink + ?Sized>(
        &self,
        asking: &mut Asking<'_>,
        stages: &mut [Box<dyn Stage>],
        sink: &mut S,
    ) -> Passed {
        let body = asking.prepared.plan.body.clone();
        let length = body.iter().map(segment_bytes).sum();
        let buffer_bytes = self.buffer_bytes(asking.decision.rate());
        let stream = asking.ticket.stream;
        let Ok((plane_end, mut source)) = delivered(length, buffer_bytes) else { return Passed::Busy };
        if body.is_empty() {
            // The plane has no streams of nothing; stages may still add to it.
            return Passed::Ended(NOTHING, carry(&mut source, stages, sink).await);
        }
        let mut run = pin!(self.run(asking, plane_end, body.into()));
        let carried = {
            let mut carry = pin!(carry(&mut source, stages, sink));
            tokio::select! {
                carried = &mut carry => carried,
                ran = &mut run => return match Passed::of(ran) {
                    // The rest is on its way.
                    Passed::Ended(end, Ok(())) => Passed::Ended(end, carry.await),
                    other => other,
                },
            }
        };
        if carried.is_err() {
            // A full queue leaves it to the next send, which finds nobody there.
            let _ = self.shared.broker.send(Command::Stop(stream));
        }
        drop(source);
        match Passed::of(run.await) {
            Passed::Ended(end, _) => Passed::Ended(end, carried),
            other => other,
        }
    }

    fn framing(&self, plan: &StreamPlan) -> Framing {
        match (plan.length, self.head.version) {
            (Some(length), _) => Framing::Length(length),
            (None, Version::Http11) => Framing::Chunked,
            (None, Version::Http10) => Framing::UntilClose,
        }
    }
}

/// Ends of which the plane knows nothing, in the words of the event log.
const STAGE_FAILED: &str = "StageFailed";
const SINK_FAILED: &str = "SinkFailed";
/// The account of a delivery of no bytes.
const NOTHING: Ending =
    Ending { outcome: Outcome::Complete, sent_bytes: 0, misses: 0, duration: Nanos::ZERO, held: None };

impl Passed {
    /// As far as the plane knows. Its end of the pair is closed here.
    fn of(ran: Ran) -> Self {
        match ran {
            Ran::Finished(_, end) => {
                let whole = if end.outcome == Outcome::Complete { Ok(()) } else { Err(broken_off(end.outcome)) };
                Self::Ended(end, whole)
            }
            Ran::Refused(_, refusal) => Self::Refused(refusal),
            Ran::Busy(_) => Self::Busy,
            Ran::Lost => Self::Lost,
        }
    }
}

/// What a client is told of a delivery that ended before its first byte.
fn broken_off(outcome: Outcome) -> Broken {
    let detail = match outcome {
        Outcome::DiskError => "the disk errs or does not answer",
        Outcome::ContentChanged => "the content became shorter while it was read",
        Outcome::Stopped => "the stream was stopped: the server is about to stop, or its viewer reads elsewhere",
        Outcome::Complete | Outcome::ClientGone | Outcome::ClientStalled => "what was read was not taken in time",
    };
    Broken::Source(Reply::problem(StatusCode::SERVICE_UNAVAILABLE, detail))
}

/// A sink that also fails when the client who waits for its answer is gone, and when a step of it takes too long.
struct Watched<'a> {
    sink: &'a mut dyn Sink<Done = Reply>,
    client: &'a TcpStream,
    stall_max: Duration,
    gone: bool,
}

/// `step` of a sink, unless `client` is gone before, which is noted, or it takes longer than `stall_max`.
async fn watched<T>(
    step: Step<'_, T>,
    client: &TcpStream,
    is_gone: &mut bool,
    stall_max: Duration,
) -> Result<T, Reply> {
    tokio::select! {
        biased;
        done = timeout(stall_max, step) => {
            done.unwrap_or_else(|_| Err(Reply::problem(StatusCode::SERVICE_UNAVAILABLE, "the sink took nothing for too long")))
        }
        () = gone(client) => {
            *is_gone = true;
            Err(Reply::empty(StatusCode::REQUEST_TIMEOUT))
        }
    }
}

impl Sink for Watched<'_> {
    type Done = Reply;

    fn take(&mut self, piece: Bytes) -> Step<'_, ()> {
        Box::pin(watched(self.sink.take(piece), self.client, &mut self.gone, self.stall_max))
    }

    fn failed(&mut self) -> Step<'_, Infallible> {
        Box::pin(async {
            tokio::select! {
                failed = self.sink.failed() => failed,
                () = gone(self.client) => {
                    self.gone = true;
                    Err(Reply::empty(StatusCode::REQUEST_TIMEOUT))
                }
            }
        })
    }

    fn finish(&mut self) -> Step<'_, Reply> {
        Box::pin(watched(self.sink.finish(), self.client, &mut self.gone, self.stall_max))
    }
}

/// Waits until a client that has nothing to read yet is gone: it closes or resets the connection.
async fn gone(client: &TcpStream) {
    // Whoever has sent the next request already is seen only when it resets.
    if let Ok(1..) = client.peek(&mut [0]).await {
        let _ = client.ready(Interest::ERROR).await;
    }
}
