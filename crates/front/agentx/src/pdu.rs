//! Messages (PDUs) between master and subagent (RFC 2741 §6): those that a subagent gets, read; those it sends, written.

use crate::oid::Oid;
use crate::wire::{MasterMalformed, WireReader, WireWriter};

/// Length of a message's head.
pub const HEADER_BYTES: usize = 20;
/// Longest message of a master behind its head. It has the names of one SNMP message, of 64 KiB at most; a byte of a name becomes four
/// here, in a start and an end.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 8 * 64 * 1024;

const VERSION: u8 = 1;
const NON_DEFAULT_CONTEXT: u8 = 0x08;
const NETWORK_BYTE_ORDER: u8 = 0x10;

pub(crate) const OPEN: u8 = 1;
const CLOSE: u8 = 2;
pub(crate) const REGISTER: u8 = 3;
const GET: u8 = 5;
const GET_NEXT: u8 = 6;
const GET_BULK: u8 = 7;
const TEST_SET: u8 = 8;
const COMMIT_SET: u8 = 9;
const UNDO_SET: u8 = 10;
const CLEANUP_SET: u8 = 11;
pub(crate) const NOTIFY: u8 = 12;
pub(crate) const PING: u8 = 13;
pub(crate) const RESPONSE: u8 = 18;

/// A message's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentxHeader {
    pub(crate) kind: u8,
    flags: u8,
    pub(crate) session: u32,
    pub(crate) transaction: u32,
    pub(crate) packet: u32,
    /// Bytes of the message behind its head.
    pub payload_bytes: u32,
}

impl AgentxHeader {
    /// Reads a head; the length of the rest of the message is bounded then.
    ///
    /// # Errors
    /// It is none of AgentX, or announces too much.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Self, MasterMalformed> {
        let [version, kind, flags, _, rest @ ..] = bytes;
        if *version != VERSION {
            return Err(MasterMalformed::Version(*version));
        }
        let mut rest = WireReader::new(rest, flags & NETWORK_BYTE_ORDER != 0);
        let (session, transaction, packet) = (rest.u32()?, rest.u32()?, rest.u32()?);
        let header = Self { kind: *kind, flags: *flags, session, transaction, packet, payload_bytes: rest.u32()? };
        if header.payload_bytes > PAYLOAD_BYTES_MAX || !header.payload_bytes.is_multiple_of(4) {
            return Err(MasterMalformed::Length(header.payload_bytes));
        }
        Ok(header)
    }

    /// The head of a message of ours.
    pub(crate) fn ours(kind: u8, session: u32, transaction: u32, packet: u32) -> Self {
        Self { kind, flags: NETWORK_BYTE_ORDER, session, transaction, packet, payload_bytes: 0 }
    }

    /// The whole message.
    pub(crate) fn with(self, payload: &WireWriter) -> Vec<u8> {
        let mut to = WireWriter(Vec::with_capacity(HEADER_BYTES + payload.0.len()));
        [VERSION, self.kind, self.flags, 0].into_iter().for_each(|byte| to.byte(byte));
        [self.session, self.transaction, self.packet].into_iter().for_each(|number| to.u32(number));
        to.u32(u32::try_from(payload.0.len()).expect("our names are short"));
        to.0.extend(&payload.0);
        to.0
    }
}

/// A part of the tree in a question: from `start` to before `end`, if there is an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchRange {
    pub(crate) start: Oid,
    pub(crate) is_included: bool,
    pub(crate) end: Option<Oid>,
}

/// A message of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MasterMessage {
    Get(Vec<SearchRange>),
    GetNext(Vec<SearchRange>),
    GetBulk {
        once: usize,
        repetitions: usize,
        ranges: Vec<SearchRange>,
    },
    /// A set of a variable: first tested, then done or undone.
    TestSet,
    CommitOrUndoSet,
    CleanupSet,
    /// A question about a context, of which none is registered.
    OtherContext,
    Close {
        reason: u8,
    },
    Response {
        error: u16,
    },
}

impl MasterMessage {
    pub(crate) fn read(header: &AgentxHeader, payload: &[u8]) -> Result<Self, MasterMalformed> {
        let mut from = WireReader::new(payload, header.flags & NETWORK_BYTE_ORDER != 0);
        Ok(match header.kind {
            GET | GET_NEXT | GET_BULK | TEST_SET if header.flags & NON_DEFAULT_CONTEXT != 0 => Self::OtherContext,
            GET => Self::Get(ranges(&mut from)?),
            GET_NEXT => Self::GetNext(ranges(&mut from)?),
            GET_BULK => Self::GetBulk {
                once: usize::from(from.u16()?),
                repetitions: usize::from(from.u16()?),
                ranges: ranges(&mut from)?,
            },
            TEST_SET => Self::TestSet,
            COMMIT_SET | UNDO_SET => Self::CommitOrUndoSet,
            CLEANUP_SET => Self::CleanupSet,
            CLOSE => Self::Close { reason: from.byte()? },
            RESPONSE => {
                from.u32()?;
                Self::Response { error: from.u16()? }
            }
            other => return Err(MasterMalformed::Type(other)),
        })
    }
}

fn ranges(from: &mut WireReader<'_>) -> Result<Vec<SearchRange>, MasterMalformed> {
    let mut ranges = Vec::new();
    while !from.is_empty() {
        let (start, is_included) = Oid::read_start(from)?;
        let end = Some(Oid::read(from)?).filter(|end| !end.parts().is_empty());
        ranges.push(SearchRange { start, is_included, end });
    }
    Ok(ranges)
}
