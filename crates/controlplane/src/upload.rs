//! PUT and DELETE of contents.
//!
//! Promise: an upload is answered when it is durable; one that is slow, vanishes or is refused leaves nothing behind;
//! the socket is not read while the disk is behind. Not here: disks (`contents`), who may write
//! (`auth`), the reservations of recordings (`recording`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LOCATION,
};
use hyper::body::Incoming;

use crate::auth;
use crate::contents::{ContentPath, Precondition, Published, UploadClass, UploadRequest};
use crate::events::{self, UploadEnd};
use crate::log::Access;
use crate::manager::{self, Origin};
use crate::media;
use crate::message::conditional::{date, etag_list, joined};
use crate::message::head::{BodyFraming, RequestHead};
use crate::message::query::Query;
use crate::message::reply::{Reply, location};
use crate::problem;
use crate::rate::AskError;
use crate::recording;
use crate::router::Exchange;

/// PUT.
pub(crate) async fn put(exchange: &Exchange, body: Incoming, access: &mut Access) -> Reply {
    let published = match put_checked(exchange, body, access).await {
        Ok(published) => published,
        Err(reply) => return reply,
    };
    let reply = Reply::empty(status_of(&published)).field(ETAG, published.etag);
    if published.created { reply.field(LOCATION, location(&exchange.head.path)) } else { reply }
}

/// DELETE.
pub(crate) async fn delete(exchange: &Exchange, access: &mut Access) -> Reply {
    let outcome = async {
        access.user = auth::may_write(exchange).await?;
        let path = content_path(exchange)?;
        let precondition = precondition(exchange);
        let deleted = exchange.shared.contents.delete(&path, precondition).await;
        deleted.map(|()| path).map_err(|error| problem::of_store(&error))
    };
    match outcome.await {
        Ok(path) => {
            let event = events::content_deleted(&path.joined(), exchange.peer.ip(), SystemTime::now());
            exchange.shared.events.line(event);
            Reply::empty(StatusCode::NO_CONTENT)
        }
        Err(reply) => reply,
    }
}

async fn put_checked(exchange: &Exchange, body: Incoming, access: &mut Access) -> Result<Published, Reply> {
    let shared = &exchange.shared;
    access.user = auth::may_write(exchange).await?;
    let path = content_path(exchange)?;
    can_be_taken(&exchange.head)?;
    if exchange.head.headers.contains_key(http::header::CONTENT_RANGE) {
        // RFC 9110 §14.4: a partial PUT that is taken for a whole one destroys the content.
        return Err(Reply::problem(StatusCode::BAD_REQUEST, "partial PUT is not supported; send the whole content"));
    }
    let query = Query::parse(exchange.head.query.as_deref()).map_err(problem::bad_request)?;
    let precondition = precondition(exchange);
    let length = match exchange.head.body {
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => None,
    };
    if length.is_some_and(|length| length > shared.config().upload_bytes_max) {
        return Err(too_large(shared.config().upload_bytes_max));
    }
    let rate = match query.rate.as_deref() {
        None | Some("max") => None,
        Some(text) => Some(units::parse_rate(text).map_err(|error| problem::bad_request(AskError::Rate(error)))?),
    };
    let received: Arc<AtomicU64> = Arc::default();
    let config = shared.config();
    let origin = Origin {
        headers: &exchange.head.headers,
        config: &config,
        received_bytes: &shared.stats.bytes_uploaded,
        recorded_bytes: rate.map(|_| &*received),
    };
    let stages = shared.registry.upload(&origin);
    // What stages alter may become longer or shorter than what was announced.
    let length = length.filter(|_| manager::registry::alteration(&stages).is_none());
    let (name, begun) = (path.joined(), Instant::now());
    let request = UploadRequest { path, length, precondition, class: UploadClass::BestEffort };
    let (recording, upload) = match rate {
        Some(rate) => {
            let (recording, upload) = recording::begin(exchange, request, rate, &received).await?;
            (Some(recording), upload)
        }
        None => (None, shared.contents.begin_upload(request).await.map_err(|error| problem::of_store(&error))?),
    };
    let open = &shared.stats.uploads_open;
    open.fetch_add(1, Ordering::Relaxed);
    let _counted = Counted(open);
    let source = manager::request_body(body, config.upload_idle_max);
    let stored = manager::join(source, stages, &mut manager::store(upload)).await;
    let status = match &stored {
        Ok(published) => status_of(published),
        Err(reply) => reply.status,
    };
    // Who reads in the log that it ended does not find it listed.
    drop(recording);
    let stored_bytes = stored.as_ref().ok().map(|published| published.size);
    let end = UploadEnd { status, stored_bytes, duration: begun.elapsed() };
    shared.events.line(events::upload_ended(&name, exchange.peer.ip(), &end, SystemTime::now()));
    stored
}

const fn status_of(published: &Published) -> StatusCode {
    if published.created { StatusCode::CREATED } else { StatusCode::NO_CONTENT }
}

pub(crate) fn too_large(bytes_max: u64) -> Reply {
    Reply::problem(StatusCode::PAYLOAD_TOO_LARGE, &format!("an upload has at most {bytes_max} bytes here"))
}

fn content_path(exchange: &Exchange) -> Result<ContentPath, Reply> {
    let path = media::content_path(&exchange.head).map_err(problem::bad_request)?;
    if path.components().is_empty() {
        return Err(Reply::problem(StatusCode::CONFLICT, "name a content below /media/"));
    }
    if exchange.head.path.ends_with('/') {
        return Err(Reply::problem(StatusCode::CONFLICT, "a content's name does not end with a slash"));
    }
    Ok(path)
}

/// Whether an upload's body can be: one that was not announced would empty the content, one that is coded would be
/// sent to readers as if it were not.
fn can_be_taken(head: &RequestHead) -> Result<(), Reply> {
    if head.body == BodyFraming::Length(0) && !head.headers.contains_key(CONTENT_LENGTH) {
        let detail = "an upload needs Content-Length or chunked; `Content-Length: 0` makes an empty content";
        return Err(Reply::problem(StatusCode::LENGTH_REQUIRED, detail));
    }
    let coded = joined(&head.headers, &CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity"));
    if coded {
        let detail = "contents are kept as they are read: send it without Content-Encoding";
        return Err(Reply::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).field(ACCEPT_ENCODING, "identity"));
    }
    Ok(())
}

/// What the request demands of what is there (RFC 9110 §13.2.2): If-Match, else If-Unmodified-Since; and If-None-Match.
fn precondition(exchange: &Exchange) -> Precondition {
    let headers = &exchange.head.headers;
    let wanted = match joined(headers, &IF_MATCH) {
        Some(list) => Some(Precondition::MustMatch(etag_list(&list))),
        None => date(headers, &IF_UNMODIFIED_SINCE)
            .map(|limit| Precondition::MustNotBe { tags: Vec::new(), newer_than: Some(limit) }),
    };
    let unwanted = joined(headers, &IF_NONE_MATCH).map(|list| match list.trim() {
        "*" => Precondition::MustNotExist,
        tags => Precondition::MustNotBe { tags: etag_list(tags), newer_than: None },
    });
    match (wanted, unwanted) {
        (Some(wanted), Some(unwanted)) => Precondition::All(vec![wanted, unwanted]),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => Precondition::None,
    }
}

/// Counts an upload as long as it lives, however it ends.
struct Counted<'a>(&'a AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
