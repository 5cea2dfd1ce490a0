//! The files of a recording under way: the split of its bytes among them.
//!
//! Promise: each byte goes into one file; a file that has nothing does not end. Not here: when one is due to end (`file_names`), where it
//! can (`media::cuts`), writing it (`content_writer`).

use std::time::SystemTime;

use media::cuts::{CutFinder, PassedPiece};
use tokio::task::JoinSet;
use units::Nanos;

use crate::contents::ContentPath;
use crate::file_names::{FileClock, PatternError, RecordingFiles};

/// The files of one recording.
pub(crate) struct FileWriter {
    files: RecordingFiles,
    clock: FileClock,
    finder: CutFinder,
    is_empty: bool,
    /// Files that are being made durable.
    pub(crate) ending: JoinSet<()>,
}

/// The split of a piece between two files.
pub(crate) struct FileParts<'a> {
    /// Bytes held back before it, then its beginning: they belong to the file.
    pub(crate) before: Vec<u8>,
    pub(crate) end: &'a [u8],
    /// The first bytes of the next file, if one begins; then the rest of the piece.
    pub(crate) next: Option<Vec<u8>>,
    pub(crate) beginning: &'a [u8],
}

impl FileWriter {
    /// The first file begins; `now` is a monotonic time.
    pub(crate) fn begin(files: RecordingFiles, time: SystemTime, now: Nanos) -> Self {
        let clock = FileClock::begin(&files, time, now);
        Self { files, clock, finder: CutFinder::default(), is_empty: true, ending: JoinSet::new() }
    }

    /// The name of a file that begins then.
    pub(crate) fn name(&self, time: SystemTime) -> Result<ContentPath, PatternError> {
        Ok(self.files.at(time)?)
    }

    /// The next file begins.
    pub(crate) fn begin_next(&mut self, time: SystemTime, now: Nanos) {
        self.clock = FileClock::begin(&self.files, time, now);
    }

    /// Takes a piece of the recording.
    pub(crate) fn part<'a>(&mut self, piece: &'a [u8], time: SystemTime, now: Nanos) -> FileParts<'a> {
        let due = self.clock.due(time, now);
        let PassedPiece { mut before, bytes, cut } = self.finder.pass(piece, due);
        let passed = &piece[..bytes];
        let cut = cut.filter(|cut| cut.at > 0 || !self.is_empty);
        self.is_empty &= before.is_empty() && passed.is_empty();
        let Some(cut) = cut else { return FileParts { before, end: passed, next: None, beginning: &[] } };
        let mut next = cut.head;
        if cut.at < before.len() {
            next.extend(before.split_off(cut.at));
            return FileParts { before, end: &[], next: Some(next), beginning: passed };
        }
        let (end, beginning) = passed.split_at(cut.at - before.len());
        FileParts { before, end, next: Some(next), beginning }
    }

    /// The bytes held back at the end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.finder.rest()
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        // Their received bytes become durable, however the recording ends.
        self.ending.detach_all();
    }
}
