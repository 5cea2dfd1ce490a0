//! Permissions and limits of the server's process: the running one, else this program.

use units::counted;

use super::host::Examined;
use super::{Finding, advice, not_looked_at, serious};

/// Bits of `CapEff` (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;
/// Memory that is to be lockable: buffers for some hundred streams.
const LOCKED_WANTED: u64 = 1 << 30;
/// This program's own process, where no server runs.
const OWN_PROCESS: &str = "/proc/self";
/// Effect of the engine of ordinary system calls (decision 0019).
pub(super) const WITHOUT_IO_URING: &str =
    "each send and read is then a system call of its own, and an upload has one write under way instead of two";
/// Open files for some hundred streams and their contents.
const FILES_WANTED: u64 = 4096;

/// Looks at the process that listens on `port` of this machine, if one is given, else at the first server.
pub(super) fn examine(host: &Examined, port: Option<u16>) -> Vec<Finding> {
    let is_number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let processes: Vec<String> = host.names("/proc").into_iter().filter(is_number).collect();
    let is_server = |pid: &&String| {
        host.read(&format!("/proc/{pid}/comm")).as_deref() == Some("isocast")
            && host.read(&format!("/proc/{pid}/cmdline")).is_some_and(|line| line.split('\0').nth(1) == Some("serve"))
    };
    let server = match port {
        Some(port) => listener(host, &processes, port).filter(is_server),
        None => processes.iter().find(is_server),
    };
    let mut found = match (server, port) {
        (Some(pid), _) => of_process(host, &format!("/proc/{pid}"), &format!("server {pid}")),
        (None, Some(port)) => {
            let what = format!("the server's process, which listens on port {port}, is not visible to this user");
            vec![not_looked_at("server", &what, "sudo isocast doctor   (for a server in a container, in that)")]
        }
        (None, None) => of_process(host, OWN_PROCESS, "this user"),
    };
    found.extend(machine(host));
    found
}

fn of_process(host: &Examined, process: &str, about: &str) -> Vec<Finding> {
    let mut found = permissions(host, process, about);
    found.extend(group_limits(host, process, about));
    found.extend(timers(host, process, about));
    found
}

/// The process that listens on a TCP port (proc(5), `/proc/net/tcp`); none if this user may not see it.
fn listener<'a>(host: &Examined, processes: &'a [String], port: u16) -> Option<&'a String> {
    let wanted = format!(":{port:04X}");
    let table = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| host.read(path).unwrap_or_default()).join("\n");
    let socket = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let listens = fields.get(1)?.ends_with(&wanted) && fields.get(3) == Some(&"0A");
        listens.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
    })?;
    processes.iter().find(|pid| {
        let folder = format!("/proc/{pid}/fd");
        host.names(&folder).iter().any(|file| host.link(&format!("{folder}/{file}")).as_deref() == Some(&socket))
    })
}

fn permissions(host: &Examined, process: &str, about: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let limits = host.read(&format!("{process}/limits")).unwrap_or_default();
    let soft = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let text = line.split_whitespace().next()?;
        Some(if text == "unlimited" { u64::MAX } else { text.parse().ok()? })
    };
    let status = host.read(&format!("{process}/status")).unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let may = |bit: u32| capabilities >> bit & 1 == 1;
    if soft("Max realtime priority") == Some(0) && !may(CAP_SYS_NICE) {
        found.push(serious(("real-time", about), [
            "no thread may have real-time priority".to_owned(),
            "the data plane waits behind every busy program for up to a scheduling period: some ms each time, and a tick is 50 ms".to_owned(),
            "systemctl edit isocast   ([Service] LimitRTPRIO=20); without systemd: setcap cap_sys_nice+ep /usr/local/bin/isocast".to_owned(),
        ]));
    }
    if let Some(bytes) = soft("Max locked memory").filter(|bytes| *bytes < LOCKED_WANTED && !may(CAP_IPC_LOCK)) {
        found.push(advice(
            ("locked-memory", about),
            [
                format!("{} may be locked", units::ByteCount(bytes)),
                "buffers that are not locked can be swapped out: bringing a page back takes a seek of 12 ms".to_owned(),
                "systemctl edit isocast   ([Service] LimitMEMLOCK=infinity); without systemd: ulimit -l unlimited   (as root)"
                    .to_owned(),
            ],
        ));
    }
    if let Some(files) = soft("Max open files").filter(|files| *files < FILES_WANTED) {
        found.push(advice(
            ("open-files", about),
            [
                format!("{} open at once, at most", counted(files, "file")),
                "each connection and each content that is read is one: more are refused".to_owned(),
                "systemctl edit isocast   ([Service] LimitNOFILE=65536); without systemd: ulimit -n 65536".to_owned(),
            ],
        ));
    }
    if let Some(mode) = host.number("/proc/sys/kernel/io_uring_disabled").filter(|mode| *mode > 0) {
        found.push(advice(
            ("io-uring", "kernel.io_uring_disabled"),
            [
                format!(
                    "it is {mode}: {}",
                    if mode == 1 { "only privileged programs may use io_uring" } else { "no program may use io_uring" }
                ),
                WITHOUT_IO_URING.to_owned(),
                "sysctl -w kernel.io_uring_disabled=0".to_owned(),
            ],
        ));
    }
    found
}

/// Limits of the control group and of all above it.
fn group_limits(host: &Examined, process: &str, about: &str) -> Vec<Finding> {
    let groups = host.read(&format!("{process}/cgroup")).unwrap_or_default();
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    let mut found = Vec::new();
    let mut path = group.trim_end_matches('/');
    loop {
        let at = |file: &str| host.read(&format!("/sys/fs/cgroup{path}/{file}"));
        let quota = at("cpu.max").and_then(|text| {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?))
        });
        if let Some((quota, period)) = quota.filter(|(quota, period)| quota < &(2 * period)) {
            found.push(serious(("cgroup", about), [
                format!("its control group {path} may use {quota} µs of processors in {period} µs"),
                format!("once it is used up the server stands still, {} ms at most; a tick is 50 ms", period.saturating_sub(quota / 2) / 1000),
                "systemctl edit isocast   ([Service] CPUQuota=); docker: run without --cpus; kubernetes: no `limits.cpu`, whole processors in `requests.cpu`".to_owned(),
            ]));
        }
        if let Some(bytes) = at("memory.high").and_then(|text| text.parse::<u64>().ok()) {
            found.push(advice(
                ("cgroup", about),
                [
                    format!("its control group {path} is slowed down beyond {} of memory", units::ByteCount(bytes)),
                    "every allocation then waits for memory to be given back, up to 2 s".to_owned(),
                    "systemctl edit isocast   ([Service] MemoryHigh=infinity, and MemoryMax= for a limit)".to_owned(),
                ],
            ));
        }
        if at("io.max").is_some_and(|text| !text.is_empty()) {
            found.push(serious(("cgroup", about), [
                format!("its control group {path} limits I/O"),
                "the limit holds reads back that the schedule has counted as begun: streams are late though the disk is idle".to_owned(),
                "systemctl edit isocast   ([Service] IOReadBandwidthMax=, IOWriteBandwidthMax=, IOReadIOPSMax=, IOWriteIOPSMax=, with nothing behind)".to_owned(),
            ]));
        }
        match path.rsplit_once('/') {
            Some((above, _)) => path = above,
            None => return found,
        }
    }
}

fn timers(host: &Examined, process: &str, about: &str) -> Option<Finding> {
    let nanos = host.number(&format!("{process}/timerslack_ns")).filter(|nanos| *nanos > 1_000_000)?;
    Some(advice(
        ("timer-slack", about),
        [
            format!("timers may be {} ms late", nanos / 1_000_000),
            "each tick of 50 ms begins so much later, unless the data plane has real-time priority".to_owned(),
            "systemctl edit isocast   ([Service] TimerSlackNSec=50us)".to_owned(),
        ],
    ))
}

fn machine(host: &Examined) -> Vec<Finding> {
    let mut found = Vec::new();
    let cpu = |file: &str| host.read(&format!("/sys/devices/system/cpu/cpu0/cpufreq/{file}")).unwrap_or_default();
    let (governor, driver) = (cpu("scaling_governor"), cpu("scaling_driver"));
    // The governor `powersave` of drivers that choose by themselves is no lowest frequency.
    if governor == "powersave" && !driver.contains("pstate") {
        found.push(advice(
            ("cpu-frequency", "cpu0"),
            [
                "the processors stay at their lowest frequency (`powersave`)".to_owned(),
                format!(
                    "{} MHz of {} MHz: so much fewer streams before the processor is short",
                    host.number("/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq").unwrap_or(0) / 1000,
                    host.number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").unwrap_or(0) / 1000
                ),
                "cpupower frequency-set -g schedutil   (or performance)".to_owned(),
            ],
        ));
    }
    let memory = host.read("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        memory.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok())
    };
    if let (Some(total), Some(free)) = (kib("SwapTotal:"), kib("SwapFree:")) {
        let used = total.saturating_sub(free);
        if used > total / 10 && used > 64 * 1024 {
            found.push(advice(("swap", "memory"), [
                format!("{} are swapped out", units::ByteCount(used * 1024)),
                "pages are read back from a disk when they are used, 12 ms each, on the disk of the streams perhaps".to_owned(),
                "sysctl -w vm.swappiness=1   (and into /etc/sysctl.d; or a smaller `plane.memory`)".to_owned(),
            ]));
        }
    }
    let clock = host.read("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    if ["acpi_pm", "hpet", "jiffies", "refined-jiffies"].contains(&clock.as_str()) {
        found.push(advice(("clock", "clocksource"), [
            format!("time is read from `{clock}`"),
            "each look at the clock is a system call of about 1 µs instead of 25 ns, some thousand times a second".to_owned(),
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource   (if the kernel allows it)".to_owned(),
        ]));
    }
    if host.prints("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]).as_deref().map(str::trim) == Some("no")
    {
        found.push(advice(
            ("clock", "time of day"),
            [
                "the clock is not set by the network".to_owned(),
                "conditions by date (If-Modified-Since) and logs of several machines do not fit together".to_owned(),
                "timedatectl set-ntp true   (or chrony)".to_owned(),
            ],
        ));
    }
    found
}
