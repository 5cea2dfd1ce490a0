//! Entry of a content or a directory, and preconditions on it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use content::Content;
use rustix::fs::{FileType, Stat};
use units::DiskId;

use media::MediaRate;

/// A content or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The last component of its path; empty for the root.
    pub name: String,
    /// A content or a directory.
    pub kind: NameKind,
    /// Identity of the file or folder, under any name; of a volume's it is not known.
    pub id: Option<FileId>,
    /// In a listing: its name is a link to it.
    pub is_link: bool,
    /// Bytes; zero for a directory.
    pub size: u64,
    /// Last modification.
    pub modified: SystemTime,
    /// When a folder was made, if its file system has that.
    pub created: Option<SystemTime>,
    /// A strong entity tag with its quotes: another one for each version.
    pub etag: String,
    /// The disk it lies on (for a merged directory: that of the first root that has it).
    pub disk: DiskId,
    /// Its rate, if the index knows it.
    pub rate: Option<MediaRate>,
}

/// Kind of the item that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A content.
    File,
    /// A directory.
    Directory,
}

/// Distinguishes a file or folder from all others, under any name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Of the file system.
    pub device: u64,
    /// Within it.
    pub inode: u64,
}

impl FileId {
    /// Identity of the file or folder of this `stat`.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// An open content.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its kind, size and version.
    pub entry: Entry,
    /// The content as the data plane reads it.
    pub content: Arc<Content>,
    /// Its rate, if it was requested and found, or known.
    pub media: Option<MediaRate>,
}

/// Purpose of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The bytes.
    File,
    /// The bytes and the rate they need: the container is looked into if the index does not know it.
    FileAndRate,
}

/// A demand on the existing content before a change (RFC 9110 §13).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
    /// None.
    #[default]
    None,
    /// `If-None-Match: *`.
    MustNotExist,
    /// `If-Match`: quoted entity tags, or `*` for any.
    MustMatch(Vec<String>),
    /// `If-None-Match` with quoted entity tags, and `If-Unmodified-Since`: the existing content has none of these tags (whether they are
    /// weak does not matter), and was not modified after that second. It also holds if there is no content.
    MustNotBe {
        /// The tags.
        tags: Vec<String>,
        /// The second.
        newer_than: Option<SystemTime>,
    },
    /// Each of these.
    All(Vec<Self>),
}

/// The existing content, as a [`Precondition`] sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Existing<'a> {
    /// Quoted.
    pub etag: &'a str,
    /// As [`Entry::last_modified`].
    pub modified: Option<SystemTime>,
}

impl Precondition {
    /// True if it holds for the existing content.
    #[must_use]
    pub fn holds(&self, existing: Option<Existing<'_>>) -> bool {
        match (self, existing) {
            (Self::None, _) | (Self::MustNotExist | Self::MustNotBe { .. }, None) => true,
            (Self::MustNotExist, Some(_)) | (Self::MustMatch(_), None) => false,
            (Self::MustMatch(tags), Some(existing)) => tags.iter().any(|tag| tag == "*" || tag == existing.etag),
            (Self::MustNotBe { tags, newer_than }, Some(existing)) => {
                let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
                // HTTP dates have no parts of seconds. Without a date there is no condition (RFC 9110 §13.1.4).
                let is_newer = newer_than
                    .zip(existing.modified)
                    .is_some_and(|(limit, modified)| modified >= limit + Duration::from_secs(1));
                !is_newer && !tags.iter().any(|tag| opaque(tag) == opaque(existing.etag))
            }
            (Self::All(each), existing) => each.iter().all(|one| one.holds(existing)),
        }
    }

    /// True if the name must be free: a content found there later, whichever client names it, fails it as well.
    pub fn demands_absence(&self) -> bool {
        match self {
            Self::MustNotExist => true,
            Self::All(each) => each.iter().any(Self::demands_absence),
            Self::None | Self::MustMatch(_) | Self::MustNotBe { .. } => false,
        }
    }
}

/// Distinguishes one version of a file from another, as far as the file system can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Of the file system.
    pub device: u64,
    /// Within it.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds from 1970 to the last modification.
    pub modified_ns: i128,
    /// Nanoseconds from 1970 to the last change of anything about the file.
    pub changed_ns: i128,
}

/// The entity tag of this version of a file: with another tag it is another content.
#[must_use]
pub fn etag_of(stat: &Stat) -> String {
    Stamp::of(stat).etag()
}

impl Stamp {
    /// Of the file of this `stat`.
    pub fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: nanos(i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)),
            changed_ns: nanos(i128::from(stat.st_ctime), i128::from(stat.st_ctime_nsec)),
        }
    }

    /// Strong: of the inode, the size, and both times. Programs set the time of modification (`cp -p`, `rsync -t`, `tar`), but not
    /// the change time. A new name, link or permission changes it as well, and readers of the old tag lose their copy (decision 0055).
    pub fn etag(&self) -> String {
        format!("\"{:x}-{:x}-{:x}-{:x}\"", self.inode, self.modified_ns, self.changed_ns, self.size)
    }

    /// True if this is the same file, not written to since `before`. Its other names may have come or gone, which changes the time of
    /// the last change.
    pub fn is_as_written(&self, before: &Self) -> bool {
        *self == Self { changed_ns: self.changed_ns, ..*before }
    }

    /// The time of the last modification.
    pub fn modified(&self) -> SystemTime {
        time_of(self.modified_ns)
    }
}

/// The time of a number of nanoseconds after 1970, or before.
pub fn time_of(nanos: i128) -> SystemTime {
    let magnitude = nanos.unsigned_abs();
    let seconds = u64::try_from(magnitude / 1_000_000_000).unwrap_or(0);
    let rest = u32::try_from(magnitude % 1_000_000_000).unwrap_or(0);
    let span = Duration::new(seconds, rest);
    let time =
        if nanos >= 0 { SystemTime::UNIX_EPOCH.checked_add(span) } else { SystemTime::UNIX_EPOCH.checked_sub(span) };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The time of these seconds and nanoseconds after 1970.
#[must_use]
pub fn time_of_parts(seconds: i128, rest: i128) -> SystemTime {
    time_of(nanos(seconds, rest))
}

impl Entry {
    /// For a [`Precondition`].
    #[must_use]
    pub fn existing(&self) -> Existing<'_> {
        Existing { etag: &self.etag, modified: self.last_modified(SystemTime::now()) }
    }

    /// Adds the entry of a later root under the same name: a folder of several roots is as new as the newest of them.
    pub fn merge(&mut self, later: &Self) {
        debug_assert!(self.name == later.name, "the entry of a later root under the same name");
        if self.kind == NameKind::Directory && later.kind == NameKind::Directory {
            self.modified = self.modified.max(later.modified);
        }
    }

    /// The time of modification, where it can serve as a validator: HTTP dates begin in 1970, and one ahead of the clock must not
    /// be sent (RFC 9110 §8.8.2.1).
    #[must_use]
    pub fn last_modified(&self, now: SystemTime) -> Option<SystemTime> {
        Some(self.modified).filter(|modified| (SystemTime::UNIX_EPOCH..=now).contains(modified))
    }

    /// The entry for this `stat`; none for an item that is neither a file nor a directory (a device or a pipe is no content).
    pub fn of(name: &str, stat: &Stat, disk: DiskId, rate: Option<MediaRate>) -> Option<Self> {
        let stamp = Stamp::of(stat);
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => NameKind::File,
            FileType::Directory => NameKind::Directory,
            _ => return None,
        };
        let size = if kind == NameKind::File { stamp.size } else { 0 };
        Some(Self {
            name: name.to_owned(),
            kind,
            id: Some(FileId::of(stat)),
            is_link: false,
            size,
            modified: stamp.modified(),
            created: None,
            etag: stamp.etag(),
            disk,
            rate,
        })
    }
}

fn nanos(seconds: i128, rest: i128) -> i128 {
    seconds * 1_000_000_000 + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preconditions() {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(100_500);
        let modified = Some(modified);
        let there = Some(Existing { etag: "\"a-b-c\"", modified });
        let tag = || "\"a-b-c\"".to_owned();
        assert!(Precondition::None.holds(None) && Precondition::None.holds(there));
        assert!(Precondition::MustNotExist.holds(None) && !Precondition::MustNotExist.holds(there));
        let listed = Precondition::MustMatch(vec!["\"x\"".into(), tag()]);
        assert!(listed.holds(there) && !listed.holds(None));
        assert!(!listed.holds(Some(Existing { etag: "\"y\"", modified })));
        assert!(Precondition::MustMatch(vec!["*".into()]).holds(there));
        // A weak tag never matches strongly (RFC 9110 §8.8.3.2).
        assert!(!Precondition::MustMatch(vec!["W/\"a-b-c\"".into()]).holds(there));
        let not = |tags: Vec<String>, newer_than| Precondition::MustNotBe { tags, newer_than };
        let second = |n| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(n));
        assert!(!not(vec![tag()], None).holds(there) && !not(vec![format!("W/{}", tag())], None).holds(there));
        assert!(not(vec!["\"x\"".into()], None).holds(there) && not(vec![tag()], second(0)).holds(None));
        assert!(not(vec![], second(100)).holds(there), "within the second");
        assert!(!not(vec![], second(99)).holds(there));
        let undated = Some(Existing { etag: "\"a-b-c\"", modified: None });
        assert!(not(vec![], second(99)).holds(undated) && !not(vec![tag()], second(99)).holds(undated));
        let both = |first, second| Precondition::All(vec![first, second]);
        let (this, other) = (|| Precondition::MustMatch(vec![tag()]), || not(vec!["\"x\"".into()], None));
        assert!(both(this(), other()).holds(there) && !both(this(), other()).holds(None));
        assert!(!both(this(), not(vec![tag()], None)).holds(there));
        let never = both(Precondition::MustMatch(vec!["*".into()]), Precondition::MustNotExist);
        assert!(!never.holds(there) && !never.holds(None) && never.demands_absence());
        assert!(!both(this(), other()).demands_absence());
    }

    #[test]
    fn times_before_the_epoch_are_kept() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, modified_ns: -1_500_000_000, changed_ns: 0 };
        assert_eq!(stamp.modified(), SystemTime::UNIX_EPOCH - Duration::from_millis(1500));
    }

    #[test]
    fn any_time_of_a_file_system_makes_a_tag() {
        for seconds in [i64::MIN, i64::MAX] {
            let modified_ns = nanos(i128::from(seconds), 999_999_999);
            let stamp = Stamp { device: 1, inode: u64::MAX, size: u64::MAX, modified_ns, changed_ns: modified_ns };
            let _ = stamp.modified();
            assert!(stamp.etag().len() < 110, "{}", stamp.etag());
        }
    }

    #[test]
    fn a_time_before_1970_or_ahead_of_the_clock_is_no_validator() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let entry = |modified| Entry {
            name: String::new(),
            id: None,
            is_link: false,
            kind: NameKind::File,
            size: 1,
            modified,
            created: None,
            etag: String::new(),
            disk: DiskId(0),
            rate: None,
        };
        for told in [at(0), at(99), at(100)] {
            assert_eq!(entry(told).last_modified(at(100)), Some(told));
        }
        for untold in [SystemTime::UNIX_EPOCH - Duration::from_nanos(1), at(101)] {
            assert_eq!(entry(untold).last_modified(at(100)), None);
        }
    }
}
