//! Actions of the server that a client orders by a `POST` below `/api/v1`: end a stream, begin or end a job, have a volume
//! look after itself.
//!
//! Promise: nothing is looked up or begun before the login. Not here: the operations on a volume's disks (`volumes`), jobs
//! (`service::operations`).

use std::path::PathBuf;
use std::sync::Arc;

use http_types::StatusCode;
use percent_encoding::percent_decode_str;
use service::StopError;
use service::access::{Permit, ToAdminister};
use service::contents::VolumeWish;
use units::StreamId;

use crate::exchange::Exchange;
use crate::message::query::Query;
use crate::message::reply::Reply;
use crate::{login, problem};

/// The action requested; names are as the target has them.
#[derive(Debug, Clone, Copy)]
enum Action<'a> {
    StopStream(&'a str),
    RunJob(&'a str),
    StopJob(&'a str),
    Upkeep(&'a str, UpkeepAction),
}

/// The upkeep requested of a volume; the query names a disk to be added.
#[derive(Debug, Clone, Copy)]
enum UpkeepAction {
    Scrub,
    Rebalance,
    AddDisk,
    RemoveDisk(u8),
    ReplaceDisk(u8),
}

impl<'a> Action<'a> {
    fn at(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix("/api/v1/")?.split('/').collect();
        Some(match *parts.as_slice() {
            ["streams", number, "stop"] => Self::StopStream(number),
            ["jobs", name, "run"] => Self::RunJob(name),
            ["jobs", name, "stop"] => Self::StopJob(name),
            ["volumes", name, "scrub"] => Self::Upkeep(name, UpkeepAction::Scrub),
            ["volumes", name, "rebalance"] => Self::Upkeep(name, UpkeepAction::Rebalance),
            ["volumes", name, "disks", "add"] => Self::Upkeep(name, UpkeepAction::AddDisk),
            ["volumes", name, "disks", number, "remove"] => {
                Self::Upkeep(name, UpkeepAction::RemoveDisk(number.parse().ok()?))
            }
            ["volumes", name, "disks", number, "replace"] => {
                Self::Upkeep(name, UpkeepAction::ReplaceDisk(number.parse().ok()?))
            }
            _ => return None,
        })
    }
}

/// Performs the action that the target names; none if it is no such path.
pub(crate) async fn answer(exchange: &Exchange) -> Option<Reply> {
    let action = Action::at(&exchange.head.path)?;
    let permit = match login::permit_post(exchange).await {
        Ok(permit) => permit,
        Err(reply) => return Some(reply),
    };
    let done = match action {
        Action::StopStream(number) => stop_stream(exchange, number, &permit),
        Action::RunJob(name) | Action::StopJob(name) => {
            let (service, by) = (&exchange.shared.service, exchange.peer.ip());
            let begins = matches!(action, Action::RunJob(_));
            let done = if begins { service.run_job(name, by, &permit) } else { service.stop_job(name, by, &permit) };
            done.map_err(|error| problem::of_job(&error))
        }
        Action::Upkeep(name, upkeep) => begin_upkeep(exchange, permit, name, upkeep).await,
    };
    Some(done.map_or_else(|reply| reply, |()| Reply::empty(StatusCode::ACCEPTED)))
}

fn stop_stream(exchange: &Exchange, number: &str, permit: &Permit<ToAdminister>) -> Result<(), Reply> {
    let service = &exchange.shared.service;
    let stream = number.parse().map(StreamId).map_err(|_| StopError::Unknown);
    let stopped = stream.and_then(|stream| service.stop_stream(stream, exchange.peer.ip(), permit));
    stopped.map_err(|error| problem::of_stop(&error))
}

async fn begin_upkeep(
    exchange: &Exchange,
    permit: Permit<ToAdminister>,
    name: &str,
    upkeep: UpkeepAction,
) -> Result<(), Reply> {
    let device = || {
        let query = Query::parse(exchange.head.query.as_deref()).map_err(problem::bad_request)?;
        let unnamed = || Reply::problem(StatusCode::BAD_REQUEST, "name the disk that comes: `?device=DEV`");
        query.device.map(PathBuf::from).ok_or_else(unnamed)
    };
    let wish = match upkeep {
        UpkeepAction::Scrub => VolumeWish::Scrub,
        UpkeepAction::Rebalance => VolumeWish::Rebalance,
        UpkeepAction::AddDisk => VolumeWish::Add(device()?),
        UpkeepAction::RemoveDisk(number) => VolumeWish::Remove(number),
        UpkeepAction::ReplaceDisk(number) => VolumeWish::Replace(number, device()?),
    };
    let service = Arc::clone(&exchange.shared.service);
    let name = percent_decode_str(name).decode_utf8_lossy().into_owned();
    // It waits for disks.
    match tokio::task::spawn_blocking(move || service.begin_upkeep(&permit, &name, &wish)).await {
        Ok(begun) => begun.map_err(|error| problem::of_upkeep(&error)),
        Err(_) => Err(problem::stopping()),
    }
}
