//! `/metrics`, in the Prometheus text format.
//!
//! Promise: names start with `isocast_`, values are in base units, no label names a stream or a client. Not here: where the
//! figures come from (`service::figures`).

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;

use api::DiskFailure;

use service::access::{Permit, ToObserve};
use service::contents::{errors_of, failure};
use service::refusals::RESOURCES;

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
    let mut page = Exposition(String::with_capacity(8192));
    server_metrics(&mut page, shared);
    plane_metrics(&mut page, shared);
    place_metrics(&mut page, shared);
    disk_metrics(&mut page, shared);
    operation_metrics(&mut page, shared, permit);
    page.0
}

fn server_metrics(page: &mut Exposition, shared: &Shared) {
    let (service, stats) = (&shared.service, &shared.stats);
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    page.single("up_seconds", "gauge", "Time since the start.", service.uptime().as_secs_f64());
    page.single("connections", "gauge", "Connections open.", service.connections.open());
    page.single("connections_total", "counter", "Connections accepted.", read(&stats.connections));
    let help = "Connections turned away because too many were open.";
    page.single("connections_refused_total", "counter", help, read(&stats.connections_refused));
    page.family("http_requests_total", "counter", "Requests finished, by class of status.");
    for (class, counter) in (1..).zip(&stats.requests) {
        page.sample("http_requests_total", &format!("status=\"{class}xx\""), read(counter));
    }
    page.single("panics_total", "counter", "Requests that a fault of the server ended.", read(&stats.panics));
    page.single(
        "small_reads_total",
        "counter",
        "Small reads answered from memory, without a delivery.",
        read(&service.stats.small_reads),
    );
    let behind = "Sessions that fell behind their rate, over their contents, by more than their start-up delay.";
    page.single("sessions_behind_total", "counter", behind, read(&service.stats.sessions_behind));
    page.single(
        "recordings_over_rate_total",
        "counter",
        "Recordings that came faster than their rate for longer than they may.",
        read(&service.stats.recordings_over_rate),
    );
    page.single("streams_started_total", "counter", "Deliveries started.", read(&service.stats.streams_started));
    page.single(
        "streams_refused_total",
        "counter",
        "Deliveries and recordings refused.",
        service.stats.refusals.total(),
    );
    page.family("refusals_total", "counter", "Deliveries and recordings refused, by what was short.");
    for (resource, count) in RESOURCES.iter().zip(service.stats.refusals.by_resource()) {
        page.sample("refusals_total", &format!("resource=\"{resource}\""), count);
    }
    let running = service.running.counts();
    page.family("running", "gauge", "Streams and recordings under way, as they were begun.");
    let classes =
        [("constant", running.constant), ("best_effort", running.best_effort), ("recording", running.recordings)];
    for (class, count) in classes {
        page.sample("running", &format!("class=\"{class}\""), count);
    }
    page.single("uploads", "gauge", "Uploads under way.", read(&service.stats.uploads_open));
    page.single("upload_bytes_total", "counter", "Bytes received by uploads.", read(&service.stats.bytes_uploaded));
    page.single("listing_bytes", "gauge", "Memory of listings being read.", service.listing_bytes());
    page.single("sessions", "gauge", "Sessions that run or hold a stream.", service.session_count());
    page.family("log_lines_dropped_total", "counter", "Log lines dropped because the writer was behind, or failed.");
    page.sample("log_lines_dropped_total", "log=\"access\"", shared.access.dropped());
    page.sample("log_lines_dropped_total", "log=\"events\"", service.events.dropped());
}

fn plane_metrics(page: &mut Exposition, shared: &Shared) {
    let plane = &shared.service.gauges.plane;
    let page_bytes = units::limits::CACHE_PAGE_BYTES;
    page.single("streams", "gauge", "Streams in the delivery table.", plane.streams.get());
    page.single("promised_bytes_per_second", "gauge", "Rate promised to streams.", plane.promised_bps.get() / 8);
    page.single("sent_bytes_total", "counter", "Bytes sent by streams.", plane.sent_bytes.get());
    page.single("sends_total", "counter", "Sends by streams.", plane.sends.get());
    page.single("lent_bytes_total", "counter", "Bytes lent to sockets instead of copied.", plane.lent_bytes.get());
    page.single("misses_total", "counter", "Ticks whose bytes were not ready when due.", plane.misses.get());
    page.single(
        "plane_cpu_seconds_total",
        "counter",
        "Processor time of the data plane.",
        seconds(plane.processor_nanos.get()),
    );
    page.family("buffer_bytes", "gauge", "The data plane's buffers.");
    page.sample("buffer_bytes", "state=\"used\"", plane.pages_used.get() * page_bytes);
    page.sample("buffer_bytes", "state=\"promised\"", plane.pages_promised.get() * page_bytes);
    page.sample("buffer_bytes", "state=\"total\"", plane.pages.get() * page_bytes);
    page.single("buffer_hits_total", "counter", "Pieces found in the buffers instead of read.", plane.cache_hits.get());
    page.single("buffer_misses_total", "counter", "Pieces read.", plane.cache_misses.get());
    page.family("tick_lateness_seconds", "histogram", "Ticks begun late.");
    histogram(page, "tick_lateness_seconds", "", &plane.tick_lateness);
}

/// Links and folders.
fn place_metrics(page: &mut Exposition, shared: &Shared) {
    let links = shared.service.links();
    page.family("link_capacity_bytes_per_second", "gauge", "What a network interface carries.");
    for link in &links {
        page.sample("link_capacity_bytes_per_second", &label("link", &link.name), link.capacity.0 / 8);
    }
    page.family("link_promised_bytes_per_second", "gauge", "Rate promised to streams that leave by it.");
    for link in &links {
        page.sample("link_promised_bytes_per_second", &label("link", &link.name), link.promised.0 / 8);
    }
    page.family("folder_away", "gauge", "1 while a folder is not what it was at the start, and not served.");
    for folder in shared.service.folders() {
        let label = label("folder", &folder.path.display().to_string());
        page.sample("folder_away", &label, u8::from(folder.is_away));
    }
}

fn disk_metrics(page: &mut Exposition, shared: &Shared) {
    let described = shared.service.contents.disks();
    let disks: Vec<_> = described
        .iter()
        .filter_map(|disk| {
            Some((label("disk", &disk.device.name), shared.service.gauges.disks.get(usize::from(disk.id.0))?, disk))
        })
        .collect();
    let mut family = |name: &str, kind: &str, help: &str, samples: &dyn Fn(&mut Exposition)| {
        page.family(name, kind, help);
        samples(page);
    };
    family("disk_phase_seconds_total", "counter", "Time of a disk in the phases of its rounds.", &|page| {
        for (label, gauges, _) in &disks {
            for (phase, gauge) in ["real_time", "best_effort", "idle"].iter().zip(&gauges.phase_nanos) {
                page.sample("disk_phase_seconds_total", &format!("{label},phase=\"{phase}\""), seconds(gauge.get()));
            }
        }
    });
    family("disk_bytes_total", "counter", "Bytes by class.", &|page| {
        for (label, gauges, _) in &disks {
            page.sample("disk_bytes_total", &format!("{label},class=\"real_time\""), gauges.rt_bytes.get());
            page.sample("disk_bytes_total", &format!("{label},class=\"best_effort\""), gauges.be_bytes.get());
        }
    });
    family("disk_queued", "gauge", "Requests waiting by class.", &|page| {
        for (label, gauges, _) in &disks {
            page.sample("disk_queued", &format!("{label},class=\"real_time\""), gauges.rt_queued.get());
            page.sample("disk_queued", &format!("{label},class=\"best_effort\""), gauges.be_queued.get());
        }
    });
    family("disk_errors_total", "counter", "Reads and writes that failed.", &|page| {
        for (label, gauges, disk) in &disks {
            page.sample("disk_errors_total", label, errors_of(disk, gauges));
        }
    });
    family("disk_failing", "gauge", "1 while the disk errs or does not answer.", &|page| {
        for (label, gauges, disk) in &disks {
            page.sample("disk_failing", label, u8::from(failure(disk.failing, gauges).is_some()));
        }
    });
    family("disk_hung", "gauge", "1 while the disk does not answer.", &|page| {
        for (label, gauges, disk) in &disks {
            let hung = failure(disk.failing, gauges) == Some(DiskFailure::Hung);
            page.sample("disk_hung", label, u8::from(hung));
        }
    });
    family("disk_promised_ratio", "gauge", "Share of the disk's time promised to streams.", &|page| {
        for (label, gauges, _) in &disks {
            page.sample("disk_promised_ratio", label, millionths(gauges.promised_ppm.get()));
        }
    });
    family("disk_slowdown_ratio", "gauge", "Observed over predicted service time.", &|page| {
        for (label, gauges, _) in &disks {
            page.sample("disk_slowdown_ratio", label, millionths(gauges.slowdown_ppm.get()));
        }
    });
    family("disk_shed_streams_total", "counter", "Streams ended because the disk became too slow.", &|page| {
        for (label, gauges, _) in &disks {
            page.sample("disk_shed_streams_total", label, gauges.shed_streams.get());
        }
    });
    family("disk_free_bytes", "gauge", "Bytes free for uploads.", &|page| {
        disks.iter().for_each(|(label, _, disk)| page.sample("disk_free_bytes", label, disk.free_bytes));
    });
    family("block_lateness_seconds", "histogram", "Blocks read after their deadline.", &|page| {
        disks.iter().for_each(|(label, gauges, _)| histogram(page, "block_lateness_seconds", label, &gauges.lateness));
    });
}

/// Jobs and webhooks.
fn operation_metrics(page: &mut Exposition, shared: &Shared, permit: &Permit<ToObserve>) {
    let (jobs, webhooks) = (shared.service.jobs(permit), shared.service.webhooks(permit));
    page.family("job_running", "gauge", "1 while the job runs.");
    for job in &jobs {
        page.sample("job_running", &label("job", &job.name), u8::from(job.running.is_some()));
    }
    page.family("job_runs_total", "counter", "Runs that ended, by outcome.");
    for job in &jobs {
        for (outcome, count) in [("succeeded", job.succeeded), ("failed", job.failed), ("stopped", job.stopped)] {
            page.sample("job_runs_total", &format!("{},outcome=\"{outcome}\"", label("job", &job.name)), count);
        }
    }
    page.family("job_missed_total", "counter", "Runs that did not begin at their time.");
    for job in &jobs {
        page.sample("job_missed_total", &label("job", &job.name), job.missed);
    }
    page.family("webhook_waiting", "gauge", "Events that wait for delivery.");
    for webhook in &webhooks {
        page.sample("webhook_waiting", &label("webhook", &webhook.name), webhook.waiting);
    }
    page.family("webhook_events_total", "counter", "Events by what became of them.");
    for webhook in &webhooks {
        let outcomes = [("delivered", webhook.delivered), ("failed", webhook.failed), ("dropped", webhook.dropped)];
        for (outcome, count) in outcomes {
            let labels = format!("{},outcome=\"{outcome}\"", label("webhook", &webhook.name));
            page.sample("webhook_events_total", &labels, count);
        }
    }
    page.family("webhook_retries_total", "counter", "Attempts that failed and are repeated.");
    for webhook in &webhooks {
        page.sample("webhook_retries_total", &label("webhook", &webhook.name), webhook.retried);
    }
}

/// The plane's buckets (less than 2^n milliseconds late) as cumulative ones. The sum is not kept by the plane.
fn histogram(page: &mut Exposition, name: &str, labels: &str, buckets: &[dataplane::gauges::Gauge]) {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut count = 0u64;
    let mut bound = 0.001;
    for (at, bucket) in buckets.iter().enumerate() {
        count = count.saturating_add(bucket.get());
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

fn seconds(nanos: u64) -> f64 {
    units::Nanos(nanos).as_secs_f64()
}

#[allow(clippy::cast_precision_loss, reason = "for display")]
fn millionths(value: u64) -> f64 {
    value as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(label("folder", "a\"b\\c\nd\te"), "folder=\"a\\\"b\\\\c\\nd\te\"");
    }
}
