//! From a temporary file to a visible name, and from a removed name to free space.
//!
//! Promise: a name goes from the old content to the new one in one step of the file system; the precondition is looked
//! at once more in the same step (a new name) or just before it, on the one thread that changes this disk (a replaced
//! one). An old content stays whole for those who read it.

use rustix::fs::fstat;
use rustix::io::Errno;
use tokio::sync::oneshot;
use units::UploadId;

use crate::entry::Stamp;
use crate::stats::DiskStats;
use crate::{Kind, Published, StoreError};

use super::Worker;
use super::temporary::TemporaryFile;
use super::upload::Job;

/// A published upload that is not durable yet.
pub(super) struct Publication {
    pub(super) target: TemporaryFile,
    reply: oneshot::Sender<Result<Published, StoreError>>,
    published: Published,
}

impl Publication {
    pub(super) fn answer(self, durable: Result<(), Errno>, stats: &DiskStats) {
        match durable {
            Ok(()) => stats.uploads_published.add(1),
            Err(_) => stats.uploads_failed.add(1),
        }
        drop(self.reply.send(durable.map(|()| self.published).map_err(StoreError::from)));
    }
}

impl Worker {
    /// Gives a complete upload its name. Nothing, if it was refused (and told) or given up.
    pub(super) fn publish(&mut self, upload: UploadId) -> Option<Publication> {
        let mut job = self.uploads.remove(&upload)?;
        let reply = job.reply.take()?;
        if reply.is_closed() {
            self.shared.stats.uploads_failed.add(1);
            return None;
        }
        match self.give_name(&mut job) {
            Ok(published) => Some(Publication { target: job.target, reply, published }),
            Err(error) => {
                self.shared.stats.uploads_failed.add(1);
                drop(reply.send(Err(error)));
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
}
