//! `GET /api/v1/volumes`, and `POST /api/v1/volumes/NAME/scrub`, `…/rebalance` and `…/NAME/disks/add?device=DEV`,
//! `…/NAME/disks/N/remove` and `…/replace?device=DEV`: somebody
//! who may write has a volume look after itself.

use std::path::PathBuf;
use std::sync::Arc;

use api::{UpkeepStatus, VolumeDiskStatus, VolumeStatus};
use http_types::StatusCode;
use percent_encoding::percent_decode_str;
use service::contents::{UpkeepError, UpkeepReport, VolumeInfo, VolumeWish};

use crate::exchange::Exchange;
use crate::login;
use crate::message::query::Query;
use crate::message::reply::Reply;
use crate::problem;
use crate::shared::Shared;

/// The volumes as they are shown.
pub(crate) fn status(shared: &Shared) -> Vec<VolumeStatus> {
    shared.service.contents.volumes().into_iter().map(described).collect()
}

fn described(volume: VolumeInfo) -> VolumeStatus {
    let disks = volume.disks.into_iter().map(|disk| VolumeDiskStatus {
        disk: disk.disk.map(|disk| disk.0),
        path: disk.path.map(|path| path.display().to_string()),
        state: disk.state.to_owned(),
    });
    VolumeStatus {
        name: volume.name,
        layout: volume.layout.to_owned(),
        contents: u64::try_from(volume.contents).unwrap_or(u64::MAX),
        free_bytes: volume.free.0,
        disks: disks.collect(),
        moved_copies: volume.moved_copies,
        upkeep: volume.upkeep.map(|(kind, report)| upkeep(kind, &report, None)),
        last_upkeep: volume
            .last_upkeep
            .map(|(kind, report, error)| upkeep(kind, &report, error.map(|error| error.to_string()))),
    }
}

fn upkeep(kind: &str, report: &UpkeepReport, error: Option<String>) -> UpkeepStatus {
    UpkeepStatus {
        kind: kind.to_owned(),
        seen_bytes: report.seen.0,
        total_bytes: report.total.0,
        copies_written: report.written,
        copies_lost: report.lost,
        error,
    }
}

/// Does what `rest` of the path (`NAME/scrub`) asks for; none if it is no such path.
pub(crate) async fn answer(exchange: &Exchange, rest: &str, user: &mut Option<String>) -> Option<Reply> {
    let device = || match Query::parse(exchange.head.query.as_deref()) {
        Ok(Query { device: Some(device), .. }) => Ok(PathBuf::from(device)),
        Ok(_) => Err(Reply::problem(StatusCode::BAD_REQUEST, "name the disk that comes: `?device=DEV`")),
        Err(error) => Err(problem::bad_request(error)),
    };
    let (name, wish) = match *rest.split('/').collect::<Vec<_>>() {
        [name, "scrub"] => (name, Ok(VolumeWish::Scrub)),
        [name, "rebalance"] => (name, Ok(VolumeWish::Rebalance)),
        [name, "disks", "add"] => (name, device().map(VolumeWish::Add)),
        [name, "disks", number, "remove"] => (name, Ok(VolumeWish::Remove(number.parse().ok()?))),
        [name, "disks", number, "replace"] => {
            let number = number.parse().ok()?;
            (name, device().map(|device| VolumeWish::Replace(number, device)))
        }
        _ => return None,
    };
    let wish = match wish {
        Ok(wish) => wish,
        Err(reply) => return Some(reply),
    };
    if let Err(reply) = login::authorize_post(exchange, user).await {
        return Some(reply);
    }
    let contents = Arc::clone(&exchange.shared.service.contents);
    let name = percent_decode_str(name).decode_utf8_lossy().into_owned();
    let begun = tokio::task::spawn_blocking(move || contents.begin_upkeep(&name, &wish)).await;
    Some(match begun {
        Ok(Ok(())) => Reply::empty(StatusCode::ACCEPTED),
        Ok(Err(UpkeepError::Store(error))) => problem::of_store(&error),
        Ok(Err(error @ UpkeepError::Unknown)) => Reply::problem(StatusCode::NOT_FOUND, &error.to_string()),
        Ok(Err(error)) => Reply::problem(StatusCode::CONFLICT, &error.to_string()),
        Err(_) => problem::stopping(&exchange.shared),
    })
}
