//! Answer to a GET or HEAD of a content: a reply, or a head and the parts of the content that follow it.
//!
//! Promise: pure; conditions, ranges and multipart as in RFC 9110 §13–15; never more than `SEGMENTS_MAX` segments, each
//! literal one within the limit of the data plane. Not here: the rate (`service::rate`), sending it.

use std::time::SystemTime;

use api::{MODIFIED_FIELD, format_modified};
use content::{LITERAL_BYTES, Segment};
use http_types::header::{self, HeaderName};
use http_types::{Method, StatusCode};
use service::contents::Entry;
use units::limits::{RANGES_MAX, SEGMENTS_MAX};

use crate::message::conditional::{self, ConditionResult, Validators};
use crate::message::head::RequestHead;
use crate::message::media_type::{is_active, media_type};
use crate::message::problem_type::ProblemType;
use crate::message::range::{ByteRange, Ranges, parse_ranges};
use crate::message::reply::{Reply, problem_with};

const MODIFIED: HeaderName = HeaderName::from_static(MODIFIED_FIELD);
const _: () = assert!(SEGMENTS_MAX >= 2 + 2 * RANGES_MAX);

/// A response with content: a head with these fields, then the body.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    /// 200 or 206.
    pub status: StatusCode,
    /// Fields other than Date, Server, Content-Length, Connection and the rate.
    pub fields: Vec<(HeaderName, String)>,
    /// Bytes of the body; none: that is known when all of them have passed the stages.
    pub length: Option<u64>,
    /// The body: parts of the content, with multipart heads between them.
    pub body: Vec<Segment>,
    /// The request has ranges, as those of players do that come back for more.
    pub ranged: bool,
}

/// Plans the answer to `request`, a GET or HEAD of the content `entry`, which stages alter if there is an `alteration`.
/// `boundary` parts a multipart body: the uploader of a content must not be able to foresee it.
///
/// # Errors
/// The answer to send instead, with nothing of the content.
pub(crate) fn plan(
    request: &RequestHead,
    entry: &Entry,
    alteration: Option<&str>,
    boundary: &dyn Fn() -> String,
    now: SystemTime,
) -> Result<StreamPlan, Reply> {
    if let Some(alteration) = alteration {
        return altered(request, entry, alteration);
    }
    let current = Validators { etag: &entry.etag, modified: entry.last_modified(now) };
    let mut validators = vec![(header::ETAG, entry.etag.clone()), (header::ACCEPT_RANGES, "bytes".to_owned())];
    validators.extend(current.modified.map(|modified| (header::LAST_MODIFIED, httpdate::fmt_http_date(modified))));
    validators.push((MODIFIED, format_modified(entry.modified)));
    check_conditions(request, current, &validators)?;
    let asked = match conditional::joined(&request.headers, &header::RANGE) {
        // Range is defined for GET only (RFC 9110 §14.2).
        Some(value) if request.method == Method::GET && conditional::range_applies(&request.headers, current) => {
            parse_ranges(&value, entry.size)
        }
        _ => Ranges::Whole,
    };
    let ranged = !matches!(asked, Ranges::Whole) || request.headers.contains_key(header::RANGE);
    Ok(match asked {
        Ranges::Unsatisfiable => return Err(unsatisfiable(entry)),
        Ranges::Whole => whole(entry, validators, ranged),
        Ranges::Some(ranges) if ranges.len() == 1 => single(entry, validators, ranges[0]),
        Ranges::Some(ranges) => multiple(entry, validators, &ranges, &boundary()),
    })
}

/// The answer in place of the content where the conditions demand one.
fn check_conditions(
    request: &RequestHead,
    current: Validators<'_>,
    validators: &[(HeaderName, String)],
) -> Result<(), Reply> {
    match conditional::evaluate_read(&request.headers, current) {
        ConditionResult::NotModified => {
            Err(Reply { fields: validators.to_vec(), ..Reply::empty(StatusCode::NOT_MODIFIED) })
        }
        ConditionResult::Failed => {
            let detail = "the content is not the version that If-Match or If-Unmodified-Since asks for";
            Err(Reply::problem(StatusCode::PRECONDITION_FAILED, detail))
        }
        ConditionResult::Proceed => Ok(()),
    }
}

/// Plans the answer for a content that stages alter, another representation of it: with a tag of its own, weak because the
/// stages may change as well, without a date, and whole or not at all, for its length is not known.
fn altered(request: &RequestHead, entry: &Entry, alteration: &str) -> Result<StreamPlan, Reply> {
    let etag = format!("W/\"{}-{alteration}\"", entry.etag.trim_matches('"'));
    let validators = vec![(header::ETAG, etag.clone()), (header::ACCEPT_RANGES, "none".to_owned())];
    check_conditions(request, Validators { etag: &etag, modified: None }, &validators)?;
    Ok(StreamPlan { length: None, ..whole(entry, validators, false) })
}

fn unsatisfiable(entry: &Entry) -> Reply {
    let detail = format!("the content has {} bytes and none of the ranges lies in it", entry.size);
    problem_with(
        ProblemType::of(StatusCode::RANGE_NOT_SATISFIABLE),
        StatusCode::RANGE_NOT_SATISFIABLE,
        "Range Not Satisfiable",
        &detail,
        &[],
    )
    .field(header::CONTENT_RANGE, format!("bytes */{}", entry.size))
    .field(header::ACCEPT_RANGES, "bytes")
}

fn typed(entry: &Entry, mut fields: Vec<(HeaderName, String)>) -> Vec<(HeaderName, String)> {
    let media_type = media_type(&entry.name);
    fields.push((header::CONTENT_TYPE, media_type.to_owned()));
    fields.push((header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()));
    if is_active(media_type) {
        // An uploaded document must not be able to act as the page of this server.
        fields.push((header::CONTENT_SECURITY_POLICY, "sandbox".to_owned()));
    }
    fields
}

fn whole(entry: &Entry, validators: Vec<(HeaderName, String)>, ranged: bool) -> StreamPlan {
    let body = match entry.size {
        0 => Vec::new(),
        length => vec![Segment::Range { offset: 0, length }],
    };
    let fields = typed(entry, validators);
    StreamPlan { status: StatusCode::OK, fields, length: Some(entry.size), body, ranged }
}

fn single(entry: &Entry, validators: Vec<(HeaderName, String)>, range: ByteRange) -> StreamPlan {
    let mut fields = typed(entry, validators);
    fields.push((header::CONTENT_RANGE, content_range(range, entry.size)));
    StreamPlan {
        status: StatusCode::PARTIAL_CONTENT,
        fields,
        length: Some(range.length),
        body: vec![Segment::Range { offset: range.offset, length: range.length }],
        ranged: true,
    }
}

fn multiple(entry: &Entry, validators: Vec<(HeaderName, String)>, ranges: &[ByteRange], boundary: &str) -> StreamPlan {
    let mut body = Vec::with_capacity(2 * ranges.len() + 1);
    let mut lead = "";
    for range in ranges {
        let part_head = format!(
            "{lead}--{boundary}\r\ncontent-type: {}\r\ncontent-range: {}\r\n\r\n",
            media_type(&entry.name),
            content_range(*range, entry.size)
        );
        body.push(literal(part_head));
        body.push(Segment::Range { offset: range.offset, length: range.length });
        lead = "\r\n";
    }
    body.push(literal(format!("\r\n--{boundary}--\r\n")));
    let mut fields = validators;
    fields.push((header::CONTENT_TYPE, format!("multipart/byteranges; boundary={boundary}")));
    fields.push((header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()));
    let length = Some(body.iter().map(Segment::length).sum());
    StreamPlan { status: StatusCode::PARTIAL_CONTENT, fields, length, body, ranged: true }
}

fn content_range(range: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.offset, range.offset + range.length - 1)
}

fn literal(text: String) -> Segment {
    let bytes = text.into_bytes();
    assert!(bytes.len() as u64 <= LITERAL_BYTES, "a part head is a few lines of known length");
    Segment::Bytes(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use units::DiskId;

    use super::*;
    use crate::message::head::parse_head;
    use service::contents::NameKind;

    fn entry(size: u64) -> Entry {
        Entry {
            name: "film.mp4".to_owned(),
            kind: NameKind::File,
            id: None,
            is_link: false,
            size,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            created: None,
            etag: "\"v1\"".to_owned(),
            disk: DiskId(0),
            rate: None,
        }
    }

    fn planned(method: &str, fields: &str, size: u64) -> Result<StreamPlan, Reply> {
        let text = format!("{method} /media/film.mp4 HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let head = parse_head(text.as_bytes()).expect("understood").expect("complete");
        plan(
            &head,
            &entry(size),
            None,
            &|| "BOUNDARY".to_owned(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        )
    }

    fn stream(plan: Result<StreamPlan, Reply>) -> StreamPlan {
        plan.expect("a stream")
    }

    fn reply(plan: Result<StreamPlan, Reply>) -> Reply {
        plan.expect_err("a reply")
    }

    fn value<'a>(fields: &'a [(HeaderName, String)], name: &HeaderName) -> Option<&'a str> {
        fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn the_whole_content() {
        let plan = stream(planned("GET", "", 1000));
        assert_eq!((plan.status, plan.length, plan.ranged), (StatusCode::OK, Some(1000), false));
        assert_eq!(plan.body, [Segment::Range { offset: 0, length: 1000 }]);
        assert_eq!(value(&plan.fields, &header::CONTENT_TYPE), Some("video/mp4"));
        assert_eq!(value(&plan.fields, &header::LAST_MODIFIED), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
        let empty = stream(planned("GET", "", 0));
        assert_eq!((empty.length, empty.body.len()), (Some(0), 0));
    }

    #[test]
    fn one_range() {
        let plan = stream(planned("GET", "Range: bytes=900-\r\n", 1000));
        assert_eq!((plan.status, plan.length, plan.ranged), (StatusCode::PARTIAL_CONTENT, Some(100), true));
        assert_eq!(value(&plan.fields, &header::CONTENT_RANGE), Some("bytes 900-999/1000"));
        let head = stream(planned("HEAD", "Range: bytes=900-\r\n", 1000));
        assert_eq!((head.status, head.length), (StatusCode::OK, Some(1000)), "Range is for GET");
    }

    #[test]
    fn several_ranges() {
        let plan = stream(planned("GET", "Range: bytes=0-9,990-\r\n", 1000));
        assert_eq!(plan.status, StatusCode::PARTIAL_CONTENT);
        let text: String = plan
            .body
            .iter()
            .map(|segment| match segment {
                Segment::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Segment::Range { offset, length } => format!("<{offset}+{length}>"),
            })
            .collect();
        assert_eq!(
            text,
            "--BOUNDARY\r\ncontent-type: video/mp4\r\ncontent-range: bytes 0-9/1000\r\n\r\n<0+10>\
             \r\n--BOUNDARY\r\ncontent-type: video/mp4\r\ncontent-range: bytes 990-999/1000\r\n\r\n<990+10>\
             \r\n--BOUNDARY--\r\n"
        );
    }

    #[test]
    fn out_of_range() {
        let reply = reply(planned("GET", "Range: bytes=1000-\r\n", 1000));
        assert_eq!(reply.status, StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(value(&reply.fields, &header::CONTENT_RANGE), Some("bytes */1000"));
    }

    #[test]
    fn conditions_come_before_ranges() {
        let not_modified = reply(planned("GET", "If-None-Match: \"v1\"\r\nRange: bytes=0-1\r\n", 1000));
        assert_eq!(not_modified.status, StatusCode::NOT_MODIFIED);
        assert_eq!(value(&not_modified.fields, &header::ETAG), Some("\"v1\""));
        let failed = reply(planned("GET", "If-Match: \"v0\"\r\nRange: bytes=5000-\r\n", 1000));
        assert_eq!(failed.status, StatusCode::PRECONDITION_FAILED);
        let changed = stream(planned("GET", "If-Range: \"v0\"\r\nRange: bytes=0-1\r\n", 1000));
        assert_eq!((changed.status, changed.length), (StatusCode::OK, Some(1000)));
    }

    #[test]
    fn a_stage_removes_length_ranges_and_date() {
        let planned = |fields: &str| {
            let text = format!("GET /media/film.mp4 HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let head = parse_head(text.as_bytes()).expect("understood").expect("complete");
            plan(&head, &entry(1000), Some("shout"), &|| "BOUNDARY".to_owned(), SystemTime::UNIX_EPOCH)
        };
        let plan = stream(planned("Range: bytes=0-1\r\nIf-Modified-Since: Sat, 01 Jan 2028 00:00:00 GMT\r\n"));
        assert_eq!((plan.status, plan.length, plan.ranged), (StatusCode::OK, None, false));
        assert_eq!(plan.body, [Segment::Range { offset: 0, length: 1000 }]);
        assert_eq!(value(&plan.fields, &header::ETAG), Some("W/\"v1-shout\""));
        assert_eq!(value(&plan.fields, &header::ACCEPT_RANGES), Some("none"));
        assert_eq!(value(&plan.fields, &header::LAST_MODIFIED), None);
        assert_eq!(reply(planned("If-None-Match: W/\"v1-shout\"\r\n")).status, StatusCode::NOT_MODIFIED);
        assert_eq!(stream(planned("If-None-Match: \"v1\"\r\n")).status, StatusCode::OK, "another representation");
    }

    proptest! {
        /// For any ranges, Content-Length is the sum of the segments, and these fit the data plane.
        #[test]
        fn lengths_add_up(spec in "bytes=([0-9]{0,3}-[0-9]{0,3},){0,18}[0-9]{1,3}-", size in 1u64..2000) {
            if let Ok(plan) = planned("GET", &format!("Range: {spec}\r\n"), size) {
                prop_assert_eq!(plan.length, Some(plan.body.iter().map(Segment::length).sum::<u64>()));
                prop_assert!(plan.body.len() < SEGMENTS_MAX);
                for segment in &plan.body {
                    match segment {
                        Segment::Bytes(bytes) => prop_assert!(bytes.len() as u64 <= LITERAL_BYTES),
                        Segment::Range { offset, length } => prop_assert!(*length > 0 && offset + length <= size),
                    }
                }
            }
        }
    }
}
