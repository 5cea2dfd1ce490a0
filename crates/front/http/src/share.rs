//! Signed links in requests: the value of `share=` in the query.
//!
//! Promise: a link is counted once for each use before any byte is sent, and durably; its streams have its rate. A whole GET of a content
//! is a use. Requests of ranges, and of all contents below a folder that was shared, belong to the use that their viewer began within the
//! last hour. Not here: the signature (`service::logins`), the counts (the store of accounts).

use http_types::Method;
use service::access::{Permit, RightKind, ToRead};
use service::account_changes::ChangeError;
use service::rate::{RateTerms, RequestedRate};
use service::session::Viewer;

use crate::exchange::Exchange;
use crate::message::head::RequestHead;
use crate::message::query::Query;
use crate::message::reply::Reply;
use crate::problem;

/// The text of the link in the query.
///
/// # Errors
/// A key is given twice.
pub(crate) fn text(head: &RequestHead) -> Result<Option<String>, Reply> {
    match head.query.as_deref() {
        Some(query) if query.contains("share=") => Ok(Query::parse(Some(query)).map_err(problem::bad_request)?.share),
        _ => Ok(None),
    }
}

/// The requested rate, within that of the permit's link.
pub(crate) fn bounded(asked: RateTerms, permit: &Permit<ToRead>) -> RateTerms {
    let Some(most) = permit.link().and_then(|link| link.rate) else { return asked };
    let rate = match asked.rate {
        RequestedRate::Rate(rate) => rate.min(most),
        RequestedRate::Bulk | RequestedRate::Unstated => most,
    };
    RateTerms {
        rate: RequestedRate::Rate(rate),
        burst: asked.burst,
        ceiling: asked.ceiling.map(|ceiling| ceiling.min(most)),
    }
}

/// Counts a use of the permit's link, if its uses are limited and this read begins one; `is_whole`: it reads a whole content.
///
/// # Errors
/// The answer where the link is used up.
pub(crate) async fn count_use(
    exchange: &Exchange,
    permit: &Permit<ToRead>,
    viewer: &Viewer,
    is_whole: bool,
) -> Result<(), Reply> {
    if exchange.head.method != Method::GET {
        return Ok(());
    }
    let counted = exchange.shared.service.credentials.use_link(permit, viewer, is_whole).await;
    counted.map_err(|error| used_up(exchange, permit, &error))
}

/// The answer where the permit's link is used up, which is logged.
pub(crate) fn used_up<R: RightKind>(exchange: &Exchange, permit: &Permit<R>, error: &ChangeError) -> Reply {
    exchange.tell_refused(permit.holder(), &error.to_string());
    problem::of_change(error)
}
