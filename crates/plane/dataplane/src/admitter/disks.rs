//! The disks as the admitter knows them: by the reports of the fetcher, each with the streams that wait for their start on it.
//!
//! Promise: a delivery is served by a disk that may serve it, the best of those. Not here: disk time (`schedule::admission`), the disks'
//! health (`fetcher`).

use std::ops::{Index, IndexMut};

use content::Content;
use schedule::admission::start_forecast::StartForecast;
use schedule::admission::{AdmissionRequest, RequestedContent};
use schedule::cycle::Grid;
use schedule::disk::health::DiskCondition;
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, LinkId, Nanos};

use super::is_new;
use crate::config::PlaneConfig;
use crate::control::Delivery;

/// All of them, by their numbers.
#[derive(Debug)]
pub(super) struct AdmitterDisks {
    disks: Vec<AdmitterDisk>,
    survives_disk_loss: bool,
}

/// One disk.
#[derive(Debug)]
pub(super) struct AdmitterDisk {
    pub(super) profile: DiskProfile,
    pub(super) rounds: Grid,
    pub(super) condition: DiskCondition,
    /// Slots of admitted streams that wait for their start.
    pub(super) waiting: Vec<u32>,
    /// The times of their starts, computed from the conditions of the first question in this round, or since the queue was empty:
    /// 2,000 are looked through in 5 ms (release build), once in a round.
    pub(super) forecast: Option<StartForecast>,
}

impl AdmitterDisks {
    pub(super) fn new(config: &PlaneConfig, profiles: Vec<DiskProfile>, now: Nanos) -> Self {
        let disk = |profile: DiskProfile| AdmitterDisk {
            rounds: Grid::new(now, config.round_of(&profile)),
            profile,
            condition: DiskCondition::Good,
            waiting: Vec::with_capacity(config.streams_max),
            forecast: None,
        };
        Self { disks: profiles.into_iter().map(disk).collect(), survives_disk_loss: config.survive_disk_loss }
    }

    pub(super) fn get(&self, disk: DiskId) -> Option<&AdmitterDisk> {
        self.disks.get(usize::from(disk.0))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = DiskId> + use<> {
        (0..u16::try_from(self.disks.len()).expect("within limits")).map(DiskId)
    }

    /// True if a disk may serve a delivery. On an erring disk, viewers with a reservation continue, and the bytes that
    /// can still be read may be copied off as best effort.
    pub(super) fn serves(&self, disk: DiskId, delivery: &Delivery) -> bool {
        self.get(disk).is_some_and(|disk| match is_new(delivery) {
            true => disk.condition == DiskCondition::Good,
            false => disk.condition != DiskCondition::Hung,
        })
    }

    /// The best disk of those that serve a delivery.
    pub(super) fn home(&self, delivery: &Delivery) -> Option<DiskId> {
        let layout = &delivery.content.layout;
        layout.best_disk(|disk| self.serves(disk, delivery), |disk| self[disk].condition.reluctance())
    }

    /// The needs of a delivery on a disk. Where admission provides for the loss of any one disk, these are all bytes
    /// that have a copy on it; otherwise the bytes read from it with the disks as they are now.
    pub(super) fn request(
        &self,
        content: &Content,
        disk: DiskId,
        (link, rate, payload): (LinkId, BitRate, u64),
    ) -> AdmissionRequest {
        let profile = &self[disk].profile;
        let reluctance = |other: DiskId| match self.survives_disk_loss {
            true => u8::from(other != disk),
            false => self[other].condition.reluctance(),
        };
        let placed = || content.layout.placed_on(disk, reluctance);
        let slowest = placed().map(|(position, length)| profile.rate_at(position + length / 2)).min();
        let disk_share = content.layout.share_read(disk, reluctance);
        #[allow(clippy::cast_precision_loss, reason = "a mean")]
        let fragments = placed().count().saturating_sub(1) as f64 / (content.size as f64 * disk_share).max(1.0);
        AdmissionRequest {
            disk,
            link,
            rate,
            disk_share,
            zone_bytes_per_second: slowest.unwrap_or_else(|| profile.rate_at(u64::MAX)),
            fragments_per_byte: fragments,
            content: RequestedContent::new(content.version, content.size),
            length: payload,
            written_every: None,
        }
    }
}

impl Index<DiskId> for AdmitterDisks {
    type Output = AdmitterDisk;

    fn index(&self, disk: DiskId) -> &AdmitterDisk {
        &self.disks[usize::from(disk.0)]
    }
}

impl IndexMut<DiskId> for AdmitterDisks {
    fn index_mut(&mut self, disk: DiskId) -> &mut AdmitterDisk {
        &mut self.disks[usize::from(disk.0)]
    }
}

impl AdmitterDisk {
    /// Takes a stream out of the queue. True if it waited.
    pub(super) fn stops_waiting(&mut self, slot: u32) -> bool {
        let Some(at) = self.waiting.iter().position(|&other| other == slot) else { return false };
        self.waiting.remove(at);
        if self.waiting.is_empty() {
            self.forecast = None;
        }
        true
    }
}
