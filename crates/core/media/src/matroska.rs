//! Matroska and WebM (RFC 9559): the curve from the cues, else from the clusters found at several places of the file.

use units::Nanos;

use super::codecs::Codec;
use super::curve::{Mark, Marks, time_at};
use super::input::{BudgetedFile, VIEW_MAX};
use super::{ContainerFacts, HEADROOM_MARKS_PERCENT, HEADROOM_SAMPLED_PERCENT, ProbeError, RateSource, places};

/// The identifier that every EBML document begins with.
pub(super) const MAGIC: [u8; 4] = [0x1a, 0x45, 0xdf, 0xa3];
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114d_9b74;
const SEEK: u32 = 0x4dbb;
const SEEK_ID: u32 = 0x53ab;
const SEEK_POSITION: u32 = 0x53ac;
const INFO: u32 = 0x1549_a966;
const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
const DURATION: u32 = 0x4489;
const CUES: u32 = 0x1c53_bb6b;
const CUE_POINT: u32 = 0xbb;
const CUE_TIME: u32 = 0xb3;
const CUE_POSITIONS: u32 = 0xb7;
const CUE_CLUSTER: u32 = 0xf1;
const TRACKS: u32 = 0x1654_ae6b;
const TRACK: u32 = 0xae;
const TRACK_CODEC: u32 = 0x86;
const CLUSTER: u32 = 0x1f43_b675;
const TIMESTAMP: u32 = 0xe7;

/// Most elements that are read from the start of the segment.
const ELEMENTS_MAX: usize = 24;
/// Longest SeekHead or Info that is read.
const HEAD_BYTES_MAX: u64 = 1 << 20;
const CUES_BYTES_MAX: u64 = 8 << 20;
/// Bytes searched for clusters at each of several places, if there are no cues.
const PLACE_BYTES: usize = 512 << 10;

/// An element: its identifier and the offsets of its contents.
#[derive(Debug, Clone, Copy)]
struct Element {
    id: u32,
    body: u64,
    /// First byte after it; `None` if its size is unknown (a live stream).
    end: Option<u64>,
}

/// Facts from the segment's head.
#[derive(Debug, Default)]
struct SegmentHead {
    /// Nanoseconds of one tick; 0 if Info was not found.
    scale: u64,
    duration: Option<Nanos>,
    cues: Option<u64>,
    info: Option<u64>,
    first_cluster: Option<u64>,
}

pub(super) fn probe(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let header = element(source, 0)?.ok_or(ProbeError::Broken("its first element"))?;
    let after = header.end.ok_or(ProbeError::Broken("its header has no size"))?;
    let segment = element(source, after)?.filter(|e| e.id == SEGMENT);
    let segment = segment.ok_or(ProbeError::Broken("it has no segment"))?;
    let head = head(source, segment)?;
    let size = source.size();
    // The duration in Info is that of the whole segment: for a file that was cut, or has another one appended, it is scaled in proportion.
    let told = head.duration.map(|duration| time_at(size, segment.end.unwrap_or(size), duration));

    if let Some(marks) = cues(source, &head, segment.body)?
        && let Some((fit, duration)) = marks.fit(told, size)
    {
        return Ok(ContainerFacts::fitted(fit, duration, HEADROOM_MARKS_PERCENT, RateSource::Cues));
    }
    let marks = match head.first_cluster {
        Some(first) => places::marks(source, first, PLACE_BYTES, |bytes| timestamps(bytes, head.scale))?,
        None => Marks::default(),
    };
    match marks.fit(told, size) {
        Some((fit, duration)) => {
            Ok(ContainerFacts::fitted(fit, duration, HEADROOM_SAMPLED_PERCENT, RateSource::TimesSampled))
        }
        None => told.map(ContainerFacts::average).ok_or(ProbeError::NoDuration),
    }
}

/// Reads the elements before the clusters, and those that the seek head lists.
fn head(source: &mut BudgetedFile<'_>, segment: Element) -> Result<SegmentHead, ProbeError> {
    let mut head = SegmentHead::default();
    let mut at = segment.body;
    for _ in 0..ELEMENTS_MAX {
        let Some(found) = element(source, at)? else { break };
        match found.id {
            SEEK_HEAD => seek_head(&contents(source, found, HEAD_BYTES_MAX)?, segment.body, &mut head),
            INFO => info(&contents(source, found, HEAD_BYTES_MAX)?, &mut head),
            CUES => head.cues = Some(at),
            // The rate can be found without the tracks.
            TRACKS => {
                let body = contents(source, found, HEAD_BYTES_MAX).unwrap_or_default();
                let tracks = Elements(&body).filter(|(id, _)| *id == TRACK);
                let codes = tracks.filter_map(|(_, track)| Elements(track).find(|(id, _)| *id == TRACK_CODEC));
                source.codecs.extend(codes.filter_map(|(_, code)| Codec::of_code(code)));
            }
            CLUSTER => {
                head.first_cluster = Some(at);
                break;
            }
            _ => {}
        }
        let Some(end) = found.end else { break };
        at = end;
    }
    if head.scale == 0
        && let Some(at) = head.info
        && let Some(found) = element(source, at)?.filter(|e| e.id == INFO)
    {
        info(&contents(source, found, HEAD_BYTES_MAX)?, &mut head);
    }
    if head.scale == 0 { Err(ProbeError::Broken("it has no segment information")) } else { Ok(head) }
}

fn seek_head(body: &[u8], base: u64, head: &mut SegmentHead) {
    for (_, seek) in Elements(body).filter(|(id, _)| *id == SEEK) {
        let field = |wanted| Elements(seek).find(|(id, _)| *id == wanted).and_then(|(_, value)| number(value));
        let (Some(id), Some(position)) = (field(SEEK_ID), field(SEEK_POSITION)) else { continue };
        let at = base.checked_add(position);
        if id == u64::from(CUES) {
            head.cues = head.cues.or(at);
        } else if id == u64::from(INFO) {
            head.info = head.info.or(at);
        }
    }
}

fn info(body: &[u8], head: &mut SegmentHead) {
    let field = |wanted| Elements(body).find(|(id, _)| *id == wanted).map(|(_, value)| value);
    head.scale = field(TIMESTAMP_SCALE).and_then(number).filter(|scale| *scale > 0).unwrap_or(1_000_000);
    let ticks = field(DURATION).and_then(|value| match value.len() {
        4 => Some(f64::from(f32::from_be_bytes(value.try_into().ok()?))),
        8 => Some(f64::from_be_bytes(value.try_into().ok()?)),
        _ => None,
    });
    let nanos = ticks.map(|ticks| ticks * head.scale as f64 / 1e9);
    head.duration = nanos.filter(|s| s.is_finite() && *s > 0.0).map(Nanos::from_secs_f64);
}

/// The marks of the cues, if there are any.
fn cues(source: &mut BudgetedFile<'_>, head: &SegmentHead, base: u64) -> Result<Option<Marks>, ProbeError> {
    let Some(at) = head.cues else { return Ok(None) };
    let Some(found) = element(source, at)?.filter(|e| e.id == CUES) else { return Ok(None) };
    let body = contents(source, found, CUES_BYTES_MAX)?;
    let mut marks = Marks::default();
    for (_, point) in Elements(&body).filter(|(id, _)| *id == CUE_POINT) {
        let find = |body, wanted| Elements(body).find(|(id, _)| *id == wanted).map(|(_, value)| value);
        let time = find(point, CUE_TIME).and_then(number);
        let place = find(point, CUE_POSITIONS).and_then(|p| find(p, CUE_CLUSTER)).and_then(number);
        if let (Some(time), Some(offset)) = (time, place.and_then(|p| base.checked_add(p))) {
            marks.add(Mark::new(Nanos(time.saturating_mul(head.scale)), offset.min(source.size())));
        }
    }
    Ok((marks.len() > 1).then_some(marks))
}

/// Marks of the clusters that begin in `bytes`: offset, and timestamp in ticks of `scale` nanoseconds. An identifier alone may
/// occur by chance; an identifier that a size and a timestamp follow directly does not.
fn timestamps(bytes: &[u8], scale: u64) -> Vec<Mark> {
    let id = CLUSTER.to_be_bytes();
    let starts = bytes.windows(4).enumerate().filter(|(_, window)| *window == id);
    let stamp = |(at, _): (usize, &[u8])| {
        let (_, used) = size(bytes.get(at + 4..)?)?;
        let body = bytes.get(at + 4 + used..)?;
        let (_, value) = Elements(body).take(2).find(|(id, _)| *id == TIMESTAMP)?;
        Some(Mark::at(at, Nanos(number(value)?.saturating_mul(scale))))
    };
    starts.filter_map(stamp).collect()
}

/// The element at `at`; `None` at the end of the file, or if the bytes are no element.
fn element(source: &mut BudgetedFile<'_>, at: u64) -> Result<Option<Element>, ProbeError> {
    let head = source.view(at, 12)?;
    let Some((id, id_bytes)) = identifier(head) else { return Ok(None) };
    let Some((length, size_bytes)) = size(&head[id_bytes..]) else { return Ok(None) };
    let body = at + u64::try_from(id_bytes + size_bytes).unwrap_or(0);
    let end = match length {
        None => None,
        Some(length) => Some(body.checked_add(length).ok_or(ProbeError::Broken("an element is too long"))?),
    };
    Ok(Some(Element { id, body, end }))
}

/// The contents of an element that is at most `limit` long.
fn contents(source: &mut BudgetedFile<'_>, element: Element, limit: u64) -> Result<Vec<u8>, ProbeError> {
    match element.end {
        Some(end) if end - element.body <= limit => source.whole(element.body, end - element.body),
        _ => Err(ProbeError::Broken("its head is too long")),
    }
}

/// The children of an element in memory: identifier and contents. Ends at the first invalid or truncated child.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (id, id_bytes) = identifier(self.0)?;
        let (length, size_bytes) = size(&self.0[id_bytes..])?;
        let start = id_bytes + size_bytes;
        let end = start.checked_add(usize::try_from(length?).ok()?)?;
        let body = self.0.get(start..end)?;
        self.0 = &self.0[end..];
        Some((id, body))
    }
}

/// An element identifier (1 to 4 bytes, its marker kept) and its length.
fn identifier(bytes: &[u8]) -> Option<(u32, usize)> {
    let length = usize::try_from(bytes.first()?.leading_zeros()).ok()? + 1;
    let value = bytes.get(..length).filter(|_| length <= 4)?;
    Some((value.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)), length))
}

/// An element's size (`None`: unknown) and the number of bytes that encode it.
fn size(bytes: &[u8]) -> Option<(Option<u64>, usize)> {
    let length = usize::try_from(bytes.first()?.leading_zeros()).ok()? + 1;
    let value = number(bytes.get(..length).filter(|_| length <= 8)?)?;
    let bits = 7 * u32::try_from(length).ok()?;
    let value = value & ((1 << bits) - 1);
    Some(((value != (1 << bits) - 1).then_some(value), length))
}

/// A big-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

const _: () = assert!(PLACE_BYTES <= VIEW_MAX);
