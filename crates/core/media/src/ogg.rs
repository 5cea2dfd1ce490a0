//! Ogg (RFC 3533): the curve from the positions of pages at several places of the file. The first stream of sound is the clock, else the
//! first one of pictures; in a chain of sounds (a radio's recording), each has its own.

use units::Nanos;

use super::codecs::Codec;
use super::curve::Mark;
use super::input::BudgetedFile;
use super::{ContainerFacts, ProbeError, be_u16, be_u32, le_u32, places, ticks};

pub(super) const MAGIC: &[u8] = b"OggS\0";
const PAGE_HEAD: usize = 27;
/// First pages of streams looked at.
const STREAMS_MAX: usize = 16;

/// A page: its stream, whether that begins here, the samples up to its end, and its bytes.
struct OggPage<'a> {
    stream: u32,
    begins: bool,
    position: u64,
    body: &'a [u8],
    length: usize,
}

impl<'a> OggPage<'a> {
    fn at_start(bytes: &'a [u8]) -> Option<Self> {
        let head = bytes.first_chunk::<PAGE_HEAD>().filter(|head| head.starts_with(MAGIC))?;
        let lengths = bytes.get(PAGE_HEAD..PAGE_HEAD + usize::from(head[26]))?;
        let start = PAGE_HEAD + lengths.len();
        let length = start + lengths.iter().map(|byte| usize::from(*byte)).sum::<usize>();
        let body = bytes.get(start..length)?;
        let position = u64::from_le_bytes(head[6..14].try_into().ok()?);
        Some(Self { stream: le_u32(head, 14)?, begins: head[5] & 2 != 0, position, body, length })
    }
}

/// Meaning of the positions of a stream: seconds of one, and the bits that count from the last key frame of a picture.
#[derive(Debug, Clone, Copy)]
struct OggClock {
    scale: u64,
    per_second: u64,
    key_bits: u32,
}

pub(super) fn probe(source: &mut BudgetedFile<'_>, first: u64) -> Result<ContainerFacts, ProbeError> {
    let (mut at, mut streams) = (first, 0);
    let (mut sound, mut pictures) = (None, None);
    for _ in 0..STREAMS_MAX {
        let begins = OggPage::at_start(source.view(at, 64 << 10)?).filter(|page| page.begins);
        let Some(page) = begins else { break };
        let of_stream = |clock: OggClock| (page.stream, clock);
        sound = sound.or(OggClock::of_sound(page.body).map(of_stream));
        pictures = pictures.or(OggClock::of_pictures(page.body).map(of_stream));
        at += u64::try_from(page.length).unwrap_or(0);
        streams += 1;
        let codec = Codec::of_code(page.body);
        source.codecs.extend(codec);
    }
    let (stream, clock) = sound.or(pictures).ok_or(ProbeError::NoDuration)?;
    // In a chain of single streams, each page is of the playing stream.
    let is_alone = streams == 1;
    places::sampled(source, first, |bytes| pages(bytes, clock, |page| page.stream == stream || is_alone))
}

impl OggClock {
    /// Of the sound that begins with `head`.
    fn of_sound(head: &[u8]) -> Option<Self> {
        let le = |at: usize| le_u32(head, at).map(u64::from);
        let found = if head.starts_with(b"OpusHead") {
            Some(48_000)
        } else if head.starts_with(b"\x01vorbis") {
            le(12)
        } else if head.starts_with(b"Speex   ") {
            le(36)
        } else if head.starts_with(b"\x7fFLAC") {
            be_u32(head, 27).map(|fields| u64::from(fields >> 12))
        } else {
            None
        };
        let per_second = found.filter(|per_second| *per_second > 0)?;
        Some(Self { scale: 1, per_second, key_bits: 0 })
    }

    /// Of the pictures (Theora) that begin with `head`.
    fn of_pictures(head: &[u8]) -> Option<Self> {
        let head = head.strip_prefix(b"\x80theora")?;
        let [per_second, scale] = [be_u32(head, 15)?, be_u32(head, 19)?].map(u64::from);
        let key_bits = u32::from(be_u16(head, 33)? >> 5 & 31);
        (per_second > 0 && scale > 0).then_some(Self { scale, per_second, key_bits })
    }

    fn time(self, position: u64) -> Nanos {
        let counted = (position >> self.key_bits).saturating_add(position & ((1 << self.key_bits) - 1));
        ticks(counted.saturating_mul(self.scale), self.per_second)
    }
}

/// Ends of whole pages in `bytes` that end a packet of a stream that `counts`, and the times there.
fn pages(bytes: &[u8], clock: OggClock, counts: impl Fn(&OggPage<'_>) -> bool) -> Vec<Mark> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let Some(page) = OggPage::at_start(&bytes[at..]) else {
            at += 1;
            continue;
        };
        at += page.length;
        if counts(&page) && page.position != u64::MAX {
            found.push(Mark { clock: page.stream, ..Mark::at(at, clock.time(page.position)) });
        }
    }
    found
}
