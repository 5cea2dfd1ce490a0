//! Starting, changing the settings and stopping: listeners, the connection limit, the drain.
//!
//! Promise: no change of settings and no drain breaks off what runs: [`Server::stop`] does, behind the drain. While draining, new
//! connections are still answered (that streams are refused, that `/ready` is no longer so); nobody waits for their end.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use service::lock::lock;
use service::log::{Log, LogWriter};
use service::shares::{ClientIdentity, Share};
use service::{MediaService, events};
use tokio::net::{TcpListener, TcpStream};

use crate::config::HttpConfig;
use crate::connection;
use crate::connection_limit::{Arrival, ConnectionPermit};
use crate::counts::AllCounts;
use crate::guard::guarded;
use crate::machine::MachineSample;
use crate::message::reply::{After, Reply, render};
use crate::operations::Operations;
use crate::problem;
use crate::shared::Shared;

/// Between two checks of what sessions hold.
const EXPIRY_PERIOD: Duration = Duration::from_secs(1);
/// Pause after an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections beyond the limit, for requests that ask for the server's health.
const RESERVE: usize = 64;
/// For the last reports after streams were told to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);
/// For the disks to write what recordings have in memory, as long as a caller waits for a disk (`StoreSettings::patience`). What
/// is not written by then gets its name at the next start.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(10);
/// Between two checks of whether they have.
const SETTLE_PERIOD: Duration = Duration::from_millis(10);

/// What the wiring gives the front end.
pub struct ServerParts {
    /// Settings.
    pub config: HttpConfig,
    /// Bound and listening (see [`listen`]).
    pub listeners: Vec<StdListener>,
    /// What is served.
    pub service: Arc<MediaService>,
    /// What the server does by itself.
    pub operations: Arc<dyn Operations>,
    /// What the machine says of itself.
    pub machine: fn() -> Option<MachineSample>,
    /// Access log, combined format.
    pub access: Log,
}

/// The running front end.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
}

/// Other settings, as they were read anew.
pub struct Reload {
    /// The settings, as they are to be in force.
    pub config: HttpConfig,
    /// The access log, opened anew; none: it is not written.
    pub access: Option<LogWriter>,
    /// The event log, opened anew.
    pub events: LogWriter,
    /// Names of the settings that changed and are in force now.
    pub changed: Vec<String>,
    /// Names of those that changed but need a restart.
    pub restart: Vec<String>,
}

/// Binds a listening socket, with `SO_REUSEADDR` and a long backlog.
///
/// # Errors
/// The address cannot be bound.
pub fn listen(address: SocketAddr) -> io::Result<StdListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM.nonblocking(), Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

impl Server {
    /// Starts serving on the current tokio runtime.
    ///
    /// # Errors
    /// A listener cannot be used.
    pub fn start(parts: ServerParts) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::new(parts.config, parts.service, parts.operations, parts.access));
        let mut addresses = Vec::with_capacity(parts.listeners.len());
        for listener in parts.listeners {
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            let listener = TcpListener::from_std(listener)?;
            tokio::spawn(accept(Arc::clone(&shared), listener));
        }
        tokio::spawn(every_second(Arc::clone(&shared), parts.machine));
        shared.service.events.tell(events::server_started(&addresses, SystemTime::now()));
        Ok(Arc::new(Self { shared, addresses }))
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Puts other settings in force for what begins from now on, here and in the service, and changes to other log files.
    /// Running streams and uploads go on as they began.
    pub fn reload(&self, reload: Reload) {
        let service = &self.shared.service;
        self.shared.access.reopen(reload.access);
        service.reload(reload.config.service.clone(), reload.events);
        self.shared.configure(reload.config);
        service.events.tell(events::reloaded(&reload.changed, &reload.restart, SystemTime::now()));
    }

    /// Notes that settings were read anew and are wrong; those in force stay.
    pub fn reload_refused(&self, reason: &str) {
        self.shared.service.events.tell(events::reload_refused(reason, SystemTime::now()));
    }

    /// Stops admitting, and lets what runs finish up to the configured time. True if all of it did.
    pub async fn drain(&self) -> bool {
        let service = &self.shared.service;
        service.drain();
        let time_max = service.config().drain_time_max;
        tokio::time::timeout(time_max, self.shared.connections.all_closed()).await.is_ok()
    }

    /// Ends what runs, and waits until what is kept of it is durable under its name.
    pub async fn stop(&self) {
        let service = &self.shared.service;
        service.stop_all();
        let _ = tokio::time::timeout(STOP_TIME_MAX, self.shared.connections.all_closed()).await;
        let settled = async {
            while !service.contents.is_settled() {
                tokio::time::sleep(SETTLE_PERIOD).await;
            }
        };
        let _ = tokio::time::timeout(SETTLE_TIME_MAX, settled).await;
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let accepted = listener.accept().await;
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors or memory: accepting at once again would only burn the processor.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // An IPv4 client of an IPv6 listener is shown and told apart by its IPv4 address.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        shared.stats.connections.fetch_add(1, Ordering::Relaxed);
        let (held, arrival) = match place_for(&shared, peer) {
            Ok(place) => place,
            Err(reply) => {
                shared.stats.connections_refused.fetch_add(1, Ordering::Relaxed);
                turn_away(&stream, &reply);
                continue;
            }
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let _held = held;
            let stats = Arc::clone(&shared);
            // A panic while a delivery is under way closes the connection, and is counted.
            let _ = guarded(&stats.stats, connection::serve(shared, stream, peer, arrival)).await;
        });
    }
}

/// A connection's place among all, and among those of its client.
type ConnectionPlace = (ConnectionPermit, Option<Share<ClientIdentity>>);

/// The place of a connection that came: where all are taken, one of the reserve.
///
/// # Errors
/// What it is refused with.
fn place_for(shared: &Shared, peer: SocketAddr) -> Result<(ConnectionPlace, Arrival), Reply> {
    let config = shared.config();
    let arrival = if shared.service.is_draining() { Arrival::Draining } else { Arrival::Serving };
    let Some(permit) = shared.connections.permit(arrival, config.connections_max) else {
        let permit = shared.connections.permit(Arrival::Reserve, RESERVE).ok_or_else(problem::busy)?;
        return Ok(((permit, None), Arrival::Reserve));
    };
    let most = config.connections_per_client;
    let share = shared.of_clients.take(ClientIdentity::of(None, peer.ip()), most).ok_or_else(|| {
        problem::client_busy(&format!("{most} connections of this address are open, the most that one may have"))
    })?;
    Ok(((permit, Some(share)), arrival))
}

/// One connection too many: told so as far as the socket takes it at once.
fn turn_away(stream: &TcpStream, reply: &Reply) {
    let _ = stream.try_write(&render(reply, After::Close, SystemTime::now()));
}

/// Releases what sessions held for too long, and looks at the counts from which rates are told.
async fn every_second(shared: Arc<Shared>, machine: fn() -> Option<MachineSample>) {
    let mut period = tokio::time::interval(EXPIRY_PERIOD);
    let mut last = None;
    loop {
        period.tick().await;
        shared.service.expire();
        shared.tell_left_out();
        let sample = tokio::task::spawn_blocking(machine).await.ok().flatten();
        let now = AllCounts::read(&shared.service, sample);
        *lock(&shared.counts) = last.replace(now.clone()).map(|older| (older, now));
    }
}
