//! The file that keeps the figures of thirty days over restarts.
//!
//! Promise: 1.1 MB at most; a slot has a fixed place in it and never crosses a sector, so that a crash costs one slot. Not here: the slots
//! (`service::history`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use program::output::say;
use rustix::fs::OFlags;
use service::MediaService;
use service::history::{HistorySlot, SLOT_BYTES, SLOTS};

/// Between two writes: the time of a slot.
const PERIOD: Duration = Duration::from_secs(300);

/// Gives the service the figures of the file at `path`, and keeps those to come in it.
pub(super) fn keep(path: &Path, service: &Arc<MediaService>) {
    let file = match open(path, service) {
        Ok(file) => Arc::new(file),
        Err(error) => {
            return say(format_args!("the figures of the last days are not kept, in {}: {error}", path.display()));
        }
    };
    let service = Arc::downgrade(service);
    tokio::spawn(async move {
        let mut periods = tokio::time::interval(PERIOD);
        periods.tick().await;
        loop {
            periods.tick().await;
            let (Some(service), file) = (service.upgrade(), Arc::clone(&file)) else { return };
            let slots = service.history.to_keep(SystemTime::now());
            // A full disk costs the figures, and nothing else.
            let _ = tokio::task::spawn_blocking(move || write(&file, &slots)).await;
        }
    });
}

fn open(path: &Path, service: &MediaService) -> io::Result<File> {
    let through_no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(through_no_link);
    let file = options.open(path)?;
    let bytes = (SLOTS * SLOT_BYTES) as u64;
    if file.metadata()?.len() != bytes {
        file.set_len(bytes)?;
    }
    let mut all = vec![0; SLOTS * SLOT_BYTES];
    file.read_exact_at(&mut all, 0)?;
    service.history.restore(all.chunks_exact(SLOT_BYTES).filter_map(HistorySlot::from_bytes));
    Ok(file)
}

fn write(file: &File, slots: &[HistorySlot]) -> io::Result<()> {
    slots.iter().try_for_each(|slot| file.write_all_at(&slot.to_bytes(), slot.place() * SLOT_BYTES as u64))
}
