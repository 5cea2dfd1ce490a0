//! The Range field: what is asked for lies in the content and is never more than it.

#![no_main]

use http::message::range::{Ranges, parse_ranges};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &str)| {
    let (size, value) = input;
    if let Ranges::Some(ranges) = parse_ranges(value, size) {
        let mut total = 0u64;
        for range in ranges {
            assert!(range.length > 0);
            assert!(range.offset.checked_add(range.length).is_some_and(|end| end <= size));
            total = total.checked_add(range.length).expect("no more than the content");
        }
        assert!(total <= size);
    }
});
