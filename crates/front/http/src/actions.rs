//! Actions of the server that a client orders by a `POST` below `/api/v1`: end a stream, begin or end a job, have a volume
//! look after itself.
//!
//! Promise: nothing is looked up or begun before the login. Not here: the operations on a volume's disks (`volumes`), jobs
//! (`service::operations`).

use std::path::PathBuf;
use std::sync::Arc;

use http_types::StatusCode;
use service::StopError;
use service::access::{Permit, ToAdminister};
use service::contents::{UpkeepError, VolumeWish};
use units::StreamId;

use crate::exchange::Exchange;
use crate::message::query::Query;
use crate::message::reply::Reply;
use crate::routes::{Call, FoundCall};
use crate::{login, problem};

/// Performs the order of a call.
///
/// # Errors
/// The answer to a refused action.
pub(crate) async fn perform(exchange: &Exchange, found: &FoundCall) -> Result<Reply, Reply> {
    let permit = login::permit_server::<ToAdminister>(exchange).await?;
    let (service, by, name) = (&exchange.shared.service, exchange.peer.ip(), found.name(0));
    match found.route.call {
        Call::StopStream => stop_stream(exchange, name, &permit)?,
        Call::RunJob => service.operations.run_job(name, by, &permit)?,
        Call::StopJob => service.operations.stop_job(name, by, &permit)?,
        Call::TestWebhook if service.operations.test_webhook(name, &permit) => {}
        Call::TestWebhook => return Err(Reply::problem(StatusCode::NOT_FOUND, "there is no webhook of this name")),
        _ => begin_upkeep(exchange, permit, found).await?,
    }
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

fn stop_stream(exchange: &Exchange, number: &str, permit: &Permit<ToAdminister>) -> Result<(), Reply> {
    let service = &exchange.shared.service;
    let stream = number.parse().map(StreamId).map_err(|_| StopError::Unknown);
    let stopped = stream.and_then(|stream| service.stop_stream(stream, exchange.peer.ip(), permit));
    stopped.map_err(Reply::from)
}

async fn begin_upkeep(exchange: &Exchange, permit: Permit<ToAdminister>, found: &FoundCall) -> Result<(), Reply> {
    let device = || {
        let query = Query::parse(exchange.head.query.as_deref()).map_err(problem::bad_request)?;
        let unnamed = || Reply::malformed("name the disk that comes: `?device=DEV`");
        query.device.map(PathBuf::from).ok_or_else(unnamed)
    };
    let number = || found.name(1).parse().map_err(|_| problem::of_upkeep(&UpkeepError::Unknown));
    let wish = match found.route.call {
        Call::Scrub => VolumeWish::Scrub,
        Call::Rebalance => VolumeWish::Rebalance,
        Call::AddDisk => VolumeWish::Add(device()?),
        Call::RemoveDisk => VolumeWish::Remove(number()?),
        _ => VolumeWish::Replace(number()?, device()?),
    };
    let (service, name) = (Arc::clone(&exchange.shared.service), found.name(0).to_owned());
    // It waits for disks.
    match tokio::task::spawn_blocking(move || service.begin_upkeep(&permit, &name, &wish)).await {
        Ok(begun) => begun.map_err(Reply::from),
        Err(_) => Err(problem::stopping()),
    }
}
