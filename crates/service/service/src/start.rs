//! The start of the service, with its clock and with the care for its trash and for reservations ahead.
//!
//! Promise: a composition of the service has all that runs beside requests; each ends with the last reference to the service. Not here: a
//! step of the clock (`media_service`).

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use tokio::time::interval;

use crate::machine::MachineReader;
use crate::media_service::{MediaService, ServiceParts};
use crate::{figures, reservations, trash};

/// Period of the clock: held reservations expire, and rates are read.
const CLOCK_PERIOD: Duration = Duration::from_secs(1);

impl MediaService {
    /// Starts on the current tokio runtime.
    #[must_use]
    pub fn start(parts: ServiceParts) -> Arc<Self> {
        let machine = parts.machine;
        let service = Self::of_parts(parts);
        tokio::spawn(keep_time(Arc::downgrade(&service), machine));
        tokio::spawn(reservations::keep(Arc::downgrade(&service)));
        tokio::spawn(trash::keep(Arc::downgrade(&service)));
        service
    }
}

async fn keep_time(service: Weak<MediaService>, machine: MachineReader) {
    let mut period = interval(CLOCK_PERIOD);
    loop {
        period.tick().await;
        // Reading the machine may take its time.
        let sample = tokio::task::spawn_blocking(machine).await.ok().flatten();
        let Some(service) = service.upgrade() else { return };
        service.every_second(sample);
        figures::note_history(&service, SystemTime::now());
    }
}
