//! PUT and DELETE of contents.
//!
//! Promise: an upload is answered when it is durable; an upload that is slow, vanishes or is refused leaves nothing behind, or the
//! bytes received where the request is to keep them (recordings, `on_break=keep`); the socket is not read while the disk is
//! behind. Not here: storing (`service::ingest`), the right to write (`login`).

use http_types::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, LOCATION};
use http_types::{HeaderName, Method, StatusCode};
use service::access::{Permit, ToRead, ToWrite};
use service::contents::{ContentPath, NameKind, OnBreak, Precondition, Published, StoreError};
use service::ingest::{self, IngestRequest, Writer};
use service::namespace;
use service::pipeline::Stages;
use service::trash::{self, TrashId};
use units::{BitRate, Nanos};
use webdav::DavChange;

use crate::body::RequestBody;
use crate::content;
use crate::dav::{self, Touched};
use crate::draft_upload;
use crate::exchange::Exchange;
use crate::login;
use crate::message::conditional::joined;
use crate::message::digest::BodyChecks;
use crate::message::head::{BodyFraming, RequestHead};
use crate::message::query::Query;
use crate::message::range::last_part;
use crate::message::reply::{Reply, location};
use crate::precondition::precondition;
use crate::problem;
use crate::rate_request::RateTermsError;
use crate::share;
use crate::upload_part::{OC_MTIME, modified};

/// Time after its answer within which an upload may become durable: less than a second is not worth it, and more than a minute is a risk
/// that no client intends.
const LATER: std::ops::RangeInclusive<Nanos> = Nanos::from_secs(1)..=Nanos::from_secs(60);

/// Seconds after the answer within which the upload becomes durable; without the field, it is durable already.
const DURABLE: HeaderName = HeaderName::from_static("x-isocast-durable-within");

/// PUT.
pub(crate) async fn put(exchange: &Exchange, body: &mut RequestBody<'_>) -> Reply {
    let published = match put_checked(exchange, body).await {
        Ok(PutOutcome::Stored(published)) => published,
        Ok(PutOutcome::Answered(reply)) | Err(reply) => return reply,
    };
    if let Some(replaced) = published.replaced {
        dav::keep_creation(exchange, &published.path, replaced).await;
    }
    let mut reply = Reply::empty(status_of(&published)).field(ETAG, &published.etag);
    if exchange.head.headers.contains_key(OC_MTIME) {
        reply = reply.field(OC_MTIME, "accepted");
    }
    if let Some(durable) = published.durable {
        reply = reply.field(DURABLE, durable.as_secs_f64().to_string());
    }
    if published.is_new() { reply.field(LOCATION, stored_at(exchange, &published.path)) } else { reply }
}

/// DELETE of a content, or of an empty folder.
pub(crate) async fn delete(exchange: &Exchange) -> Reply {
    let removed = match path_below(exchange) {
        Ok(path) => remove_item(exchange, &path).await,
        Err(reply) => Err(reply),
    };
    removed.map_or_else(|reply| reply, |()| Reply::empty(StatusCode::NO_CONTENT))
}

/// Removes a folder with nothing in it, hidden contents included, and its locks and properties.
pub(crate) async fn remove_empty_folder(exchange: &Exchange, path: &ContentPath) -> Result<(), Reply> {
    let permit = login::permit(exchange, path).await?;
    let service = &exchange.shared.service;
    if service.lookup(&permit).await.map_err(|error| problem::of_missing(&error))?.kind == NameKind::File {
        return Err(problem::of_store(&StoreError::NotADirectory));
    }
    dav::check(exchange, permit.user(), &[Touched { path, tree: true, named: true }]).await?;
    let deleted = ingest::delete(service, &permit, Precondition::None, exchange.client()).await;
    deleted.map_err(|error| problem::of_delete(&error))?;
    follow_removal(exchange, path).await
}

/// Removes a content, or a folder with all in it, and its locks and properties.
pub(crate) async fn remove_item(exchange: &Exchange, path: &ContentPath) -> Result<(), Reply> {
    let permit = login::permit(exchange, path).await?;
    let (service, client) = (&exchange.shared.service, exchange.client());
    if exchange.head.path.ends_with('/') {
        let entry = service.lookup(&permit).await?;
        if entry.kind == NameKind::File {
            return Err(no_slash());
        }
    }
    dav::check(exchange, permit.user(), &[Touched { path, tree: true, named: true }]).await?;
    match ingest::delete(service, &permit, precondition(&exchange.head.headers), client).await {
        Err(StoreError::NotEmpty) => dav::delete_folder(exchange, &permit).await?,
        deleted => deleted.map_err(|error| problem::of_delete(&error))?,
    }
    follow_removal(exchange, path).await
}

/// Removes the locks and properties of an item that is gone.
async fn follow_removal(exchange: &Exchange, path: &ContentPath) -> Result<(), Reply> {
    let path = path.joined();
    exchange.shared.dav.follow(&[&path], || DavChange::Removed { path: path.clone() }).await
}

/// Moves a content, or a folder with all in it, into the trash, without its locks and properties. Gives its name there.
pub(crate) async fn put_in_trash(exchange: &Exchange, path: &ContentPath) -> Result<TrashId, Reply> {
    let permit = login::permit(exchange, path).await?;
    dav::check(exchange, permit.user(), &[Touched { path, tree: true, named: true }]).await?;
    let id = trash::put(&exchange.shared.service, &permit, exchange.client()).await?;
    follow_removal(exchange, path).await?;
    Ok(id)
}

/// The end of a PUT.
enum PutOutcome {
    Stored(Published),
    /// It was an upload that continues.
    Answered(Reply),
}

async fn put_checked(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<PutOutcome, Reply> {
    let head = &exchange.head;
    let query = Query::parse(head.query.as_deref()).map_err(problem::bad_request)?;
    let rate = rate(&query)?;
    let every = every(&query, rate)?;
    let path = match every {
        Some(_) => content::pattern(&exchange.head).map_err(problem::bad_request)?,
        None => path_below(exchange)?,
    };
    if exchange.head.path.ends_with('/') {
        return Err(no_slash());
    }
    let on_break = on_break(&query, rate)?;
    let durable = durable(&query, rate)?;
    let permit = login::permit(exchange, &path).await?;
    can_be_taken(head)?;
    let length = match head.body {
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => None,
    };
    let continued = continued(exchange, &path, length).await?;
    let precondition = precondition(&head.headers);
    if permit.link().is_some() && (rate.is_some() || on_break == OnBreak::Keep) {
        let detail = "a link is for whole uploads, not for recordings: leave rate= and on_break=keep out";
        return Err(Reply::problem(StatusCode::FORBIDDEN, detail));
    }
    if every.is_some() && precondition != Precondition::None {
        let detail = "files of a recording replace nothing: conditions on present contents have no meaning";
        return Err(Reply::malformed(detail));
    }
    check_share(exchange, &path, &permit).await?;
    if draft_upload::begins_upload(head, &permit)? {
        return draft_upload::create(exchange, body, &permit).await.map(PutOutcome::Answered);
    }
    let client = exchange.client();
    let modified = modified(head)?;
    let mut checks = BodyChecks::of(&head.headers).map_err(problem::bad_request)?;
    let whole = length.map(|length| length.saturating_add(continued.as_ref().map_or(0, |(_, present)| *present)));
    let request = IngestRequest { length: whole, precondition, rate, durable, on_break, every, modified, client };
    let claimed = claim(exchange, &permit, length).await?;
    let stored = async {
        let writer = ingest::begin(&exchange.shared.service, &permit, request, Stages::default()).await;
        let mut writer = writer?;
        if let Some((present, _)) = &continued {
            namespace::copy_into(&exchange.shared.service, present, &mut writer, client).await?;
        }
        take_body(body, &mut writer, &mut checks).await?;
        if let Err(error) = checks.verify() {
            writer.give_up(&error.to_string()).await;
            return Err(problem::bad_request(error));
        }
        writer.finish().await.map_err(Reply::from)
    };
    let stored = stored.await;
    // One without an answer of its disk (504) may be stored yet.
    if stored.as_ref().is_err_and(|reply| reply.status != StatusCode::GATEWAY_TIMEOUT) {
        // Where it cannot be given back now, the link stores that much less.
        let _ = exchange.shared.service.credentials.store_by_link(&permit, -1, -claimed).await;
    }
    stored.map(PutOutcome::Stored)
}

/// The present content, and its bytes, that a PUT continues: its client proves by `If-Match` that it knows them, and has all the bytes
/// behind them. The whole replaces the present content in one step at its end.
async fn continued(
    exchange: &Exchange,
    path: &ContentPath,
    length: Option<u64>,
) -> Result<Option<(Permit<ToRead>, u64)>, Reply> {
    let headers = &exchange.head.headers;
    let Some(range) = joined(headers, &CONTENT_RANGE) else { return Ok(None) };
    // A partial PUT that is taken for a whole one destroys the content (RFC 9110 §14.5).
    let first = length.and_then(|length| last_part(&range, length));
    let knows = joined(headers, &IF_MATCH).is_some_and(|tags| tags.trim() != "*");
    let sums = ["repr-digest", "oc-checksum", "content-md5"].iter().any(|name| headers.contains_key(*name));
    let (Some(first), true, false, None) = (first, knows, sums, exchange.head.query.as_deref()) else {
        let detail = "a PUT with `Content-Range` has the last bytes of its content, and the tag of the bytes before them in `If-Match`; \
                      without a query, and without a checksum of the whole";
        return Err(Reply::malformed(detail));
    };
    let permit: Permit<ToRead> = login::permit(exchange, path).await?;
    let present = exchange.shared.service.lookup(&permit).await;
    let present = present.ok().filter(|entry| precondition(headers).holds(Some(entry.existing())));
    let present = present.ok_or_else(|| problem::of_store(&StoreError::PreconditionFailed))?;
    if present.size != first {
        let detail = format!("the present content has {} bytes: the part behind them begins there", present.size);
        return Err(Reply::problem(StatusCode::CONFLICT, detail));
    }
    Ok(Some((permit, first)))
}

/// Takes a use of the permit's link and the room of its upload, before the first byte. Gives the bytes taken.
async fn claim(exchange: &Exchange, permit: &Permit<ToWrite>, length: Option<u64>) -> Result<i64, Reply> {
    if permit.link().is_some_and(|link| link.stored.is_some()) && length.is_none() {
        let detail = "this link has room for so many bytes: an upload by it needs Content-Length";
        return Err(Reply::problem(StatusCode::LENGTH_REQUIRED, detail));
    }
    let bytes = i64::try_from(length.unwrap_or(0)).unwrap_or(i64::MAX);
    let taken = exchange.shared.service.credentials.store_by_link(permit, 1, bytes).await;
    taken.map(|()| bytes).map_err(|error| share::used_up(exchange, permit, &error))
}

/// Refuses a PUT that a lock forbids, or by which a client that makes its folders itself would bring one back that is gone.
async fn check_share(exchange: &Exchange, path: &ContentPath, permit: &Permit<ToWrite>) -> Result<(), Reply> {
    let service = &exchange.shared.service;
    let is_quiet = exchange.shared.dav.with(|state| state.locks.all().next().is_none());
    let is_client = dav::is_client(&exchange.head);
    if is_quiet && !is_client {
        return Ok(());
    }
    let is_new = matches!(service.lookup(permit).await, Err(StoreError::NotFound));
    if is_new && is_client {
        namespace::check_parent(service, permit).await?;
    }
    dav::check(exchange, permit.user(), &[Touched { path, tree: false, named: is_new }]).await
}

/// Carries all of the body to the store. A failure of the store is seen while nothing comes, too.
async fn take_body(body: &mut RequestBody<'_>, writer: &mut Writer, checks: &mut BodyChecks) -> Result<(), Reply> {
    loop {
        let piece = tokio::select! {
            biased;
            piece = body.next_of(writer.recording()) => piece,
            error = writer.failed() => return Err(error.into()),
        };
        match piece {
            Ok(Some(bytes)) => {
                checks.update(&bytes);
                writer.write(bytes).await?;
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                writer.give_up(&error.to_string()).await;
                return Err(error.into());
            }
        }
    }
}

/// True if this uploads with `rate=`: a recording, if it is taken.
pub(crate) fn has_rate(head: &RequestHead) -> bool {
    let query = Query::parse(head.query.as_deref());
    head.method == Method::PUT && query.is_ok_and(|query| query.rate.is_some_and(|rate| rate != "max"))
}

/// The rate that a recording reserves.
fn rate(query: &Query) -> Result<Option<BitRate>, Reply> {
    match query.rate.as_deref() {
        None | Some("max") => Ok(None),
        Some(text) => {
            units::parse_rate(text).map(Some).map_err(|error| problem::bad_request(RateTermsError::Rate(error)))
        }
    }
}

/// Fate of an upload that breaks off: a recording is kept unless the query says otherwise.
fn on_break(query: &Query, rate: Option<BitRate>) -> Result<OnBreak, Reply> {
    match (query.on_break.as_deref(), rate) {
        (Some("keep"), _) | (None, Some(_)) => Ok(OnBreak::Keep),
        (Some("discard"), _) | (None, None) => Ok(OnBreak::Discard),
        (Some(_), _) => Err(Reply::malformed("`on_break=` is `keep` or `discard`")),
    }
}

/// Duration of each file of a recording that is cut into several.
fn every(query: &Query, rate: Option<BitRate>) -> Result<Option<Nanos>, Reply> {
    let Some(text) = query.every.as_deref() else { return Ok(None) };
    if rate.is_none() {
        return Err(Reply::malformed("`every=` is for recordings: give the rate too (`rate=4M`)"));
    }
    units::parse_duration(text).map(Some).map_err(|error| problem::bad_request(RateTermsError::Every(error)))
}

/// Time within which a recording becomes durable, if the query states it, or an upload after its answer.
fn durable(query: &Query, rate: Option<BitRate>) -> Result<Option<Nanos>, Reply> {
    let Some(text) = query.durable.as_deref() else { return Ok(None) };
    let durable = units::parse_duration(text).map_err(|error| problem::bad_request(RateTermsError::Durable(error)))?;
    if rate.is_none() && !LATER.contains(&durable) {
        let (least, most) = (LATER.start(), LATER.end());
        let detail =
            format!("`durable=` of an upload is from {least} to {most}; without it, it is durable when it is answered");
        return Err(Reply::malformed(detail));
    }
    Ok(Some(durable))
}

/// Location of the stored content: the last file of a recording, or the request's own target.
fn stored_at(exchange: &Exchange, stored: &ContentPath) -> String {
    match content::content_path(&exchange.head) {
        Ok(path) if path == *stored => location(&exchange.head.path),
        _ => dav::address(&stored.joined(), ""),
    }
}

const fn status_of(published: &Published) -> StatusCode {
    if published.is_new() { StatusCode::CREATED } else { StatusCode::NO_CONTENT }
}

fn path_below(exchange: &Exchange) -> Result<ContentPath, Reply> {
    let path = content::content_path(&exchange.head).map_err(problem::bad_request)?;
    if path.components().is_empty() {
        return Err(Reply::problem(StatusCode::CONFLICT, "name a content below /media/"));
    }
    Ok(path)
}

fn no_slash() -> Reply {
    Reply::problem(StatusCode::CONFLICT, "a content's name does not end with a slash")
}

/// Refuses a body that cannot be stored: an unannounced body would empty the content, a coded one would be
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
