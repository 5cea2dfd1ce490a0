//! Drives: their links, and their health.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use units::counted;

use super::folders::mount_of;
use super::host::Examined;
use super::{Finding, advice, not_looked_at, serious};
use crate::disk;

pub(super) fn examine(host: &Examined, roots: &[PathBuf]) -> Vec<Finding> {
    let disks: BTreeSet<String> = if roots.is_empty() {
        host.names("/sys/block")
            .into_iter()
            .filter(|name| host.resolved(&format!("/sys/block/{name}/device")).is_some())
            .collect()
    } else {
        roots.iter().flat_map(|root| disks_of(host, root)).collect()
    };
    disks.iter().flat_map(|name| drive(host, name)).collect()
}

/// The drives that a folder lies on: of a volume or an array, all below it.
fn disks_of(host: &Examined, root: &Path) -> Vec<String> {
    let Some(mount) = mount_of(host, root) else { return Vec::new() };
    let by_number = host.resolved(&format!("/sys/dev/block/{}", mount.device));
    let by_name =
        || host.resolved(&format!("/sys/class/block/{}", mount.source.rsplit('/').next().unwrap_or_default()));
    let mut waiting: Vec<String> = by_number.or_else(by_name).into_iter().collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if host.read(&format!("{path}/partition")).is_some() {
            waiting.extend(path.rsplit_once('/').map(|(disk, _)| disk.to_owned()));
            continue;
        }
        let below: Vec<String> = host.names(&format!("{path}/slaves"));
        if below.is_empty() {
            found.extend(path.rsplit('/').next().map(str::to_owned));
        } else {
            waiting.extend(below.iter().filter_map(|name| host.resolved(&format!("/sys/class/block/{name}"))));
        }
    }
    found
}

fn drive(host: &Examined, name: &str) -> Vec<Finding> {
    let at = |file: &str| format!("/sys/block/{name}/{file}");
    let place = host.resolved(&at("")).unwrap_or_default();
    let spins = host.number(&at("queue/rotational")) == Some(1);
    let mut found = sata(host, name, &place, spins);
    found.extend(usb(host, name, &place));
    let is_ata = host.read(&at("device/vendor")).as_deref() == Some("ATA");
    if is_ata && host.number(&at("device/queue_depth")) == Some(1) {
        found.push(advice(("ncq", name), [
            "the drive takes one command at a time (NCQ is off)".to_owned(),
            "two reads asked for at once save a turn of the disk between them: 91 streams of 8.8 Mbit/s instead of 46".to_owned(),
            format!("echo 31 > /sys/block/{name}/device/queue_depth   (libata.force=noncq on the kernel's command line?)"),
        ]));
    }
    if spins && host.read(&at("queue/write_cache")).as_deref() == Some("write through") {
        found.push(advice(
            ("write-cache", name),
            [
                "the drive's write cache is off".to_owned(),
                "each piece of an upload costs a turn of the disk: 7 MB/s instead of 31 MB/s and more".to_owned(),
                format!("hdparm -W1 /dev/{name}   (uploads stay durable: they are flushed)"),
            ],
        ));
    }
    found.extend(shingled(host, name));
    found.extend(smart(host, name));
    found
}

/// Findings about a SATA or IDE link, from its own report.
fn sata(host: &Examined, name: &str, place: &str, spins: bool) -> Vec<Finding> {
    let Some(port) = place.split('/').find_map(|part| part.strip_prefix("ata")?.parse::<u32>().ok()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let speed = host.read(&format!("/sys/class/ata_link/link{port}/sata_spd")).unwrap_or_default();
    let limits = match speed.as_str() {
        "1.5 Gbps" => Some(("1.5 Gbit/s", "150 MB/s", if spins { "280" } else { "550" })),
        "3.0 Gbps" if !spins => Some(("3 Gbit/s", "300 MB/s", "550")),
        _ => None,
    };
    if let Some((runs, most, drive)) = limits {
        found.push(serious(
            ("link-speed", name),
            [
                format!("its SATA link runs at {runs}"),
                format!("it carries {most} at most; a present drive of this kind reads {drive} MB/s"),
                format!(
                    "dmesg | grep -i 'ata{port}'   (another cable or port; libata.force on the kernel's command line?)"
                ),
            ],
        ));
    }
    let mode = host.read(&format!("/sys/class/ata_device/dev{port}.0/xfer_mode")).unwrap_or_default();
    if mode.contains("PIO") {
        found.push(serious(
            ("transfer-mode", name),
            [
                format!("the drive is read by the processor ({mode}), not by DMA"),
                "10 Mbit/s took 72.8 % of a processor by PIO and 1.4 % by DMA (evaluation of HPSM, tables 4.4 and 4.5)"
                    .to_owned(),
                format!(
                    "dmesg | grep -i 'ata{port}'   (the drive was set back after errors: cable, or the drive itself)"
                ),
            ],
        ));
    }
    found
}

fn usb(host: &Examined, name: &str, place: &str) -> Vec<Finding> {
    let parts: Vec<&str> = place.split('/').collect();
    // …/usb2/2-1/2-1:1.0/host6/…: the part with a colon is the interface, the one before it the device.
    let Some(at) = parts.iter().position(|part| part.contains('-') && part.contains(':') && part.contains('.')) else {
        return Vec::new();
    };
    if !parts.iter().any(|part| part.starts_with("usb")) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let (interface, device) = (parts[..=at].join("/"), parts[..at].join("/"));
    let speed = host.number(&format!("{device}/speed")).unwrap_or(0);
    if (1..5000).contains(&speed) {
        found.push(serious(
            ("link-speed", name),
            [
                format!("it is attached by USB at {speed} Mbit/s"),
                "USB 2 carries 35 MB/s at most: 31 streams of 8.8 Mbit/s without a single seek".to_owned(),
                "lsusb -t   (shows 5000M or more with a port and a cable of USB 3, blue ones)".to_owned(),
            ],
        ));
    }
    let driver = host.resolved(&format!("{interface}/driver")).unwrap_or_default();
    if driver.ends_with("/usb-storage") {
        found.push(advice(("uas", name), [
            "it is driven by usb-storage, not by UAS".to_owned(),
            "one command at a time: a turn of the disk is lost between two reads (91 streams of 8.8 Mbit/s become 46)".to_owned(),
            "cat /sys/module/usb_storage/parameters/quirks   (take its number out of `usb-storage.quirks` on the kernel's command line; without one: a case with a bridge that speaks UAS)".to_owned(),
        ]));
    }
    found
}

/// Shingled recording: a write in place rewrites a whole zone.
fn shingled(host: &Examined, name: &str) -> Vec<Finding> {
    let read = |file: &str| host.read(&format!("/sys/block/{name}/{file}")).unwrap_or_default();
    let Some(who) = disk::shingled(read) else { return Vec::new() };
    vec![serious(("smr", name), [
        format!("the drive writes in shingled zones ({who})"),
        "a drive that tidies up its zones answers in seconds instead of 12 ms, amid streams that were promised their time".to_owned(),
        "isocast disk list   (names the recording of each drive: write to one without shingles, CMR, and only serve from this one)".to_owned(),
    ])]
}

/// Findings about the health that the drive reports.
fn smart(host: &Examined, name: &str) -> Vec<Finding> {
    let device = format!("/dev/{name}");
    if !host.has("smartctl") {
        // A disk of a virtual machine (vda) has no health of its own.
        if !["sd", "nvme"].iter().any(|kind| name.starts_with(kind)) {
            return Vec::new();
        }
        let reason = "`smartctl`, which shows the drive's health, is not installed";
        return vec![not_looked_at(name, reason, "apt-get install smartmontools")];
    }
    let Some(text) = host.prints("smartctl", &["-j", "-H", "-A", &device]) else { return Vec::new() };
    let Ok(answer) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let said = answer["smartctl"]["messages"].to_string();
    if said.contains("Permission denied") {
        return vec![not_looked_at(name, "this user may not ask the drive for its health", "sudo isocast doctor")];
    }
    let mut found = Vec::new();
    if answer["smart_status"]["passed"] == false {
        found.push(serious(
            ("smart", name),
            [
                "the drive says that it is about to fail".to_owned(),
                "its contents may be lost within a day".to_owned(),
                format!("isocast cp --alone FOLDER ELSEWHERE   (now; then replace the drive: smartctl -a {device} has its report)"),
            ],
        ));
    }
    let raw = |id: u64| {
        let table = answer["ata_smart_attributes"]["table"].as_array()?;
        table.iter().find(|one| one["id"] == id)?["raw"]["value"].as_u64()
    };
    for (id, what) in [(197, "waiting to be reassigned"), (198, "that could not be read")] {
        if let Some(count) = raw(id).filter(|count| *count > 0) {
            found.push(serious(("smart", name), [
                format!("{} {what}", counted(count, "sector")),
                "reading such a sector takes the drive up to 7 s (its error recovery), in which its streams get nothing".to_owned(),
                format!("smartctl -l scterc,70,70 {device}   (and replace the drive)"),
            ]));
        }
    }
    if let Some(count) = raw(199).filter(|count| *count > 100) {
        found.push(advice(
            ("smart", name),
            [
                format!("{count} transfers had a wrong checksum"),
                "each is repeated; after some the kernel lowers the link's speed, in the end to 1.5 Gbit/s".to_owned(),
                format!("smartctl -A {device}   (attribute 199 stands still with another SATA cable)"),
            ],
        ));
    }
    found
}
