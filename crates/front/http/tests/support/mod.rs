//! A small store and a data plane that really sends, so that the control plane can be tested alone.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

mod accounts;
mod client;
mod lines;
mod names;
mod operations;
mod plane;
mod sends;
mod store;
mod told;

use std::net::SocketAddr;
use std::sync::Arc;

use accounts::NoStore;
#[allow(unused_imports, reason = "each test file uses its part")]
pub use accounts::{password_hash, users};
#[allow(unused_imports, reason = "each test file uses its part")]
pub use client::{Answer, Client, PATIENCE, pattern};
use dataplane::gauges::Gauges;
use http::config::HttpConfig;
use http::{HttpListener, Server, ServerParts};
pub use lines::Lines;
pub use plane::FakePlane;
use service::account_changes::AccountStore;
use service::accounts::{Accounts, OpenRights};
use service::config::ServiceConfig;
use service::log::Log;
use service::operations::Operations;
use service::{MediaService, PlaneQueue};
pub use store::FakeStore;
pub use told::PlaneOrder;
use units::DiskId;

/// Settings of the service and of the front end; those that a test does not name are the default ones.
#[derive(Default)]
pub struct Settings {
    pub service: ServiceConfig,
    pub http: HttpConfig,
    /// For a second address, with TLS.
    pub tls: Option<tls::Acceptor>,
}

impl From<ServiceConfig> for Settings {
    fn from(service: ServiceConfig) -> Self {
        Self { service, ..Self::default() }
    }
}

impl From<HttpConfig> for Settings {
    fn from(http: HttpConfig) -> Self {
        Self { http, ..Self::default() }
    }
}

/// A server with its fakes.
pub struct Harness {
    pub server: Arc<Server>,
    pub service: Arc<MediaService>,
    operations: Arc<dyn Operations>,
    pub plane: Arc<FakePlane>,
    pub store: FakeStore,
    pub access: Lines,
    pub events: Lines,
    pub address: SocketAddr,
    /// The address with TLS, where the settings have one.
    pub sealed: SocketAddr,
}

/// 100 Mbit/s of room.
pub const CAPACITY_BPS: u64 = 100_000_000;

impl Harness {
    /// With these settings, but that programs on this machine may write.
    pub fn start(settings: impl Into<Settings>) -> Self {
        let accounts = Arc::<Accounts>::default();
        accounts.open(OpenRights { all_read: true, local_writes: true });
        Self::with_accounts(settings, accounts)
    }

    /// With these settings and accounts.
    pub fn with_accounts(settings: impl Into<Settings>, accounts: Arc<Accounts>) -> Self {
        Self::with_account_store(settings, accounts, Arc::new(NoStore))
    }

    /// With these settings and accounts, which `account_store` changes.
    pub fn with_account_store(
        settings: impl Into<Settings>,
        accounts: Arc<Accounts>,
        account_store: Arc<dyn AccountStore>,
    ) -> Self {
        let Settings { service, http, tls } = settings.into();
        let (plane, store) = (FakePlane::new(CAPACITY_BPS), FakeStore::default());
        let (access, events) = (Lines::default(), Lines::default());
        let bind = |tls| HttpListener::bind("127.0.0.1:0".parse().expect("an address"), tls).expect("a port");
        let listeners = std::iter::once(bind(None)).chain(tls.map(|tls| bind(Some(tls)))).collect();
        let service = MediaService::start(service::ServiceParts {
            config: service,
            contents: Arc::new(store.clone()),
            admin: Arc::new(store.clone()),
            accounts,
            account_store,
            plane: Arc::clone(&plane) as Arc<dyn PlaneQueue>,
            disk_doubts: [(DiskId(0), "no block device".to_owned())].into(),
            missing: Vec::new(),
            gauges: Arc::new(Gauges::new(16, 1)),
            access: Log::start("access", Some(Box::new(access.clone()))).expect("a thread"),
            events: Log::start("events", Some(Box::new(events.clone()))).expect("a thread"),
            machine: || None,
        });
        let operations: Arc<dyn Operations> = Arc::new(operations::FakeOperations);
        service.operations.begin(&operations);
        plane.report_to(&service);
        let server = Server::start(ServerParts {
            config: http,
            listeners,
            service: Arc::clone(&service),
            dav_journal: Arc::new(service::line_journal::NoJournal),
            upload_journal: Arc::new(service::line_journal::NoJournal),
        })
        .expect("started");
        let address = server.addresses()[0].address;
        let sealed = server.addresses().last().expect("an address").address;
        Self { server, service, operations, plane, store, access, events, address, sealed }
    }

    pub fn connect(&self) -> Client {
        Client::to(self.address)
    }

    pub fn connect_from(&self, source: &str) -> Client {
        Client::from_to(source, self.address)
    }

    /// One request on a connection of its own.
    pub fn one(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer(!request.starts_with("HEAD"))
    }
}

/// The head of a GET.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}
