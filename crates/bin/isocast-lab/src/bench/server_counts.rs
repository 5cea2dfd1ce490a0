//! Figures of our server near the end of a run: late blocks and ticks, memory promised, disks slower than their
//! profiles. Read from its API, so that a run's verdict does not rest on the client alone.
//!
//! Promise: `None` for a server that has no such API. Not here: the client's observations (`summary`).

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use units::Nanos;

use super::{Stop, clock, server};

/// Longer than a busy server takes.
const ANSWER_MAX: Nanos = Nanos::from_secs(5);

/// Counts since the server's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerCounts {
    /// Blocks that came from a disk after their deadline.
    pub late_blocks: u64,
    /// Ticks at which a stream's bytes were not there.
    pub late_ticks: u64,
    /// Reads that failed.
    pub errors: u64,
    /// Streams refused.
    pub refused: u64,
    /// Streams under way.
    pub streams: u64,
    /// Commits of uploads.
    pub commits: u64,
    /// Observed over predicted service time, of the slowest disk.
    pub slowdown: f64,
    /// Promised share of disk time, of the fullest disk.
    pub promised_share: f64,
    /// Memory for blocks, bytes.
    pub buffer_bytes: u64,
    /// Promised to streams.
    pub promised_bytes: u64,
    /// In use.
    pub used_bytes: u64,
}

impl ServerCounts {
    /// Promised memory per stream, bytes; `None` without streams.
    pub(crate) fn bytes_per_stream(&self) -> Option<u64> {
        self.promised_bytes.checked_div(self.streams)
    }
}

/// Asks the server at `address`, whatever it is: all its answers together have [`ANSWER_MAX`].
pub(crate) fn ask(address: SocketAddr, stop: &Stop) -> Option<ServerCounts> {
    let until = clock::now() + ANSWER_MAX;
    let disks: Vec<api::Disk> = serde_json::from_str(&server::get(address, "/api/v1/disks", until, stop)?).ok()?;
    let system: api::System = serde_json::from_str(&server::get(address, "/api/v1/system", until, stop)?).ok()?;
    Some(words(&disks, &system))
}

fn words(disks: &[api::Disk], system: &api::System) -> ServerCounts {
    let most = |of: fn(&api::Disk) -> f64| disks.iter().map(of).fold(0.0, f64::max);
    ServerCounts {
        late_blocks: disks.iter().flat_map(|d| &d.lateness).sum(),
        late_ticks: system.misses,
        errors: disks.iter().map(|d| d.errors).sum(),
        refused: system.refused,
        streams: system.streams,
        commits: disks.iter().map(|d| d.commits).sum(),
        slowdown: most(|d| d.slowdown),
        promised_share: most(|d| d.promised_share),
        buffer_bytes: system.buffers.total_bytes,
        promised_bytes: system.buffers.promised_bytes,
        used_bytes: system.buffers.used_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_per_stream_needs_streams() {
        let words = ServerCounts { promised_bytes: 30 << 20, streams: 10, ..ServerCounts::default() };
        assert_eq!(words.bytes_per_stream(), Some(3 << 20));
        assert_eq!(ServerCounts::default().bytes_per_stream(), None);
    }
}
