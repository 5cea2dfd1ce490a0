//! What an operator may set of the service; checked by whoever builds it.

use std::net::IpAddr;
use std::time::Duration;

use units::{BitRate, LinkId, Nanos};

use crate::quota::QuotaConfig;

/// Settings of the service.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// From the start of a drain until running streams are stopped.
    pub drain_time_max: Duration,
    /// Largest upload in bytes.
    pub upload_bytes_max: u64,
    /// The data plane's tick: sockets get a send buffer of two ticks and 200 ms of their rate.
    pub tick: Nanos,
    /// Start burst where neither the request nor the content says one.
    pub burst: Nanos,
    /// A viewer's reservation is held this long after its last request.
    pub session_hold: Nanos,
    /// By longest matching path prefix (decoded, relative to the root).
    pub policies: Vec<PathPolicy>,
    /// Links by local address; what is not listed leaves by link 0.
    pub links: Vec<(IpAddr, LinkId)>,
    /// Each link's name, and what it carries, in the order of their numbers.
    pub link_capacities: Vec<(String, BitRate)>,
    /// What folders may hold.
    pub quotas: Vec<QuotaConfig>,
    /// Users who may write.
    pub users: Vec<User>,
    /// Without users, programs on this machine may write.
    pub local_writes: bool,
}

/// How contents below a prefix are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPolicy {
    /// Path prefix below the root, decoded; empty for all.
    pub prefix: String,
    /// The rate where nothing else says one; none: best-effort.
    pub rate: Option<BitRate>,
    /// What becomes of a stream for which there is no room.
    pub when_full: WhenFull,
}

/// What becomes of a stream for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// 503 with the rate that could be granted.
    #[default]
    Refuse,
    /// Served with what is left over.
    BestEffort,
}

/// A user who may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// PHC string of an argon2 hash.
    pub password_hash: String,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            drain_time_max: Duration::from_secs(30),
            upload_bytes_max: 1 << 40,
            tick: Nanos::from_millis(50),
            burst: Nanos::ZERO,
            session_hold: Nanos::from_secs(60),
            policies: Vec::new(),
            links: Vec::new(),
            link_capacities: Vec::new(),
            quotas: Vec::new(),
            users: Vec::new(),
            local_writes: false,
        }
    }
}

impl ServiceConfig {
    /// The policy for a path: of the longest prefix that matches, else to refuse and without a rate.
    #[must_use]
    pub fn policy(&self, path: &str) -> PathPolicy {
        self.policies
            .iter()
            .filter(|policy| path.starts_with(policy.prefix.as_str()))
            .max_by_key(|policy| policy.prefix.len())
            .cloned()
            .unwrap_or(PathPolicy { prefix: String::new(), rate: None, when_full: WhenFull::Refuse })
    }

    /// The link that a local address belongs to.
    #[must_use]
    pub fn link(&self, local: IpAddr) -> LinkId {
        // An IPv4 client of an IPv6 listener has a mapped address.
        let local = local.to_canonical();
        self.links.iter().find(|(address, _)| *address == local).map_or(LinkId(0), |(_, link)| *link)
    }
}
