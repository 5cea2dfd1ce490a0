//! The Range field: parsed ranges lie within the content, and together are never longer than it.

use http::message::range::{Ranges, parse_ranges};

/// Fuzz target: the bytes are a content's size and the field's value.
pub fn target(bytes: &[u8]) {
    let Some((size, value)) = bytes.split_first_chunk() else { return };
    let Ok(value) = str::from_utf8(value) else { return };
    let size = u64::from_le_bytes(*size);
    if let Ranges::Some(ranges) = parse_ranges(value, size) {
        let mut total = 0u64;
        for range in ranges {
            assert!(range.length > 0);
            assert!(range.offset.checked_add(range.length).is_some_and(|end| end <= size));
            total = total.checked_add(range.length).expect("no more than the content");
        }
        assert!(total <= size);
    }
}
