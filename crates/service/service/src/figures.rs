//! Live figures of the data plane, the store, the service and the machine, as all front ends show them.
//!
//! Promise: reading them costs the data plane nothing; rates are differences of two readings a second apart. Not here: rendering (the
//! front ends).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use api::{
    Buffers, Class, Direction, Disk, DiskFailure, FiguresHistory, HeldUpBy, LinkDirection, LiveFigures, Phases,
    PlaneFigures, ServiceCounts, SessionFigures, Stream, System,
};
use dataplane::gauges::{DiskGauges, Gauge, Gauges, PlaneGauges, StreamGauges};
use tokio::sync::watch;
use units::limits::{CACHE_PAGE_BYTES, EXAMPLE_RATE};
use units::{BitRate, Nanos, StreamId, real};

use crate::access::{Permit, ToObserve};
use crate::account_changes::ListPart;
use crate::contents::{DiskInfo, errors_of};
use crate::counts::AllCounts;
use crate::events::unix_seconds;
use crate::history::HistorySlot;
use crate::links::{links, payload};
use crate::media_service::MediaService;
use crate::refusals::RESOURCES;
use crate::running::RunningStream;
use crate::session_account::SessionAccount;

pub use crate::volumes::volumes;

/// Streams that live figures list. Chosen: rows that a person may still look through.
const LISTED: usize = 200;

/// All figures that change from second to second.
#[must_use]
pub fn live(service: &MediaService, permit: &Permit<ToObserve>) -> LiveFigures {
    let streams = streams(service, &ListPart { after: 0, limit: LISTED }, permit);
    let unlisted = service.running.lock().len().saturating_sub(LISTED) as u64;
    LiveFigures { system: system(service, permit), disks: disks(service, permit), streams, unlisted }
}

/// The number of the latest reading of all counts, which changes every second.
#[must_use]
pub fn readings(service: &MediaService, _permit: &Permit<ToObserve>) -> watch::Receiver<u64> {
    service.readings.number()
}

/// A part of the streams, recordings and uploads under way, by number. Those of others are without content and client, if the permit sees no
/// names.
#[must_use]
pub fn streams(service: &MediaService, part: &ListPart<u64>, permit: &Permit<ToObserve>) -> Vec<Stream> {
    let running = service.running.lock();
    let mut ids: Vec<StreamId> = running.keys().copied().filter(|id| id.0 > part.after).collect();
    ids.sort_unstable_by_key(|id| id.0);
    ids.truncate(part.limit);
    let gauges = slots(&service.gauges);
    let accounts = service.sessions.read(|sessions| sessions.accounts());
    let described = |id: &StreamId| {
        described_stream(
            (*id, &running[id]),
            gauges.get(&id.0).copied(),
            accounts.get(id),
            sees_names(permit, &running[id]),
        )
    };
    ids.iter().map(described).collect()
}

/// True if the permit sees the content and client of a stream.
pub(crate) fn sees_names(permit: &Permit<ToObserve>, known: &RunningStream) -> bool {
    permit.sees_others() || (known.user.is_some() && known.user.as_deref() == permit.user())
}

pub(crate) fn described_stream(
    (id, known): (StreamId, &RunningStream),
    gauges: Option<&StreamGauges>,
    account: Option<&SessionAccount>,
    is_named: bool,
) -> Stream {
    let read = |field: fn(&StreamGauges) -> u64| gauges.map_or(0, field);
    let windows = read(|g| g.jitter_windows.get());
    let named = |name: String| if is_named { name } else { String::new() };
    let session = account.filter(|account| account.contents > 0).map(|account| SessionFigures {
        contents: account.contents,
        lag_seconds: account.lag.as_secs_f64(),
        j_percent: account.j_percent(),
    });
    Stream {
        id: id.0,
        path: named(known.path.clone()),
        client: named(known.client.to_string()),
        direction: if known.incoming.is_some() { Direction::In } else { Direction::Out },
        class: if is_paced(known, gauges) { Class::Constant } else { Class::BestEffort },
        rate_bps: known.rate.map_or(0, |rate| rate.0),
        sent_bytes: read(|g| g.sent_bytes.get()),
        received_bytes: known.incoming.as_ref().map_or(0, |progress| progress.received.load(Ordering::Relaxed)),
        over_rate: known.incoming.as_ref().is_some_and(|progress| progress.over_rate.load(Ordering::Relaxed)),
        j_percent: (windows > 0).then(|| real(read(|g| g.jitter_sum_ppm.get())) / real(windows) / 1e4),
        misses: read(|g| g.misses.get()),
        buffered_bytes: read(|g| g.buffered_bytes.get()),
        blocked: read(|g| g.blocked.get()) != 0,
        held_up_by: gauges.and_then(held_up_by),
        user: known.user.clone().filter(|_| is_named),
        disk: known.disk.0,
        started: unix_seconds(known.started),
        passed_to: known.passed_to.map(|stream| stream.0),
        session,
    }
}

/// True if a stream has its rate. A stream that lost its reservation continues as best effort; a recording has no entry in the plane's
/// table.
pub(crate) fn is_paced(known: &RunningStream, gauges: Option<&StreamGauges>) -> bool {
    known.rate.is_some() && gauges.is_none_or(|gauges| gauges.rate_bps.get() > 0)
}

/// The cause of a stream's delay, client or disk: while a client takes nothing, nothing becomes due.
fn held_up_by(gauges: &StreamGauges) -> Option<HeldUpBy> {
    match (gauges.blocked.get(), gauges.late.get()) {
        (0, 0) => None,
        (0, _) => Some(HeldUpBy::Disk),
        _ => Some(HeldUpBy::Client),
    }
}

/// Slots in use, by their streams' numbers.
pub(crate) fn slots(gauges: &Gauges) -> HashMap<u64, &StreamGauges> {
    gauges.streams.iter().map(|slot| (slot.id.get(), slot)).filter(|(id, _)| *id != 0).collect()
}

/// The disks.
#[must_use]
pub fn disks(service: &MediaService, _permit: &Permit<ToObserve>) -> Vec<Disk> {
    let looks = service.readings.last();
    let none = DiskGauges::default();
    let described = service.admin.disks();
    described
        .into_iter()
        .map(|disk| {
            let gauges = service.gauges.disks.get(usize::from(disk.id.0)).unwrap_or(&none);
            let phases = looks.as_ref().and_then(|(older, newer)| phases(older, newer, usize::from(disk.id.0)));
            described_disk(service, disk, gauges, phases)
        })
        .collect()
}

/// True if no content can be served now: every folder is away, and there is no volume.
#[must_use]
pub fn every_folder_is_away(service: &MediaService) -> bool {
    let folders = service.disk_states.folders();
    !folders.is_empty() && folders.iter().all(|folder| folder.away)
}

/// True if no disk could serve a stream now.
#[must_use]
pub fn every_disk_fails(service: &MediaService) -> bool {
    let disks = service.admin.disks();
    !disks.is_empty() && disks.iter().all(|disk| disk.failure.is_some())
}

/// How many more streams, and recordings, all disks that do not fail have room for.
fn room_left(service: &MediaService) -> (u64, u64) {
    let disks = service.admin.disks();
    let good = disks.iter().filter(|disk| disk.failure.is_none());
    let gauges = good.filter_map(|disk| service.gauges.disks.get(usize::from(disk.id.0)));
    let (mut streams, mut recordings, mut stream_bytes) = (0, 0, 0);
    for gauges in gauges {
        streams += room(gauges, &gauges.carries_streams);
        recordings += room(gauges, &gauges.carries_recordings);
        stream_bytes = gauges.stream_bytes.get().max(stream_bytes);
    }
    (streams.min(room_without_disks(service, stream_bytes)), recordings)
}

/// The number of further streams, each with `stream_bytes` of memory, that memory and each link have room for.
fn room_without_disks(service: &MediaService, stream_bytes: u64) -> u64 {
    let in_memory = service.gauges.plane.pages_left.get() * CACHE_PAGE_BYTES / stream_bytes.max(1);
    let config = service.config();
    let outward = config.link_figures.iter().filter(|link| link.direction != LinkDirection::In);
    let left = outward.filter_map(|link| Some(service.gauges.links.get(usize::from(link.id.0))?.left_bps.get()));
    left.map(|bps| payload(BitRate(bps)) / EXAMPLE_RATE.0).fold(in_memory, u64::min)
}

fn described_disk(service: &MediaService, disk: DiskInfo, gauges: &DiskGauges, phases: Option<Phases>) -> Disk {
    let doubt = service.disk_states.doubt_of(disk.id);
    let room_beside = room_without_disks(service, gauges.stream_bytes.get());
    let errors = errors_of(&disk, gauges);
    let (promised, free) = (gauges.promised_ppm.get(), gauges.free_ppm.get());
    Disk {
        id: disk.id.0,
        name: disk.device.name,
        folders: disk.roots.iter().map(|folder| folder.display().to_string()).collect(),
        model: disk.device.model,
        rotational: disk.device.rotational,
        capacity_bytes: disk.device.capacity_bytes,
        free_bytes: disk.free_bytes,
        failing: disk.failure.is_some(),
        failure: disk.failure.map(DiskFailure::from),
        phases,
        phase_seconds: phase_seconds(gauges),
        rt_bytes: gauges.rt_bytes.get(),
        be_bytes: gauges.be_bytes.get(),
        rt_queued: gauges.rt_queued.get(),
        be_queued: gauges.be_queued.get(),
        commits: gauges.commits.get(),
        errors,
        promised_share: real(promised) / 1e6,
        free_share: real(free) / 1e6,
        more_streams: room(gauges, &gauges.carries_streams).min(room_beside),
        carries_streams: gauges.carries_streams.get(),
        doubt,
        more_recordings: room(gauges, &gauges.carries_recordings),
        carries_recordings: gauges.carries_recordings.get(),
        slowdown: real(gauges.slowdown_ppm.get()) / 1e6,
        shed_streams: gauges.shed_streams.get(),
        lateness: gauges.lateness.iter().map(|bucket| bucket.get()).collect(),
        streams: gauges.streams.get(),
    }
}

/// Number of further streams that a disk has room for, out of all that it carries.
fn room(disk: &DiskGauges, carries: &Gauge) -> u64 {
    let (promised, free) = (disk.promised_ppm.get(), disk.free_ppm.get());
    carries.get() * free / (promised + free).max(1)
}

fn phase_seconds(gauges: &DiskGauges) -> Phases {
    let [real_time, best_effort, idle] = gauges.phase_nanos.each_ref().map(|nanos| Nanos(nanos.get()).as_secs_f64());
    Phases { real_time, best_effort, idle }
}

fn phases(older: &AllCounts, newer: &AllCounts, disk: usize) -> Option<Phases> {
    let (before, after) = (older.phases.get(disk)?, newer.phases.get(disk)?);
    let spent: [f64; 3] = std::array::from_fn(|phase| real(after[phase].saturating_sub(before[phase])));
    let total: f64 = spent.iter().sum();
    let share = |phase: usize| if total > 0.0 { spent[phase] / total } else { 0.0 };
    (total > 0.0).then(|| Phases { real_time: share(0), best_effort: share(1), idle: share(2) })
}

/// The machine and the server.
#[must_use]
pub fn system(service: &MediaService, _permit: &Permit<ToObserve>) -> System {
    let looks = service.readings.last();
    let per_second = |field: fn(&AllCounts) -> u64| {
        looks.as_ref().map_or(0.0, |(older, newer)| {
            let seconds = newer.at.duration_since(older.at).as_secs_f64().max(1e-3);
            real(field(newer).saturating_sub(field(older))) / seconds
        })
    };
    let machines = looks.as_ref().and_then(|(older, newer)| Some((older.machine?, newer.machine?)));
    let latest = looks.as_ref().and_then(|(_, newer)| newer.machine);
    let plane = &service.gauges.plane;
    let elapsed = looks.as_ref().map_or(1.0, |(o, n)| n.at.duration_since(o.at).as_secs_f64().max(1e-3));
    let (more_streams, more_recordings) = room_left(service);
    System {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: service.life.uptime().as_secs_f64(),
        streams: service.running.deliveries(),
        uploads: service.stats.uploads_open.load(Ordering::Relaxed),
        connections: service.connections.open() as u64,
        promised_bps: plane.promised_bps.get(),
        network_bps: whole(per_second(|look| look.sent_bytes) * 8.0),
        lent_bps: whole(per_second(|look| look.lent_bytes) * 8.0),
        upload_bps: whole(per_second(|look| look.uploaded_bytes) * 8.0),
        disk_bps: whole(per_second(|look| look.disk_bytes) * 8.0),
        cpu_share: machines.map(|(older, newer)| {
            let total = newer.cpu_total_seconds - older.cpu_total_seconds;
            if total > 0.0 { (newer.cpu_busy_seconds - older.cpu_busy_seconds) / total } else { 0.0 }
        }),
        process_cpu: machines.map(|(older, newer)| (newer.process_seconds - older.process_seconds) / elapsed),
        memory_bytes: latest.map(|machine| machine.memory_bytes),
        open_files: latest.map(|machine| machine.open_files),
        memory_total_bytes: latest.map(|machine| machine.memory_total_bytes),
        interfaces_bps: machines.map(|(older, newer)| {
            whole(real(newer.interface_bytes.saturating_sub(older.interface_bytes)) * 8.0 / elapsed)
        }),
        buffers: Buffers {
            used_bytes: plane.pages_used.get() * CACHE_PAGE_BYTES,
            promised_bytes: plane.pages_promised.get() * CACHE_PAGE_BYTES,
            total_bytes: plane.pages.get() * CACHE_PAGE_BYTES,
        },
        misses: plane.misses.get(),
        refused: service.stats.refusals.total(),
        more_streams,
        more_recordings,
        running: service.running.counts(),
        sessions: service.sessions.read(|sessions| sessions.len() as u64),
        listing_bytes: service.listings.bytes() as u64,
        missing: service.missing.clone(),
        links: links(service),
        folders: service.disk_states.folders(),
        counts: counts(service),
        plane: plane_figures(plane),
    }
}

fn counts(service: &MediaService) -> ServiceCounts {
    let stats = &service.stats;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let refused = RESOURCES.iter().map(|resource| (*resource).to_owned()).zip(stats.refusals.by_resource());
    ServiceCounts {
        streams_started: read(&stats.streams_started),
        refused: refused.collect(),
        sessions_behind: read(&stats.sessions_behind),
        small_reads: read(&stats.small_reads),
        uploaded_bytes: read(&stats.bytes_uploaded),
        recordings_over_rate: read(&stats.recordings_over_rate),
        event_lines_dropped: service.events.dropped(),
    }
}

fn plane_figures(plane: &PlaneGauges) -> PlaneFigures {
    PlaneFigures {
        streams: plane.streams.get(),
        sent_bytes: plane.sent_bytes.get(),
        lent_bytes: plane.lent_bytes.get(),
        sends: plane.sends.get(),
        cpu_seconds: Nanos(plane.processor_nanos.get()).as_secs_f64(),
        buffer_hits: plane.cache_hits.get(),
        buffer_misses: plane.cache_misses.get(),
        tick_lateness: plane.tick_lateness.iter().map(|bucket| bucket.get()).collect(),
    }
}

/// Adds the figures of this second to their history.
pub(crate) fn note_history(service: &MediaService, now: SystemTime) {
    let permit = Permit::of_server();
    let (system, disks) = (system(service, &permit), disks(service, &permit));
    let phases: Vec<Phases> = disks.iter().filter_map(|disk| disk.phases).collect();
    let mean = |share: fn(&Phases) -> f64| phases.iter().map(share).sum::<f64>() / real(phases.len().max(1) as u64);
    service.history.note(
        now,
        [
            real(system.network_bps),
            real(system.upload_bps),
            real(system.disk_bps),
            real(system.streams),
            system.cpu_share.unwrap_or_default(),
            real(system.memory_bytes.unwrap_or_default()),
            mean(|phases| phases.real_time),
            mean(|phases| phases.best_effort),
        ],
    );
}

/// The figures of the last `seconds`, thirty days at most.
#[must_use]
pub fn history(service: &MediaService, seconds: u64, now: SystemTime, _permit: &Permit<ToObserve>) -> FiguresHistory {
    let (period_seconds, points) = service.history.points(seconds, now);
    let column = |figure: usize| points.iter().map(|point| point.mean(figure)).collect();
    FiguresHistory {
        from: points.first().map_or(0, HistorySlot::start),
        period_seconds,
        sent_bps: column(0),
        received_bps: column(1),
        disk_bps: column(2),
        streams: column(3),
        cpu_share: column(4),
        memory_bytes: column(5),
        real_time_share: column(6),
        best_effort_share: column(7),
    }
}

/// Rounded; negative and not-a-number become zero.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate, as promised")]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}
