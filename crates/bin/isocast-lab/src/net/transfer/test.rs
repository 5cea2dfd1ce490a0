//! `isocast net test`: the sending side of a test.

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use net::{Coalescing, ConnectError, Connection, Numbered, SharedSecret, Transport};
use socket2::Socket;
use units::ByteCount;

use super::byte_transfer::{self, SenderPace, Watch};
use super::counters::NetCounters;
use super::report::{self, NetReport};
use super::serve::{self, Receiving};
use super::wire::{Carrier, FromReceiver, FromSender, Side, TestPlan, TrafficPattern, hear, tell};
use super::{TokenArgs, advice, bytes, place, span};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);
/// Greetings of the receiver by datagram at most, and the pause between them.
const UDP_GREETINGS: u32 = 20;
const UDP_PAUSE: Duration = Duration::from_millis(100);
const DURATION: Duration = Duration::from_secs(10);
/// Time after its end at which a test is given up: on a slow network, full buffers take long to empty.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes of one write, as in iperf3.
const WRITE_BYTES: usize = 128 << 10;
/// Bytes that fit into a frame of any Ethernet, headers and a tunnel's included.
const DATAGRAM_BYTES: usize = 1400;

/// Send from memory to the memory of `isocast net serve`, and print the cost on both sides.
#[derive(Debug, Args)]
pub(in crate::net) struct TestCommand {
    /// Address of the receiver: HOST:PORT, unix:PATH or tipc:TYPE:INSTANCE.
    #[arg(long, value_name = "ADDR", value_parser = place, required_unless_present = "both")]
    to: Option<Arc<dyn Transport>>,
    /// Be the receiver as well: measures this machine.
    #[arg(long = "self", conflicts_with_all = ["to", "token_file"])]
    both: bool,
    /// Carrier of the bytes; as ADDR says if not given, else TCP.
    #[arg(long, value_enum)]
    transport: Option<Carrier>,
    /// Bytes of a message: each is one write, or one datagram; 128 KiB if not given, of UDP 1400 B.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    size: Option<usize>,
    /// Number of messages to send.
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Time to send; 10 s if neither is given.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    duration: Option<Duration>,
    /// Put small messages together: none waits longer than this for others.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    coalesce: Option<Duration>,
    /// Wait for each message to come back before sending the next, and measure how long that takes.
    #[arg(long)]
    round_trip: bool,
    /// Send one message each such span: 256KiB every 80ms are 26 Mbit/s.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    every: Option<Duration>,
    /// Both sides' socket buffers (the kernel's own if not given): the TCP window.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    window: Option<usize>,
    /// Without Nagle's algorithm: each write leaves at once.
    #[arg(long)]
    no_delay: bool,
    /// Give up after this time from the start; the duration and 5 min if not given.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    limit: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    token: TokenArgs,
}

impl TestCommand {
    pub(in crate::net) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let json = self.json;
        let token = self.token.read()?;
        let to = match &self.to {
            Some(to) => Arc::clone(to),
            None => receive_here()?,
        };
        let plan = self.plan(&*to)?;
        let report = self.measure_within_limit(to, token, plan)?;
        let text = if json { serde_json::to_string(&report)? } else { report.text().trim_end().to_owned() };
        Ok(writeln!(out, "{text}")?)
    }

    fn plan(&self, to: &dyn Transport) -> anyhow::Result<TestPlan> {
        let carrier = self.transport.unwrap_or(match to.name() {
            "unix" => Carrier::Unix,
            "tipc" => Carrier::Tipc,
            _ => Carrier::Tcp,
        });
        let plan = TestPlan {
            carrier,
            pattern: if self.round_trip { TrafficPattern::RoundTrip } else { TrafficPattern::Stream },
            size: self.size.unwrap_or(if carrier == Carrier::Udp { DATAGRAM_BYTES } else { WRITE_BYTES }),
            coalesce: self.coalesce,
            window: self.window,
            no_delay: self.no_delay,
        };
        plan.check().map_err(crate::wrong_usage)?;
        Ok(plan)
    }

    /// Measures in a thread of its own, watched from here: duration, time limit, progress.
    fn measure_within_limit(
        self,
        to: Arc<dyn Transport>,
        token: Option<SharedSecret>,
        plan: TestPlan,
    ) -> anyhow::Result<NetReport> {
        let duration = self.duration.or_else(|| self.count.is_none().then_some(DURATION));
        let limit = self.limit.unwrap_or(duration.unwrap_or_default() + PATIENCE);
        let mut terminal = Some(std::io::stderr()).filter(|e| e.is_terminal() && !self.json);
        let watch = Arc::new(Watch::default());
        let (begins, begun) = channel();
        let began = Instant::now();
        let measuring = std::thread::spawn({
            let watch = Arc::clone(&watch);
            move || self.measure(&to, token.as_ref(), &plan, &watch, &begins)
        });
        let sent = || ByteCount(watch.bytes.load(Ordering::Relaxed));
        let mut over_at = None;
        let ended = loop {
            let gone = began.elapsed();
            if gone >= limit {
                // Its pending call, for a connection, a greeting or room, ends with this program.
                break Err(anyhow!("the time limit of {limit:?} is over (--limit), after {}", watch.count()));
            }
            if over_at.is_some_and(|over_at| gone >= over_at) {
                watch.over.store(true, Ordering::Relaxed);
                over_at = None;
            }
            let next = (limit - gone).min(over_at.map_or(SECOND, |over_at| over_at - gone)).min(SECOND);
            match begun.recv_timeout(next) {
                Ok(()) => over_at = duration.map(|duration| began.elapsed() + duration),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    break measuring.join().unwrap_or_else(|_| Err(anyhow!("the thread that sent panicked")));
                }
            }
            if let Some(terminal) = &mut terminal {
                let _ = write!(terminal, "\r{:4.0} s  {:>12} ", began.elapsed().as_secs_f64(), sent().to_string());
            }
        };
        if let Some(terminal) = &mut terminal {
            let _ = write!(terminal, "\r{:24}\r", "");
        }
        ended
    }

    /// Tells `begins` when the first byte is sent.
    fn measure(
        &self,
        to: &Arc<dyn Transport>,
        token: Option<&SharedSecret>,
        plan: &TestPlan,
        watch: &Watch,
        begins: &Sender<()>,
    ) -> anyhow::Result<NetReport> {
        let mut control = Connection::open(&**to, token, Coalescing::NONE, CONNECT_WITHIN, Numbered::new()?)
            .map_err(|error| advice::advised(to.name(), error))?;
        tell(&control, &FromSender::Begin(plan.clone()))?;
        let (cookie, place) = match hear(&mut control)? {
            Some(FromReceiver::Ready { cookie, place }) => (cookie, place),
            Some(FromReceiver::Refused(why)) => bail!("the receiver refuses: {why}"),
            _ => bail!("the receiver ended instead of beginning: see its output"),
        };
        let socket = connect(plan, &**to, place.as_deref(), token, cookie)?;
        let buffer_bytes = report::buffer_bytes(&socket);
        let before = NetCounters::read();
        // The watching thread may have given up.
        let _ = begins.send(());
        let pace = SenderPace { count: self.count.unwrap_or(u64::MAX), every: self.every };
        let moved =
            byte_transfer::send(socket, plan, pace, watch).with_context(|| format!("after {}", watch.count()))?;
        tell(&control, &FromSender::Sent { messages: moved.messages, bytes: moved.bytes })?;
        let Some(FromReceiver::Received(received)) = hear(&mut control)? else {
            bail!("the receiver ended before it reported its bytes: see its output")
        };
        let sent = report::side(&moved, buffer_bytes, &before, &NetCounters::read());
        check_received(plan, &sent, &received)?;
        Ok(NetReport::new(to.to_string(), plan, self.every, &moved, [sent, received]))
    }
}

/// A receiver in this very process, on loopback.
fn receive_here() -> anyhow::Result<Arc<dyn Transport>> {
    let listener = Arc::new(serve::bind(place("127.0.0.1:0")?, None)?);
    let address = listener.tcp_address().context("a TCP listener has an address")?;
    let (receiving, ended) = Receiving::new(None);
    receiving.start(listener)?;
    // The receiver sends its result to the sender.
    std::thread::spawn(move || while ended.recv().is_ok() {});
    Ok(place(&address.to_string())?)
}

/// The socket that carries the bytes.
fn connect(
    plan: &TestPlan,
    to: &dyn Transport,
    other: Option<&str>,
    token: Option<&SharedSecret>,
    cookie: u64,
) -> anyhow::Result<Socket> {
    if plan.carrier == Carrier::Udp {
        let address: SocketAddr = other.unwrap_or_default().parse().context("where the datagrams go")?;
        return connect_udp(address, plan.window, cookie);
    }
    let other = other.map(place).transpose()?;
    let to = other.as_deref().unwrap_or(to);
    let opened = (|| {
        let unreachable = |error| ConnectError::Unreachable(to.to_string(), error);
        let socket = to.connect(CONNECT_WITHIN, plan.window).map_err(unreachable)?;
        net::greeting::call(&socket, token, Numbered { session: cookie, first: 0 })
            .map_err(|error| ConnectError::Greeting(to.to_string(), error))?;
        // Coalesced messages leave in whole batches already.
        to.set_no_delay(&socket, plan.no_delay || plan.coalesce.is_some()).map_err(unreachable)?;
        Ok(socket)
    })();
    opened.map_err(|error| advice::advised(to.name(), error))
}

/// Connects to the address that answers the cookie.
fn connect_udp(address: SocketAddr, window: Option<usize>, cookie: u64) -> anyhow::Result<Socket> {
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let udp = UdpSocket::bind(any)?;
    udp.connect(address)?;
    udp.set_read_timeout(Some(UDP_PAUSE))?;
    let cookie = cookie.to_le_bytes();
    let mut answer = [0; 8];
    for _ in 0..UDP_GREETINGS {
        udp.send(&cookie).context("the first datagram")?;
        if udp.recv(&mut answer).is_ok_and(|read| answer[..read] == cookie) {
            let socket = Socket::from(udp);
            net::transport::set_window(&socket, window)?;
            return Ok(socket);
        }
    }
    bail!("no datagram comes through to {address}: a firewall lets TCP through, but not UDP")
}

/// Checks that all bytes sent have come, but for datagrams.
fn check_received(plan: &TestPlan, sent: &Side, received: &Side) -> anyhow::Result<()> {
    if plan.carrier != Carrier::Udp && sent.bytes != received.bytes {
        bail!("{} bytes were sent, {} came", sent.bytes, received.bytes);
    }
    Ok(())
}
