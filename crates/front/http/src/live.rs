//! `GET /api/v1/live`: the figures of a second, and the server-sent event of them.
//!
//! Promise: the event of a second is written once for all clients that may see everything. Not here: the figures (`service::figures`),
//! sending every second's (`follow`).

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use service::access::{Permit, ToObserve};
use service::{MediaService, figures};

use crate::message::reply::Reply;

/// The path of the call.
pub(crate) const PATH: &str = "/api/v1/live";

/// The event of the latest reading of the figures, and that reading's number.
#[derive(Debug, Default)]
pub(crate) struct LatestEvent(Mutex<Option<(u64, Bytes)>>);

impl LatestEvent {
    /// The event of a reading of the figures, as the permit may see them.
    pub(crate) fn of(&self, reading: u64, service: &MediaService, permit: &Permit<ToObserve>) -> Bytes {
        if !permit.sees_others() {
            return event(service, permit);
        }
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((number, event)) if *number == reading => event.clone(),
            _ => latest.insert((reading, event(service, permit))).1.clone(),
        }
    }
}

/// The figures now.
pub(crate) fn now(service: &MediaService, permit: &Permit<ToObserve>) -> Reply {
    Reply::json(&figures::live(service, permit))
}

fn event(service: &MediaService, permit: &Permit<ToObserve>) -> Bytes {
    let figures = serde_json::to_string(&figures::live(service, permit)).expect("figures are JSON");
    format!("data: {figures}\n\n").into()
}
