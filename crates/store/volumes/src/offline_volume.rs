//! A volume that this process alone has: a command has it take contents and look after its copies as a server does, while no
//! stream is served.
//!
//! Promise: the threads and the steps are those of a server, with grants for whatever they offer; a step that is reported is durable, so
//! that the process may end at any moment. Not here: the checks before a command writes anything (`isocast volume`).

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use store::buffers::UPLOADS_PER_CHUNK;
use store::lock::lock;
use store::{Store, StoreBuilder, StoreError, StoreEvent, StoreSettings, Ungoverned, UpkeepReport};

use crate::info::{ServedVolume, UpkeepError, VolumeWish};
use crate::open::OpenVolume;

/// Time between two looks at how far it has come.
const PERIOD: Duration = Duration::from_millis(100);
/// Longest silence of a disk: no stream waits for it, and a drive may try for minutes to read a bad place.
const PATIENCE: Duration = Duration::from_secs(300);
/// Memory for uploads, in MiB: half of it is for one that is large.
const UPLOAD_CHUNKS: usize = 16;

/// See the module.
pub struct OwnVolume {
    volume: ServedVolume,
    events: Receiver<StoreEvent>,
    /// Its threads end with it.
    store: Store,
}

/// The end of an upkeep.
#[derive(Debug, Default)]
pub struct UpkeepOutcome {
    /// The copies that were read and written.
    pub report: UpkeepReport,
    /// Contents of which a part has no right copy, in order of names.
    pub lost: Vec<String>,
    /// The error for which work is left.
    pub failed: Option<StoreError>,
}

impl UpkeepOutcome {
    fn note(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::CopyLost { name, .. } if self.lost.last() != Some(&name) => self.lost.push(name),
            StoreEvent::UpkeepEnded { report, failed, .. } => (self.report, self.failed) = (report, failed),
            _ => {}
        }
    }
}

impl OwnVolume {
    /// Uploads that can be under way at once.
    pub const UPLOADS_MAX: usize = UPLOAD_CHUNKS * UPLOADS_PER_CHUNK;

    /// Opens the volume on all of its disks, and starts their threads. A disk that is to be filled begins to be.
    ///
    /// # Errors
    /// A disk is in use, or cannot be opened; the catalogue is damaged; a thread cannot be had.
    pub fn open(disks: &[PathBuf]) -> Result<Self, UpkeepError> {
        let open = OpenVolume::open_on(disks, None)?;
        let settings = StoreSettings {
            patience: PATIENCE,
            upload_chunks: UPLOAD_CHUNKS,
            recording_chunks: 1,
            hidden_files: true,
            refill_disks: false,
            ..StoreSettings::default()
        };
        let mut store = StoreBuilder::new(&settings).map_err(StoreError::from)?;
        let joined = open.join(&mut store, &mut |_| Box::new(Ungoverned::default()));
        let (volume, store) = (joined.map_err(StoreError::from)?, store.finish());
        let (sender, events) = channel();
        // The receiver lives as long as the store.
        store.listen(Box::new(move |event| drop(sender.send(event))));
        Ok(Self { volume, events, store })
    }

    /// Its state.
    #[must_use]
    pub const fn served(&self) -> &ServedVolume {
        &self.volume
    }

    /// Its contents: all names are served, hidden ones as well.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Does the upkeep, and waits for its end; without one, for that of the upkeep that the opening began. `show` gets the bytes of
    /// contents seen, and of all.
    ///
    /// # Errors
    /// It cannot be begun.
    pub fn look_after(
        &self,
        wish: Option<&VolumeWish>,
        mut show: impl FnMut(u64, u64),
    ) -> Result<UpkeepOutcome, UpkeepError> {
        if let Some(wish) = wish {
            self.volume.begin(wish)?;
        }
        let mut outcome = UpkeepOutcome::default();
        loop {
            match self.events.recv_timeout(PERIOD) {
                Ok(event) => {
                    let is_end = matches!(event, StoreEvent::UpkeepEnded { .. });
                    outcome.note(event);
                    if is_end {
                        return Ok(outcome);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((_, report)) = self.volume.info().upkeep {
                        show(report.seen.0, report.total.0);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(StoreError::Closed.into()),
            }
        }
    }

    /// Reads all copies of these parts of contents, and writes the wrong ones anew. Gives the parts of which a copy was, and now is right.
    #[must_use]
    pub fn mend(&self, parts: &[(String, u32)]) -> Vec<(String, u32)> {
        lock(&self.volume.core).mend_parts(parts);
        let mut mended = Vec::new();
        loop {
            // Reports of copies that ended before this look are in the queue after it.
            let is_over = !lock(&self.volume.core).upkeep.is_mending();
            mended.extend(self.events.try_iter().filter_map(|event| match event {
                StoreEvent::CopyMended { name, part } => Some((name, part)),
                _ => None,
            }));
            if is_over {
                return mended;
            }
            thread::sleep(PERIOD);
        }
    }
}
