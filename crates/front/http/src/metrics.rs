//! `/metrics`, in the Prometheus text format.
//!
//! Promise: names start with `isocast_`, values are in base units, no label names a stream or a client. Not here: where the
//! figures come from (`service::figures`).

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use api::{
    Alarm, AlarmSeverity, Disk, DiskFailure, Forecast, JobStatus, LinkDirection, LinkStatus, Phases, QuotaStatus,
    System, VOLUME_DISK_STATES, VolumeStatus, WebhookStatus,
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
    log_metrics(
        &mut page,
        [("access", service.requests.lines_dropped()), ("events", system.counts.event_lines_dropped)],
    );
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
    let (stats, requests) = (&service.connection_stats, &service.requests);
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    page.single("connections_total", "counter", "Connections accepted.", read(&stats.accepted));
    let help = "Connections turned away because too many were open.";
    page.single("connections_refused_total", "counter", help, read(&stats.refused));
    let help = "Connections that ended before they were sealed by TLS.";
    page.single("tls_handshakes_failed_total", "counter", help, read(&stats.handshakes_failed));
    let ftp = "FTP's commands about contents, folders and users, by class of reply.";
    for (name, help, counts) in [
        ("http_requests_total", "Requests finished, by class of status.", &requests.http),
        ("ftp_commands_total", ftp, &requests.ftp),
    ] {
        page.family(name, "counter", help);
        for (class, counter) in (1..).zip(counts) {
            page.sample(name, &format!("status=\"{class}xx\""), read(counter));
        }
    }
    page.single("panics_total", "counter", "Requests that a fault of the server ended.", read(&stats.panics));
}

fn log_metrics(page: &mut Exposition, logs: [(&str, u64); 2]) {
    page.family("log_lines_dropped_total", "counter", "Log lines dropped because the writer was behind, or failed.");
    for (log, dropped) in logs {
        page.sample("log_lines_dropped_total", &format!("log=\"{log}\""), dropped);
    }
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
    page.family("refusals_total", "counter", "Deliveries and recordings refused, by the resource that was short.");
    for (resource, count) in &counts.refused {
        page.sample("refusals_total", &format!("resource=\"{resource}\""), count);
    }
    let running = system.running;
    page.family("running", "gauge", "Streams and recordings under way, as they were begun.");
    let classes =
        [("constant", running.constant), ("best_effort", running.best_effort), ("recording", running.recordings)];
    for (class, count) in classes {
        page.sample("running", &format!("class=\"{class}\""), count);
    }
    page.family("room", "gauge", "How many more there is room for: streams of 8.8 Mbit/s, or recordings of 4 Mbit/s.");
    for (class, count) in [("stream", system.more_streams), ("recording", system.more_recordings)] {
        page.sample("room", &format!("class=\"{class}\""), count);
    }
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
    page.family("buffer_bytes", "gauge", "The data plane's buffers.");
    page.sample("buffer_bytes", "state=\"used\"", buffers.used_bytes);
    page.sample("buffer_bytes", "state=\"promised\"", buffers.promised_bytes);
    page.sample("buffer_bytes", "state=\"total\"", buffers.total_bytes);
    page.single("buffer_hits_total", "counter", "Pieces found in the buffers instead of read.", plane.buffer_hits);
    page.single("buffer_misses_total", "counter", "Pieces read.", plane.buffer_misses);
    page.family("tick_lateness_seconds", "histogram", "Ticks begun late.");
    histogram(page, "tick_lateness_seconds", "", &plane.tick_lateness);
}

/// Links and folders.
fn place_metrics(page: &mut Exposition, system: &System) {
    page.family("link_capacity_bytes_per_second", "gauge", "Rate that a network interface carries in a direction.");
    for link in &system.links {
        page.sample("link_capacity_bytes_per_second", &link_labels(link), link.capacity_bps / 8);
    }
    page.family(
        "link_promised_bytes_per_second",
        "gauge",
        "Rate promised to streams that leave, or recordings that arrive, by it.",
    );
    for link in &system.links {
        page.sample("link_promised_bytes_per_second", &link_labels(link), link.promised_bps / 8);
    }
    page.family("folder_away", "gauge", "1 while a folder differs from the one at the start, and is not served.");
    for folder in &system.folders {
        page.sample("folder_away", &label("folder", &folder.path), u8::from(folder.away));
    }
}

fn link_labels(link: &LinkStatus) -> String {
    let direction = if link.direction == LinkDirection::In { ",direction=\"in\"" } else { "" };
    format!("{}{direction}", label("link", &link.name))
}

fn disk_metrics(page: &mut Exposition, disks: &[Disk]) {
    let disks: Vec<_> = disks.iter().map(|disk| (label("disk", &disk.name), disk)).collect();
    let mut family = |name: &str, kind: &str, help: &str, samples: &dyn Fn(&mut Exposition, &str, &Disk)| {
        page.family(name, kind, help);
        disks.iter().for_each(|(label, disk)| samples(page, label, disk));
    };
    family(
        "disk_phase_seconds_total",
        "counter",
        "Time of a disk in the phases of its rounds.",
        &|page, label, disk| {
            let Phases { real_time, best_effort, idle } = disk.phase_seconds;
            for (phase, seconds) in [("real_time", real_time), ("best_effort", best_effort), ("idle", idle)] {
                page.sample("disk_phase_seconds_total", &format!("{label},phase=\"{phase}\""), seconds);
            }
        },
    );
    family("disk_bytes_total", "counter", "Bytes by class.", &|page, label, disk| {
        page.sample("disk_bytes_total", &format!("{label},class=\"real_time\""), disk.rt_bytes);
        page.sample("disk_bytes_total", &format!("{label},class=\"best_effort\""), disk.be_bytes);
    });
    family("disk_queued", "gauge", "Requests waiting by class.", &|page, label, disk| {
        page.sample("disk_queued", &format!("{label},class=\"real_time\""), disk.rt_queued);
        page.sample("disk_queued", &format!("{label},class=\"best_effort\""), disk.be_queued);
    });
    family("disk_errors_total", "counter", "Reads and writes that failed.", &|page, label, disk| {
        page.sample("disk_errors_total", label, disk.errors);
    });
    family("disk_failing", "gauge", "1 while the disk errs or does not answer.", &|page, label, disk| {
        page.sample("disk_failing", label, u8::from(disk.failing));
    });
    family("disk_hung", "gauge", "1 while the disk does not answer.", &|page, label, disk| {
        page.sample("disk_hung", label, u8::from(disk.failure == Some(DiskFailure::Hung)));
    });
    family("disk_promised_ratio", "gauge", "Share of the disk's time promised to streams.", &|page, label, disk| {
        page.sample("disk_promised_ratio", label, disk.promised_share);
    });
    family("disk_slowdown_ratio", "gauge", "Observed over predicted service time.", &|page, label, disk| {
        page.sample("disk_slowdown_ratio", label, disk.slowdown);
    });
    family(
        "disk_shed_streams_total",
        "counter",
        "Streams ended because the disk became too slow.",
        &|page, label, disk| {
            page.sample("disk_shed_streams_total", label, disk.shed_streams);
        },
    );
    family("disk_free_bytes", "gauge", "Bytes free for uploads.", &|page, label, disk| {
        page.sample("disk_free_bytes", label, disk.free_bytes);
    });
    family("block_lateness_seconds", "histogram", "Blocks read after their deadline.", &|page, label, disk| {
        histogram(page, "block_lateness_seconds", label, &disk.lateness);
    });
}

/// Volumes and their disks.
fn volume_metrics(page: &mut Exposition, volumes: &[VolumeStatus]) {
    let mut family = |name: &str, help: &str, value: &dyn Fn(&VolumeStatus) -> Option<f64>| {
        page.family(name, "gauge", help);
        for (volume, value) in volumes.iter().filter_map(|volume| Some((volume, value(volume)?))) {
            page.sample(name, &label("volume", &volume.name), value);
        }
    };
    let count = |number: u64| Some(real(number));
    family(
        "volume_degraded",
        "1 while a disk of the volume is out, missing, read only, failed or being filled.",
        &|volume| Some(f64::from(u8::from(volume.degraded))),
    );
    family("volume_contents", "Contents of the volume.", &|volume| count(volume.contents));
    family("volume_missing_contents", "Contents with a part on a disk that is not there.", &|volume| {
        count(volume.missing_contents)
    });
    family("volume_damaged_contents", "Contents with a part of which no copy is right.", &|volume| {
        count(volume.damaged_contents)
    });
    family("volume_free_bytes", "Room for contents.", &|volume| count(volume.free_bytes));
    let scrub = |volume: &VolumeStatus| volume.last_scrub.clone();
    family("volume_last_scrub_timestamp_seconds", "End of the last scrub, since 1970.", &|volume| {
        Some(scrub(volume)?.ended)
    });
    family("volume_last_scrub_lost_copies", "Copies that the last scrub could not make right.", &|volume| {
        count(scrub(volume)?.copies_lost)
    });
    let help = "Contents with a copy that the last scrub could not read, for its disk was away.";
    family("volume_last_scrub_unknown_contents", help, &|volume| count(scrub(volume)?.contents_unknown));
    let disks = volumes.iter().flat_map(|volume| {
        let labels = |number: usize| format!("{},disk=\"{number}\"", label("volume", &volume.name));
        volume.disks.iter().enumerate().map(move |(number, disk)| (labels(number), disk))
    });
    let disks: Vec<_> = disks.collect();
    page.family("volume_disk_state", "gauge", "1 for the state that a disk of a volume has, 0 for the others.");
    for (labels, disk) in &disks {
        for state in VOLUME_DISK_STATES {
            page.sample("volume_disk_state", &format!("{labels},state=\"{state}\""), u8::from(disk.state == state));
        }
    }
    page.family("volume_wrong_copies_total", "counter", "Copies on a disk of a volume that were found wrong.");
    disks.iter().for_each(|(labels, disk)| page.sample("volume_wrong_copies_total", labels, disk.wrong_copies));
}

fn alarm_metrics(page: &mut Exposition, alarms: &[Alarm], (quotas, forecasts): (&[QuotaStatus], &[Forecast])) {
    page.family("alarms", "gauge", "Things that are wrong now: /api/v1/alarms names them.");
    for (name, severity) in [("serious", AlarmSeverity::Serious), ("advice", AlarmSeverity::Advice)] {
        let count = alarms.iter().filter(|alarm| alarm.severity == severity).count();
        page.sample("alarms", &format!("severity=\"{name}\""), count);
    }
    page.family("quota_bytes", "gauge", "Bytes in a folder with a quota, stored and coming.");
    quotas.iter().for_each(|quota| page.sample("quota_bytes", &label("folder", &quota.folder), quota.used_bytes));
    page.family("quota_limit_bytes", "gauge", "Bytes that the folder may hold.");
    quotas.iter().for_each(|quota| page.sample("quota_limit_bytes", &label("folder", &quota.folder), quota.max_bytes));
    let forecast = |forecast: &Forecast| format!("kind=\"{}\",{}", forecast.kind, label("name", &forecast.name));
    page.family(
        "full_timestamp_seconds",
        "gauge",
        "When a disk, volume or quota is full at its present rate, since 1970.",
    );
    for (labels, full) in forecasts.iter().filter_map(|one| Some((forecast(one), one.full?))) {
        page.sample("full_timestamp_seconds", &labels, full);
    }
    page.family(
        "growth_bytes_per_day",
        "gauge",
        "Bytes by which the room of a disk, volume or quota shrinks in a day.",
    );
    for (labels, rate) in forecasts.iter().filter_map(|one| Some((forecast(one), one.bytes_per_day?))) {
        page.sample("growth_bytes_per_day", &labels, rate);
    }
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
    page.family("job_running", "gauge", "1 while the job runs.");
    for job in jobs {
        page.sample("job_running", &label("name", &job.name), u8::from(job.running.is_some()));
    }
    page.family("job_runs_total", "counter", "Runs that ended, by outcome.");
    for job in jobs {
        for (outcome, count) in [("succeeded", job.succeeded), ("failed", job.failed), ("stopped", job.stopped)] {
            page.sample("job_runs_total", &format!("{},outcome=\"{outcome}\"", label("name", &job.name)), count);
        }
    }
    page.family("job_last_success_timestamp_seconds", "gauge", "End of the last run that succeeded, since 1970.");
    for (job, ended) in jobs.iter().filter_map(|job| Some((job, job.last_success?))) {
        page.sample("job_last_success_timestamp_seconds", &label("name", &job.name), ended);
    }
    page.family("job_due_timestamp_seconds", "gauge", "When the job was due first after its last success, since 1970.");
    for (job, due) in jobs.iter().filter_map(|job| Some((job, job.due?))) {
        page.sample("job_due_timestamp_seconds", &label("name", &job.name), due);
    }
    page.family("job_last_duration_seconds", "gauge", "Duration of the last run.");
    for (job, last) in jobs.iter().filter_map(|job| Some((job, job.last.as_ref()?))) {
        page.sample("job_last_duration_seconds", &label("name", &job.name), last.seconds);
    }
    page.family("job_missed_total", "counter", "Runs that did not begin at their time.");
    for job in jobs {
        page.sample("job_missed_total", &label("name", &job.name), job.missed);
    }
    page.family("webhook_waiting", "gauge", "Events that wait for delivery.");
    for webhook in webhooks {
        page.sample("webhook_waiting", &label("webhook", &webhook.name), webhook.waiting);
    }
    page.family("webhook_events_total", "counter", "Events by outcome.");
    for webhook in webhooks {
        let outcomes = [("delivered", webhook.delivered), ("failed", webhook.failed), ("dropped", webhook.dropped)];
        for (outcome, count) in outcomes {
            let labels = format!("{},outcome=\"{outcome}\"", label("webhook", &webhook.name));
            page.sample("webhook_events_total", &labels, count);
        }
    }
    page.family("webhook_retries_total", "counter", "Attempts that failed and are repeated.");
    for webhook in webhooks {
        page.sample("webhook_retries_total", &label("webhook", &webhook.name), webhook.retried);
    }
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
