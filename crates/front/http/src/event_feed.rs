//! `GET /api/v1/events`: the latest events, or, if `Accept` asks for server-sent events (HTML Living Standard, 9.2), each event
//! as it occurs. `GET /api/v1/live` sends the figures of every second in the same way.
//!
//! Promise: a client that takes no bytes loses its connection; a slow client misses events, and the gap shows in their `id`;
//! with `Last-Event-ID` a client gets the kept events after that one. Not here: the events themselves (`service::events`),
//! figures (`live`).

use std::time::Duration;

use bytes::Bytes;
use http_types::header::{ACCEPT, CACHE_CONTROL};
use http_types::{HeaderName, Method, StatusCode};
use service::access::{Permit, ToObserve};
use service::figures;
use service::recent_events::RecentEvents;
use tokio::time::sleep;

use crate::exchange::Exchange;
use crate::message::accept::quality;
use crate::message::conditional::joined;
use crate::message::head::RequestHead;
use crate::message::reply::Reply;
use crate::streamed::PieceSink;
use crate::{live, login};

const PATH: &str = "/api/v1/events";
const MEDIA_TYPE: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Period of the comments that are sent while there are no events, to detect that a client is gone (the standard suggests 15 s).
const COMMENT_PERIOD: Duration = Duration::from_secs(15);

/// The latest events as a JSON array, the oldest first.
pub(crate) fn latest(events: &RecentEvents, permit: &Permit<ToObserve>) -> Reply {
    let events = events.after(0, permit);
    let lines: Vec<&str> = events.iter().map(|(_, line)| line.as_ref()).collect();
    Reply::with_body(StatusCode::OK, "application/json", format!("[{}]", lines.join(",")))
}

/// True for a request of events, or of live figures, as a stream of server-sent events.
pub(crate) fn is_follow_request(head: &RequestHead) -> bool {
    head.method == Method::GET
        && matches!(head.path.as_str(), PATH | live::PATH)
        && joined(&head.headers, &ACCEPT)
            .is_some_and(|accept| quality(&accept, MEDIA_TYPE) > quality(&accept, "application/json"))
}

/// The permit to follow events or live figures, and the head of the answer.
///
/// # Errors
/// The answer to a client that has no right to them.
pub(crate) async fn begin(exchange: &Exchange) -> Result<(Permit<ToObserve>, Reply), Reply> {
    let permit = login::permit_server(exchange).await?;
    Ok((permit, Reply::with_body(StatusCode::OK, MEDIA_TYPE, Bytes::new()).field(CACHE_CONTROL, "no-store")))
}

/// Sends events as they occur, until the server drains or the client loses the right, which is an event itself; `None` if the
/// client is gone.
pub(crate) async fn follow(
    exchange: &Exchange,
    permit: &Permit<ToObserve>,
    response: &mut impl PieceSink,
) -> Option<()> {
    let latest = exchange.shared.service.latest_events(permit);
    let mut last = latest.last();
    let mut draining = exchange.shared.draining.clone();
    let seen = exchange.head.headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let mut seen = seen.unwrap_or(*last.borrow_and_update());
    // The head is sent with the first bytes, so send some even if no event occurs.
    response.write(Bytes::from_static(b": events\n\n")).await?;
    loop {
        // Read before the events, so that the last event, the beginning of the drain, is sent before the loop ends.
        let ends = *draining.borrow_and_update();
        if !exchange.shared.service.is_in_force(permit) {
            return response.finish().await;
        }
        for (number, line) in latest.after(seen, permit) {
            response.write(format!("id: {number}\ndata: {line}\n\n").into()).await?;
            seen = number;
        }
        if ends {
            return response.finish().await;
        }
        let silent = tokio::select! {
            _ = last.changed() => false,
            _ = draining.changed() => false,
            () = sleep(COMMENT_PERIOD) => true,
        };
        if silent {
            response.write(Bytes::from_static(b":\n\n")).await?;
        }
    }
}

/// Sends the figures of every second until the server drains or the client loses the right; `None` if the client is gone.
pub(crate) async fn follow_figures(
    exchange: &Exchange,
    permit: &Permit<ToObserve>,
    response: &mut impl PieceSink,
) -> Option<()> {
    let shared = &exchange.shared;
    let mut readings = figures::readings(&shared.service, permit);
    let mut draining = shared.draining.clone();
    while !*draining.borrow_and_update() && shared.service.is_in_force(permit) {
        let reading = *readings.borrow_and_update();
        response.write(shared.live.of(reading, &shared.service, permit)).await?;
        tokio::select! {
            _ = readings.changed() => {}
            _ = draining.changed() => {}
        }
    }
    response.finish().await
}
