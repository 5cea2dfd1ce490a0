//! Sets of writes, which make changes durable: each disk of a set writes its share and flushes it, at its own pace, and the next set
//! begins when all have.
//!
//! Promise: one set is under way at a time. A change is durable when every disk that holds the journal has flushed a commit that was begun
//! after it came, and no commit is begun before each change of a disk's state is in the superblocks of all others. When a disk is taken
//! out, the commit under way is given up and another one takes its place; later reports of a disk on the old one are ignored.
//! Not here: doing it; the writes of a commit (`commit`).

use std::collections::VecDeque;

use crate::{DiskWrite, MemberId, Volume, VolumeError};

/// The sets of writes of a volume (see the module). `W` is a caller that waits for a change.
#[derive(Debug)]
pub struct WriteSets<W> {
    /// Superblocks to be written before anything else, a set each.
    superblocks: VecDeque<Vec<DiskWrite>>,
    under_way: Option<WriteSet<W>>,
    /// Callers that wait for the next commit.
    waiting: Vec<W>,
    /// Sets that were begun so far.
    begun: u64,
    /// The newest generation of the superblock that is durable.
    durable_generation: u64,
}

#[derive(Debug)]
struct WriteSet<W> {
    /// The number that distinguishes it from the set that was given up before it.
    number: u64,
    writes: Vec<DiskWrite>,
    /// Disks that have not flushed it yet.
    left: Vec<MemberId>,
    /// Callers that wait for it; none if it is of superblocks.
    commit: Option<Vec<W>>,
}

impl<W> WriteSets<W> {
    /// The sets of a volume, of which this generation of the superblock is durable; 0 while it is being made.
    #[must_use]
    pub const fn new(durable_generation: u64) -> Self {
        Self { superblocks: VecDeque::new(), under_way: None, waiting: Vec::new(), begun: 0, durable_generation }
    }

    /// Adds a caller that waits for the change just staged: [`WriteSets::done`] gives it back when the change is durable.
    pub fn wait(&mut self, waiter: W) {
        self.waiting.push(waiter);
    }

    /// All callers that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        let in_commit = self.under_way.iter().filter_map(|set| set.commit.as_ref()).flatten();
        self.waiting.iter().chain(in_commit)
    }

    /// A disk has another state: its steps (see [`Volume::take_out`]) come before the next commit.
    pub fn write_superblocks(&mut self, steps: impl IntoIterator<Item = Vec<DiskWrite>>) {
        self.superblocks.extend(steps);
    }

    /// Begins the next set if none is under way and there is something to be written. Gives the disks that have their turn now.
    pub fn begin(&mut self, volume: &mut Volume) -> Vec<MemberId> {
        while self.under_way.is_none() {
            let (writes, commit) = if let Some(writes) = self.superblocks.pop_front() {
                (writes, None)
            } else if let Some(commit) = volume.commit() {
                (commit.writes, Some(std::mem::take(&mut self.waiting)))
            } else {
                return Vec::new();
            };
            let mut left: Vec<MemberId> = writes.iter().map(|write| write.member).collect();
            left.sort_unstable();
            left.dedup();
            if left.is_empty() {
                continue;
            }
            debug_assert!(
                commit.is_none() || self.superblocks.is_empty(),
                "a commit before a change of a disk's state is in the superblocks"
            );
            self.begun += 1;
            self.under_way = Some(WriteSet { number: self.begun, writes, left: left.clone(), commit });
            self.assert_sound();
            return left;
        }
        Vec::new()
    }

    /// True if no set is under way and no superblock is to be written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.superblocks.is_empty()
    }

    /// True if superblocks are to be written.
    #[must_use]
    pub fn has_superblocks(&self) -> bool {
        !self.superblocks.is_empty() || self.under_way.as_ref().is_some_and(|set| set.commit.is_none())
    }

    /// The newest generation of the superblock that is durable on all disks that are written to. An abandoned one is not, though
    /// nothing is to be written any more.
    #[must_use]
    pub const fn durable_generation(&self) -> u64 {
        self.durable_generation
    }

    /// True if a disk has a share of the set under way that it has not flushed yet.
    #[must_use]
    pub fn is_turn_of(&self, member: MemberId) -> bool {
        self.under_way.as_ref().is_some_and(|set| set.left.contains(&member))
    }

    /// The writes that a disk is to make and flush, if it is its turn, and the number of the set.
    #[must_use]
    pub fn share(&self, member: MemberId) -> Option<(u64, Vec<&DiskWrite>)> {
        let set = self.under_way.as_ref().filter(|set| set.left.contains(&member))?;
        Some((set.number, set.writes.iter().filter(|write| write.member == member).collect()))
    }

    /// A disk flushed its share of the set of this number. Gives the callers that wait no more: their changes are durable.
    pub fn done(&mut self, member: MemberId, number: u64, volume: &mut Volume) -> Vec<W> {
        let Some(set) = self.under_way.as_mut().filter(|set| set.number == number) else { return Vec::new() };
        set.left.retain(|other| *other != member);
        let durable = self.end_if_written(volume);
        self.assert_sound();
        durable
    }

    fn end_if_written(&mut self, volume: &mut Volume) -> Vec<W> {
        let Some(set) = self.under_way.take_if(|set| set.left.is_empty()) else { return Vec::new() };
        if let Some(waiters) = set.commit {
            volume.committed(Ok(()));
            return waiters;
        }
        if self.superblocks.is_empty() {
            volume.superblocks_durable();
            let generation = volume.superblock().generation;
            debug_assert!(generation >= self.durable_generation, "an older superblock would be the newest");
            self.durable_generation = generation;
        }
        Vec::new()
    }

    /// Takes a disk out that failed (see [`Volume::take_out`]). A commit under way is given up: another one takes its place.
    ///
    /// # Errors
    /// The volume takes no more changes: gives the callers that wait, for the outcome of their changes will never be known.
    pub fn take_out(&mut self, member: MemberId, volume: &mut Volume) -> Result<(), (VolumeError, Vec<W>)> {
        let given_up = self.under_way.take_if(|set| set.commit.is_some());
        self.waiting.splice(0..0, given_up.and_then(|set| set.commit).unwrap_or_default());
        match volume.take_out(member) {
            Ok(steps) => {
                // The next disk of this number does not get the writes that this one missed.
                self.superblocks.iter_mut().for_each(|step| step.retain(|write| write.member != member));
                self.write_superblocks(steps);
            }
            Err(error) => return Err((error, self.give_up())),
        }
        if let Some(set) = &mut self.under_way {
            set.left.retain(|other| *other != member);
        }
        self.end_if_written(volume);
        self.assert_sound();
        Ok(())
    }

    /// Nothing more is written. Gives the callers that wait.
    pub fn give_up(&mut self) -> Vec<W> {
        self.superblocks.clear();
        let commit = self.under_way.take().and_then(|set| set.commit).unwrap_or_default();
        commit.into_iter().chain(std::mem::take(&mut self.waiting)).collect()
    }

    /// Checks the set under way, in builds with debug assertions.
    fn assert_sound(&self) {
        let Some(set) = &self.under_way else { return };
        debug_assert!(set.number == self.begun, "reports on a set that was given up are told from those on this one");
        debug_assert!(!set.left.is_empty(), "a set that all disks have flushed is over");
        debug_assert!(set.left.is_sorted_by(|one, next| one < next), "a disk has one share");
        debug_assert!(
            set.left.iter().all(|disk| set.writes.iter().any(|write| write.member == *disk)),
            "a disk without a share would not be woken for it"
        );
    }
}
