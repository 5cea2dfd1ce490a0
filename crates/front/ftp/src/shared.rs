//! Settings, and the state that all control connections share.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use proxy::TrustedProxies;
use service::MediaService;
use service::requests::FrontRequests;
use tls::Acceptor;
use tokio::sync::watch;

/// TLS of connections that begin without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FtpTls {
    /// Nothing is done before `AUTH TLS`, and data connections are sealed.
    Required,
    /// A client may use it.
    Offered,
    /// There is none.
    Off,
}

/// Settings.
#[derive(Debug, Clone)]
pub struct FtpSettings {
    /// TLS of connections that begin without.
    pub tls: FtpTls,
    /// Ports of passive data connections.
    pub passive_ports: RangeInclusive<u16>,
    /// Address that clients of `PASV` connect to; none: the address that they have reached.
    pub passive_address: Option<Ipv4Addr>,
    /// Passwords are taken from other machines without encryption, too.
    pub plain_passwords: bool,
    /// Proxies that name their clients, or speak for clients that have no name.
    pub trusted_proxies: TrustedProxies,
    /// For the client to take something of a download.
    pub stall_max: Duration,
    /// Without a byte of an upload.
    pub upload_idle_max: Duration,
}

/// State that all control connections share.
pub(crate) struct FtpShared {
    pub(crate) service: Arc<MediaService>,
    pub(crate) requests: Arc<FrontRequests>,
    pub(crate) acceptor: Option<Acceptor>,
    /// That of data connections.
    pub(crate) data_acceptor: Option<Acceptor>,
    draining: watch::Receiver<bool>,
    settings: RwLock<Arc<FtpSettings>>,
    numbers: AtomicU64,
}

impl FtpShared {
    pub(crate) fn new(settings: FtpSettings, service: Arc<MediaService>, acceptor: Option<Acceptor>) -> Self {
        let help = "FTP's commands about contents, folders and users, by class of reply.";
        let requests = service.requests.begin("ftp_commands_total", help);
        let (draining, settings) = (service.draining(), RwLock::new(Arc::new(settings)));
        let data_acceptor = acceptor.as_ref().map(Acceptor::without_tickets);
        Self { service, requests, acceptor, data_acceptor, draining, settings, numbers: AtomicU64::new(0) }
    }

    pub(crate) fn settings(&self) -> Arc<FtpSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn configure(&self, settings: FtpSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Ready when the server drains.
    pub(crate) async fn drains(&self) {
        let _ = self.draining.clone().wait_for(|drains| *drains).await;
    }

    /// Another one for each call.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
