//! The calls of the API below `/api/v1`: found in one table, judged, answered.
//!
//! Promise: nothing is read of a body, looked up or changed before the right to it is judged; a page of another origin changes nothing.
//! Not here: the table (`route_table`), figures (`management`), orders to streams, jobs and volumes (`actions`).

mod accounts;
mod details;
mod json;
mod openapi;
pub(crate) mod provider;
mod reservations;
mod search;
mod session;
mod settings;
mod streams;
mod thumbnail;
mod trash;

use std::time::SystemTime;

use http_types::{Method, StatusCode};
use service::contents::ContentPath;
use service::events;
use service::operations::Requester;

use crate::archive::Archive;
use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::message::head::RequestHead;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::route_table::find;
use crate::routes::{API, Call, FoundCall};
use crate::{actions, login, management, names, problem, removals};

/// True for a call that reads a body.
pub(crate) fn takes_body(head: &RequestHead) -> bool {
    head.path.starts_with(API) && find(head.method.as_str(), &head.path).is_ok_and(|found| found.route.body.is_some())
}

/// The answer to a request below `/api/v1`; none: there is no such call.
pub(crate) async fn answer(exchange: &Exchange, body: &mut RequestBody<'_>) -> Option<Reply> {
    let (method, path) = (&exchange.head.method, exchange.head.path.as_str());
    if !path.starts_with(API) {
        return None;
    }
    let found = match find(method.as_str(), path) {
        Ok(found) => found,
        Err(methods) if methods.is_empty() => return None,
        Err(methods) => return Some(problem::not_allowed(&methods.join(", "))),
    };
    let is_change = *method != Method::GET && *method != Method::HEAD;
    if is_change && login::is_cross_origin(&exchange.head.headers) {
        return Some(login::other_origin());
    }
    let performed = perform(exchange, &found, body).await;
    if performed.is_ok() && found.route.changes_access() {
        let (route, by) = (found.route, Requester { address: exchange.peer.ip(), user: exchange.user() });
        let about = path.strip_prefix(API).unwrap_or(path);
        let event = events::access_changed((&format!("{:?}", route.call), about), Some(by), SystemTime::now());
        exchange.shared.service.events.tell(event);
    }
    Some(performed.unwrap_or_else(|reply| reply).uncached())
}

/// The path of the content that the query names.
fn one_path(exchange: &Exchange) -> Result<ContentPath, Reply> {
    let path = pairs(exchange.head.query.as_deref()).find(|(key, _)| *key == "path");
    let (_, path) = path.ok_or_else(|| Reply::malformed("name the content: `?path=PATH`"))?;
    ContentPath::parse(&path).map_err(|error| Reply::malformed(format!("`path=`: {error}")))
}

async fn perform(exchange: &Exchange, found: &FoundCall, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    match found.route.call {
        Call::Document => Ok(Reply::with_body(StatusCode::OK, "application/json", openapi::text())),
        Call::Removals => Ok(removals::answer(exchange).await),
        // A GET is answered by `generated_answers`.
        Call::Archive => Archive::begin(exchange).await.map(|(_, reply)| reply),
        Call::Trash | Call::RestoreTrash | Call::RemoveTrash => trash::answer(exchange, found).await,
        Call::Details => details::answer(exchange).await,
        Call::Thumbnail => thumbnail::answer(exchange).await,
        Call::Search => search::answer(exchange).await,
        Call::MoveItem | Call::CopyItem | Call::MakeFolder | Call::RemoveItem => {
            names::change(exchange, found.route.call).await
        }
        Call::StopStream
        | Call::RunJob
        | Call::StopJob
        | Call::TestWebhook
        | Call::Scrub
        | Call::Rebalance
        | Call::AddDisk
        | Call::RemoveDisk
        | Call::ReplaceDisk => actions::perform(exchange, found).await,
        Call::Session => session::show(exchange).await,
        Call::BeginSession => session::begin(exchange, body).await,
        Call::EndSession => session::end(exchange).await,
        Call::AddFirstUser => session::first_user(exchange, body).await,
        Call::Users
        | Call::AddUser
        | Call::RemoveUser
        | Call::SetPassword
        | Call::GrantUser
        | Call::RevokeUser
        | Call::Groups
        | Call::GrantGroup
        | Call::RevokeGroup
        | Call::Join
        | Call::Leave
        | Call::Tokens
        | Call::AddToken
        | Call::RevokeToken
        | Call::Shares
        | Call::AddShare
        | Call::RevokeShare
        | Call::RotateShares
        | Call::SetBudget => accounts::perform(exchange, found, body).await,
        Call::Reservations | Call::AddReservation | Call::RemoveReservation => {
            reservations::answer(exchange, found, body).await
        }
        Call::Settings | Call::ChangeSettings => settings::answer(exchange, found, body).await,
        Call::Streams | Call::ExplainStream => streams::answer(exchange, found).await,
        Call::System
        | Call::Live
        | Call::History
        | Call::Disks
        | Call::Jobs
        | Call::Volumes
        | Call::Alarms
        | Call::Quotas
        | Call::Budgets
        | Call::Forecasts
        | Call::Uploads
        | Call::Webhooks
        | Call::Certificates
        | Call::Events => management::figures(exchange, found.route.call).await,
    }
}
