//! The resource that is short for a refused stream or recording: its name and its rest, as clients read them.
//!
//! Promise: a disk and a link have the names that the figures give them. Not here: the decision (admission), the answer (the front ends).

use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use api::LinkStatus;
use dataplane::control::{Refusal, Resource};
use serde_json::json;
use units::{BitRate, DiskId};

use crate::events::{self, EventLine};
use crate::links;
use crate::media_service::MediaService;
use crate::refusals;

/// A refusal, with the disk or link that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The refusal of the data plane.
    pub refusal: Refusal,
    /// The link that is short, as it is now.
    pub link: Option<LinkStatus>,
    /// The name of the disk that is short.
    pub disk: Option<String>,
}

impl Shortage {
    pub(crate) fn of(service: &MediaService, refusal: Refusal) -> Self {
        let disk =
            |id: DiskId| service.admin.disks().into_iter().find(|disk| disk.id == id).map(|disk| disk.device.name);
        let (link, disk) = match refusal.resource {
            Resource::Network(id) => (links::link(service, id), None),
            Resource::Disk(id) | Resource::DiskFailing(id) => (None, disk(id)),
            Resource::Memory | Resource::Processor | Resource::Table | Resource::Draining => (None, None),
        };
        Self { refusal, link, disk }
    }

    /// Rate that is left of the link that is short.
    #[must_use]
    pub fn left(&self) -> Option<BitRate> {
        self.link.as_ref().map(|link| BitRate(link.capacity_bps.saturating_sub(link.promised_bps)))
    }

    /// The kind of the resource that is short.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        refusals::kind(self.refusal.resource)
    }

    /// The name of the disk or link that is short.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.disk.as_deref().or(self.link.as_ref().map(|link| link.name.as_str()))
    }

    /// The event of a stream or recording that was not admitted. `rate` is the requested rate; best-effort has none.
    pub(crate) fn event(&self, path: &str, client: IpAddr, rate: Option<BitRate>) -> EventLine {
        let object = json!({
            "event": "stream_refused", "path": path, "client": client.to_string(), "rate_bps": rate.map(|rate| rate.0),
            "resource": self.kind(), "name": self.name(), "grantable_bps": self.refusal.grantable.0,
        });
        events::stamped(object, SystemTime::now())
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disk = self.disk.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
        match (self.refusal.resource, self.link.as_ref().zip(self.left())) {
            (Resource::Disk(_), _) => write!(f, "the disk{disk} has no time left for another stream at this rate"),
            (Resource::DiskFailing(_), _) => write!(f, "the disk{disk} errs or does not answer"),
            (Resource::Network(_), Some((link, left))) => {
                let (name, all) = (&link.name, BitRate(link.capacity_bps));
                write!(f, "the network link `{name}` has no room at this rate: {left} of its {all} are left")
            }
            (Resource::Network(_), None) => f.write_str("the network link has no room at this rate"),
            (Resource::Memory, _) => f.write_str("there is no buffer memory left"),
            (Resource::Processor, _) => f.write_str("the data plane has no processor time left"),
            (Resource::Table, _) => f.write_str("as many streams run as the tables hold"),
            (Resource::Draining, _) => f.write_str("the server is about to stop"),
        }?;
        match self.refusal.grantable {
            BitRate(0) => Ok(()),
            rate => write!(f, "; {rate} would be granted"),
        }
    }
}
