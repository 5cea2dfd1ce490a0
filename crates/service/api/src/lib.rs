//! Documents that go over the wire as JSON: listings, streams, disks, the system.
//!
//! Promise: plain values in base units (bits per second, bytes, seconds, shares of one); a field is added, never changed. Not here:
//! where the values come from (`http` and, of jobs and webhooks, `isocast`), requests for them (`client`).

mod accounts;
mod alarms;
mod budget;
mod certificate;
mod link;
mod modified;
mod settings;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use accounts::{
    AccountEntry, FirstAccount, GrantEntry, GroupEntry, LinkEntry, LinkText, LoginStatus, NewAccount, NewLink,
    NewPassword, NewReservation, NewToken, PasswordLogin, ReservationEntry, ReservationPhase, RightWord, TokenEntry,
    TokenText,
};
pub use alarms::{
    Alarm, AlarmCause, AlarmSeverity, Forecast, QuotaStatus, RemovableContent, Removals, VolumeDiskAlarm,
};
pub use budget::{BudgetAmounts, BudgetStatus};
pub use certificate::CertificateStatus;
pub use link::{LinkDirection, LinkStatus};
pub use modified::{MODIFIED_FIELD, MODIFIED_SECONDS_MAX, format_modified, parse_modified};
pub use settings::{SettingEntry, SettingSource, SettingValue, SettingsPatch};

/// One line of a directory's listing (`GET /media/<dir>/?format=json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListingEntry {
    /// Its name in the directory, not encoded.
    pub name: String,
    /// File or directory.
    pub kind: EntryKind,
    /// The name is a link to it; left out if it is not.
    #[serde(rename = "link", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_link: bool,
    /// Bytes; zero for a directory.
    pub size: u64,
    /// Last modification, RFC 3339 in UTC.
    pub modified: String,
    /// The rate it needs, if known.
    pub rate_bps: Option<u64>,
    /// The part of the content from which that rate was found, in lower case with hyphens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_source: Option<String>,
    /// Its size over the time it plays. A stream sends media ahead before it plays, and so needs a little less of a short content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bps: Option<u64>,
}

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
    /// The same of uploads and other best effort.
    pub best_effort_share: Vec<Option<f64>>,
}

/// An item of the trash (`GET /api/v1/trash`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrashEntry {
    /// Its name in the trash.
    pub id: String,
    /// The path that it had, not encoded.
    pub path: String,
    /// File or directory.
    pub kind: EntryKind,
    /// Its bytes, with those of all below it.
    pub bytes: u64,
    /// When it was removed, seconds since 1970.
    pub removed: f64,
    /// When it goes for good, if it is not too much before.
    pub expires: f64,
}

/// Details of a content (`GET /api/v1/contents/details`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentDetails {
    /// Its container; none: it is none of those that the server looks into.
    pub container: Option<String>,
    /// The formats in it, as far as they are known: pictures, sound, texts.
    #[serde(default)]
    pub codecs: Vec<String>,
    /// The disks that it lies on, those of the first copy first.
    pub disks: Vec<String>,
    /// Its copies.
    pub copies: u64,
}

/// The result of a search (`GET /api/v1/contents/search`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundNames {
    /// Contents and folders, those with names that begin with the first word first.
    pub entries: Vec<FoundEntry>,
    /// True if further ones match, or not all names could be looked through.
    pub is_part: bool,
}

/// A content or folder that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundEntry {
    /// Its path below all contents, not encoded.
    pub path: String,
    /// Its line in the listing of its folder.
    pub entry: ListingEntry,
}

/// File or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A content.
    File,
    /// A directory.
    Directory,
}

/// A stream under way (`GET /api/v1/streams`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Its number, unique in the process.
    pub id: u64,
    /// The content, below `/media/`.
    pub path: String,
    /// The client's address.
    pub client: String,
    /// Which way it goes.
    #[serde(default)]
    pub direction: Direction,
    /// Guaranteed, or at the rate that is left over.
    pub class: Class,
    /// Granted rate; zero for best effort.
    pub rate_bps: u64,
    /// Bytes the socket took; zero for a recording or an upload.
    pub sent_bytes: u64,
    /// Bytes of a recording or an upload that came; zero for a delivery.
    #[serde(default)]
    pub received_bytes: u64,
    /// True of a recording that was further ahead of its rate than it may be.
    #[serde(default)]
    pub over_rate: bool,
    /// J over windows of one second, mean since the start, in percent; none before the first window is over.
    pub j_percent: Option<f64>,
    /// Ticks with bytes that were not ready.
    pub misses: u64,
    /// Bytes read ahead.
    pub buffered_bytes: u64,
    /// True while the client takes nothing.
    pub blocked: bool,
    /// The cause of its delay now; none while its bytes leave as they are due.
    #[serde(default)]
    pub held_up_by: Option<HeldUpBy>,
    /// The account that it was admitted for; none where it has none, or another may not see it.
    #[serde(default)]
    pub user: Option<String>,
    /// The disk it reads from or is written to.
    pub disk: u16,
    /// When it started, seconds since 1970.
    pub started: f64,
    /// The stream of the same viewer that took its reservation over; it continues as best effort.
    #[serde(default)]
    pub passed_to: Option<u64>,
    /// The session that it is read in, once that has sent a content whole.
    #[serde(default)]
    pub session: Option<SessionFigures>,
}

/// A stream, and the reasons for its rate and its delay (`GET /api/v1/streams/{id}`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StreamExplanation {
    /// The stream.
    pub stream: Stream,
    /// The source of its rate.
    pub rate_from: RateOrigin,
    /// Its place, by age, among the streams with a rate on its disk: one that becomes too slow for all ends the youngest first. None for
    /// best effort.
    pub place: Option<StreamPlace>,
    /// The budgets that it is charged to.
    pub budgets: Vec<String>,
    /// All of it in English sentences.
    pub reasons: Vec<String>,
    /// The facts that these sentences state, in the same order.
    #[serde(default)]
    pub facts: Vec<StreamFact>,
}

/// A fact about the rate or the delay of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum StreamFact {
    /// It waits for its admission.
    Waits,
    /// It has no rate: it gets what the streams with a rate leave.
    NoRate,
    /// There was no room at its rate, and its path is configured for best effort then.
    NoRoom {
        /// The source of that rate.
        from: RateOrigin,
    },
    /// A newer stream of its viewer took its rate over.
    PassedOn {
        /// The rate.
        rate_bps: u64,
        /// The newer stream.
        to: u64,
    },
    /// It has lost its rate until it is read again and there is room.
    Lost {
        /// The rate.
        rate_bps: u64,
    },
    /// Its rate is reserved.
    Reserved {
        /// The rate.
        rate_bps: u64,
        /// The source of it.
        from: RateOrigin,
    },
    /// Its place, by age, among the streams with a rate on its disk: if that becomes too slow for all, the youngest end.
    Placed(StreamPlace),
    /// Its client takes nothing.
    ClientHolds,
    /// Bytes are due that its disk has not read.
    DiskHolds {
        /// Observed over predicted service time of the disk.
        slowdown: f64,
    },
    /// Nothing holds it up; its sender was ahead of its rate.
    Ahead,
    /// Nothing holds it up.
    OnTime {
        /// Ticks that were late.
        misses: u64,
    },
}

/// The source of a stream's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateOrigin {
    /// The request, or the signed link that it was made by.
    Request,
    /// The content needs it.
    Content,
    /// The setting of the content's path.
    Path,
    /// None: it gets what the streams with a rate leave.
    LeftOver,
}

/// A place among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamPlace {
    /// The place; the oldest has 1.
    pub place: u64,
    /// All of them.
    pub of: u64,
}

/// Deliveries of a session against its promised rate, over its contents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionFigures {
    /// Contents that were sent whole.
    pub contents: u64,
    /// By how much the last of them came later than it was due, s.
    pub lag_seconds: f64,
    /// The time by which they were late, in percent of the time that they last; none before the second.
    pub j_percent: Option<f64>,
}

/// The cause of a stream's delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HeldUpBy {
    /// Its client takes nothing.
    Client,
    /// The bytes that are due have not been read.
    Disk,
}

/// Which way a stream goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To a client.
    #[default]
    Out,
    /// From a client: a recording, or an upload without a rate.
    In,
}

/// Guaranteed, or at the rate that is left over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// At a guaranteed rate.
    Constant,
    /// At the rate that is left over.
    BestEffort,
}

/// A disk (`GET /api/v1/disks`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Its number.
    pub id: u16,
    /// Its name (`sda`).
    pub name: String,
    /// The folders on it that are served, or its own path if it is one of a volume, as the server's machine names them.
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
    /// Shares of the last second in the phases; none before two looks.
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
    /// The reason for which its figures are not measured; none where they are.
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
    /// Streams ended since the start because it had become too slow for all that it had promised.
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
    /// Busy share of all processors in the last second; none if the machine does not say.
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

/// An upload that its client can continue (`GET /api/v1/uploads`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadStatus {
    /// Its name below `/upload/`.
    pub id: String,
    /// The content that it becomes, below `/media/`.
    pub path: String,
    /// Durable bytes.
    pub offset: u64,
    /// Bytes in all, if they are known.
    pub length: Option<u64>,
    /// End of its time, seconds since 1970.
    pub expires: u64,
    /// Address of the client that began it.
    pub client: String,
    /// Its user; none: no login was needed.
    pub user: Option<String>,
}

/// A job of the configuration (`GET /api/v1/jobs`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobStatus {
    /// Its name.
    pub name: String,
    /// `keep`, `copy`, `scrub`, `measure` or `command`.
    pub kind: String,
    /// When it is due, as the configuration says it.
    pub schedule: String,
    /// The time zone of that; none: the machine's.
    pub time_zone: Option<String>,
    /// When it runs next, seconds since 1970; none: never.
    pub next: Option<f64>,
    /// The run under way.
    pub running: Option<JobProgress>,
    /// The last run that ended.
    pub last: Option<JobRun>,
    /// The end of the last run that succeeded, seconds since 1970.
    pub last_success: Option<f64>,
    /// When it was due first after its last success, seconds since 1970: one that is over has no success since.
    pub due: Option<f64>,
    /// Runs that succeeded since the start of the server.
    pub succeeded: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were stopped.
    pub stopped: u64,
    /// Runs that did not begin at their time and were not made up for.
    pub missed: u64,
}

/// A job's run under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobProgress {
    /// When it began, seconds since 1970.
    pub started: f64,
    /// Bytes copied, removed or read so far.
    pub bytes: u64,
    /// Bytes that it will have copied or read; zero where that is not known.
    pub bytes_total: u64,
    /// True once it got the order to stop.
    pub stopping: bool,
}

/// A run of a job that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRun {
    /// When it began, seconds since 1970.
    pub started: f64,
    /// How long it took.
    pub seconds: f64,
    /// How it came out.
    pub outcome: JobOutcome,
    /// Why it failed, in words.
    pub reason: Option<String>,
    /// Files copied, contents removed or read.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// How a run of a job came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum JobOutcome {
    /// All was done.
    Succeeded,
    /// Not all was done.
    Failed,
    /// Stopped on a client's request, or by the end of the server.
    Stopped,
}

/// A webhook of the configuration (`GET /api/v1/webhooks`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookStatus {
    /// Its name.
    pub name: String,
    /// Events that wait to be sent.
    pub waiting: u64,
    /// Events that it accepted.
    pub delivered: u64,
    /// Tries that failed.
    pub retried: u64,
    /// Events that it did not accept in any of the tries.
    pub failed: u64,
    /// Events left out because too many waited.
    pub dropped: u64,
    /// The target answered 410: it gets no more events until the configuration is read again.
    pub ended: bool,
    /// Why the last try failed; none: it did not.
    pub error: Option<String>,
}

/// A volume that is served (`GET /api/v1/volumes`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// How contents are laid over its disks: `span`, `stripe` or `mirror`.
    pub layout: String,
    /// Folders with contents laid in another way, and the layout of each.
    pub folder_layouts: BTreeMap<String, String>,
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// Contents.
    pub contents: u64,
    /// True while a disk of it is out, missing, read only, failed or being filled.
    pub degraded: bool,
    /// Contents with a part on a disk that is not there.
    pub missing_contents: u64,
    /// Contents with a part of which no copy is right, as far as that was found since the start.
    pub damaged_contents: u64,
    /// Room for contents.
    pub free_bytes: u64,
    /// Its disks, by their numbers in the volume.
    pub disks: Vec<VolumeDiskStatus>,
    /// Copies that were moved to another zone of their disk since the start, for the contents that are read most.
    pub moved_copies: u64,
    /// Upkeep under way beside the streams.
    pub upkeep: Option<UpkeepStatus>,
    /// The upkeep that ended last.
    pub last_upkeep: Option<UpkeepStatus>,
    /// The last scrub that came to its end.
    pub last_scrub: Option<ScrubStatus>,
}

impl VolumeStatus {
    /// Bytes of contents that it has room for when it is empty; on a mirror each takes two.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let copies = if self.layout == "mirror" { 2 } else { 1 };
        let disks = self.disks.iter().filter(|disk| disk.state != "left");
        disks.map(|disk| disk.units * self.unit_bytes).sum::<u64>() / copies
    }
}

/// The last scrub of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScrubStatus {
    /// Its end, seconds since 1970.
    pub ended: f64,
    /// Bytes of contents that were looked at.
    pub seen_bytes: u64,
    /// Copies that were wrong and are written anew.
    pub copies_written: u64,
    /// Copies that could not be made right.
    pub copies_lost: u64,
    /// Contents with a copy that it could not read, for its disk was away.
    pub contents_unknown: u64,
}

/// States of a volume's disk, as [`VolumeDiskStatus::state`] has them.
pub const VOLUME_DISK_STATES: [&str; 7] = ["active", "filling", "out", "left", "missing", "read only", "failed"];

/// A disk of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeDiskStatus {
    /// Its number among the server's disks; none if it is gone.
    pub disk: Option<u16>,
    /// As it was named.
    pub path: Option<String>,
    /// `active`; `filling`; `out` if it failed; `left` if it was removed; `missing` if it was away at the start and the volume takes no
    /// changes for it; `read only` if it failed and has the only copy of the bytes on it; `failed` if the volume takes no changes since
    /// it failed, until a restart.
    pub state: String,
    /// The failure for which it is out or read only, or for which a copy on it stays wrong.
    pub error: Option<String>,
    /// Copies on it that were found wrong since the start.
    pub wrong_copies: u64,
    /// Bytes of it that are used.
    pub size_bytes: u64,
    /// Its units, free and used.
    pub units: u64,
    /// Its free units; none where nothing is written to it.
    pub free_units: Option<u64>,
}

/// A disk of a volume is filled or emptied, or every copy is read and mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpkeepStatus {
    /// `fill`, `drain`, `scrub`, `balance` (disks equally full) or `zones` (the contents that are read most move outwards).
    pub kind: String,
    /// Bytes of contents that were looked at.
    pub seen_bytes: u64,
    /// Bytes of all contents when it began.
    pub total_bytes: u64,
    /// Copies that were written.
    pub copies_written: u64,
    /// Copies that could not be made right.
    pub copies_lost: u64,
    /// Contents with a copy that a scrub could not read, for its disk is away: they are neither right nor lost.
    pub contents_unknown: u64,
    /// The numbers of these disks in the volume.
    pub disks_away: Vec<u8>,
    /// Why it ended before it was done; none if it was done, or is under way.
    pub error: Option<String>,
}
