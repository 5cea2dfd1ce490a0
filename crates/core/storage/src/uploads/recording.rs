//! Recordings among the uploads: blocks that are due, each with a deadline.
//!
//! Promise: the bytes received of a recording by the time a block is due are offered with a deadline, as far as its rate was promised; the
//! disk's schedule knows where they are written. Not here: writing it, making it durable (`commit`). See docs/decisions/0057.

use super::*;

/// Time in which clients' threads hand over the bytes that they have when a block is due. Chosen: a turn of their threads and of this one.
pub(super) const HANDED_OVER: Nanos = Nanos::from_millis(20);

/// A recording's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingTerms {
    /// Payload bits per second.
    pub rate: BitRate,
    /// The reservation from admission.
    pub reservation: ReservationId,
    /// When it is written.
    pub place: RecordingPlace,
}

impl RecordingTerms {
    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        self.rate.bytes_in(self.place.period).next_multiple_of(limits::DIRECT_ALIGN)
    }
}

/// A recording under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recording {
    pub(super) terms: RecordingTerms,
    /// When the next block is due to be written.
    pub(super) next_block: Nanos,
    /// Remaining bytes of the block that is being written, and the time when they must be durable.
    pub(super) due_bytes: u64,
    pub(super) deadline: Nanos,
    /// Bytes received by then in excess of the rate.
    pub(super) excess_bytes: u64,
    /// Position of its writes as last reported to the disk's schedule; `u64::MAX`: none yet.
    placed_position: u64,
}

impl Recording {
    pub(super) fn new(terms: RecordingTerms) -> Self {
        let next_block = terms.place.first;
        Self { terms, next_block, due_bytes: 0, deadline: Nanos::MAX, excess_bytes: 0, placed_position: u64::MAX }
    }

    /// When its next block begins; none while the previous one is written: it would join that batch, which could then grow for ever.
    pub(super) fn begins(&self) -> Option<Nanos> {
        (self.due_bytes == 0).then(|| self.next_block.saturating_add(HANDED_OVER))
    }

    /// The block with `ready_bytes` ready is due, and those that were due while the disk held this thread up or wrote the one before.
    /// Bytes received in excess of the rate are not part of it.
    pub(super) fn begin_block(&mut self, ready_bytes: u64, now: Nanos) {
        let RecordingTerms { place, .. } = self.terms;
        debug_assert!(self.due_bytes == 0, "a block joins no batch that has begun");
        self.deadline = self.next_block.saturating_add(place.within);
        let next = place.next(now.saturating_sub(HANDED_OVER));
        let blocks = next.saturating_sub(self.next_block).0 / place.period.0.max(1);
        let promised = self.terms.block_bytes().saturating_mul(blocks);
        self.due_bytes = promised.min(ready_bytes);
        self.excess_bytes = ready_bytes - self.due_bytes;
        debug_assert!(next > self.next_block, "a block is due once");
        self.next_block = next;
    }
}

impl<F: UploadFile, R> Uploads<F, R> {
    /// Offers the blocks of recordings that are due, and a commit if a name is to be made durable.
    pub fn begin_blocks(&mut self, now: Nanos) {
        let mut commits = self.commits.becomes_due(now);
        let mut due = Vec::new();
        for (id, upload) in &mut self.uploads {
            let Some(recording) = &mut upload.recording else { continue };
            if recording.begins().is_none_or(|begins| now < begins) {
                continue;
            }
            recording.begin_block(upload.ready_bytes, now);
            commits |= self.commits.promise_again(*id);
            if recording.due_bytes > 0 {
                upload.offered_bytes = 0;
                due.push(*id);
            }
        }
        due.into_iter().for_each(|id| self.offer_write(id));
        if commits {
            self.offer_commit();
        }
    }

    /// The time that was reserved for a recording goes with its client: the rest is written in the disk time that streams leave.
    pub(super) fn lose_reservation(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        upload.recording = None;
        upload.offered_bytes = 0;
        self.offers.withdraw(job_of(id));
    }

    /// Reports the place of a recording's writes, if it is far from the reported one.
    pub(super) fn tell_place(&mut self, id: UploadId) {
        let Some(upload) = self.uploads.get_mut(&id) else { return };
        let (Some(recording), (position, _)) = (&mut upload.recording, upload.file.run_at(upload.written_bytes)) else {
            return;
        };
        if position != u64::MAX && position.abs_diff(recording.placed_position) >= limits::RECORDING_PLACE_BYTES {
            recording.placed_position = position;
            self.offers.place(recording.terms.reservation, position);
        }
    }
}
