//! Little-endian numbers to and from bytes, with every read checked: a disk may hold any bytes.

/// Reads numbers from the front of a slice. Every call gives `None` where the bytes end early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text with its length in two bytes before it; `None` too where it is not UTF-8.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.bytes(usize::from(length))?).ok()
    }
}

/// Appends numbers to a vector.
pub(crate) trait Encode {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&value.to_le_bytes());
    }

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// A text with its length in two bytes before it. Names are bounded far below 64 KiB before they come here.
    fn put_text(&mut self, text: &str) {
        self.put_u16(u16::try_from(text.len()).expect("names are at most NAME_BYTES_MAX bytes"));
        self.put(text.as_bytes());
    }
}

impl Encode for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Fills `bytes` with zeros up to one block less four bytes, and ends it with the checksum of all before.
pub(crate) fn seal_block(bytes: &mut Vec<u8>) {
    let body = crate::BLOCK_LEN - 4;
    assert!(bytes.len() <= body, "a structure of one block fits into it");
    bytes.resize(body, 0);
    let checksum = crc32c::crc32c(bytes);
    bytes.put_u32(checksum);
}

/// The block without its checksum, if that is right.
pub(crate) fn open_block(block: &[u8]) -> Option<&[u8]> {
    let (body, checksum) = block.split_last_chunk::<4>()?;
    (block.len() == crate::BLOCK_LEN && crc32c::crc32c(body) == u32::from_le_bytes(*checksum)).then_some(body)
}
