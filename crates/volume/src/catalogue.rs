//! The catalogue: every content by its name, in memory.
//!
//! Promise: names are in order, a folder is what some name has before a `/`; the bytes a checkpoint would take are known.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::record::put_bytes;
use crate::{MemberId, NAME_BYTES_MAX};

/// A unit of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitPlace {
    /// The disk.
    pub member: MemberId,
    /// The unit on it.
    pub unit: u32,
}

/// A part of a content: what one unit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredPart {
    /// Checksum of the unit's table of checksums.
    pub digest: u32,
    /// The copy that is read in normal times.
    pub first: UnitPlace,
    /// The second copy, on a mirror.
    pub second: Option<UnitPlace>,
}

impl StoredPart {
    /// Its copies, the one to read first.
    pub fn places(&self) -> impl Iterator<Item = UnitPlace> {
        [Some(self.first), self.second].into_iter().flatten()
    }
}

/// A content of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredContent {
    /// Its number; stays when it is replaced.
    pub content: u64,
    /// The number of this version.
    pub generation: u64,
    /// Bytes.
    pub length: u64,
    /// When it was written, in nanoseconds since 1970.
    pub modified: u64,
    /// Its parts in order: all units but the last are full.
    pub parts: Box<[StoredPart]>,
}

impl StoredContent {
    /// In how many runs its first copies lie: units that follow each other on their disk are one.
    #[must_use]
    pub fn runs(&self) -> usize {
        let mut last = BTreeMap::new();
        let begins_one = |part: &&StoredPart| {
            let before = last.insert(part.first.member, part.first.unit);
            before.and_then(|unit| unit.checked_add(1)) != Some(part.first.unit)
        };
        self.parts.iter().filter(begins_one).count()
    }
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedName<'a> {
    /// A folder of this name.
    Folder(&'a str),
    /// A content of this name (the last component).
    Content(&'a str, &'a Arc<StoredContent>),
}

/// Why a content cannot have this name; `None` if it can.
#[must_use]
pub fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Some("a name has 1 to 1024 bytes");
    }
    if name.bytes().any(|byte| byte == 0) {
        return Some("a name has no zero byte");
    }
    let bad = |part: &str| part.is_empty() || part == "." || part == "..";
    name.split('/').any(bad).then_some("the parts of a name are neither empty nor `.` or `..`")
}

/// All contents.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    contents: BTreeMap<Box<str>, Arc<StoredContent>>,
    /// Bytes that all records together take.
    record_bytes: usize,
}

impl Catalogue {
    /// A catalogue of contents that are in order already, as a checkpoint holds them: much faster than one by one.
    pub(crate) fn from_ordered(contents: Vec<(Box<str>, Arc<StoredContent>)>) -> Self {
        let record_bytes = contents.iter().map(|(name, content)| put_bytes(name.len(), content.parts.len())).sum();
        Self { contents: contents.into_iter().collect(), record_bytes }
    }

    pub(crate) fn insert(&mut self, name: Box<str>, content: Arc<StoredContent>) -> Option<Arc<StoredContent>> {
        let name_len = name.len();
        self.record_bytes += put_bytes(name_len, content.parts.len());
        let old = self.contents.insert(name, content);
        self.record_bytes -= old.as_ref().map_or(0, |old| put_bytes(name_len, old.parts.len()));
        old
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<StoredContent>> {
        let old = self.contents.remove(name)?;
        self.record_bytes -= put_bytes(name.len(), old.parts.len());
        Some(old)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<StoredContent>> {
        self.contents.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.contents.len()
    }

    pub(crate) const fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<StoredContent>)> {
        self.contents.iter().map(|(name, content)| (&**name, content))
    }

    /// Whether some content lies in the folder `name`.
    pub(crate) fn is_folder(&self, name: &str) -> bool {
        name.is_empty() || self.after(&format!("{name}/")).is_some()
    }

    /// Whether a part of `name` before a `/` is a content itself.
    pub(crate) fn lies_below_content(&self, name: &str) -> bool {
        name.match_indices('/').any(|(end, _)| self.contents.contains_key(&name[..end]))
    }

    /// What the folder holds, in order of names: the empty name is the volume itself. Each folder in it costs one search.
    pub(crate) fn list(&self, folder: &str) -> Vec<ListedName<'_>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut listed = Vec::new();
        let mut next = self.after(&prefix);
        while let Some((name, content)) = next {
            let rest = &name[prefix.len()..];
            if let Some((below, _)) = rest.split_once('/') {
                listed.push(ListedName::Folder(below));
                // `0` follows `/`: the first name behind everything in that folder.
                next = self.from(&format!("{prefix}{below}0"), &prefix);
            } else {
                listed.push(ListedName::Content(rest, content));
                next = self.beyond(name, &prefix);
            }
        }
        listed
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
    fn folders_are_what_names_have_before_a_slash() {
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
