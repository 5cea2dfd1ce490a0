//! A record: one change of the catalogue as the journal holds it. A checkpoint is a row of `Put` in order of names.

use crate::MemberId;
use crate::bytes::{Decoder, Encode};
use crate::content::{StoredContent, StoredPart, UnitPlace, name_problem};

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const RENAME: u8 = 3;
const NUMBERS_FROM: u8 = 4;
const RECORDED: u8 = 5;
const GIVEN_UP: u8 = 6;
/// Parts that a tail takes at most beyond those of its recording.
const TAIL_PARTS: usize = 2;
/// Stands where a part has no second copy.
const NO_MEMBER: u8 = 0xff;

/// One change of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// The content of this name is this one from now on.
    Put(Box<str>, StoredContent),
    /// There is no content of this name any more.
    Remove(Box<str>),
    /// A content changes its name, and replaces the content that had the new one.
    Rename(Box<str>, Box<str>),
    /// Numbers of contents and generations below this one may have been used.
    NumbersFrom(u64),
    /// The durable part of a recording that is not over: the parts before this one are unchanged.
    Recorded(u32, Box<str>, StoredContent),
    /// The recording of this generation leaves nothing.
    GivenUp(u64),
}

impl Record {
    /// Appends the record.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Put(name, content) => put(name, content, to),
            Self::Remove(name) => {
                to.put_u8(REMOVE);
                to.put_text(name);
            }
            Self::Rename(from, name) => {
                to.put_u8(RENAME);
                to.put_text(from);
                to.put_text(name);
            }
            Self::NumbersFrom(number) => {
                to.put_u8(NUMBERS_FROM);
                to.put_u64(*number);
            }
            Self::Recorded(from, name, content) => {
                to.put_u8(RECORDED);
                to.put_u32(*from);
                named(name, content, to);
            }
            Self::GivenUp(generation) => {
                to.put_u8(GIVEN_UP);
                to.put_u64(*generation);
            }
        }
    }

    /// The record at the front; `None` if it is none.
    pub(crate) fn decode(from: &mut Decoder) -> Option<Self> {
        let is_name = |name: &&str| name_problem(name.strip_suffix('/').unwrap_or(name)).is_none();
        let name = |from: &mut Decoder| from.text().filter(is_name).map(Box::from);
        match from.u8()? {
            PUT => Some(Self::Put(name(from)?, content(from)?)),
            REMOVE => Some(Self::Remove(name(from)?)),
            RENAME => Some(Self::Rename(name(from)?, name(from)?)),
            NUMBERS_FROM => Some(Self::NumbersFrom(from.u64()?)),
            RECORDED => Some(Self::Recorded(from.u32()?, name(from)?, content(from)?)),
            GIVEN_UP => Some(Self::GivenUp(from.u64()?)),
            _ => None,
        }
    }
}

/// A recording that is not over, as the journal has it: its parts have no tail, and the checksum of the last one covers the bytes that
/// count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) name: Box<str>,
    pub(crate) content: StoredContent,
}

impl Recorded {
    /// Bytes that its content will take in a checkpoint.
    pub(crate) fn bytes(&self) -> usize {
        put_bytes(self.name.len(), self.content.parts.len() + TAIL_PARTS)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = UnitPlace> {
        self.content.parts.iter().flat_map(StoredPart::places)
    }
}

/// Appends `Put` without making a record of it.
pub(crate) fn put(name: &str, content: &StoredContent, to: &mut Vec<u8>) {
    let before = to.len();
    to.put_u8(PUT);
    named(name, content, to);
    debug_assert!(
        to.len() - before == put_bytes(name.len(), content.parts.len()),
        "the room for a checkpoint is counted in these bytes"
    );
}

fn named(name: &str, content: &StoredContent, to: &mut Vec<u8>) {
    to.put_text(name);
    to.put_u64(content.content);
    to.put_u64(content.generation);
    to.put_u64(content.length);
    to.put_u64(content.modified);
    to.put_u32(u32::try_from(content.parts.len()).expect("a volume has fewer than 2^32 units"));
    for part in &content.parts {
        to.put_u32(part.digest);
        to.put_u8(part.first.member.0);
        to.put_u32(part.first.unit);
        to.put_u8(part.second.map_or(NO_MEMBER, |second| second.member.0));
        to.put_u32(part.second.map_or(0, |second| second.unit));
    }
}

/// Bytes of `Put` for a name of `name` bytes and `parts` parts.
pub(crate) const fn put_bytes(name: usize, parts: usize) -> usize {
    1 + 2 + name + 4 * 8 + 4 + parts * 14
}

fn content(from: &mut Decoder) -> Option<StoredContent> {
    let (content, generation) = (from.u64()?, from.u64()?);
    let (length, modified, parts) = (from.u64()?, from.u64()?, from.u32()?);
    // Grown as parts are found: a wrong count must not take memory.
    let mut read = Vec::new();
    for _ in 0..parts {
        let digest = from.u32()?;
        let first = UnitPlace { member: MemberId(from.u8()?), unit: from.u32()? };
        let second = UnitPlace { member: MemberId(from.u8()?), unit: from.u32()? };
        let second = (second.member.0 != NO_MEMBER).then_some(second);
        read.push(StoredPart { digest, first, second });
    }
    Some(StoredContent { content, generation, length, modified, parts: read.into_boxed_slice() })
}
