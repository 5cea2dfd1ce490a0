//! The uploads and recordings of a run: when they begin, where they write, and that none fails without a fault.

use dataplane::control::{Command, RecordingRequest, WrittenDisks};
use storage::grant::RecordingPlace;
use storage::uploads::RecordingTerms;
use units::{DiskId, LinkId, Nanos, ReservationId, StreamId, limits};

use crate::control_side::{AskedRecording, ControlAction, SimRecording};
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
        control.reserving.insert(stream.0, AskedRecording { disk, rate, camera, lasts });
        let disk = DiskId(u16::try_from(disk).expect("few disks"));
        let durable = control.load.durable;
        let block_bytes_max = limits::BLOCK_BYTES_MAX;
        let disks = WrittenDisks::one(disk);
        let request = RecordingRequest { stream, disks, link: LinkId(0), rate, durable, block_bytes_max };
        self.command(Command::Reserve(request));
    }

    pub(super) fn recording_begins(&mut self, stream: StreamId, reservation: ReservationId, place: RecordingPlace) {
        let asked = self.control.reserving.remove(&stream.0);
        let Some(AskedRecording { disk, rate, camera, lasts }) = asked else {
            self.laws.broke(Law::EveryEndHasAReason, self.now, format!("nobody asked for {reservation:?}"));
            return;
        };
        let control = &mut self.control;
        control.tally.recordings += 1;
        let bytes = rate.bytes_in(lasts).next_multiple_of(limits::DIRECT_ALIGN);
        let capacity = self.stores[disk].capacity();
        let position = control.random.below((capacity - bytes) / limits::DIRECT_ALIGN) * limits::DIRECT_ALIGN;
        let terms = RecordingTerms { rate, reservation, place };
        let durable = control.load.durable;
        let source = UploadSource { position, bytes, rate, recording: Some((terms, camera, durable)) };
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
                self.command(Command::Release(recording.reservation));
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
