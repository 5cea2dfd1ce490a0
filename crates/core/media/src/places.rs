//! Sampling of a file that has no index of times: some places are read at even distances, then further ones in the middle of
//! the two neighbours with the greatest uncertainty between them, within the budget of the probe. The curve is made from the
//! times found at the places, or from the playing times of the bytes there.

use units::Nanos;

use super::curve::{Mark, Marks, Point, fit, time_at};
use super::input::BudgetedFile;
use super::{ContainerFacts, HEADROOM_MARKS_PERCENT, HEADROOM_SAMPLED_PERCENT, ProbeError, RateSource};

/// Places at even distances, and places added between them.
const SPREAD: u64 = 24;
const ADDED: usize = 24;
/// A place is added between two neighbours if the uncertain time between them is at least the total time divided by this.
const DOUBT_PART: u64 = 12;
/// Two paces count as equal if they differ by at most the pace divided by this.
const PACE_PART: u128 = 50;

/// A place: the bytes from `start` to `end`, and the result found in them.
struct FilePlace<T> {
    start: u64,
    end: u64,
    found: T,
}

impl<T> FilePlace<T> {
    fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Time between two places, and the uncertain part of it.
#[derive(Clone, Copy, Default)]
struct Gap {
    time: Nanos,
    doubt: Nanos,
}

/// Reads places of `bytes` each, from offset `first` on.
fn read_places<T>(
    source: &mut BudgetedFile<'_>,
    first: u64,
    bytes: usize,
    find: impl Fn(&[u8]) -> T,
    gap: impl Fn(&FilePlace<T>, &FilePlace<T>) -> Gap,
) -> Result<Vec<FilePlace<T>>, ProbeError> {
    let room = u64::try_from(bytes).unwrap_or(u64::MAX);
    let mut places: Vec<FilePlace<T>> = Vec::new();
    let look_at = |source: &mut BudgetedFile<'_>, start: u64, end: u64| {
        let view = source.view(start, usize::try_from(end - start).unwrap_or(bytes))?;
        Ok(FilePlace { start, end: start + u64::try_from(view.len()).unwrap_or(0), found: find(view) })
    };
    for at in source.places(first, SPREAD, bytes) {
        // Places of a small file overlap.
        let start = places.last().map_or(at, |before| before.end.max(at));
        match look_at(source, start, at.saturating_add(room).max(start)) {
            Ok(place) => places.push(place),
            Err(ProbeError::OverBudget(..)) if places.len() > 1 => return Ok(places),
            Err(error) => return Err(error),
        }
    }
    for _ in 0..ADDED {
        let apart = |pair: &[FilePlace<T>]| pair[1].start > pair[0].end;
        let gaps = || places.windows(2).map(|pair| if apart(pair) { gap(&pair[0], &pair[1]) } else { Gap::default() });
        let all = gaps().fold(Nanos::ZERO, |sum, gap| sum.saturating_add(gap.time));
        let Some((index, worst)) = gaps().map(|gap| gap.doubt).enumerate().max_by_key(|(_, doubt)| *doubt) else {
            break;
        };
        if worst == Nanos::ZERO || worst.0 < all.0 / DOUBT_PART {
            break;
        }
        let (from, to) = (places[index].end, places[index + 1].start);
        let length = room.min(to - from);
        let start = from + (to - from - length) / 2;
        match look_at(source, start, start + length) {
            Ok(place) => places.insert(index + 1, place),
            Err(ProbeError::OverBudget(..)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(places)
}

/// Marks of the times that `times` finds, with their offsets, in places of `bytes` each from offset `first` on.
pub(super) fn marks(
    source: &mut BudgetedFile<'_>,
    first: u64,
    bytes: usize,
    times: impl Fn(&[u8]) -> Vec<Mark>,
) -> Result<Marks, ProbeError> {
    // A long time between two places is either a jump of the clock or a part of another pace: a place in the middle decides.
    let gap = |before: &FilePlace<Vec<Mark>>, next: &FilePlace<Vec<Mark>>| {
        let pair = before.found.last().zip(next.found.first()).filter(|(last, first)| last.clock == first.clock);
        let time = pair.map_or(Nanos::ZERO, |(last, first)| Nanos(last.time.0.abs_diff(first.time.0)));
        Gap { time, doubt: time }
    };
    let mut marks = Marks::default();
    for place in read_places(source, first, bytes, times, gap)? {
        place.found.into_iter().for_each(|mark| marks.add(Mark { offset: place.start + mark.offset, ..mark }));
    }
    Ok(marks)
}

/// The curve from times at several places, if the file states no duration.
pub(super) fn sampled(
    source: &mut BudgetedFile<'_>,
    first: u64,
    times: impl Fn(&[u8]) -> Vec<Mark>,
) -> Result<ContainerFacts, ProbeError> {
    let marks = marks(source, first, 256 << 10, times)?;
    let duration = marks.duration_at_their_pace(source.size());
    let (fit, duration) = marks.fit(duration, source.size()).ok_or(ProbeError::NoDuration)?;
    Ok(ContainerFacts::fitted(fit, duration, HEADROOM_SAMPLED_PERCENT, RateSource::TimesSampled))
}

/// The curve from the playing time of the frames that begin in `bytes` at several places. Bytes between two places play at the mean of
/// their paces.
pub(super) fn paced(
    source: &mut BudgetedFile<'_>,
    first: u64,
    bytes: usize,
    playing_time: impl Fn(&[u8]) -> Nanos,
) -> Result<ContainerFacts, ProbeError> {
    let between = |before: &FilePlace<Nanos>, next: &FilePlace<Nanos>| {
        let [before, next] = [before, next].map(|place| time_at(next.start - before.end, place.bytes(), place.found));
        Gap { time: Nanos(before.0.midpoint(next.0)), doubt: Nanos(before.0.abs_diff(next.0)) }
    };
    let places = read_places(source, first, bytes, playing_time, between)?;
    let mut points: Vec<Point> = Vec::new();
    let mut time = Nanos::ZERO;
    for (index, place) in places.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &places[before]);
        time = time.saturating_add(before.map_or(Nanos::ZERO, |before| between(before, place).time));
        points.push(Point { time, end: place.start });
        time = time.saturating_add(place.found);
        points.push(Point { time, end: place.end });
    }
    let size = source.size();
    let seen = points.last().map_or(0, |last| last.end.saturating_sub(first));
    // The budget may end before the file does.
    let duration = time_at(size.saturating_sub(first), seen, time);
    points.push(Point { time: duration, end: size });
    let fit = fit(&points, first).filter(|_| duration > Nanos::ZERO).ok_or(ProbeError::NoDuration)?;
    let headroom = if varies(&places) { HEADROOM_SAMPLED_PERCENT } else { HEADROOM_MARKS_PERCENT };
    Ok(ContainerFacts::fitted(fit, duration, headroom, RateSource::FramesSampled))
}

/// True if the paces of any two places with playing time differ.
fn varies(places: &[FilePlace<Nanos>]) -> bool {
    let played = places.iter().filter(|place| place.found > Nanos::ZERO);
    let paces = played.map(|place| u128::from(place.found.0) * (1 << 32) / u128::from(place.bytes().max(1)));
    let (least, most) = paces.fold((u128::MAX, 0), |(least, most), pace| (least.min(pace), most.max(pace)));
    most.saturating_sub(least) * PACE_PART > most
}

#[cfg(test)]
mod tests;
