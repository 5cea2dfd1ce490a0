//! LOCK and UNLOCK.

use http_types::StatusCode;
use http_types::header::HeaderName;
use service::access::{Permit, ToWrite};
use service::contents::{Precondition, StoreError};
use service::ingest::{self, IngestRequest};
use service::namespace::NamespaceError;
use service::pipeline::Stages;
use webdav::{
    DavChange, DavCondition, DavDepth, DavLock, LockError, UnixSeconds, lock_body, lock_discovery, prop_body,
    timeout_seconds, unlock_token,
};

use super::guard::if_field;
use super::{Touched, XML, address, check, field, of_xml, target, to_change};
use crate::dav_state::now;
use crate::exchange::Exchange;
use crate::message::reply::Reply;
use crate::problem;

const LOCK_TOKEN: HeaderName = HeaderName::from_static("lock-token");

/// LOCK: makes a lock, and an empty content where there is nothing; without a body, refreshes one.
pub(super) async fn lock(exchange: &Exchange, body: &[u8]) -> Result<Reply, Reply> {
    let path = target(exchange)?;
    let permit = to_change(exchange, &path).await?;
    let seconds = timeout_seconds(field(exchange, "timeout"));
    let Some(wish) = lock_body(body).map_err(of_xml)? else { return refresh(exchange, &permit, seconds).await };
    let depth = webdav::depth(field(exchange, "depth")).map_err(problem::bad_request)?;
    if depth == Some(DavDepth::One) {
        return Err(Reply::malformed("a lock's `Depth` is 0 or infinity"));
    }
    let is_new = match exchange.shared.service.lookup(&permit).await {
        Ok(_) => false,
        Err(StoreError::NotFound) => true,
        Err(error) => return Err(error.into()),
    };
    if is_new {
        check_parent(exchange, &permit).await?;
        check(exchange, permit.user(), &[Touched { path: &path, tree: false, named: true }]).await?;
    } else {
        if_field(exchange).await?;
    }
    let lock = DavLock {
        token: token(exchange),
        root: path.joined(),
        scope: wish.scope,
        is_deep: depth != Some(DavDepth::Zero),
        owner: wish.owner,
        holder: permit.user().map(str::to_owned),
        seconds,
        expires: UnixSeconds(now().0 + seconds),
    };
    let added = exchange.shared.dav.with(|state| state.locks.add(lock.clone()));
    added.map_err(|error| of_lock(&error, StatusCode::CONFLICT))?;
    if is_new && let Err(reply) = make_content(exchange, &permit).await {
        exchange.shared.dav.with(|state| state.locks.remove(&lock.root, &lock.token));
        return Err(reply);
    }
    exchange.shared.dav.change(DavChange::Locked(lock.clone())).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(described(status, &lock).field(LOCK_TOKEN, format!("<{}>", lock.token)))
}

async fn refresh(exchange: &Exchange, permit: &Permit<ToWrite>, seconds: u64) -> Result<Reply, Reply> {
    let field = if_field(exchange).await?;
    let tokens: Vec<&str> = field.iter().flat_map(webdav::IfField::tokens).collect();
    let [token] = tokens[..] else {
        let detail = "a LOCK without a body refreshes the lock whose token the `If` field has";
        return Err(Reply::malformed(detail));
    };
    let path = permit.path().joined();
    let found = exchange.shared.dav.with(|state| state.locks.find(&path, token, permit.user()).cloned());
    let lock = found.map_err(|error| of_lock(&error, StatusCode::PRECONDITION_FAILED))?;
    let lock = DavLock { seconds, expires: UnixSeconds(now().0 + seconds), ..lock };
    exchange.shared.dav.change(DavChange::Locked(lock.clone())).await?;
    Ok(described(StatusCode::OK, &lock))
}

/// UNLOCK.
pub(super) async fn unlock(exchange: &Exchange) -> Result<Reply, Reply> {
    let path = target(exchange)?;
    let permit = to_change(exchange, &path).await?;
    let token = unlock_token(field(exchange, "lock-token")).map_err(problem::bad_request)?;
    let path = path.joined();
    let found = exchange.shared.dav.with(|state| state.locks.find(&path, token, permit.user()).cloned());
    let lock = found.map_err(|error| of_lock(&error, StatusCode::CONFLICT))?;
    exchange.shared.dav.change(DavChange::Unlocked { root: lock.root, token: lock.token }).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// `unknown` is the method's status for a token that is on no lock there.
fn of_lock(error: &LockError, unknown: StatusCode) -> Reply {
    let detail = error.to_string();
    match error {
        LockError::Conflict(root) => {
            let root = address(root, "");
            Reply::problem(StatusCode::LOCKED, format!("another lock is on `{root}`"))
                .failing(DavCondition::NoConflictingLock(root))
        }
        LockError::TooMany => problem::client_busy(&detail),
        LockError::Unknown => Reply::problem(unknown, &detail).failing(DavCondition::LockTokenMatchesRequestUri),
        LockError::OtherHolder => Reply::problem(StatusCode::FORBIDDEN, detail),
    }
}

fn described(status: StatusCode, lock: &DavLock) -> Reply {
    let locks = lock_discovery(std::iter::once(lock), now(), |path| address(path, ""));
    Reply::with_body(status, XML, prop_body(&locks))
}

/// A name that no other lock has, and that no client can foresee.
fn token(exchange: &Exchange) -> String {
    let service = &exchange.shared.service;
    let at = std::time::Instant::now();
    let (high, low) = (service.hash((at, 0)), service.hash((at, 1, exchange.peer)));
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0x0fff);
    let (d, e) = (((low >> 48) & 0x3fff) | 0x8000, low & 0xffff_ffff_ffff);
    format!("urn:uuid:{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
}

async fn check_parent(exchange: &Exchange, permit: &Permit<ToWrite>) -> Result<(), Reply> {
    let checked = service::namespace::check_parent(&exchange.shared.service, permit).await;
    checked.map_err(|error| match error {
        NamespaceError::Exists => problem::of_store(&StoreError::IsDirectory),
        error => problem::of_namespace(&error),
    })
}

/// Stores an empty content, where nothing is.
async fn make_content(exchange: &Exchange, permit: &Permit<ToWrite>) -> Result<(), Reply> {
    let precondition = Precondition::MustNotExist;
    let request = IngestRequest { precondition, ..IngestRequest::upload(Some(0), exchange.client()) };
    let stored =
        async { ingest::begin(&exchange.shared.service, permit, request, Stages::default()).await?.finish().await };
    stored.await.map(drop).map_err(Reply::from)
}
