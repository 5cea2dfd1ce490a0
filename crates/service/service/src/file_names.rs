//! Names of the files of a recording by the time, and the end of each file.
//!
//! Promise: arithmetic only. Names contain the time in UTC, so they sort in order, and none occurs twice at the end of summer time. A file ends
//! when the clock passes the next multiple of the files' length, or after that length if the clock was set back. Not here: the
//! positions at which a stream can be cut (`media::cuts`), names that exist already (`store`).

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use jiff::civil::DateTime;
use units::Nanos;

use crate::contents::{ContentPath, PathError};

/// Shortest and longest file of a recording.
pub const FILE_TIMES: RangeInclusive<Nanos> = Nanos::from_secs(1)..=Nanos::from_secs(7 * 86_400);
/// Longest name: leaves room for a number, if a content of that name exists, and for the longer name of an unfinished file.
const NAME_BYTES_MAX: usize = 190;
const DAY: u64 = 86_400;

/// Reason why a pattern cannot give names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// An unknown code.
    #[error(
        "`%{0}` means nothing in a name; %Y, %m, %d, %H, %M and %S are the parts of the time (UTC), and %% is a percent sign"
    )]
    Unknown(String),
    /// The pattern lacks the time: all files would have one name.
    #[error("the name has no part of the time in it (%Y, %m, %d, %H, %M, %S): all files would have one name")]
    NoTime,
    /// The time in the pattern is too coarse: several files would have one name.
    #[error("the name tells the time to the {0}, but a file is to last {1}: put a smaller part of the time into it")]
    TooCoarse(&'static str, Nanos),
    /// Out of range.
    #[error("a file of a recording lasts 1s to 7d")]
    Length,
    /// The name is not valid for a content.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The name is longer than [`NAME_BYTES_MAX`].
    #[error("a name of a recording's files has at most {NAME_BYTES_MAX} bytes")]
    TooLong,
}

/// The files of a recording: their names, and the length of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingFiles {
    pattern: ContentPath,
    every: Nanos,
}

impl RecordingFiles {
    /// Files of this length, with names from this pattern.
    ///
    /// # Errors
    /// The pattern or the length is not valid.
    pub fn new(pattern: ContentPath, every: Nanos) -> Result<Self, PatternError> {
        if !FILE_TIMES.contains(&every) {
            return Err(PatternError::Length);
        }
        let mut finest = (u64::MAX, "");
        for name in pattern.components() {
            let mut rest = name.split('%');
            rest.next();
            while let Some(part) = rest.next() {
                let unit = match part.chars().next() {
                    // `%%`: the character behind the second one is no code.
                    None if rest.next().is_some() => continue,
                    Some('Y') => (366 * DAY, "year"),
                    Some('m') => (31 * DAY, "month"),
                    Some('d') => (DAY, "day"),
                    Some('H') => (3600, "hour"),
                    Some('M') => (60, "minute"),
                    Some('S') => (1, "second"),
                    code => return Err(PatternError::Unknown(code.map(String::from).unwrap_or_default())),
                };
                finest = finest.min(unit);
            }
        }
        match finest {
            (u64::MAX, _) => return Err(PatternError::NoTime),
            (seconds, unit) if Nanos::from_secs(seconds) > every => return Err(PatternError::TooCoarse(unit, every)),
            _ => {}
        }
        let files = Self { pattern, every };
        let longest = files.at(SystemTime::UNIX_EPOCH)?;
        let is_too_long = longest.components().iter().any(|name| name.len() > NAME_BYTES_MAX);
        if is_too_long { Err(PatternError::TooLong) } else { Ok(files) }
    }

    /// The name of a file that begins at this time. If it is valid for one time, it is valid for all.
    ///
    /// # Errors
    /// The name is not valid for a content.
    pub fn at(&self, time: SystemTime) -> Result<ContentPath, PathError> {
        let time = utc(time);
        let mut names = self.pattern.components().iter().map(|name| time.strftime(name).to_string());
        names.try_fold(ContentPath::root(), |path, name| path.child(&name))
    }
}

/// The file that a recording is writing: its beginning by the clock and by monotonic time.
#[derive(Debug)]
pub(crate) struct FileClock {
    every: Nanos,
    /// Number of the multiple of the length in which it began.
    slot: u64,
    begun: Nanos,
    due_since: Option<Nanos>,
}

impl FileClock {
    pub(crate) fn begin(files: &RecordingFiles, time: SystemTime, now: Nanos) -> Self {
        Self { every: files.every, slot: slot(time, files.every), begun: now, due_since: None }
    }

    /// The time since its end was due; `None` before that.
    pub(crate) fn due(&mut self, time: SystemTime, now: Nanos) -> Option<Nanos> {
        let is_due = slot(time, self.every) > self.slot || now.saturating_sub(self.begun) >= self.every;
        if is_due && self.due_since.is_none() {
            self.due_since = Some(now);
        }
        self.due_since.map(|since| now.saturating_sub(since))
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn slot(time: SystemTime, every: Nanos) -> u64 {
    Nanos::from(since_epoch(time)).0 / every.0.max(1)
}

/// Date and time of day in UTC, to the second, from 1970 to the end of the year 9999.
#[must_use]
pub fn utc(time: SystemTime) -> DateTime {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    EPOCH.saturating_add(Duration::from_secs(since_epoch(time).as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pattern: &str, every: u64) -> Result<RecordingFiles, PatternError> {
        RecordingFiles::new(ContentPath::parse_pattern(pattern)?, Nanos::from_secs(every))
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn names_tell_the_time_in_utc_and_are_in_order() {
        let files = files("cam7/%Y-%m-%d/%H-%M-%S 100%%.ts", 60).unwrap();
        for (seconds, name) in [
            (0, "cam7/1970-01-01/00-00-00 100%.ts"),
            (951_782_399, "cam7/2000-02-28/23-59-59 100%.ts"),
            (951_782_400, "cam7/2000-02-29/00-00-00 100%.ts"),
            (1_795_850_284, "cam7/2026-11-28/07-18-04 100%.ts"),
            (4_107_542_400, "cam7/2100-03-01/00-00-00 100%.ts"),
            (u64::MAX >> 8, "cam7/9999-12-31/23-59-59 100%.ts"),
        ] {
            assert_eq!(files.at(at(seconds)).unwrap().joined(), name);
        }
        let names: Vec<String> = (0..9000).map(|day| files.at(at(day * 100_000)).unwrap().joined()).collect();
        assert!(names.is_sorted());
    }

    #[test]
    fn patterns_that_make_no_names_say_the_reason() {
        for (pattern, every, reason) in [
            ("cam.ts", 60, "has no part of the time"),
            ("100%%.ts", 60, "has no part of the time"),
            ("%Y/%q.ts", 60, "`%q` means nothing"),
            ("%Y-%", 60, "`%` means nothing"),
            ("%Y-%m-%d.ts", 600, "tells the time to the day, but a file is to last"),
            ("%H.ts", 0, "lasts 1s to 7d"),
            ("%H.ts", 8 * 86_400, "lasts 1s to 7d"),
        ] {
            let error = files(pattern, every).expect_err(pattern).to_string();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
        assert_eq!(files(&format!("%S{}", "x".repeat(189)), 60), Err(PatternError::TooLong));
        assert!(files("%H-%M.ts", 60).is_ok() && files("%d/x.ts", 86_400).is_ok());
    }

    #[test]
    fn files_end_with_the_clock_and_go_on_for_their_length_where_it_was_set_back() {
        let files = files("%M.ts", 60).unwrap();
        let second = Nanos::from_secs;
        let mut clock = FileClock::begin(&files, at(6030), second(5));
        assert_eq!(clock.due(at(6059), second(34)), None);
        assert_eq!(clock.due(at(6060), second(35)), Some(Nanos::ZERO));
        assert_eq!(clock.due(at(6062), second(37)), Some(second(2)));
        let mut clock = FileClock::begin(&files, at(6060), second(0));
        assert_eq!(clock.due(at(6059), second(1)), None, "set back across the border: no second cut");
        assert_eq!(clock.due(at(3000), second(59)), None);
        assert_eq!(clock.due(at(3001), second(60)), Some(Nanos::ZERO));
        let mut clock = FileClock::begin(&files, at(6060), second(0));
        assert_eq!(clock.due(at(9000), second(3)), Some(Nanos::ZERO), "set forward");
    }
}
