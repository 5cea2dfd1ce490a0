//! The machine, the server, its disks, and their figures over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::DiskFault;
use utoipa::ToSchema;

use crate::{LinkStatus, Stream};

/// Figures over time (`GET /api/v1/history`): means over equal periods; `null` where nothing was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FiguresHistory {
    /// Beginning of the first period, seconds since 1970.
    pub from: u64,
    /// Length of a period.
    pub period_seconds: u64,
    /// Sent by streams.
    pub sent_bps: Vec<Option<f64>>,
    /// Received by uploads.
    pub received_bps: Vec<Option<f64>>,
    /// Read and written by the schedule.
    pub disk_bps: Vec<Option<f64>>,
    /// Streams under way.
    pub streams: Vec<Option<f64>>,
    /// Busy share of all processors.
    pub cpu_share: Vec<Option<f64>>,
    /// Memory of this process.
    pub memory_bytes: Vec<Option<f64>>,
    /// Share of the time of all disks in which they served streams.
    pub real_time_share: Vec<Option<f64>>,
    /// The same for uploads and other best-effort work.
    pub best_effort_share: Vec<Option<f64>>,
}

/// A disk (`GET /api/v1/disks`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Its number.
    pub id: u16,
    /// Its name (`sda`).
    pub name: String,
    /// The served folders on it as the server's machine names them, or the disk's own path if it belongs to a volume.
    #[serde(default)]
    pub folders: Vec<String>,
    /// The model name that the drive reports.
    pub model: String,
    /// True if it has heads.
    pub rotational: bool,
    /// Bytes of the whole disk.
    pub capacity_bytes: u64,
    /// Bytes free for uploads.
    pub free_bytes: u64,
    /// True if it errs or does not answer.
    pub failing: bool,
    /// Which of the two; none while it is not failing.
    #[serde(default)]
    pub failure: Option<DiskFailure>,
    /// Shares of the last second in the phases; null before the second measurement.
    pub phases: Option<Phases>,
    /// Seconds in the phases since the start.
    #[serde(default)]
    pub phase_seconds: Phases,
    /// Bytes read for guaranteed streams since the start.
    pub rt_bytes: u64,
    /// Other bytes since the start.
    pub be_bytes: u64,
    /// Requests waiting, real-time.
    pub rt_queued: u64,
    /// Requests waiting, best-effort.
    pub be_queued: u64,
    /// Commits of uploads since the start.
    pub commits: u64,
    /// Reads and writes that failed since the start, of folders too.
    pub errors: u64,
    /// Share of its time promised to streams.
    pub promised_share: f64,
    /// Share of its time that may still be promised; the rest is kept for best effort.
    #[serde(default)]
    pub free_share: f64,
    /// How many more streams of 8.8 Mbit/s there is room for, in memory and on each link too, if each reads another content.
    #[serde(default)]
    pub more_streams: u64,
    /// How many such streams it carries in all.
    #[serde(default)]
    pub carries_streams: u64,
    /// The reason why its profile is not measured; null if it is measured.
    #[serde(default)]
    pub doubt: Option<String>,
    /// How many more recordings of 4 Mbit/s there is room for, instead of such streams.
    #[serde(default)]
    pub more_recordings: u64,
    /// How many such recordings it carries in all.
    #[serde(default)]
    pub carries_recordings: u64,
    /// Observed over predicted service time.
    pub slowdown: f64,
    /// Streams ended since the start because the disk became too slow for the promised rates.
    #[serde(default)]
    pub shed_streams: u64,
    /// Late blocks: the n-th counts those less than 2^n milliseconds late, the last all above.
    pub lateness: Vec<u64>,
    /// Streams that read from it.
    pub streams: u64,
}

/// Failure of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskFailure {
    /// It answers with errors.
    Erring,
    /// It does not answer.
    Hung,
}

impl From<DiskFault> for DiskFailure {
    fn from(fault: DiskFault) -> Self {
        match fault {
            DiskFault::Erring => Self::Erring,
            DiskFault::Hung => Self::Hung,
        }
    }
}

/// Parts of a disk's time, by its phases: shares that add up to about one, or seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Phases {
    /// Real-time reads.
    pub real_time: f64,
    /// Best-effort work.
    pub best_effort: f64,
    /// Nothing to do.
    pub idle: f64,
}

/// Figures of one second (`GET /api/v1/live`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveFigures {
    /// The machine and the server.
    pub system: System,
    /// The disks.
    pub disks: Vec<Disk>,
    /// The streams, recordings and uploads under way that began first, 200 at most.
    pub streams: Vec<Stream>,
    /// Further streams, recordings and uploads under way.
    pub unlisted: u64,
}

/// The machine and the server (`GET /api/v1/system`): the figures that HPSM's `disp` showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct System {
    /// The server's version.
    pub version: String,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Streams to clients under way.
    pub streams: u64,
    /// Uploads under way, recordings among them.
    pub uploads: u64,
    /// Connections open.
    pub connections: u64,
    /// Rate promised to streams.
    pub promised_bps: u64,
    /// Sent by streams in the last second.
    pub network_bps: u64,
    /// Of that, lent to sockets instead of copied.
    pub lent_bps: u64,
    /// Received by uploads in the last second.
    pub upload_bps: u64,
    /// Read and written by the schedule on all disks in the last second.
    pub disk_bps: u64,
    /// Busy share of all processors in the last second; null if the machine does not report it.
    pub cpu_share: Option<f64>,
    /// Processor seconds per second that this process took.
    pub process_cpu: Option<f64>,
    /// Memory of this process.
    pub memory_bytes: Option<u64>,
    /// Open files of this process.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// Memory of the machine.
    pub memory_total_bytes: Option<u64>,
    /// Sent and received on all interfaces but loopback in the last second.
    pub interfaces_bps: Option<u64>,
    /// The data plane's buffers.
    pub buffers: Buffers,
    /// Ticks not fed in time since the start.
    pub misses: u64,
    /// Streams refused since the start.
    pub refused: u64,
    /// How many more streams of 8.8 Mbit/s there is room for on all disks that do not fail, in memory and on each link, if each reads another
    /// content.
    #[serde(default)]
    pub more_streams: u64,
    /// How many more recordings of 4 Mbit/s there is room for on these disks instead.
    #[serde(default)]
    pub more_recordings: u64,
    /// Streams and recordings under way, as they were begun.
    #[serde(default)]
    pub running: RunningClasses,
    /// Sessions that run or hold a stream.
    #[serde(default)]
    pub sessions: u64,
    /// Memory of listings being read.
    #[serde(default)]
    pub listing_bytes: u64,
    /// Permissions and resources that the start missed, as its greeting names them (`io_uring`, `locked memory`).
    #[serde(default)]
    pub missing: Vec<String>,
    /// Network interfaces.
    #[serde(default)]
    pub links: Vec<LinkStatus>,
    /// Folders that are served, and disks of volumes.
    #[serde(default)]
    pub folders: Vec<FolderStatus>,
    /// Counts of the service since the start.
    #[serde(default)]
    pub counts: ServiceCounts,
    /// The data plane.
    #[serde(default)]
    pub plane: PlaneFigures,
}

/// Streams and recordings under way, as they were begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningClasses {
    /// Streams with a rate.
    pub constant: u64,
    /// Streams without one.
    pub best_effort: u64,
    /// Recordings.
    pub recordings: u64,
}

/// A folder that is served, or a disk of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FolderStatus {
    /// Its path, as the server's machine names it.
    pub path: String,
    /// The disk that it lies on.
    pub disk: u16,
    /// True while its path does not lead to the folder or disk of the start: it was unmounted, for example.
    pub away: bool,
}

/// Counts of the service since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceCounts {
    /// Deliveries started.
    pub streams_started: u64,
    /// Deliveries and recordings refused, by the resource that was short.
    pub refused: BTreeMap<String, u64>,
    /// Sessions that fell behind by more than their start-up delay.
    pub sessions_behind: u64,
    /// Small reads answered from memory, without a delivery.
    pub small_reads: u64,
    /// Bytes received by uploads.
    pub uploaded_bytes: u64,
    /// Recordings that came faster than their rate for longer than they may.
    pub recordings_over_rate: u64,
    /// Lines of the event log that were dropped because its writer was behind, or failed.
    pub event_lines_dropped: u64,
}

/// Figures of the data plane; counts are since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaneFigures {
    /// Streams in the delivery table.
    pub streams: u64,
    /// Bytes sent by streams.
    pub sent_bytes: u64,
    /// Of these, bytes lent to sockets instead of copied.
    pub lent_bytes: u64,
    /// Sends by streams.
    pub sends: u64,
    /// Processor time.
    pub cpu_seconds: f64,
    /// Pieces found in the buffers instead of read.
    pub buffer_hits: u64,
    /// Pieces read.
    pub buffer_misses: u64,
    /// Late ticks: the n-th number counts those less than 2^n milliseconds late, the last all above.
    pub tick_lateness: Vec<u64>,
}

/// The data plane's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Buffers {
    /// In use.
    pub used_bytes: u64,
    /// Promised to streams.
    pub promised_bytes: u64,
    /// In all.
    pub total_bytes: u64,
}
