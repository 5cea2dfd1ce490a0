//! Fragmented MP4 (ISO/IEC 14496-12 §8.8, §8.16): the curve from an index (`sidx`, else `mfra` at the end), else from the first
//! fragments and the last one. If the last fragment is not found, the rest of the file counts at the pace of the first
//! fragments. The samples of a fragment give its length, and the time of the next fragment if that states none.

use units::Nanos;

use super::boxes::{Boxes, TopBox, find, movie_duration, played_tracks, top_box};
use super::curve::{Mark, Marks};
use super::input::{BudgetedFile, VIEW_MAX};
use super::{
    ContainerFacts, HEADROOM_AVERAGE_PERCENT, HEADROOM_MARKS_PERCENT, ProbeError, RateSource, be_u16, be_u32, be_u64,
    ticks,
};

/// Longest index that is read.
const INDEX_BYTES_MAX: u64 = 4 << 20;
/// Part of the probe's budget that the walk over fragments leaves for the search of the last fragment: a view of 1 MiB may take five reads.
const BYTES_KEPT: u64 = 12 << 20;
const READS_KEPT: u32 = 5 * 12 + 2;

pub(super) fn probe(
    source: &mut BudgetedFile<'_>,
    moov: &[u8],
    index: Option<TopBox>,
    first: TopBox,
) -> Result<ContainerFacts, ProbeError> {
    let told = movie_duration(moov);
    let mut tracks = TrackClock::all(moov);
    let size = source.size();
    if let Some(index) = index
        && let Some((marks, length, end)) = segment_index(source, index)?
        // In a file with an index before each segment, the first index describes only the first segment.
        && end >= size / 10 * 9
    {
        return Ok(indexed(marks, Some(length), end.min(size), RateSource::FragmentIndex));
    }
    // Nor does the `mfra` of a recording cover the recording before it in a joined file.
    if let Some(marks) = random_access(source, &tracks)?.filter(|marks| marks.end() >= size / 10 * 9) {
        return Ok(indexed(marks, told, size, RateSource::FragmentIndex));
    }
    let (marks, walked) = walk(source, first, &mut tracks)?;
    let (told, found_by, headroom_percent) = match walked {
        WalkedFragments::All { last } => {
            let by_samples = if told.is_none() { duration_by_samples(source, last, &tracks)? } else { None };
            let told = told.or_else(|| by_samples.map(|length| marks.span().saturating_add(length)));
            (told, RateSource::Fragments, HEADROOM_MARKS_PERCENT)
        }
        WalkedFragments::Ends => (told, RateSource::FragmentsSampled, HEADROOM_AVERAGE_PERCENT),
        WalkedFragments::Beginning => {
            let told = told.filter(|told| *told > marks.span()).or_else(|| marks.duration_at_their_pace(size));
            (told, RateSource::FragmentsSampled, HEADROOM_AVERAGE_PERCENT)
        }
    };
    if marks.len() == 1
        && let Some(told) = told
    {
        return Ok(ContainerFacts::average(told));
    }
    Ok(ContainerFacts { headroom_percent, ..indexed(marks, told, size, found_by) })
}

/// A track of picture or sound, and its time, in ticks.
struct TrackClock {
    number: u32,
    per_second: u64,
    /// Length of a sample if its fragment states none.
    each: Option<u32>,
    /// Time at which the next fragment begins if it states none (§8.8.12 leaves that to the writer): the sum of the samples before.
    next: Option<u64>,
}

impl TrackClock {
    fn all(moov: &[u8]) -> Vec<Self> {
        let defaults = || Boxes(find(moov, &[b"mvex"]).unwrap_or_default()).filter(|(kind, _)| kind == b"trex");
        let clock = |(number, per_second)| {
            let own = defaults().find(|(_, body)| be_u32(body, 4) == Some(number));
            Self { number, per_second, each: own.and_then(|(_, body)| be_u32(body, 12)), next: Some(0) }
        };
        played_tracks(moov).into_iter().map(clock).collect()
    }

    /// The time at which the samples in `fragment` begin.
    fn pass(&mut self, fragment: &[u8]) -> Option<Nanos> {
        let part = track_part(fragment, self.number)?;
        let stated =
            |base: &[u8]| if base.first() == Some(&1) { be_u64(base, 4) } else { be_u32(base, 4).map(u64::from) };
        let time = find(part, &[b"tfdt"]).and_then(stated).or(self.next)?;
        self.next = samples_ticks(part, self.each).and_then(|length| time.checked_add(length));
        Some(ticks(time, self.per_second))
    }
}

/// The fragments that the walk has marked.
#[derive(Debug, Clone, Copy)]
enum WalkedFragments {
    All {
        last: TopBox,
    },
    /// The first ones and the last.
    Ends,
    /// The first ones.
    Beginning,
}

fn indexed(marks: Marks, told: Option<Nanos>, end: u64, source: RateSource) -> ContainerFacts {
    match marks.fit(told, end) {
        Some((fit, duration)) => ContainerFacts::fitted(fit, duration, HEADROOM_MARKS_PERCENT, source),
        None => ContainerFacts::average(told.unwrap_or(Nanos::ZERO)),
    }
}

/// The marks of a `sidx`, their duration and the offset of their end.
fn segment_index(source: &mut BudgetedFile<'_>, index: TopBox) -> Result<Option<(Marks, Nanos, u64)>, ProbeError> {
    if index.end - index.body > INDEX_BYTES_MAX {
        return Ok(None);
    }
    let body = source.whole(index.body, index.end - index.body)?;
    Ok(parse_segment_index(&body, index.end))
}

fn parse_segment_index(body: &[u8], anchor: u64) -> Option<(Marks, Nanos, u64)> {
    let per_second = u64::from(be_u32(body, 8)?);
    let (mut time, first, at) = match body.first()? {
        0 => (u64::from(be_u32(body, 12)?), u64::from(be_u32(body, 16)?), 20),
        _ => (be_u64(body, 12)?, be_u64(body, 20)?, 28),
    };
    let count = usize::from(be_u16(body, at + 2)?);
    let mut offset = anchor.checked_add(first)?;
    let (begin, mut marks) = (time, Marks::default());
    for entry in body.get(at + 4..)?.chunks_exact(12).take(count) {
        marks.add(Mark::new(ticks(time, per_second), offset));
        offset = offset.checked_add(u64::from(be_u32(entry, 0)? & 0x7fff_ffff))?;
        time = time.checked_add(u64::from(be_u32(entry, 4)?))?;
    }
    (per_second > 0 && marks.len() > 0).then(|| (marks, ticks(time - begin, per_second), offset))
}

/// The marks of the `mfra` at the end of the file, if there is one.
fn random_access(source: &mut BudgetedFile<'_>, tracks: &[TrackClock]) -> Result<Option<Marks>, ProbeError> {
    let size = source.size();
    let Some(tail) = size.checked_sub(16) else { return Ok(None) };
    let end = source.exact::<16>(tail)?;
    let length = u64::from(be_u32(&end, 12).unwrap_or(0));
    if &end[4..8] != b"mfro" || !(24..=INDEX_BYTES_MAX).contains(&length) || length > size {
        return Ok(None);
    }
    let body = source.whole(size - length, length)?;
    let tables = || Boxes(find(&body, &[b"mfra"]).unwrap_or_default()).filter(|(kind, _)| kind == b"tfra");
    let marks = tables().filter_map(|(_, table)| {
        let track = tracks.iter().find(|track| be_u32(table, 4) == Some(track.number))?;
        parse_random_access(table, track.per_second)
    });
    // The greatest time of all tracks counts: sound may continue after the last picture.
    Ok(marks.max_by_key(Marks::span).filter(|marks| marks.len() > 1))
}

fn parse_random_access(table: &[u8], per_second: u64) -> Option<Marks> {
    let wide = *table.first()? == 1;
    let lengths = be_u32(table, 8)?;
    let extra: u32 = [4, 2, 0].map(|shift| (lengths >> shift & 3) + 1).into_iter().sum();
    let each = usize::try_from(extra).ok()? + if wide { 16 } else { 8 };
    let count = usize::try_from(be_u32(table, 12)?).ok()?;
    let mut marks = Marks::default();
    for entry in table.get(16..)?.chunks_exact(each).take(count) {
        let (time, offset) = if wide {
            (be_u64(entry, 0)?, be_u64(entry, 8)?)
        } else {
            (u64::from(be_u32(entry, 0)?), u64::from(be_u32(entry, 4)?))
        };
        marks.add(Mark::new(ticks(time, per_second), offset));
    }
    Some(marks)
}

/// Marks of the first fragments, as far as the budget goes, and of the last.
fn walk(
    source: &mut BudgetedFile<'_>,
    first: TopBox,
    tracks: &mut [TrackClock],
) -> Result<(Marks, WalkedFragments), ProbeError> {
    let mut marks = Marks::default();
    let (mut next, mut last) = (Some(first), first);
    while let Some(fragment) = next {
        if &fragment.kind == b"moof" {
            last = fragment;
        }
        if &fragment.kind == b"moof"
            && let Some(time) = fragment_time(source, fragment, tracks)?
        {
            marks.add_later(Mark::new(time, fragment.start));
        }
        if source.left().reads <= READS_KEPT || source.left().bytes < BYTES_KEPT {
            let Some((time, offset)) = last_fragment(source, tracks)? else {
                return Ok((marks, WalkedFragments::Beginning));
            };
            marks.add(Mark::new(time, offset));
            return Ok((marks, WalkedFragments::Ends));
        }
        next = match top_box(source, fragment.end) {
            Ok(next) => next,
            // The end of a truncated recording.
            Err(ProbeError::Broken(_)) => None,
            Err(error) => return Err(error),
        };
    }
    Ok((marks, WalkedFragments::All { last }))
}

/// The latest time at which the samples of a track in this fragment begin. Advances the clocks of the tracks to the fragment's end.
fn fragment_time(
    source: &mut BudgetedFile<'_>,
    fragment: TopBox,
    tracks: &mut [TrackClock],
) -> Result<Option<Nanos>, ProbeError> {
    let length = usize::try_from(fragment.end - fragment.body).unwrap_or(VIEW_MAX);
    let fragment = source.view(fragment.body, length)?;
    Ok(tracks.iter_mut().filter_map(|track| track.pass(fragment)).max())
}

/// The part of a fragment (`traf`) for this track.
fn track_part(fragment: &[u8], track: u32) -> Option<&[u8]> {
    let of_track = |part: &[u8]| find(part, &[b"tfhd"]).and_then(|head| be_u32(head, 4)) == Some(track);
    Boxes(fragment).filter(|(kind, _)| kind == b"traf").map(|(_, part)| part).find(|part| of_track(part))
}

/// Playing time of the last fragment by the lengths of its samples; a truncated fragment counts in proportion to its bytes.
fn duration_by_samples(
    source: &mut BudgetedFile<'_>,
    last: TopBox,
    tracks: &[TrackClock],
) -> Result<Option<Nanos>, ProbeError> {
    let size = source.size();
    let Some(media) = top_box(source, last.end)? else { return Ok(None) };
    let length = usize::try_from(last.end - last.body).unwrap_or(VIEW_MAX);
    let fragment = source.view(last.body, length)?;
    let duration = |track: &TrackClock| {
        Some(ticks(samples_ticks(track_part(fragment, track.number)?, track.each)?, track.per_second))
    };
    let Some(longest) = tracks.iter().filter_map(duration).max() else { return Ok(None) };
    let mut marks = Marks::default();
    marks.add(Mark::new(Nanos::ZERO, last.start));
    marks.add(Mark::new(longest, media.end));
    Ok(marks.duration_at_their_pace(size.min(media.end)).filter(|duration| *duration > Nanos::ZERO))
}

/// The sum of the samples' lengths (§8.8.7, §8.8.8).
fn samples_ticks(part: &[u8], by_default: Option<u32>) -> Option<u64> {
    let head = find(part, &[b"tfhd"])?;
    let flags = be_u32(head, 0)?;
    let at = 8 + if flags & 1 == 0 { 0 } else { 8 } + if flags & 2 == 0 { 0 } else { 4 };
    let by_default = if flags & 8 == 0 { by_default } else { be_u32(head, at) };
    let mut runs = Boxes(part).filter(|(kind, _)| kind == b"trun");
    runs.try_fold(0_u64, |sum, (_, run)| sum.checked_add(run_ticks(run, by_default)?))
}

fn run_ticks(run: &[u8], by_default: Option<u32>) -> Option<u64> {
    let (flags, count) = (be_u32(run, 0)?, be_u32(run, 4)?);
    if flags & 0x100 == 0 {
        return Some(u64::from(count) * u64::from(by_default?));
    }
    let fields = |mask: u32| 4 * usize::try_from((flags & mask).count_ones()).unwrap_or(0);
    let samples = run.get(8 + fields(0x5)..)?.chunks_exact(fields(0xf00));
    samples.take(usize::try_from(count).unwrap_or(usize::MAX)).map(|sample| be_u32(sample, 0).map(u64::from)).sum()
}

/// Time and offset of the last fragment, searched backwards from the end of the file within the budget.
fn last_fragment(source: &mut BudgetedFile<'_>, tracks: &mut [TrackClock]) -> Result<Option<(Nanos, u64)>, ProbeError> {
    // The kind is followed by the size and kind of `mfhd`, always 16 bytes long. Views overlap by as much.
    const HEAD: usize = 16;
    let step = u64::try_from(VIEW_MAX - HEAD).unwrap_or(0);
    let mut end = source.size();
    // If fragments state no time, only a walk from the first fragment can give one.
    tracks.iter_mut().for_each(|track| track.next = None);
    while end > 0 {
        let start = end.saturating_sub(step);
        let tail = match source.view(start, VIEW_MAX) {
            Err(ProbeError::OverBudget(..)) => return Ok(None),
            other => other?,
        };
        let found = tail.windows(12).rposition(|w| &w[..4] == b"moof" && &w[4..12] == b"\0\0\0\x10mfhd");
        if let Some(at) = found.and_then(|at| at.checked_sub(4)) {
            let at = start + u64::try_from(at).unwrap_or(0);
            let Ok(Some(fragment)) = top_box(source, at) else { return Ok(None) };
            return Ok(fragment_time(source, fragment, tracks)?.map(|time| (time, at)));
        }
        end = start;
    }
    Ok(None)
}
