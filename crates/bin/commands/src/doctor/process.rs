//! Permissions and limits of the running server's process, or of this program's process if no server runs.

use units::counted;

use super::FindingList;
use super::host::Examined;

/// Bits of `CapEff` (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;
/// Lockable memory that is recommended: buffers for some hundred streams.
const LOCKED_WANTED: u64 = 1 << 30;
/// This program's own process, examined if no server runs.
const OWN_PROCESS: &str = "/proc/self";
/// Effect of the engine of ordinary system calls (decision 0019).
pub(super) const WITHOUT_IO_URING: &str =
    "each send and read is then a system call of its own, and an upload has one write under way instead of two";
/// Open files that are recommended: for some hundred streams and their contents.
const FILES_WANTED: u64 = 4096;

/// Examines the process that listens on `port` of this machine; without a port, the first server.
pub(super) fn examine(list: &mut FindingList, host: &Examined, port: Option<u16>) {
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
    match (server, port) {
        (Some(pid), _) => of_process(list, host, &format!("/proc/{pid}"), &format!("server {pid}")),
        (None, Some(port)) => {
            let what = format!("the server's process, which listens on port {port}, is not visible to this user");
            list.not_looked_at("server", &what, "sudo isocast doctor   (for a server in a container, in that)");
        }
        (None, None) => of_process(list, host, OWN_PROCESS, "this user"),
    }
    machine(list, host);
}

fn of_process(list: &mut FindingList, host: &Examined, process: &str, about: &str) {
    permissions(list, host, process, about);
    group_limits(list, host, process, about);
    timers(list, host, process, about);
}

/// The process that listens on a TCP port (proc(5), `/proc/net/tcp`); `None` if this user may not see it.
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

fn permissions(list: &mut FindingList, host: &Examined, process: &str, about: &str) {
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
        list.serious("real-time", about, "no thread may have real-time priority")
            .why("each busy program may delay the data plane by a scheduling period, which is some ms; a tick is 50 ms")
            .mend("systemctl edit isocast   ([Service] LimitRTPRIO=20); without systemd: setcap cap_sys_nice+ep /usr/local/bin/isocast");
    }
    if let Some(bytes) = soft("Max locked memory").filter(|bytes| *bytes < LOCKED_WANTED && !may(CAP_IPC_LOCK)) {
        list.advice("locked-memory", about, format!("{} may be locked", units::ByteCount(bytes)))
            .why("buffers that are not locked can be swapped out: bringing a page back takes a seek of 12 ms")
            .mend("systemctl edit isocast   ([Service] LimitMEMLOCK=infinity); without systemd: ulimit -l unlimited   (as root)");
    }
    if let Some(files) = soft("Max open files").filter(|files| *files < FILES_WANTED) {
        list.advice("open-files", about, format!("{} open at once, at most", counted(files, "file")))
            .why("each connection and each content that is read needs an open file; beyond the limit they are refused")
            .mend("systemctl edit isocast   ([Service] LimitNOFILE=65536); without systemd: ulimit -n 65536");
    }
    if let Some(mode) = host.number("/proc/sys/kernel/io_uring_disabled").filter(|mode| *mode > 0) {
        let users = if mode == 1 { "only privileged programs" } else { "no program" };
        list.advice("io-uring", "kernel.io_uring_disabled", format!("it is {mode}: {users} may use io_uring"))
            .why(WITHOUT_IO_URING)
            .mend("sysctl -w kernel.io_uring_disabled=0");
    }
}

/// Checks the limits of the control group and of its ancestors.
fn group_limits(list: &mut FindingList, host: &Examined, process: &str, about: &str) {
    let groups = host.read(&format!("{process}/cgroup")).unwrap_or_default();
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return };
    let mut path = group.trim_end_matches('/');
    loop {
        let at = |file: &str| host.read(&format!("/sys/fs/cgroup{path}/{file}"));
        let quota = at("cpu.max").and_then(|text| {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?))
        });
        if let Some((quota, period)) = quota.filter(|(quota, period)| quota < &(2 * period)) {
            list.serious("cgroup", about, format!("its control group {path} may use {quota} µs of processors in {period} µs"))
                .why(format!("when the quota is used up, the server stops for up to {} ms; a tick is 50 ms", period.saturating_sub(quota / 2) / 1000))
                .mend("systemctl edit isocast   ([Service] CPUQuota=); docker: run without --cpus; kubernetes: no `limits.cpu`, whole processors in `requests.cpu`");
        }
        if let Some(bytes) = at("memory.high").and_then(|text| text.parse::<u64>().ok()) {
            let high = units::ByteCount(bytes);
            list.advice(
                "cgroup",
                about,
                format!("the kernel slows its control group {path} down beyond {high} of memory"),
            )
            .why("beyond it the kernel delays each allocation by up to 2 s while it reclaims memory")
            .mend("systemctl edit isocast   ([Service] MemoryHigh=infinity, and MemoryMax= for a limit)");
        }
        if at("io.max").is_some_and(|text| !text.is_empty()) {
            list.serious("cgroup", about, format!("its control group {path} limits I/O"))
                .why("the kernel delays reads that the schedule counts as begun: streams are late though the disk is idle")
                .mend("systemctl edit isocast   ([Service] IOReadBandwidthMax=, IOWriteBandwidthMax=, IOReadIOPSMax=, IOWriteIOPSMax=, with nothing behind)");
        }
        match path.rsplit_once('/') {
            Some((above, _)) => path = above,
            None => return,
        }
    }
}

fn timers(list: &mut FindingList, host: &Examined, process: &str, about: &str) {
    if let Some(nanos) = host.number(&format!("{process}/timerslack_ns")).filter(|nanos| *nanos > 1_000_000) {
        list.advice("timer-slack", about, format!("timers may be {} ms late", nanos / 1_000_000))
            .why("each tick of 50 ms may begin later by that time, unless the data plane has real-time priority")
            .mend("systemctl edit isocast   ([Service] TimerSlackNSec=50us)");
    }
}

fn machine(list: &mut FindingList, host: &Examined) {
    let cpu = |file: &str| host.read(&format!("/sys/devices/system/cpu/cpu0/cpufreq/{file}")).unwrap_or_default();
    let (governor, driver) = (cpu("scaling_governor"), cpu("scaling_driver"));
    // With drivers that choose the frequency themselves (`intel_pstate`, for example), `powersave` is not the lowest frequency.
    if governor == "powersave" && !driver.contains("pstate") {
        list.advice("cpu-frequency", "cpu0", "the processors stay at their lowest frequency (`powersave`)")
            .why(format!(
                "{} MHz of {} MHz: the processor limits the server to proportionally fewer streams",
                host.number("/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq").unwrap_or(0) / 1000,
                host.number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").unwrap_or(0) / 1000
            ))
            .mend("cpupower frequency-set -g schedutil   (or performance)");
    }
    let memory = host.read("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        memory.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok())
    };
    if let (Some(total), Some(free)) = (kib("SwapTotal:"), kib("SwapFree:")) {
        let used = total.saturating_sub(free);
        if used > total / 10 && used > 64 * 1024 {
            list.advice("swap", "memory", format!("{} are swapped out", units::ByteCount(used * 1024)))
                .why("a page that is used again is read back from a disk in about 12 ms, perhaps from a disk of the streams")
                .mend("sysctl -w vm.swappiness=1   (and into /etc/sysctl.d; or a smaller `plane.memory`)");
        }
    }
    let clock = host.read("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    if ["acpi_pm", "hpet", "jiffies", "refined-jiffies"].contains(&clock.as_str()) {
        list.advice("clock", "clocksource", format!("time is read from `{clock}`"))
            .why("each reading of the clock is a system call of about 1 µs instead of 25 ns, some thousand times a second")
            .mend("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource   (if the kernel allows it)");
    }
    if host.prints("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]).as_deref().map(str::trim) == Some("no")
    {
        list.advice("clock", "time of day", "the clock is not set by the network")
            .why("dates in conditional requests (If-Modified-Since) and in logs disagree with those of other machines")
            .mend("timedatectl set-ntp true   (or chrony)");
    }
}
