//! Interfaces, and the bytes that a connection may have under way.

use units::{counted, real};

use super::FindingList;
use super::host::Examined;

/// A send buffer for 25 Mbit/s, the highest rate of the papers: 0.3 s of it.
const SEND_BUFFER_WANTED: u64 = 937_500;
/// Bytes under way of a connection of 100 Mbit/s over 80 ms.
const WINDOW_WANTED: u64 = 1_000_000;
/// More packets than this share lost at the interface is no accident: one in ten thousand halves TCP at 10 ms.
const LOST_SHARE_MAX: f64 = 1e-4;

pub(super) fn examine(list: &mut FindingList, host: &Examined) {
    windows(list, host);
    backlog(list, host);
    for name in host.names("/sys/class/net") {
        let at = |file: &str| format!("/sys/class/net/{name}/{file}");
        let is_real = host.resolved(&at("device")).is_some();
        if !is_real || host.read(&at("operstate")).as_deref() == Some("down") {
            continue;
        }
        link(list, host, &name, &at);
        losses(list, host, &name, &at);
        offloads(list, host, &name);
        if !host.has("ethtool") {
            let reason = "`ethtool`, which shows rings and offloads, is not installed";
            list.not_looked_at(&name, reason, "apt-get install ethtool");
        }
    }
}

/// Packets that the kernel had taken from the rings and could not keep.
fn backlog(list: &mut FindingList, host: &Examined) {
    // A line for each processor: packets, drops, … (net/core/net-procfs.c), in hexadecimal.
    let Some(text) = host.read("/proc/net/softnet_stat") else { return };
    let column = |line: &str, at: usize| u64::from_str_radix(line.split_whitespace().nth(at)?, 16).ok();
    let sum = |at: usize| text.lines().filter_map(|line| column(line, at)).sum::<u64>();
    let (all, dropped) = (sum(0), sum(1));
    if share(dropped, all) > LOST_SHARE_MAX {
        list.serious(
            "drops",
            "net.core.netdev_max_backlog",
            format!("{dropped} of {all} packets dropped, as a processor had too many waiting"),
        )
        .why(format!("each is sent again after a round trip: {:.3} %", share(dropped, all) * 100.0))
        .mend("sysctl -w net.core.netdev_max_backlog=10000   (and into /etc/sysctl.d)");
    }
}

fn share(lost: u64, all: u64) -> f64 {
    real(lost) / real(all.max(1))
}

fn windows(list: &mut FindingList, host: &Examined) {
    let last = |path: &str| host.read(path)?.split_whitespace().last()?.parse::<u64>().ok();
    let send = host.number("/proc/sys/net/core/wmem_max").map(|bytes| bytes.saturating_mul(2));
    if let Some(bytes) = send.filter(|bytes| *bytes < SEND_BUFFER_WANTED) {
        list.advice("send-window", "net.core.wmem_max", format!("a socket may hold {bytes} bytes"))
            .why(format!(
                "0.3 s of a stream are to be under way, so that a late tick is not seen; this is 0.3 s of {:.1} Mbit/s",
                real(bytes) * 8.0 / 0.3 / 1e6
            ))
            .mend("sysctl -w net.core.wmem_max=4194304   (and into /etc/sysctl.d)");
    }
    let settings = [("send-window", "net.ipv4.tcp_wmem"), ("receive-window", "net.ipv4.tcp_rmem")];
    for (check, name) in settings {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        if let Some(bytes) = last(&path).filter(|bytes| *bytes < WINDOW_WANTED) {
            list.advice(check, name, format!("{bytes} bytes at most"))
                .why(format!(
                    "over 80 ms one connection carries {:.1} Mbit/s with that",
                    real(bytes) * 8.0 / 0.08 / 1e6
                ))
                .mend(format!("sysctl -w {name}='4096 131072 6291456'   (and into /etc/sysctl.d)"));
        }
    }
    if host.number("/proc/sys/net/ipv4/tcp_window_scaling") == Some(0) {
        list.serious("window-scaling", "net.ipv4.tcp_window_scaling", "switched off")
            .why("a connection has 64 KiB under way at most: 10.5 Mbit/s over 50 ms")
            .mend("sysctl -w net.ipv4.tcp_window_scaling=1");
    }
}

fn link(list: &mut FindingList, host: &Examined, name: &str, at: &dyn Fn(&str) -> String) {
    if host.read(&at("duplex")).as_deref() == Some("half") {
        list.serious("duplex", name, "the link is half duplex")
            .why("data and acknowledgements collide: a full-duplex peer loses packets, and throughput falls below a tenth")
            .mend(format!("ethtool -s {name} autoneg on   (on the switch, too)"));
    }
    if let Some(megabits) = host.number(&at("speed")).filter(|megabits| (1..1000).contains(megabits)) {
        list.advice("link-speed", name, format!("the link runs at {megabits} Mbit/s"))
            .why(format!("it carries {:.0} streams of 8.8 Mbit/s", (real(megabits) / 1.0622 / 8.8).floor()))
            .mend(format!("ethtool {name}   (a cable with all four pairs, a port of 1 Gbit/s)"));
    }
    if let Some(bytes) = host.number(&at("mtu")).filter(|bytes| *bytes < 1500) {
        list.advice("mtu", name, format!("packets have {bytes} bytes at most"))
            .why(format!("heads take {:.1} % of the link; at 1500 bytes 5.9 %", 90.0 / (real(bytes) + 38.0) * 100.0))
            .mend(format!("ip link set {name} mtu 1500   (a tunnel needs less: leave it there)"));
    }
}

/// Packets that the interface or the kernel dropped, and the rings they would have waited in.
fn losses(list: &mut FindingList, host: &Examined, name: &str, at: &dyn Fn(&str) -> String) {
    let count = |file: &str| host.number(&at(&format!("statistics/{file}"))).unwrap_or(0);
    let overruns = count("rx_missed_errors") + count("rx_fifo_errors") + count("rx_over_errors");
    let received = count("rx_packets");
    if share(overruns, received) > LOST_SHARE_MAX {
        let rings = host.prints("ethtool", &["-g", name]).and_then(|text| rings(&text));
        let (seen, mend) = match rings {
            Some((now, most)) if now < most => (
                format!("the receive ring has {now} of {most} places, and {overruns} of {received} packets found none"),
                format!("ethtool -G {name} rx {most}"),
            ),
            _ => (
                format!("{overruns} of {received} packets overrun"),
                format!(
                    "grep {name} /proc/interrupts; echo CPU > /proc/irq/NUMBER/smp_affinity_list   (a processor of its own)"
                ),
            ),
        };
        let why =
            format!("each lost packet is sent again after a round trip: {:.3} %", share(overruns, received) * 100.0);
        list.serious("overruns", name, seen).why(why).mend(mend);
    }
    let errors = count("rx_errors").saturating_sub(overruns) + count("tx_errors") + count("collisions");
    let all = received + count("tx_packets");
    if share(errors, all) > LOST_SHARE_MAX {
        list.serious("interface-errors", name, format!("{errors} of {all} packets with errors or collisions"))
            .why("one in ten thousand holds a connection over 10 ms to about 140 Mbit/s (Mathis)")
            .mend(format!("ethtool -S {name}   (mostly the cable, a port, or duplex set on one side only)"));
    }
    let dropped = count("tx_dropped");
    if share(dropped, count("tx_packets")) > LOST_SHARE_MAX {
        list.advice("drops", name, format!("{} dropped unsent", counted(dropped, "packet")))
            .why("the queue of the interface was full: a burst, or a link slower than the streams")
            .mend(format!("ip link set {name} txqueuelen 1000; tc qdisc replace dev {name} root fq"));
    }
}

/// Places of the receive ring now and at most, as `ethtool -g` prints them.
fn rings(text: &str) -> Option<(u64, u64)> {
    let places: Vec<u64> =
        text.lines().filter_map(|line| line.trim().strip_prefix("RX:")?.trim().parse().ok()).collect();
    Some((*places.get(1)?, *places.first()?))
}

fn offloads(list: &mut FindingList, host: &Examined, name: &str) {
    let Some(text) = host.prints("ethtool", &["-k", name]) else { return };
    let is_off = |what: &str| text.lines().any(|line| line.trim() == format!("{what}: off"));
    let off: Vec<&str> = ["scatter-gather", "tcp-segmentation-offload", "generic-segmentation-offload"]
        .into_iter()
        .filter(|what| is_off(what))
        .collect();
    // Where the hardware cannot cut segments, the kernel does so late, which is nearly as good.
    if off.is_empty() || off == ["tcp-segmentation-offload"] {
        return;
    }
    list.advice("offloads", name, format!("{} off", off.join(", ")))
        .why("each packet of 1448 bytes passes the whole network stack by itself, instead of 44 at a time")
        .mend(format!("ethtool -K {name} sg on tso on gso on"));
}
