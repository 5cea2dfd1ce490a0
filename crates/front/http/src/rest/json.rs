//! Bodies of calls as documents, and lists that come in parts.
//!
//! Promise: bounded; a body that is no such document is refused with the place and the reason.

use std::str::FromStr;

use http_types::StatusCode;
use http_types::header::{CONTENT_TYPE, LINK};
use percent_encoding::utf8_percent_encode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use service::account_changes::ListPart;

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::message::query::Query;
use crate::message::reply::{COMPONENT, Reply, location};
use crate::problem;

/// Largest body of a call.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Most entries of a part of a list.
const PART_MAX: usize = 1000;

/// Reads the body of a call.
///
/// # Errors
/// The answer to a body that is no such document.
pub(super) async fn read<T: DeserializeOwned>(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<T, Reply> {
    let media_type = exchange.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    // A form of another site's page cannot have this type.
    if !essence.eq_ignore_ascii_case("application/json") {
        let detail = "the body of this call is JSON: send `Content-Type: application/json`";
        return Err(Reply::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let bytes = body.document(BODY_BYTES_MAX).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Reply::malformed(format!("the body is not the document of this call: {error}")))
}

/// The part of a list that the query wants, of [`PART_MAX`] entries if it names no limit.
///
/// # Errors
/// The answer to a part that is none.
pub(super) fn part<K: FromStr + Default>(exchange: &Exchange) -> Result<ListPart<K>, Reply> {
    part_of(exchange, PART_MAX)
}

/// The same, of `without` entries if it names no limit.
///
/// # Errors
/// The answer to a part that is none.
pub(super) fn part_of<K: FromStr + Default>(exchange: &Exchange, without: usize) -> Result<ListPart<K>, Reply> {
    let query = Query::parse(exchange.head.query.as_deref()).map_err(problem::bad_request)?;
    let limit = match query.limit.as_deref() {
        None => Some(without),
        Some(limit) => limit.parse().ok().filter(|limit| (1..=PART_MAX).contains(limit)),
    };
    let after = query.after.as_deref().map_or_else(|| Ok(K::default()), str::parse);
    match (limit, after.ok()) {
        (Some(limit), Some(after)) => Ok(ListPart { after, limit }),
        (None, _) => Err(Reply::malformed("`limit=` is a number from 1 to 1000")),
        (_, None) => Err(Reply::malformed("`after=` is the key of an entry of this list")),
    }
}

/// A part of a list, with a link to the next one where there may be more.
pub(super) fn listed<T: Serialize, K>(
    exchange: &Exchange,
    part: &ListPart<K>,
    entries: &[T],
    key: impl Fn(&T) -> String,
) -> Reply {
    let reply = Reply::json(&entries);
    let Some(last) = entries.last().filter(|_| entries.len() == part.limit) else { return reply };
    let (path, after) = (location(&exchange.head.path), key(last));
    let after = utf8_percent_encode(&after, COMPONENT);
    reply.field(LINK, format!("<{path}?limit={}&after={after}>; rel=\"next\"", part.limit))
}
