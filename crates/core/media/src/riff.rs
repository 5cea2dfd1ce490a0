//! WAVE (also RF64 and BW64) and AVI: the rate that the head of a sound states; size over duration of a movie, which the chunks at
//! several places give where its heads were not filled in.

use units::{BitRate, Nanos};

use super::codecs::{Codec, CodecSet};
use super::curve::Fit;
use super::input::BudgetedFile;
use super::{
    Container, ContainerFacts, HEADROOM_AVERAGE_PERCENT, PREROLL_MAX, ProbeError, RateSource, frames, le_u32, mpegts,
    places,
};

/// RiffChunks looked at on one level.
const CHUNKS_MAX: usize = 64;
/// The longest list of heads that is read.
const HEADS_BYTES_MAX: u64 = 1 << 20;
/// Bytes of each place of a movie at which chunks are counted: one read of the store.
const PLACE_BYTES: usize = 248 << 10;
/// Formats with samples of one size: integers, floats, A-law, µ-law, and those that say so in an extension.
const PLAIN: [u16; 5] = [1, 3, 6, 7, 0xfffe];
/// Formats in blocks, whose samples the extension of `fmt ` tells: ADPCM of Microsoft and IMA, GSM 6.10.
const BLOCKS: [u16; 3] = [2, 0x11, 0x31];

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
    let [tag, block_bytes] = [0, 12].map(|at| u16::from_le_bytes([head[at], head[at + 1]]));
    source.codecs.extend(Codec::of_wave(tag));
    // Writers state wrong bytes a second of blocks, which all have one size and number of samples.
    let block_samples = match tag {
        _ if PLAIN.contains(&tag) => 1,
        _ if BLOCKS.contains(&tag) => u16::from_le_bytes(source.exact::<2>(format.body + 18)?),
        _ => 0,
    };
    if block_samples == 0 && frames::begins(source.view(data.body, mpegts::DETECT_BYTES)?).is_some() {
        return frames::probe(source, data.body);
    }
    let by_blocks = (number(4) * u64::from(block_bytes)).checked_div(u64::from(block_samples)).filter(|rate| *rate > 0);
    let stated = by_blocks.unwrap_or(number(8));
    if stated == 0 {
        return Err(ProbeError::NoDuration);
    }
    let rate = BitRate(stated * 8);
    let fit = Fit { rate, preroll_bytes: data.body + rate.bytes_in(PREROLL_MAX) };
    let duration = super::ticks(source.size().saturating_sub(data.body), stated);
    let headroom = if by_blocks.is_some() { 0 } else { HEADROOM_AVERAGE_PERCENT };
    Ok(ContainerFacts::fitted(fit, duration, headroom, RateSource::Header))
}

pub(super) fn probe_avi(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let list = |kind: &'static [u8; 4]| move |chunk: &FileChunk, of: &[u8]| &chunk.kind == b"LIST" && of == kind;
    let heads = find(source, 12, list(b"hdrl"))?.ok_or(ProbeError::Broken("it has no heads"))?;
    let body = source.whole(heads.body + 4, heads.length.saturating_sub(4).min(HEADS_BYTES_MAX))?;
    let size = source.size();
    let heads = AviHeads::read(&body).ok_or(ProbeError::Broken("its heads"))?;
    source.codecs = heads.codecs;
    let length = le_u32(source.view(0, 12)?, 4).unwrap_or(0);
    // A writer to a pipe cannot come back to fill the heads in: they hold a length of 0 or -1 and streams of 2^30 samples. Those of a file
    // that was cut are of the whole.
    if heads.duration > Nanos::ZERO && !matches!(length, 0 | u32::MAX) && u64::from(length) <= size {
        return Ok(ContainerFacts::average(heads.duration));
    }
    let movie = find(source, 12, list(b"movi"))?.ok_or(ProbeError::Broken("it has no `movi`"))?;
    let of_kind = |kinds: &[&[u8; 2]]| heads.streams.iter().position(|stream| stream.chunk_kinds == kinds);
    let clock = of_kind(&PICTURES).or_else(|| of_kind(&SOUND)).ok_or(ProbeError::NoDuration)?;
    places::paced(source, movie.body + 4, PLACE_BYTES, |place| playing_time(place, &heads.streams, clock))
}

/// Playing time of the chunks of the stream of number `clock` that begin in `place`.
fn playing_time(place: &[u8], streams: &[AviStream], clock: usize) -> Nanos {
    let (mut at, mut time) = (0, Nanos::ZERO);
    while let Some(head) = place.get(at..at + 8) {
        let number = usize::from(head[0].wrapping_sub(b'0')) * 10 + usize::from(head[1].wrapping_sub(b'0'));
        let own = streams.get(number).filter(|stream| stream.chunk_kinds.contains(&&[head[2], head[3]]));
        let Some((stream, bytes)) = own.zip(le_u32(head, 4)) else {
            at += 1;
            continue;
        };
        if number == clock {
            time = time.saturating_add(stream.time_of(bytes));
        }
        at = at.saturating_add(8 + usize::try_from(bytes).unwrap_or(usize::MAX / 2).next_multiple_of(2));
    }
    time
}

/// Facts from the heads of a movie.
struct AviHeads {
    streams: Vec<AviStream>,
    codecs: CodecSet,
    /// The longest of the movie and its streams; zero if it was never filled in.
    duration: Nanos,
}

/// Ends of the names of chunks.
const PICTURES: [&[u8; 2]; 2] = [b"dc", b"db"];
const SOUND: [&[u8; 2]; 1] = [b"wb"];

/// A stream of pictures or sound: how long its samples last.
struct AviStream {
    /// Ends of the names of its chunks; none of a stream of another kind.
    chunk_kinds: &'static [&'static [u8; 2]],
    scale: u32,
    samples_per_scale: u32,
    samples: u32,
    /// 0: each chunk is a sample.
    sample_bytes: u32,
}

impl AviStream {
    fn read(head: &[u8]) -> Option<Self> {
        let chunk_kinds: &[&[u8; 2]] = match head.first_chunk()? {
            b"vids" => &PICTURES,
            b"auds" => &SOUND,
            _ => &[],
        };
        let [scale, samples_per_scale, samples] = [le_u32(head, 20)?, le_u32(head, 24)?, le_u32(head, 32)?];
        Some(Self { chunk_kinds, scale, samples_per_scale, samples, sample_bytes: le_u32(head, 44).unwrap_or(0) })
    }

    fn time(&self, samples: u32) -> Nanos {
        match self.samples_per_scale {
            0 => Nanos::ZERO,
            rate => super::ticks(u64::from(samples) * u64::from(self.scale), u64::from(rate)),
        }
    }

    /// Playing time of a chunk.
    fn time_of(&self, bytes: u32) -> Nanos {
        self.time(bytes.checked_div(self.sample_bytes).unwrap_or(1))
    }
}

impl AviHeads {
    fn read(body: &[u8]) -> Option<Self> {
        let main = RiffChunks(body).find(|(kind, _)| kind == b"avih")?.1;
        let picture = Nanos(u64::from(le_u32(main, 0)?) * 1000);
        let lists = |kind: &'static [u8; 4]| {
            RiffChunks(body).filter(|(name, _)| name == b"LIST").filter_map(move |(_, list)| list.strip_prefix(kind))
        };
        let head = |list| RiffChunks(list).find(|(kind, _)| kind == b"strh").map(|(_, head)| head);
        let read = |list| head(list).and_then(AviStream::read);
        let streams = lists(b"strl").take(CHUNKS_MAX).map_while(read).collect::<Vec<AviStream>>();
        // The format behind a stream's head: a picture's code is its fifth number, a sound's tag its first.
        let format = |list| RiffChunks(list).find(|(kind, _)| kind == b"strf").map(|(_, format)| format);
        let codec = |list| match head(list)?.first_chunk()? {
            b"vids" => Codec::of_code(format(list)?.get(16..20)?),
            b"auds" => Codec::of_wave(u16::from_le_bytes(*format(list)?.first_chunk()?)),
            _ => None,
        };
        let codecs = lists(b"strl").take(CHUNKS_MAX).filter_map(codec).collect();
        // Pictures of all parts of a file above 1 GB.
        let all =
            lists(b"odml").find_map(|list| RiffChunks(list).find(|(kind, _)| kind == b"dmlh")).map(|(_, head)| head);
        let pictures = all.and_then(|head| le_u32(head, 0)).unwrap_or(0).max(le_u32(main, 16)?);
        let longest = streams.iter().map(|stream| stream.time(stream.samples)).max().unwrap_or(Nanos::ZERO);
        Some(Self { streams, codecs, duration: longest.max(picture.saturating_mul(u64::from(pictures))) })
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
