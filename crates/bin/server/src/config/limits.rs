//! `[limits]`: bounds on clients.

use units::{ByteCount, Nanos};

use super::settings::Settings;
use super::values::{Percent, parse_number, parse_percent, parse_size, span_up_to, time_up_to};

/// Bounds on clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitsConfig {
    /// Open connections.
    pub(crate) connections: u32,
    /// Of connections and of uploads, the share that one client may have, in percent.
    pub(crate) per_client_percent: u8,
    /// From the first byte of a head to its last.
    pub(crate) head_timeout: Nanos,
    /// Between two requests of a connection.
    pub(crate) idle_timeout: Nanos,
    /// Without a byte of an upload's body.
    pub(crate) upload_idle: Nanos,
    /// Largest upload.
    pub(crate) upload_size: ByteCount,
    /// From the start of a drain (SIGTERM) until running streams are stopped.
    pub(crate) drain: Nanos,
}

impl LimitsConfig {
    pub(super) fn take(settings: &mut Settings) -> Self {
        Self {
            connections: settings.take("limits.connections", 10_000, |text| parse_number(text, 1, 1_000_000)),
            per_client_percent: settings.take("limits.per_client", Percent(50), |text| parse_percent(text, 1, 100)).0,
            head_timeout: settings.take("limits.head_timeout", Nanos::from_secs(10), time_up_to(Nanos::from_secs(600))),
            idle_timeout: settings.take(
                "limits.idle_timeout",
                Nanos::from_secs(75),
                span_up_to(Nanos::from_secs(3600)),
            ),
            upload_idle: settings.take("limits.upload_idle", Nanos::from_secs(30), time_up_to(Nanos::from_secs(3600))),
            upload_size: settings.take("limits.upload_size", ByteCount(1 << 40), parse_size),
            drain: settings.take("limits.drain", Nanos::from_secs(30), span_up_to(Nanos::from_secs(3600))),
        }
    }
}
