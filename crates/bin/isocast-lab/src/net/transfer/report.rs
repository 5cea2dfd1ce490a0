//! Output of `isocast net`: as readable text, and as JSON in base units.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use socket2::Socket;
use units::{BitRate, ByteCount, Nanos};

use super::byte_transfer::SideMoved;
use super::counters::NetCounters;
use super::wire::{Carrier, Side, TestPlan, TrafficPattern};

/// The shape of the JSON.
const FORMAT: &str = "isocast-net-1";

/// One test, as both sides saw it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct NetReport {
    format: &'static str,
    version: &'static str,
    pub(super) to: String,
    pub(super) transport: Carrier,
    pub(super) pattern: TrafficPattern,
    pub(super) size: u64,
    pub(super) every_seconds: Option<f64>,
    pub(super) coalesce_seconds: Option<f64>,
    pub(super) window_bytes: Option<u64>,
    pub(super) no_delay: bool,
    pub(super) sender: Side,
    pub(super) receiver: Side,
    /// Datagrams that were sent and did not come.
    pub(super) lost: Option<u64>,
    pub(super) round_trip: Option<SpanQuantiles>,
    pub(super) coalesced: Option<Coalesced>,
}

/// Spans, microseconds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SpanQuantiles {
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// Figures of coalescing.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Coalesced {
    sends: u64,
    /// Waits of the first message of each send.
    waited: SpanQuantiles,
}

impl NetReport {
    pub(super) fn new(
        to: String,
        plan: &TestPlan,
        every: Option<Duration>,
        moved: &SideMoved,
        sides: [Side; 2],
    ) -> Self {
        let [sender, receiver] = sides;
        let coalesced = moved.coalesced.as_ref();
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            to,
            transport: plan.carrier,
            pattern: plan.pattern,
            size: plan.bytes(),
            every_seconds: every.map(|span| span.as_secs_f64()),
            coalesce_seconds: plan.coalesce.map(|span| span.as_secs_f64()),
            window_bytes: plan.window.and_then(|bytes| bytes.try_into().ok()),
            no_delay: plan.no_delay,
            lost: (plan.carrier == Carrier::Udp).then(|| sender.messages.saturating_sub(receiver.messages)),
            round_trip: moved.round_trips.as_ref().map(|times| quantiles(times, 1e3)),
            coalesced: coalesced.map(|s| Coalesced { sends: s.sends, waited: quantiles(&s.waited_us, 1.0) }),
            sender,
            receiver,
        }
    }

    /// The report as readable text.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}, {} × {} to {}\n",
            name(self.transport, self.no_delay),
            self.sender.messages,
            ByteCount(self.size),
            self.to
        );
        let sides = [("sent", &self.sender), ("received", &self.receiver)];
        let _ = writeln!(
            text,
            "{:9} {:>11} {:>12} {:>9} {:>9} {:>9} {:>16}",
            "", "messages", "bytes", "real s", "CPU s", "machine s", "rate"
        );
        for (what, side) in sides {
            let _ = writeln!(
                text,
                "{what:9} {:>11} {:>12} {:>9.3} {:>9.3} {:>9.2} {:>16}",
                side.messages,
                ByteCount(side.bytes).to_string(),
                side.seconds,
                side.cpu_seconds,
                side.machine_cpu_seconds,
                rate(side.bits_per_second).to_string()
            );
        }
        if let Some(lost) = self.lost {
            let _ = writeln!(text, "lost: {lost} of {} datagrams", self.sender.messages);
        }
        if let Some(times) = &self.round_trip {
            let _ = writeln!(text, "round trip: {}", times.text());
        }
        if let Some(coalesced) = &self.coalesced {
            let per_send = self.sender.messages / coalesced.sends.max(1);
            let waited = coalesced.waited.text();
            let _ = writeln!(text, "{per_send} messages per send; the first of each waited: {waited}");
        }
        for (what, side) in sides {
            if let Some(wire) = &side.interface {
                let _ = writeln!(
                    text,
                    "{what} over {}: {} packets out, {} in",
                    wire.name, wire.sent_packets, wire.received_packets
                );
            }
            for trouble in side.troubles.iter().filter(|trouble| trouble.count() > 0) {
                let _ = writeln!(text, "{what}: {} × {}: {}", trouble.count(), trouble.what, trouble.meaning);
            }
            // The kernel doubles the requested size, for its own accounts.
            if let Some(asked) = self.window_bytes.filter(|asked| side.buffer_bytes.iter().any(|&made| made < *asked)) {
                let [send, receive] = side.buffer_bytes.map(ByteCount);
                let _ = writeln!(
                    text,
                    "{what}: of a window of {} the kernel gave {send} to send and {receive} to receive: raise \
                     net.core.wmem_max and net.core.rmem_max",
                    ByteCount(asked)
                );
            }
        }
        text
    }
}

impl SpanQuantiles {
    fn text(&self) -> String {
        let [mean, p50, p99, max] =
            [self.mean_us, self.p50_us, self.p99_us, self.max_us].map(|us| Nanos::from_secs_f64(us / 1e6).to_string());
        format!("mean {mean}, median {p50}, p99 {p99}, longest {max}")
    }
}

/// `per_us`: the histogram's units in a microsecond.
#[allow(clippy::cast_precision_loss, reason = "for display")]
fn quantiles(times: &Histogram<u64>, per_us: f64) -> SpanQuantiles {
    let at = |quantile| times.value_at_quantile(quantile) as f64 / per_us;
    SpanQuantiles {
        mean_us: times.mean() / per_us,
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: times.max() as f64 / per_us,
    }
}

fn rate(bits_per_second: f64) -> BitRate {
    BitRate(Nanos::from_secs_f64(bits_per_second / 1e9).0)
}

fn name(carrier: Carrier, no_delay: bool) -> &'static str {
    match (carrier, no_delay) {
        (Carrier::Tcp, false) => "TCP",
        (Carrier::Tcp, true) => "TCP without Nagle",
        (Carrier::Udp, _) => "UDP",
        (Carrier::Unix, _) => "Unix socket",
        (Carrier::Tipc, false) => "TIPC",
        (Carrier::Tipc, true) => "TIPC without Nagle",
    }
}

/// Result of one side, with the machine's counters meanwhile.
#[allow(clippy::cast_precision_loss, reason = "for display")]
pub(super) fn side(moved: &SideMoved, buffer_bytes: [u64; 2], before: &NetCounters, after: &NetCounters) -> Side {
    let bits_per_second = if moved.seconds > 0.0 { moved.bytes as f64 * 8.0 / moved.seconds } else { 0.0 };
    Side {
        bytes: moved.bytes,
        messages: moved.messages,
        seconds: moved.seconds,
        cpu_seconds: moved.cpu_seconds,
        machine_cpu_seconds: after.machine_cpu_seconds(before),
        bits_per_second,
        buffer_bytes,
        interface: after.busiest(before),
        troubles: after.troubles(before),
    }
}

/// Both buffers of a socket as the kernel made them: send, receive.
pub(super) fn buffer_bytes(socket: &Socket) -> [u64; 2] {
    [socket.send_buffer_size(), socket.recv_buffer_size()]
        .map(|size| size.ok().and_then(|bytes| bytes.try_into().ok()).unwrap_or(0))
}

/// That a server listens.
pub(super) fn listening(at: &str, json: bool) -> anyhow::Result<String> {
    Ok(if json {
        serde_json::to_string(&serde_json::json!({ "listening": at }))?
    } else {
        format!("listening at {at}")
    })
}

/// Report of a server on a test received.
pub(super) fn received(plan: &TestPlan, side: &Side, json: bool) -> anyhow::Result<String> {
    if json {
        return Ok(serde_json::to_string(&serde_json::json!({
            "format": FORMAT, "transport": plan.carrier, "pattern": plan.pattern, "size": plan.size, "receiver": side,
        }))?);
    }
    Ok(format!(
        "{}: {} in {:.3} s, {}, {:.3} s of processor time",
        name(plan.carrier, plan.no_delay),
        ByteCount(side.bytes),
        side.seconds,
        rate(side.bits_per_second),
        side.cpu_seconds
    ))
}
