//! Search by name.
//!
//! Not here: the names, and the match (`service::search`).

use api::{FoundEntry, FoundNames};
use http_types::StatusCode;
use service::contents::ContentPath;
use service::search;

use crate::exchange::Exchange;
use crate::listing::listed;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::{login, problem};

/// Most entries of an answer, where the query names no limit.
const ENTRIES: usize = 200;
/// Most entries that the query may name.
const ENTRIES_MAX: usize = 1000;

/// The keys of the query.
#[derive(Debug, PartialEq, Eq)]
struct SearchAsked {
    text: String,
    folder: ContentPath,
    limit: usize,
}

impl SearchAsked {
    fn parse(query: Option<&str>) -> Result<Self, String> {
        let mut asked = Self { text: String::new(), folder: ContentPath::root(), limit: ENTRIES };
        for (key, value) in pairs(query) {
            match key {
                "text" => asked.text = value,
                "folder" => asked.folder = ContentPath::parse(&value).map_err(|error| format!("`folder=`: {error}"))?,
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=ENTRIES_MAX).contains(limit));
                    asked.limit = limit.ok_or_else(|| format!("`limit=` is a number from 1 to {ENTRIES_MAX}"))?;
                }
                _ => {}
            }
        }
        match asked.text.trim() {
            "" => Err("`text=` has the words to look for".to_owned()),
            _ => Ok(asked),
        }
    }
}

pub(super) async fn answer(exchange: &Exchange) -> Result<Reply, Reply> {
    let asked = SearchAsked::parse(exchange.head.query.as_deref());
    let asked = asked.map_err(|detail| Reply::problem(StatusCode::BAD_REQUEST, &detail))?;
    let permit = login::permit(exchange, &asked.folder).await?;
    let result = search::search(&exchange.shared.service, &permit, &asked.text, asked.limit).await;
    let result = result.map_err(|error| problem::of_store(&error))?;
    let entries = result.items.iter().map(|item| FoundEntry { path: item.path.joined(), entry: listed(&item.entry) });
    Ok(Reply::json(&FoundNames { entries: entries.collect(), is_part: result.is_part }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_has_words_and_bounds() {
        let parsed = SearchAsked::parse(Some("text=a%20b&folder=films/2026&limit=7&v=1")).expect("a query");
        let folder = ContentPath::parse("films/2026").expect("a path");
        assert_eq!(parsed, SearchAsked { text: "a b".to_owned(), folder, limit: 7 });
        for refused in ["", "text=", "text=+", "text=a&limit=0", "text=a&limit=1001", "text=a&folder=../a"] {
            assert!(SearchAsked::parse(Some(refused)).is_err(), "{refused}");
        }
    }
}
