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
use service::figures::note_history;
use service::history::{HistorySlot, SLOT_BYTES, SLOTS};

/// Between two figures.
const PERIOD: Duration = Duration::from_secs(1);
/// Figures between two writes: those of a slot.
const FIGURES_KEPT: u32 = 300;

/// Gives the service the figures of the file at `path`, has it note those to come, and keeps them in the file.
pub(super) fn keep(path: &Path, service: &Arc<MediaService>) {
    let opened = open(path, service);
    if let Err(error) = &opened {
        say(format_args!("the figures of the last days are not kept, in {}: {error}", path.display()));
    }
    let file = opened.ok().map(Arc::new);
    let service = Arc::downgrade(service);
    tokio::spawn(async move {
        let mut period = tokio::time::interval(PERIOD);
        for figures in 1_u32.. {
            period.tick().await;
            let Some(service) = service.upgrade() else { return };
            note_history(&service, SystemTime::now());
            let (Some(file), true) = (file.clone(), figures.is_multiple_of(FIGURES_KEPT)) else { continue };
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
