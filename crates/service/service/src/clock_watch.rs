//! Check of the clock before a content is removed for its age.
//!
//! Promise: logs an event at the first check after the clock was set ahead. Not here: the measurement of the jump (`clock_lead`).

use std::time::{Duration, SystemTime};

use crate::events;
use crate::media_service::MediaService;

/// The time by which the clock was set ahead within the last day: ages are reduced by it.
pub fn clock_lead(service: &MediaService) -> Duration {
    let time = SystemTime::now();
    let (lead, is_new) = service.clock_lead.look(time);
    if is_new {
        service.events.tell(events::clock_set_ahead(lead, time));
    }
    lead
}
