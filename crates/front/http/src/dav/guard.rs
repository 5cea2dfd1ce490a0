//! Conditions of `If`, and locks, before a change.
//!
//! Promise: a change of a locked resource needs the lock's token from the lock's holder. Not here: the right to change (`login`).

use std::collections::HashMap;

use http_types::StatusCode;
use http_types::header::HeaderName;
use service::access::{Permit, ToRead};
use service::contents::ContentPath;
use webdav::{DavCondition, IfCondition, IfField, Submitted, destination};

use super::address;
use crate::content::PREFIX;
use crate::exchange::Exchange;
use crate::message::conditional::joined;
use crate::message::reply::Reply;
use crate::problem;

/// A resource that a request changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touched<'a> {
    pub(crate) path: &'a ContentPath,
    /// And all below it.
    pub(crate) tree: bool,
    /// Its name comes or goes, which changes the folder that it lies in.
    pub(crate) named: bool,
}

/// Refuses a request whose `If` does not hold, or that changes what is locked. `holder` is the account that has the right.
pub(crate) async fn check(exchange: &Exchange, holder: Option<&str>, touched: &[Touched<'_>]) -> Result<(), Reply> {
    let field = if_field(exchange).await?;
    let tokens: Vec<&str> = field.iter().flat_map(IfField::tokens).collect();
    let submitted = Submitted { tokens: &tokens, holder };
    let locked = exchange.shared.dav.with(|state| {
        touched.iter().try_for_each(|one| {
            state.locks.may_change(&one.path.joined(), one.tree, submitted)?;
            match one.path.split() {
                Some((parent, _)) if one.named => state.locks.may_change(&parent.joined(), false, submitted),
                _ => Ok(()),
            }
        })
    });
    locked.map_err(|root| {
        let root = address(&root, "");
        let detail = format!("`{root}` is locked: the change needs the lock's token");
        Reply::problem(StatusCode::LOCKED, detail).failing(DavCondition::LockTokenSubmitted(root))
    })
}

/// The `If` field of a request, which holds.
pub(crate) async fn if_field(exchange: &Exchange) -> Result<Option<IfField>, Reply> {
    let Some(text) = joined(&exchange.head.headers, &HeaderName::from_static("if")) else { return Ok(None) };
    let field = IfField::parse(&text).map_err(problem::bad_request)?;
    let own = super::target(exchange)?;
    let path_of = |resource: Option<&str>| match resource {
        None => Some(own.clone()),
        Some(address) => path_at(address),
    };
    // The tags are looked up first: the judgement does not wait.
    let mut tags: HashMap<String, String> = HashMap::new();
    for list in &field.lists {
        let has_tag = list.conditions.iter().any(|one| matches!(one, IfCondition::Tag { .. }));
        if let Some(path) = path_of(list.resource.as_deref()).filter(|_| has_tag) {
            let permit: Permit<ToRead> = crate::login::permit(exchange, &path).await?;
            if let Ok(entry) = exchange.shared.service.lookup(&permit).await {
                tags.insert(path.joined(), entry.etag);
            }
        }
    }
    let holds = exchange.shared.dav.with(|state| {
        field.holds(|resource, one| {
            let Some(path) = path_of(resource).map(|path| path.joined()) else { return false };
            match one {
                IfCondition::Token { token, .. } => state.locks.covering(&path).any(|lock| lock.token == *token),
                IfCondition::Tag { tag, .. } => tags.get(&path).is_some_and(|now| now == tag),
            }
        })
    });
    if holds {
        return Ok(Some(field));
    }
    Err(Reply::problem(StatusCode::PRECONDITION_FAILED, "no list of the `If` field holds"))
}

/// The path of an address of a content here.
fn path_at(address: &str) -> Option<ContentPath> {
    let path = destination(address).ok()?.path.strip_prefix(PREFIX)?;
    ContentPath::parse_encoded(path).ok()
}
