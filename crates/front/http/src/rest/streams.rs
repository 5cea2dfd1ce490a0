//! Streams under way: in parts, and one with its reasons.
//!
//! Not here: their figures and reasons (`service`), their end (`actions`).

use service::StopError;
use service::access::{Permit, ToObserve};
use service::account_changes::ListPart;
use service::{figures, stream_explanation};
use units::StreamId;

use super::json::{listed, part_of};
use crate::exchange::Exchange;
use crate::message::reply::Reply;
use crate::routes::{Call, FoundCall};
use crate::{login, problem};

pub(super) async fn answer(exchange: &Exchange, found: &FoundCall) -> Result<Reply, Reply> {
    let permit: Permit<ToObserve> = login::permit_server(exchange).await?;
    let service = &exchange.shared.service;
    if found.route.call == Call::Streams {
        // Without a limit it is all of them, as it always was: there are as many as the data plane's table has room for.
        let part: ListPart<u64> = part_of(exchange, usize::MAX)?;
        let streams = figures::streams(service, &part, &permit);
        return Ok(listed(exchange, &part, &streams, |stream| stream.id.to_string()));
    }
    let stream = found.name(0).parse().ok().map(StreamId);
    let explained = stream.and_then(|stream| stream_explanation::explain(service, stream, &permit));
    explained.map(|explained| Reply::json(&explained)).ok_or_else(|| problem::of_stop(&StopError::Unknown))
}
