//! Search by name through a folder and everything below it.
//!
//! Promise: a search sees names below the folder of its permit only, and an answer says whether these were all. Not here: the names
//! (`name_index`), listings (`listing`).

use tokio::task;

use crate::access::{Permit, ToRead};
use crate::contents::StoreError;
use crate::media_service::MediaService;
use crate::name_index::NamedItem;

/// Names compared before other work of the thread gets its turn.
const NAMES_PER_TURN: usize = 2000;

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// Matching items, first those whose names begin with the text.
    pub items: Vec<NamedItem>,
    /// True if further items match, a snapshot could not hold all names, or a folder was not readable.
    pub is_part: bool,
}

/// The first `count` items below the permit's folder that match `text`: each word of `text` occurs in the path, and one of them
/// in the name.
///
/// # Errors
/// As the store reports of the folder of all contents.
pub async fn search(
    service: &MediaService,
    permit: &Permit<ToRead>,
    text: &str,
    count: usize,
) -> Result<SearchResult, StoreError> {
    let names = service.names.latest(&service.contents, &service.runtime).await?;
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let (mut first, mut others, mut is_part) = (Vec::new(), Vec::new(), !names.is_whole);
    for turn in names.all.chunks(NAMES_PER_TURN) {
        for (lower, item) in turn {
            let is_below = item.path.lies_in(permit.path()) && item.path != *permit.path();
            if !is_below || !matches(lower, &words) {
                continue;
            }
            let begins = words.first().is_some_and(|word| name_of(lower).starts_with(word.as_str()));
            let found = if begins { &mut first } else { &mut others };
            if found.len() < count {
                found.push(item.clone());
            } else {
                is_part = true;
            }
        }
        task::yield_now().await;
    }
    is_part |= first.len() + others.len() > count;
    first.extend(others);
    first.truncate(count);
    Ok(SearchResult { items: first, is_part })
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// True if each word occurs in the path, and one of them in its last name.
fn matches(path: &str, words: &[String]) -> bool {
    let name = name_of(path);
    words.iter().any(|word| name.contains(word.as_str())) && words.iter().all(|word| path.contains(word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_in_the_path_and_one_in_the_name() {
        let finds = |text: &str, path: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
            matches(path, &words)
        };
        assert!(finds("Alps 03", "alps/day-03.mp4") && finds("ÄRGER", "x/ärger.ts") && finds("alps", "alps"));
        assert!(!finds("alps", "alps/day-03.mp4"), "it is in the folder's name only");
        assert!(!finds("alps 04", "alps/day-03.mp4") && !finds("", "alps") && !finds("s/d", "alps/day"));
    }
}
