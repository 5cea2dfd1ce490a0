//! Each check on a machine in a folder: its findings, and none where all is well.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;
use service::remedies::remedy_of;

use super::*;

/// A machine that is well: one drive on SATA, one interface, a server's permissions.
const WELL: &[(&str, &str)] = &[
    ("proc/sys/net/core/wmem_max", "4194304"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456"),
    ("proc/sys/net/ipv4/tcp_window_scaling", "1"),
    ("sys/devices/pci/net/eth0/operstate", "up"),
    ("sys/devices/pci/net/eth0/duplex", "full"),
    ("sys/devices/pci/net/eth0/speed", "1000"),
    ("sys/devices/pci/net/eth0/mtu", "1500"),
    ("sys/devices/pci/net/eth0/statistics/rx_packets", "1000000"),
    ("sys/devices/pci/net/eth0/statistics/tx_packets", "1000000"),
    ("commands/ethtool -k eth0", "Features for eth0:\nscatter-gather: on\ntcp-segmentation-offload: on"),
    (DRIVE_STAT, "0 0 0 0 0 0 0"),
    ("sys/devices/ata3/host2/block/sda/queue/rotational", "1"),
    ("sys/devices/ata3/host2/block/sda/queue/zoned", "none"),
    ("sys/devices/ata3/host2/block/sda/queue/write_cache", "write back"),
    ("sys/devices/ata3/host2/block/sda/queue/discard_max_bytes", "0"),
    ("sys/devices/ata3/host2/block/sda/sda1/partition", "1"),
    ("sys/devices/ata3/host2/target/vendor", "ATA"),
    ("sys/devices/ata3/host2/target/queue_depth", "32"),
    ("sys/class/ata_link/link3/sata_spd", "6.0 Gbps"),
    ("sys/class/ata_device/dev3.0/xfer_mode", "XFER_UDMA_6"),
    ("commands/smartctl -j -H -A _dev_sda", r#"{"smart_status":{"passed":true}}"#),
    ("proc/self/mountinfo", "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"),
    ("commands/filefrag _media_film.ts", "/media/film.ts: 1 extent found"),
    ("proc/net/softnet_stat", "00100000 00000000 00000000\n000f0000 00000000 00000000"),
    ("commands/df -B1 --output=size,avail _media", "Size Avail\n1000000000000 500000000000"),
    ("media/film.ts", "short"),
    ("proc/self/limits", "Max realtime priority     20    20\nMax locked memory         unlimited  unlimited bytes"),
    ("proc/self/status", "Name:\tisocast\nCapEff:\t0000000000000000"),
    ("proc/self/cgroup", "0::/system.slice/isocast.service"),
    ("sys/fs/cgroup/system.slice/isocast.service/cpu.max", "max 100000"),
    ("proc/self/timerslack_ns", "50000"),
    ("proc/sys/kernel/io_uring_disabled", "0"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate"),
    ("proc/meminfo", "MemTotal: 16000000 kB\nSwapTotal: 8000000 kB\nSwapFree: 7990000 kB"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
    ("commands/timedatectl show -p NTPSynchronized --value", "yes"),
];
const DRIVE_STAT: &str = "sys/devices/ata3/host2/block/sda/stat";
const LINKS: &[(&str, &str)] = &[
    ("sys/class/net/eth0", "../../devices/pci/net/eth0"),
    ("sys/devices/pci/net/eth0/device", "../../../pci"),
    ("sys/block/sda", "../devices/ata3/host2/block/sda"),
    ("sys/class/block/sda", "../../devices/ata3/host2/block/sda"),
    ("sys/dev/block/8:1", "../../devices/ata3/host2/block/sda/sda1"),
    ("sys/devices/ata3/host2/block/sda/device", "../../target"),
];

/// A machine that is well but for these files.
fn machine(changes: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let mut files: BTreeMap<&str, &str> = WELL.iter().copied().collect();
    files.extend(changes.iter().copied());
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    for (path, target) in LINKS {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("made");
        symlink(target, path).expect("linked");
    }
    root
}

fn found(root: &Path) -> Vec<Finding> {
    examine(&Examined::recorded(root), &[PathBuf::from("/media")], None, None)
}

#[test]
fn nothing_is_found_where_all_is_well() {
    let root = machine(&[]);
    let found = found(root.path());
    assert!(found.is_empty(), "{found:?}");
    assert!(
        examine(&Examined::recorded(root.path()), &[], None, None).is_empty(),
        "without folders, all disks are looked at"
    );
    let empty = tempfile::tempdir().expect("a folder");
    assert!(self::found(empty.path()).is_empty(), "what cannot be looked at is passed over");
}

/// One change of a machine that is well, and the one finding it makes: how much it matters, the check, and words of it.
type MachineCase = (&'static str, &'static str, AlarmSeverity, &'static str, &'static str);

const CASES: &[MachineCase] = {
    use AlarmSeverity::{Advice, Serious};
    &[
        ("proc/sys/net/core/wmem_max", "212992", Advice, "send-window", "11.4 Mbit/s"),
        ("proc/sys/net/ipv4/tcp_wmem", "4096 16384 65536", Advice, "send-window", "6.6 Mbit/s"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096 16384 65536", Advice, "receive-window", "tcp_rmem"),
        ("proc/sys/net/ipv4/tcp_window_scaling", "0", Serious, "window-scaling", "64 KiB"),
        ("sys/devices/pci/net/eth0/duplex", "half", Serious, "duplex", "ethtool -s eth0"),
        ("sys/devices/pci/net/eth0/speed", "100", Advice, "link-speed", "10 streams of 8.8 Mbit/s"),
        ("sys/devices/pci/net/eth0/mtu", "576", Advice, "mtu", "14.7 %"),
        ("sys/devices/pci/net/eth0/statistics/rx_missed_errors", "5000", Serious, "overruns", "5000 of 1000000"),
        ("sys/devices/pci/net/eth0/statistics/rx_errors", "5000", Serious, "interface-errors", "5000 of 2000000"),
        ("sys/devices/pci/net/eth0/statistics/tx_dropped", "5000", Advice, "drops", "txqueuelen"),
        ("commands/ethtool -k eth0", "scatter-gather: off", Advice, "offloads", "ethtool -K eth0"),
        ("proc/net/softnet_stat", "00100000 00001000 00000000", Serious, "drops", "4096 of 1048576"),
        ("sys/class/ata_link/link3/sata_spd", "1.5 Gbps", Serious, "link-speed", "150 MB/s"),
        ("sys/class/ata_device/dev3.0/xfer_mode", "XFER_PIO_4", Serious, "transfer-mode", "72.8 %"),
        ("sys/devices/ata3/host2/target/queue_depth", "1", Advice, "ncq", "91 streams"),
        ("sys/devices/ata3/host2/block/sda/queue/write_cache", "write through", Advice, "write-cache", "hdparm -W1"),
        ("sys/devices/ata3/host2/block/sda/queue/zoned", "host-aware", Serious, "smr", "host-aware"),
        ("sys/devices/ata3/host2/block/sda/queue/discard_max_bytes", "4096", Serious, "smr", "TRIM"),
        (
            "commands/smartctl -j -H -A _dev_sda",
            r#"{"smart_status":{"passed":false}}"#,
            Serious,
            "smart",
            "about to fail",
        ),
        ("commands/smartctl -j -H -A _dev_sda", PENDING, Serious, "smart", "3 sectors wait"),
        ("commands/smartctl -j -H -A _dev_sda", WRONG_SUMS, Advice, "smart", "another SATA cable"),
        ("commands/smartctl -j -H -A _dev_sda", DENIED, Advice, "not-looked-at", "sudo isocast doctor"),
        ("commands/df -B1 --output=size,avail _media", "Size Avail\n1000 50", Advice, "nearly-full", "95 %"),
        ("commands/df -B1 --output=size,avail _media", "Size Avail\n1000 10", Serious, "nearly-full", "99 %"),
        (
            "proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw,data=journal",
            Serious,
            "mount-options",
            "direct I/O",
        ),
        (
            "proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw,nobarrier",
            Serious,
            "mount-options",
            "acknowledged",
        ),
        ("proc/self/mountinfo", "22 1 8:1 / / rw,strictatime - ext4 /dev/sda1 rw", Advice, "mount-options", "relatime"),
        ("proc/self/mountinfo", "22 1 8:1 / / rw,sync - ext4 /dev/sda1 rw", Advice, "mount-options", "`sync`"),
        ("proc/self/mountinfo", "22 1 8:1 / / ro - ext4 /dev/sda1 ro", Advice, "read-only", "507"),
        ("proc/self/mountinfo", "22 1 0:40 / / rw - overlay overlay rw", Advice, "file-system", "ext4 or XFS"),
        ("proc/self/limits", "Max realtime priority 0 0", Serious, "real-time", "LimitRTPRIO"),
        ("proc/self/limits", "Max locked memory 8388608 8388608 bytes", Advice, "locked-memory", "8.0 MiB"),
        ("proc/sys/kernel/io_uring_disabled", "1", Advice, "io-uring", "only privileged"),
        ("proc/sys/kernel/io_uring_disabled", "2", Advice, "io-uring", "no program may use"),
        ("sys/fs/cgroup/system.slice/isocast.service/cpu.max", "50000 100000", Serious, "cgroup", "75 ms"),
        ("sys/fs/cgroup/system.slice/cpu.max", "50000 100000", Serious, "cgroup", "/system.slice may use"),
        ("sys/fs/cgroup/system.slice/isocast.service/memory.high", "1073741824", Advice, "cgroup", "1.00 GiB"),
        ("sys/fs/cgroup/system.slice/isocast.service/io.max", "8:0 rbps=1000000", Serious, "cgroup", "limits I/O"),
        ("proc/self/timerslack_ns", "50000000", Advice, "timer-slack", "50 ms"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq", Advice, "cpu-frequency", "powersave"),
        ("proc/meminfo", "SwapTotal: 8000000 kB\nSwapFree: 4000000 kB", Advice, "swap", "swapped out"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm", Advice, "clock", "acpi_pm"),
        ("commands/timedatectl show -p NTPSynchronized --value", "no", Advice, "clock", "set-ntp"),
    ]
};
const WRONG_SUMS: &str =
    r#"{"smart_status":{"passed":true},"ata_smart_attributes":{"table":[{"id":199,"raw":{"value":300}}]}}"#;
const DENIED: &str =
    r#"{"smartctl":{"messages":[{"string":"Smartctl open device: /dev/sda failed: Permission denied"}]}}"#;
const PENDING: &str =
    r#"{"smart_status":{"passed":true},"ata_smart_attributes":{"table":[{"id":197,"raw":{"value":3}}]}}"#;

#[test]
fn each_thing_that_is_wrong_is_found_and_nothing_else() {
    for (path, text, severity, check, words) in CASES {
        let root = machine(&[(*path, *text)]);
        let found = found(root.path());
        let [one] = found.as_slice() else { panic!("{path} = {text}: {found:?}") };
        assert_eq!((one.severity, one.check), (*severity, *check), "{one:?}");
        let all = format!("{} {} {}", one.seen, one.why, one.mend);
        assert!(all.contains(words), "`{words}` is not in: {all}");
        assert!(begins_with_command(&one.mend), "{one:?}");
    }
}

/// True if a remedy begins with a command to type.
fn begins_with_command(mend: &str) -> bool {
    const PROGRAMS: [&str; 26] = [
        "apt-get",
        "cat",
        "certbot",
        "cpupower",
        "curl",
        "dmesg",
        "du",
        "e4defrag",
        "echo",
        "ethtool",
        "findmnt",
        "grep",
        "hdparm",
        "ip",
        "iotop",
        "isocast",
        "lsusb",
        "mount",
        "smartctl",
        "sudo",
        "sysctl",
        "systemctl",
        "timedatectl",
        "tune2fs",
        "umount",
        "xfs_fsr",
    ];
    PROGRAMS
        .iter()
        .any(|program| mend.strip_prefix(*program).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ';'])))
}

#[test]
fn each_alarm_has_a_command_and_the_kind_of_its_description() {
    for cause in [
        json!({ "kind": "volume_disk", "disk": 0, "state": "out" }),
        json!({ "kind": "volume_missing", "contents": 1 }),
        json!({ "kind": "volume_damaged", "contents": 1, "copies": 0 }),
        json!({ "kind": "volume_scrub", "since_seconds": null, "contents_unknown": 0 }),
        json!({ "kind": "disk_failing", "failure": "hung", "errors": 0 }),
        json!({ "kind": "disk_assumed", "doubt": "" }),
        json!({ "kind": "folder_away" }),
        json!({ "kind": "quota_full", "percent": 95 }),
        json!({ "kind": "full_soon", "of": "disk", "free_bytes": null, "left_seconds": 0, "seen_seconds": 0, "bytes_per_day": 0 }),
        json!({ "kind": "job_failed", "reason": null }),
        json!({ "kind": "webhook_waiting", "events": 1, "error": "" }),
        json!({ "kind": "webhook_ended", "error": "" }),
        json!({ "kind": "certificate_expired" }),
        json!({ "kind": "certificate_expires", "left_seconds": 0 }),
        json!({ "kind": "certificate_refused", "problem": "" }),
        json!({ "kind": "configuration_refused", "problem": "" }),
    ] {
        let read: api::AlarmCause = serde_json::from_value(cause.clone()).expect("a cause");
        assert_eq!(cause["kind"], read.kind());
        assert!(begins_with_command(remedy_of(&read).command), "{cause}");
    }
}

#[test]
fn missing_tools_are_reported_as_checks_not_made() {
    let root = machine(&[]);
    fs::remove_dir_all(root.path().join("commands")).expect("removed");
    let film = fs::File::options().write(true).open(root.path().join("media/film.ts")).expect("there");
    film.set_len(200 << 20).expect("a file with a hole");
    let found = found(root.path());
    let missing: Vec<_> = found.iter().map(|one| (one.check, one.about.as_str(), one.mend.as_str())).collect();
    assert_eq!(
        missing,
        [
            ("not-looked-at", "eth0", "apt-get install ethtool"),
            ("not-looked-at", "sda", "apt-get install smartmontools"),
            ("not-looked-at", "/media", "apt-get install e2fsprogs"),
        ]
    );
}

#[test]
fn a_small_ring_is_named_where_packets_found_no_place() {
    let rings = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nTX:\t\t4096\nCurrent hardware settings:\nRX:\t\t256\nTX:\t\t256";
    let root = machine(&[
        ("sys/devices/pci/net/eth0/statistics/rx_missed_errors", "5000"),
        ("commands/ethtool -g eth0", rings),
    ]);
    let found = found(root.path());
    assert_eq!(found.iter().map(|one| one.mend.as_str()).collect::<Vec<_>>(), ["ethtool -G eth0 rx 4096"]);
}

#[test]
fn a_drive_behind_usb_is_found_by_its_path() {
    let root = machine(&[
        ("proc/self/mountinfo", "22 1 8:17 / / rw,relatime - ext4 /dev/sdb1 rw"),
        ("sys/devices/pci/usb2/2-1/speed", "480"),
        ("sys/devices/pci/usb2/2-1/2-1:1.0/host6/block/sdb/sdb1/partition", "1"),
        ("sys/bus/usb/drivers/usb-storage/uevent", ""),
    ]);
    let link = |path: &str, target: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("made");
        symlink(target, path).expect("linked");
    };
    link("sys/devices/pci/usb2/2-1/2-1:1.0/driver", "../../../../../bus/usb/drivers/usb-storage");
    link("sys/block/sdb", "../devices/pci/usb2/2-1/2-1:1.0/host6/block/sdb");
    link("sys/dev/block/8:17", "../../devices/pci/usb2/2-1/2-1:1.0/host6/block/sdb/sdb1");
    let found = found(root.path());
    let checks: Vec<_> = found.iter().map(|one| (one.check, one.about.as_str())).collect();
    assert_eq!(checks, [("link-speed", "sdb"), ("uas", "sdb")]);
}

#[test]
fn network_file_systems_are_looked_at() {
    let options = "rw,vers=3,rsize=8192,wsize=8192,proto=udp,soft";
    let mount = format!("22 1 0:50 / / rw,relatime - nfs server:/films {options}");
    let root = machine(&[("proc/self/mountinfo", mount.as_str())]);
    let found = found(root.path());
    assert!(found.iter().all(|one| one.check == "nfs"), "{found:?}");
    let seen: Vec<_> = found.iter().map(|one| one.seen.as_str()).collect();
    for words in ["`rsize` is 8192 bytes", "`wsize` is 8192 bytes", "over UDP", "`soft`", "server:/films"] {
        assert!(seen.iter().any(|seen| seen.contains(words)), "`{words}` is not in {seen:?}");
    }
}

#[test]
fn contents_in_many_pieces_are_found() {
    let root = machine(&[("commands/filefrag _media_film.ts", "/media/film.ts: 100 extents found")]);
    let film = fs::File::options().write(true).open(root.path().join("media/film.ts")).expect("there");
    film.set_len(200 << 20).expect("a file with a hole");
    let one = found(root.path());
    assert!(matches!(one.as_slice(), [one] if one.check == "fragments" && one.seen.contains("2.0 MiB")), "{one:?}");
    fs::write(root.path().join("commands/filefrag _media_film.ts"), "/media/film.ts: 2 extents found")
        .expect("written");
    assert!(found(root.path()).is_empty());
}

#[test]
fn the_servers_permissions_go_before_ours() {
    let root = machine(&[
        ("proc/77/comm", "isocast"),
        ("proc/77/cmdline", "isocast\0serve\0--root\0/media"),
        ("proc/77/limits", "Max realtime priority 0 0"),
        ("proc/77/status", "CapEff:\t0000000000800000"),
    ]);
    assert!(found(root.path()).is_empty(), "it has CAP_SYS_NICE");
    fs::write(root.path().join("proc/77/status"), "CapEff:\t0000000000000000").expect("written");
    let one = found(root.path());
    assert!(matches!(one.as_slice(), [one] if one.about == "server 77" && one.check == "real-time"), "{one:?}");
}

/// Findings on a server with good figures except for these members.
fn found_of(changes: &serde_json::Value, foreign: u64) -> Vec<(AlarmSeverity, &'static str)> {
    let mut system = json!({
        "version": "1", "uptime_seconds": 60.0, "streams": 0, "uploads": 0, "connections": 0, "promised_bps": 0, "network_bps": 0,
        "lent_bps": 0, "upload_bps": 0, "disk_bps": 0, "cpu_share": null, "process_cpu": null, "memory_bytes": null,
        "memory_total_bytes": null, "interfaces_bps": null,
        "buffers": { "used_bytes": 0, "promised_bytes": 0, "total_bytes": 0 }, "misses": 0, "refused": 0,
        "missing": [],
    });
    let mut disk = json!({
        "id": 0, "name": "sda", "model": "", "rotational": true, "capacity_bytes": 0, "free_bytes": 0, "failing": false,
        "failure": null, "phases": null, "rt_bytes": 0, "be_bytes": 0, "rt_queued": 0, "be_queued": 0, "commits": 0, "errors": 0,
        "promised_share": 0.0, "slowdown": 1.0, "lateness": [0, 0], "streams": 0,
    });
    for (name, value) in changes.as_object().expect("members") {
        let object = if system.get(name).is_some() { &mut system } else { &mut disk };
        object[name] = value.clone();
    }
    let mut alarms = changes.get("alarms").cloned().unwrap_or_else(|| json!([]));
    for alarm in alarms.as_array_mut().expect("a list") {
        (alarm["why"], alarm["remedy"]) = ("no stream is admitted".into(), "dmesg".into());
    }
    let look = ServerLook {
        alarms: serde_json::from_value(alarms).expect("alarms"),
        system: serde_json::from_value(system).expect("a system"),
        disks: vec![serde_json::from_value(disk).expect("a disk")],
        foreign: BTreeMap::from([("sda".to_owned(), foreign)]),
    };
    let mut list = FindingList::default();
    running::examine(&mut list, &look);
    let found = list.0;
    assert!(found.iter().all(|one| begins_with_command(&one.mend)), "{found:?}");
    found.iter().map(|one| (one.severity, one.check)).collect()
}

#[test]
fn the_servers_own_figures_are_looked_at() {
    use AlarmSeverity::{Advice, Serious};
    assert!(found_of(&json!({}), 0).is_empty());
    assert_eq!(found_of(&json!({}), 10 << 20), [(Serious, "foreign-io")]);
    for (changes, found) in [
        (json!({ "missing": ["locked memory", "io_uring"] }), (Advice, "io-uring")),
        (json!({ "misses": 3 }), (Serious, "misses")),
        (json!({ "refused": 3 }), (Advice, "refusals")),
        (json!({ "slowdown": 1.2 }), (Advice, "slower")),
        (json!({ "slowdown": 2.0 }), (Serious, "slower")),
        (json!({ "lateness": [0, 2] }), (Advice, "late-blocks")),
        (
            json!({ "alarms": [{ "severity": "serious", "kind": "volume_disk", "disk": 1, "state": "out", "about": "films", "text": "disk 1 is out" }] }),
            (Serious, "volume_disk"),
        ),
        (
            json!({ "alarms": [{ "severity": "advice", "kind": "disk_assumed", "doubt": "virtual", "about": "sda", "text": "not measured" }] }),
            (Advice, "disk_assumed"),
        ),
        (
            json!({ "alarms": [{ "severity": "serious", "kind": "configuration_refused", "problem": "no", "about": "configuration", "text": "x.toml:3: no" }] }),
            (Serious, "configuration_refused"),
        ),
    ] {
        assert_eq!(found_of(&changes, 0), [found], "{changes}");
    }
}

#[test]
fn the_process_at_the_servers_port_is_looked_at() {
    let limits = "Max open files            256                  4096                 files";
    let listening = "  1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 4711 1";
    let root = machine(&[
        ("proc/77/comm", "isocast"),
        ("proc/77/cmdline", "isocast\0serve"),
        ("proc/99/comm", "isocast"),
        ("proc/99/cmdline", "isocast\0serve"),
        ("proc/99/limits", limits),
        ("proc/net/tcp", listening),
    ]);
    fs::create_dir_all(root.path().join("proc/99/fd")).expect("made");
    symlink("socket:[4711]", root.path().join("proc/99/fd/9")).expect("linked");
    let checks = |port| {
        let mut list = FindingList::default();
        process::examine(&mut list, &Examined::recorded(root.path()), port);
        list.0.into_iter().map(|one| (one.check, one.about)).collect::<Vec<_>>()
    };
    assert!(checks(Some(8081)).contains(&("open-files", "server 99".to_owned())), "{:?}", checks(Some(8081)));
    let unseen = checks(Some(8082));
    assert!(unseen.contains(&("not-looked-at", "server".to_owned())), "no other server is judged: {unseen:?}");
    assert!(checks(None).iter().all(|(_, about)| about != "server 99"), "the first one: {:?}", checks(None));
    for (url, port) in
        [("http://127.0.0.1:8081", Some(8081)), ("http://10.0.0.1:8081/", None), ("https://[::1]:443", Some(443))]
    {
        assert_eq!(local_port(url), port, "{url}");
    }
}
