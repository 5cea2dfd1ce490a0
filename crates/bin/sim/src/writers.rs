//! The uploads and recordings of a run: when they begin, where they write, and that none fails without a fault.

use std::collections::BTreeMap;

use dataplane::control::{Command, RecordingRequest, WrittenDisks};
use storage::grant::RecordingPlace;
use storage::uploads::RecordingTerms;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId, UploadId, limits};

use crate::camera::Camera;
use crate::channel::SimChannel;
use crate::course::Course;
use crate::events::ControlAction;
use crate::laws::Law;
use crate::load::{RecordingLoad, UploadLoad};
use crate::random::Random;
use crate::received_file::UploadSource;
use crate::store_thread::{Actions, UploadEnd};

/// Figures of uploads and recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteTally {
    /// Recordings granted.
    pub recordings: u64,
    /// Recordings refused.
    pub recordings_refused: u64,
    /// Uploads acknowledged.
    pub uploads: u64,
    /// Uploaded bytes that went to the disks with a commit behind them.
    pub upload_bytes: u64,
    /// Commits made.
    pub commits: u64,
}

impl WriteTally {
    /// Work since `before`.
    #[must_use]
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            recordings: self.recordings - before.recordings,
            recordings_refused: self.recordings_refused - before.recordings_refused,
            uploads: self.uploads - before.uploads,
            upload_bytes: self.upload_bytes - before.upload_bytes,
            commits: self.commits - before.commits,
        }
    }
}

/// A recording that is asked for.
#[derive(Debug, Clone, Copy)]
struct RequestedRecording {
    disk: usize,
    rate: BitRate,
    camera: Camera,
    lasts: Nanos,
}

/// The clients that write.
#[derive(Debug)]
pub(crate) struct SimWriters {
    uploads: UploadLoad,
    recordings: RecordingLoad,
    capacities: Vec<u64>,
    reserving: BTreeMap<StreamId, RequestedRecording>,
    /// The reservation of each part of a recording that runs.
    running: BTreeMap<(usize, UploadId), ReservationId>,
    /// Where the last recording of each disk will end.
    recorded_to: Vec<Option<u64>>,
    tally: WriteTally,
}

impl SimWriters {
    pub(crate) fn new(uploads: UploadLoad, recordings: RecordingLoad, capacities: Vec<u64>) -> Self {
        Self {
            uploads,
            recordings,
            reserving: BTreeMap::new(),
            running: BTreeMap::new(),
            recorded_to: vec![None; capacities.len()],
            capacities,
            tally: WriteTally::default(),
        }
    }

    pub(crate) fn tally(&self) -> WriteTally {
        self.tally
    }

    /// The next upload to a disk.
    pub(crate) fn draw_upload(&self, disk: usize, course: &mut Course) -> UploadSource {
        let bytes = course.demand().between(self.uploads.bytes.0, self.uploads.bytes.1);
        let position = self.draw_place(disk, bytes, course.demand());
        UploadSource { position, bytes, rate: self.uploads.rate, recording: None }
    }

    fn draw_place(&self, disk: usize, bytes: u64, random: &mut Random) -> u64 {
        random.below((self.capacities[disk] - bytes) / limits::DIRECT_ALIGN) * limits::DIRECT_ALIGN
    }

    /// Draws a recording that lasts so long; for a while if none.
    pub(crate) fn draw_recording(
        &mut self,
        stream: StreamId,
        disk: usize,
        lasts: Option<Nanos>,
        course: &mut Course,
    ) -> Command {
        let random = course.demand();
        let lasts = lasts.unwrap_or_else(|| random.span(Nanos::from_secs(5), Nanos::from_secs(30)));
        let rate = *random.pick(&self.recordings.rates);
        let camera = *random.pick(&self.recordings.cameras);
        self.reserving.insert(stream, RequestedRecording { disk, rate, camera, lasts });
        let (disks, durable, block_bytes_max) =
            (self.written_disks(disk), self.recordings.durable, limits::BLOCK_BYTES_MAX);
        Command::Reserve(RecordingRequest { stream, disks, link: LinkId(0), rate, durable, block_bytes_max })
    }

    /// The disks that a recording of the store of `disk` is written to.
    fn written_disks(&self, disk: usize) -> WrittenDisks {
        let id = |disk| DiskId(u16::try_from(disk).expect("few disks"));
        let (copies, count) = (self.recordings.copies, self.capacities.len());
        if copies == 0 || count <= usize::from(copies) {
            return WrittenDisks::one(id(disk));
        }
        WrittenDisks::several(id(disk), (0..count).map(id), copies)
    }

    pub(crate) fn recording_refused(&mut self, stream: StreamId, course: &mut Course) {
        self.tally.recordings_refused += 1;
        if self.reserving.remove(&stream).is_none() {
            course.broke(Law::EveryEndHasAReason, format!("no request: {stream:?}"));
        }
    }

    /// A recording is granted: the part of it that is written to each disk.
    pub(crate) fn recording_begins(
        &mut self,
        stream: StreamId,
        (reservation, place): (ReservationId, RecordingPlace),
        course: &mut Course,
    ) -> Vec<(usize, UploadSource)> {
        let Some(RequestedRecording { disk, rate, camera, lasts }) = self.reserving.remove(&stream) else {
            course.broke(Law::EveryEndHasAReason, format!("no request for {reservation:?}"));
            return Vec::new();
        };
        self.tally.recordings += 1;
        let disks = self.written_disks(disk);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a rate")]
        let rate = BitRate((rate.0 as f64 * disks.share()) as u64);
        let bytes = rate.bytes_in(lasts).next_multiple_of(limits::DIRECT_ALIGN);
        let terms = RecordingTerms { rate, reservation, place };
        let recording = Some((terms, camera, self.recordings.durable));
        let part = |disk: DiskId| {
            let disk = usize::from(disk.0);
            let anywhere = self.draw_place(disk, bytes, course.demand());
            let beside = self.recorded_to[disk];
            let beside = beside.filter(|end| self.recordings.side_by_side && self.capacities[disk] - end >= bytes);
            let position = beside.unwrap_or(anywhere);
            self.recorded_to[disk] = Some(position + bytes);
            (disk, UploadSource { position, bytes, rate, recording })
        };
        disks.iter().map(part).collect()
    }

    /// A part of a recording is written as this upload.
    pub(crate) fn part_begins(&mut self, disk: usize, upload: UploadId, reservation: ReservationId) {
        self.running.insert((disk, upload), reservation);
    }

    /// A store thread is through with uploads and recordings; a fault of its disk may have `excused` it.
    pub(crate) fn store_acted(
        &mut self,
        disk: usize,
        (out, excused): (&Actions, bool),
        channel: &mut SimChannel,
        course: &mut Course,
    ) {
        self.tally.upload_bytes += out.flushed_bytes;
        self.tally.commits += u64::from(out.committed);
        for (upload, end) in &out.ended {
            if let Some(reservation) = self.running.remove(&(disk, *upload)) {
                if self.running.values().all(|other| *other != reservation) {
                    channel.command(Command::Release(reservation), course);
                }
            } else {
                // Its client waits for the answer before it sends more.
                self.tally.uploads += u64::from(*end == UploadEnd::Acknowledged);
                let gap = course.demand().wait(self.uploads.gap);
                course.act_in(gap, ControlAction::Upload(disk));
            }
            if *end == UploadEnd::Failed && !excused {
                course.broke(Law::EveryEndHasAReason, format!("a write failed on a good disk {disk}"));
            }
        }
    }
}
