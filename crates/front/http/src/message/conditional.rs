//! Conditional requests: If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since, If-Range.
//!
//! Promise: the precedence of RFC 9110 §13.2.2; entity tags are compared strongly or weakly as each field demands.
//! Not here: the answer (`plan`).

use std::time::SystemTime;

use http_types::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use http_types::{HeaderMap, HeaderName};

/// The identity of one version of a content.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// Quoted; weak ones begin with `W/`.
    pub etag: &'a str,
    /// Its modification time, if that says anything of it.
    pub modified: Option<SystemTime>,
}

/// Result of the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionResult {
    /// Continue.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD of an existing content.
#[must_use]
pub fn evaluate_read(headers: &HeaderMap, current: Validators<'_>) -> ConditionResult {
    if let Some(list) = joined(headers, &IF_MATCH) {
        if !matches_strongly(&list, current.etag) {
            return ConditionResult::Failed;
        }
    } else if let (Some(limit), Some(modified)) = (date(headers, &IF_UNMODIFIED_SINCE), current.modified)
        && whole_seconds(modified) > whole_seconds(limit)
    {
        return ConditionResult::Failed;
    }
    if let Some(list) = joined(headers, &IF_NONE_MATCH) {
        if matches_weakly(&list, current.etag) {
            return ConditionResult::NotModified;
        }
    } else if let (Some(limit), Some(modified)) = (date(headers, &IF_MODIFIED_SINCE), current.modified)
        && whole_seconds(modified) <= whole_seconds(limit)
    {
        return ConditionResult::NotModified;
    }
    ConditionResult::Proceed
}

/// True if a Range field may be honoured: there is no If-Range, or it has the strong tag of this version. A date never does: programs set
/// the time of a file back (`cp -p`, `rsync -t`), so that it does not distinguish two versions, which a strong validator must (RFC 9110
/// §8.8.2.2, §13.1.5).
#[must_use]
pub fn range_applies(headers: &HeaderMap, current: Validators<'_>) -> bool {
    let Some(value) = headers.get(IF_RANGE) else { return true };
    value.to_str().is_ok_and(|tag| tag.trim() == current.etag) && !current.etag.starts_with("W/")
}

/// The entity tags of a field's lists, or `*`; an unreadable list is empty.
#[must_use]
pub fn etag_list(value: &str) -> Vec<String> {
    if value.trim() == "*" {
        return vec!["*".to_owned()];
    }
    let mut tags = Vec::new();
    let mut rest = value;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let weak = rest.starts_with("W/");
        let opaque = rest.strip_prefix("W/").unwrap_or(rest);
        let Some(length) = opaque.strip_prefix('"').and_then(|inner| inner.find('"')) else { return tags };
        let (tag, after) = opaque.split_at(length + 2);
        tags.push(if weak { format!("W/{tag}") } else { tag.to_owned() });
        rest = after;
    }
}

/// All lines of a list field as one.
#[must_use]
pub fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut lines = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let mut all = lines.next()?.into_owned();
    for line in lines {
        all.push_str(", ");
        all.push_str(&line);
    }
    Some(all)
}

fn matches_strongly(list: &str, etag: &str) -> bool {
    etag_list(list).iter().any(|tag| tag == "*" || (tag == etag && !tag.starts_with("W/")))
}

fn matches_weakly(list: &str, etag: &str) -> bool {
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    etag_list(list).iter().any(|tag| tag == "*" || opaque(tag) == opaque(etag))
}

/// The date of a field; an unreadable date is ignored (RFC 9110 §13.1.3).
#[must_use]
pub fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    headers.get(name).and_then(|value| value.to_str().ok()).and_then(|text| httpdate::parse_http_date(text).ok())
}

/// HTTP dates have no fractions; times before 1970 count as 1970.
fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use http_types::HeaderValue;

    const ETAG: &str = "\"v1\"";
    const LATER: &str = "Sat, 01 Jan 2028 00:00:00 GMT";
    const SAME: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const EARLIER: &str = "Sat, 01 Jan 2000 00:00:00 GMT";

    fn current() -> Validators<'static> {
        Validators { etag: ETAG, modified: Some(SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 500)) }
    }

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn read(fields: &[(HeaderName, &'static str)]) -> ConditionResult {
        evaluate_read(&headers(fields), current())
    }

    #[test]
    fn each_condition_alone() {
        assert_eq!(read(&[]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_MATCH, "\"v0\", \"v1\"")]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_MATCH, "*")]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_MATCH, "W/\"v1\"")]), ConditionResult::Failed, "strong comparison");
        assert_eq!(read(&[(IF_MATCH, "\"v0\"")]), ConditionResult::Failed);
        assert_eq!(read(&[(IF_NONE_MATCH, "W/\"v1\"")]), ConditionResult::NotModified, "weak comparison");
        assert_eq!(read(&[(IF_NONE_MATCH, "*")]), ConditionResult::NotModified);
        assert_eq!(read(&[(IF_NONE_MATCH, "\"v0\"")]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_MODIFIED_SINCE, SAME)]), ConditionResult::NotModified);
        assert_eq!(read(&[(IF_MODIFIED_SINCE, EARLIER)]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_MODIFIED_SINCE, "yesterday")]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_UNMODIFIED_SINCE, SAME)]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_UNMODIFIED_SINCE, EARLIER)]), ConditionResult::Failed);
    }

    #[test]
    fn precedence() {
        assert_eq!(read(&[(IF_MATCH, ETAG), (IF_UNMODIFIED_SINCE, EARLIER)]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_NONE_MATCH, "\"v0\""), (IF_MODIFIED_SINCE, LATER)]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_MATCH, "\"v0\""), (IF_NONE_MATCH, ETAG)]), ConditionResult::Failed);
        assert_eq!(read(&[(IF_MATCH, ETAG), (IF_NONE_MATCH, ETAG)]), ConditionResult::NotModified);
    }

    #[test]
    fn if_range() {
        let applies = |value: &'static str| range_applies(&headers(&[(IF_RANGE, value)]), current());
        assert!(range_applies(&HeaderMap::new(), current()));
        assert!(applies(ETAG));
        assert!(!applies("\"v0\""));
        assert!(!applies("W/\"v1\""));
        assert!(!applies(SAME), "its time may have been set back");
        assert!(!applies(LATER));
        assert!(!applies("nonsense"));
    }

    #[test]
    fn a_weak_tag_without_a_date() {
        let current = Validators { etag: "W/\"v1-x\"", modified: None };
        let read = |fields: &[(HeaderName, &'static str)]| evaluate_read(&headers(fields), current);
        assert_eq!(read(&[(IF_NONE_MATCH, "W/\"v1-x\"")]), ConditionResult::NotModified);
        assert_eq!(read(&[(IF_NONE_MATCH, "\"v1\"")]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_MATCH, "W/\"v1-x\"")]), ConditionResult::Failed, "strong comparison");
        assert_eq!(read(&[(IF_MODIFIED_SINCE, LATER)]), ConditionResult::Proceed);
        assert_eq!(read(&[(IF_UNMODIFIED_SINCE, EARLIER)]), ConditionResult::Proceed);
        let ranged = headers(&[(IF_RANGE, "W/\"v1-x\"")]);
        assert!(!range_applies(&ranged, current));
    }

    #[test]
    fn tags_may_hold_commas() {
        assert_eq!(etag_list("\"a,b\" , W/\"c\",\"\""), ["\"a,b\"", "W/\"c\"", "\"\""]);
        assert_eq!(etag_list(" * "), ["*"]);
        assert!(etag_list("unquoted, \"open").is_empty());
    }
}
