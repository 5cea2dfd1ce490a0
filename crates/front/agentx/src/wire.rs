//! Numbers and texts as they are on the wire (RFC 2741 §5).

/// Fault of a master's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MasterMalformed {
    /// Another version of AgentX.
    #[error("the master speaks version {0} of AgentX; this is version 1")]
    Version(u8),
    /// Longer than any message for us can be, or not made of whole words.
    #[error("the master announces a message of {0} bytes")]
    Length(u32),
    /// It ends within a field.
    #[error("a message of the master ends in the middle")]
    Short,
    /// A name with more numbers than there may be.
    #[error("the master sends a name with {0} numbers; there are 128 at most")]
    LongName(usize),
    /// A type of message that a subagent does not get.
    #[error("the master sends a message of type {0}, which is not for a subagent")]
    Type(u8),
    /// Not the answer that is waited for.
    #[error("the master answers without a request")]
    Unasked,
}

/// A message that is being written, in the network's byte order.
#[derive(Debug, Default)]
pub(crate) struct WireWriter(pub(crate) Vec<u8>);

impl WireWriter {
    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    /// Bytes with their length, filled up to whole words.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("texts are short"));
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// A message that is being read.
#[derive(Debug)]
pub(crate) struct WireReader<'a> {
    rest: &'a [u8],
    is_network_order: bool,
}

impl<'a> WireReader<'a> {
    pub(crate) fn new(payload: &'a [u8], is_network_order: bool) -> Self {
        Self { rest: payload, is_network_order }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MasterMalformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(MasterMalformed::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, MasterMalformed> {
        Ok(u8::from_be_bytes(self.take()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, MasterMalformed> {
        let bytes = self.take()?;
        Ok(if self.is_network_order { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MasterMalformed> {
        let bytes = self.take()?;
        Ok(if self.is_network_order { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }
}
