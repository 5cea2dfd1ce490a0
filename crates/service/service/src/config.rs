//! Settings of the service; their builder checks them.

use std::net::IpAddr;
use std::time::Duration;

use units::limits::{STREAMS_MAX, UPLOADS_MAX};
use units::{BitRate, LinkId, Nanos};

use crate::connections::ConnectionLimits;
use crate::quota::QuotaConfig;

/// Settings of the service.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// From the start of a drain until running streams are stopped.
    pub drain_time_max: Duration,
    /// Connections at once, of all front ends. One beyond them is refused.
    pub connections: ConnectionLimits,
    /// Largest upload in bytes.
    pub upload_bytes_max: u64,
    /// Uploads of one client at once ([`crate::shares::ClientIdentity`]).
    pub uploads_per_client: usize,
    /// The data plane's tick: sockets get a send buffer of two ticks and 200 ms of their rate.
    pub tick: Nanos,
    /// Start burst where neither the request nor the content says one.
    pub burst: Nanos,
    /// A viewer's reservation is held this long after its last request.
    pub session_hold: Nanos,
    /// At most this time of a recording, at its rate, may be missing after a power cut.
    pub recording_durable: Nanos,
    /// The least that it can be: a block is gathered in a round and written in two.
    pub recording_durable_min: Nanos,
    /// The rate where nothing else says one, by path prefix (decoded, relative to the root); the longest that matches.
    pub path_rates: Vec<(String, BitRate)>,
    /// Treatment of a stream for which there is no room, by path prefix likewise.
    pub path_when_full: Vec<(String, WhenFull)>,
    /// Links by local address; streams from addresses not listed leave by link 0.
    pub links: Vec<(IpAddr, LinkId)>,
    /// Each link's name and its rate, in the order of their numbers.
    pub link_capacities: Vec<(String, BitRate)>,
    /// Limits on the contents of folders.
    pub quotas: Vec<QuotaConfig>,
}

/// Treatment of a stream for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Refused, with the rate that could be granted.
    #[default]
    Refuse,
    /// Served as best effort, at the rate that is left over.
    BestEffort,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            drain_time_max: Duration::from_secs(30),
            connections: ConnectionLimits { all: STREAMS_MAX + 1024, per_client: (STREAMS_MAX + 1024) / 2 },
            upload_bytes_max: 1 << 40,
            uploads_per_client: UPLOADS_MAX / 2,
            tick: Nanos::from_millis(50),
            burst: Nanos::ZERO,
            session_hold: Nanos::from_secs(60),
            recording_durable: Nanos::from_secs(10),
            recording_durable_min: Nanos::from_secs(3),
            path_rates: Vec::new(),
            path_when_full: Vec::new(),
            links: Vec::new(),
            link_capacities: Vec::new(),
            quotas: Vec::new(),
        }
    }
}

/// The value of the longest of the prefixes that a path begins with.
pub(crate) fn by_prefix<T: Copy>(table: &[(String, T)], path: &str) -> Option<T> {
    let matching = table.iter().filter(|(prefix, _)| path.starts_with(prefix.as_str()));
    matching.max_by_key(|(prefix, _)| prefix.len()).map(|(_, value)| *value)
}

impl ServiceConfig {
    /// The link that a local address belongs to.
    #[must_use]
    pub fn link(&self, local: IpAddr) -> LinkId {
        // An IPv4 client of an IPv6 listener has a mapped address.
        let local = local.to_canonical();
        self.links.iter().find(|(address, _)| *address == local).map_or(LinkId(0), |(_, link)| *link)
    }
}
