//! Events as JSON lines: the data plane's, and those of the settings.

use std::time::SystemTime;

use dataplane::control::Event;
use serde_json::json;

/// One event as a line of the event log.
pub(crate) fn line(event: &Event, now: SystemTime) -> String {
    let object = match event {
        Event::DiskFailing { disk, hung } => json!({ "event": "disk_failing", "disk": disk.0, "hung": hung }),
        Event::DiskRecovered { disk } => json!({ "event": "disk_recovered", "disk": disk.0 }),
        Event::DiskSlower { disk, factor } => json!({ "event": "disk_slower", "disk": disk.0, "factor": factor }),
        Event::Miss { stream, late } => {
            json!({ "event": "miss", "stream": stream.0, "late_seconds": late.as_secs_f64() })
        }
    };
    stamped(object, now)
}

/// Settings were read anew: which are in force now, which need a restart.
pub(crate) fn reloaded(changed: &[String], restart: &[String], now: SystemTime) -> String {
    stamped(json!({ "event": "configuration_reloaded", "changed": changed, "restart_needed": restart }), now)
}

/// Settings were read anew and are wrong; those in force stay.
pub(crate) fn reload_refused(reason: &str, now: SystemTime) -> String {
    stamped(json!({ "event": "configuration_refused", "reason": reason }), now)
}

/// Any event with its time.
pub(crate) fn stamped(mut object: serde_json::Value, now: SystemTime) -> String {
    object["time"] = json!(unix_seconds(now));
    object.to_string()
}

/// Seconds since 1970, to the millisecond.
pub(crate) fn unix_seconds(now: SystemTime) -> f64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}
