//! Conditions of a request that changes a content.
//!
//! Not here: their judgement, which is the store's, in the step of the change.

use http_types::HeaderMap;
use http_types::header::{IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use service::contents::Precondition;

use crate::message::conditional::{date, etag_list, joined};

/// Conditions of the request on the existing content (RFC 9110 §13.2.2): If-Match, else If-Unmodified-Since; and If-None-Match.
pub(crate) fn precondition(headers: &HeaderMap) -> Precondition {
    let wanted = match joined(headers, &IF_MATCH) {
        Some(list) => Some(Precondition::MustMatch(etag_list(&list))),
        None => date(headers, &IF_UNMODIFIED_SINCE)
            .map(|limit| Precondition::MustNotBe { tags: Vec::new(), newer_than: Some(limit) }),
    };
    let unwanted = joined(headers, &IF_NONE_MATCH).map(|list| match list.trim() {
        "*" => Precondition::MustNotExist,
        tags => Precondition::MustNotBe { tags: etag_list(tags), newer_than: None },
    });
    match (wanted, unwanted) {
        (Some(wanted), Some(unwanted)) => Precondition::All(vec![wanted, unwanted]),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => Precondition::None,
    }
}
