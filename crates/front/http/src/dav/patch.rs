//! PROPPATCH, and the one property of the server's that is kept as clients' are: the time of creation.

use std::time::SystemTime;

use http_types::StatusCode;
use service::contents::{ContentPath, NameKind};
use webdav::{DavChange, Multistatus, PropertyChange, PropertyStatus, XmlElement, XmlName, XmlNode, proppatch_body};

use super::find::{LIVE, ROOM};
use super::{CREATED, Touched, XML, address, check, of_xml, target, to_change};
use crate::exchange::Exchange;
use crate::listing::rfc3339;
use crate::message::reply::Reply;

/// Keeps the time at which a content or folder was made, over its changes (RFC 4918 §15.1). Where no more properties can be kept, it is that of
/// the last modification again.
pub(crate) async fn keep_creation(exchange: &Exchange, path: &ContentPath, created: SystemTime) {
    let (path, mut property) = (path.joined(), XmlElement::new(XmlName::dav(CREATED)));
    property.children.push(XmlNode::Text(rfc3339(created)));
    let properties = exchange.shared.dav.with(|state| {
        let is_kept = state.properties.find(&path, &property.name).is_some();
        (!is_kept).then(|| state.properties.changed(&path, &[PropertyChange::Set(property)]))
    });
    if let Some(Ok(properties)) = properties {
        let _ = exchange.shared.dav.change(DavChange::Properties { path, properties }).await;
    }
}

/// PROPPATCH: all changes or none.
pub(super) async fn proppatch(exchange: &Exchange, body: &[u8]) -> Result<Reply, Reply> {
    let changes = proppatch_body(body).map_err(of_xml)?;
    let path = target(exchange)?;
    let permit = to_change(exchange, &path).await?;
    let entry = exchange.shared.service.lookup(&permit).await?;
    check(exchange, permit.user(), &[Touched { path: &path, tree: false, named: false }]).await?;
    let slash = if entry.kind == NameKind::Directory { "/" } else { "" };
    let path = path.joined();
    let changed = exchange.shared.dav.with(|state| state.properties.changed(&path, &changes));
    let groups = match changed {
        _ if changes.iter().any(is_protected) => {
            let (refused, others): (Vec<_>, Vec<_>) = changes.iter().partition(|change| is_protected(change));
            vec![group(403, &refused), group(424, &others)]
        }
        Err(_) => vec![group(507, &changes.iter().collect::<Vec<_>>())],
        Ok(properties) => {
            exchange.shared.dav.change(DavChange::Properties { path: path.clone(), properties }).await?;
            vec![group(200, &changes.iter().collect::<Vec<_>>())]
        }
    };
    let groups: Vec<_> = groups.into_iter().filter(|group| !group.properties.is_empty()).collect();
    let mut text = Multistatus::BEGINNING.to_owned();
    Multistatus::properties(&mut text, &address(&path, slash), &groups);
    text.push_str(Multistatus::END);
    Ok(Reply::with_body(StatusCode::MULTI_STATUS, XML, text))
}

fn name(change: &PropertyChange) -> &XmlName {
    let (PropertyChange::Set(XmlElement { name, .. }) | PropertyChange::Remove(name)) = change;
    name
}

/// True for a property that the server keeps itself.
fn is_protected(change: &PropertyChange) -> bool {
    LIVE.iter().chain(&ROOM).any(|live| name(change).is_dav(live))
}

fn group(status: u16, changes: &[&PropertyChange]) -> PropertyStatus {
    let mut group = PropertyStatus::new(status);
    changes.iter().for_each(|change| group.name(name(change)));
    group
}
