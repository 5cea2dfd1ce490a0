//! The newest generation of a volume's superblock that a server has seen, which it keeps with its other state, not on the disks.
//!
//! Reason: a disk that was taken out does not know that when it is found without the others. It would be served as if it had everything,
//! and written to, so that no disk would have all that was acknowledged. See docs/decisions/0050.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use units::Nanos;
use volume::VolumeId;

/// Time until a file that could not be written is tried again.
const RETRY: Nanos = Nanos::from_secs(1);

/// Keeps it up to date.
#[derive(Debug)]
pub(crate) struct SeenGeneration {
    file: PathBuf,
    written: Option<u64>,
    /// Time of the last write that failed.
    failed: Option<Nanos>,
}

impl SeenGeneration {
    pub(super) const fn kept_in(file: PathBuf) -> Self {
        Self { file, written: None, failed: None }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The newest generation that was seen; none if none is known.
    pub(super) fn read(&self) -> Option<u64> {
        fs::read_to_string(&self.file).ok()?.trim().parse().ok()
    }

    /// Writes the generation unless it is there. An unwritten one costs a start its warning, not the streams: it is tried
    /// again, but not each time.
    pub(super) fn keep(&mut self, generation: u64, now: Nanos) {
        let waits = self.failed.is_some_and(|failed| now < failed.saturating_add(RETRY));
        if self.written == Some(generation) || waits {
            return;
        }
        match device::state_file::replace(&self.file, |to| writeln!(to, "{generation}")) {
            Ok(()) => (self.written, self.failed) = (Some(generation), None),
            Err(_) => self.failed = Some(now),
        }
    }
}

/// Path of the file that keeps it.
pub(super) fn file_of(state: &Path, volume: &VolumeId) -> PathBuf {
    let mut name = "volume-".to_owned();
    volume.iter().for_each(|byte| write!(name, "{byte:02x}").expect("text takes all"));
    state.join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again_after_a_while_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let file = state.join("volume");
        let mut seen = SeenGeneration::kept_in(file.clone());
        let at = |milliseconds: u64| Nanos(5_000_000_000 + milliseconds * 1_000_000);
        seen.keep(7, at(0));
        fs::create_dir(&state).expect("there is room");
        seen.keep(7, at(999));
        seen.keep(8, at(999));
        assert_eq!(seen.read(), None, "not each time");
        seen.keep(8, at(1_000));
        assert_eq!(seen.read(), Some(8));
        fs::remove_file(&file).expect("it is there");
        seen.keep(8, at(5_000));
        assert_eq!(seen.read(), None, "what is written is not written again");
        seen.keep(9, at(5_000));
        assert_eq!(seen.read(), Some(9), "after a success nothing waits");
    }
}
