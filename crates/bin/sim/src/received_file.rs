//! A file that a client sends, an upload or a recording: bytes sent, handed over, written and durable by a time.
//!
//! Promise: pure, with the time as an argument. Not here: their way to the disk (`store_thread`).

use storage::grant::RecordingPlace;
use storage::uploads::{JournalId, RecordingTerms, UploadFile};
use units::{BitRate, Nanos, limits};

use crate::camera::Camera;

/// Bytes received of an upload before they are written: its client waits then, as the real one's does.
const UPLOAD_BUFFER_BYTES: u64 = 8 * limits::CHUNK_BYTES;
/// Longest delay in handing over the bytes due with a block: the store thread is in the middle of a grant.
const HAND_OVER_MAX: Nanos = Nanos::from_millis(50);

/// Upload or recording of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UploadSource {
    /// Where on the device.
    pub(crate) position: u64,
    /// How much in all.
    pub(crate) bytes: u64,
    /// How fast it comes.
    pub(crate) rate: BitRate,
    /// A recording's terms, its camera, and how long bytes received may not be durable; `None` for an upload, which waits when
    /// it must.
    pub(crate) recording: Option<(RecordingTerms, Camera, Nanos)>,
}

/// A file, and the client that sends it.
#[derive(Debug)]
pub(crate) struct ReceivedFile {
    source: UploadSource,
    /// Bytes that have left the client.
    sent: u64,
    begun: Nanos,
    settled: Nanos,
    /// Of these, those that were handed to the thread, in whole chunks but the last, and the rest when a block is due.
    handed: u64,
    written: u64,
    /// Bytes written before the last commit.
    durable: u64,
    /// Time at which all bytes received of a recording are handed over next.
    next_cut: Nanos,
}

impl UploadFile for ReceivedFile {
    fn run_at(&self, offset: u64) -> (u64, u64) {
        (self.source.position + offset, u64::MAX)
    }

    fn journal(&self) -> Option<JournalId> {
        Some(JournalId(0))
    }
}

impl ReceivedFile {
    pub(crate) fn new(source: UploadSource, now: Nanos) -> Self {
        let next_cut = source.recording.map_or(Nanos::MAX, |(terms, ..)| terms.place.next(now));
        Self { source, sent: 0, begun: now, settled: now, handed: 0, written: 0, durable: 0, next_cut }
    }

    pub(crate) fn source(&self) -> &UploadSource {
        &self.source
    }

    /// So many bytes more are written.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// A commit made everything written durable.
    pub(crate) fn committed(&mut self) {
        self.durable = self.written;
    }

    fn buffer_bytes(&self) -> u64 {
        self.source
            .recording
            .map_or(UPLOAD_BUFFER_BYTES, |(terms, ..)| terms.place.chunks(terms.rate) * limits::CHUNK_BYTES)
    }

    /// Bytes that the buffer may have taken: a chunk is free again when all of it is written.
    fn room_until(&self) -> u64 {
        self.written / limits::CHUNK_BYTES * limits::CHUNK_BYTES + self.buffer_bytes()
    }

    /// Adds the bytes received until `now`: an upload's client waits while the buffer is full, and so does a camera that is too
    /// fast; others do not. Returns by how many bytes the buffer is exceeded.
    pub(crate) fn settle(&mut self, now: Nanos) -> u64 {
        let came = match self.source.recording {
            Some((_, camera, _)) => camera.bytes(self.source.rate, now.saturating_sub(self.begun)),
            None => self.sent.saturating_add(self.source.rate.bytes_in(now.saturating_sub(self.settled))),
        };
        let room = if self.waits() { self.room_until() } else { u64::MAX };
        self.sent = came.min(self.source.bytes).min(room).max(self.sent);
        self.settled = now;
        self.sent.saturating_sub(self.room_until())
    }

    fn waits(&self) -> bool {
        self.source.recording.is_none_or(|(_, camera, _)| camera.ahead_max() == Nanos::MAX)
    }

    /// The bytes not durable, as time at their rate, and by how much that time exceeds the promise.
    pub(crate) fn at_risk(&self) -> Option<(Nanos, Nanos)> {
        let (_, camera, durable) = self.source.recording?;
        // Less than a direct write is not written before its end.
        let bytes = self.sent.saturating_sub(self.durable + limits::DIRECT_ALIGN);
        let at_risk = self.source.rate.time_for(bytes).saturating_sub(camera.ahead_max());
        Some((at_risk, at_risk.saturating_sub(durable).saturating_sub(HAND_OVER_MAX)))
    }

    fn place(&self) -> Option<RecordingPlace> {
        self.source.recording.map(|(terms, ..)| terms.place)
    }

    /// Hands over the bytes that are due now: how many, and whether they are the last.
    pub(crate) fn hand_over(&mut self, now: Nanos) -> (u64, bool) {
        let whole = match self.place().filter(|_| now >= self.next_cut) {
            _ if self.sent == self.source.bytes => 1,
            None => limits::CHUNK_BYTES,
            Some(place) => {
                self.next_cut = place.next(now);
                limits::DIRECT_ALIGN
            }
        };
        let due = (self.sent / whole * whole).saturating_sub(self.handed);
        self.handed += due;
        (due, self.handed == self.source.bytes)
    }

    /// When more will be due, if nothing happens before.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let next = (self.handed / limits::CHUNK_BYTES + 1) * limits::CHUNK_BYTES;
        let next = next.min(self.source.bytes);
        if next <= self.sent || self.waits() && next > self.room_until() {
            return self.source.recording.map(|_| self.next_cut);
        }
        let comes = match self.source.recording {
            Some((_, camera, _)) => {
                let after = self.settled.saturating_sub(self.begun);
                self.begun.saturating_add(camera.comes(self.source.rate, next, after))
            }
            None => self.settled.saturating_add(self.source.rate.time_for(next - self.sent)),
        };
        Some(comes.min(self.next_cut))
    }
}
