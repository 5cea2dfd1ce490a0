//! Events as notifications of packaging/ISOCAST-MIB.txt.

use agentx::{MibObjects, MibValue, Oid};
use serde_json::Value as Json;

use super::objects::{self, DISKS, disk_index};

/// `isocastEvent` below `isocastObjects`: the objects of notifications only.
const EVENT: u32 = 6;

/// The notification of an event, if there is one: its name and its variables. Those of disks come from `objects`.
pub(super) fn notification(line: &str, objects: impl FnOnce() -> MibObjects) -> Option<(Oid, Vec<(Oid, MibValue)>)> {
    let event: Json = serde_json::from_str(line).ok()?;
    let number = |key: &str| event[key].as_u64().unwrap_or_default();
    let told = |object: u32, value| (objects::root().below(&[1, EVENT, object, 0]), value);
    let text = |object, key: &str| told(object, MibValue::Text(event[key].as_str().unwrap_or_default().to_owned()));
    let disk = |state| {
        let row = disk_index(u16::try_from(number("disk")).ok()?);
        let column = |column| objects::root().below(&[1, DISKS, 1, column, row]);
        let name = objects().exact(&column(2))?.clone();
        Some(vec![(column(2), name), (column(4), MibValue::Integer(state))])
    };
    let (number, variables) = match event["event"].as_str()? {
        "disk_failing" => (1, disk(if event["hung"] == true { 3 } else { 2 })?),
        "disk_recovered" => (2, disk(1)?),
        "miss" => {
            let late = std::time::Duration::try_from_secs_f64(event["late_seconds"].as_f64()?).ok()?;
            let late = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
            (3, vec![told(1, MibValue::Counter(number("stream"))), told(2, objects::gauge(late))])
        }
        "stream_refused" => {
            let rates = [(5, "rate_bps"), (7, "grantable_bps")]
                .map(|(object, key)| told(object, MibValue::Counter(number(key))));
            let [asked, grantable] = rates;
            let short =
                ["resource", "name"].iter().filter_map(|key| event[*key].as_str()).collect::<Vec<_>>().join(" ");
            (4, vec![text(3, "path"), text(4, "client"), asked, told(6, MibValue::Text(short)), grantable])
        }
        "root_away" => (5, vec![text(8, "root")]),
        "root_back" => (6, vec![text(8, "root")]),
        "volume_disk" => (7, vec![text(9, "volume"), text(10, "path"), text(11, "state"), text(12, "message")]),
        "full_soon" => {
            let free = told(15, MibValue::Counter(number("free_bytes")));
            (9, vec![text(6, "kind"), text(14, "name"), free])
        }
        "copy_lost" => (10, vec![text(3, "path")]),
        "job_failed" => (8, vec![text(13, "job"), text(12, "reason")]),
        _ => return None,
    };
    Some((objects::root().below(&[0, number]), variables))
}
