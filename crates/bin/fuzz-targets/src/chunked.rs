//! The chunked coding: any bytes give an answer, and it does not depend on how they arrive.

use bytes::BytesMut;
use http::message::chunked::{ChunkError, ChunkedDecoder, Decoded};

/// The body, and whether it is over.
fn decode(text: &[u8], piece: usize) -> Result<(Vec<u8>, bool), ChunkError> {
    let (mut decoder, mut buffer, mut body) = (ChunkedDecoder::default(), BytesMut::new(), Vec::new());
    let mut last = Decoded::More;
    for part in text.chunks(piece) {
        buffer.extend_from_slice(part);
        last = decoder.decode(&mut buffer)?;
        while let Decoded::Data(bytes) = last {
            assert!(!bytes.is_empty());
            body.extend_from_slice(&bytes);
            last = decoder.decode(&mut buffer)?;
        }
    }
    assert!(body.len() <= text.len());
    Ok((body, last == Decoded::End))
}

/// The target.
pub fn target(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    assert_eq!(decode(text, usize::MAX), decode(text, usize::from(*first) + 1));
}
