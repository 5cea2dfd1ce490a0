//! Watch on writes to a file, which distinguishes them from changes of its times: inotify tells these apart, `fstat` does not.
//!
//! Promise: a look is one read of a queue, and waits for nothing. Where an event may have been missed (no room for a watch,
//! events lost), the watch gives no counts of that file any more. Not here: the consequences of a change
//! (`content::watched`).

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use content::watched::{ChangeCounter, Changes, WatchedContent};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::version_check;

/// Room for the events taken in one read; one of a file takes 16 bytes.
const EVENTS_BYTES: usize = 4096;

/// Watches files that are open for reading.
#[derive(Debug)]
pub struct WriteWatcher {
    inotify: OwnedFd,
    files: Mutex<HashMap<i32, WatchedFile>>,
}

/// The counts of one file, shared by all its readers.
#[derive(Debug, Default)]
struct WatchedFile {
    readers: usize,
    changes: Changes,
}

/// One reader's part in the watch of a file.
#[derive(Debug)]
struct WriteWatch {
    watcher: Arc<WriteWatcher>,
    descriptor: i32,
}

impl WriteWatcher {
    /// A watcher without a file yet.
    ///
    /// # Errors
    /// The kernel's: it limits the inotify instances of a user (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<Arc<Self>> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Arc::new(Self { inotify, files: Mutex::default() }))
    }

    /// Notes a file as it is now, to detect later changes; by its time alone if there is no room for a watch.
    ///
    /// # Errors
    /// The error that the kernel gave.
    pub fn watch(self: &Arc<Self>, file: BorrowedFd<'_>) -> io::Result<WatchedContent> {
        // Before the first look at the file: a change between the two is seen by both.
        let counter = self.count(file);
        let watched = version_check::watch(file)?;
        Ok(match counter {
            Ok((counter, begun)) => watched.counted_by(Box::new(counter), begun),
            Err(_) => watched,
        })
    }

    /// Counts on from the counts that other readers of the file already have.
    fn count(self: &Arc<Self>, file: BorrowedFd<'_>) -> io::Result<(WriteWatch, Changes)> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut files = self.take_in();
        let descriptor = inotify::add_watch(&self.inotify, path, WatchFlags::MODIFY | WatchFlags::ATTRIB)?;
        let file = files.entry(descriptor).or_default();
        file.readers += 1;
        Ok((WriteWatch { watcher: Arc::clone(self), descriptor }, file.changes))
    }

    /// Takes in all queued events and returns the files.
    fn take_in(&self) -> MutexGuard<'_, HashMap<i32, WatchedFile>> {
        let mut files = self.lock();
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = Reader::new(self.inotify.as_fd(), &mut buffer);
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                // The kernel gives no watch number twice, so no reader takes a later watch for its own.
                for (descriptor, _) in files.drain() {
                    let _ = inotify::remove_watch(&self.inotify, descriptor);
                }
            } else if let Some(file) = files.get_mut(&event.wd()) {
                file.changes.writes += u64::from(event.events().contains(ReadFlags::MODIFY));
                file.changes.settings += u64::from(event.events().contains(ReadFlags::ATTRIB));
            }
        }
        files
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, WatchedFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeCounter for WriteWatch {
    fn changes(&self) -> Option<Changes> {
        self.watcher.take_in().get(&self.descriptor).map(|file| file.changes)
    }
}

impl Drop for WriteWatch {
    fn drop(&mut self) {
        let mut files = self.watcher.lock();
        let Some(file) = files.get_mut(&self.descriptor) else { return };
        file.readers -= 1;
        if file.readers == 0 {
            files.remove(&self.descriptor);
            // It may have gone with its file.
            let _ = inotify::remove_watch(&self.watcher.inotify, self.descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::io::Write;
    use std::time::SystemTime;

    use super::*;

    /// Both times: a change of one alone is reported as a write (`fsnotify_change` of the kernel).
    fn touch(file: &File) {
        let long_ago = SystemTime::UNIX_EPOCH;
        file.set_times(FileTimes::new().set_accessed(long_ago).set_modified(long_ago)).expect("it is ours");
    }

    #[test]
    fn writes_and_settings_are_counted_apart_for_all_watches() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("film");
        std::fs::write(&path, "film").expect("written");
        let (watcher, file) = (WriteWatcher::new().expect("room for one"), File::open(&path).expect("there"));
        let [one, two] = [0, 1].map(|_| watcher.count(file.as_fd()).expect("room for two").0);
        assert_eq!(one.changes(), Some(Changes::default()));
        let mut other = File::options().write(true).open(&path).expect("there");
        touch(&other);
        assert_eq!(one.changes(), Some(Changes { writes: 0, settings: 1 }));
        other.write_all(b"b").expect("written");
        assert_eq!(two.changes(), Some(Changes { writes: 1, settings: 1 }));
        let (_, begun) = watcher.count(file.as_fd()).expect("room for three");
        assert_eq!(begun, Changes { writes: 1, settings: 1 });
        drop(one);
        assert!(two.changes().is_some());
        drop(two);
        assert!(watcher.lock().is_empty());
    }

    #[test]
    fn lost_events_leave_the_changes_unknown() {
        let queue: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
            .expect("inotify is there")
            .trim()
            .parse()
            .expect("a number");
        let folder = tempfile::tempdir().expect("a folder");
        let paths = [0, 1].map(|name| folder.path().join(name.to_string()));
        let watcher = WriteWatcher::new().expect("room for one");
        let watches = paths.each_ref().map(|path| {
            std::fs::write(path, "film").expect("written");
            watcher.count(File::open(path).expect("there").as_fd()).expect("room").0
        });
        // Equal events one after another count as one, so two files take turns.
        let files = paths.each_ref().map(|path| File::open(path).expect("there"));
        for turn in 0..=queue {
            touch(&files[turn % 2]);
        }
        assert_eq!(watches.each_ref().map(|watch| watch.changes()), [None, None]);
    }
}
