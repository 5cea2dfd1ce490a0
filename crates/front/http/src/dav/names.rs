//! MKCOL, COPY, MOVE, and DELETE of folders.

use std::time::SystemTime;

use http_types::StatusCode;
use http_types::header::{HOST, LOCATION};
use service::access::{Permit, ToDelete, ToRead};
use service::contents::{ContentPath, Entry, NameKind, StoreError};
use service::namespace::{self, CopyWish};
use webdav::{DavChange, DavCondition, DavDepth};

use super::{Touched, address, check, field, keep_creation, target, to_change};
use crate::content::PREFIX;
use crate::exchange::Exchange;
use crate::message::authority::{RequestHost, host};
use crate::message::reply::Reply;
use crate::precondition::precondition;
use crate::{login, problem};

/// MKCOL.
pub(super) async fn make_folder(exchange: &Exchange, body: &[u8]) -> Result<Reply, Reply> {
    if !body.is_empty() {
        let detail = "MKCOL takes no body";
        return Err(Reply::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let path = target(exchange)?;
    new_folder(exchange, &path).await?;
    Ok(Reply::empty(StatusCode::CREATED).field(LOCATION, address(&path.joined(), "/")))
}

/// Makes an empty folder.
pub(crate) async fn new_folder(exchange: &Exchange, path: &ContentPath) -> Result<(), Reply> {
    let permit = to_change(exchange, path).await?;
    if exchange.shared.service.lookup(&permit).await.is_ok() {
        return Err(taken());
    }
    check(exchange, permit.user(), &[Touched { path, tree: false, named: true }]).await?;
    match namespace::make_folder(&exchange.shared.service, &permit, exchange.client()).await {
        Err(namespace::NamespaceError::Exists) => return Err(taken()),
        made => made?,
    }
    // Another program may have removed a folder of this name, and all in it.
    let path_text = path.joined();
    exchange.shared.dav.follow(&[&path_text], || DavChange::Removed { path: path_text.clone() }).await?;
    // Its time of modification is that of the last content stored in it.
    keep_creation(exchange, path, SystemTime::now()).await;
    Ok(())
}

fn taken() -> Reply {
    problem::not_allowed(problem::MEDIA_METHODS).failing(DavCondition::ResourceMustBeNull)
}

/// DELETE of a folder, with all in it.
pub(crate) async fn delete_folder(exchange: &Exchange, permit: &Permit<ToDelete>) -> Result<(), Reply> {
    if !matches!(webdav::depth(field(exchange, "depth")), Ok(None | Some(DavDepth::Infinity))) {
        let detail = "a folder is removed with all in it: `Depth` is infinity";
        return Err(Reply::malformed(detail));
    }
    let removed = namespace::remove_tree(&exchange.shared.service, permit, exchange.client()).await;
    removed.map_err(|error| problem::of_delete(&error))
}

/// MOVE.
pub(super) async fn rename(exchange: &Exchange) -> Result<Reply, Reply> {
    let transfer = NameTransfer::read(exchange)?;
    let (entry, created) = move_item(exchange, &transfer).await?;
    Ok(transfer.answer(created, &entry))
}

/// Gives an item another name, with its properties. Gives the item, and true if nothing had that name.
pub(crate) async fn move_item(exchange: &Exchange, transfer: &NameTransfer) -> Result<(Entry, bool), Reply> {
    let from: Permit<ToDelete> = login::permit(exchange, &transfer.from).await?;
    let to = to_change(exchange, &transfer.to).await?;
    let entry = transfer.source(exchange, &from).await?;
    if entry.kind == NameKind::Directory && !matches!(transfer.depth, None | Some(DavDepth::Infinity)) {
        let detail = "a folder is moved with all in it: `Depth` is infinity";
        return Err(Reply::malformed(detail));
    }
    let touched = [&transfer.from, &transfer.to].map(|path| Touched { path, tree: true, named: true });
    check(exchange, to.user(), &touched).await?;
    let service = &exchange.shared.service;
    let created = namespace::rename(service, (&from, &to), transfer.overwrite, exchange.client()).await?;
    let (from, to) = (transfer.from.joined(), transfer.to.joined());
    exchange.shared.dav.follow(&[&from, &to], || DavChange::Moved { from: from.clone(), to: to.clone() }).await?;
    Ok((entry, created))
}

/// COPY.
pub(super) async fn copy(exchange: &Exchange) -> Result<Reply, Reply> {
    let transfer = NameTransfer::read(exchange)?;
    let (entry, created) = copy_item(exchange, &transfer).await?;
    Ok(transfer.answer(created, &entry))
}

/// Copies an item, with its properties. Gives the item, and true if nothing had the name of the copy.
pub(crate) async fn copy_item(exchange: &Exchange, transfer: &NameTransfer) -> Result<(Entry, bool), Reply> {
    if transfer.depth == Some(DavDepth::One) {
        let detail = "a folder is copied alone or with all in it: `Depth` is 0 or infinity";
        return Err(Reply::malformed(detail));
    }
    let from: Permit<ToRead> = login::permit(exchange, &transfer.from).await?;
    let to = to_change(exchange, &transfer.to).await?;
    let entry = transfer.source(exchange, &from).await?;
    check(exchange, to.user(), &[Touched { path: &transfer.to, tree: true, named: true }]).await?;
    let is_deep = transfer.depth != Some(DavDepth::Zero);
    let terms = CopyWish { replaces: transfer.overwrite, is_deep, client: exchange.client() };
    let created = Box::pin(namespace::copy(&exchange.shared.service, (&from, &to), terms)).await?;
    let (from, to) = (transfer.from.joined(), transfer.to.joined());
    let copied = || DavChange::Copied { from: from.clone(), to: to.clone(), is_deep };
    exchange.shared.dav.follow(&[&from, &to], copied).await?;
    Ok((entry, created))
}

/// A requested copy, or other name.
pub(crate) struct NameTransfer {
    from: ContentPath,
    to: ContentPath,
    overwrite: bool,
    depth: Option<DavDepth>,
}

impl NameTransfer {
    /// Of an item with all below it.
    pub(crate) fn new(from: ContentPath, to: ContentPath, overwrite: bool) -> Result<Self, Reply> {
        if from.components().is_empty() || to.components().is_empty() {
            return Err(Reply::problem(StatusCode::FORBIDDEN, "the folder of all contents stays where it is"));
        }
        Ok(Self { from, to, overwrite, depth: None })
    }

    fn read(exchange: &Exchange) -> Result<Self, Reply> {
        let depth = webdav::depth(field(exchange, "depth")).map_err(problem::bad_request)?;
        let overwrite = webdav::overwrite(field(exchange, "overwrite")).map_err(problem::bad_request)?;
        let from = target(exchange)?;
        let text = field(exchange, "destination").unwrap_or_default();
        let destination = webdav::destination(text).map_err(problem::bad_request)?;
        if !destination.server.is_none_or(|authority| is_ours(exchange, authority)) {
            let detail = "`Destination` is on another server; this one copies and moves its own contents only";
            return Err(Reply::problem(StatusCode::BAD_GATEWAY, detail));
        }
        let Some(path) = destination.path.strip_prefix(PREFIX) else {
            let detail = "`Destination` is not below /media/";
            return Err(Reply::problem(StatusCode::FORBIDDEN, detail));
        };
        let to = ContentPath::parse_encoded(&format!("/{path}")).map_err(problem::bad_request)?;
        Ok(Self { depth, ..Self::new(from, to, overwrite)? })
    }

    /// The item to be moved or copied, on which the conditions of the request hold.
    async fn source<R: service::access::RightKind>(
        &self,
        exchange: &Exchange,
        permit: &Permit<R>,
    ) -> Result<Entry, Reply> {
        let entry = exchange.shared.service.lookup(permit).await?;
        if precondition(&exchange.head.headers).holds(Some(entry.existing())) {
            Ok(entry)
        } else {
            Err(problem::of_store(&StoreError::PreconditionFailed))
        }
    }

    fn answer(&self, created: bool, entry: &Entry) -> Reply {
        if !created {
            return Reply::empty(StatusCode::NO_CONTENT);
        }
        let slash = if entry.kind == NameKind::Directory { "/" } else { "" };
        Reply::empty(StatusCode::CREATED).field(LOCATION, address(&self.to.joined(), slash))
    }
}

/// True if `authority` is this server's: that of the request, that of the request to a trusted proxy, or a name of the settings.
fn is_ours(exchange: &Exchange, authority: &str) -> bool {
    let (headers, config) = (&exchange.head.headers, exchange.shared.config());
    let proxied = headers.get("x-forwarded-host").filter(|_| config.trusted_proxies.has(exchange.socket_peer));
    let asked = headers.get(HOST).into_iter().chain(proxied);
    let without_port = |text: &str| {
        let text = text.strip_suffix(":80").or_else(|| text.strip_suffix(":443")).unwrap_or(text);
        text.to_ascii_lowercase()
    };
    asked.filter_map(|asked| asked.to_str().ok()).any(|asked| without_port(asked) == without_port(authority))
        || matches!(host(authority), Some(RequestHost::Name(name))
            if config.hosts.iter().any(|own| own != "*" && own.eq_ignore_ascii_case(name)))
}
