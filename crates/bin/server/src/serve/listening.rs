//! The listening addresses, and the certificates of those with TLS.
//!
//! Not here: reading certificates (`tls`), connections (`http`, `ftp`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use automation::AuthorityConfig;
use ftp::FtpListener;
use http::HttpListener;
use service::{MediaService, events};
use tls::{Acceptor, CertificateChange, CertificateSource, Certificates};

use super::{advice, wiring};
use crate::config::Config;

/// Listeners, and the certificates of those with TLS.
pub(super) struct Listening {
    /// Listeners of HTTP, the one without TLS first.
    pub(super) listeners: Vec<HttpListener>,
    pub(super) ftp: Vec<FtpListener>,
    /// Listeners of FTP's control connections.
    pub(super) ftp_acceptor: Option<Acceptor>,
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl Listening {
    /// Reads the certificates and opens the ports.
    ///
    /// # Errors
    /// A certificate or an address cannot be used; the text has the remedy.
    pub(super) fn begin(config: &Config) -> anyhow::Result<Self> {
        let source = certificate_source(config);
        let certificates = source.map(|source| Certificates::load(&source)).transpose().context("TLS")?;
        let acceptor = |protocols: &[&str]| {
            let made = certificates.as_ref().map(|certificates| {
                Acceptor::new(Arc::clone(certificates), protocols, wiring::handshakes_max(config)).context("TLS")
            });
            made.transpose()
        };
        let mut listeners = vec![listen(config.listen, |address| HttpListener::bind(address, None))?];
        if let Some((address, acceptor)) = config.tls.listen.zip(acceptor(http::PROTOCOLS)?) {
            listeners.push(listen(address, |address| HttpListener::bind(address, Some(acceptor)))?);
        }
        let ftp = [(config.ftp.listen, false), (config.ftp.implicit_listen, true)].into_iter();
        let ftp = ftp.filter_map(|(address, is_implicit)| Some((address?, is_implicit)));
        let ftp = ftp.map(|(address, is_implicit)| listen(address, |address| FtpListener::bind(address, is_implicit)));
        Ok(Self { listeners, ftp: ftp.collect::<anyhow::Result<_>>()?, ftp_acceptor: acceptor(&[])?, certificates })
    }
}

fn listen<L>(address: SocketAddr, bind: impl FnOnce(SocketAddr) -> io::Result<L>) -> anyhow::Result<L> {
    bind(address).map_err(|error| {
        let advice = advice::on_listening(address, &error);
        anyhow::Error::from(error).context(format!("cannot listen on {address}: {advice}"))
    })
}

/// The origin of the certificates. A self-signed certificate has all names and addresses of this machine.
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

/// Watches the certificates while they are used, requests signatures if the configuration names an authority, and logs changes.
pub(super) fn watch(certificates: &Arc<Certificates>, config: &Config, service: &Arc<MediaService>) {
    tokio::spawn(Certificates::watch(Arc::downgrade(certificates), teller(service)));
    if let Some(authority) = &config.tls.authority {
        let authority = AuthorityConfig { folder: config.state.join("tls"), ..authority.clone() };
        tokio::spawn(automation::keep_signed(authority, Arc::downgrade(certificates), teller(service)));
    }
}

/// Logs changes of certificates.
fn teller(service: &Arc<MediaService>) -> impl Fn(CertificateChange) + Send + 'static {
    let service = Arc::downgrade(service);
    move |change| {
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
    }
}
