//! WAVE (also RF64 and BW64) and AVI: the rate that the head of a sound states; size over duration of a movie.

use units::{BitRate, Nanos};

use super::curve::Fit;
use super::input::{BudgetedFile, VIEW_MAX};
use super::{Container, ContainerFacts, HEADROOM_AVERAGE_PERCENT, PREROLL_MAX, ProbeError, RateSource, le_u32};

/// RiffChunks looked at on one level.
const CHUNKS_MAX: usize = 64;
/// The longest list of heads that is read.
const HEADS_BYTES_MAX: u64 = 1 << 20;
/// Formats with samples that are not compressed: integers, floats, and those that say so in an extension.
const PLAIN: [u16; 3] = [1, 3, 0xfffe];

pub(super) fn begins(start: &[u8]) -> Option<Container> {
    match (start.get(..4)?, start.get(8..12)?) {
        (b"RIFF" | b"RF64" | b"BW64", b"WAVE") => Some(Container::Wav),
        (b"RIFF", b"AVI ") => Some(Container::Avi),
        _ => None,
    }
}

/// A chunk of the file: where its contents lie.
struct FileChunk {
    kind: [u8; 4],
    body: u64,
    length: u64,
}

/// The first chunk from `at` on that `wanted` takes.
fn find(
    source: &mut BudgetedFile<'_>,
    mut at: u64,
    wanted: impl Fn(&FileChunk, &[u8]) -> bool,
) -> Result<Option<FileChunk>, ProbeError> {
    for _ in 0..CHUNKS_MAX {
        let head = source.view(at, 12)?;
        let (Some(kind), Some(length)) = (head.first_chunk::<4>(), le_u32(head, 4)) else { return Ok(None) };
        let chunk = FileChunk { kind: *kind, body: at + 8, length: u64::from(length) };
        if wanted(&chunk, &head[8..]) {
            return Ok(Some(chunk));
        }
        at = chunk.body + chunk.length.next_multiple_of(2);
    }
    Ok(None)
}

pub(super) fn probe_wave(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let format = find(source, 12, |chunk, _| &chunk.kind == b"fmt ")?.ok_or(ProbeError::Broken("it has no `fmt `"))?;
    let data = find(source, 12, |chunk, _| &chunk.kind == b"data")?.ok_or(ProbeError::Broken("it has no `data`"))?;
    let head = source.exact::<16>(format.body)?;
    let number = |at| le_u32(&head, at).map_or(0, u64::from);
    let [tag, frame_bytes] = [0, 12].map(|at| u16::from_le_bytes([head[at], head[at + 1]]));
    let is_plain = PLAIN.contains(&tag) && frame_bytes > 0;
    let stated = if is_plain { number(4) * u64::from(frame_bytes) } else { number(8) };
    if stated == 0 {
        return Err(ProbeError::NoDuration);
    }
    let rate = BitRate(stated * 8);
    let fit = Fit { rate, preroll_bytes: data.body + rate.bytes_in(PREROLL_MAX) };
    let duration = super::ticks(source.size().saturating_sub(data.body), stated);
    let headroom = if is_plain { 0 } else { HEADROOM_AVERAGE_PERCENT };
    Ok(ContainerFacts::fitted(fit, duration, headroom, RateSource::Header))
}

pub(super) fn probe_avi(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let list = |kind: &'static [u8; 4]| move |chunk: &FileChunk, of: &[u8]| &chunk.kind == b"LIST" && of == kind;
    let heads = find(source, 12, list(b"hdrl"))?.ok_or(ProbeError::Broken("it has no heads"))?;
    let body = source.whole(heads.body + 4, heads.length.saturating_sub(4).min(HEADS_BYTES_MAX))?;
    let size = source.size();
    let heads = AviHeads::read(&body).ok_or(ProbeError::Broken("its heads"))?;
    if heads.duration > Nanos::ZERO {
        // A file that was cut is shorter than its head says, and so is its duration.
        let whole = u64::from(le_u32(source.view(0, 12)?, 4).unwrap_or(0)) + 8;
        let nanos = u128::from(heads.duration.0) * u128::from(size) / u128::from(size.max(whole));
        return Ok(ContainerFacts::average(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))));
    }
    // Nothing was filled in at the end, for there was none: pictures of the first megabyte are counted.
    let movie = find(source, 12, list(b"movi"))?.ok_or(ProbeError::Broken("it has no `movi`"))?;
    let (mut bytes, mut pictures) = (0, 0);
    for (kind, body) in RiffChunks(source.view(movie.body + 4, VIEW_MAX)?) {
        bytes += 8 + u64::try_from(body.len()).unwrap_or(0);
        pictures += u64::from(matches!(&kind[2..], b"dc" | b"db"));
    }
    let nanos = u128::from(pictures) * u128::from(heads.picture.0) * u128::from(size) / u128::from(bytes.max(1));
    let found = ContainerFacts::average(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
    Ok(ContainerFacts { source: RateSource::FramesSampled, ..found })
}

/// Facts from the heads of a movie.
struct AviHeads {
    /// How long one picture lasts.
    picture: Nanos,
    /// The longest of the movie and its streams; zero if it was never filled in.
    duration: Nanos,
}

impl AviHeads {
    fn read(body: &[u8]) -> Option<Self> {
        let main = RiffChunks(body).find(|(kind, _)| kind == b"avih")?.1;
        let picture = Nanos(u64::from(le_u32(main, 0)?) * 1000);
        let mut longest = picture.saturating_mul(u64::from(le_u32(main, 16)?));
        let lists = |kind: &'static [u8; 4]| {
            RiffChunks(body).filter(|(name, _)| name == b"LIST").filter_map(move |(_, list)| list.strip_prefix(kind))
        };
        for stream in lists(b"strl").take(CHUNKS_MAX) {
            let head = RiffChunks(stream).find(|(kind, _)| kind == b"strh").map(|(_, head)| head);
            let numbers = head.and_then(|head| Some([le_u32(head, 20)?, le_u32(head, 24)?, le_u32(head, 32)?]));
            if let Some([scale, rate, length]) = numbers.filter(|[_, rate, _]| *rate > 0) {
                longest = longest.max(super::ticks(u64::from(length) * u64::from(scale), u64::from(rate)));
            }
        }
        // Pictures of all parts of a file above 1 GB.
        let all =
            lists(b"odml").find_map(|list| RiffChunks(list).find(|(kind, _)| kind == b"dmlh")).map(|(_, head)| head);
        let all = all.and_then(|head| le_u32(head, 0)).map_or(0, u64::from);
        Some(Self { picture, duration: longest.max(picture.saturating_mul(all)) })
    }
}

/// The chunks in memory: kind and contents. Ends at the first that is cut off.
struct RiffChunks<'a>(&'a [u8]);

impl<'a> Iterator for RiffChunks<'a> {
    type Item = ([u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = *self.0.first_chunk::<4>()?;
        let end = usize::try_from(le_u32(self.0, 4)?).ok()?.checked_add(8)?;
        let body = self.0.get(8..end)?;
        self.0 = self.0.get(end.next_multiple_of(2)..).unwrap_or_default();
        Some((kind, body))
    }
}
