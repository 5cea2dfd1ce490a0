//! Search by name.
//!
//! Promise: a query has a bounded number of words, and its answer a bounded number of entries. Not here: the names, and the match (`service::search`).

use api::{FoundEntry, FoundNames};
use service::contents::ContentPath;
use service::search;

use crate::exchange::Exchange;
use crate::listing::listed;
use crate::login;
use crate::message::query::pairs;
use crate::message::reply::Reply;

/// Most entries of an answer, where the query names no limit.
const ENTRIES: usize = 200;
/// Most entries that the query may name.
const ENTRIES_MAX: usize = 1000;
/// Most words, each of which is looked for in each name.
const WORDS_MAX: usize = 16;
/// Bytes of all words.
const TEXT_BYTES_MAX: usize = 256;

/// The keys of the query.
#[derive(Debug, PartialEq, Eq)]
struct SearchQuery {
    text: String,
    folder: ContentPath,
    limit: usize,
}

impl SearchQuery {
    fn parse(text: Option<&str>) -> Result<Self, String> {
        let mut query = Self { text: String::new(), folder: ContentPath::root(), limit: ENTRIES };
        for (key, value) in pairs(text) {
            match key {
                "text" => query.text = value,
                "folder" => query.folder = ContentPath::parse(&value).map_err(|error| format!("`folder=`: {error}"))?,
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=ENTRIES_MAX).contains(limit));
                    query.limit = limit.ok_or_else(|| format!("`limit=` is a number from 1 to {ENTRIES_MAX}"))?;
                }
                _ => {}
            }
        }
        match query.text.split_whitespace().count() {
            1..=WORDS_MAX if query.text.len() <= TEXT_BYTES_MAX => Ok(query),
            _ => Err(format!("`text=` has 1 to {WORDS_MAX} words, {TEXT_BYTES_MAX} bytes at most")),
        }
    }
}

pub(super) async fn answer(exchange: &Exchange) -> Result<Reply, Reply> {
    let query = SearchQuery::parse(exchange.head.query.as_deref());
    let query = query.map_err(Reply::malformed)?;
    let permit = login::permit(exchange, &query.folder).await?;
    let result = search::search(&exchange.shared.service, &permit, &query.text, query.limit).await?;
    let entries = result.items.iter().map(|item| FoundEntry { path: item.path.joined(), entry: listed(&item.entry) });
    Ok(Reply::json(&FoundNames { entries: entries.collect(), is_part: result.is_part }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_has_words_and_bounds() {
        let parsed = SearchQuery::parse(Some("text=a%20b&folder=films/2026&limit=7&v=1")).expect("a query");
        let folder = ContentPath::parse("films/2026").expect("a path");
        assert_eq!(parsed, SearchQuery { text: "a b".to_owned(), folder, limit: 7 });
        for refused in ["", "text=", "text=+", "text=a&limit=0", "text=a&limit=1001", "text=a&folder=../a"] {
            assert!(SearchQuery::parse(Some(refused)).is_err(), "{refused}");
        }
        let is_taken = |text: String| SearchQuery::parse(Some(&format!("text={text}"))).is_ok();
        assert!(is_taken("a+".repeat(16)) && is_taken("a".repeat(256)));
        assert!(!is_taken("a+".repeat(17)) && !is_taken("a".repeat(257)));
    }
}
