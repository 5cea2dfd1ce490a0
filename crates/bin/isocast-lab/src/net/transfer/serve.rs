//! `isocast net serve`: the receiving side of tests, for as many senders as come.
//!
//! Promise: a sender's request is checked before anything is made for it; a sender that goes away in the middle, or
//! stays silent, ends its own test only. At most [`CONNECTIONS_MAX`] connections are served, each with one buffer.

use std::collections::HashMap;
use std::io::Write;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use net::{Coalescing, Connection, Listener, Numbered, SharedSecret, Transport};
use socket2::Socket;

use super::byte_transfer::{self, Watch};
use super::counters::NetCounters;
use super::wire::{Carrier, FromReceiver, FromSender, Side, TestPlan, hear, tell};
use super::{TokenArgs, advice, check_reach, place, report};
use crate::say;
use crate::stop::Stop;

/// Connections served at a time; a test has two.
const CONNECTIONS_MAX: usize = 32;
/// The bytes come within this time after they were announced.
const DATA_WITHIN: Duration = Duration::from_secs(10);
/// The type of TIPC service under which bytes are awaited that were announced over another transport.
const TIPC_SERVICE: u32 = 18_888;
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(100);

/// Receive the bytes of `isocast net test`, from any number of senders, until interrupted.
#[derive(Debug, Args)]
pub(in crate::net) struct ServeCommand {
    /// Address to listen on: HOST:PORT (port 0: any that is free), unix:PATH or tipc:TYPE:INSTANCE; repeat it for several.
    #[arg(long, required = true, value_name = "ADDR", value_parser = place)]
    listen: Vec<Arc<dyn Transport>>,
    /// End after one test.
    #[arg(long)]
    once: bool,
    /// Print a line of JSON for each test.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    token: TokenArgs,
}

/// End of a test, for the thread that waits for it.
pub(super) type TestEnded = anyhow::Result<(TestPlan, Side)>;

/// State that the threads of a server share.
pub(super) struct Receiving {
    token: Option<SharedSecret>,
    /// Tests that wait for their bytes, by cookie.
    awaited: Mutex<HashMap<u64, SyncSender<Socket>>>,
    connections: AtomicUsize,
    ended: SyncSender<TestEnded>,
}

impl ServeCommand {
    pub(in crate::net) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let token = self.token.read()?;
        let stop = Stop::on_signals()?;
        let mut listeners = Vec::new();
        for place in &self.listen {
            check_reach(&**place, token.as_ref())?;
            let listener = Arc::new(bind(place.clone(), None)?);
            let at = listener.tcp_address().map_or_else(|| place.to_string(), |address| address.to_string());
            writeln!(out, "{}", report::listening(&at, self.json)?)?;
            listeners.push(listener);
        }
        out.flush()?;
        let (receiving, ended) = Receiving::new(token);
        for listener in &listeners {
            receiving.start(Arc::clone(listener))?;
        }
        while !stop.is_set() {
            match ended.recv_timeout(STOP_CHECK_PERIOD) {
                Ok(Ok((plan, side))) => writeln!(out, "{}", report::received(&plan, &side, self.json)?)?,
                Ok(Err(error)) if self.once => return Err(error),
                Ok(Err(error)) => say(format_args!("{error:#}")),
                Err(_) => continue,
            }
            out.flush()?;
            if self.once {
                break;
            }
        }
        Ok(())
    }
}

/// Listens at `place`.
pub(super) fn bind(place: Arc<dyn Transport>, window: Option<usize>) -> anyhow::Result<Listener> {
    let (name, at) = (place.name(), place.to_string());
    Listener::bind(place, window)
        .map_err(|error| anyhow!("cannot listen at {at}: {error}; {}", advice::listening(name, &error)))
}

impl Receiving {
    /// A server without connections yet. The receiver of the channel gets the end of each test.
    pub(super) fn new(token: Option<SharedSecret>) -> (Arc<Self>, Receiver<TestEnded>) {
        let (ended, endings) = sync_channel(CONNECTIONS_MAX);
        let receiving = Self { token, awaited: Mutex::default(), connections: AtomicUsize::new(0), ended };
        (Arc::new(receiving), endings)
    }

    /// Serves each connection to `listener` in a thread of its own.
    pub(super) fn start(self: &Arc<Self>, listener: Arc<Listener>) -> anyhow::Result<()> {
        let receiving = Arc::clone(self);
        std::thread::Builder::new().name("net-accept".to_owned()).spawn(move || {
            loop {
                let Ok(socket) = listener.accept() else {
                    // Out of descriptors, or the other side has closed already: the next accept may succeed in a moment.
                    std::thread::sleep(STOP_CHECK_PERIOD);
                    continue;
                };
                receiving.attend(socket);
            }
        })?;
        Ok(())
    }

    fn attend(self: &Arc<Self>, socket: Socket) {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            say(format_args!("a connection was refused: {CONNECTIONS_MAX} are served already"));
            return;
        }
        let receiving = Arc::clone(self);
        let started = std::thread::Builder::new().name("net-serve".to_owned()).spawn(move || {
            receiving.converse(socket);
            receiving.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Greets, then uses the connection as its session requires: for the bytes of a test that waits for them, or for a new test.
    fn converse(&self, socket: Socket) {
        let numbered = match net::greeting::answer(&socket, self.token.as_ref()) {
            Ok(numbered) => numbered,
            Err(error) => {
                return say(format_args!("a caller is not served: {:#}", anyhow::Error::from(error)));
            }
        };
        let waiting = self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(&numbered.session);
        match waiting {
            // The thread that waited may have given up.
            Some(waiting) => drop(waiting.send(socket)),
            None => {
                let ended = self.test(socket, numbered).transpose();
                // No thread waits for it when the program ends.
                ended.into_iter().for_each(|ended| drop(self.ended.send(ended)));
            }
        }
    }

    /// One test; `None` if the sender wanted none.
    fn test(&self, socket: Socket, numbered: Numbered) -> anyhow::Result<Option<(TestPlan, Side)>> {
        let local = socket.local_addr().ok().and_then(|address| address.as_socket());
        let carrier = carrier_of(&socket);
        let mut control = Connection::over(socket, Coalescing::NONE, numbered)?;
        let Some(begin) = hear(&mut control)? else { return Ok(None) };
        let FromSender::Begin(plan) = begin else { bail!("the sender did not begin with a plan") };
        let mut data = match plan.check().and_then(|()| self.await_bytes(&plan, carrier, local)) {
            Ok(data) => data,
            Err(error) => {
                tell(&control, &FromReceiver::Refused(format!("{error:#}")))?;
                return Err(error.context("a test was refused"));
            }
        };
        tell(&control, &FromReceiver::Ready { cookie: data.cookie, place: data.place.take() })?;
        let socket = data.arrive(&plan)?;
        let buffer_bytes = report::buffer_bytes(&socket);
        let (before, watch) = (NetCounters::read(), Watch::default());
        let closer = socket.try_clone().context("a second handle of the socket")?;
        let (moved, sent) = std::thread::scope(|scope| {
            let mover = scope.spawn(|| byte_transfer::receive(socket, &plan, &watch));
            let sent = hear(&mut control);
            match &sent {
                Ok(Some(FromSender::Sent { messages, .. })) => watch.expected.store(*messages, Ordering::Relaxed),
                // It has gone: nothing more comes.
                _ => drop(closer.shutdown(std::net::Shutdown::Both)),
            }
            if plan.carrier == Carrier::Udp || !matches!(sent, Ok(Some(_))) {
                watch.over.store(true, Ordering::Relaxed);
            }
            (mover.join(), sent)
        });
        let came = || watch.bytes.load(Ordering::Relaxed);
        let Ok(Some(FromSender::Sent { bytes, .. })) = sent else {
            bail!("the sender stopped in the middle, after {} bytes", came())
        };
        let moved = moved.map_err(|_| anyhow!("the thread that received panicked"))?;
        let moved = moved.with_context(|| format!("after {} bytes", came()))?;
        if moved.bytes != bytes && plan.carrier != Carrier::Udp {
            bail!("{} of {bytes} bytes came", moved.bytes);
        }
        let side = report::side(&moved, buffer_bytes, &before, &NetCounters::read());
        tell(&control, &FromReceiver::Received(side.clone()))?;
        Ok(Some((plan, side)))
    }

    /// Prepares for the bytes of `plan`: on the listener they were announced at, else at a place of their own.
    fn await_bytes(
        &self,
        plan: &TestPlan,
        announced: Carrier,
        local: Option<std::net::SocketAddr>,
    ) -> anyhow::Result<Awaited<'_>> {
        let cookie = Numbered::new()?.session;
        let (sockets, arriving) = sync_channel(1);
        let awaited = |own, place| Awaited { receiving: self, cookie, own, place };
        if plan.carrier == Carrier::Udp {
            let local = local.context("UDP is tested with --to HOST:PORT, where the datagrams go as well")?;
            // The same port where it is free: firewalls are open for this one.
            let socket = UdpSocket::bind(local).or_else(|_| UdpSocket::bind((local.ip(), 0))).context("a UDP port")?;
            let place = socket.local_addr()?.to_string();
            return Ok(awaited(AnnouncedBytes::Datagrams(socket), Some(place)));
        }
        if plan.carrier == announced {
            self.awaited.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, sockets);
            return Ok(awaited(AnnouncedBytes::Shared(arriving), None));
        }
        let place = match plan.carrier {
            Carrier::Unix => {
                format!("unix:{}", std::env::temp_dir().join(format!("isocast-net-{cookie:016x}.sock")).display())
            }
            Carrier::Tipc => format!("tipc:{TIPC_SERVICE}:{}", cookie & u64::from(u32::MAX)),
            Carrier::Tcp | Carrier::Udp => bail!("TCP is tested with --to HOST:PORT, which says where"),
        };
        let listener = bind(super::place(&place)?, plan.window)?;
        Ok(awaited(AnnouncedBytes::Listener(listener), Some(place)))
    }
}

/// Bytes that were announced.
struct Awaited<'a> {
    receiving: &'a Receiving,
    cookie: u64,
    own: AnnouncedBytes,
    place: Option<String>,
}

/// Place at which announced bytes will come.
enum AnnouncedBytes {
    /// On a listener of the server, which sorts them out.
    Shared(Receiver<Socket>),
    Listener(Listener),
    Datagrams(UdpSocket),
}

impl Awaited<'_> {
    /// The socket on which they come. Nothing is listened at any more once they do.
    fn arrive(self, plan: &TestPlan) -> anyhow::Result<Socket> {
        let late = || anyhow!("the sender announced bytes and did not connect within {} s", DATA_WITHIN.as_secs());
        let socket = match &self.own {
            AnnouncedBytes::Shared(arriving) => arriving.recv_timeout(DATA_WITHIN).map_err(|_| late())?,
            AnnouncedBytes::Listener(listener) => {
                let socket = listener.accept_within(DATA_WITHIN)?.ok_or_else(late)?;
                let numbered = net::greeting::answer(&socket, self.receiving.token.as_ref())?;
                if numbered.session != self.cookie {
                    bail!("another program connected where the bytes were awaited");
                }
                socket
            }
            AnnouncedBytes::Datagrams(udp) => self.first_datagram(udp).map_err(|_| late())?,
        };
        net::transport::set_window(&socket, plan.window)?;
        Ok(socket)
    }

    /// Waits for the datagram that holds the cookie, answers it, and receives from no other address from then on.
    fn first_datagram(&self, udp: &UdpSocket) -> std::io::Result<Socket> {
        let cookie = self.cookie.to_le_bytes();
        let end = std::time::Instant::now() + DATA_WITHIN;
        let mut buffer = [0; 9];
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            udp.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let (read, from) = udp.recv_from(&mut buffer)?;
            if buffer[..read] == cookie {
                udp.connect(from)?;
                udp.send(&cookie)?;
                return Ok(Socket::from(udp.try_clone()?));
            }
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.receiving.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.cookie);
    }
}

fn carrier_of(socket: &Socket) -> Carrier {
    match socket.local_addr() {
        Ok(address) if address.as_socket().is_some() => Carrier::Tcp,
        Ok(address) if address.is_unix() => Carrier::Unix,
        _ => Carrier::Tipc,
    }
}
