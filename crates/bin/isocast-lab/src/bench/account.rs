//! Cost of a run: processor time, memory, disk and network, read from `/proc`.
//!
//! Promise: only differences of the kernel's own counters; a counter that cannot be read is `None`, never zero. Not here: the
//! client's own counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Serialize;
use units::Nanos;

/// `/proc` counts processor time in these (USER_HZ, fixed at 100 on Linux's user-facing side).
const TICK: Nanos = Nanos::from_millis(10);
const SECTOR_BYTES: u64 = 512;
/// A server with more processes than this is not looked at further.
const PROCESSES_MAX: usize = 4096;

/// Processes and disk counted in one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountedNames {
    /// The server's first process; its descendants count too.
    pub server: Option<u32>,
    /// The block device that holds the contents, as `/proc/diskstats` names it.
    pub disk: Option<String>,
}

/// All counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RunCounters {
    /// Processor time of the server's processes, nanoseconds.
    pub server_cpu_ns: Option<u64>,
    /// Memory resident in the server's processes, bytes.
    pub server_rss_bytes: Option<u64>,
    /// Memory in TCP buffers of the whole machine, both ends on loopback, bytes.
    pub tcp_bytes: Option<u64>,
    /// Processor time of the whole machine, nanoseconds.
    pub machine_cpu_ns: u64,
    /// Processor time the hypervisor gave to others, nanoseconds.
    pub stolen_ns: u64,
    /// Bytes read from the disk.
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to the disk.
    pub disk_written_bytes: Option<u64>,
    /// Time the disk was busy, nanoseconds.
    pub disk_busy_ns: Option<u64>,
}

impl CountedNames {
    /// Reads all counters.
    pub(crate) fn read(&self) -> RunCounters {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut counters = RunCounters::default();
        if let Some(pid) = self.server {
            for pid in family(pid) {
                let (cpu, rss) = process(pid);
                add(&mut counters.server_cpu_ns, cpu);
                add(&mut counters.server_rss_bytes, rss);
            }
        }
        counters.tcp_bytes = tcp_pages(&text("/proc/net/sockstat")).map(|p| p * page_bytes());
        (counters.machine_cpu_ns, counters.stolen_ns) = machine(&text("/proc/stat")).unwrap_or_default();
        if let Some(disk) = self.disk.as_deref().and_then(|name| disk(&text("/proc/diskstats"), name)) {
            counters.disk_read_bytes = Some(disk.read_bytes);
            counters.disk_written_bytes = Some(disk.written_bytes);
            counters.disk_busy_ns = Some(disk.busy_ns);
        }
        counters
    }
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0) + more);
    }
}

fn page_bytes() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// `root` and its descendants.
fn family(root: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in children.split_ascii_whitespace().filter_map(|c| c.parse().ok()) {
                if found.len() < PROCESSES_MAX && found.insert(child) {
                    open.push(child);
                }
            }
        }
    }
    found
}

/// Processor time in nanoseconds and resident bytes of one process.
fn process(pid: u32) -> (Option<u64>, Option<u64>) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let rss = statm.split_ascii_whitespace().nth(1).and_then(|p| p.parse::<u64>().ok()).map(|p| p * page_bytes());
    (process_cpu(&stat), rss)
}

/// utime + stime: the 14th and 15th field, counted after the name, which may hold spaces and parentheses.
fn process_cpu(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks * TICK.0)
}

/// Busy and stolen time of all processors, from the first line of `/proc/stat`.
fn machine(stat: &str) -> Option<(u64, u64)> {
    let ticks: Vec<u64> = stat.lines().next()?.split_ascii_whitespace().skip(1).map_while(|t| t.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|&i| ticks.get(i)).sum();
    Some((busy * TICK.0, ticks.get(7).copied().unwrap_or(0) * TICK.0))
}

fn tcp_pages(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find(|l| l.starts_with("TCP:"))?;
    line.split_ascii_whitespace().skip_while(|w| *w != "mem").nth(1)?.parse().ok()
}

struct DiskCounters {
    read_bytes: u64,
    written_bytes: u64,
    busy_ns: u64,
}

fn disk(diskstats: &str, name: &str) -> Option<DiskCounters> {
    let mut lines = diskstats.lines().map(|l| l.split_ascii_whitespace().collect::<Vec<_>>());
    let fields = lines.find(|f| f.get(2) == Some(&name))?;
    let field = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
    Some(DiskCounters {
        read_bytes: field(5)? * SECTOR_BYTES,
        written_bytes: field(9)? * SECTOR_BYTES,
        busy_ns: field(12)? * 1_000_000,
    })
}

/// The block device under `path`, as `/proc/diskstats` names it; `None` where there is none (tmpfs, network).
pub(crate) fn device_of(path: &Path) -> Option<String> {
    let status = rustix::fs::stat(path).ok()?;
    let numbers = format!("{} {}", rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
    let diskstats = fs::read_to_string("/proc/diskstats").ok()?;
    diskstats.lines().find_map(|l| {
        let mut fields = l.split_ascii_whitespace();
        let found = format!("{} {}", fields.next()?, fields.next()?);
        (found == numbers).then(|| fields.next().map(str::to_owned))?
    })
}

/// The process that listens on TCP `port`, found as root would with `ss -lptn`; `None` if it cannot be seen.
pub(crate) fn listener_of(port: u16) -> Option<u32> {
    let wanted = format!(":{port:04X}");
    let table = ["/proc/net/tcp", "/proc/net/tcp6"].map(|p| fs::read_to_string(p).unwrap_or_default()).concat();
    let inode = table.lines().map(|l| l.split_ascii_whitespace().collect::<Vec<_>>()).find_map(|f| {
        let listens = f.get(1)?.ends_with(&wanted) && f.get(3) == Some(&"0A");
        listens.then(|| f.get(9).map(|i| format!("socket:[{i}]")))?
    })?;
    // The least process id: of a server that forks workers, the one they come from.
    let mut pids: Vec<u32> =
        fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().find(|pid| {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        open.flatten().any(|f| fs::read_link(f.path()).is_ok_and(|l| l.as_os_str() == inode.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_a_process_with_an_odd_name() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194560 100 0 0 0 150 50 7 7 20 0 1 0 5 1 2";
        assert_eq!(process_cpu(stat), Some(2_000_000_000));
        assert_eq!(process_cpu(""), None);
    }

    #[test]
    fn busy_time_of_the_machine_leaves_out_idle_wait_and_stolen() {
        let stat = "cpu  100 10 50 9999 777 3 7 25 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(machine(stat), Some((1_700_000_000, 250_000_000)));
    }

    #[test]
    fn one_disk_of_several() {
        let text = "   7       0 loop0 1 0 8 0 0 0 0 0 0 0 0\n 254 0 vda 10 0 2048 5 20 0 4096 7 0 30 12\n";
        let disk = disk(text, "vda").unwrap();
        assert_eq!((disk.read_bytes, disk.written_bytes, disk.busy_ns), (1 << 20, 2 << 20, 30_000_000));
    }

    #[test]
    fn memory_of_sockets() {
        assert_eq!(tcp_pages("sockets: used 5\nTCP: inuse 4 orphan 0 tw 0 alloc 9 mem 12\nUDP: mem 3\n"), Some(12));
    }

    #[test]
    fn this_process_is_found_and_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(listener_of(listener.local_addr().unwrap().port()), Some(std::process::id()));
        let watched = CountedNames { server: Some(std::process::id()), ..CountedNames::default() };
        let counters = watched.read();
        assert!(counters.server_rss_bytes.unwrap() > 100_000);
        assert!(counters.machine_cpu_ns > 0);
    }
}
