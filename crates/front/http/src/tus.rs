//! Uploads that continue after they broke off, by the protocol tus 1.0 at `/upload/`.
//!
//! Promise: the offset that an answer has is that of durable bytes; a checksum is verified before bytes count. Not here: the uploads
//! (`service::resumable`), the right to write (`login`).

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_types::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION};
use http_types::{Method, StatusCode};
use service::access::{Permit, ToWrite};
use service::contents::ContentPath;
use service::resumable::{NewUpload, ResumableState, UploadRole};

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::message::digest::BodyChecks;
use crate::message::head::{BodyFraming, RequestHead};
use crate::message::reply::Reply;
use crate::problem;
use crate::problem::of_resume;
use crate::upload_part::{
    AppendedBody, SECONDS_MAX, UPLOAD_LENGTH, UPLOAD_OFFSET, UPLOADS, append, at, number, of_digest, remove, text,
    to_upload,
};

const VERSION: &str = "1.0.0";
const EXTENSIONS: &str =
    "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination,concatenation";
const METHODS: &str = "OPTIONS, POST, HEAD, PATCH, DELETE";
const OFFSET_BYTES: &str = "application/offset+octet-stream";
/// Bytes of `Upload-Metadata`, which is given back.
const NOTES_BYTES_MAX: usize = 4096;
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
            return Reply::problem(StatusCode::PRECONDITION_FAILED, &detail).field(TUS_VERSION, VERSION);
        }
        "POST" | "PATCH" if exchange.shared.service.is_draining() => Err(problem::stopping()),
        "POST" => create(exchange, body).await,
        "HEAD" => state(exchange).await,
        "PATCH" => patch(exchange, body).await,
        "DELETE" => remove(exchange).await,
        _ => Err(problem::not_allowed(METHODS)),
    };
    answered.unwrap_or_else(|reply| reply).field(TUS_RESUMABLE, VERSION).field(CACHE_CONTROL, "no-store")
}

fn options(exchange: &Exchange) -> Reply {
    Reply::empty(StatusCode::NO_CONTENT)
        .field(TUS_RESUMABLE, VERSION)
        .field(TUS_VERSION, VERSION)
        .field(TUS_EXTENSION, EXTENSIONS)
        .field(TUS_MAX_SIZE, exchange.shared.service.config().upload_bytes_max.to_string())
        .field(TUS_CHECKSUMS, "md5,sha1,sha256,sha512")
}

/// The method; of a client that can only POST, the one that it means.
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
    let metadata = UploadMetadata::parse(notes).map_err(|detail| Reply::problem(StatusCode::BAD_REQUEST, detail))?;
    let path = match (&metadata.path, &role) {
        (Some(path), _) => path.clone(),
        // Its bytes lie in the root.
        (None, UploadRole::Partial) => ContentPath::root().child("upload").map_err(problem::bad_request)?,
        (None, _) => {
            let detail = "name the content in the metadata: `Upload-Metadata: path BASE64`, its path below /media/";
            return Err(Reply::problem(StatusCode::BAD_REQUEST, detail));
        }
    };
    let length = match (number(head, "upload-length")?, text(head, "upload-defer-length"), &role) {
        (Some(length), None, UploadRole::Whole | UploadRole::Partial) => Some(length),
        (None, Some("1"), UploadRole::Whole | UploadRole::Partial) | (None, None, UploadRole::Final(_)) => None,
        _ => {
            let detail = "`Upload-Length`, or `Upload-Defer-Length: 1`, is needed; a final upload has neither";
            return Err(Reply::problem(StatusCode::BAD_REQUEST, detail));
        }
    };
    let permit: Permit<ToWrite> = to_upload(exchange, &path).await?;
    let checks = checks(head)?;
    let client = exchange.client();
    let (modified, notes) = (metadata.modified, notes.to_owned());
    let new = NewUpload { length, modified, notes, role, client };
    let uploads = &exchange.shared.uploads;
    let state = uploads.create(&permit, new).await.map_err(|error| of_resume(&error))?;
    let mut reply = Reply::empty(StatusCode::CREATED)
        .field(LOCATION, format!("{UPLOADS}{}", state.id))
        .field(UPLOAD_EXPIRES, httpdate::fmt_http_date(state.expires));
    if text(head, CONTENT_TYPE.as_str()) == Some(OFFSET_BYTES) && head.body != BodyFraming::Length(0) {
        let whole = AppendedBody { permit: &permit, id: &state.id, offset: 0, checks, completes: false };
        let appended = append(exchange, body, whole).await;
        // The upload is there: the bytes that are missing can be sent yet.
        let offset = appended.map_or(0, |appended| appended.offset);
        reply = reply.field(UPLOAD_OFFSET, offset.to_string());
    }
    Ok(reply)
}

async fn state(exchange: &Exchange) -> Result<Reply, Reply> {
    let (id, permit) = at(exchange).await?;
    let state = exchange.shared.uploads.state(id, permit.user()).await.map_err(|error| of_resume(&error))?;
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
        return Err(Reply::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, &detail));
    }
    let unnamed = || Reply::problem(StatusCode::BAD_REQUEST, "`Upload-Offset` is needed");
    let offset = number(head, "upload-offset")?.ok_or_else(unnamed)?;
    let checks = checks(head)?;
    let (id, permit) = at(exchange).await?;
    let uploads = &exchange.shared.uploads;
    if let Some(length) = number(head, "upload-length")? {
        uploads.set_length(id, permit.user(), length).await.map_err(|error| of_resume(&error))?;
    }
    let part = AppendedBody { permit: &permit, id, offset, checks, completes: false };
    let appended = append(exchange, body, part).await?;
    let expires = SystemTime::now() + exchange.shared.config().uploads_expire;
    Ok(Reply::empty(StatusCode::NO_CONTENT)
        .field(UPLOAD_OFFSET, appended.offset.to_string())
        .field(UPLOAD_EXPIRES, httpdate::fmt_http_date(expires)))
}

/// The part that an upload has in another.
fn role(head: &RequestHead) -> Result<UploadRole, Reply> {
    match text(head, "upload-concat") {
        None => Ok(UploadRole::Whole),
        Some("partial") => Ok(UploadRole::Partial),
        Some(text) => {
            let unread =
                || Reply::problem(StatusCode::BAD_REQUEST, "`Upload-Concat` is `partial` or `final;` and uploads");
            let parts = text.strip_prefix("final;").ok_or_else(unread)?.split(' ').filter(|part| !part.is_empty());
            let id = |address: &str| {
                let (_, id) = address.rsplit_once(UPLOADS)?;
                Some(id.to_owned())
            };
            parts.map(id).collect::<Option<Vec<_>>>().map(UploadRole::Final).ok_or_else(unread)
        }
    }
}

/// `Upload-Metadata`: names, each with a value in base 64.
#[derive(Debug, Default, PartialEq, Eq)]
struct UploadMetadata {
    path: Option<ContentPath>,
    modified: Option<SystemTime>,
}

impl UploadMetadata {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > NOTES_BYTES_MAX {
            return Err("`Upload-Metadata` has at most 4096 bytes");
        }
        let mut metadata = Self::default();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once(' ').unwrap_or((pair, ""));
            if !matches!(name, "path" | "mtime") {
                continue;
            }
            let value = STANDARD.decode(value.trim()).ok().and_then(|value| String::from_utf8(value).ok());
            let value = value.ok_or("a value of `Upload-Metadata` is no text in base 64")?;
            if name == "path" {
                let path =
                    ContentPath::parse(&value).map_err(|_| "`path` of `Upload-Metadata` is no path of a content")?;
                if path.components().is_empty() {
                    return Err("`path` of `Upload-Metadata` names a content below /media/");
                }
                metadata.path = Some(path);
            } else {
                let seconds = value.parse().ok().filter(|seconds| *seconds <= SECONDS_MAX);
                let seconds = seconds.ok_or("`mtime` of `Upload-Metadata` is a number of seconds since 1970")?;
                metadata.modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            }
        }
        Ok(metadata)
    }
}

fn checks(head: &RequestHead) -> Result<Option<BodyChecks>, Reply> {
    let checks = text(head, "upload-checksum").map(BodyChecks::of_tus).transpose();
    checks.map_err(|error| of_digest(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_names_the_path_and_the_time() {
        let path = |text: &str| Some(ContentPath::parse(text).expect("a path"));
        let parsed =
            UploadMetadata::parse("filename YQ==,path YS9iIGMudHM=, mtime MTYwMDAwMDAwMA==,empty").expect("metadata");
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000));
        assert_eq!(parsed, UploadMetadata { path: path("a/b c.ts"), modified });
        assert_eq!(UploadMetadata::parse(""), Ok(UploadMetadata::default()));
        // `../a`, bytes that are no text, nothing, a word, and a value that is not encoded.
        for text in ["path Li4vYQ==", "path /w==", "path", "mtime c29vbg==", "path a/b", &"x".repeat(5000)] {
            assert!(UploadMetadata::parse(text).is_err(), "{text}");
        }
    }
}
