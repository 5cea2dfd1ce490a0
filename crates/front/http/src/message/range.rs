//! The Range field: the wanted bytes of a content.
//!
//! Promise: each range is non-empty and inside the content; at most `RANGES_MAX`; together never more than the whole
//! (so that a small request cannot ask for a thousand copies). Not here: If-Range (`conditional`). RFC 9110 §14.

use units::limits::RANGES_MAX;

/// A run of bytes of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes; not zero.
    pub length: u64,
}

/// The ranges that a Range field requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The whole content: no range, an unknown form of it, or an abusive set (RFC 9110 §14.2 lets it be ignored).
    Whole,
    /// These, in this order: 206.
    Some(Vec<ByteRange>),
    /// None of them lies in the content: 416.
    Unsatisfiable,
}

/// Reads the value of a Range field for a content of `size` bytes.
#[must_use]
pub fn parse_ranges(value: &str, size: u64) -> Ranges {
    let Some((unit, list)) = value.split_once('=') else { return Ranges::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Ranges::Whole;
    }
    let mut found = Vec::new();
    let mut specs = 0;
    for spec in list.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty()) {
        specs += 1;
        let Some(range) = parse_spec(spec, size) else { return Ranges::Whole };
        if range.length > 0 {
            found.push(range);
        }
        if specs > RANGES_MAX {
            return Ranges::Whole;
        }
    }
    let total = found.iter().try_fold(0u64, |sum, range| sum.checked_add(range.length));
    match (specs, found.is_empty()) {
        (0, _) => Ranges::Whole,
        // An empty content has no last bytes; `bytes=-5` of it is the whole of it, `bytes=0-` is not there.
        (_, true) if size == 0 && list.trim_start().starts_with('-') => Ranges::Whole,
        (_, true) => Ranges::Unsatisfiable,
        (_, false) if total.is_none_or(|total| total > size) => Ranges::Whole,
        (_, false) => Ranges::Some(found),
    }
}

/// The first byte of a `Content-Range` that has `length` bytes, the last of its content among them.
#[must_use]
pub fn last_part(value: &str, length: u64) -> Option<u64> {
    let (range, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let (first, last): (u64, u64) = (number(first)?, number(last)?);
    let end = last.checked_add(1)?;
    let is_last = size == "*" || number(size) == Some(end);
    (is_last && first.checked_add(length) == Some(end)).then_some(first)
}

/// One range of a list: empty if it lies outside of the content, `None` if it is not understood.
fn parse_spec(spec: &str, size: u64) -> Option<ByteRange> {
    let (first, last) = spec.split_once('-')?;
    if !first.bytes().chain(last.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Numbers beyond 64 bits lie beyond every content.
    let number = |text: &str| text.parse().unwrap_or(u64::MAX);
    let (start, end) = match (first, last) {
        ("", "") => return None,
        ("", length) => (size.saturating_sub(number(length)), size),
        (first, "") => (number(first), size),
        (first, last) if number(first) > number(last) => return None,
        (first, last) => (number(first), number(last).saturating_add(1).min(size)),
    };
    Some(ByteRange { offset: start, length: end.saturating_sub(start) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Some(ranges.iter().map(|&(offset, length)| ByteRange { offset, length }).collect())
    }

    #[test]
    fn examples_of_the_rfc() {
        assert_eq!(parse_ranges("bytes=0-499", 10_000), some(&[(0, 500)]));
        assert_eq!(parse_ranges("bytes=-500", 10_000), some(&[(9500, 500)]));
        assert_eq!(parse_ranges("bytes=9500-", 10_000), some(&[(9500, 500)]));
        assert_eq!(parse_ranges("bytes=0-0,-1", 10_000), some(&[(0, 1), (9999, 1)]));
        assert_eq!(
            parse_ranges("bytes= 0-999, 4500-5499, -1000", 10_000),
            some(&[(0, 1000), (4500, 1000), (9000, 1000)])
        );
        assert_eq!(parse_ranges("bytes=500-700,601-999", 10_000), some(&[(500, 201), (601, 399)]), "overlapping");
        assert_eq!(parse_ranges("bytes=900-999,0-99", 10_000), some(&[(900, 100), (0, 100)]), "descending");
        assert_eq!(parse_ranges("BYTES=5-", 10), some(&[(5, 5)]));
    }

    #[test]
    fn outside_and_clipped() {
        assert_eq!(parse_ranges("bytes=10-", 10), Ranges::Unsatisfiable);
        assert_eq!(parse_ranges("bytes=-0", 10), Ranges::Unsatisfiable);
        assert_eq!(parse_ranges("bytes=5-99", 10), some(&[(5, 5)]));
        assert_eq!(parse_ranges("bytes=-99", 10), some(&[(0, 10)]));
        assert_eq!(parse_ranges("bytes=99-,0-0", 10), some(&[(0, 1)]));
        assert_eq!(parse_ranges("bytes=99999999999999999999999-", 10), Ranges::Unsatisfiable);
        assert_eq!(parse_ranges("bytes=0-18446744073709551615", 10), some(&[(0, 10)]));
        assert_eq!(parse_ranges("bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse_ranges("bytes=-5", 0), Ranges::Whole);
        assert_eq!(parse_ranges("bytes=0-,1-", u64::MAX), Ranges::Whole, "more than 64 bits count");
    }

    #[test]
    fn a_malformed_range_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "items=0-1",
            "bytes=1",
            "bytes=5-1",
            "bytes=-",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=--1",
        ] {
            assert_eq!(parse_ranges(value, 10), Ranges::Whole, "{value}");
        }
    }

    #[test]
    fn abuse_is_answered_with_the_whole() {
        assert_eq!(parse_ranges(&format!("bytes={}", "0-0,".repeat(17)), 1000), Ranges::Whole);
        assert_eq!(parse_ranges(&format!("bytes={}", "0-0,".repeat(16)), 1000), some(&[(0, 1); 16]));
        assert_eq!(parse_ranges("bytes=0-,0-", 1000), Ranges::Whole);
    }

    /// The result by the RFC, byte by byte, for a small content.
    fn naive(specs: &[(Option<u64>, Option<u64>)], size: u64) -> Option<Vec<Vec<u64>>> {
        let mut result = Vec::new();
        for spec in specs {
            let bytes: Vec<u64> = match *spec {
                (Some(first), Some(last)) if first > last => return None,
                (Some(first), Some(last)) => (0..size).filter(|b| *b >= first && *b <= last).collect(),
                (Some(first), None) => (0..size).filter(|b| *b >= first).collect(),
                (None, Some(length)) => (0..size).filter(|b| *b + length >= size).collect(),
                (None, None) => return None,
            };
            if !bytes.is_empty() {
                result.push(bytes);
            }
        }
        Some(result)
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_model(
            specs in proptest::collection::vec((proptest::option::of(0u64..40), proptest::option::of(0u64..40)), 1..6),
            size in 1u64..32,
        ) {
            let text = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
            let list: Vec<String> = specs.iter().map(|(a, b)| format!("{}-{}", text(*a), text(*b))).collect();
            let got = parse_ranges(&format!("bytes={}", list.join(", ")), size);
            let expected = match naive(&specs, size) {
                None => Ranges::Whole,
                Some(parts) if parts.is_empty() => Ranges::Unsatisfiable,
                Some(parts) if parts.iter().map(Vec::len).sum::<usize>() as u64 > size => Ranges::Whole,
                Some(parts) => Ranges::Some(
                    parts.iter().map(|p| ByteRange { offset: p[0], length: p.len() as u64 }).collect()
                ),
            };
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn any_text_gives_ranges_inside(value in "(bytes=)?[-0-9, a]{0,40}|\\PC{0,60}", size in any::<u64>()) {
            if let Ranges::Some(ranges) = parse_ranges(&value, size) {
                prop_assert!(!ranges.is_empty() && ranges.len() <= RANGES_MAX);
                for range in ranges {
                    prop_assert!(range.length > 0);
                    prop_assert!(range.offset.checked_add(range.length).is_some_and(|end| end <= size));
                }
            }
        }
    }
}
