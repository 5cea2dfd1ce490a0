//! Parts of uploads that continue: their bodies, names and permits, as both protocols for them need them.
//!
//! Not here: the protocols (`tus`, `draft_upload`), the uploads (`service::resumable`).

use std::time::SystemTime;

use api::parse_modified;
use http_types::StatusCode;
use http_types::header::HeaderName;
use service::access::{Permit, ToWrite};
use service::contents::{ContentPath, Precondition};
use service::resumable_parts::{AppendTerms, Appended, AppendedPart};

use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::login;
use crate::message::conditional::joined;
use crate::message::digest::BodyChecks;
use crate::message::head::{BodyFraming, RequestHead};
use crate::message::reply::Reply;
use crate::message::tus::UPLOADS;
use crate::precondition::precondition;
use crate::problem::of_resume;

/// True for the paths of uploads.
pub(crate) fn is_upload(path: &str) -> bool {
    path == "/upload" || path.starts_with(UPLOADS)
}

/// Modification time of the content (Nextcloud, rclone), and the answer that it is kept.
pub(crate) const OC_MTIME: HeaderName = HeaderName::from_static("x-oc-mtime");
pub(crate) const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
pub(crate) const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");

/// The body of a request as a part of an upload.
pub(crate) struct AppendedBody<'a> {
    pub(crate) permit: &'a Permit<ToWrite>,
    pub(crate) id: &'a str,
    pub(crate) offset: u64,
    pub(crate) checks: Option<BodyChecks>,
    /// These are the last bytes.
    pub(crate) completes: bool,
}

/// Carries the body to the upload. The bytes before a break are kept, unless a checksum was to prove them.
pub(crate) async fn append(
    exchange: &Exchange,
    body: &mut RequestBody<'_>,
    appended: AppendedBody<'_>,
) -> Result<Appended, Reply> {
    let AppendedBody { permit, id, offset, checks, completes } = appended;
    let length = match exchange.head.body {
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => None,
    };
    let terms = AppendTerms { offset, length, whole_only: checks.is_some(), completes, client: exchange.client() };
    let part = exchange.shared.uploads.append(permit, id, terms).await?;
    take_body(body, part, checks).await
}

async fn take_body(
    body: &mut RequestBody<'_>,
    mut part: AppendedPart,
    mut checks: Option<BodyChecks>,
) -> Result<Appended, Reply> {
    if let Err(reply) = carry(body, &mut part, &mut checks).await {
        if checks.is_some() {
            part.discard();
        } else {
            // Its client learns the offset from the next request.
            let _ = part.break_off().await;
        }
        return Err(reply);
    }
    if let Some(Err(error)) = checks.map(BodyChecks::verify) {
        part.discard();
        return Err(error.into());
    }
    part.finish().await.map_err(Reply::from)
}

/// Carries the pieces of a body to the end of an upload.
async fn carry(
    body: &mut RequestBody<'_>,
    part: &mut AppendedPart,
    checks: &mut Option<BodyChecks>,
) -> Result<(), Reply> {
    loop {
        let piece = tokio::select! {
            biased;
            piece = body.next() => piece,
            error = part.ends() => return Err(of_resume(&error)),
        };
        let Some(bytes) = piece? else { return Ok(()) };
        if let Some(checks) = checks {
            checks.update(&bytes);
        }
        part.write(bytes).await?;
    }
}

/// `If-None-Match: *`: the upload replaces no content, neither now nor when it is whole.
pub(crate) fn only_new(head: &RequestHead) -> Result<bool, Reply> {
    match precondition(&head.headers) {
        Precondition::None => Ok(false),
        Precondition::MustNotExist => Ok(true),
        _ => Err(Reply::malformed("an upload that continues has no condition but `If-None-Match: *`")),
    }
}

/// The name in a request's path, and the permit to write where it comes to lie.
pub(crate) async fn at(exchange: &Exchange) -> Result<(&str, Permit<ToWrite>), Reply> {
    let id = exchange.head.path.strip_prefix(UPLOADS).unwrap_or_default();
    let path = exchange.shared.uploads.path_of(id)?;
    Ok((id, to_upload(exchange, &path).await?))
}

/// Ends the upload that a request names.
pub(crate) async fn remove(exchange: &Exchange) -> Result<Reply, Reply> {
    let (id, permit) = at(exchange).await?;
    exchange.shared.uploads.remove(id, permit.user()).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// A permit to store at a path. A link has room for this number of bytes, which a continued upload does not count.
pub(crate) async fn to_upload(exchange: &Exchange, path: &ContentPath) -> Result<Permit<ToWrite>, Reply> {
    let permit: Permit<ToWrite> = login::permit(exchange, path).await?;
    if permit.link().is_some() {
        return Err(Reply::problem(StatusCode::FORBIDDEN, "a link is for uploads by PUT"));
    }
    Ok(permit)
}

/// The modification time that the client gives the content (`X-OC-Mtime`, in seconds since 1970).
pub(crate) fn modified(head: &RequestHead) -> Result<Option<SystemTime>, Reply> {
    let Some(text) = joined(&head.headers, &OC_MTIME) else { return Ok(None) };
    let unread = || Reply::malformed("`X-OC-Mtime` is no number of seconds since 1970");
    parse_modified(&text).map(Some).ok_or_else(unread)
}

pub(crate) fn text<'a>(head: &'a RequestHead, name: &str) -> Option<&'a str> {
    head.headers.get(name)?.to_str().ok()
}

pub(crate) fn number(head: &RequestHead, name: &str) -> Result<Option<u64>, Reply> {
    let Some(value) = head.headers.get(name) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    let unread = || Reply::malformed(format!("`{name}` is no number of bytes"));
    number.map(Some).ok_or_else(unread)
}
