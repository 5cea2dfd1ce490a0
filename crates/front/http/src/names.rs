//! Changes of names that a client orders by a `POST` below `/api/v1/contents/`: another name, a copy, a new folder, a removal.
//!
//! Promise: each is one change, with the locks and properties of WebDAV, that is durable at its answer. Not here: the change
//! (`service::namespace`).

use http_types::StatusCode;
use http_types::header::LOCATION;
use service::contents::ContentPath;

use crate::dav::{self, NameTransfer};
use crate::exchange::Exchange;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::routes::{API, Call};
use crate::{problem, upload};

/// The keys of the query.
#[derive(Debug, Default, PartialEq, Eq)]
struct NamesQuery {
    from: Option<ContentPath>,
    to: Option<ContentPath>,
    path: Option<ContentPath>,
    replaces: bool,
    trash: bool,
    is_empty: bool,
}

impl NamesQuery {
    fn parse(text: Option<&str>) -> Result<Self, String> {
        let mut query = Self::default();
        for (key, value) in pairs(text) {
            let field = match key {
                "from" => &mut query.from,
                "to" => &mut query.to,
                "path" => &mut query.path,
                "replace" | "trash" | "empty" => {
                    let choice = value.parse().map_err(|_| format!("`{key}=` is `true` or `false`"))?;
                    match key {
                        "trash" => query.trash = choice,
                        "empty" => query.is_empty = choice,
                        _ => query.replaces = choice,
                    }
                    continue;
                }
                _ => continue,
            };
            let path = ContentPath::parse(&value).map_err(|error| format!("`{key}=`: {error}"))?;
            if field.replace(path).is_some() {
                return Err(format!("`{key}=` is given twice"));
            }
        }
        Ok(query)
    }
}

/// Makes the change of a call.
///
/// # Errors
/// The answer to a change that is refused.
pub(crate) async fn change(exchange: &Exchange, call: Call) -> Result<Reply, Reply> {
    if exchange.shared.service.is_draining() {
        return Err(problem::stopping());
    }
    let query = NamesQuery::parse(exchange.head.query.as_deref());
    let query = query.map_err(Reply::malformed)?;
    let unnamed = |keys: &str| Reply::malformed(format!("name the item: `{keys}`"));
    match (call, query) {
        (Call::MoveItem, NamesQuery { from: Some(from), to: Some(to), replaces, .. }) => {
            dav::move_item(exchange, &NameTransfer::new(from, to, replaces)?).await?;
        }
        (Call::CopyItem, NamesQuery { from: Some(from), to: Some(to), replaces, .. }) => {
            dav::copy_item(exchange, &NameTransfer::new(from, to, replaces)?).await?;
        }
        (Call::MakeFolder, NamesQuery { path: Some(path), .. }) => dav::new_folder(exchange, &path).await?,
        (Call::RemoveItem, NamesQuery { path: Some(path), .. }) if path.components().is_empty() => {
            return Err(Reply::problem(StatusCode::FORBIDDEN, "the folder of all contents stays"));
        }
        (Call::RemoveItem, NamesQuery { trash: true, is_empty: true, .. }) => {
            return Err(Reply::malformed("an empty folder is removed for good: leave `trash=` out"));
        }
        (Call::RemoveItem, NamesQuery { path: Some(path), trash: true, .. }) => {
            let id = upload::put_in_trash(exchange, &path).await?;
            return Ok(Reply::empty(StatusCode::NO_CONTENT).field(LOCATION, format!("{API}/trash/{id}")));
        }
        (Call::RemoveItem, NamesQuery { path: Some(path), is_empty: true, .. }) => {
            upload::remove_empty_folder(exchange, &path).await?;
        }
        (Call::RemoveItem, NamesQuery { path: Some(path), .. }) => upload::remove_item(exchange, &path).await?,
        (Call::MoveItem | Call::CopyItem, _) => return Err(unnamed("?from=PATH&to=PATH")),
        _ => return Err(unnamed("?path=PATH")),
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_below_all_contents() {
        let parsed = NamesQuery::parse(Some("from=/a%20b/c.ts&to=d&replace=true")).expect("a query");
        let path = |text: &str| Some(ContentPath::parse(text).expect("a path"));
        assert_eq!(
            parsed,
            NamesQuery { from: path("a b/c.ts"), to: path("d"), replaces: true, ..NamesQuery::default() }
        );
        assert_eq!(NamesQuery::parse(None), Ok(NamesQuery::default()));
        for text in ["from=../a", "path=a&path=b", "replace=yes", "path=a//b"] {
            assert!(NamesQuery::parse(Some(text)).is_err(), "{text}");
        }
    }
}
