//! Events as JSON lines: the data plane's, those of requests, of the settings and of the server itself.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use api::Forecast;
use dataplane::control::{Ending, Event};
use serde_json::{Value, json};
use units::{BitRate, DiskFault, StreamId};

use crate::budgets::BudgetRefusal;
use crate::contents::{DiskInfo, StoreError, StoreEvent};
use crate::log::{KindLimit, Log, LogWriter};
use crate::operations::Requester;
use crate::recent_events::RecentEvents;
use crate::reservation_ahead::{ReservationAhead, ReservationWish};
use crate::session_account::SessionAccount;

/// The kinds of events there are, but for those about the logs and the webhooks themselves.
pub const KINDS: [&str; 51] = [
    "archive_broken",
    "budget_refused",
    "reservation_kept",
    "reservation_passed",
    "reservation_waits",
    "server_started",
    "server_stopping",
    "configuration_reloaded",
    "configuration_refused",
    "clock_set_ahead",
    "stream_refused",
    "stream_ended",
    "stream_stopped",
    "upload_ended",
    "recording_kept",
    "recording_lost",
    "upload_lost",
    "recording_damaged",
    "recording_over_rate",
    "root_away",
    "root_back",
    "volume_disk",
    "upkeep_ended",
    "copy_mended",
    "copy_unwritten",
    "copy_lost",
    "content_deleted",
    "trash_failed",
    "login",
    "provider_failed",
    "access_changed",
    "access_refused",
    "full_soon",
    "content_moved",
    "folder_made",
    "miss",
    "session_behind",
    "disk_slower",
    "disk_faster",
    "disk_overloaded",
    "disk_failing",
    "disk_recovered",
    "certificate_loaded",
    "certificate_refused",
    "disk_measured",
    "job_started",
    "job_ended",
    "job_failed",
    "job_stop_asked",
    "job_missed",
    WEBHOOK_FAILED,
];

/// Events that name a loss, or a part that fails: webhooks pass them on before all others.
const URGENT: [&str; 16] = [
    "volume_disk",
    "disk_failing",
    "disk_overloaded",
    "disk_slower",
    "root_away",
    "recording_lost",
    "recording_damaged",
    "upload_lost",
    "copy_unwritten",
    "copy_lost",
    "session_behind",
    "full_soon",
    "job_failed",
    "configuration_refused",
    "certificate_refused",
    WEBHOOK_FAILED,
];

/// Tells whether webhooks pass events of this kind on before others.
#[must_use]
pub fn is_urgent(kind: &str) -> bool {
    URGENT.contains(&kind)
}

/// An event as it is written.
#[derive(Debug, Clone)]
pub struct EventLine {
    kind: String,
    text: String,
    /// It names a client, an account or a content.
    is_private: bool,
}

/// The event log.
pub struct Events {
    log: Log,
    limit: KindLimit,
    /// For refusals of requests by which no account is proven: anybody may send them.
    unproven: KindLimit,
    /// The latest ones, for clients that follow them.
    pub(crate) latest: RecentEvents,
}

impl Events {
    /// Writes to `log`.
    #[must_use]
    pub fn new(log: Log) -> Self {
        let unproven = KindLimit::new(10, Duration::from_secs(60));
        Self { log, limit: KindLimit::default(), unproven, latest: RecentEvents::default() }
    }

    /// Writes an event, unless too many of its kind came within this second.
    pub fn tell(&self, event: EventLine) {
        if self.limit.admits(&event.kind, Instant::now()) {
            self.write(event);
        }
    }

    fn write(&self, event: EventLine) {
        self.latest.add(event.text.as_str().into(), event.is_private);
        self.log.line(event.text);
    }

    /// Writes how many events of which kind were left out.
    pub fn tell_left_out(&self, now: SystemTime) {
        let instant = Instant::now();
        for (kind, count) in self.limit.left_out(instant).into_iter().chain(self.unproven.left_out(instant)) {
            self.write(stamped(json!({ "event": "left_out", "of": kind, "count": count }), now));
        }
    }

    /// As [`Events::tell`], for events that happen often: the event is made only if it is written.
    pub(crate) fn tell_limited(&self, kind: &str, event: impl FnOnce() -> EventLine) {
        if self.limit.admits(kind, Instant::now()) {
            self.write(event());
        }
    }

    /// Writes that the login, token or link of a request gives no right to it, or is not valid, for this reason.
    pub fn tell_refused(&self, (method, path): (&str, &str), by: Requester<'_>, reason: &str) {
        let kind = "access_refused";
        let limit = if by.user.is_some() { &self.limit } else { &self.unproven };
        if limit.admits(kind, Instant::now()) {
            let path: String = path.chars().take(1024).collect();
            let object = json!({
                "event": kind, "method": method, "path": path, "reason": reason, "client": by.address.to_string(),
                "user": by.user,
            });
            self.write(stamped(object, SystemTime::now()));
        }
    }

    /// Writes to `writer` from now on.
    pub fn reopen(&self, writer: LogWriter) {
        self.log.reopen(Some(writer));
    }

    /// Lines dropped because the writer was behind.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.log.dropped()
    }
}

/// A disk errs or does not answer, or is used again.
pub(crate) fn disk_failure(disk: &DiskInfo, now: SystemTime) -> EventLine {
    let mut object = of_disk(if disk.failure.is_some() { "disk_failing" } else { "disk_recovered" }, disk);
    if let Some(failure) = disk.failure {
        object["hung"] = (failure == DiskFault::Hung).into();
    }
    stamped(object, now)
}

/// The figures of a disk are measured ones from now on.
pub(crate) fn disk_measured(disk: &DiskInfo, now: SystemTime) -> EventLine {
    stamped(of_disk("disk_measured", disk), now)
}

/// An event of a disk, with its number, name and folders as the figures have them.
fn of_disk(event: &str, disk: &DiskInfo) -> Value {
    let folders: Vec<_> = disk.roots.iter().map(|folder| folder.display().to_string()).collect();
    json!({ "event": event, "disk": disk.id.0, "name": disk.device.name, "folders": folders })
}

/// One event of the data plane as a line of the event log; none for the events that [`disk_failure`] logs.
pub fn line(event: &Event, now: SystemTime) -> Option<EventLine> {
    let object = match event {
        Event::DiskFailing { .. } | Event::DiskRecovered { .. } => return None,
        Event::DiskSlower { disk, factor } => json!({ "event": "disk_slower", "disk": disk.0, "factor": factor }),
        Event::DiskFaster { disk, factor } => json!({ "event": "disk_faster", "disk": disk.0, "factor": factor }),
        Event::DiskOverloaded { disk, factor, ended } => {
            json!({ "event": "disk_overloaded", "disk": disk.0, "factor": factor, "ended": ended })
        }
        Event::Miss { stream, late } => {
            json!({ "event": "miss", "stream": stream.0, "late_seconds": late.as_secs_f64() })
        }
    };
    Some(stamped(object, now))
}

/// An archive broke off at a content.
pub fn archive_broken(path: &str, client: IpAddr, reason: &str, now: SystemTime) -> EventLine {
    let object = json!({ "event": "archive_broken", "path": path, "client": client.to_string(), "reason": reason });
    stamped(object, now)
}

/// A budget does not admit a request.
pub(crate) fn budget_refused(refusal: &BudgetRefusal, path: &str, client: IpAddr, now: SystemTime) -> EventLine {
    let object = json!({
        "event": "budget_refused", "path": path, "client": client.to_string(), "budget": refusal.budget.to_string(),
        "limit": refusal.limit.to_string(), "most": refusal.most, "used": refusal.used,
    });
    stamped(object, now)
}

/// A stream lost its reservation to a newer read of its viewer, and continues as best effort.
pub(crate) fn reservation_passed(
    (stream, to): (StreamId, StreamId),
    path: &str,
    client: IpAddr,
    now: SystemTime,
) -> EventLine {
    let object = json!({
        "event": "reservation_passed", "stream": stream.0, "to": to.0, "path": path, "client": client.to_string(),
    });
    stamped(object, now)
}

/// How an upload that began came out.
pub(crate) struct UploadOutcome {
    /// Bytes of the content, or why nothing was kept.
    pub(crate) stored_bytes: Result<u64, String>,
    /// From its beginning.
    pub(crate) duration: Duration,
}

/// An upload that had begun came to its end.
pub(crate) fn upload_ended(path: &str, by: Requester<'_>, end: &UploadOutcome, now: SystemTime) -> EventLine {
    let (outcome, stored_bytes, reason) = match &end.stored_bytes {
        Ok(bytes) => ("Stored", *bytes, None),
        Err(reason) => ("Failed", 0, Some(reason)),
    };
    let object = json!({
        "event": "upload_ended", "path": path, "outcome": outcome, "reason": reason, "stored_bytes": stored_bytes,
        "client": by.address.to_string(), "user": by.user, "seconds": end.duration.as_secs_f64(),
    });
    stamped(object, now)
}

/// An event of the store as a line of the event log.
pub fn of_store(event: &StoreEvent, now: SystemTime) -> EventLine {
    let object = match event {
        StoreEvent::RootAway { root, why } => {
            json!({ "event": "root_away", "root": root.display().to_string(), "reason": why.to_string() })
        }
        StoreEvent::RootBack { root } => json!({ "event": "root_back", "root": root.display().to_string() }),
        StoreEvent::VolumeDisk(store::DiskNotice { volume, path, state, message }) => json!({
            "event": "volume_disk", "volume": volume, "path": path.display().to_string(), "state": state, "message": message,
        }),
        StoreEvent::RecordingKept { path, bytes, after_restart } => json!({
            "event": "recording_kept", "path": path.joined(), "stored_bytes": bytes, "after_restart": after_restart,
        }),
        StoreEvent::RecordingLost { path, why } => {
            json!({ "event": "recording_lost", "path": path.joined(), "reason": why.to_string() })
        }
        StoreEvent::UploadLost { path, why } => {
            json!({ "event": "upload_lost", "path": path.joined(), "reason": why.to_string() })
        }
        StoreEvent::RecordingDamaged { path, bytes } => {
            json!({ "event": "recording_damaged", "path": path.joined(), "damaged_bytes_max": bytes })
        }
        StoreEvent::CopyMended { name, part } => json!({ "event": "copy_mended", "path": name, "part": part }),
        StoreEvent::CopyUnwritten { name, part } => json!({ "event": "copy_unwritten", "path": name, "part": part }),
        StoreEvent::CopyLost { name, part } => json!({ "event": "copy_lost", "path": name, "part": part }),
        StoreEvent::UpkeepEnded { kind, report, failed } => json!({
            "event": "upkeep_ended", "upkeep": kind, "read_bytes": report.seen.0, "copies_written": report.written,
            "copies_lost": report.lost, "contents_unknown": report.unknown, "disks_away": report.away,
            "error": failed.as_ref().map(ToString::to_string),
        }),
    };
    stamped(object, now)
}

/// The client or job that removes a content.
#[derive(Debug, Clone, Copy)]
pub enum Remover<'a> {
    /// A client requested the removal.
    Client(Requester<'a>),
    /// A job keeps its folder small.
    Job {
        /// Its name.
        name: &'a str,
        /// Which of its limits.
        reason: &'a str,
    },
    /// The quota of a folder makes room.
    Quota {
        /// The folder.
        folder: &'a str,
        /// Which of its limits.
        reason: &'a str,
    },
    /// The trash makes room.
    Trash {
        /// Which of its limits.
        reason: &'a str,
    },
}

/// A recording came faster than its rate for longer than it may.
pub fn recording_over_rate(path: &str, client: IpAddr, rate: BitRate, now: SystemTime) -> EventLine {
    let object = json!({
        "event": "recording_over_rate", "path": path, "client": client.to_string(), "rate_bps": rate.0,
    });
    stamped(object, now)
}

/// A content was removed.
pub fn content_deleted(path: &str, remover: Remover<'_>, now: SystemTime) -> EventLine {
    let event = "content_deleted";
    let object = match remover {
        Remover::Client(Requester { address, user }) => {
            json!({ "event": event, "path": path, "client": address.to_string(), "user": user })
        }
        Remover::Job { name, reason } => json!({ "event": event, "path": path, "job": name, "reason": reason }),
        Remover::Quota { folder, reason } => json!({ "event": event, "path": path, "quota": folder, "reason": reason }),
        Remover::Trash { reason } => json!({ "event": event, "path": path, "trash": true, "reason": reason }),
    };
    stamped(object, now)
}

/// Items of the trash that are to go cannot be removed yet.
pub(crate) fn trash_failed(why: &StoreError, now: SystemTime) -> EventLine {
    stamped(json!({ "event": "trash_failed", "reason": why.to_string() }), now)
}

/// The clock was set ahead by more than its corrections are.
pub(crate) fn clock_set_ahead(lead: Duration, now: SystemTime) -> EventLine {
    stamped(json!({ "event": "clock_set_ahead", "seconds": lead.as_secs() }), now)
}

/// A password was verified, or a provider named a user: the account, or the name that was given. Names are cut: a mistyped one may be a password.
#[must_use]
pub fn login(user: &str, (client, is_right): (IpAddr, bool), now: SystemTime) -> EventLine {
    let user: String = user.chars().take(64).collect();
    stamped(json!({ "event": "login", "user": user, "client": client.to_string(), "right": is_right }), now)
}

/// The room of a reservation ahead is kept, or is not there yet, with the reason.
#[must_use]
pub fn reservation_room(ahead: &ReservationAhead, short: Option<&str>, now: SystemTime) -> EventLine {
    let ReservationWish { by, path, rate, from, until, .. } = &ahead.wish;
    let event = if short.is_none() { "reservation_kept" } else { "reservation_waits" };
    let object = json!({
        "event": event, "reservation": ahead.id, "path": path.joined(), "user": by, "rate_bps": rate.0, "from": from,
        "until": until, "reason": short,
    });
    stamped(object, now)
}

/// A login by the provider of identities came to nothing.
#[must_use]
pub fn provider_failed(reason: &str, client: IpAddr, now: SystemTime) -> EventLine {
    stamped(json!({ "event": "provider_failed", "reason": reason, "client": client.to_string() }), now)
}

/// Users, groups, tokens, logins or links were changed: by a client's call of the API, or by a command on this machine.
#[must_use]
pub fn access_changed((call, about): (&str, &str), by: Option<Requester<'_>>, now: SystemTime) -> EventLine {
    let (client, user) = (by.map(|by| by.address.to_string()), by.and_then(|by| by.user));
    stamped(json!({ "event": "access_changed", "call": call, "about": about, "user": user, "client": client }), now)
}

/// A disk, volume or quota is full within a day at its present rate.
#[must_use]
pub fn full_soon(forecast: &Forecast, now: SystemTime) -> EventLine {
    let object = json!({
        "event": "full_soon", "kind": forecast.kind, "name": forecast.name, "free_bytes": forecast.free_bytes,
        "bytes_per_day": forecast.bytes_per_day, "full": forecast.full,
    });
    stamped(object, now)
}

/// A content or folder has another name.
pub(crate) fn content_moved(from: &str, to: &str, by: Requester<'_>, now: SystemTime) -> EventLine {
    let client = by.address.to_string();
    stamped(json!({ "event": "content_moved", "path": from, "to": to, "client": client, "user": by.user }), now)
}

/// A folder was made.
pub(crate) fn folder_made(path: &str, by: Requester<'_>, now: SystemTime) -> EventLine {
    let client = by.address.to_string();
    stamped(json!({ "event": "folder_made", "path": path, "client": client, "user": by.user }), now)
}

/// A session has fallen behind its rate, over its contents, by more than its start-up delay; the stream is its last.
pub(crate) fn session_behind(
    stream: StreamId,
    path: &str,
    client: IpAddr,
    account: &SessionAccount,
    now: SystemTime,
) -> EventLine {
    let object = json!({
        "event": "session_behind", "stream": stream.0, "path": path, "client": client.to_string(),
        "lag_seconds": account.lag.as_secs_f64(), "j_percent": account.j_percent(), "contents": account.contents,
    });
    stamped(object, now)
}

/// A stream is to end: on request of a client at `by`, or, without one, because `user` lost the right to it; `stream_ended` follows.
pub(crate) fn stream_stopped(
    stream: StreamId,
    path: &str,
    (by, user): (Option<IpAddr>, Option<&str>),
    now: SystemTime,
) -> EventLine {
    let object = json!({
        "event": "stream_stopped", "stream": stream.0, "path": path, "by": by.map(|by| by.to_string()), "user": user,
    });
    stamped(object, now)
}

/// A job began, because it was due or on a client's request (`by`).
#[must_use]
pub fn job_started(job: &str, kind: &str, by: Option<(IpAddr, Option<&str>)>, now: SystemTime) -> EventLine {
    let (by, user) = by.map_or((None, None), |(by, user)| (Some(by.to_string()), user));
    stamped(json!({ "event": "job_started", "job": job, "kind": kind, "by": by, "user": user }), now)
}

/// A client requested the end of a job's run; `job_ended` follows.
#[must_use]
pub fn job_stop_asked(job: &str, (by, user): (IpAddr, Option<&str>), now: SystemTime) -> EventLine {
    stamped(json!({ "event": "job_stop_asked", "job": job, "by": by.to_string(), "user": user }), now)
}

/// A job's run came to its end, as `run` says; a failed run is an event of its own.
#[must_use]
pub fn job_ended(job: &str, kind: &str, run: &api::JobRun, now: SystemTime) -> EventLine {
    let event = if run.outcome == api::JobOutcome::Failed { "job_failed" } else { "job_ended" };
    let object = json!({
        "event": event, "job": job, "kind": kind, "outcome": run.outcome, "reason": run.reason, "files": run.files,
        "bytes": run.bytes, "seconds": run.seconds,
    });
    stamped(object, now)
}

/// Runs of a job did not begin at their time: `count` since the start of the server.
#[must_use]
pub fn job_missed(job: &str, count: u64, now: SystemTime) -> EventLine {
    stamped(json!({ "event": "job_missed", "job": job, "count": count }), now)
}

/// Kind of the event by which an administrator tests a webhook, which alone gets it.
pub const WEBHOOK_TEST: &str = "webhook_test";

/// The text of that event.
#[must_use]
pub fn webhook_test(webhook: &str, now: SystemTime) -> String {
    stamped(json!({ "event": WEBHOOK_TEST, "webhook": webhook }), now).text
}

/// Kind of [`webhook_failed`].
pub const WEBHOOK_FAILED: &str = "webhook_failed";

/// A webhook did not accept an event, and no further attempt is made.
#[must_use]
pub fn webhook_failed(webhook: &str, of: &str, reason: &str, now: SystemTime) -> EventLine {
    stamped(json!({ "event": WEBHOOK_FAILED, "webhook": webhook, "of": of, "reason": reason }), now)
}

/// The server listens.
pub fn server_started(addresses: &[SocketAddr], now: SystemTime) -> EventLine {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let version = env!("CARGO_PKG_VERSION");
    stamped(json!({ "event": "server_started", "version": version, "addresses": addresses }), now)
}

/// The server drains.
pub fn server_stopping(now: SystemTime) -> EventLine {
    stamped(json!({ "event": "server_stopping" }), now)
}

/// Settings were read anew: which are in force now, which need a restart.
pub fn reloaded(changed: &[String], restart: &[String], now: SystemTime) -> EventLine {
    stamped(json!({ "event": "configuration_reloaded", "changed": changed, "restart_needed": restart }), now)
}

/// Settings were read anew and are wrong; those in force stay.
pub fn reload_refused(reason: &str, now: SystemTime) -> EventLine {
    stamped(json!({ "event": "configuration_refused", "reason": reason }), now)
}

/// A certificate that changed is in force for connections that come from now on.
#[must_use]
pub fn certificate_loaded(file: &Path, names: &[String], expires: SystemTime, now: SystemTime) -> EventLine {
    let object = json!({
        "event": "certificate_loaded", "file": file.display().to_string(), "names": names,
        "expires": unix_seconds(expires),
    });
    stamped(object, now)
}

/// A certificate that changed cannot be used; the one before stays in force.
#[must_use]
pub fn certificate_refused(file: &Path, reason: &str, now: SystemTime) -> EventLine {
    stamped(json!({ "event": "certificate_refused", "file": file.display().to_string(), "reason": reason }), now)
}

/// A delivery ended; `outcome` is the plane's word, or the failure outside the plane.
pub(crate) fn stream_ended(
    stream: StreamId,
    path: &str,
    client: IpAddr,
    (outcome, end): (&str, &Ending),
    now: SystemTime,
) -> EventLine {
    let object = json!({
        "event": "stream_ended", "stream": stream.0, "path": path, "client": client.to_string(),
        "outcome": outcome, "sent_bytes": end.sent_bytes, "misses": end.misses,
        "seconds": end.duration.as_secs_f64(),
    });
    stamped(object, now)
}

/// Lines of a front end's log were left out because there were too many of the kind.
#[must_use]
pub fn lines_left_out(kind: &str, count: u64, now: SystemTime) -> EventLine {
    stamped(json!({ "event": "left_out", "of": kind, "count": count }), now)
}

/// Any event with its time.
pub(crate) fn stamped(mut object: serde_json::Value, now: SystemTime) -> EventLine {
    object["time"] = json!(unix_seconds(now));
    let kind = object["event"].as_str().unwrap_or_default().to_owned();
    let is_private = ["client", "path", "user", "by"].iter().any(|name| object.get(name).is_some());
    EventLine { kind, text: object.to_string(), is_private }
}

/// Seconds since 1970, to the millisecond.
pub fn unix_seconds(now: SystemTime) -> f64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_without_an_account_leave_room_for_all_else() {
        let events = Events::new(Log::start("test", None).expect("a thread"));
        let refuse = |user| {
            let by = Requester { address: IpAddr::from([192, 0, 2, 1]), user };
            events.tell_refused(("GET", "/media/a.ts"), by, "no right");
        };
        (0..1000).for_each(|_| refuse(None));
        events.tell_left_out(SystemTime::now());
        refuse(Some("ada"));
        let kept = events.latest.after(0, &crate::access::Permit::of_server());
        assert_eq!(kept.len(), 11, "ten in a minute, and that of an account");
        assert!(kept.last().is_some_and(|(_, line)| line.contains("\"user\":\"ada\"")));
    }

    #[test]
    fn the_reference_has_each_kind_once() {
        let reference = include_str!("../../../../docs/reference/events.md");
        let rows = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let mut described: Vec<&str> =
            rows.filter(|kind| !["event", "left_out", WEBHOOK_TEST].contains(kind)).collect();
        let mut kinds = KINDS.to_vec();
        described.sort_unstable();
        kinds.sort_unstable();
        assert_eq!(described, kinds);
    }
}
