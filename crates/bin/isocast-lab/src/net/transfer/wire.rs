//! Messages of sender and receiver of a test on their control connection, in JSON.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use net::{Connection, Urgency};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::counters::{Interface, TroubleCounter};

/// The largest datagram of UDP over IPv4, bytes.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Carrier of a test's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Carrier {
    Tcp,
    Udp,
    Unix,
    Tipc,
}

/// Order of a test's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TrafficPattern {
    /// One way, one message after the other.
    Stream,
    /// Each message comes back before the next is sent.
    RoundTrip,
}

/// A test, as both sides must know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TestPlan {
    pub(super) carrier: Carrier,
    pub(super) pattern: TrafficPattern,
    /// Bytes of a message: of a buffer that is written at once.
    pub(super) size: usize,
    /// Time that framed messages may wait for others; `None`: each is written by itself, unframed.
    pub(super) coalesce: Option<Duration>,
    /// Both socket buffers, bytes.
    pub(super) window: Option<usize>,
    /// Nagle's algorithm is off.
    pub(super) no_delay: bool,
}

impl TestPlan {
    /// Bytes of a message.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(u64::MAX)
    }

    /// # Errors
    /// The plan cannot be carried out; the text names the remedy.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let most = if self.carrier == Carrier::Udp { DATAGRAM_BYTES_MAX } else { net::frame::MESSAGE_BYTES_MAX };
        if self.size == 0 || self.size > most {
            bail!("a message of {} bytes cannot be sent; over this transport it has 1 to {most} (--size)", self.size);
        }
        if self.coalesce.is_some() && (self.carrier == Carrier::Udp || self.pattern == TrafficPattern::RoundTrip) {
            bail!("--coalesce puts messages of one stream together: leave it out with UDP and --round-trip");
        }
        if self.carrier == Carrier::Udp && self.pattern == TrafficPattern::RoundTrip {
            bail!("a datagram that is lost never comes back: use --round-trip over tcp, unix or tipc");
        }
        Ok(())
    }
}

/// Messages of the side that sends the bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSender {
    Begin(TestPlan),
    Sent { messages: u64, bytes: u64 },
}

/// Messages of the side that receives them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromReceiver {
    /// The bytes are awaited on a connection of session `cookie`, at that place if it is another one.
    Ready {
        cookie: u64,
        place: Option<String>,
    },
    Refused(String),
    Received(Side),
}

/// Bytes that one side moved, and their cost there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Side {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    /// From the first byte to the last.
    pub(super) seconds: f64,
    /// Processor time of the threads that moved the bytes.
    pub(super) cpu_seconds: f64,
    /// Processor time of the whole machine, the kernel's interrupts included; in steps of 10 ms.
    pub(super) machine_cpu_seconds: f64,
    pub(super) bits_per_second: f64,
    /// Both buffers of the socket as the kernel made them: send, receive.
    pub(super) buffer_bytes: [u64; 2],
    /// The interface that carried most.
    pub(super) interface: Option<Interface>,
    /// Counters of packets lost, damaged or sent anew until the test and after it, on the whole machine.
    pub(super) troubles: Vec<TroubleCounter>,
}

/// Sends one of them at once.
///
/// # Errors
/// The connection is broken.
pub(super) fn tell(connection: &Connection, what: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_vec(what)?;
    connection.sender.send(&text, Urgency::Now).context("the control connection")
}

/// Waits for one of them; `None` at the end.
///
/// # Errors
/// The connection is broken, or carries something else.
pub(super) fn hear<T: DeserializeOwned>(connection: &mut Connection) -> anyhow::Result<Option<T>> {
    let Some(text) = connection.receiver.receive().context("the control connection")? else { return Ok(None) };
    serde_json::from_slice(text)
        .map(Some)
        .context("the other side says something else: install the same release on both")
}
