//! The objects of packaging/ISOCAST-MIB.txt, from the figures of the service.

use agentx::{MibObjects, MibValue, Oid};
use api::{
    Alarm, AlarmSeverity, Disk, DiskFailure, LinkDirection, Phases, ServiceCounts, System, VOLUME_DISK_STATES,
    VolumeStatus,
};
use service::access::{Permit, ToObserve};
use service::alarms::AlarmSources;
use service::refusals::RESOURCES;
use service::{MediaService, figures};

/// `isocastMIB`: no number is registered for Isocast; net-snmp keeps this part of its own for experiments (`netSnmpPlaypen`).
const ROOT: [u32; 10] = [1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 8080];
/// `isocastServer` and the tables below `isocastObjects`.
const SERVER: u32 = 1;
const REFUSALS: u32 = 2;
pub(super) const DISKS: u32 = 3;
const LINKS: u32 = 4;
const FOLDERS: u32 = 5;
const VOLUME_DISKS: u32 = 7;
const ALARMS: u32 = 8;

pub(super) fn root() -> Oid {
    Oid::new(&ROOT)
}

/// All objects, as they are now.
pub(super) fn all(service: &MediaService, permit: &Permit<ToObserve>) -> MibObjects {
    let system = figures::system(service, permit);
    let mut objects = MibObjects::default();
    server(&mut objects, &system);
    refusals(&mut objects, &system.counts);
    let sources = AlarmSources::read(service, permit);
    places(&mut objects, system);
    volume_disks(&mut objects, &sources.volumes);
    alarms(&mut objects, sources.alarms());
    for disk in sources.disks {
        add_row(&mut objects, DISKS, disk_index(disk.id), disk_columns(disk));
    }
    objects
}

fn server(objects: &mut MibObjects, system: &System) {
    let (plane, counts, running) = (&system.plane, &system.counts, system.running);
    let values = [
        MibValue::Text(system.version.clone()),
        ticks(system.uptime_seconds),
        gauge(plane.streams),
        MibValue::Counter(system.promised_bps / 8),
        MibValue::Counter(plane.sent_bytes),
        MibValue::Counter(system.misses),
        MibValue::Counter(counts.streams_started),
        MibValue::Counter(system.refused),
        gauge(system.uploads),
        MibValue::Counter(counts.uploaded_bytes),
        gauge(system.sessions),
        MibValue::Counter(counts.small_reads),
        gauge(running.constant),
        gauge(running.best_effort),
        gauge(running.recordings),
    ];
    for (number, value) in (1..).zip(values) {
        objects.add(root().below(&[1, SERVER, number, 0]), value);
    }
}

fn refusals(objects: &mut MibObjects, counts: &ServiceCounts) {
    for (row, resource) in (1..).zip(RESOURCES) {
        let count = counts.refused.get(resource).copied().unwrap_or_default();
        add_row(objects, REFUSALS, row, [MibValue::Counter(count)]);
    }
}

fn disk_columns(disk: Disk) -> [MibValue; 19] {
    let state = match disk.failure {
        None => 1,
        Some(DiskFailure::Erring) => 2,
        Some(DiskFailure::Hung) => 3,
    };
    let Phases { real_time, best_effort, idle } = disk.phase_seconds;
    let milliseconds = |seconds: f64| MibValue::Counter(whole(seconds * 1e3));
    [
        MibValue::Text(disk.name),
        MibValue::Text(disk.model),
        MibValue::Integer(state),
        MibValue::Counter(disk.capacity_bytes),
        MibValue::Counter(disk.free_bytes),
        gauge(disk.streams),
        gauge(disk.carries_streams),
        gauge(whole(disk.promised_share * 1e6)),
        gauge(whole(disk.slowdown * 1e6)),
        MibValue::Counter(disk.rt_bytes),
        MibValue::Counter(disk.be_bytes),
        gauge(disk.rt_queued),
        gauge(disk.be_queued),
        milliseconds(real_time),
        milliseconds(best_effort),
        milliseconds(idle),
        MibValue::Counter(disk.lateness.iter().sum()),
        MibValue::Counter(disk.errors),
        MibValue::Counter(disk.shed_streams),
    ]
}

fn places(objects: &mut MibObjects, system: System) {
    for (row, link) in (1..).zip(system.links) {
        let rates = [link.capacity_bps, link.promised_bps].map(|rate| MibValue::Counter(rate / 8));
        let [capacity, promised] = rates;
        let name = if link.direction == LinkDirection::In { format!("{} in", link.name) } else { link.name };
        add_row(objects, LINKS, row, [MibValue::Text(name), capacity, promised]);
    }
    for (row, folder) in (1..).zip(system.folders) {
        let disk = MibValue::Gauge(disk_index(folder.disk));
        let state = MibValue::Integer(if folder.away { 2 } else { 1 });
        add_row(objects, FOLDERS, row, [MibValue::Text(folder.path), disk, state]);
    }
}

fn volume_disks(objects: &mut MibObjects, volumes: &[VolumeStatus]) {
    let disks = volumes.iter().flat_map(|volume| volume.disks.iter().map(|disk| (volume.name.clone(), disk)));
    for (row, (volume, disk)) in (1..).zip(disks) {
        let state = (1..).zip(VOLUME_DISK_STATES).find(|(_, name)| *name == disk.state).map_or(0, |(number, _)| number);
        let path = disk.path.clone().unwrap_or_default();
        let values = [
            MibValue::Text(volume),
            MibValue::Text(path),
            MibValue::Integer(state),
            MibValue::Counter(disk.wrong_copies),
        ];
        add_row(objects, VOLUME_DISKS, row, values);
    }
}

fn alarms(objects: &mut MibObjects, alarms: Vec<Alarm>) {
    for (row, alarm) in (1..).zip(alarms) {
        let severity = match alarm.severity {
            AlarmSeverity::Serious => 1,
            AlarmSeverity::Advice => 2,
        };
        let [kind, about, text] = [alarm.cause.kind().to_owned(), alarm.about, alarm.text].map(MibValue::Text);
        add_row(objects, ALARMS, row, [MibValue::Integer(severity), kind, about, text]);
    }
}

/// The row's own number is its first column, which is not read.
fn add_row(objects: &mut MibObjects, table: u32, row: u32, values: impl IntoIterator<Item = MibValue>) {
    for (column, value) in (2..).zip(values) {
        objects.add(root().below(&[1, table, 1, column, row]), value);
    }
}

/// Rows are counted from 1, disks from 0.
pub(super) fn disk_index(disk: u16) -> u32 {
    u32::from(disk) + 1
}

/// A gauge stays at its highest value when its figure goes beyond (RFC 2578 §7.1.7).
pub(super) fn gauge(value: u64) -> MibValue {
    MibValue::Gauge(u32::try_from(value).unwrap_or(u32::MAX))
}

/// Hundredths of a second, which begin anew after 497 days (RFC 2578 §7.1.8).
fn ticks(seconds: f64) -> MibValue {
    let hundredths = whole(seconds * 100.0) % (u64::from(u32::MAX) + 1);
    MibValue::Ticks(u32::try_from(hundredths).expect("taken modulo"))
}

/// Rounded; negative and not-a-number become zero.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate, as promised")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
