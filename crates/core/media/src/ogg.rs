//! Ogg (RFC 3533): the curve from the positions of pages at several places of the file. The first stream of sound is the clock.

use units::Nanos;

use super::input::BudgetedFile;
use super::{ContainerFacts, ProbeError, le_u32, ticks};

pub(super) const MAGIC: &[u8] = b"OggS\0";
const PAGE_HEAD: usize = 27;
/// First pages of streams looked at.
const STREAMS_MAX: usize = 16;

/// A page: its stream, the samples up to its end, and its bytes.
struct OggPage<'a> {
    stream: u32,
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
        Some(Self { stream: le_u32(head, 14)?, position, body, length })
    }
}

pub(super) fn probe(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let (mut at, mut clock) = (0, None);
    for _ in 0..STREAMS_MAX {
        let Some(page) = OggPage::at_start(source.view(at, 64 << 10)?) else { break };
        if let Some(per_second) = samples_per_second(page.body) {
            clock = Some((page.stream, per_second));
            break;
        }
        at += u64::try_from(page.length).unwrap_or(0);
    }
    let (stream, per_second) = clock.ok_or(ProbeError::NoDuration)?;
    super::sampled(source, 0, |bytes| pages(bytes, stream, per_second))
}

/// Samples a second of the sound that begins with `head`.
fn samples_per_second(head: &[u8]) -> Option<u64> {
    let le = |at: usize| le_u32(head, at).map(u64::from);
    let found = if head.starts_with(b"OpusHead") {
        Some(48_000)
    } else if head.starts_with(b"\x01vorbis") {
        le(12)
    } else if head.starts_with(b"Speex   ") {
        le(36)
    } else if head.starts_with(b"\x7fFLAC") {
        super::be_u32(head, 27).map(|fields| u64::from(fields >> 12))
    } else {
        None
    };
    found.filter(|per_second| *per_second > 0)
}

/// Ends of whole pages in `bytes` that end a packet of `stream`, and the times there.
fn pages(bytes: &[u8], stream: u32, per_second: u64) -> Vec<(usize, Nanos)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let Some(page) = OggPage::at_start(&bytes[at..]) else {
            at += 1;
            continue;
        };
        at += page.length;
        if page.stream == stream && page.position != u64::MAX {
            found.push((at, ticks(page.position, per_second)));
        }
    }
    found
}
