//! Watch over the room of disks, volumes and quotas, and the samples of the last week, which outlive the server.
//!
//! Not here: the rates and the forecast (`forecast`).

use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, SystemTime};

use service::MediaService;
use service::access::Permit;
use service::alarms::AlarmSources;
use service::events::{self, unix_seconds};

use crate::forecast::{RoomHistory, RoomWatch};
use crate::state_documents::keep;

const FILE: &str = "room.json";
/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(60);
/// Time for the disks' threads and the quotas to look for the first time.
const FIRST: Duration = Duration::from_secs(3);

/// Takes samples until the service is gone, and keeps them in `state`.
pub(crate) async fn watch(service: Weak<MediaService>, state: PathBuf) {
    let path = state.join(FILE);
    let mut watch = RoomWatch { history: load(&path), ..RoomWatch::default() };
    let mut pause = FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = PERIOD;
        let Some(service) = service.upgrade() else { return };
        let now = SystemTime::now();
        let look = watch.look(&AlarmSources::read(&service, &Permit::of_server()), unix_seconds(now));
        service.operations.show_forecasts(look.forecasts);
        look.news.iter().for_each(|forecast| service.events.tell(events::full_soon(forecast, now)));
        if look.has_new {
            keep(&path, &watch.history, "how full disks were");
        }
    }
}

/// The kept samples; none if they cannot be read: then the forecast begins anew.
fn load(path: &Path) -> RoomHistory {
    let text = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}
