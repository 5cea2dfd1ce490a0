//! The uploads and recordings of a run: when they begin, where they write, and that none fails without a fault.

use dataplane::control::{Command, RecordingRequest, WrittenDisks};
use storage::grant::RecordingPlace;
use storage::uploads::RecordingTerms;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId, limits};

use crate::camera::Camera;
use crate::control_side::{ControlAction, RequestedRecording, SimRecording};
use crate::laws::Law;
use crate::store_thread::{Actions, UploadEnd, UploadSource};
use crate::world::World;

impl World {
    pub(super) fn begin_upload(&mut self, disk: usize) {
        let control = &mut self.control;
        let bytes = control.random.between(control.load.upload_bytes.0, control.load.upload_bytes.1);
        let capacity = self.stores[disk].capacity();
        let position = control.random.below((capacity - bytes) / limits::DIRECT_ALIGN) * limits::DIRECT_ALIGN;
        let source = UploadSource { position, bytes, rate: control.load.upload_rate, recording: None };
        self.with_store(disk, |store, now, out| {
            store.begin(source, now, out);
        });
    }

    /// Asks for a recording that lasts so long; for a while if none.
    pub(super) fn reserve(&mut self, disk: usize, lasts: Option<Nanos>) {
        let control = &mut self.control;
        let stream = StreamId(control.next_stream);
        control.next_stream += 1;
        let lasts = lasts.unwrap_or_else(|| control.random.span(Nanos::from_secs(5), Nanos::from_secs(30)));
        let rate = *control.random.pick(&control.load.recording_rates);
        let camera = *control.random.pick(&control.load.cameras);
        control.reserving.insert(stream.0, RequestedRecording { disk, rate, camera, lasts });
        let durable = control.load.durable;
        let block_bytes_max = limits::BLOCK_BYTES_MAX;
        let disks = self.written_disks(disk);
        let request = RecordingRequest { stream, disks, link: LinkId(0), rate, durable, block_bytes_max };
        self.command(Command::Reserve(request));
    }

    /// The disks that a recording of the store of `disk` is written to.
    fn written_disks(&self, disk: usize) -> WrittenDisks {
        let id = |disk| DiskId(u16::try_from(disk).expect("few disks"));
        let (copies, count) = (self.control.load.recording_copies, self.disks.len());
        if copies == 0 || count <= usize::from(copies) {
            return WrittenDisks::one(id(disk));
        }
        WrittenDisks::several(id(disk), (0..count).map(id), copies)
    }

    pub(super) fn recording_begins(&mut self, stream: StreamId, reservation: ReservationId, place: RecordingPlace) {
        let asked = self.control.reserving.remove(&stream.0);
        let Some(RequestedRecording { disk, rate, camera, lasts }) = asked else {
            self.laws.broke(Law::EveryEndHasAReason, self.now, format!("no request for {reservation:?}"));
            return;
        };
        self.control.tally.recordings += 1;
        let disks = self.written_disks(disk);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a rate")]
        let rate = BitRate((rate.0 as f64 * disks.share()) as u64);
        for disk in disks.iter() {
            self.part_begins(usize::from(disk.0), RecordingTerms { rate, reservation, place }, (camera, lasts));
        }
    }

    /// Begins the part of a recording that is written to one disk.
    fn part_begins(&mut self, disk: usize, terms: RecordingTerms, (camera, lasts): (Camera, Nanos)) {
        let control = &mut self.control;
        let (rate, reservation) = (terms.rate, terms.reservation);
        let bytes = rate.bytes_in(lasts).next_multiple_of(limits::DIRECT_ALIGN);
        let capacity = self.stores[disk].capacity();
        let anywhere = control.random.below((capacity - bytes) / limits::DIRECT_ALIGN) * limits::DIRECT_ALIGN;
        let beside = control.recorded_to[disk].filter(|end| control.load.side_by_side && capacity - end >= bytes);
        let position = beside.unwrap_or(anywhere);
        control.recorded_to[disk] = Some(position + bytes);
        let source = UploadSource { position, bytes, rate, recording: Some((terms, camera, control.load.durable)) };
        let mut upload = None;
        self.with_store(disk, |store, now, out| upload = Some(store.begin(source, now, out)));
        let upload = upload.expect("begun above");
        self.control.recordings.insert((disk, upload), SimRecording { reservation, disk });
    }

    /// A store thread is through with uploads and recordings.
    pub(crate) fn control_hears_store(&mut self, disk: usize, out: &Actions) {
        self.control.tally.upload_bytes += out.flushed_bytes;
        self.control.tally.commits += u64::from(out.committed);
        for (upload, end) in &out.ended {
            if let Some(recording) = self.control.recordings.remove(&(disk, *upload)) {
                debug_assert_eq!(recording.disk, disk);
                let reservation = recording.reservation;
                if self.control.recordings.values().all(|other| other.reservation != reservation) {
                    self.command(Command::Release(reservation));
                }
            } else {
                // Its client waits for the answer before it sends more.
                self.control.tally.uploads += u64::from(*end == UploadEnd::Acknowledged);
                let gap = self.control.random.wait(self.control.load.upload_gap);
                self.act_in(gap, ControlAction::Upload(disk));
            }
            let excused = self.control.disk_excused[disk] > self.now;
            if *end == UploadEnd::Failed && !excused {
                self.laws.broke(Law::EveryEndHasAReason, self.now, format!("a write failed on a good disk {disk}"));
            }
        }
    }
}
