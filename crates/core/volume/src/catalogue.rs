//! The catalogue: every content by its name, in memory.
//!
//! Promise: names are in order, a folder is the part of some name before a `/`; the bytes a checkpoint would take are known. A name that
//! ends with `/` is the mark of a folder, which keeps that while it is empty.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::content::StoredContent;
use crate::record::put_bytes;

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedName<'a> {
    /// A folder of this name.
    Folder(&'a str),
    /// A content of this name (the last component).
    Content(&'a str, &'a Arc<StoredContent>),
}

impl ListedName<'_> {
    /// The name in its folder.
    #[must_use]
    pub const fn name(&self) -> &str {
        match self {
            Self::Folder(name) | Self::Content(name, _) => name,
        }
    }
}

/// All contents.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    contents: BTreeMap<Box<str>, Arc<StoredContent>>,
    /// Marks of folders among them.
    marks: usize,
    /// Bytes that all records together take.
    record_bytes: usize,
}

/// True if it is the mark of a folder.
fn is_mark(name: &str) -> bool {
    name.ends_with('/')
}

impl Catalogue {
    /// A catalogue of contents that are in order already, as a checkpoint holds them: much faster than one by one.
    pub(crate) fn from_ordered(contents: Vec<(Box<str>, Arc<StoredContent>)>) -> Self {
        debug_assert!(contents.is_sorted_by(|(one, _), (next, _)| one < next), "each name once, in order");
        let record_bytes = contents.iter().map(|(name, content)| put_bytes(name.len(), content.parts.len())).sum();
        let marks = contents.iter().filter(|(name, _)| is_mark(name)).count();
        Self { contents: contents.into_iter().collect(), marks, record_bytes }
    }

    pub(crate) fn insert(&mut self, name: Box<str>, content: Arc<StoredContent>) -> Option<Arc<StoredContent>> {
        let (name_len, is_mark) = (name.len(), is_mark(&name));
        self.record_bytes += put_bytes(name_len, content.parts.len());
        let old = self.contents.insert(name, content);
        self.marks += usize::from(is_mark && old.is_none());
        debug_assert!(self.marks <= self.contents.len(), "a mark is a name");
        self.record_bytes -= old.as_ref().map_or(0, |old| put_bytes(name_len, old.parts.len()));
        old
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<StoredContent>> {
        let old = self.contents.remove(name)?;
        self.marks -= usize::from(is_mark(name));
        self.record_bytes -= put_bytes(name.len(), old.parts.len());
        debug_assert!(
            !self.contents.is_empty() || (self.marks, self.record_bytes) == (0, 0),
            "the counts fit the names"
        );
        Some(old)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<StoredContent>> {
        self.contents.get(name)
    }

    /// Contents, without marks.
    pub(crate) fn len(&self) -> usize {
        self.contents.len() - self.marks
    }

    pub(crate) const fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Contents, without marks.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (&str, &Arc<StoredContent>)> {
        self.iter().filter(|(name, _)| !is_mark(name))
    }

    /// The folders with a mark.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &str> {
        self.contents.keys().filter_map(|name| name.strip_suffix('/'))
    }

    /// All names with this prefix, marks too.
    pub(crate) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.contents.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        names.map(|(name, _)| &**name).take_while(move |name| name.starts_with(prefix))
    }

    /// Contents and marks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<StoredContent>)> {
        self.contents.iter().map(|(name, content)| (&**name, content))
    }

    /// True if some content lies in the folder `name`, or its mark is there.
    pub(crate) fn is_folder(&self, name: &str) -> bool {
        name.is_empty() || self.after(&format!("{name}/")).is_some()
    }

    /// True if a part of `name` before a `/` is a content itself.
    pub(crate) fn lies_below_content(&self, name: &str) -> bool {
        name.match_indices('/').any(|(end, _)| self.contents.contains_key(&name[..end]))
    }

    /// Names in the folder, in their order: the empty name is the volume itself. Each folder in it costs one search.
    pub(crate) fn list(&self, folder: &str) -> Vec<ListedName<'_>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.page(&prefix, &prefix, usize::MAX).0
    }

    /// At most `count` names under `prefix`, from the name `next` on, and the name from which the page after it begins.
    pub(crate) fn page(&self, prefix: &str, next: &str, count: usize) -> (Vec<ListedName<'_>>, String) {
        let (mut listed, mut next) = (Vec::new(), next.to_owned());
        while let Some((name, content)) = self.from(&next, prefix).filter(|_| listed.len() < count) {
            let rest = &name[prefix.len()..];
            if let Some((below, _)) = rest.split_once('/') {
                listed.push(ListedName::Folder(below));
                // `0` follows `/`: the first name behind everything in that folder.
                next = format!("{prefix}{below}0");
            } else if rest.is_empty() {
                next = format!("{name}\0");
            } else {
                listed.push(ListedName::Content(rest, content));
                next = format!("{name}\0");
            }
            debug_assert!(name < next.as_str(), "each name is listed once");
        }
        (listed, next)
    }

    /// The first content behind `name`.
    pub(crate) fn behind(&self, name: &str) -> Option<(&str, &Arc<StoredContent>)> {
        self.beyond(name, "")
    }

    fn after(&self, prefix: &str) -> Option<(&str, &Arc<StoredContent>)> {
        self.from(prefix, prefix)
    }

    fn from(&self, name: &str, prefix: &str) -> Option<(&str, &Arc<StoredContent>)> {
        self.next((Bound::Included(name), Bound::Unbounded), prefix)
    }

    fn beyond(&self, name: &str, prefix: &str) -> Option<(&str, &Arc<StoredContent>)> {
        self.next((Bound::Excluded(name), Bound::Unbounded), prefix)
    }

    fn next(&self, range: (Bound<&str>, Bound<&str>), prefix: &str) -> Option<(&str, &Arc<StoredContent>)> {
        let (name, content) = self.contents.range::<str, _>(range).next()?;
        name.starts_with(prefix).then_some((&**name, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberId;
    use crate::content::{StoredPart, UnitPlace};

    fn content() -> Arc<StoredContent> {
        Arc::new(StoredContent { content: 1, generation: 1, length: 0, modified: 0, parts: Box::new([]) })
    }

    #[test]
    fn units_that_follow_each_other_on_their_disk_are_one_run() {
        let runs = |places: &[(u8, u32)]| {
            let part = |&(member, unit): &(u8, u32)| StoredPart {
                digest: 0,
                first: UnitPlace { member: MemberId(member), unit },
                second: None,
            };
            StoredContent { parts: places.iter().map(part).collect(), ..(*content()).clone() }.runs()
        };
        assert_eq!((runs(&[]), runs(&[(0, 7), (0, 8), (0, 9)])), (0, 1));
        assert_eq!((runs(&[(0, 7), (0, 9), (0, 8)]), runs(&[(0, u32::MAX), (0, 0)])), (3, 2));
        assert_eq!(runs(&[(0, 7), (1, 3), (0, 8), (1, 5)]), 3, "a stripe has one on each disk");
    }

    #[test]
    fn folders_are_the_names_before_a_slash() {
        let mut catalogue = Catalogue::default();
        for name in ["a", "films/old/x", "films/old/y", "films/new", "films-2/z"] {
            catalogue.insert(name.into(), content());
        }
        let names = |folder: &str| -> Vec<String> {
            let listed = catalogue.list(folder);
            let name = |one: &ListedName| match one {
                ListedName::Folder(name) => format!("{name}/"),
                ListedName::Content(name, _) => (*name).to_owned(),
            };
            listed.iter().map(name).collect()
        };
        assert_eq!(names(""), ["a", "films-2/", "films/"]);
        assert_eq!(names("films"), ["new", "old/"]);
        assert_eq!(names("films/old"), ["x", "y"]);
        assert!(names("nothing").is_empty());
        let (mut paged, mut next) = (Vec::new(), String::new());
        loop {
            let (page, after) = catalogue.page("", &next, 2);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
            next = after;
        }
        assert_eq!(paged, catalogue.list(""), "in pages as at once");
        assert!(catalogue.is_folder("films/old") && !catalogue.is_folder("film") && !catalogue.is_folder("a"));
        assert!(catalogue.lies_below_content("a/b") && !catalogue.lies_below_content("films/a"));
    }

    #[test]
    fn the_bytes_of_a_checkpoint_are_known() {
        let mut catalogue = Catalogue::default();
        catalogue.insert("a".into(), content());
        catalogue.insert("b".into(), content());
        catalogue.insert("b".into(), content());
        let mut bytes = Vec::new();
        catalogue.iter().for_each(|(name, content)| crate::record::put(name, content, &mut bytes));
        assert_eq!(catalogue.record_bytes(), bytes.len());
        catalogue.remove("a");
        catalogue.remove("b");
        assert_eq!(catalogue.record_bytes(), 0);
    }
}
