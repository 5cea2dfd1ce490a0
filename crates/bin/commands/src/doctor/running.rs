//! Figures of the running server, and the load that others put on its disks.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Alarm, AlarmSeverity, Disk, System};
use client::ServerApi;
use units::{counted, real};

use super::host::Examined;
use super::{FindingList, process};

/// Bytes that `/sys/block/*/stat` counts in (Documentation/block/stat.rst).
const SECTOR_BYTES: u64 = 512;
/// Bytes per second by others that cost a disk about a stream: eight seeks of 128 KiB.
const FOREIGN_MIN: u64 = 1 << 20;

/// Two looks at a server and its disks.
pub(super) struct ServerLook {
    pub(super) system: System,
    pub(super) disks: Vec<Disk>,
    pub(super) alarms: Vec<Alarm>,
    /// Bytes per second on each disk that are not the server's.
    pub(super) foreign: BTreeMap<String, u64>,
}

impl ServerLook {
    /// Reads the figures twice.
    ///
    /// # Errors
    /// No server answers.
    pub(super) fn take(host: &Examined, server: &ServerApi, period: Duration) -> anyhow::Result<Self> {
        let look = || -> anyhow::Result<Vec<_>> {
            let disks: Vec<Disk> = server.read("disks")?;
            Ok(disks.into_iter().map(|disk| (device_bytes(host, &disk.name), disk)).collect())
        };
        let before = look()?;
        std::thread::sleep(period);
        let after = look()?;
        let foreign = before.iter().zip(&after).filter_map(|((device_before, before), (device_after, after))| {
            let device = (*device_after)?.checked_sub((*device_before)?)?;
            let ours = (after.rt_bytes + after.be_bytes).saturating_sub(before.rt_bytes + before.be_bytes);
            Some((after.name.clone(), device.saturating_sub(ours)))
        });
        let foreign = foreign.map(|(name, bytes)| (name, per_second(bytes, period))).collect();
        let disks = after.into_iter().map(|(_, disk)| disk).collect();
        Ok(Self { system: server.read("system")?, alarms: server.read("alarms")?, disks, foreign })
    }
}

fn per_second(bytes: u64, period: Duration) -> u64 {
    bytes.saturating_mul(1000) / u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Bytes read from and written to a device since the machine started.
fn device_bytes(host: &Examined, name: &str) -> Option<u64> {
    let text = host.read(&format!("/sys/class/block/{name}/stat"))?;
    let counts: Vec<u64> = text.split_whitespace().filter_map(|count| count.parse().ok()).collect();
    Some((counts.get(2)? + counts.get(6)?) * SECTOR_BYTES)
}

pub(super) fn examine(list: &mut FindingList, look: &ServerLook) {
    look.alarms.iter().for_each(|alarm| of_alarm(list, alarm));
    look.disks.iter().for_each(|disk| of_disk(list, disk, look));
    let system = &look.system;
    if system.missing.iter().any(|part| part == "io_uring") {
        list.advice("io-uring", "server", "it runs without io_uring")
            .why(process::WITHOUT_IO_URING)
            .mend("systemctl edit isocast   ([Service] LimitMEMLOCK=infinity; Linux 6.1 is needed, and in a container a seccomp profile that permits io_uring)");
    }
    if system.misses > 0 {
        list.serious(
            "misses",
            "server",
            format!("{} of streams not fed in time in {:.0} s", counted(system.misses, "tick"), system.uptime_seconds),
        )
        .why("a viewer with less than the lateness in its player stood still")
        .mend("isocast top   (which disk was late); the event log has each `miss`");
    }
    if system.refused > 0 {
        list.advice("refusals", "server", format!("{} refused since the start", counted(system.refused, "stream")))
            .why(format!(
                "each would have needed more than was left beside {:.1} Mbit/s now",
                real(system.promised_bps) / 1e6
            ))
            .mend("isocast plan   (the gain of another disk or more memory); the event log names the resource that was short");
    }
}

fn of_alarm(list: &mut FindingList, alarm: &Alarm) {
    list.add(alarm.severity, alarm.cause.kind(), &alarm.about, &alarm.text).why(&alarm.why).mend(alarm.noted_remedy());
}

fn of_disk(list: &mut FindingList, disk: &Disk, look: &ServerLook) {
    if disk.slowdown > 1.1 {
        let severity = if disk.slowdown > 1.5 { AlarmSeverity::Serious } else { AlarmSeverity::Advice };
        let seen = format!("it takes {:.2} times as long as its profile says", disk.slowdown);
        list.add(severity, "slower", &disk.name, seen)
            .why(format!("it is promised to {:.0} % of the streams it was measured for", 100.0 / disk.slowdown))
            .mend(
                "iotop -oPa   (stop the programs that use it; if none does: isocast disk calibrate --state DIR ROOT)",
            );
    }
    let late: u64 = disk.lateness.iter().sum();
    if late > 0 {
        list.advice(
            "late-blocks",
            &disk.name,
            format!("{} read after the deadline since the start", counted(late, "block")),
        )
        .why("most are caught up from the bytes read ahead; the others are misses")
        .mend("isocast top   (column LATE); iostat -x 1 shows other use of the disk");
    }
    let foreign = look.foreign.get(&disk.name).copied().unwrap_or(0);
    if foreign > FOREIGN_MIN {
        list.serious("foreign-io", &disk.name, format!("others read or write {:.1} MB/s on it", real(foreign) / 1e6))
            .why(format!(
                "in pieces of 128 KiB that is {:.0} % of a spinning disk's time",
                (real(foreign) / 131_072.0 * 1.2).min(100.0)
            ))
            .mend("iotop -oPa   (and give it another disk, or ionice -c3)");
    }
}
