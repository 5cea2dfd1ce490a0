//! `GET /api/v1/live`: the figures of a second, or those of every second as server-sent events where `Accept` wants these.
//!
//! Promise: the figures of a second are written once for all clients that may see everything; a client that takes nothing loses its
//! connection. Not here: the figures (`service::figures`).

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use service::access::{Permit, ToObserve};
use service::{MediaService, figures};

use crate::exchange::Exchange;
use crate::message::reply::Reply;
use crate::streamed::PieceSink;

/// The path of the call.
pub(crate) const PATH: &str = "/api/v1/live";

/// The event of the latest reading of the figures, and that reading's number.
#[derive(Debug, Default)]
pub(crate) struct LatestEvent(Mutex<Option<(u64, Bytes)>>);

impl LatestEvent {
    /// The event of a reading, for a client that may see everything.
    fn of(&self, reading: u64, service: &MediaService, permit: &Permit<ToObserve>) -> Bytes {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((number, event)) if *number == reading => event.clone(),
            _ => latest.insert((reading, event(service, permit))).1.clone(),
        }
    }
}

/// The figures now.
pub(crate) fn now(service: &MediaService, permit: &Permit<ToObserve>) -> Reply {
    Reply::json(&figures::live(service, permit))
}

/// Sends the figures of every second until the server drains; none if the client is gone.
pub(crate) async fn follow(
    exchange: &Exchange,
    permit: &Permit<ToObserve>,
    response: &mut impl PieceSink,
) -> Option<()> {
    let shared = &exchange.shared;
    let mut readings = figures::readings(&shared.service, permit);
    let mut draining = shared.draining.clone();
    while !*draining.borrow_and_update() {
        let reading = *readings.borrow_and_update();
        let event = if permit.sees_others() {
            shared.live.of(reading, &shared.service, permit)
        } else {
            event(&shared.service, permit)
        };
        response.write(event).await?;
        tokio::select! {
            _ = readings.changed() => {}
            _ = draining.changed() => {}
        }
    }
    response.finish().await
}

fn event(service: &MediaService, permit: &Permit<ToObserve>) -> Bytes {
    let figures = serde_json::to_string(&figures::live(service, permit)).expect("figures are JSON");
    format!("data: {figures}\n\n").into()
}
