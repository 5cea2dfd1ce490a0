//! States of a volume's disks as they change, and disks that come back.
//!
//! Promise: each change of a disk's state becomes one event (`volume_disk`); a disk that was taken out and answers again is filled with
//! the changes it missed, after pauses that grow while it fails again; the reason of a disk that cannot be filled is an event, too. Not
//! here: taking a disk out (`core`), filling it (`upkeep`).

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use kernel::exclusive::Purpose;
use units::Nanos;
use volume::{MemberId, MemberState, StoredContent, Upkeep};

use super::core::Core;
use super::disks::VolumeDisks;
use super::find::reason;
use super::health::DiskReturn;
use super::info::{ServedVolume, UpkeepError};
use super::open_disk::{OpenDisk, VolumeDiskError};
use store::event::{DiskNotice, StoreEvent};
use store::lock::lock;

/// Time from taking a disk out to the first attempt to fill it; also between looks for a disk that is away.
const RETURN_PAUSE: Nanos = Nanos::from_secs(30);
/// A disk that is taken out again waits four times as long each time, up to this: each fill reads a whole disk.
const RETURN_PAUSE_MAX: Nanos = Nanos::from_secs(6 * 3600);

impl Core {
    /// The state of a disk in one word.
    pub(super) fn disk_state(&self, member: MemberId) -> &'static str {
        let is_there = self.live.members.there[member.index()].is_some();
        match self.live.volume.superblock().members[member.index()].state {
            MemberState::Active | MemberState::Filling if !is_there => "missing",
            MemberState::Active if self.upkeep.is_filled_undurably(member) => MemberState::Filling.name(),
            MemberState::Active if !self.live.volume.is_writable(member) => "read only",
            MemberState::Active if self.live.is_stopped_by(member) => "failed",
            state => state.name(),
        }
    }

    /// Contents that were found damaged and are there still.
    pub(super) fn damaged_count(&self) -> usize {
        let is_there = |(name, (content, _)): &(&String, &(Weak<StoredContent>, u32))| {
            self.live.volume.find(name).is_some_and(|now| Weak::ptr_eq(content, &Arc::downgrade(now)))
        };
        self.live.health.damaged.iter().filter(is_there).count()
    }

    /// Reports the changes of disks' states since the last call; the first call notes the states of the start, which were reported.
    pub(super) fn tell_states(&mut self, now: Nanos) {
        let members = (0u8..).map(MemberId).take(self.live.members.there.len());
        let states: Vec<_> = members.map(|member| self.disk_state(member)).collect();
        let is_start = self.live.health.reported.is_empty();
        let before = std::mem::replace(&mut self.live.health.reported, states.clone());
        debug_assert!(before.len() <= states.len(), "a number of a disk is never given up");
        for (member, state) in (0u8..).map(MemberId).zip(states) {
            let old = before.get(member.index()).copied();
            if old == Some(state) {
                continue;
            }
            if state == "active" {
                self.live.health.forget_unwritten(member);
            }
            if state == "out" {
                let first = DiskReturn { next: now, pause: RETURN_PAUSE, refusal: String::new() };
                let again = self.live.health.returns.entry(member).or_insert(first);
                again.next = now.saturating_add(again.pause);
            }
            if !is_start {
                self.tell_state(member, old);
            }
        }
    }

    fn tell_state(&self, member: MemberId, old: Option<&str>) {
        let why = self.live.health.failure(member).map_or_else(String::new, |error| format!(": {error}"));
        let state = self.disk_state(member);
        let effect = match (old, state) {
            (_, "left") => "has left: leave it out of the server's list of disks".to_owned(),
            (_, "out") => format!(
                "is out{why}; everything is read from the other copies; it is filled again when it answers, or `isocast volume replace` it"
            ),
            (_, "read only") => format!(
                "takes no writes{why}; writes go to the others, its contents are read as far as they are right: \
                 `isocast volume remove` moves them to the others, and the next start writes to it again"
            ),
            (_, "failed") => format!(
                "failed{why}, and other disks lack copies of its contents: the volume takes no changes and fills no disk until the server \
                 is started again, when the disk answers"
            ),
            (_, "filling") => "is being filled with the copies it missed".to_owned(),
            (Some(_), "active") => "has everything again".to_owned(),
            (None, "active") => "was added".to_owned(),
            (_, state) => format!("is {state}"),
        };
        self.tell_disk(member, state, &effect);
    }

    fn tell_disk(&self, member: MemberId, state: &'static str, effect: &str) {
        let path = self.live.members.named[member.index()].as_ref().map(|named| named.path.clone()).unwrap_or_default();
        let message = format!("disk {} of the volume {effect}", member.0);
        let volume = self.live.volume.superblock().name.clone();
        self.live.front.events.tell(StoreEvent::VolumeDisk(DiskNotice { volume, path, state, message }));
    }

    /// Reports the reason for which a disk that is out cannot be filled, unless it is the one in the last report. A disk that cannot be
    /// opened is not back yet: its absence was reported.
    pub(super) fn tell_refused_return(&mut self, member: MemberId, error: &UpkeepError) {
        let refusal = match error {
            UpkeepError::Disk(VolumeDiskError::Open { .. }) => return,
            UpkeepError::Disk(VolumeDiskError::Volume { disks, source }) => format!("{disks}: {}", reason(source)),
            error => error.to_string(),
        };
        let state = self.disk_state(member);
        let Some(again) = self.live.health.returns.get_mut(&member) else { return };
        if state == "out" && again.refusal != refusal {
            again.refusal.clone_from(&refusal);
            self.tell_disk(member, state, &format!("stays out, for it cannot be filled: {refusal}"));
        }
    }

    /// A disk that is out and due for an attempt to fill it, with its path; none while another attempt is under way, or the volume takes no changes.
    fn next_return(&mut self, now: Nanos) -> Option<(MemberId, PathBuf)> {
        if self.live.closed
            || self.live.volume.is_read_only()
            || self.live.health.is_returning
            || self.upkeep.is_looked_after()
        {
            return None;
        }
        let due = self.live.health.returns.iter().filter(|(_, again)| again.next <= now).map(|(member, _)| *member);
        let due: Vec<_> = due.collect();
        due.into_iter().find_map(|member| {
            let again = self.live.health.returns.get_mut(&member)?;
            again.next = now.saturating_add(RETURN_PAUSE);
            let is_out =
                self.live.volume.taken_out().any(|out| out == member) && self.live.members.vacant.contains_key(&member);
            if !is_out {
                return None;
            }
            Some((member, self.live.members.named[member.index()].as_ref()?.path.clone()))
        })
    }
}

impl ServedVolume {
    /// Begins to fill a disk that was taken out, if one is due; the disk is opened on a thread of its own, for it may hang.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn fill_returned(&self, now: Nanos) -> io::Result<()> {
        let due = {
            let mut core = lock(&self.core);
            let due = core.next_return(now);
            core.live.health.is_returning |= due.is_some();
            due
        };
        let Some((member, path)) = due else { return Ok(()) };
        let volume = self.clone();
        let started = self.common.spawn("volume-return".to_owned(), move || {
            let taken = volume.take_back(member, path);
            let mut core = lock(&volume.core);
            core.live.health.is_returning = false;
            if let Err(error) = taken {
                core.tell_refused_return(member, &error);
            }
        });
        if started.is_err() {
            lock(&self.core).live.health.is_returning = false;
        }
        started.map(drop)
    }

    fn take_back(&self, member: MemberId, path: PathBuf) -> Result<(), UpkeepError> {
        let disk = OpenDisk::open(&path, Purpose::Write)?;
        let (sizes, mut given) = ([disk.size], VolumeDisks::given(vec![disk]));
        let identified = volume::identify(&sizes, &mut given)
            .map_err(|source| VolumeDiskError::Volume { disks: path.display().to_string(), source })?;
        let found = &identified.superblock;
        let is_the_disk =
            found.member == member && volume::may_return(lock(&self.core).live.volume.superblock(), found);
        let disk = given.0.pop().flatten().filter(|_| is_the_disk).ok_or(UpkeepError::NotBlank)?;
        self.occupy(member, disk, Core::put_in)?;
        let mut core = lock(&self.core);
        if let Some(again) = core.live.health.returns.get_mut(&member) {
            again.pause = Nanos(again.pause.0.saturating_mul(4)).min(RETURN_PAUSE_MAX);
        }
        core.begin_upkeep(Upkeep::Fill(member))
    }
}
