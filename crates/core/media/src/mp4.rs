//! MP4, MOV and their kin (ISO/IEC 14496-12): the curve of all samples from the tables in `moov`.
//!
//! A `moov` of up to [`MOOV_BYTES_MAX`] is read whole; of a longer one only the duration is used. All tables are walked in that
//! memory, so the bytes read bound the work.

use units::Nanos;

use super::boxes::{Boxes, TRACKS_MAX, TopBox, clock, find, handler, movie_duration, top_box};
use super::codecs::Codec;
use super::curve::Samples;
use super::input::BudgetedFile;
use super::{ContainerFacts, ProbeError, RateSource, be_u32, be_u64, fragments, ticks};

/// Longest `moov` that is read whole: three hours at 60 frames a second, with sound, need about 8 MiB.
const MOOV_BYTES_MAX: u64 = 12 << 20;
/// Most boxes of the top level that are examined in the search for `moov`: many small boxes lie in one read, larger ones soon
/// exhaust the budget.
const TOP_BOXES_MAX: usize = 16_384;
/// Kinds of the first box by which a file is taken for an MP4.
const FIRST: [&[u8; 4]; 10] =
    [b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof", b"sidx"];

pub(super) fn begins(start: &[u8]) -> bool {
    start.get(4..8).is_some_and(|kind| FIRST.iter().any(|known| known.as_slice() == kind))
}

pub(super) fn probe(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let (mut at, mut movie, mut index, mut media) = (0, None, None, None);
    for _ in 0..TOP_BOXES_MAX {
        let found = match top_box(source, at) {
            Ok(Some(found)) => found,
            // The end of the file. A file that is being written, or was cut, may have a sufficient head.
            Ok(None) => break,
            Err(ProbeError::Broken(_)) if movie.is_some() => break,
            Err(error) => return Err(error),
        };
        match &found.kind {
            b"moov" => movie = Some(Movie::read(source, found)?),
            b"sidx" if index.is_none() => index = Some(found),
            b"moof" if media.is_none() => media = Some(found),
            _ => {}
        }
        // `moov` suffices, or, for a fragmented file, `moov` and the first fragment.
        if movie.as_ref().is_some_and(|m| media.is_some() || !m.fragmented()) {
            break;
        }
        at = found.end;
    }
    let movie = movie.ok_or(ProbeError::Broken(
        "it has no `moov`, which a recorder writes last: it was cut, and no player plays it",
    ))?;
    match media {
        Some(first) => fragments::probe(source, &movie.body, index, first),
        None => tables(&movie, source.size()),
    }
}

/// The contents of `moov`.
struct Movie {
    body: Vec<u8>,
    /// False if `moov` was too large, so that `body` has only its first bytes.
    whole: bool,
}

impl Movie {
    fn read(source: &mut BudgetedFile<'_>, moov: TopBox) -> Result<Self, ProbeError> {
        let length = moov.end - moov.body;
        let whole = length <= MOOV_BYTES_MAX;
        let body = source.whole(moov.body, if whole { length } else { 4096 })?;
        let tracks = Boxes(&body).filter(|(kind, _)| kind == b"trak").take(TRACKS_MAX);
        let format = |track| find(track, &[b"mdia", b"minf", b"stbl", b"stsd"])?.get(12..16);
        source.codecs.extend(tracks.filter_map(|(_, track)| Codec::of_code(format(track)?)));
        Ok(Self { body, whole })
    }

    fn fragmented(&self) -> bool {
        find(&self.body, &[b"mvex"]).is_some()
    }
}

/// The rate from the sample tables of a movie that is not fragmented.
fn tables(movie: &Movie, size: u64) -> Result<ContainerFacts, ProbeError> {
    let moov = movie.body.as_slice();
    if !movie.whole {
        return movie_duration(moov).map(ContainerFacts::average).ok_or(ProbeError::NoDuration);
    }
    let mut samples = Samples::new(size);
    let mut longest = Nanos::ZERO;
    for (_, track) in Boxes(moov).filter(|(kind, _)| kind == b"trak").take(TRACKS_MAX) {
        // Samples of chapters and other texts may lie anywhere; a player waits for sound and picture only.
        if matches!(handler(track), Some(kind) if &kind == b"vide" || &kind == b"soun") {
            longest = longest.max(track_samples(track, &mut samples).unwrap_or(Nanos::ZERO));
        }
    }
    // A file that was cut plays up to its last complete sample.
    let duration = samples.cut_at().unwrap_or_else(|| movie_duration(moov).unwrap_or(longest).max(longest));
    match samples.fit() {
        Some((fit, jumped)) => {
            let duration = duration.saturating_sub(jumped);
            Ok(ContainerFacts::fitted(fit, duration, 0, RateSource::SampleTables))
        }
        None => Ok(ContainerFacts::average(duration)),
    }
}

/// Adds a track's samples and gives its duration; `None` if it has no usable tables.
fn track_samples(track: &[u8], samples: &mut Samples) -> Option<Nanos> {
    let (per_second, _) = clock(find(track, &[b"mdia", b"mdhd"])?)?;
    let table = find(track, &[b"mdia", b"minf", b"stbl"])?;
    (per_second > 0).then_some(())?;
    let mut sizes = Sizes::new(table)?;
    let mut times = Times::new(find(table, &[b"stts"])?);
    let mut chunks = ChunkTable::new(table)?;
    while let Some((mut offset, count)) = chunks.next() {
        let mut left = count.min(sizes.left);
        if left == 0 {
            break;
        }
        if let Some(size) = sizes.all {
            // There may be billions of samples of one size (uncompressed sound): each chunk of them counts as one sample,
            // needed at its start.
            samples.add(ticks(times.now, per_second), offset, size.saturating_mul(left));
            times.advance(left);
            sizes.left -= left;
            continue;
        }
        while left > 0 {
            let Some(size) = sizes.next() else { break };
            samples.add(ticks(times.now, per_second), offset, size);
            offset = offset.saturating_add(size);
            times.advance(1);
            left -= 1;
        }
    }
    Some(ticks(times.now, per_second))
}

/// `stsz` or `stz2`: sizes of samples.
struct Sizes<'a> {
    /// The size of each sample, if all have the same.
    all: Option<u64>,
    left: u64,
    entries: &'a [u8],
    /// Bits of an entry: 4, 8, 16 or 32.
    bits: usize,
    index: usize,
}

impl<'a> Sizes<'a> {
    fn new(table: &'a [u8]) -> Option<Self> {
        let (body, bits, all) = match (find(table, &[b"stsz"]), find(table, &[b"stz2"])) {
            (Some(body), _) => (body, 32, Some(u64::from(be_u32(body, 4)?)).filter(|size| *size > 0)),
            (None, Some(body)) => (body, usize::from(*body.get(7)?), None),
            (None, None) => return None,
        };
        let left = u64::from(be_u32(body, 8)?);
        matches!(bits, 4 | 8 | 16 | 32).then_some(Self { all, left, entries: body.get(12..)?, bits, index: 0 })
    }

    fn next(&mut self) -> Option<u64> {
        let at = self.index.checked_mul(self.bits)? / 8;
        let size = match self.bits {
            32 => u64::from(be_u32(self.entries, at)?),
            16 => u64::from(super::be_u16(self.entries, at)?),
            8 => u64::from(*self.entries.get(at)?),
            _ => u64::from(*self.entries.get(at)? >> if self.index.is_multiple_of(2) { 4 } else { 0 } & 15),
        };
        self.left = self.left.checked_sub(1)?;
        self.index += 1;
        Some(size)
    }
}

/// `stts`: durations of samples, in runs.
struct Times<'a> {
    runs: std::slice::Chunks<'a, u8>,
    left: u64,
    each: u64,
    /// Time at which the next sample is decoded.
    now: u64,
}

impl<'a> Times<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self { runs: body.get(8..).unwrap_or_default().chunks(8), left: 0, each: 0, now: 0 }
    }

    /// Passes `count` samples. After the end of the table, its last duration applies.
    fn advance(&mut self, mut count: u64) {
        while count > 0 {
            if self.left == 0 {
                let run = self.runs.next().and_then(|run| Some((be_u32(run, 0)?, be_u32(run, 4)?)));
                (self.left, self.each) = run.map_or((u64::MAX, self.each), |(n, each)| (u64::from(n), u64::from(each)));
                continue;
            }
            let step = count.min(self.left);
            self.now = self.now.saturating_add(step.saturating_mul(self.each));
            self.left -= step;
            count -= step;
        }
    }
}

/// `stco` or `co64` with `stsc`: offset and number of samples of each chunk.
struct ChunkTable<'a> {
    offsets: std::slice::Chunks<'a, u8>,
    runs: std::iter::Peekable<std::slice::Chunks<'a, u8>>,
    each: u64,
    number: u32,
}

impl<'a> ChunkTable<'a> {
    fn new(table: &'a [u8]) -> Option<Self> {
        let (body, width) = match (find(table, &[b"stco"]), find(table, &[b"co64"])) {
            (Some(body), _) => (body, 4),
            (None, body) => (body?, 8),
        };
        let count = usize::try_from(be_u32(body, 4)?).ok()?;
        let entries = body.get(8..)?;
        let entries = &entries[..entries.len().min(count.saturating_mul(width))];
        let runs = find(table, &[b"stsc"])?.get(8..)?.chunks(12).peekable();
        Some(Self { offsets: entries.chunks(width), runs, each: 0, number: 0 })
    }

    /// Offset and number of samples of the next chunk.
    fn next(&mut self) -> Option<(u64, u64)> {
        let entry = self.offsets.next()?;
        let offset = be_u64(entry, 0).or_else(|| be_u32(entry, 0).map(u64::from))?;
        self.number = self.number.checked_add(1)?;
        while let Some(run) = self.runs.peek().filter(|run| be_u32(run, 0).is_some_and(|first| first <= self.number)) {
            self.each = u64::from(be_u32(run, 4).unwrap_or(0));
            self.runs.next();
        }
        Some((offset, self.each))
    }
}
