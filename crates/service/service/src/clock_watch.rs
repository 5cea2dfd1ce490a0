//! Check of the clock before a content is removed for its age.
//!
//! Promise: the first look at a clock that was set ahead is an event. Not here: by how much it was (`clock_lead`).

use std::time::{Duration, SystemTime};

use crate::events;
use crate::media_service::MediaService;

/// By how much the clock was set ahead within the last day: nothing is older for that.
pub fn clock_lead(service: &MediaService) -> Duration {
    let time = SystemTime::now();
    let (lead, is_new) = service.clock_lead.look(time);
    if is_new {
        service.events.tell(events::clock_set_ahead(lead, time));
    }
    lead
}
