//! The configuration as each part takes it.

use std::time::Duration;

use dataplane::PlaneConfig;
use ftp::FtpSettings;
use http::config::HttpConfig;
use proxy::TrustedProxies;
use service::accounts::OpenRights;
use service::budgets::BudgetRules;
use service::config::ServiceConfig;
use service::connections::ConnectionLimits;
use store::StoreSettings;
use units::{ByteCount, Nanos, limits};

use super::links::Links;
use super::resources;
use crate::config::Config;

pub(super) fn plane_config(config: &Config) -> PlaneConfig {
    PlaneConfig {
        tick: config.schedule.tick,
        round: config.schedule.round,
        be_share: f64::from(config.schedule.best_effort_percent) / 100.0,
        sharing: config.schedule.sharing_reserve_percent.map(|percent| f64::from(percent) / 100.0),
        survive_disk_loss: config.schedule.survive_disk_loss,
        stall_max: config.streams.stall,
        ..PlaneConfig::default()
    }
}

/// Memory of a connection that counts against nothing: its task, the bytes that it may hold without asking, a short reply.
const CONNECTION_BYTES: u64 = 16 << 10;

/// In however little memory.
const CONNECTIONS_MIN: u64 = 64;

/// The settings of the service and of its front end.
pub(super) fn served(config: &Config, links: &Links, allowed: ByteCount) -> (ServiceConfig, HttpConfig) {
    let limits = &config.limits;
    let (memory_bytes, connections) = connection_memory(allowed, limits.connections);
    let of_one_client = |count: usize| (count * usize::from(limits.per_client_percent) / 100).max(1);
    let service = ServiceConfig {
        drain_time_max: duration(limits.drain),
        connections: ConnectionLimits { all: connections, per_client: of_one_client(connections) },
        upload_bytes_max: limits.upload_size.0,
        trash_keep: duration(config.trash_keep),
        trash_bytes_max: config.trash_size.0,
        uploads_per_client: of_one_client(upload_memory(allowed).uploads_max()),
        tick: config.schedule.tick,
        burst: config.streams.start_burst,
        session_hold: config.session_hold,
        recording_durable: config.recording_durable,
        recording_durable_min: config.schedule.recording_durable_min(),
        path_rates: config.path_rates.clone(),
        path_when_full: config.path_when_full.clone(),
        path_durable: config.path_durable.clone(),
        links: links.by_address(),
        link_figures: links.figures(),
        quotas: config.quotas.clone(),
    };
    let http = HttpConfig {
        memory_bytes,
        head_time_max: duration(limits.head_timeout),
        idle_time_max: duration(limits.idle_timeout),
        uploads_expire: duration(config.uploads_expire),
        upload_idle_max: duration(limits.upload_idle),
        stall_max: duration(config.streams.stall),
        cors_origins: config.cors_origins.clone(),
        hosts: config.hosts.iter().chain(names_signed(config)).cloned().chain(own_name()).collect(),
        redirect_to: config.tls.listen.filter(|_| config.tls.redirect).map(|address| address.port()),
        hsts: duration(config.tls.hsts),
        trusted_proxies: trusted_proxies(config),
        plain_passwords: config.plain_passwords,
        // Its secret is read from a file: `identity`.
        openid: None,
        challenges: None,
    };
    (service, http)
}

/// Names for which an authority signs certificates.
fn names_signed(config: &Config) -> impl Iterator<Item = &String> {
    config.tls.authority.iter().flat_map(|authority| &authority.names)
}

/// The proxies that name their clients.
fn trusted_proxies(config: &Config) -> TrustedProxies {
    TrustedProxies { networks: config.trusted_proxies.clone(), send_header: config.proxy_protocol }
}

/// The settings of FTP.
pub(super) fn ftp_settings(config: &Config) -> FtpSettings {
    FtpSettings {
        tls: config.ftp.tls(&config.tls),
        passive_ports: config.ftp.passive_ports.clone(),
        passive_address: config.ftp.passive_address,
        plain_passwords: config.plain_passwords,
        trusted_proxies: trusted_proxies(config),
        stall_max: duration(config.streams.stall),
        upload_idle_max: duration(config.limits.upload_idle),
    }
}

/// Rights without an account.
pub(super) const fn open_rights(config: &Config) -> OpenRights {
    OpenRights { all_read: config.anonymous_reads, local_writes: config.local_writes }
}

/// Budgets of the settings.
pub(super) fn budgets(config: &Config) -> BudgetRules {
    BudgetRules::new(config.budgets.iter().cloned())
}

/// Memory for uploads and recordings: as much as ever helps, but at most a quarter of the memory allowed.
pub(super) fn upload_memory(allowed: ByteCount) -> StoreSettings {
    let most = StoreSettings::default();
    let chunks = |sixteenths: u64, most: usize| {
        let share = allowed.0 / 16 * sixteenths / limits::CHUNK_BYTES;
        usize::try_from(share).unwrap_or(usize::MAX).clamp(1, most)
    };
    StoreSettings {
        upload_chunks: chunks(1, most.upload_chunks),
        recording_chunks: chunks(3, most.recording_chunks),
        ..most
    }
}

/// Handshakes under way at once: of the connections, this part may be without a request for want of one.
pub(super) fn handshakes_max(config: &Config) -> usize {
    (connection_memory(resources::memory(), config.limits.connections).1 / 4).max(1)
}

/// The name of this machine.
pub(super) fn own_name() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

/// Memory for the bytes that connections hold, a sixteenth of the memory allowed and no more than ever helps; and the number of connections
/// that fit into an eighth, at most the configured one.
fn connection_memory(allowed: ByteCount, connections: u32) -> (usize, usize) {
    let most = HttpConfig::default().memory_bytes;
    let fit = (allowed.0 / 8 / CONNECTION_BYTES).max(CONNECTIONS_MIN).min(connections.into());
    let bounded = |bytes: u64, most: usize| usize::try_from(bytes).unwrap_or(usize::MAX).min(most);
    (bounded(allowed.0 / 16, most), bounded(fit, usize::MAX))
}

fn duration(span: Nanos) -> Duration {
    Duration::from_nanos(span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_container_has_fewer_connections() {
        let memory = |mib: u64, connections| connection_memory(ByteCount(mib << 20), connections);
        assert_eq!(memory(512, 10_000), (32 << 20, 4096));
        assert_eq!((memory(256, 100), memory(64_000, 10_000)), ((16 << 20, 100), (32 << 20, 10_000)));
        assert_eq!((memory(1, 10_000).1, memory(1, 5).1), (64, 5), "a few in any case");
    }

    #[test]
    fn a_small_container_has_small_upload_buffers() {
        let chunks = |mib: u64| {
            let settings = upload_memory(ByteCount(mib << 20));
            (settings.upload_chunks, settings.recording_chunks)
        };
        assert_eq!((chunks(256), chunks(8192), chunks(1)), ((16, 48), (128, 1536), (1, 1)));
    }
}
