//! Settings in force, and changes of them.
//!
//! Not here: which may be changed, and where they are kept (the server).

use api::SettingsPatch;
use http_types::HeaderMap;
use http_types::header::{ETAG, IF_MATCH};
use service::access::{Permit, ToAdminister};
use service::operations::SettingsChange;

use super::json::read;
use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::login;
use crate::message::conditional::{ConditionResult, Validators, evaluate_read};
use crate::message::reply::Reply;
use crate::routes::{Call, FoundCall};

pub(super) async fn answer(exchange: &Exchange, found: &FoundCall, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    let permit: Permit<ToAdminister> = login::permit_server(exchange).await?;
    let change = match found.route.call {
        Call::Settings => None,
        _ => {
            let values: SettingsPatch = read(exchange, body).await?;
            Some(SettingsChange { values, applies_to: condition(&exchange.head.headers) })
        }
    };
    let in_force = exchange.shared.service.operations.settings(change, &permit).await?;
    Ok(Reply::json(&in_force.settings).field(ETAG, in_force.tag))
}

/// The condition of `If-Match` on a tag.
fn condition(headers: &HeaderMap) -> Box<dyn Fn(&str) -> bool + Send> {
    let conditions: HeaderMap = headers.get_all(IF_MATCH).iter().map(|value| (IF_MATCH, value.clone())).collect();
    Box::new(move |tag| {
        evaluate_read(&conditions, Validators { etag: tag, modified: None }) == ConditionResult::Proceed
    })
}
