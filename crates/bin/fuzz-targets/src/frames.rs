//! Frames of messages between nodes: any bytes give an answer, and it does not depend on how they arrive.

use net::frame::{FrameError, Frames, MESSAGE_BYTES_MAX};

/// The messages, and whether another has begun.
fn messages(mut text: &[u8], piece: usize) -> Result<(Vec<Vec<u8>>, bool), FrameError> {
    let (mut frames, mut messages) = (Frames::default(), Vec::new());
    while !text.is_empty() {
        let space = frames.space();
        assert!(!space.is_empty());
        let (read, left) = text.split_at(piece.min(space.len()).min(text.len()));
        space[..read.len()].copy_from_slice(read);
        frames.fill(read.len());
        text = left;
        while let Some(place) = frames.take()? {
            assert!((1..=MESSAGE_BYTES_MAX).contains(&place.len()));
            messages.push(frames.bytes()[place].to_vec());
        }
    }
    Ok((messages, frames.is_amid()))
}

/// The target.
pub fn target(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    assert_eq!(messages(text, usize::MAX), messages(text, usize::from(*first) + 1));
}
