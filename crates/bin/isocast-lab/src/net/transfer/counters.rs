//! Counters of the kernel's interfaces and protocols, before and after a test, and their meaning.
//!
//! Promise: only differences of the kernel's own counters of this network namespace; events it does not count are left out.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::bench::CountedNames;

/// Columns of `/proc/net/dev` after the interface's name.
const COLUMNS: [&str; 16] = [
    "received bytes",
    "received packets",
    "receive errors",
    "receive drops",
    "receive overruns",
    "frame errors",
    "compressed",
    "multicast",
    "sent bytes",
    "sent packets",
    "send errors",
    "send drops",
    "send overruns",
    "collisions",
    "carrier errors",
    "compressed sent",
];

/// Counters of trouble, and their meanings.
const MEANINGS: [(&str, &str); 19] = [
    ("receive errors", "damaged frames arrived: look at cable, connector and duplex"),
    (
        "receive drops",
        "the kernel had no room or no taker for frames: raise net.core.netdev_max_backlog, give the receiver processor time",
    ),
    (
        "receive overruns",
        "the card overflowed before the kernel took its frames: larger rings (ethtool -G DEV rx N), or a smaller --window",
    ),
    ("frame errors", "frames of a wrong length: the two ends differ in duplex or MTU"),
    ("send errors", "the card could not send: look at cable and driver (dmesg)"),
    ("send drops", "the queue before the card was full: slower, or a longer one (ip link set DEV txqueuelen N)"),
    ("send overruns", "the card ran out of data while sending: its bus is too slow or saves power"),
    ("collisions", "half duplex: set both ends to negotiate (ethtool -s DEV autoneg on)"),
    ("carrier errors", "the link went away: look at the cable, and duplex at both ends"),
    ("Tcp RetransSegs", "TCP sent these anew: lost or late on the way; together with overruns try a smaller --window"),
    ("TcpExt TCPTimeouts", "nothing came back in time: heavy loss, or the other side was away"),
    (
        "TcpExt TCPBacklogDrop",
        "segments were dropped as the receiving program held its socket for too long: a larger --window",
    ),
    (
        "TcpExt TCPRcvQDrop",
        "segments were dropped as the receiver's buffer was full: a larger --window, or a faster receiver",
    ),
    ("TcpExt RcvPruned", "segments were dropped for want of memory: a smaller --window, or more of net.ipv4.tcp_mem"),
    ("TcpExt ListenDrops", "connections were refused while too many waited to be accepted"),
    ("Udp InErrors", "datagrams arrived and were thrown away: of no use, or no room (see RcvbufErrors)"),
    (
        "Udp RcvbufErrors",
        "the receiving program was too slow for its buffer: a larger --window and net.core.rmem_max, or a slower sender (--every)",
    ),
    ("Udp SndbufErrors", "the sender's buffer was full: a larger --window, or slower (--every)"),
    ("Udp NoPorts", "datagrams came for a port where no program listens any more"),
];

/// Traffic of one interface during a test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_packets: u64,
    pub(super) received_bytes: u64,
}

/// The kernel's counter of one kind of trouble before a test and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TroubleCounter {
    /// The interface or protocol, and the counter.
    pub(super) what: String,
    pub(super) before: u64,
    pub(super) after: u64,
    /// Meaning of an increase.
    pub(super) meaning: String,
}

impl TroubleCounter {
    /// Increase during the test.
    pub(super) fn count(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// All counters at one moment: by owner (`eth0`, `Tcp`) and name.
#[derive(Debug, Clone, Default)]
pub(super) struct NetCounters {
    interfaces: BTreeMap<String, BTreeMap<&'static str, u64>>,
    protocols: BTreeMap<String, u64>,
    machine: Nanos,
}

impl NetCounters {
    /// Reads the current counters.
    pub(super) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut protocols = protocols(&text("/proc/net/snmp"));
        protocols.extend(self::protocols(&text("/proc/net/netstat")));
        Self {
            interfaces: interfaces(&text("/proc/net/dev")),
            protocols,
            machine: Nanos(CountedNames::default().read().machine_cpu_ns),
        }
    }

    /// Processor time of the machine since `before`, seconds.
    pub(super) fn machine_cpu_seconds(&self, before: &Self) -> f64 {
        self.machine.saturating_sub(before.machine).as_secs_f64()
    }

    /// The interface that carried most since `before`.
    pub(super) fn busiest(&self, before: &Self) -> Option<Interface> {
        let carried = self.interfaces.iter().map(|(name, now)| {
            let since = |counter| difference(now, before.interfaces.get(name), counter);
            Interface {
                name: name.clone(),
                sent_packets: since("sent packets"),
                sent_bytes: since("sent bytes"),
                received_packets: since("received packets"),
                received_bytes: since("received bytes"),
            }
        });
        carried.max_by_key(|i| i.sent_bytes + i.received_bytes).filter(|i| i.sent_packets + i.received_packets > 0)
    }

    /// Troubles of the interface that carried most and of the protocols; of other interfaces, the troubles since `before`.
    pub(super) fn troubles(&self, before: &Self) -> Vec<TroubleCounter> {
        let busiest = self.busiest(before).map(|interface| interface.name);
        let mut troubles = Vec::new();
        for (counter, meaning) in MEANINGS {
            let mut add = |what: String, before: u64, after: u64| {
                troubles.push(TroubleCounter { what, before, after, meaning: meaning.to_owned() });
            };
            for (name, now) in &self.interfaces {
                let value = |counters: Option<&BTreeMap<_, u64>>| counters.and_then(|c| c.get(counter)).copied();
                let Some(after) = value(Some(now)) else { continue };
                let before = value(before.interfaces.get(name)).unwrap_or(0);
                if busiest.as_ref() == Some(name) || after > before {
                    add(format!("{name} {counter}"), before, after);
                }
            }
            if let Some(&after) = self.protocols.get(counter) {
                add(counter.to_owned(), before.protocols.get(counter).copied().unwrap_or(0), after);
            }
        }
        troubles
    }
}

fn difference(now: &BTreeMap<&'static str, u64>, before: Option<&BTreeMap<&'static str, u64>>, counter: &str) -> u64 {
    let value = |counters: &BTreeMap<&'static str, u64>| counters.get(counter).copied().unwrap_or(0);
    value(now).saturating_sub(before.map_or(0, value))
}

fn interfaces(dev: &str) -> BTreeMap<String, BTreeMap<&'static str, u64>> {
    let lines = dev.lines().skip(2).filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, figures)| {
            let figures = figures.split_ascii_whitespace().map_while(|figure| figure.parse().ok());
            (name.trim().to_owned(), COLUMNS.into_iter().zip(figures).collect())
        })
        .collect()
}

/// Two lines each: `Tcp: name name`, `Tcp: 1 2`.
fn protocols(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).filter_map(|pair| Some((pair[0].split_once(':')?, pair[1].split_once(':')?)));
    pairs
        .filter(|((name, _), (same, _))| name == same)
        .flat_map(|((owner, names), (_, figures))| {
            let named = names.split_ascii_whitespace().zip(figures.split_ascii_whitespace());
            named.filter_map(move |(name, figure)| Some((format!("{owner} {name}"), figure.parse().ok()?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Inter-|   Receive\n face |bytes\n";

    fn counters(dev: &str, snmp: &str) -> NetCounters {
        NetCounters {
            interfaces: interfaces(&format!("{HEAD}{dev}")),
            protocols: protocols(snmp),
            machine: Nanos::ZERO,
        }
    }

    #[test]
    fn the_interface_that_carried_most_is_found() {
        let before = counters("  lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\neth0:100 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n", "");
        let after = counters("  lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\neth0:1100 11 0 0 0 0 0 0 80 4 0 0 0 0 0 0\n", "");
        let wire = Interface {
            name: "eth0".to_owned(),
            sent_packets: 3,
            sent_bytes: 30,
            received_packets: 10,
            received_bytes: 1000,
        };
        assert_eq!(after.busiest(&before), Some(wire));
        assert_eq!(after.busiest(&after), None);
    }

    #[test]
    fn every_trouble_comes_with_its_meaning() {
        let before = counters("eth0: 0 0 1 2 3 0 0 0 0 0 0 0 0 0 0 0\n", "Tcp: InSegs RetransSegs\nTcp: 5 7\n");
        let after = counters("eth0: 0 0 1 2 8 0 0 0 0 0 0 0 0 0 0 0\n", "Tcp: InSegs RetransSegs\nTcp: 500 9\n");
        let told = after.troubles(&before);
        let grown: Vec<_> = told.iter().filter(|t| t.count() > 0).map(|t| (t.what.as_str(), t.count())).collect();
        assert_eq!(grown, [("eth0 receive overruns", 5), ("Tcp RetransSegs", 2)]);
        assert!(told.iter().all(|t| !t.what.contains("overruns") || t.meaning.contains("ethtool -G")), "{told:?}");
    }

    #[test]
    fn the_busiest_interface_reports_zero_counters_too() {
        let before = counters("eth0: 0 0 0 2 0 0 0 0 0 0 0 0 0 0 0 0\neth1: 0 0 0 9 0 0 0 0 0 0 0 0 0 0 0 0\n", "");
        let after = counters("eth0: 9 9 0 2 0 0 0 0 0 0 0 0 0 0 0 0\neth1: 0 0 0 9 0 0 0 0 0 0 0 0 0 0 0 0\n", "");
        let told = after.troubles(&before);
        let drops = told.iter().find(|t| t.what == "eth0 receive drops").expect("it is the one that carried");
        assert_eq!((drops.before, drops.after, drops.count()), (2, 2, 0));
        assert!(told.iter().all(|t| t.what.starts_with("eth0 ")), "{told:?}");
    }

    #[test]
    fn this_machine_counts() {
        let now = NetCounters::read();
        assert!(now.interfaces.contains_key("lo"), "{:?}", now.interfaces.keys());
        assert!(now.protocols.contains_key("Tcp RetransSegs") && now.protocols.contains_key("TcpExt TCPTimeouts"));
        assert!(now.machine > Nanos::ZERO);
    }
}
