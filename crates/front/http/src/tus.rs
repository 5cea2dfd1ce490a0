//! Resumable uploads by the protocol tus 1.0, at `/upload/`.
//!
//! Promise: an answer has the offset of the durable bytes; bytes count only after their checksum was verified. Not here: the
//! uploads (`service::resumable`), the right to write (`login`).

use std::time::SystemTime;

use http_types::header::{CONTENT_TYPE, HeaderName, LOCATION};
use http_types::{Method, StatusCode};
use service::access::{Permit, ToWrite};
use service::contents::ContentPath;
use service::resumable::{NewUpload, ResumableState, UploadRole};

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::message::digest::BodyChecks;
use crate::message::head::{BodyFraming, RequestHead};
use crate::message::reply::Reply;
use crate::message::tus::{UPLOADS, UploadConcat, UploadMetadata};
use crate::problem;
use crate::upload_part::{
    AppendedBody, UPLOAD_LENGTH, UPLOAD_OFFSET, append, at, number, only_new, remove, text, to_upload,
};

const VERSION: &str = "1.0.0";
const EXTENSIONS: &str =
    "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination,concatenation";
const METHODS: &str = "OPTIONS, POST, HEAD, PATCH, DELETE";
const OFFSET_BYTES: &str = "application/offset+octet-stream";
const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
const TUS_EXTENSION: HeaderName = HeaderName::from_static("tus-extension");
const TUS_MAX_SIZE: HeaderName = HeaderName::from_static("tus-max-size");
const TUS_CHECKSUMS: HeaderName = HeaderName::from_static("tus-checksum-algorithm");
const UPLOAD_DEFER_LENGTH: HeaderName = HeaderName::from_static("upload-defer-length");
const UPLOAD_METADATA: HeaderName = HeaderName::from_static("upload-metadata");
const UPLOAD_EXPIRES: HeaderName = HeaderName::from_static("upload-expires");
const UPLOAD_CONCAT: HeaderName = HeaderName::from_static("upload-concat");

/// The answer to a request at `/upload/`.
pub(crate) async fn answer(exchange: &Exchange, body: &mut RequestBody<'_>) -> Reply {
    let answered = match method(&exchange.head) {
        "OPTIONS" => return options(exchange),
        method if text(&exchange.head, "tus-resumable") != Some(VERSION) => {
            let detail = format!("`{method}` of an upload needs `Tus-Resumable: {VERSION}`");
            return Reply::problem(StatusCode::PRECONDITION_FAILED, detail).field(TUS_VERSION, VERSION);
        }
        "POST" | "PATCH" if exchange.shared.service.is_draining() => Err(problem::stopping()),
        "POST" => create(exchange, body).await,
        "HEAD" => state(exchange).await,
        "PATCH" => patch(exchange, body).await,
        "DELETE" => remove(exchange).await,
        _ => Err(problem::not_allowed(METHODS)),
    };
    answered.unwrap_or_else(|refusal| refusal).uncached().field(TUS_RESUMABLE, VERSION)
}

fn options(exchange: &Exchange) -> Reply {
    Reply::empty(StatusCode::NO_CONTENT)
        .field(TUS_RESUMABLE, VERSION)
        .field(TUS_VERSION, VERSION)
        .field(TUS_EXTENSION, EXTENSIONS)
        .field(TUS_MAX_SIZE, exchange.shared.service.config().upload_bytes_max.to_string())
        .field(TUS_CHECKSUMS, "md5,sha1,sha256,sha512")
}

/// The method of a request, from `X-HTTP-Method-Override` if the client can only send POST.
fn method(head: &RequestHead) -> &str {
    match text(head, "x-http-method-override").filter(|_| head.method == Method::POST) {
        Some(meant @ ("PATCH" | "DELETE" | "HEAD")) => meant,
        _ => head.method.as_str(),
    }
}

async fn create(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    let head = &exchange.head;
    if !matches!(head.path.as_str(), "/upload" | UPLOADS) {
        return Err(problem::not_allowed("HEAD, PATCH, DELETE"));
    }
    let role = role(head)?;
    let notes = text(head, "upload-metadata").unwrap_or_default();
    let metadata = UploadMetadata::parse(notes).map_err(Reply::malformed)?;
    let path = match (named(&metadata)?, &role) {
        (Some(path), _) => path,
        // Its bytes lie in the root.
        (None, UploadRole::Partial) => ContentPath::root().child("upload").map_err(problem::bad_request)?,
        (None, _) => {
            let detail = "name the content in the metadata: `Upload-Metadata: path BASE64`, its path below /media/";
            return Err(Reply::malformed(detail));
        }
    };
    let length = match (number(head, "upload-length")?, text(head, "upload-defer-length"), &role) {
        (Some(length), None, UploadRole::Whole | UploadRole::Partial) => Some(length),
        (None, Some("1"), UploadRole::Whole | UploadRole::Partial) | (None, None, UploadRole::Final(_)) => None,
        _ => {
            let detail = "`Upload-Length`, or `Upload-Defer-Length: 1`, is needed; a final upload has neither";
            return Err(Reply::malformed(detail));
        }
    };
    let permit: Permit<ToWrite> = to_upload(exchange, &path).await?;
    let checks = checks(head)?;
    let client = exchange.client();
    let (modified, notes, only_new) = (metadata.modified, notes.to_owned(), only_new(head)?);
    let new = NewUpload { length, modified, notes, role, only_new, client };
    let uploads = &exchange.shared.uploads;
    let state = uploads.create(&permit, new).await?;
    let mut reply = Reply::empty(StatusCode::CREATED)
        .field(LOCATION, format!("{UPLOADS}{}", state.id))
        .field(UPLOAD_EXPIRES, httpdate::fmt_http_date(state.expires));
    if text(head, CONTENT_TYPE.as_str()) == Some(OFFSET_BYTES) && head.body != BodyFraming::Length(0) {
        let whole = AppendedBody { permit: &permit, id: &state.id, offset: 0, checks, completes: false };
        let appended = append(exchange, body, whole).await;
        // The upload exists already, so its missing bytes can still be sent.
        let offset = appended.map_or(0, |appended| appended.offset);
        reply = reply.field(UPLOAD_OFFSET, offset.to_string());
    }
    Ok(reply)
}

async fn state(exchange: &Exchange) -> Result<Reply, Reply> {
    let (id, permit) = at(exchange).await?;
    let state = exchange.shared.uploads.state(id, permit.user()).await?;
    let ResumableState { offset, length, expires, notes, role, .. } = state;
    let mut reply = Reply::empty(StatusCode::OK)
        .field(UPLOAD_OFFSET, offset.to_string())
        .field(UPLOAD_EXPIRES, httpdate::fmt_http_date(expires));
    reply = match length {
        Some(length) => reply.field(UPLOAD_LENGTH, length.to_string()),
        None => reply.field(UPLOAD_DEFER_LENGTH, "1"),
    };
    if !notes.is_empty() {
        reply = reply.field(UPLOAD_METADATA, notes);
    }
    Ok(match role {
        UploadRole::Whole => reply,
        UploadRole::Partial => reply.field(UPLOAD_CONCAT, "partial"),
        UploadRole::Final(ids) => {
            let parts: Vec<_> = ids.iter().map(|id| format!("{UPLOADS}{id}")).collect();
            reply.field(UPLOAD_CONCAT, format!("final;{}", parts.join(" ")))
        }
    })
}

async fn patch(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    let head = &exchange.head;
    if text(head, CONTENT_TYPE.as_str()) != Some(OFFSET_BYTES) {
        let detail = format!("the bytes of an upload come as `Content-Type: {OFFSET_BYTES}`");
        return Err(Reply::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let unnamed = || Reply::malformed("`Upload-Offset` is needed");
    let offset = number(head, "upload-offset")?.ok_or_else(unnamed)?;
    let checks = checks(head)?;
    let (id, permit) = at(exchange).await?;
    let uploads = &exchange.shared.uploads;
    if let Some(length) = number(head, "upload-length")? {
        uploads.set_length(id, permit.user(), length).await?;
    }
    let part = AppendedBody { permit: &permit, id, offset, checks, completes: false };
    let appended = append(exchange, body, part).await?;
    let expires = SystemTime::now() + exchange.shared.config().uploads_expire;
    Ok(Reply::empty(StatusCode::NO_CONTENT)
        .field(UPLOAD_OFFSET, appended.offset.to_string())
        .field(UPLOAD_EXPIRES, httpdate::fmt_http_date(expires)))
}

/// The role of an upload in a concatenation.
fn role(head: &RequestHead) -> Result<UploadRole, Reply> {
    let concat = text(head, "upload-concat").map(UploadConcat::parse).transpose();
    Ok(match concat.map_err(Reply::malformed)? {
        None => UploadRole::Whole,
        Some(UploadConcat::Partial) => UploadRole::Partial,
        Some(UploadConcat::Final(ids)) => UploadRole::Final(ids),
    })
}

/// The content that the metadata names.
fn named(metadata: &UploadMetadata) -> Result<Option<ContentPath>, Reply> {
    let path = metadata.path.as_deref().map(ContentPath::parse).transpose();
    match path.map_err(|_| Reply::malformed("`path` of `Upload-Metadata` is no path of a content"))? {
        Some(path) if path.components().is_empty() => {
            Err(Reply::malformed("`path` of `Upload-Metadata` names a content below /media/"))
        }
        path => Ok(path),
    }
}

fn checks(head: &RequestHead) -> Result<Option<BodyChecks>, Reply> {
    let checks = text(head, "upload-checksum").map(BodyChecks::of_tus).transpose();
    checks.map_err(Reply::from)
}
