//! `GET /api/v1/volumes`, and `POST /api/v1/volumes/NAME/scrub` and `…/NAME/disks/N/remove`: somebody who may write has a volume
//! look after itself.

use api::{UpkeepStatus, VolumeDiskStatus, VolumeStatus};
use http_types::{Method, StatusCode};
use service::access::Verb;
use service::contents::{ContentPath, StoreError, VolumeInfo, VolumeWish};

use crate::exchange::Exchange;
use crate::login;
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
        upkeep: volume.upkeep.map(|(kind, report)| UpkeepStatus {
            kind: kind.to_owned(),
            seen_bytes: report.seen.0,
            total_bytes: report.total.0,
            copies_written: report.written,
            copies_lost: report.lost,
        }),
    }
}

/// Does what `rest` of the path (`NAME/scrub`) asks for; none if it is no such path.
pub(crate) async fn answer(exchange: &Exchange, rest: &str, user: &mut Option<String>) -> Option<Reply> {
    let (name, wish) = match *rest.split('/').collect::<Vec<_>>() {
        [name, "scrub"] => (name, VolumeWish::Scrub),
        [name, "disks", number, "remove"] => (name, VolumeWish::Remove(number.parse().ok()?)),
        _ => return None,
    };
    if exchange.head.method != Method::POST {
        return Some(problem::not_allowed("POST"));
    }
    match login::authorize(exchange, Verb::Write, &ContentPath::root(), None).await {
        Ok(name) => *user = name,
        Err(reply) => return Some(reply),
    }
    Some(match exchange.shared.service.contents.begin_upkeep(name, wish) {
        Ok(()) => Reply::empty(StatusCode::ACCEPTED),
        Err(StoreError::NotFound) => Reply::problem(
            StatusCode::NOT_FOUND,
            "there is no volume of this name, or no such disk of it; /api/v1/volumes lists those there are",
        ),
        Err(StoreError::Busy) => Reply::problem(
            StatusCode::CONFLICT,
            "a disk of the volume is being filled or emptied, or it is being scrubbed; /api/v1/volumes says how far that is",
        ),
        Err(StoreError::NoSpace) => Reply::problem(
            StatusCode::CONFLICT,
            "without this disk too few are left for the volume's layout: add one first",
        ),
        Err(error) => problem::of_store(&error),
    })
}
