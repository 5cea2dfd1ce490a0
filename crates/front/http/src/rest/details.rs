//! The details of a content.
//!
//! Not here: finding them (`service::content_details`).

use service::content_details;

use crate::exchange::Exchange;
use crate::login;
use crate::message::reply::Reply;

pub(super) async fn answer(exchange: &Exchange) -> Result<Reply, Reply> {
    let path = super::one_path(exchange)?;
    let permit = login::permit(exchange, &path).await?;
    let details = content_details::details(&exchange.shared.service, &permit).await;
    details.map(|details| Reply::json(&details)).map_err(Reply::from)
}
