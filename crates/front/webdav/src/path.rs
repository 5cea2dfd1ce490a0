//! Paths as names with slashes between them; the root is empty.

use std::ops::Bound;

/// True if `path` is `folder` or lies below it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The folders above `path`, the nearest first; the root is the last.
pub(crate) fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some((above, _)) => Some(above),
        None if path.is_empty() => None,
        None => Some(""),
    })
    .skip(1)
}

/// The paths below `folder`, in an ordered map.
pub(crate) fn range_below(folder: &str) -> (Bound<String>, Bound<String>) {
    if folder.is_empty() {
        return (Bound::Excluded(String::new()), Bound::Unbounded);
    }
    // The character behind the slash.
    (Bound::Included(format!("{folder}/")), Bound::Excluded(format!("{folder}0")))
}

/// The path that `path` has when `from`, which it lies in, is at `to`.
pub(crate) fn moved_path(path: &str, from: &str, to: &str) -> String {
    let rest = path.strip_prefix(from).unwrap_or(path).trim_start_matches('/');
    match (to.is_empty(), rest.is_empty()) {
        (_, true) => to.to_owned(),
        (true, false) => rest.to_owned(),
        (false, false) => format!("{to}/{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert!(is_below("a/b", "a") && is_below("a", "a") && is_below("a", "") && !is_below("ab", "a"));
        assert_eq!(parents("a/b/c").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(parents("").count(), 0);
        assert_eq!((moved_path("a/b", "a", "c"), moved_path("a", "a", "c")), ("c/b".to_owned(), "c".to_owned()));
    }
}
