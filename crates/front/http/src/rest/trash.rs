//! The trash: its items, their restoration and their removal.
//!
//! Promise: an item is listed, restored and removed with the rights over the path that it had. Not here: the way into it (`names`).

use api::{EntryKind, TrashEntry};
use http_types::StatusCode;
use service::access::{PathRight, Permit};
use service::contents::{ContentPath, NameKind, StoreError};
use service::events::unix_seconds;
use service::trash::{self, TrashId, TrashItem};

use crate::dav::{self, Touched};
use crate::exchange::Exchange;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::routes::{Call, FoundCall};
use crate::{login, problem};

pub(super) async fn answer(exchange: &Exchange, found: &FoundCall) -> Result<Reply, Reply> {
    let service = &exchange.shared.service;
    if found.route.call == Call::Trash {
        let folder = pairs(exchange.head.query.as_deref()).find(|(key, _)| *key == "folder");
        let folder = folder.map_or(Ok(ContentPath::root()), |(_, folder)| ContentPath::parse(&folder));
        let folder = folder.map_err(|error| Reply::malformed(format!("`folder=`: {error}")))?;
        let permit = login::permit(exchange, &folder).await?;
        let items = trash::list(service, &permit).await?;
        let keep = service.config().trash_keep;
        let entries: Vec<TrashEntry> = items.iter().map(|item| entry(item, keep)).collect();
        return Ok(Reply::json(&entries));
    }
    if service.is_draining() {
        return Err(problem::stopping());
    }
    if found.route.call == Call::RestoreTrash {
        let (item, permit) = named(exchange, found).await?;
        let touched = Touched { path: &item.path, tree: true, named: true };
        dav::check(exchange, permit.user(), &[touched]).await?;
        trash::restore(service, &item, &permit, exchange.client()).await?;
    } else {
        let (item, permit) = named(exchange, found).await?;
        let removed = trash::remove(service, &item, &permit, exchange.client()).await;
        removed.map_err(|error| problem::of_missing(&error))?;
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// The item that a call names, with a permit for the path that it had.
async fn named<R: PathRight>(exchange: &Exchange, found: &FoundCall) -> Result<(TrashItem, Permit<R>), Reply> {
    // Nothing is looked up for a client that has the right nowhere.
    let somewhere = login::permit_trash::<R>(exchange).await?;
    let id = TrashId::parse(found.name(0)).ok_or_else(|| problem::of_store(&StoreError::NotFound))?;
    let found = trash::find(&exchange.shared.service, id, &somewhere).await;
    let item = found.map_err(|error| problem::of_missing(&error))?;
    let permit = login::permit(exchange, &item.path).await?;
    Ok((item, permit))
}

fn entry(item: &TrashItem, keep: std::time::Duration) -> TrashEntry {
    let removed = item.id.removed();
    TrashEntry {
        id: item.id.to_string(),
        path: item.path.joined(),
        kind: if item.kind == NameKind::Directory { EntryKind::Directory } else { EntryKind::File },
        bytes: item.id.bytes(),
        removed: unix_seconds(removed),
        expires: unix_seconds(removed + keep),
    }
}
