//! The addresses that are listened on, and the certificates of the one with TLS.
//!
//! Not here: reading certificates (`tls`), connections (`http`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use http::HttpListener;
use service::{MediaService, events};
use tls::{Acceptor, CertificateChange, CertificateSource, Certificates};

use super::{advice, wiring};
use crate::config::Config;

/// Listeners, the plain one first, and the certificates of the other.
pub(super) struct Listening {
    pub(super) listeners: Vec<HttpListener>,
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl Listening {
    /// Reads the certificates and takes the ports.
    ///
    /// # Errors
    /// The certificate or the address that cannot be used, with the remedy.
    pub(super) fn begin(config: &Config) -> anyhow::Result<Self> {
        let mut listeners = vec![listen(config.listen, None)?];
        let Some((address, source)) = config.tls.listen.zip(certificate_source(config)) else {
            return Ok(Self { listeners, certificates: None });
        };
        let certificates = Certificates::load(&source).context("TLS")?;
        let acceptor = Acceptor::new(Arc::clone(&certificates), http::PROTOCOLS, wiring::handshakes_max(config));
        listeners.push(listen(address, Some(acceptor.context("TLS")?))?);
        Ok(Self { listeners, certificates: Some(certificates) })
    }
}

fn listen(address: SocketAddr, tls: Option<Acceptor>) -> anyhow::Result<HttpListener> {
    HttpListener::bind(address, tls).map_err(|error| {
        let advice = advice::on_listening(address, &error);
        anyhow::Error::from(error).context(format!("cannot listen on {address}: {advice}"))
    })
}

/// The origin of the certificates. One that is made here is for all names and addresses of this machine.
pub(super) fn certificate_source(config: &Config) -> Option<CertificateSource> {
    let configured = config.hosts.iter().filter(|name| *name != "*").cloned();
    let mut names: Vec<String> = configured.chain(wiring::own_name()).chain(["localhost".to_owned()]).collect();
    let mut addresses: Vec<IpAddr> =
        if_addrs::get_if_addrs().unwrap_or_default().iter().map(|each| each.ip()).collect();
    names.sort_unstable();
    names.dedup();
    addresses.sort_unstable();
    addresses.dedup();
    config.tls.source(&config.state, names, addresses)
}

/// Watches the certificates for as long as they are used, and logs changes.
pub(super) fn watch(certificates: &Arc<Certificates>, service: &Arc<MediaService>) {
    let service = Arc::downgrade(service);
    tokio::spawn(Certificates::watch(Arc::downgrade(certificates), move |change| {
        let Some(service) = service.upgrade() else { return };
        let now = SystemTime::now();
        service.events.tell(match change {
            CertificateChange::Loaded(state) => {
                events::certificate_loaded(&state.file, &state.names, state.expires, now)
            }
            CertificateChange::Refused(state) => {
                events::certificate_refused(&state.file, state.problem.as_deref().unwrap_or_default(), now)
            }
        });
    }));
}
