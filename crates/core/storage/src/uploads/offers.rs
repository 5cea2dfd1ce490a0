//! The offers of one disk's jobs, the grant in use, and the messages on them that are not sent to the disk's schedule yet.
//!
//! Promise: a job has one offer at most among the unsent messages, the newest; each grant gets one answer. Not here: the work that is
//! offered (`uploads`), the decision on it (`schedule`).

use std::collections::VecDeque;

use units::{DiskId, Nanos, ReservationId};

use crate::grant::{GrantDone, JobId, Offer, StoreMessage, StoreWork, WorkClass};

/// See the module.
#[derive(Debug)]
pub(super) struct Offers {
    disk: DiskId,
    in_use: Option<GrantInUse>,
    /// Bounded: each job has at most an offer, a withdrawal and a done in it.
    messages: VecDeque<StoreMessage>,
}

/// A grant that is being used.
#[derive(Debug, Clone, Copy)]
struct GrantInUse {
    job: JobId,
    started: Nanos,
}

/// Result of a grant.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrantUse {
    pub(super) bytes: u64,
    pub(super) ok: bool,
    pub(super) ready_bytes: u64,
    pub(super) position: u64,
}

impl Default for GrantUse {
    fn default() -> Self {
        Self { bytes: 0, ok: true, ready_bytes: 0, position: u64::MAX }
    }
}

impl Offers {
    /// None yet, on this disk.
    pub(super) const fn new(disk: DiskId) -> Self {
        Self { disk, in_use: None, messages: VecDeque::new() }
    }

    /// True if messages are not sent yet.
    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Sends the messages, in order, until `send` has no room for one.
    pub(super) fn send_messages(&mut self, mut send: impl FnMut(StoreMessage) -> bool) {
        while self.messages.front().is_some_and(|message| send(*message)) {
            self.messages.pop_front();
        }
    }

    /// Offers the work of a job, in the place of its last offer.
    pub(super) fn offer(&mut self, job: JobId, work: StoreWork, class: WorkClass) {
        debug_assert!(!matches!(work, StoreWork::Write { bytes: 0, .. }), "a write has bytes");
        self.forget_unsent(job);
        self.messages.push_back(StoreMessage::Offer(Offer { disk: self.disk, job, work, class }));
    }

    /// The job is over or given up.
    pub(super) fn withdraw(&mut self, job: JobId) {
        self.forget_unsent(job);
        self.messages.push_back(StoreMessage::Withdraw { disk: self.disk, job });
    }

    /// A recording is written at `position` from now on.
    pub(super) fn place(&mut self, reservation: ReservationId, position: u64) {
        self.messages.push_back(StoreMessage::Placed { disk: self.disk, reservation, position });
    }

    /// True while a grant is in use.
    pub(super) const fn has_grant(&self) -> bool {
        self.in_use.is_some()
    }

    /// A grant has come for a job.
    pub(super) fn begin_grant(&mut self, job: JobId, now: Nanos) {
        debug_assert!(self.in_use.is_none(), "a disk has one grant out");
        self.in_use = Some(GrantInUse { job, started: now });
    }

    /// The grant in use is over.
    pub(super) fn done(&mut self, used: GrantUse, now: Nanos) {
        let Some(GrantInUse { job, started }) = self.in_use.take() else { return };
        self.messages.push_back(StoreMessage::Done(GrantDone {
            disk: self.disk,
            job,
            bytes: used.bytes,
            started,
            ended: now,
            ok: used.ok,
            ready_bytes: used.ready_bytes,
            position: used.position,
        }));
    }

    /// No grant will come any more.
    pub(super) fn give_up(&mut self) {
        self.messages.clear();
    }

    /// An offer that still waits to be sent is out of date now.
    fn forget_unsent(&mut self, job: JobId) {
        self.messages.retain(|message| !matches!(message, StoreMessage::Offer(old) if old.job == job));
    }
}
