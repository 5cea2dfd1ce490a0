//! Frames of messages: a length before each, seven bits to the byte, the least first (LEB128).
//!
//! Promise: pure; a small message costs one byte, so that sixteen bytes together fill packets nearly as well as without;
//! a peer can make the buffer no larger than the greatest message. A length of zero says "still here" and is no message.

use std::ops::Range;

/// The greatest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Bytes of the length of the greatest message.
pub const LENGTH_BYTES_MAX: usize = 4;
/// Room in the buffer at first; it grows for greater messages.
const BUFFER_BYTES: usize = 128 << 10;

const _: () = assert!(MESSAGE_BYTES_MAX < 1 << (7 * LENGTH_BYTES_MAX));

/// A message that cannot be sent, or a length that cannot be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Empty: that means something else.
    #[error("a message has 1 to {MESSAGE_BYTES_MAX} bytes, this one has none")]
    Empty,
    /// Too large.
    #[error("a message has 1 to {MESSAGE_BYTES_MAX} bytes, this one more")]
    TooLarge,
}

/// The length of a message of `bytes` as it is sent, and how many bytes of it count.
///
/// # Errors
/// It is empty or too large.
pub fn length(bytes: usize) -> Result<([u8; LENGTH_BYTES_MAX], usize), FrameError> {
    match bytes {
        0 => Err(FrameError::Empty),
        1..=MESSAGE_BYTES_MAX => Ok(encoded(bytes)),
        _ => Err(FrameError::TooLarge),
    }
}

fn encoded(mut rest: usize) -> ([u8; LENGTH_BYTES_MAX], usize) {
    let mut text = [0; LENGTH_BYTES_MAX];
    let mut used = 0;
    loop {
        let low = u8::try_from(rest & 0x7f).expect("seven bits");
        rest >>= 7;
        text[used] = if rest == 0 { low } else { low | 0x80 };
        used += 1;
        if rest == 0 {
            return (text, used);
        }
    }
}

/// Bytes read and not yet taken.
#[derive(Debug)]
pub struct Frames {
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], taken: 0, filled: 0 }
    }
}

impl Frames {
    /// The space to read more into; never empty after [`Frames::take`] returned `None`.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    /// `bytes` were read into [`Frames::space`].
    pub fn fill(&mut self, bytes: usize) {
        self.filled += bytes;
        assert!(self.filled <= self.buffer.len(), "more was read than there was room for");
    }

    /// True if a message has begun and not ended.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.taken < self.filled
    }

    /// The place of the next whole message in [`Frames::bytes`], valid until more is read; `None` if more must be read first.
    ///
    /// # Errors
    /// The bytes read are no length of a message.
    pub fn take(&mut self) -> Result<Option<Range<usize>>, FrameError> {
        loop {
            let needed = match self.announced()? {
                None => LENGTH_BYTES_MAX,
                Some((length_bytes, 0)) => {
                    self.taken += length_bytes;
                    continue;
                }
                Some((length_bytes, bytes)) => {
                    let begin = self.taken + length_bytes;
                    let end = begin + bytes;
                    if end <= self.filled {
                        self.taken = end;
                        return Ok(Some(begin..end));
                    }
                    length_bytes + bytes
                }
            };
            self.make_room(needed);
            return Ok(None);
        }
    }

    /// The bytes in which the places of [`Frames::take`] lie.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The length that comes next: its own bytes, and the message's.
    fn announced(&self) -> Result<Option<(usize, usize)>, FrameError> {
        let mut bytes = 0;
        for (index, &byte) in self.buffer[self.taken..self.filled].iter().take(LENGTH_BYTES_MAX).enumerate() {
            bytes |= usize::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return if bytes > MESSAGE_BYTES_MAX {
                    Err(FrameError::TooLarge)
                } else {
                    Ok(Some((index + 1, bytes)))
                };
            }
        }
        if self.filled - self.taken >= LENGTH_BYTES_MAX { Err(FrameError::TooLarge) } else { Ok(None) }
    }

    /// Moves the bytes not taken to the front, and makes the buffer as large as the next message needs.
    fn make_room(&mut self, needed: usize) {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bytes` read in pieces of `piece`, as messages.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, FrameError> {
        let (mut frames, mut messages) = (Frames::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            let mut piece = piece;
            while !piece.is_empty() {
                let space = frames.space();
                let some = piece.len().min(space.len());
                space[..some].copy_from_slice(&piece[..some]);
                piece = &piece[some..];
                frames.fill(some);
                while let Some(place) = frames.take()? {
                    messages.push(frames.bytes()[place].to_vec());
                }
            }
        }
        assert!(!frames.is_amid(), "all was taken");
        Ok(messages)
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_they_are_cut() {
        let messages: Vec<Vec<u8>> = [1, 2, 127, 128, 16_383, 16_384, 70_000, 300_000]
            .iter()
            .map(|&n| vec![u8::try_from(n % 251).unwrap(); n])
            .collect();
        let mut sent = Vec::new();
        for message in &messages {
            let (text, used) = length(message.len()).unwrap();
            sent.extend_from_slice(&text[..used]);
            sent.extend_from_slice(message);
            // Nothing between two messages: "still here".
            sent.push(0);
        }
        for piece in [1, 3, 1000, 65_536, sent.len()] {
            assert_eq!(read(&sent, piece).unwrap(), messages, "in pieces of {piece}");
        }
    }

    #[test]
    fn sixteen_bytes_cost_one_more() {
        assert_eq!(length(16).unwrap().1, 1);
        assert_eq!(length(MESSAGE_BYTES_MAX).unwrap().1, LENGTH_BYTES_MAX);
    }

    #[test]
    fn no_message_and_a_monster_are_refused_on_both_sides() {
        assert_eq!(length(0), Err(FrameError::Empty));
        assert_eq!(length(MESSAGE_BYTES_MAX + 1), Err(FrameError::TooLarge));
        let (text, used) = encoded(MESSAGE_BYTES_MAX + 1);
        assert_eq!(read(&text[..used], 4), Err(FrameError::TooLarge));
        assert_eq!(read(&[0xff; 9], 9), Err(FrameError::TooLarge));
    }
}
