//! Drives: their links, and their health.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use units::counted;

use super::FindingList;
use super::folders::mount_of;
use super::host::Examined;
use crate::disk;

pub(super) fn examine(list: &mut FindingList, host: &Examined, roots: &[PathBuf]) {
    let disks: BTreeSet<String> = if roots.is_empty() {
        host.names("/sys/block")
            .into_iter()
            .filter(|name| host.resolved(&format!("/sys/block/{name}/device")).is_some())
            .collect()
    } else {
        roots.iter().flat_map(|root| disks_of(host, root)).collect()
    };
    disks.iter().for_each(|name| drive(list, host, name));
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

fn drive(list: &mut FindingList, host: &Examined, name: &str) {
    let at = |file: &str| format!("/sys/block/{name}/{file}");
    let place = host.resolved(&at("")).unwrap_or_default();
    let spins = host.number(&at("queue/rotational")) == Some(1);
    sata(list, host, name, &place, spins);
    usb(list, host, name, &place);
    let is_ata = host.read(&at("device/vendor")).as_deref() == Some("ATA");
    if is_ata && host.number(&at("device/queue_depth")) == Some(1) {
        list.advice("ncq", name, "the drive takes one command at a time (NCQ is off)")
            .why("two reads asked for at once save a turn of the disk between them: 91 streams of 8.8 Mbit/s instead of 46")
            .mend(format!("echo 31 > /sys/block/{name}/device/queue_depth   (libata.force=noncq on the kernel's command line?)"));
    }
    if spins && host.read(&at("queue/write_cache")).as_deref() == Some("write through") {
        list.advice("write-cache", name, "the drive's write cache is off")
            .why("each piece of an upload costs a turn of the disk: 7 MB/s instead of 31 MB/s and more")
            .mend(format!("hdparm -W1 /dev/{name}   (uploads stay durable: they are flushed)"));
    }
    shingled(list, host, name);
    smart(list, host, name);
}

/// Findings about a SATA or IDE link, from its own report.
fn sata(list: &mut FindingList, host: &Examined, name: &str, place: &str, spins: bool) {
    let Some(port) = place.split('/').find_map(|part| part.strip_prefix("ata")?.parse::<u32>().ok()) else {
        return;
    };
    let speed = host.read(&format!("/sys/class/ata_link/link{port}/sata_spd")).unwrap_or_default();
    let limits = match speed.as_str() {
        "1.5 Gbps" => Some(("1.5 Gbit/s", "150 MB/s", if spins { "280" } else { "550" })),
        "3.0 Gbps" if !spins => Some(("3 Gbit/s", "300 MB/s", "550")),
        _ => None,
    };
    if let Some((runs, most, drive)) = limits {
        list.serious("link-speed", name, format!("its SATA link runs at {runs}"))
            .why(format!("it carries {most} at most; a present drive of this kind reads {drive} MB/s"))
            .mend(format!(
                "dmesg | grep -i 'ata{port}'   (another cable or port; libata.force on the kernel's command line?)"
            ));
    }
    let mode = host.read(&format!("/sys/class/ata_device/dev{port}.0/xfer_mode")).unwrap_or_default();
    if mode.contains("PIO") {
        list.serious("transfer-mode", name, format!("the drive is read by the processor ({mode}), not by DMA"))
            .why(
                "10 Mbit/s took 72.8 % of a processor by PIO and 1.4 % by DMA (evaluation of HPSM, tables 4.4 and 4.5)",
            )
            .mend(format!(
                "dmesg | grep -i 'ata{port}'   (the drive was set back after errors: cable, or the drive itself)"
            ));
    }
}

fn usb(list: &mut FindingList, host: &Examined, name: &str, place: &str) {
    let parts: Vec<&str> = place.split('/').collect();
    // …/usb2/2-1/2-1:1.0/host6/…: the part with a colon is the interface, the one before it the device.
    let Some(at) = parts.iter().position(|part| part.contains('-') && part.contains(':') && part.contains('.')) else {
        return;
    };
    if !parts.iter().any(|part| part.starts_with("usb")) {
        return;
    }
    let (interface, device) = (parts[..=at].join("/"), parts[..at].join("/"));
    let speed = host.number(&format!("{device}/speed")).unwrap_or(0);
    if (1..5000).contains(&speed) {
        list.serious("link-speed", name, format!("it is attached by USB at {speed} Mbit/s"))
            .why("USB 2 carries 35 MB/s at most: 31 streams of 8.8 Mbit/s without a single seek")
            .mend("lsusb -t   (shows 5000M or more with a port and a cable of USB 3, blue ones)");
    }
    let driver = host.resolved(&format!("{interface}/driver")).unwrap_or_default();
    if driver.ends_with("/usb-storage") {
        list.advice("uas", name, "it is driven by usb-storage, not by UAS")
            .why("one command at a time: a turn of the disk is lost between two reads (91 streams of 8.8 Mbit/s become 46)")
            .mend("cat /sys/module/usb_storage/parameters/quirks   (take its number out of `usb-storage.quirks` on the kernel's command line; without one: a case with a bridge that speaks UAS)");
    }
}

/// Shingled recording: a write in place rewrites a whole zone.
fn shingled(list: &mut FindingList, host: &Examined, name: &str) {
    let read = |file: &str| host.read(&format!("/sys/block/{name}/{file}")).unwrap_or_default();
    let Some(who) = disk::shingled(read) else { return };
    list.serious("smr", name, format!("the drive writes in shingled zones ({who})"))
        .why("a drive that tidies up its zones answers in seconds instead of 12 ms, amid streams that were promised their time")
        .mend("isocast disk list   (names the recording of each drive: write to one without shingles, CMR, and only serve from this one)");
}

/// Findings about the health that the drive reports.
fn smart(list: &mut FindingList, host: &Examined, name: &str) {
    let device = format!("/dev/{name}");
    if !host.has("smartctl") {
        // A disk of a virtual machine (vda) has no health of its own.
        if !["sd", "nvme"].iter().any(|kind| name.starts_with(kind)) {
            return;
        }
        let reason = "`smartctl`, which shows the drive's health, is not installed";
        list.not_looked_at(name, reason, "apt-get install smartmontools");
        return;
    }
    let Some(text) = host.prints("smartctl", &["-j", "-H", "-A", &device]) else { return };
    let Ok(answer) = serde_json::from_str::<Value>(&text) else { return };
    let said = answer["smartctl"]["messages"].to_string();
    if said.contains("Permission denied") {
        list.not_looked_at(name, "this user may not ask the drive for its health", "sudo isocast doctor");
        return;
    }
    if answer["smart_status"]["passed"] == false {
        list.serious("smart", name, "the drive says that it is about to fail")
            .why("its contents may be lost within a day")
            .mend(format!("isocast cp --alone FOLDER ELSEWHERE   (now; then replace the drive: smartctl -a {device} has its report)"));
    }
    let raw = |id: u64| {
        let table = answer["ata_smart_attributes"]["table"].as_array()?;
        table.iter().find(|one| one["id"] == id)?["raw"]["value"].as_u64()
    };
    for (id, what) in [(197, "waiting to be reassigned"), (198, "that could not be read")] {
        if let Some(count) = raw(id).filter(|count| *count > 0) {
            list.serious("smart", name, format!("{} {what}", counted(count, "sector")))
                .why("reading such a sector takes the drive up to 7 s (its error recovery), in which its streams get nothing")
                .mend(format!("smartctl -l scterc,70,70 {device}   (and replace the drive)"));
        }
    }
    if let Some(count) = raw(199).filter(|count| *count > 100) {
        list.advice("smart", name, format!("{count} transfers had a wrong checksum"))
            .why("each is repeated; after some the kernel lowers the link's speed, in the end to 1.5 Gbit/s")
            .mend(format!("smartctl -A {device}   (attribute 199 stands still with another SATA cable)"));
    }
}
