//! From a temporary file to a visible name, and from a removed name to free space.
//!
//! Promise: a name goes from the old content to the new one in one step of the file system; the precondition is looked
//! at once more in the same step (a new name) or just before it, on the one thread that changes this disk (a replaced
//! one). An old content stays whole for those who read it.

use std::os::fd::AsFd;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;
use tokio::sync::oneshot;
use units::UploadId;

use crate::disk::Shared;
use crate::entry::Stamp;
use crate::event::StoreEvent;
use crate::root::Identity;
use crate::{ContentPath, Kind, OnBreak, Published, StoreError, beneath};

use super::Worker;
use super::temporary::TemporaryFile;
use super::upload::Job;

/// A published upload that is not durable yet.
pub(super) struct Publication {
    pub(super) target: TemporaryFile,
    /// None: its client is gone, and it is kept.
    reply: Option<oneshot::Sender<Result<Published, StoreError>>>,
    path: ContentPath,
    published: Published,
}

impl Publication {
    pub(super) fn answer(self, durable: Result<(), Errno>, shared: &Shared) {
        let stats = &shared.stats;
        match durable {
            Ok(()) => stats.uploads_published.add(1),
            Err(_) => stats.uploads_failed.add(1),
        }
        let outcome = durable.map(|()| self.published).map_err(StoreError::from);
        match self.reply {
            Some(reply) => drop(reply.send(outcome)),
            None => shared.events.tell(match outcome {
                Ok(published) => {
                    StoreEvent::RecordingKept { path: self.path, bytes: published.size, after_restart: false }
                }
                Err(why) => StoreEvent::RecordingLost { path: self.path, why },
            }),
        }
    }
}

impl Worker {
    /// Gives a complete upload its name. Nothing, if it was refused (and told) or given up.
    pub(super) fn publish(&mut self, upload: UploadId) -> Option<Publication> {
        let mut job = self.uploads.remove(&upload)?;
        let reply = job.reply.take().filter(|reply| !reply.is_closed());
        if reply.is_none() && job.on_break == OnBreak::Discard {
            self.shared.stats.uploads_failed.add(1);
            return None;
        }
        match self.give_name(&mut job) {
            Ok(published) => Some(Publication { target: job.target, reply, path: job.path, published }),
            Err(error) => {
                self.shared.stats.uploads_failed.add(1);
                job.target.forget();
                match reply {
                    Some(reply) => drop(reply.send(Err(error))),
                    None => self.shared.events.tell(StoreEvent::RecordingLost { path: job.path, why: error }),
                }
                None
            }
        }
    }

    fn give_name(&mut self, job: &mut Job) -> Result<Published, StoreError> {
        let existing = match self.find(job.root, &job.path) {
            Ok(found) if found.entry.kind == Kind::Directory => return Err(StoreError::IsDirectory),
            Ok(found) => Some(found),
            Err(error) if error.is_absence() => None,
            Err(StoreError::Forbidden) => None, // a link out of the root: it is replaced, not followed
            Err(error) => return Err(error),
        };
        if !job.precondition.holds(existing.as_ref().map(|found| found.entry.existing())) {
            return Err(StoreError::PreconditionFailed);
        }
        self.is_still_there(job)?;
        let created = existing.is_none();
        let name = job.name().to_owned();
        match job.target.publish_new(&name) {
            Ok(()) => {}
            Err(Errno::EXIST) if job.precondition.demands_absence() => {
                return Err(StoreError::PreconditionFailed);
            }
            Err(Errno::EXIST) => {
                let doomed = existing.as_ref().and_then(|found| self.prepare_removal(found));
                job.target.publish_over(&name)?;
                self.condemn(doomed);
            }
            Err(error) => return Err(error.into()),
        }
        let stamp = Stamp::of(&fstat(&job.target.file)?);
        Ok(Published { created, etag: stamp.etag(), size: stamp.size })
    }

    /// Whether the directory that an upload was begun in is still what its path leads to: a file system that was mounted
    /// over it since would hide the content.
    fn is_still_there(&mut self, job: &Job) -> Result<(), StoreError> {
        let parent = job.path.split().map(|(parent, _)| parent).unwrap_or_default();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let directory = beneath::open_beneath(self.root(job.root)?.directory.as_fd(), &parent.relative(), flags);
        match directory.and_then(|directory| Identity::of(&directory)) {
            Ok(identity) if identity == job.parent => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(StoreError::ParentMissing),
            Err(error) => Err(error.into()),
        }
    }
}
