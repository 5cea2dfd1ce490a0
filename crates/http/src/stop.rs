//! `POST /api/v1/streams/ID/stop`: somebody who may write ends a stream.

use http_types::StatusCode;
use service::StopError;
use units::StreamId;

use crate::exchange::Exchange;
use crate::login;
use crate::message::reply::Reply;
use crate::problem;

/// Asks for the end of a stream. Its number is `number`, as the target has it.
pub(crate) async fn answer(exchange: &Exchange, number: &str, user: &mut Option<String>) -> Reply {
    if let Err(reply) = login::authorize_post(exchange, user).await {
        return reply;
    }
    let stopped = match number.parse() {
        Ok(id) => exchange.shared.service.stop_stream(StreamId(id), exchange.peer.ip(), user.as_deref()),
        Err(_) => Err(StopError::Unknown),
    };
    match stopped {
        Ok(()) => Reply::empty(StatusCode::ACCEPTED),
        Err(error @ StopError::Unknown) => Reply::problem(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error @ StopError::Recording) => Reply::problem(StatusCode::CONFLICT, &error.to_string()),
        Err(StopError::Busy) => problem::busy(&exchange.shared),
    }
}
