//! PROPFIND.
//!
//! Promise: the answer is made piece by piece as its client takes it, of a listing that all clients share; tags are those of GET.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http_types::StatusCode;
use http_types::header::CACHE_CONTROL;
use service::access::{Permit, ToRead};
use service::contents::{ContentPath, Entry, NameKind};
use service::listing::Listing;
use service::namespace;
use webdav::{
    DavCondition, DavDepth, Multistatus, PropertyStatus, PropertyWish, XmlName, lock_discovery, propfind_body,
    supported_lock,
};

use super::{CREATED, XML, address, field, of_xml, target};
use crate::content::PREFIX;
use crate::dav_state::now;
use crate::exchange::Exchange;
use crate::message::media_type::media_type;
use crate::message::reply::{Pieces, Reply};
use crate::shared::Shared;
use crate::{login, problem};

/// About as much of an answer is made at once as this.
const PIECE_BYTES: usize = 64 * 1024;

/// Properties that the server keeps itself.
pub(super) const LIVE: [&str; 9] = [
    "resourcetype",
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    CREATED,
    "lockdiscovery",
    "supportedlock",
];
/// Properties that a client gets if it requests them by name (RFC 4331).
pub(super) const ROOM: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// PROPFIND.
pub(super) async fn propfind(exchange: &Exchange, body: &[u8]) -> Result<Reply, Reply> {
    let wish = propfind_body(body).map_err(of_xml)?;
    let depth = webdav::depth(field(exchange, "depth")).map_err(problem::bad_request)?;
    let path = target(exchange)?;
    let permit: Permit<ToRead> = login::permit(exchange, &path).await?;
    let service = &exchange.shared.service;
    let entry = service.lookup(&permit).await?;
    let is_folder = entry.kind == NameKind::Directory;
    let depth = depth.unwrap_or(DavDepth::Infinity);
    if is_folder && depth == DavDepth::Infinity {
        let detail = "the properties of a folder are listed with `Depth` 0 or 1";
        return Err(Reply::problem(StatusCode::FORBIDDEN, detail).failing(DavCondition::PropfindFiniteDepth));
    }
    let listing = match depth {
        DavDepth::One if is_folder => Some(service.list(&permit).await?),
        _ => None,
    };
    let asks_room = matches!(&wish, PropertyWish::Some(names) | PropertyWish::All(names)
        if names.iter().any(|name| ROOM.iter().any(|room| name.is_dav(room))));
    let room = if is_folder && asks_room { namespace::room(service, &permit) } else { None };
    let shared = Arc::clone(&exchange.shared);
    let mut parts = Parts { shared, path, entry: Some(entry), wish, room, listing, next: 0, is_over: false };
    let first = parts.next().unwrap_or_default();
    let mut reply = Reply::with_body(StatusCode::MULTI_STATUS, XML, first).field(CACHE_CONTROL, "no-cache");
    reply.rest = (!parts.is_over).then(|| Pieces(Box::new(parts)));
    Ok(reply)
}

/// The folder above all contents: it has one folder.
pub(super) fn above(exchange: &Exchange) -> Reply {
    let mut text = Multistatus::BEGINNING.to_owned();
    let depth = webdav::depth(field(exchange, "depth"));
    let addresses: &[&str] = if depth == Ok(Some(DavDepth::Zero)) { &["/"] } else { &["/", PREFIX] };
    for address in addresses {
        let mut found = PropertyStatus::new(200);
        found.properties.push_str("<D:resourcetype><D:collection/></D:resourcetype>");
        Multistatus::properties(&mut text, address, &[found]);
    }
    text.push_str(Multistatus::END);
    Reply::with_body(StatusCode::MULTI_STATUS, XML, text)
}

/// The answer in parts, each made when the one before it is gone.
struct Parts {
    shared: Arc<Shared>,
    path: ContentPath,
    /// The resource itself, before it is described.
    entry: Option<Entry>,
    wish: PropertyWish,
    room: Option<(u64, Option<u64>)>,
    listing: Option<Arc<Listing>>,
    next: usize,
    is_over: bool,
}

impl Iterator for Parts {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut text = String::with_capacity(PIECE_BYTES + 4096);
        let path = self.path.joined();
        if let Some(entry) = self.entry.take() {
            text.push_str(Multistatus::BEGINNING);
            self.describe(&mut text, &path, &entry);
        }
        let entries = self.listing.as_ref().map_or(&[][..], |listing| &listing.entries);
        while let Some(entry) = entries.get(self.next).filter(|_| text.len() < PIECE_BYTES) {
            let child = if path.is_empty() { entry.name.clone() } else { format!("{path}/{}", entry.name) };
            self.describe(&mut text, &child, entry);
            self.next += 1;
        }
        if self.next >= entries.len() {
            text.push_str(Multistatus::END);
            self.is_over = true;
        }
        Some(text.into())
    }
}

impl Parts {
    fn describe(&self, text: &mut String, path: &str, entry: &Entry) {
        let (mut found, mut missing) = (PropertyStatus::new(200), PropertyStatus::new(404));
        let room = self.room.filter(|_| self.next == 0);
        self.shared.dav.with(|state| {
            let kept = state.properties.of(path);
            let created = kept.iter().find(|property| property.name.is_dav(CREATED));
            let dead: Vec<_> = kept.iter().filter(|property| !property.name.is_dav(CREATED)).collect();
            // The file system's date of a folder is that of the folder that lies there now.
            let created = created.filter(|_| entry.created.is_none());
            let live = |name: &str, found: &mut PropertyStatus| match (name, created) {
                (CREATED, Some(created)) => {
                    created.write(&mut found.properties);
                    true
                }
                ("lockdiscovery", _) => {
                    let locks = lock_discovery(state.locks.covering(path), now(), |path| address(path, ""));
                    found.properties.push_str(&locks);
                    true
                }
                (name, _) => write_live(found, name, entry, room),
            };
            match &self.wish {
                PropertyWish::Some(names) => {
                    for name in names {
                        let is_live = name.namespace == webdav::DAV && live(&name.local, &mut found);
                        match dead.iter().find(|property| property.name == *name) {
                            _ if is_live => {}
                            Some(property) => property.write(&mut found.properties),
                            None => missing.name(name),
                        }
                    }
                }
                PropertyWish::All(more) => {
                    for name in LIVE {
                        live(name, &mut found);
                    }
                    for name in more {
                        let known = LIVE.iter().any(|live| name.is_dav(live));
                        let is_found = known || (name.namespace == webdav::DAV && live(&name.local, &mut found));
                        if !is_found && dead.iter().all(|property| property.name != *name) {
                            missing.name(name);
                        }
                    }
                    dead.iter().for_each(|property| property.write(&mut found.properties));
                }
                PropertyWish::Names => {
                    for name in LIVE {
                        let mut probe = PropertyStatus::new(200);
                        if live(name, &mut probe) {
                            found.name(&XmlName::dav(name));
                        }
                    }
                    dead.iter().for_each(|property| found.name(&property.name));
                }
            }
        });
        let slash = if entry.kind == NameKind::Directory { "/" } else { "" };
        let groups = [found, missing].map(|group| (!group.properties.is_empty()).then_some(group));
        let mut groups: Vec<_> = groups.into_iter().flatten().collect();
        if groups.is_empty() {
            groups.push(PropertyStatus::new(200));
        }
        Multistatus::properties(text, &address(path, slash), &groups);
    }
}

/// Writes a property that the server keeps; false if the resource has none of this name.
fn write_live(found: &mut PropertyStatus, name: &str, entry: &Entry, room: Option<(u64, Option<u64>)>) -> bool {
    let is_file = entry.kind == NameKind::File;
    match name {
        "resourcetype" if is_file => found.properties.push_str("<D:resourcetype/>"),
        "resourcetype" => found.properties.push_str("<D:resourcetype><D:collection/></D:resourcetype>"),
        "displayname" => found.text(name, &entry.name),
        "getcontentlength" if is_file => found.text(name, &entry.size.to_string()),
        "getcontenttype" if is_file => found.text(name, media_type(&entry.name)),
        "getetag" if is_file => found.text(name, &entry.etag),
        "getlastmodified" => {
            let modified = entry.modified.max(SystemTime::UNIX_EPOCH);
            found.text(name, &httpdate::fmt_http_date(modified));
        }
        CREATED => found.text(name, &crate::listing::rfc3339(entry.created.unwrap_or(entry.modified))),
        "supportedlock" => found.properties.push_str(&supported_lock()),
        "quota-available-bytes" => match room {
            Some((available, _)) => found.text(name, &available.to_string()),
            None => return false,
        },
        "quota-used-bytes" => match room {
            Some((_, Some(used))) => found.text(name, &used.to_string()),
            _ => return false,
        },
        _ => return false,
    }
    true
}
