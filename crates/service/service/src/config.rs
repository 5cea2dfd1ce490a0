//! Settings of the service; their builder checks them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use api::LinkDirection;
use units::limits::{STREAMS_MAX, UPLOADS_MAX};
use units::{BitRate, LinkId, Nanos};

use crate::connections::ConnectionLimits;
use crate::lock::lock;
use crate::quota::QuotaConfig;

/// Longest part of a recording that may be missing, of a setting and of a request: more is a mistake in its unit. Chosen.
pub const RECORDING_DURABLE_MAX: Nanos = Nanos::from_secs(3600);

/// Settings of the service.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// From the start of a drain until running streams are stopped.
    pub drain_time_max: Duration,
    /// Connections at once, of all front ends. One beyond them is refused.
    pub connections: ConnectionLimits,
    /// Largest upload in bytes.
    pub upload_bytes_max: u64,
    /// Time for which the trash keeps an item; zero: there is none.
    pub trash_keep: Duration,
    /// Most bytes of the trash.
    pub trash_bytes_max: u64,
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
    /// As `recording_durable`, by path prefix likewise.
    pub path_durable: Vec<(String, Nanos)>,
    /// Links by local address; an address that is not listed has those of the first.
    pub links: Vec<(IpAddr, LinkPair)>,
    /// Links as they are shown.
    pub link_figures: Vec<LinkFigure>,
    /// Limits on the contents of folders.
    pub quotas: Vec<QuotaConfig>,
}

/// The last time that settings were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastReload {
    /// When those in force were read.
    pub in_force_since: SystemTime,
    /// Why the ones read after that were refused.
    pub refused: Option<String>,
}

/// The settings in force, and the last time that settings were read.
pub(crate) struct ConfigInForce {
    config: RwLock<Arc<ServiceConfig>>,
    last_reload: Mutex<LastReload>,
}

impl ConfigInForce {
    pub(crate) fn new(config: ServiceConfig) -> Self {
        let last_reload = Mutex::new(LastReload { in_force_since: SystemTime::now(), refused: None });
        Self { config: RwLock::new(Arc::new(config)), last_reload }
    }

    pub(crate) fn get(&self) -> Arc<ServiceConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put(&self, config: ServiceConfig) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        *lock(&self.last_reload) = LastReload { in_force_since: SystemTime::now(), refused: None };
    }

    /// Notes that settings were read anew and are wrong; those in force stay.
    pub(crate) fn refuse(&self, reason: &str) {
        lock(&self.last_reload).refused = Some(reason.to_owned());
    }

    pub(crate) fn last_reload(&self) -> LastReload {
        lock(&self.last_reload).clone()
    }
}

/// The links of an interface; both are one where the directions share its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkPair {
    /// Streams leave by it.
    pub out: LinkId,
    /// Recordings arrive by it.
    pub into: LinkId,
}

/// A link as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFigure {
    /// Name of the interface.
    pub name: String,
    /// Its number.
    pub id: LinkId,
    /// Its direction.
    pub direction: LinkDirection,
    /// Its rate.
    pub capacity: BitRate,
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
            trash_keep: Duration::from_secs(7 * 86_400),
            trash_bytes_max: 100 << 30,
            uploads_per_client: UPLOADS_MAX / 2,
            tick: Nanos::from_millis(50),
            burst: Nanos::ZERO,
            session_hold: Nanos::from_secs(60),
            recording_durable: Nanos::from_secs(10),
            recording_durable_min: Nanos::from_secs(3),
            path_rates: Vec::new(),
            path_when_full: Vec::new(),
            path_durable: Vec::new(),
            links: Vec::new(),
            link_figures: Vec::new(),
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
    /// The rate that is configured for the folder of this path.
    #[must_use]
    pub fn rate_of(&self, path: &str) -> Option<BitRate> {
        by_prefix(&self.path_rates, path)
    }

    /// At most this time of a recording of this path, at its rate, may be missing after a power cut.
    pub(crate) fn durable_of(&self, path: &str) -> Nanos {
        by_prefix(&self.path_durable, path).unwrap_or(self.recording_durable)
    }

    /// The links that a local address belongs to.
    #[must_use]
    pub fn links_of(&self, local: IpAddr) -> LinkPair {
        // An IPv4 client of an IPv6 listener has a mapped address.
        let local = local.to_canonical();
        let known = self.links.iter().find(|(address, _)| *address == local).or(self.links.first());
        known.map_or_else(LinkPair::default, |(_, links)| *links)
    }
}
