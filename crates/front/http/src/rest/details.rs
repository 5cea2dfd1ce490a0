//! The details of a content.
//!
//! Not here: finding them (`service::content_details`).

use http_types::StatusCode;
use service::content_details;
use service::contents::ContentPath;

use crate::exchange::Exchange;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::{login, problem};

pub(super) async fn answer(exchange: &Exchange) -> Result<Reply, Reply> {
    let path = one_path(exchange)?;
    let permit = login::permit(exchange, &path).await?;
    let details = content_details::details(&exchange.shared.service, &permit).await;
    details.map(|details| Reply::json(&details)).map_err(|error| problem::of_store(&error))
}

/// The path that the query names.
pub(super) fn one_path(exchange: &Exchange) -> Result<ContentPath, Reply> {
    let path = pairs(exchange.head.query.as_deref()).find(|(key, _)| *key == "path");
    let (_, path) = path.ok_or_else(|| Reply::problem(StatusCode::BAD_REQUEST, "name the content: `?path=PATH`"))?;
    ContentPath::parse(&path).map_err(|error| Reply::problem(StatusCode::BAD_REQUEST, &format!("`path=`: {error}")))
}
