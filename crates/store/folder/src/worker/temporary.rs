//! A file without a name, or with a hidden one, and how it gets its own.
//!
//! Promise: dropped before it is published, nothing of it is left; a crash leaves at most hidden names, which the next
//! run's first look through the folders removes (`chores`). A recoverable file has a hidden name from the start, which
//! contains its own one. It stays when it is dropped, and the next run gives it its own name. Works without `O_TMPFILE`
//! (NFS, FUSE) and without `RENAME_NOREPLACE`, there with a hidden name.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use kernel::fiemap;
use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, XattrFlags};
use rustix::fs::{
    fchmod, fchown, flock, fsetxattr, fstat, ftruncate, getxattr, linkat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use store::hidden::next_hidden_name;

use store::COMPONENT_BYTES_MAX;
use units::limits;

/// The umask, or the default ACL of the folder, leaves the permitted bits of it.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);

/// The attribute in which Linux keeps a file's access control list, and with it the mode.
const ACL: &str = "system.posix_acl_access";
/// Longest attribute of any file system.
const ATTRIBUTE_BYTES_MAX: usize = 64 * 1024;

/// A file on its way to a name in `directory`.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: OwnedFd,
    pub(super) directory: OwnedFd,
    state: TemporaryState,
}

#[derive(Debug)]
enum TemporaryState {
    /// It has no name (`O_TMPFILE`).
    Nameless,
    /// It has a hidden one.
    Hidden(String),
    /// It has a hidden name that the next start finds after a crash.
    Recoverable(String),
    /// It has its own.
    Published,
}

impl TemporaryFile {
    /// A new, empty file in `directory`; with direct I/O if `direct`.
    pub(super) fn new(directory: OwnedFd, direct: bool) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | if direct { OFlags::DIRECT } else { OFlags::empty() };
        match openat(&directory, ".", flags | OFlags::TMPFILE, MODE) {
            Ok(file) => Ok(Self { file, directory, state: TemporaryState::Nameless }),
            // Errors of file systems and old kernels without O_TMPFILE.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                let hidden = next_hidden_name(None);
                let file = openat(&directory, hidden.as_str(), flags | OFlags::CREATE | OFlags::EXCL, MODE)?;
                Ok(Self { file, directory, state: TemporaryState::Hidden(hidden) })
            }
            Err(error) => Err(error),
        }
    }

    /// The same for a file that the next run is to find if this process ends before it has given it its `name`. If the
    /// hidden name would be too long, it is not found.
    pub(super) fn recoverable(directory: OwnedFd, direct: bool, name: &str) -> Result<Self, Errno> {
        let hidden = next_hidden_name(Some(name));
        debug_assert!(hidden.ends_with(name), "a start finds the name in the hidden one");
        if hidden.len() > COMPONENT_BYTES_MAX {
            return Self::new(directory, direct);
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | if direct { OFlags::DIRECT } else { OFlags::empty() };
        let create = OFlags::CREATE | OFlags::EXCL;
        let file = openat(&directory, hidden.as_str(), flags | create, MODE)?;
        // Held as long as the file is open: another server on the same folder leaves it alone. Some file systems have no
        // locks; there it is only this machine's.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { file, directory, state: TemporaryState::Recoverable(hidden) })
    }

    /// The same under a given hidden name, with the bytes that an earlier upload has left there. If another upload is writing to that, or
    /// the name would be too long, the file is a new one that no start finds.
    pub(super) fn part(directory: OwnedFd, direct: bool, hidden: String) -> Result<Self, Errno> {
        if hidden.len() > COMPONENT_BYTES_MAX {
            return Self::new(directory, direct);
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | if direct { OFlags::DIRECT } else { OFlags::empty() };
        let create = OFlags::CREATE | OFlags::NOFOLLOW;
        let file = openat(&directory, hidden.as_str(), flags | create, MODE)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Self::new(directory, direct),
            _ => Ok(Self { file, directory, state: TemporaryState::Recoverable(hidden) }),
        }
    }

    /// The file that an earlier run has left under a hidden name that contains its own; `WOULDBLOCK` if a process still writes it.
    pub(super) fn left_behind(directory: OwnedFd, hidden: &str) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, hidden, flags, Mode::empty())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
            _ => Ok(Self { file, directory, state: TemporaryState::Recoverable(hidden.to_owned()) }),
        }
    }

    /// Bytes from its start that were written. Its length may be ahead of them: a file system makes the length of a file that it writes from
    /// its page cache durable before the bytes, and of two direct writes in flight the later one may be there alone.
    pub(super) fn written_bytes(&self) -> u64 {
        let length = fstat(&self.file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        let unwritten = fiemap::unwritten_from(self.file.as_fd()).unwrap_or(None);
        unwritten.map_or(length, |from| from.min(length))
    }

    /// Keeps the written bytes that an upload of `length` continues at the beginning of a chunk; returns their number.
    pub(super) fn keep_chunks(&self, length: Option<u64>) -> Result<u64, Errno> {
        let there = self.written_bytes().min(length.unwrap_or(u64::MAX));
        let kept = there / limits::CHUNK_BYTES * limits::CHUNK_BYTES;
        debug_assert!(length.is_none_or(|length| kept <= length), "bytes beyond the announced length");
        ftruncate(&self.file, kept)?;
        Ok(kept)
    }

    /// True once it has its own name.
    pub(super) const fn is_published(&self) -> bool {
        matches!(self.state, TemporaryState::Published)
    }

    /// It is not to be found again: dropped, it leaves nothing.
    pub(super) fn forget(&mut self) {
        if let TemporaryState::Recoverable(hidden) = &mut self.state {
            self.state = TemporaryState::Hidden(std::mem::take(hidden));
        }
    }

    /// Gives the file the group, mode and access control list of the file that it is to replace. Those that its file system does not
    /// have, or that this user may not give, stay as they are.
    pub(super) fn take_permissions(&self, replaced: BorrowedFd<'_>, stat: &Stat) -> Result<(), Errno> {
        let refused = |error| match error {
            Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL => Ok(()),
            error => Err(error),
        };
        if stat.st_gid != fstat(&self.file)?.st_gid {
            fchown(&self.file, None, Some(Gid::from_raw(stat.st_gid))).or_else(refused)?;
        }
        fchmod(&self.file, Mode::from_raw_mode(stat.st_mode & 0o777)).or_else(refused)?;
        let mut list = vec![0; ATTRIBUTE_BYTES_MAX];
        match getxattr(format!("/proc/self/fd/{}", replaced.as_raw_fd()), ACL, &mut list) {
            Ok(length) => fsetxattr(&self.file, ACL, &list[..length], XattrFlags::empty()).or_else(refused),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives the file its name, if that is free (else `EXIST`).
    pub(super) fn publish_new(&mut self, name: &str) -> Result<(), Errno> {
        assert_name(name);
        match &self.state {
            TemporaryState::Nameless => self.link_as(name)?,
            TemporaryState::Hidden(hidden) | TemporaryState::Recoverable(hidden) => {
                let directory = &self.directory;
                match renameat_with(directory, hidden.as_str(), directory, name, RenameFlags::NOREPLACE) {
                    // Not known to this file system: look first. Only another process could get in between.
                    Err(Errno::INVAL | Errno::NOSYS) => match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(_) => return Err(Errno::EXIST),
                        Err(Errno::NOENT) => renameat(directory, hidden.as_str(), directory, name)?,
                        Err(error) => return Err(error),
                    },
                    other => other?,
                }
            }
            TemporaryState::Published => unreachable!("a file is published once"),
        }
        self.state = TemporaryState::Published;
        Ok(())
    }

    /// Puts the file in the place of the file that has its name, in one step.
    pub(super) fn publish_over(&mut self, name: &str) -> Result<(), Errno> {
        assert_name(name);
        if matches!(self.state, TemporaryState::Nameless) {
            // A link cannot replace: first a hidden name.
            let hidden = next_hidden_name(None);
            self.link_as(&hidden)?;
            self.state = TemporaryState::Hidden(hidden);
        }
        let (TemporaryState::Hidden(hidden) | TemporaryState::Recoverable(hidden)) = &self.state else {
            unreachable!("a file is published once")
        };
        renameat(&self.directory, hidden.as_str(), &self.directory, name)?;
        self.state = TemporaryState::Published;
        Ok(())
    }

    fn link_as(&self, name: &str) -> Result<(), Errno> {
        let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, file, self.directory.as_fd(), name, AtFlags::SYMLINK_FOLLOW)
    }
}

/// Checks that a name leads nowhere else.
fn assert_name(name: &str) {
    assert!(!name.is_empty() && !name.contains('/'), "a name would lead to another folder");
    assert!(name != "." && name != "..", "a name would lead out of its folder");
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let TemporaryState::Hidden(hidden) = &self.state {
            // Nothing can be done about a failure here: the next run cleans up.
            let _ = unlinkat(&self.directory, hidden.as_str(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use storage::leftover::{Leftover, leftover};
    use store::hidden::our_run;

    use super::*;

    fn directory_of(path: &std::path::Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    fn hidden(path: &std::path::Path) -> TemporaryFile {
        let directory = directory_of(path);
        let name = next_hidden_name(None);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = openat(&directory, name.as_str(), flags, Mode::from_raw_mode(0o644)).unwrap();
        TemporaryFile { file, directory, state: TemporaryState::Hidden(name) }
    }

    fn names(path: &std::path::Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(path).unwrap().map(|item| item.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn both_ways_publish_replace_and_leave_nothing() {
        for make in [|path: &std::path::Path| TemporaryFile::new(directory_of(path), false).unwrap(), hidden] {
            let place = tempfile::tempdir().unwrap();
            drop(make(place.path()));
            assert_eq!(names(place.path()), Vec::<String>::new());

            let mut first = make(place.path());
            rustix::io::write(&first.file, b"one").unwrap();
            first.publish_new("a").unwrap();
            let mut second = make(place.path());
            rustix::io::write(&second.file, b"two").unwrap();
            assert_eq!(second.publish_new("a"), Err(Errno::EXIST));
            assert_eq!(fs::read(place.path().join("a")).unwrap(), b"one");
            second.publish_over("a").unwrap();
            drop((first, second));
            assert_eq!(fs::read(place.path().join("a")).unwrap(), b"two");
            assert_eq!(names(place.path()), ["a"]);
        }
    }

    #[test]
    fn a_recoverable_file_keeps_its_name_until_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let mut recording = TemporaryFile::recoverable(directory_of(place.path()), false, "a - b.ts").unwrap();
        rustix::io::write(&recording.file, b"one").unwrap();
        let [hidden] = &names(place.path())[..] else { panic!("one hidden name") };
        assert_eq!(leftover(hidden, "another run"), Some(Leftover::Keep("a - b.ts")));
        let busy = TemporaryFile::left_behind(directory_of(place.path()), hidden);
        assert_eq!(busy.unwrap_err(), Errno::WOULDBLOCK, "it is still written");
        recording.publish_new("a - b.ts").unwrap();
        assert_eq!(names(place.path()), ["a - b.ts"]);
        drop(TemporaryFile::recoverable(directory_of(place.path()), false, "b").unwrap());
        let left = names(place.path()).remove(0);
        let mut found = TemporaryFile::left_behind(directory_of(place.path()), &left).unwrap();
        found.forget();
        drop(found);
        assert_eq!(names(place.path()), ["a - b.ts"]);
    }

    #[test]
    fn a_file_of_this_run_is_no_leftover() {
        assert_eq!(leftover(&next_hidden_name(Some("a.ts")), our_run()), None);
    }
}
