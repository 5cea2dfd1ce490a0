//! `/metrics`, in the Prometheus text format.
//!
//! Promise: names start with `isocast_`, values are in base units, no label names a stream or a client. Not here: where the
//! figures come from (`service::figures`).

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use api::{
    Alarm, AlarmSeverity, Disk, DiskFailure, Forecast, JobStatus, LinkDirection, LinkStatus, Phases, QuotaStatus,
    ScrubStatus, System, VOLUME_DISK_STATES, VolumeStatus, WebhookStatus,
};
use service::MediaService;
use service::access::{Permit, ToObserve};
use service::alarms::AlarmSources;
use service::config::LastReload;
use service::events::unix_seconds;
use service::figures;
use units::real;

use crate::shared::Shared;

/// The Prometheus text format.
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP isocast_{name} {help}\n# TYPE isocast_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "isocast_{name}{braces} {value}");
    }

    /// A family, with the labels and value of each of its samples.
    fn each<V: Display>(&mut self, name: &str, kind: &str, help: &str, samples: impl IntoIterator<Item = (String, V)>) {
        self.family(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, &labels, value);
        }
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, "", value);
    }
}

/// The page.
pub(crate) fn metrics(shared: &Shared, permit: &Permit<ToObserve>) -> String {
    let (service, mut page) = (&shared.service, Exposition(String::with_capacity(8192)));
    let system = figures::system(service, permit);
    front_metrics(&mut page, service);
    let dropped = [("access", service.requests.lines_dropped()), ("events", system.counts.event_lines_dropped)];
    let help = "Log lines dropped because the writer was behind, or failed.";
    page.each("log_lines_dropped_total", "counter", help, dropped.map(|(log, count)| (label("log", log), count)));
    service_metrics(&mut page, &system);
    plane_metrics(&mut page, &system);
    place_metrics(&mut page, &system);
    let sources = AlarmSources::read(service, permit);
    disk_metrics(&mut page, &sources.disks);
    operation_metrics(&mut page, &sources.jobs, &sources.webhooks);
    volume_metrics(&mut page, &sources.volumes);
    alarm_metrics(&mut page, &sources.alarms(), (&sources.quotas, &sources.forecasts));
    reload_metrics(&mut page, &sources.last_reload);
    page.0
}

/// Figures of the front ends.
fn front_metrics(page: &mut Exposition, service: &MediaService) {
    let stats = &service.connection_stats;
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    page.single("connections_total", "counter", "Connections accepted.", read(&stats.accepted));
    let help = "Connections turned away because too many were open.";
    page.single("connections_refused_total", "counter", help, read(&stats.refused));
    let help = "Connections that ended before they were sealed by TLS.";
    page.single("tls_handshakes_failed_total", "counter", help, read(&stats.handshakes_failed));
    for front in service.requests.fronts() {
        let classes = (1..).zip(&front.by_class);
        let samples = classes.map(|(class, counter)| (format!("status=\"{class}xx\""), read(counter)));
        page.each(front.metric, "counter", front.help, samples);
    }
    page.single("panics_total", "counter", "Requests that a fault of the server ended.", read(&stats.panics));
}

fn service_metrics(page: &mut Exposition, system: &System) {
    let counts = &system.counts;
    let process = |page: &mut String, name: &str, help: &str, value: f64| {
        let _ = writeln!(page, "# HELP process_{name} {help}\n# TYPE process_{name} gauge\nprocess_{name} {value}");
    };
    let start = unix_seconds(SystemTime::now()) - system.uptime_seconds;
    process(&mut page.0, "start_time_seconds", "Start of the process, since 1970.", start);
    if let Some(files) = system.open_files {
        process(&mut page.0, "open_fds", "Open files of the process.", real(files));
    }
    page.family("build_info", "gauge", "1, with the version of the program.");
    page.sample("build_info", &format!("version=\"{}\"", system.version), 1);
    page.single("up_seconds", "gauge", "Time since the start.", system.uptime_seconds);
    page.single("connections", "gauge", "Connections open.", system.connections);
    let help = "Small reads answered from memory, without a delivery.";
    page.single("small_reads_total", "counter", help, counts.small_reads);
    let behind = "Sessions that fell behind their rate, over their contents, by more than their start-up delay.";
    page.single("sessions_behind_total", "counter", behind, counts.sessions_behind);
    let help = "Recordings that came faster than their rate for longer than they may.";
    page.single("recordings_over_rate_total", "counter", help, counts.recordings_over_rate);
    page.single("streams_started_total", "counter", "Deliveries started.", counts.streams_started);
    page.single("streams_refused_total", "counter", "Deliveries and recordings refused.", system.refused);
    let help = "Deliveries and recordings refused, by the resource that was short.";
    let refused = counts.refused.iter().map(|(resource, count)| (label("resource", resource), *count));
    page.each("refusals_total", "counter", help, refused);
    let (running, class) = (system.running, |(class, count): (&str, u64)| (label("class", class), count));
    let classes =
        [("constant", running.constant), ("best_effort", running.best_effort), ("recording", running.recordings)];
    page.each("running", "gauge", "Streams and recordings under way, as they were begun.", classes.map(class));
    let help = "How many more there is room for: streams of 8.8 Mbit/s, or recordings of 4 Mbit/s.";
    let room = [("stream", system.more_streams), ("recording", system.more_recordings)];
    page.each("room", "gauge", help, room.map(class));
    page.single("uploads", "gauge", "Uploads under way.", system.uploads);
    page.single("upload_bytes_total", "counter", "Bytes received by uploads.", counts.uploaded_bytes);
    page.single("listing_bytes", "gauge", "Memory of listings being read.", system.listing_bytes);
    page.single("sessions", "gauge", "Sessions that run or hold a stream.", system.sessions);
}

fn plane_metrics(page: &mut Exposition, system: &System) {
    let (plane, buffers) = (&system.plane, &system.buffers);
    page.single("streams", "gauge", "Streams in the delivery table.", plane.streams);
    page.single("promised_bytes_per_second", "gauge", "Rate promised to streams.", system.promised_bps / 8);
    page.single("sent_bytes_total", "counter", "Bytes sent by streams.", plane.sent_bytes);
    page.single("sends_total", "counter", "Sends by streams.", plane.sends);
    page.single("lent_bytes_total", "counter", "Bytes lent to sockets instead of copied.", plane.lent_bytes);
    page.single("misses_total", "counter", "Ticks without their bytes ready when due.", system.misses);
    page.single("plane_cpu_seconds_total", "counter", "Processor time of the data plane.", plane.cpu_seconds);
    let states = [("used", buffers.used_bytes), ("promised", buffers.promised_bytes), ("total", buffers.total_bytes)];
    let states = states.map(|(state, bytes)| (label("state", state), bytes));
    page.each("buffer_bytes", "gauge", "The data plane's buffers.", states);
    page.single("buffer_hits_total", "counter", "Pieces found in the buffers instead of read.", plane.buffer_hits);
    page.single("buffer_misses_total", "counter", "Pieces read.", plane.buffer_misses);
    page.family("tick_lateness_seconds", "histogram", "Ticks begun late.");
    histogram(page, "tick_lateness_seconds", "", &plane.tick_lateness);
}

/// Links and folders.
fn place_metrics(page: &mut Exposition, system: &System) {
    let links = |value: fn(&LinkStatus) -> u64| system.links.iter().map(move |link| (link_labels(link), value(link)));
    let help = "Rate that a network interface carries in a direction.";
    page.each("link_capacity_bytes_per_second", "gauge", help, links(|link| link.capacity_bps / 8));
    let help = "Rate promised to streams that leave, or recordings that arrive, by it.";
    page.each("link_promised_bytes_per_second", "gauge", help, links(|link| link.promised_bps / 8));
    let help = "1 while a folder differs from the one at the start, and is not served.";
    let away = system.folders.iter().map(|folder| (label("folder", &folder.path), u8::from(folder.away)));
    page.each("folder_away", "gauge", help, away);
}

fn link_labels(link: &LinkStatus) -> String {
    let direction = if link.direction == LinkDirection::In { ",direction=\"in\"" } else { "" };
    format!("{}{direction}", label("link", &link.name))
}

fn disk_metrics(page: &mut Exposition, disks: &[Disk]) {
    let name = |disk: &Disk| label("disk", &disk.name);
    let of = |value: fn(&Disk) -> u64| disks.iter().map(move |disk| (name(disk), value(disk)));
    let shares = |value: fn(&Disk) -> f64| disks.iter().map(move |disk| (name(disk), value(disk)));
    let classes = |value: fn(&Disk) -> [(&'static str, u64); 2]| {
        let labelled = move |disk: &Disk, (class, value)| (format!("{},class=\"{class}\"", name(disk)), value);
        disks.iter().flat_map(move |disk| value(disk).map(|one| labelled(disk, one)))
    };
    let phases = disks.iter().flat_map(|disk| {
        let Phases { real_time, best_effort, idle } = disk.phase_seconds;
        let phases = [("real_time", real_time), ("best_effort", best_effort), ("idle", idle)];
        phases.map(|(phase, seconds)| (format!("{},phase=\"{phase}\"", name(disk)), seconds))
    });
    page.each("disk_phase_seconds_total", "counter", "Time of a disk in the phases of its rounds.", phases);
    let bytes = classes(|disk| [("real_time", disk.rt_bytes), ("best_effort", disk.be_bytes)]);
    page.each("disk_bytes_total", "counter", "Bytes by class.", bytes);
    let queued = classes(|disk| [("real_time", disk.rt_queued), ("best_effort", disk.be_queued)]);
    page.each("disk_queued", "gauge", "Requests waiting by class.", queued);
    page.each("disk_errors_total", "counter", "Reads and writes that failed.", of(|disk| disk.errors));
    let failing = of(|disk| u64::from(disk.failing));
    page.each("disk_failing", "gauge", "1 while the disk errs or does not answer.", failing);
    let hung = of(|disk| u64::from(disk.failure == Some(DiskFailure::Hung)));
    page.each("disk_hung", "gauge", "1 while the disk does not answer.", hung);
    let promised = shares(|disk| disk.promised_share);
    page.each("disk_promised_ratio", "gauge", "Share of the disk's time promised to streams.", promised);
    let help = "Observed over predicted service time.";
    page.each("disk_slowdown_ratio", "gauge", help, shares(|disk| disk.slowdown));
    let help = "Streams ended because the disk became too slow.";
    page.each("disk_shed_streams_total", "counter", help, of(|disk| disk.shed_streams));
    page.each("disk_free_bytes", "gauge", "Bytes free for uploads.", of(|disk| disk.free_bytes));
    page.family("block_lateness_seconds", "histogram", "Blocks read after their deadline.");
    disks.iter().for_each(|disk| histogram(page, "block_lateness_seconds", &name(disk), &disk.lateness));
}

/// Volumes and their disks.
fn volume_metrics(page: &mut Exposition, volumes: &[VolumeStatus]) {
    let name = |volume: &VolumeStatus| label("volume", &volume.name);
    let all = |value: fn(&VolumeStatus) -> u64| volumes.iter().map(move |volume| (name(volume), value(volume)));
    let scrubs = |value: fn(&ScrubStatus) -> f64| {
        volumes.iter().filter_map(move |volume| Some((name(volume), value(volume.last_scrub.as_ref()?))))
    };
    let help = "1 while a disk of the volume is out, missing, read only, failed or being filled.";
    page.each("volume_degraded", "gauge", help, all(|volume| u64::from(volume.degraded)));
    page.each("volume_contents", "gauge", "Contents of the volume.", all(|volume| volume.contents));
    let help = "Contents with a part on a disk that is not there.";
    page.each("volume_missing_contents", "gauge", help, all(|volume| volume.missing_contents));
    let help = "Contents with a part of which no copy is right.";
    page.each("volume_damaged_contents", "gauge", help, all(|volume| volume.damaged_contents));
    page.each("volume_free_bytes", "gauge", "Room for contents.", all(|volume| volume.free_bytes));
    let help = "End of the last scrub, since 1970.";
    page.each("volume_last_scrub_timestamp_seconds", "gauge", help, scrubs(|scrub| scrub.ended));
    let help = "Copies that the last scrub could not make right.";
    page.each("volume_last_scrub_lost_copies", "gauge", help, scrubs(|scrub| real(scrub.copies_lost)));
    let help = "Contents with a copy that the last scrub could not read, for its disk was away.";
    page.each("volume_last_scrub_unknown_contents", "gauge", help, scrubs(|scrub| real(scrub.contents_unknown)));
    let disks =
        volumes.iter().flat_map(|volume| (0..).zip(&volume.disks).map(move |(number, disk)| (volume, number, disk)));
    let disks =
        disks.map(|(volume, number, disk): (_, usize, _)| (format!("{},disk=\"{number}\"", name(volume)), disk));
    let disks: Vec<_> = disks.collect();
    let states = disks.iter().flat_map(|(labels, disk)| {
        VOLUME_DISK_STATES.map(|state| (format!("{labels},state=\"{state}\""), u8::from(disk.state == state)))
    });
    let help = "1 for the state that a disk of a volume has, 0 for the others.";
    page.each("volume_disk_state", "gauge", help, states);
    let wrong = disks.iter().map(|(labels, disk)| (labels.clone(), disk.wrong_copies));
    page.each("volume_wrong_copies_total", "counter", "Copies on a disk of a volume that were found wrong.", wrong);
}

fn alarm_metrics(page: &mut Exposition, alarms: &[Alarm], (quotas, forecasts): (&[QuotaStatus], &[Forecast])) {
    let count = |severity| alarms.iter().filter(|alarm| alarm.severity == severity).count();
    let severities = [("serious", AlarmSeverity::Serious), ("advice", AlarmSeverity::Advice)];
    let counts = severities.map(|(name, severity)| (label("severity", name), count(severity)));
    page.each("alarms", "gauge", "Things that are wrong now: /api/v1/alarms names them.", counts);
    let quotas =
        |value: fn(&QuotaStatus) -> u64| quotas.iter().map(move |quota| (label("folder", &quota.folder), value(quota)));
    let help = "Bytes in a folder with a quota, stored and coming.";
    page.each("quota_bytes", "gauge", help, quotas(|quota| quota.used_bytes));
    page.each("quota_limit_bytes", "gauge", "Bytes that the folder may hold.", quotas(|quota| quota.max_bytes));
    let forecasts = |value: fn(&Forecast) -> Option<f64>| {
        let labels = |one: &Forecast| format!("kind=\"{}\",{}", one.kind, label("name", &one.name));
        forecasts.iter().filter_map(move |one| Some((labels(one), value(one)?)))
    };
    let help = "When a disk, volume or quota is full at its present rate, since 1970.";
    page.each("full_timestamp_seconds", "gauge", help, forecasts(|one| one.full));
    let help = "Bytes by which the room of a disk, volume or quota shrinks in a day.";
    page.each("growth_bytes_per_day", "gauge", help, forecasts(|one| one.bytes_per_day));
}

/// By the names that Prometheus has for its own.
fn reload_metrics(page: &mut Exposition, last: &LastReload) {
    let help = "1 if the configuration that was read last is in force, 0 if it was refused.";
    page.single("config_last_reload_successful", "gauge", help, u8::from(last.refused.is_none()));
    let help = "When the configuration in force was read, since 1970.";
    let since = unix_seconds(last.in_force_since);
    page.single("config_last_reload_success_timestamp_seconds", "gauge", help, since);
}

/// Jobs and webhooks.
fn operation_metrics(page: &mut Exposition, jobs: &[JobStatus], webhooks: &[WebhookStatus]) {
    let name = |job: &JobStatus| label("name", &job.name);
    let times =
        |value: fn(&JobStatus) -> Option<f64>| jobs.iter().filter_map(move |job| Some((name(job), value(job)?)));
    let running = jobs.iter().map(|job| (name(job), u8::from(job.running.is_some())));
    page.each("job_running", "gauge", "1 while the job runs.", running);
    let runs = jobs.iter().flat_map(|job| {
        let outcomes = [("succeeded", job.succeeded), ("failed", job.failed), ("stopped", job.stopped)];
        outcomes.map(|(outcome, count)| (format!("{},outcome=\"{outcome}\"", name(job)), count))
    });
    page.each("job_runs_total", "counter", "Runs that ended, by outcome.", runs);
    let help = "End of the last run that succeeded, since 1970.";
    page.each("job_last_success_timestamp_seconds", "gauge", help, times(|job| job.last_success));
    let help = "When the job was due first after its last success, since 1970.";
    page.each("job_due_timestamp_seconds", "gauge", help, times(|job| job.due));
    let last = times(|job| Some(job.last.as_ref()?.seconds));
    page.each("job_last_duration_seconds", "gauge", "Duration of the last run.", last);
    let missed = jobs.iter().map(|job| (name(job), job.missed));
    page.each("job_missed_total", "counter", "Runs that did not begin at their time.", missed);
    let of = |value: fn(&WebhookStatus) -> u64| {
        webhooks.iter().map(move |webhook| (label("webhook", &webhook.name), value(webhook)))
    };
    page.each("webhook_waiting", "gauge", "Events that wait for delivery.", of(|webhook| webhook.waiting));
    let events = webhooks.iter().flat_map(|webhook| {
        let outcomes = [("delivered", webhook.delivered), ("failed", webhook.failed), ("dropped", webhook.dropped)];
        outcomes.map(|(outcome, count)| (format!("{},outcome=\"{outcome}\"", label("webhook", &webhook.name)), count))
    });
    page.each("webhook_events_total", "counter", "Events by outcome.", events);
    let help = "Attempts that failed and are repeated.";
    page.each("webhook_retries_total", "counter", help, of(|webhook| webhook.retried));
}

/// The plane's buckets (less than 2^n milliseconds late) as cumulative ones. The sum is not kept by the plane.
fn histogram(page: &mut Exposition, name: &str, labels: &str, buckets: &[u64]) {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut count = 0u64;
    let mut bound = 0.001;
    for (at, bucket) in buckets.iter().enumerate() {
        count = count.saturating_add(*bucket);
        if at + 1 < buckets.len() {
            page.sample(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), count);
            bound *= 2.0;
        }
    }
    page.sample(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"+Inf\""), count);
    page.sample(&format!("{name}_count"), labels, count);
}

/// A name as a label, escaped as the text format says: names that differ are labels that differ.
fn label(key: &str, name: &str) -> String {
    let mut label = format!("{key}=\"");
    for character in name.chars() {
        match character {
            '\\' => label.push_str("\\\\"),
            '"' => label.push_str("\\\""),
            '\n' => label.push_str("\\n"),
            other => label.push(other),
        }
    }
    label + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(label("folder", "a\"b\\c\nd\te"), "folder=\"a\\\"b\\\\c\\nd\te\"");
    }
}
