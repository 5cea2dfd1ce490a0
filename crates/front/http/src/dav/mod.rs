//! WebDAV (RFC 4918) on the contents: its methods as calls of the service.
//!
//! Promise: a method is done in full or not at all, and a lock, dead property or other name is kept before it is answered. Not here: the
//! rules of bodies, fields and locks (crate `webdav`), GET, HEAD and PUT (`content`, `upload`).

mod find;
mod guard;
mod lock;
mod names;
mod patch;

use http_types::header::{ALLOW, CACHE_CONTROL, HeaderName, USER_AGENT};
use http_types::{Method, StatusCode};
use percent_encoding::utf8_percent_encode;
use service::access::{Permit, ToWrite};
use service::contents::ContentPath;
use webdav::{BODY_BYTES_MAX, DavCondition, XmlError, error_body};

use crate::body::RequestBody;
use crate::content::PREFIX;
use crate::exchange::Exchange;
use crate::message::head::RequestHead;
use crate::message::reply::{COMPONENT, Reply};
use crate::problem;

pub(crate) use guard::{Touched, check};
pub(crate) use names::{NameTransfer, copy_item, delete_folder, move_item, new_folder};
pub(crate) use patch::keep_creation;

const DAV: HeaderName = HeaderName::from_static("dav");
const MS_AUTHOR_VIA: HeaderName = HeaderName::from_static("ms-author-via");
/// The property that a content keeps over its replacement.
const CREATED: &str = "creationdate";
const XML: &str = "application/xml; charset=utf-8";

/// True for methods whose bodies are read here.
pub(crate) fn takes_body(method: &Method) -> bool {
    matches!(method.as_str(), "PROPFIND" | "PROPPATCH" | "MKCOL" | "LOCK" | "COPY" | "MOVE" | "UNLOCK")
}

/// The answer to a method of WebDAV on a content or folder; none: it is another method.
pub(crate) async fn answer(exchange: &Exchange, body: &mut RequestBody<'_>) -> Option<Reply> {
    if !takes_body(&exchange.head.method) {
        return None;
    }
    let answered = async {
        let is_change = exchange.head.method.as_str() != "PROPFIND";
        if is_change && exchange.shared.service.is_draining() {
            return Err(problem::stopping());
        }
        let bytes = read_body(body).await?;
        match exchange.head.method.as_str() {
            "PROPFIND" => find::propfind(exchange, &bytes).await,
            "PROPPATCH" => patch::proppatch(exchange, &bytes).await,
            "MKCOL" => names::make_folder(exchange, &bytes).await,
            "LOCK" => lock::lock(exchange, &bytes).await,
            "UNLOCK" => lock::unlock(exchange).await,
            "COPY" => names::copy(exchange).await,
            _ => names::rename(exchange).await,
        }
    };
    Some(answered.await.unwrap_or_else(|reply| reply))
}

/// The answer to OPTIONS: the methods, and that this is a share.
pub(crate) fn options() -> Reply {
    Reply::empty(StatusCode::OK).field(ALLOW, problem::MEDIA_METHODS).field(DAV, "1, 2").field(MS_AUTHOR_VIA, "DAV")
}

/// PROPFIND of the folder above all contents, which clients that mount a share look at on their way to it.
pub(crate) async fn above(exchange: &Exchange, body: &mut RequestBody<'_>) -> Reply {
    match read_body(body).await {
        Ok(_) => find::above(exchange),
        Err(reply) => reply,
    }
}

/// True if the client speaks WebDAV: by its own words, or by a field that no other client sends. It makes its folders itself, and a PUT
/// into a folder that is gone must not bring that back (RFC 4918 §9.7.1).
pub(crate) fn is_client(head: &RequestHead) -> bool {
    const AGENTS: [&str; 8] = ["neon/", "webdav", "davfs", "gvfs", "cadaver", "kioworker", "mirall", "cyberduck"];
    let agent = head.headers.get(USER_AGENT).map(|agent| agent.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    let agent = String::from_utf8_lossy(&agent);
    let speaks = ["translate", "if", "x-expected-entity-length"].iter().any(|name| head.headers.contains_key(*name));
    speaks || AGENTS.iter().any(|one| agent.contains(one))
}

async fn read_body(body: &mut RequestBody<'_>) -> Result<Vec<u8>, Reply> {
    body.document(BODY_BYTES_MAX).await.map_err(Reply::from)
}

fn of_xml(error: XmlError) -> Reply {
    match error {
        XmlError::TooLarge => Reply::problem(StatusCode::PAYLOAD_TOO_LARGE, error),
        XmlError::Entity => Reply::problem(StatusCode::FORBIDDEN, error).failing(DavCondition::NoExternalEntities),
        XmlError::Malformed | XmlError::Unexpected => problem::bad_request(error),
    }
}

/// The reply as a client that speaks WebDAV reads it: with the element of the condition that failed.
pub(crate) fn for_client(exchange: &Exchange, reply: Reply) -> Reply {
    let head = &exchange.head;
    match &reply.failed {
        Some(condition) if takes_body(&head.method) || is_client(head) => {
            let problem: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            let body = error_body(condition, problem["detail"].as_str().unwrap_or_default());
            Reply::with_body(reply.status, XML, body).field(CACHE_CONTROL, "no-store")
        }
        _ => reply,
    }
}

/// The address of a path, encoded; `slash` behind that of a folder.
pub(crate) fn address(path: &str, slash: &str) -> String {
    if path.is_empty() {
        return PREFIX.to_owned();
    }
    let names = path.split('/').map(|name| utf8_percent_encode(name, COMPONENT).to_string());
    format!("{PREFIX}{}{slash}", names.collect::<Vec<_>>().join("/"))
}

/// A field as text; none if it is not there or no text.
fn field<'a>(exchange: &'a Exchange, name: &str) -> Option<&'a str> {
    exchange.head.headers.get(name)?.to_str().ok()
}

/// A permit to change the resource at `path`. A link stores contents, and changes nothing else.
async fn to_change(exchange: &Exchange, path: &ContentPath) -> Result<Permit<ToWrite>, Reply> {
    let permit: Permit<ToWrite> = crate::login::permit(exchange, path).await?;
    if permit.link().is_none() {
        return Ok(permit);
    }
    Err(Reply::problem(StatusCode::FORBIDDEN, "a link is for reads and uploads, not for other changes"))
}

fn target(exchange: &Exchange) -> Result<ContentPath, Reply> {
    crate::content::content_path(&exchange.head).map_err(problem::bad_request)
}
