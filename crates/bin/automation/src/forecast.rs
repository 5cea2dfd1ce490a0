//! Forecast of the time at which a disk, a volume or a quota has no room left, from its use over the last days.
//!
//! Promise: the rate is the faster one of two differences, over the last day and over the last week, or the whole days of it that were
//! seen. Both ends lie at the same time of day, so that a nightly clean-up counts as it should; the longer one outlives a quiet day. In the
//! first day the difference is over the time since the first look, an hour at least. Rings never fill and have no forecast. Not here: how
//! often it is looked (`room`), the alarm (`service::alarms`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::{Disk, Forecast, QuotaStatus, VolumeDiskStatus};
use serde::{Deserialize, Serialize};
use service::alarms::AlarmSources;
use units::real;

/// Time between two samples; differences over less are no rate.
const SAMPLE_SECONDS: f64 = 3600.0;
/// Days over which the rate is looked for, and looks are remembered.
const DAYS_MAX: f64 = 7.0;
/// Before that much time is left, an event says so.
const DAY_SECONDS: f64 = 86_400.0;

/// Room that a disk, volume or quota has left at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Sample {
    /// Seconds since 1970.
    at: f64,
    free: u64,
}

/// The room that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    kind: &'static str,
    name: String,
    /// Most bytes of a quota: with another limit its history begins anew.
    limit: Option<u64>,
    free: u64,
}

impl Room {
    fn key(&self) -> String {
        let Self { kind, name, limit, .. } = self;
        limit.map_or_else(|| format!("{kind} {name}"), |limit| format!("{kind} {name} of {limit}"))
    }
}

/// The room of the last week.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RoomHistory {
    samples: BTreeMap<String, VecDeque<Sample>>,
}

impl RoomHistory {
    /// Adds a look, where the last one is an hour old, and forgets what is older than the longest span. True if it added one.
    fn note(&mut self, room: &Room, now: f64) -> bool {
        let samples = self.samples.entry(room.key()).or_default();
        // After a step of the clock back, later looks are none.
        samples.retain(|sample| sample.at <= now);
        let is_due = samples.back().is_none_or(|last| now - last.at >= SAMPLE_SECONDS);
        if is_due {
            samples.push_back(Sample { at: now, free: room.free });
        }
        is_due
    }

    /// Forgets samples that no span reaches. The next older one stays, so that the span is whole.
    fn forget(&mut self, now: f64) {
        for samples in self.samples.values_mut() {
            while samples.front().is_some_and(|first| now - first.at > DAYS_MAX * DAY_SECONDS + SAMPLE_SECONDS) {
                samples.pop_front();
            }
        }
        self.samples.retain(|_, samples| !samples.is_empty());
    }

    fn forecast(&self, room: &Room, now: f64) -> Forecast {
        let samples = self.samples.get(&room.key());
        let first = samples.and_then(|samples| samples.front());
        let days = first.map_or(0.0, |first| ((now - first.at) / DAY_SECONDS).floor().min(DAYS_MAX));
        let rate = |days: f64| {
            let before = |sample: &&Sample| now - sample.at >= days * DAY_SECONDS;
            let then = samples?.iter().rev().find(before).or(first)?;
            let seconds = now - then.at;
            (seconds >= SAMPLE_SECONDS).then(|| ((real(then.free) - real(room.free)) / seconds, seconds))
        };
        let fastest = [1.0, days.max(1.0)].into_iter().filter_map(rate).max_by(|(a, _), (b, _)| a.total_cmp(b));
        let full = match fastest {
            _ if room.free == 0 => Some(now),
            Some((rate, _)) if rate > 0.0 => Some(now + real(room.free) / rate),
            _ => None,
        };
        Forecast {
            kind: room.kind.to_owned(),
            name: room.name.clone(),
            free_bytes: room.free,
            bytes_per_day: fastest.map(|(rate, _)| rate * DAY_SECONDS),
            seen_seconds: fastest.map_or(0.0, |(_, seconds)| seconds),
            full,
        }
    }
}

/// The look at everything that can become full.
#[derive(Debug, Default)]
pub(crate) struct RoomWatch {
    pub(crate) history: RoomHistory,
    /// Keys of the rooms that are full within a day, since their event.
    pub(crate) told: BTreeSet<String>,
}

/// The result of a look.
pub(crate) struct RoomLook {
    pub(crate) forecasts: Vec<Forecast>,
    /// Those of rooms that are full within a day, and were not told yet.
    pub(crate) news: Vec<Forecast>,
    /// The history has a look more.
    pub(crate) has_new: bool,
}

impl RoomWatch {
    /// Takes a sample of everything, at `now` in seconds since 1970.
    pub(crate) fn look(&mut self, sources: &AlarmSources, now: f64) -> RoomLook {
        let rooms = rooms(sources);
        let has_new = rooms.iter().filter(|room| self.history.note(room, now)).count() > 0;
        self.history.forget(now);
        let forecasts: Vec<_> = rooms.iter().map(|room| self.history.forecast(room, now)).collect();
        let mut news = Vec::new();
        for (room, forecast) in rooms.iter().zip(&forecasts) {
            let left = forecast.full.map_or(f64::INFINITY, |full| full - now);
            if left <= DAY_SECONDS {
                if self.told.insert(room.key()) {
                    news.push(forecast.clone());
                }
            } else if left > 2.0 * DAY_SECONDS {
                // A rate that swings about a day's is no news each time.
                self.told.remove(&room.key());
            }
        }
        RoomLook { forecasts, news, has_new }
    }
}

/// Everything that can become full and has no other's room: the disks of a volume are the volume's.
fn rooms(sources: &AlarmSources) -> Vec<Room> {
    let members = sources.volumes.iter().flat_map(|volume| &volume.disks);
    let is_of_volume = |disk: &Disk| members.clone().any(|member| is_member(member, disk.id, &disk.folders));
    // A disk that fails does not say how much is free.
    let disks = sources.disks.iter().filter(|disk| !is_of_volume(disk) && !disk.failing);
    let disks = disks.filter_map(|disk| {
        let name = disk.folders.first()?.clone();
        Some(Room { kind: "disk", name, limit: None, free: disk.free_bytes })
    });
    let volumes = sources.volumes.iter().map(|volume| Room {
        kind: "volume",
        name: volume.name.clone(),
        limit: None,
        free: volume.free_bytes,
    });
    let is_bound = |quota: &&QuotaStatus| !quota.overwrites && quota.counted;
    let quotas = sources.quotas.iter().filter(is_bound).map(|quota| Room {
        kind: "quota",
        name: quota.folder.clone(),
        limit: Some(quota.max_bytes),
        free: quota.max_bytes.saturating_sub(quota.used_bytes),
    });
    disks.chain(volumes).chain(quotas).collect()
}

/// True if a disk of the server is this one of a volume. A disk that is out has no number there, and its path alone.
fn is_member(member: &VolumeDiskStatus, id: u16, folders: &[String]) -> bool {
    member.disk == Some(id) || member.path.as_ref().is_some_and(|path| folders.contains(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: f64 = 1_800_000_000.0;
    const GB: u64 = 1_000_000_000;

    /// Watches a disk for `hours`, whose free bytes at each hour are these; gives the days that are left then.
    fn days_left(hours: u32, free_at: impl Fn(f64) -> u64) -> (RoomHistory, Option<f64>) {
        let mut history = RoomHistory::default();
        let mut left = None;
        for minute in 0..=hours * 60 {
            let now = START + f64::from(minute) * 60.0;
            let free = free_at(f64::from(minute) / 60.0);
            let room = Room { kind: "disk", name: "/srv".to_owned(), limit: None, free };
            history.note(&room, now);
            history.forget(now);
            left = history.forecast(&room, now).full.map(|full| (full - now) / DAY_SECONDS);
        }
        (history, left)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test's own figures")]
    fn bytes(gigabytes: f64) -> u64 {
        (gigabytes * 1e9) as u64
    }

    fn close(left: Option<f64>, days: f64) -> bool {
        left.is_some_and(|left| (left / days - 1.0).abs() < 0.01)
    }

    #[test]
    fn a_steady_rate_gives_the_time_that_is_left() {
        let steady = |hours: f64| bytes(1000.0 - hours);
        assert_eq!(days_left(0, steady).1, None, "no rate yet");
        assert!(close(days_left(5, steady).1, 995.0 / 24.0));
        assert!(close(days_left(24 * 20, steady).1, 520.0 / 24.0));
        assert_eq!(days_left(48, |_| 500 * GB).1, None, "nothing grows");
        assert_eq!(days_left(48, |hours| bytes(500.0 + hours)).1, None, "it gets emptier");
        assert_eq!(days_left(2, |_| 0).1, Some(0.0), "it is full, however it became so");
        let (history, _) = days_left(24 * 20, steady);
        assert!(history.samples.values().all(|samples| samples.len() <= 170), "a week and an hour");
    }

    #[test]
    fn a_nightly_clean_up_is_no_growth() {
        // 10 GB an hour come, and all of it goes at each midnight.
        let sawtooth = |hours: f64| bytes(500.0 - 10.0 * (hours % 24.0));
        for hours in [25, 36, 47, 60, 24 * 9] {
            let (_, left) = days_left(hours, sawtooth);
            assert!(left.is_none_or(|days| days > 5.0), "after {hours} h: {left:?}");
        }
    }

    #[test]
    fn more_cameras_count_within_a_day_and_a_quiet_day_hides_nothing() {
        // 1 GB an hour for nine days, then 20.
        let more = |hours: f64| bytes(5000.0 - hours - 19.0 * (hours - 216.0).max(0.0));
        let (_, left) = days_left(216 + 24, more);
        assert!(close(left, (5000.0 - 240.0 - 456.0) / 480.0), "{left:?}");
        // 100 GB a day for six days, then nothing for one.
        let (_, left) = days_left(168, |hours| bytes(1000.0 - hours.min(144.0) * 100.0 / 24.0));
        assert!(close(left, 400.0 / (600.0 / 7.0)), "{left:?}");
    }

    #[test]
    fn a_clock_that_steps_back_leaves_no_looks_of_the_future() {
        let (mut history, _) = days_left(48, |hours| bytes(1000.0 - hours));
        let room = Room { kind: "disk", name: "/srv".to_owned(), limit: None, free: GB };
        history.note(&room, START - DAY_SECONDS);
        assert_eq!(history.forecast(&room, START - DAY_SECONDS).full, None);
        let larger = Room { limit: Some(5), ..room };
        assert_eq!(history.forecast(&larger, START).bytes_per_day, None, "another limit, another history");
    }

    #[test]
    fn a_disk_that_is_out_of_its_volume_has_no_room_of_its_own() {
        let out = VolumeDiskStatus {
            disk: None,
            path: Some("/dev/sdb".to_owned()),
            state: "out".to_owned(),
            error: None,
            wrong_copies: 0,
            size_bytes: GB,
            units: 100,
            free_units: None,
        };
        let at = |path: &str| [path.to_owned()];
        assert!(is_member(&out, 1, &at("/dev/sdb")), "it would count as a disk that is full");
        assert!(!is_member(&out, 1, &at("/srv")));
        assert!(
            is_member(&VolumeDiskStatus { disk: Some(1), ..out }, 1, &at("/dev/old")),
            "another disk has its place"
        );
    }
}
