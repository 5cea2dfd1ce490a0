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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const EVERY: u64 = 10;
    const YEAR: i64 = 365 * 86_400;

    /// The files of a camera that sends a piece a second for five minutes. Before each of these seconds the clock is set by this step.
    fn recorded(settings: &[(u64, i64)]) -> Vec<(ContentPath, Vec<u8>)> {
        let pattern = ContentPath::parse_pattern("cam7/%Y-%m-%d/%H-%M-%S.ts").expect("a path");
        let files = RecordingFiles::new(pattern, Nanos::from_secs(EVERY)).expect("a pattern");
        let mut since_1970 = 1_796_000_003_i64;
        let at = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.max(0).unsigned_abs());
        let mut writer = FileWriter::begin(files, at(since_1970), Nanos::ZERO);
        let mut all = vec![(writer.name(at(since_1970)).expect("a name"), Vec::new())];
        let (mut begun, mut sent) = (0, Vec::new());
        for second in 0..300 {
            since_1970 += 1 + settings.iter().filter(|(when, _)| *when == second).map(|(_, by)| by).sum::<i64>();
            let (now, piece) = (Nanos::from_secs(second), format!("{second:05};").into_bytes().repeat(500));
            sent.extend_from_slice(&piece);
            let parts = writer.part(&piece, at(since_1970), now);
            let file = &mut all.last_mut().expect("one").1;
            file.extend([&parts.before, parts.end].concat());
            if let Some(head) = parts.next {
                all.push((writer.name(at(since_1970)).expect("a name"), [&head, parts.beginning].concat()));
                writer.begin_next(at(since_1970), now);
                begun = second;
            }
            assert!(second - begun <= EVERY, "a file of over {EVERY} s");
        }
        all.last_mut().expect("one").1.extend(writer.rest());
        let stored: Vec<u8> = all.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        assert!(stored == sent, "{} of {} bytes", stored.len(), sent.len());
        all
    }

    #[test]
    fn a_clock_that_is_set_loses_no_byte_and_makes_no_empty_files() {
        let undisturbed = recorded(&[]);
        for settings in [
            &[(42, YEAR)][..],
            &[(42, -3600)],
            &[(42, YEAR), (43, -YEAR)],
            &[(42, YEAR), (142, -YEAR), (143, 3600), (144, -3600)],
            // Before 1970, and beyond what 64 bits of nanoseconds hold.
            &[(42, -60 * YEAR), (142, 60 * YEAR)],
            &[(42, 700 * YEAR), (142, -700 * YEAR)],
            &[(10, -1), (20, 1), (30, -1), (40, -1), (50, 2), (60, -10), (70, 10)],
        ] {
            let files = recorded(settings);
            assert!(files.iter().all(|(_, bytes)| !bytes.is_empty()), "{settings:?}");
            // A clock that jumps ends one file more, at most.
            assert!(files.len() <= undisturbed.len() + settings.len(), "{settings:?}: {}", files.len());
        }
        let set = recorded(&[(42, YEAR), (43, -YEAR)]);
        let names: Vec<String> = set[4..7].iter().map(|(path, _)| path.joined()).collect();
        let times = ["2026-11-30/00-54-00", "2027-11-30/00-54-06", "2026-11-30/00-54-16"];
        assert_eq!(names, times.map(|time| format!("cam7/{time}.ts")));
    }
}
