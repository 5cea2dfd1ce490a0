//! Thumbnails of films.
//!
//! Not here: making them (`automation`).

use http_types::StatusCode;
use http_types::header::CACHE_CONTROL;

use crate::exchange::Exchange;
use crate::login;
use crate::message::reply::Reply;

/// A browser may show a thumbnail again for this time without a request.
const FRESH: &str = "private, max-age=3600";

pub(super) async fn answer(exchange: &Exchange) -> Result<Reply, Reply> {
    let path = super::one_path(exchange)?;
    let permit = login::permit(exchange, &path).await?;
    let none = || Reply::problem(StatusCode::NOT_FOUND, "there is no thumbnail of it, or none can be made now");
    let picture = exchange.shared.service.operations.thumbnail(permit, exchange.client()).await.ok_or_else(none)?;
    Ok(Reply::with_body(StatusCode::OK, "image/jpeg", picture).field(CACHE_CONTROL, FRESH))
}
