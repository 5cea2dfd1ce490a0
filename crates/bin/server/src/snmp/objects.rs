//! The objects of packaging/ISOCAST-MIB.txt, read where `/metrics` reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use agentx::{MibObjects, MibValue, Oid};
use api::DiskFailure;
use service::MediaService;
use service::contents::{errors_of, failure};

/// `isocastMIB`: no number is registered for Isocast; net-snmp keeps this part of its own for experiments (`netSnmpPlaypen`).
const ROOT: [u32; 10] = [1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 8080];
/// `isocastServer` and the tables below `isocastObjects`.
const SERVER: u32 = 1;
const REFUSALS: u32 = 2;
pub(super) const DISKS: u32 = 3;
const LINKS: u32 = 4;
const FOLDERS: u32 = 5;

pub(super) fn root() -> Oid {
    Oid::new(&ROOT)
}

/// All objects, as they are now.
pub(super) fn all(service: &MediaService) -> MibObjects {
    let mut objects = MibObjects::default();
    server(&mut objects, service);
    refusals(&mut objects, service);
    disks(&mut objects, service);
    links(&mut objects, service);
    folders(&mut objects, service);
    objects
}

fn server(objects: &mut MibObjects, service: &MediaService) {
    let (plane, stats, running) = (&service.gauges.plane, &service.stats, service.running.counts());
    let count = |counter: &AtomicU64| MibValue::Counter(counter.load(Ordering::Relaxed));
    let values = [
        MibValue::Text(env!("CARGO_PKG_VERSION").to_owned()),
        ticks(service.uptime().0),
        gauge(plane.streams.get()),
        MibValue::Counter(plane.promised_bps.get() / 8),
        MibValue::Counter(plane.sent_bytes.get()),
        MibValue::Counter(plane.misses.get()),
        count(&stats.streams_started),
        MibValue::Counter(stats.refusals.total()),
        gauge(stats.uploads_open.load(Ordering::Relaxed)),
        count(&stats.bytes_uploaded),
        gauge(service.session_count() as u64),
        count(&stats.small_reads),
        gauge(running.constant),
        gauge(running.best_effort),
        gauge(running.recordings),
    ];
    for (number, value) in (1..).zip(values) {
        objects.add(root().below(&[1, SERVER, number, 0]), value);
    }
}

fn refusals(objects: &mut MibObjects, service: &MediaService) {
    for (row, count) in (1..).zip(service.stats.refusals.by_resource()) {
        add_row(objects, REFUSALS, row, [MibValue::Counter(count)]);
    }
}

fn disks(objects: &mut MibObjects, service: &MediaService) {
    for disk in service.contents.disks() {
        let Some(gauges) = service.gauges.disks.get(usize::from(disk.id.0)) else { continue };
        let state = match failure(disk.failing, gauges) {
            None => 1,
            Some(DiskFailure::Erring) => 2,
            Some(DiskFailure::Hung) => 3,
        };
        let errors = errors_of(&disk, gauges);
        let late = gauges.lateness.iter().map(|bucket| bucket.get()).sum();
        let [real_time, best_effort, idle] = gauges.phase_nanos.each_ref().map(|nanos| nanos.get() / 1_000_000);
        let values = [
            MibValue::Text(disk.device.name),
            MibValue::Text(disk.device.model),
            MibValue::Integer(state),
            MibValue::Counter(disk.device.capacity_bytes),
            MibValue::Counter(disk.free_bytes),
            gauge(gauges.streams.get()),
            gauge(gauges.carries_streams.get()),
            gauge(gauges.promised_ppm.get()),
            gauge(gauges.slowdown_ppm.get()),
            MibValue::Counter(gauges.rt_bytes.get()),
            MibValue::Counter(gauges.be_bytes.get()),
            gauge(gauges.rt_queued.get()),
            gauge(gauges.be_queued.get()),
            MibValue::Counter(real_time),
            MibValue::Counter(best_effort),
            MibValue::Counter(idle),
            MibValue::Counter(late),
            MibValue::Counter(errors),
            MibValue::Counter(gauges.shed_streams.get()),
        ];
        add_row(objects, DISKS, disk_index(disk.id.0), values);
    }
}

fn links(objects: &mut MibObjects, service: &MediaService) {
    for (row, link) in (1..).zip(service.links()) {
        let rates = [link.capacity, link.promised].map(|rate| MibValue::Counter(rate.0 / 8));
        let [capacity, promised] = rates;
        add_row(objects, LINKS, row, [MibValue::Text(link.name), capacity, promised]);
    }
}

fn folders(objects: &mut MibObjects, service: &MediaService) {
    for (row, folder) in (1..).zip(service.folders()) {
        let disk = MibValue::Gauge(disk_index(folder.disk.0));
        let state = MibValue::Integer(if folder.is_away { 2 } else { 1 });
        add_row(objects, FOLDERS, row, [MibValue::Text(folder.path.display().to_string()), disk, state]);
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

/// A gauge stays at its highest value when what it shows goes beyond (RFC 2578 §7.1.7).
pub(super) fn gauge(value: u64) -> MibValue {
    MibValue::Gauge(u32::try_from(value).unwrap_or(u32::MAX))
}

/// Hundredths of a second, which begin anew after 497 days (RFC 2578 §7.1.8).
fn ticks(nanos: u64) -> MibValue {
    let hundredths = nanos / 10_000_000 % (u64::from(u32::MAX) + 1);
    MibValue::Ticks(u32::try_from(hundredths).expect("taken modulo"))
}
