//! Uploads that continue, as Apple's systems send them: draft-ietf-httpbis-resumable-upload, interoperability version 6.
//!
//! Promise: a PUT of a content that could be resumed is answered with 104 and the place of the upload before its body is read; else it is an
//! ordinary PUT. Over HTTP/2 no 104 can be sent, so that a client sends such an upload again from its beginning. A PUT of a part of a content
//! is never an ordinary one. Not here: the uploads (`service::resumable`), tus (`tus`).

use http_types::header::{CONTENT_TYPE, HOST, HeaderName, LOCATION};
use http_types::{Method, StatusCode};
use service::access::{Permit, ToWrite};
use service::contents::{ContentPath, Precondition};
use service::resumable::{NewUpload, UploadRole};

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::message::head::{BodyFraming, HttpVersion, RequestHead};
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::message::tus::UPLOADS;
use crate::precondition::precondition;
use crate::problem;
use crate::upload_part::{
    AppendedBody, UPLOAD_LENGTH, UPLOAD_OFFSET, append, at, modified, number, only_new, remove, text, to_upload,
};

/// A content with fewer bytes is sent again as fast as it is resumed.
const RESUMED_BYTES_MIN: u64 = 1 << 20;
const PARTIAL: &str = "application/partial-upload";
const VERSION_FIELD: &str = "upload-draft-interop-version";
const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");

/// True for a request in this version of the draft.
pub(crate) fn is_draft(head: &RequestHead) -> bool {
    text(head, VERSION_FIELD) == Some("6")
}

/// True for a PUT that begins an upload which its client can resume where it breaks off: a PUT of a part of the content, or of this number
/// of bytes that it is worth it. Such an upload has none of the conditions, rates and checksums that the parts of an upload do not have.
///
/// # Errors
/// It has a part of the content, and more than an upload may have, or comes over HTTP/2: as an ordinary PUT, it would make half of a content
/// visible.
pub(crate) fn begins_upload(head: &RequestHead, permit: &Permit<ToWrite>) -> Result<bool, Reply> {
    let fields = ["content-digest", "repr-digest", "content-md5", "oc-checksum", "content-encoding", "content-range"];
    let can_begin = is_draft(head)
        && head.query.is_none()
        && permit.link().is_none()
        && precondition(&head.headers) == Precondition::None
        && !fields.iter().any(|field| head.headers.contains_key(*field));
    let is_large = match head.body {
        BodyFraming::Length(length) => length >= RESUMED_BYTES_MIN,
        BodyFraming::Chunked => true,
    };
    match completes(head) {
        Some(false) if !can_begin => {
            let detail = "a part of a content (`Upload-Complete: ?0`) comes with `Upload-Draft-Interop-Version: 6`, and without a query, \
                          a link, conditions and checksums";
            Err(Reply::malformed(detail))
        }
        Some(false) => Ok(true),
        Some(true) => {
            let announced = number(head, "upload-length")?;
            let can_begin = can_begin && head.version == HttpVersion::Http11;
            let falls_short =
                matches!((announced, head.body), (Some(all), BodyFraming::Length(length)) if all != length);
            if falls_short && !can_begin {
                let detail =
                    "the last part of a content (`Upload-Complete: ?1`) has as many bytes as `Upload-Length` says";
                return Err(Reply::malformed(detail));
            }
            Ok(can_begin && (is_large || announced.is_some()))
        }
        None => Ok(false),
    }
}

/// `Upload-Complete`: the request has the last bytes.
fn completes(head: &RequestHead) -> Option<bool> {
    match text(head, "upload-complete") {
        Some("?1") => Some(true),
        Some("?0") => Some(false),
        _ => None,
    }
}

/// A PUT of a content, or a POST at `/upload/` with its path in the query, that begins an upload.
pub(crate) async fn create(
    exchange: &Exchange,
    body: &mut RequestBody<'_>,
    permit: &Permit<ToWrite>,
) -> Result<Reply, Reply> {
    let (head, uploads) = (&exchange.head, &exchange.shared.uploads);
    let unread = || Reply::malformed("`Upload-Complete` is `?0` or `?1`");
    let completes = completes(head).ok_or_else(unread)?;
    let length = match (number(head, "upload-length")?, head.body) {
        (Some(length), _) => Some(length),
        (None, BodyFraming::Length(length)) if completes => Some(length),
        (None, _) => None,
    };
    let created = exchange.shared.service.lookup(permit).await.is_err();
    let (modified, client) = (modified(head)?, exchange.client());
    let (notes, role, only_new) = (String::new(), UploadRole::Whole, only_new(head)?);
    let new = NewUpload { length, modified, notes, role, only_new, client };
    let state = uploads.create(permit, new).await?;
    let address = address(exchange, &state.id);
    if state.is_done {
        return Ok(stored(permit.path(), created));
    }
    let resumption = format!(
        "HTTP/1.1 104 Upload Resumption Supported\r\nUpload-Draft-Interop-Version: 6\r\nLocation: {address}\r\n\r\n"
    );
    body.inform(&resumption).await?;
    let appended = append(exchange, body, AppendedBody { permit, id: &state.id, offset: 0, checks: None, completes });
    let appended = appended.await?;
    if appended.is_done {
        return Ok(stored(permit.path(), created));
    }
    Ok(Reply::empty(StatusCode::CREATED)
        .field(LOCATION, address)
        .field(UPLOAD_COMPLETE, "?0")
        .field(UPLOAD_OFFSET, appended.offset.to_string()))
}

/// The answer to a request at `/upload/`.
pub(crate) async fn answer(exchange: &Exchange, body: &mut RequestBody<'_>) -> Reply {
    let answered = match exchange.head.method {
        Method::POST | Method::PATCH if exchange.shared.service.is_draining() => Err(problem::stopping()),
        Method::POST => begin(exchange, body).await,
        Method::HEAD => state(exchange).await,
        Method::PATCH => patch(exchange, body).await,
        Method::DELETE => remove(exchange).await,
        _ => Err(problem::not_allowed("POST, HEAD, PATCH, DELETE")),
    };
    answered.unwrap_or_else(|refusal| refusal).uncached()
}

async fn begin(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    let unnamed = || Reply::malformed("name the content: `?path=PATH`, its path below /media/");
    let path = pairs(exchange.head.query.as_deref()).find(|(key, _)| *key == "path").map(|(_, path)| path);
    let path = ContentPath::parse(&path.ok_or_else(unnamed)?).map_err(problem::bad_request)?;
    if path.components().is_empty() {
        return Err(unnamed());
    }
    let permit = to_upload(exchange, &path).await?;
    create(exchange, body, &permit).await
}

async fn state(exchange: &Exchange) -> Result<Reply, Reply> {
    let (id, permit) = at(exchange).await?;
    let state = exchange.shared.uploads.state(id, permit.user()).await?;
    let most = exchange.shared.service.config().upload_bytes_max;
    let reply = Reply::empty(StatusCode::NO_CONTENT)
        .field(UPLOAD_OFFSET, state.offset.to_string())
        .field(UPLOAD_COMPLETE, if state.is_done { "?1" } else { "?0" })
        .field(UPLOAD_LIMIT, format!("max-size={most}"));
    Ok(match state.length {
        Some(length) => reply.field(UPLOAD_LENGTH, length.to_string()),
        None => reply,
    })
}

async fn patch(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    let head = &exchange.head;
    if text(head, CONTENT_TYPE.as_str()) != Some(PARTIAL) {
        let detail = format!("the bytes of an upload come as `Content-Type: {PARTIAL}`");
        return Err(Reply::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let unread = || Reply::malformed("`Upload-Offset` and `Upload-Complete` are needed");
    let offset = number(head, "upload-offset")?.ok_or_else(unread)?;
    let completes = completes(head).ok_or_else(unread)?;
    let (id, permit) = at(exchange).await?;
    let path = exchange.shared.uploads.path_of(id)?;
    let body_of = AppendedBody { permit: &permit, id, offset, checks: None, completes };
    let appended = append(exchange, body, body_of).await.map_err(|reply| reply.field(UPLOAD_COMPLETE, "?0"))?;
    if appended.is_done {
        return Ok(stored(&path, false));
    }
    let reply = Reply::empty(StatusCode::NO_CONTENT).field(UPLOAD_COMPLETE, "?0");
    Ok(reply.field(UPLOAD_OFFSET, appended.offset.to_string()))
}

/// The answer to the request with the last bytes.
fn stored(path: &ContentPath, created: bool) -> Reply {
    let status = if created { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let reply = Reply::empty(status).field(UPLOAD_COMPLETE, "?1");
    if created { reply.field(LOCATION, crate::dav::address(&path.joined(), "")) } else { reply }
}

/// The whole address of an upload.
fn address(exchange: &Exchange, id: &str) -> String {
    let scheme = if exchange.is_sealed { "https" } else { "http" };
    match exchange.head.headers.get(HOST).and_then(|host| host.to_str().ok()) {
        Some(host) => format!("{scheme}://{host}{UPLOADS}{id}"),
        None => format!("{UPLOADS}{id}"),
    }
}
