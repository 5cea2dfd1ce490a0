//! The chunked transfer coding of a request body (RFC 9112 §7.1), decoded as it comes.
//!
//! Promise: pure; no bytes from a peer cause a panic. Framing that two parsers could read differently is refused: a line that
//! ends with LF alone, a size that is not plain hexadecimal digits. Extensions and trailers are bounded and ignored.

use bytes::{Buf, Bytes, BytesMut};

/// Longest line with a chunk's size and its extensions.
const SIZE_LINE_BYTES_MAX: usize = 1024;
/// Longest trailer section.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// Decodes one body.
#[derive(Debug, Default)]
pub struct ChunkedDecoder {
    state: ChunkedState,
    trailer_bytes: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ChunkedState {
    /// A line with a size comes.
    #[default]
    Size,
    /// The bytes of a chunk still to come.
    Data(u64),
    /// The line end after a chunk comes.
    DataEnd,
    /// A trailer line comes, or the empty line that ends the body.
    Trailer,
    /// The body is over.
    Over,
}

/// Result of one decoding step.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A part of the body, never empty.
    Data(Bytes),
    /// Nothing yet: more bytes are needed.
    More,
    /// The end of the body. The rest of the buffer belongs to the next request.
    End,
}

/// The coding is broken. The text is fit to be shown to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunked coding of the body is broken: {0}")]
pub struct ChunkError(&'static str);

impl ChunkedDecoder {
    /// Decodes as much as is complete from the start of `buffer`.
    ///
    /// # Errors
    /// As soon as it is certain that the coding is broken.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Decoded, ChunkError> {
        loop {
            match self.state {
                ChunkedState::Size => {
                    let Some(line) = take_line(buffer, SIZE_LINE_BYTES_MAX)? else { return Ok(Decoded::More) };
                    self.state = match size(&line)? {
                        0 => ChunkedState::Trailer,
                        size => ChunkedState::Data(size),
                    };
                }
                ChunkedState::Data(_) if buffer.is_empty() => return Ok(Decoded::More),
                ChunkedState::Data(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                    let rest = left - u64::try_from(here).expect("a part of the chunk");
                    self.state = if rest == 0 { ChunkedState::DataEnd } else { ChunkedState::Data(rest) };
                    return Ok(Decoded::Data(buffer.split_to(here).freeze()));
                }
                ChunkedState::DataEnd => match buffer.first_chunk() {
                    Some(b"\r\n") => {
                        buffer.advance(2);
                        self.state = ChunkedState::Size;
                    }
                    Some(_) => return Err(ChunkError("a chunk is longer than its size")),
                    None => return Ok(Decoded::More),
                },
                ChunkedState::Trailer => {
                    let left = TRAILER_BYTES_MAX - self.trailer_bytes;
                    let Some(line) = take_line(buffer, left)? else { return Ok(Decoded::More) };
                    self.trailer_bytes += line.len();
                    if line.is_empty() {
                        self.state = ChunkedState::Over;
                    }
                }
                ChunkedState::Over => return Ok(Decoded::End),
            }
        }
    }
}

/// A line without its end, if all of it has come.
fn take_line(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<BytesMut>, ChunkError> {
    let Some(end) = buffer.iter().take(bytes_max + 2).position(|byte| *byte == b'\n') else {
        let too_long = buffer.len() > bytes_max + 1;
        return if too_long { Err(ChunkError("a line is too long")) } else { Ok(None) };
    };
    let mut line = buffer.split_to(end + 1);
    if !line.ends_with(b"\r\n") {
        return Err(ChunkError("a line does not end with CR LF"));
    }
    line.truncate(end - 1);
    if line.contains(&b'\r') {
        return Err(ChunkError("a line holds a CR"));
    }
    Ok(Some(line))
}

/// The size in a chunk's first line.
fn size(line: &[u8]) -> Result<u64, ChunkError> {
    let end = line.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    // Blanks may stand before an extension only (RFC 9112 §7.1.1).
    let extension = extension.trim_ascii_start();
    if !extension.is_empty() && extension[0] != b';' {
        return Err(ChunkError("something other than an extension follows a chunk's size"));
    }
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let size = digits.and_then(|text| u64::from_str_radix(text, 16).ok());
    size.ok_or(ChunkError("a chunk's size is not a hexadecimal number that a content can have"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type BodyAndRest = (Vec<u8>, Vec<u8>);

    /// The body and the bytes after it, given in pieces of at most `piece` bytes; none if the body is not over.
    fn decode(text: &[u8], piece: usize) -> Result<Option<BodyAndRest>, ChunkError> {
        let (mut decoder, mut buffer, mut body) = (ChunkedDecoder::default(), BytesMut::new(), Vec::new());
        let mut last = Decoded::More;
        for part in text.chunks(piece) {
            buffer.extend_from_slice(part);
            last = decoder.decode(&mut buffer)?;
            while let Decoded::Data(bytes) = last {
                body.extend_from_slice(&bytes);
                last = decoder.decode(&mut buffer)?;
            }
        }
        Ok((last == Decoded::End).then(|| (body, buffer.to_vec())))
    }

    #[test]
    fn a_chunked_body_leaves_the_bytes_behind_it() {
        let text = b"4\r\nWiki\r\n5;x=\"y\"\r\npedia\r\n00a\t;z\r\n0123456789\r\n0\r\nA: b\r\nC: d\r\n\r\nGET /";
        for piece in [1, 2, 3, 7, 100] {
            let (body, rest) = decode(text, piece).expect("well coded").expect("it is over");
            assert_eq!(body, b"Wikipedia0123456789");
            // The bytes after the end stay in the buffer, in whole pieces.
            assert!(b"GET /".ends_with(&rest[..]) || rest == b"GET /", "{rest:?}");
        }
        assert_eq!(decode(b"0\r\n\r\n", 9), Ok(Some((Vec::new(), Vec::new()))));
        assert_eq!(decode(b"4\r\nWiki\r\n", 9), Ok(None));
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        let long_line = [b"1;".as_slice(), &[b'x'; 2000], b"\r\n"].concat();
        let long_trailer = [b"0\r\n".as_slice(), &b"A: bbbbbbbbbbbbbbbb\r\n".repeat(1000)].concat();
        let refused: [&[u8]; 15] = [
            b"4\nWiki\r\n0\r\n\r\n",
            b"4\r\nWiki\n0\r\n\r\n",
            b"4\r\nWikipedia\r\n0\r\n\r\n",
            b"\r\n",
            b" 4\r\nWiki\r\n",
            b"+4\r\nWiki\r\n",
            b"0x4\r\nWiki\r\n",
            b"-1\r\n",
            b"g\r\n",
            b"4 4\r\nWiki\r\n",
            b"10000000000000000\r\n",
            b"4\r\r\nWiki\r\n",
            b"0\r\nA: b\n\r\n",
            &long_line,
            &long_trailer,
        ];
        for text in refused {
            for piece in [1, 4096] {
                assert!(decode(text, piece).is_err(), "{:?}", String::from_utf8_lossy(&text[..text.len().min(30)]));
            }
        }
    }

    proptest! {
        /// Any body in any chunks comes out unchanged, however it arrives.
        #[test]
        fn any_chunking_of_a_body_decodes_unchanged(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..50), 0..10), piece in 1usize..60) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(decode(&text, piece), Ok(Some((chunks.concat(), Vec::new()))));
        }

        /// Any bytes: an answer, never a panic, and it does not depend on how they arrive.
        #[test]
        fn any_bytes(text in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(b"0123456789abcdef;\r\n".to_vec())], 0..80), piece in 1usize..20) {
            let whole = decode(&text, 1000).map(|over| over.map(|(body, _)| body));
            let parts = decode(&text, piece).map(|over| over.map(|(body, _)| body));
            prop_assert_eq!(whole, parts);
        }
    }
}
