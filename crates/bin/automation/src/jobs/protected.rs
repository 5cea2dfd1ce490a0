//! The contents and folders that `protected` names: they stay, under every name that leads to them.
//!
//! Promise: `*` stands for any part of a name and `?` for one character; a pattern protects each match, everything below it, and the target
//! of a link of such a name. A pattern without a match is an error (`check`). Not here: removing anything (`keep`).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use copy::pattern::is_like;
use service::MediaService;
use service::access::{Permit, ToRead};
use store::{ContentPath, Entry, FileId, StoreError, Walked, WalkedKind};

/// The patterns of one job or quota.
#[derive(Debug)]
pub(super) struct Protected {
    patterns: Vec<Pattern>,
    /// Ids of the contents and folders that the patterns lead to.
    ids: HashSet<FileId>,
    /// Path, in the walk, of the protected folder that it met last: everything below it is protected.
    below: Option<PathBuf>,
}

#[derive(Debug)]
struct Pattern {
    path: ContentPath,
    names_something: bool,
}

impl Protected {
    /// Looks up the targets of the patterns.
    ///
    /// # Errors
    /// Errors of the store: the protected contents are unknown then.
    pub(super) async fn find(service: &MediaService, patterns: &[ContentPath]) -> Result<Self, StoreError> {
        let mut found = Self { patterns: Vec::new(), ids: HashSet::new(), below: None };
        for path in patterns {
            let mut matches = vec![ContentPath::root()];
            let mut entries: Vec<Entry> = Vec::new();
            for name in path.components() {
                (matches, entries) = next_matches(service, &matches, name).await?;
            }
            found.ids.extend(entries.iter().filter_map(|entry| entry.id));
            found.patterns.push(Pattern { path: path.clone(), names_something: !matches.is_empty() });
        }
        Ok(found)
    }

    /// True if an entry that the walk through `folder` met is protected. The caller passes the entries in the walk's order.
    pub(super) fn protects(&mut self, folder: &ContentPath, walked: &Walked) -> bool {
        if self.below.as_ref().is_some_and(|below| walked.path.starts_with(below)) {
            return true;
        }
        let id = match &walked.kind {
            WalkedKind::Folder(id) => *id,
            WalkedKind::File(file) => Some(file.id()),
            WalkedKind::Other => None,
        };
        let is_known = id.is_some_and(|id| self.ids.contains(&id));
        if is_known && matches!(walked.kind, WalkedKind::Folder(_)) {
            self.below = Some(walked.path.clone());
        }
        let mut matches = is_known;
        for pattern in self.patterns.iter_mut().filter(|pattern| pattern.matches(folder, &walked.path)) {
            pattern.names_something = true;
            matches = true;
        }
        matches
    }

    /// True if the folder itself is protected.
    pub(super) fn protects_all(&self, ids: &[FileId]) -> bool {
        ids.iter().any(|id| self.ids.contains(id))
    }

    /// Fails if a pattern names nothing.
    ///
    /// # Errors
    /// The first pattern without a match.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match self.patterns.iter().find(|pattern| !pattern.names_something) {
            Some(pattern) => Err(anyhow::anyhow!(
                "protected: `{}` names nothing that is there, so nothing is removed; correct it (names are as below /media/, `*` and `?` \
                 are patterns) or leave it out",
                pattern.path.joined()
            )),
            None => Ok(()),
        }
    }
}

impl Pattern {
    /// True if the pattern matches the path of the entry at `path` in `folder`, or of a folder above it.
    fn matches(&self, folder: &ContentPath, path: &Path) -> bool {
        let mut names = folder.components().iter().map(|name| name.as_str().into());
        let mut below = path.iter().map(|name| name.to_string_lossy());
        self.path.components().iter().all(|pattern| {
            names.next().or_else(|| below.next()).is_some_and(|name: std::borrow::Cow<'_, str>| is_like(pattern, &name))
        })
    }
}

/// Paths and entries that the name of a pattern matches in each of these folders.
async fn next_matches(
    service: &MediaService,
    folders: &[ContentPath],
    name: &str,
) -> Result<(Vec<ContentPath>, Vec<Entry>), StoreError> {
    let (mut paths, mut entries) = (Vec::new(), Vec::new());
    for folder in folders {
        let path = folder.child(name).map_err(|_| StoreError::NotFound);
        let exact = match path {
            Ok(path) => {
                service.lookup(&Permit::<ToRead>::of_configuration(path.clone())).await.map(|entry| (path, entry))
            }
            Err(error) => Err(error),
        };
        match exact {
            Ok((path, entry)) => {
                paths.push(path);
                entries.push(entry);
                continue;
            }
            Err(StoreError::NotFound) if !name.contains(['*', '?']) => continue,
            Err(StoreError::NotFound) => {}
            Err(error) => return Err(error),
        }
        let listed = match service.list(&Permit::of_configuration(folder.clone())).await {
            Err(StoreError::NotFound | StoreError::NotADirectory) => continue,
            listed => listed?,
        };
        for entry in listed.entries.iter().filter(|entry| is_like(name, &entry.name)) {
            if let Ok(path) = folder.child(&entry.name) {
                paths.push(path);
                entries.push(entry.clone());
            }
        }
    }
    Ok((paths, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_protects_its_matches_and_contents_below_them() {
        let path =
            |text: &str| text.split('/').fold(ContentPath::root(), |path, name| path.child(name).expect("a name"));
        let pattern = |text: &str| Pattern { path: path(text), names_something: false };
        let rec = path("rec");
        for text in ["rec/ke*", "rec", "*/kept/a.ts", "rec/kept/*"] {
            assert!(pattern(text).matches(&rec, "kept/a.ts".as_ref()), "{text}");
        }
        for text in ["rec/kept/a.ts/b", "kept", "Rec/kept", "rec/kept ", "rec/*/b.ts"] {
            assert!(!pattern(text).matches(&rec, "kept/a.ts".as_ref()), "{text}");
        }
    }
}
