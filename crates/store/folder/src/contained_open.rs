//! Opening beneath a root: no path and no link on it leads to a file outside the root.
//!
//! Promise: relative links that stay inside the root are followed, all others are refused (`EXDEV`), and so are those by way of a hidden
//! name where hidden names are not served: the served files do not depend on the way to them. The kernel does it (`openat2`, since Linux
//! 5.6); where it cannot (older, or a container that forbids the call), or a link has to be looked at, a walk by components does.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

use store::is_hidden;

/// Links followed on one path at most, as in the kernel.
const LINKS_MAX: usize = 40;

/// Attempts while another process renames directories on the path (`openat2` then answers EAGAIN).
const ATTEMPTS_MAX: usize = 16;

/// Names that a link may lead through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkTargets {
    /// Any.
    All,
    /// Those that are not hidden ([`crate::ContentPath::is_hidden`]).
    Shown,
}

/// Opens `path`, relative to `root`, without leaving it.
pub(crate) fn open_beneath(
    root: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    targets: LinkTargets,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let links = match targets {
        LinkTargets::All => ResolveFlags::NO_MAGICLINKS,
        LinkTargets::Shown => ResolveFlags::NO_SYMLINKS,
    };
    for _ in 0..ATTEMPTS_MAX {
        match openat2(root, path, flags, Mode::empty(), ResolveFlags::BENEATH | links) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM) => return walk_beneath(root, path, flags, targets),
            Err(Errno::LOOP) if targets == LinkTargets::Shown => return walk_beneath(root, path, flags, targets),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens `path`, relative to `folder`, through real folders only: a link anywhere on it is refused.
pub(crate) fn open_real(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 0..ATTEMPTS_MAX {
        match openat2(folder, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM) => return open_real_by_components(folder, path, flags),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

fn open_real_by_components(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let handle = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(folder, ".", handle, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let flags = if components.peek().is_some() { handle } else { flags };
        at = match component {
            Component::Normal(name) => openat(&at, name, flags, Mode::empty())?,
            Component::CurDir => openat(&at, ".", flags, Mode::empty())?,
            _ => return Err(Errno::XDEV),
        };
    }
    Ok(at)
}

/// As [`open_beneath`], one component at a time, each opened without following links.
fn walk_beneath(root: BorrowedFd<'_>, path: &str, flags: OFlags, targets: LinkTargets) -> Result<OwnedFd, Errno> {
    let handle = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut stack = vec![openat(root, ".", handle | OFlags::DIRECTORY, Mode::empty())?];
    let mut todo: VecDeque<OsString> = path.split('/').map(OsString::from).collect();
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        let top = stack.last().expect("the root is never popped").as_fd();
        match name.as_bytes() {
            b"" | b"." => continue,
            b".." => {
                if stack.len() == 1 {
                    return Err(Errno::XDEV);
                }
                stack.pop();
                continue;
            }
            _ => {}
        }
        let next = openat(top, name.as_os_str(), handle, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&next)?.st_mode) != FileType::Symlink {
            stack.push(next);
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        let target = OsString::from_vec(readlinkat(top, name.as_os_str(), Vec::new())?.into_bytes());
        if target.as_bytes().starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        for part in target.as_bytes().split(|byte| *byte == b'/').rev() {
            let is_way = matches!(part, b"." | b"..");
            if targets == LinkTargets::Shown && !is_way && is_hidden(&String::from_utf8_lossy(part)) {
                return Err(Errno::XDEV);
            }
            todo.push_front(OsStr::from_bytes(part).to_owned());
        }
    }
    reopen(stack.last().expect("the root is never popped").as_fd(), flags)
}

/// Turns a handle (`O_PATH`) into an open file, by way of `/proc`: by name it could have become a link meanwhile.
pub(crate) fn reopen(handle: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(format!("/proc/self/fd/{}", handle.as_raw_fd()), flags - OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn fixture() -> (tempfile::TempDir, OwnedFd) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/in"), "inside").unwrap();
        fs::write(outer.path().join("out"), "outside").unwrap();
        symlink("b/in", root.join("a/fine")).unwrap();
        symlink("../a/b", root.join("a/also")).unwrap();
        symlink("../../out", root.join("a/up")).unwrap();
        symlink(outer.path().join("out"), root.join("absolute")).unwrap();
        symlink("/proc/self/root/etc", root.join("magic")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let fd = rustix::fs::open(&root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        (outer, fd)
    }

    type Opener = fn(BorrowedFd<'_>, &str, OFlags) -> Result<OwnedFd, Errno>;
    const EACH: [Opener; 4] = [
        |root, path, flags| open_beneath(root, path, flags, LinkTargets::All),
        |root, path, flags| walk_beneath(root, path, flags, LinkTargets::All),
        |root, path, flags| open_beneath(root, path, flags, LinkTargets::Shown),
        |root, path, flags| walk_beneath(root, path, flags, LinkTargets::Shown),
    ];

    #[test]
    fn links_inside_are_followed_and_out_are_not() {
        let (_outer, root) = fixture();
        for open in EACH {
            for path in ["a/b/in", "a/fine", "a/also/in", "a/../a/b/in"] {
                let file = open(root.as_fd(), path, OFlags::RDONLY).unwrap();
                let mut text = [0; 16];
                let length = rustix::io::read(&file, &mut text).unwrap();
                assert_eq!(&text[..length], b"inside", "{path}");
            }
            for path in ["a/up", "absolute", "magic/passwd", "../out", "a/../../out", "/etc/passwd"] {
                let result = open(root.as_fd(), path, OFlags::RDONLY);
                assert!(matches!(result, Err(Errno::XDEV | Errno::NOENT)), "{path}: {result:?}");
            }
            assert_eq!(open(root.as_fd(), "loop", OFlags::RDONLY).unwrap_err(), Errno::LOOP);
            assert_eq!(open(root.as_fd(), "a/none", OFlags::RDONLY).unwrap_err(), Errno::NOENT);
            assert_eq!(open(root.as_fd(), "a/b/in/x", OFlags::RDONLY).unwrap_err(), Errno::NOTDIR);
        }
    }

    #[test]
    fn a_link_to_a_hidden_name_leads_nowhere_unless_those_are_served() {
        let (outer, root) = fixture();
        let at = |name: &str| outer.path().join("root").join(name);
        fs::create_dir(at(".hid")).unwrap();
        fs::write(at(".hid/in"), "inside").unwrap();
        symlink(".hid", at("folder")).unwrap();
        symlink("./a/../.hid/in", at("file")).unwrap();
        symlink("folder/in", at("chain")).unwrap();
        for (nth, open) in EACH.iter().enumerate() {
            for path in ["folder", "folder/in", "file", "chain"] {
                let opened = open(root.as_fd(), path, OFlags::PATH);
                if nth < 2 { assert!(opened.is_ok(), "{path}") } else { assert_eq!(opened.unwrap_err(), Errno::XDEV) }
            }
        }
    }

    #[test]
    fn a_real_path_has_no_link_on_it() {
        let (_outer, root) = fixture();
        type RealOpener = fn(BorrowedFd<'_>, &Path, OFlags) -> Result<OwnedFd, Errno>;
        let by_components: RealOpener =
            |folder, path, flags| open_real_by_components(folder, path, flags | OFlags::NOFOLLOW);
        for open in [open_real, by_components] {
            for path in ["a/b/in", "a/b", "."] {
                assert!(open(root.as_fd(), path.as_ref(), OFlags::RDONLY).is_ok(), "{path}");
            }
            for path in ["a/fine", "a/also/in", "a/also", "../out", "absolute", "loop", "/etc/passwd"] {
                assert!(open(root.as_fd(), path.as_ref(), OFlags::RDONLY).is_err(), "{path}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Every opened file is below the root, for any path.
        #[test]
        fn nothing_outside_is_opened(parts in prop::collection::vec(
            prop::sample::select(vec!["a", "b", "in", "..", ".", "also", "fine", "up", "absolute", "magic", "out", "root"]), 1..8)) {
            let (outer, root) = fixture();
            let below = fs::canonicalize(outer.path().join("root")).unwrap();
            for open in EACH {
                if let Ok(file) = open(root.as_fd(), &parts.join("/"), OFlags::RDONLY) {
                    let at = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
                    prop_assert!(at.starts_with(&below), "{parts:?} opened {at:?}");
                }
            }
        }
    }
}
