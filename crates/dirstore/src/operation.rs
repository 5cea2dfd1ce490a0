//! What a disk's thread can be asked to do.
//!
//! Promise: plain messages; each that has an answer carries where it goes. Not here: doing it (`worker`).

use tokio::sync::oneshot;
use units::UploadId;

use crate::upload::{Begun, UploadTerms};
use crate::worker::Chunk;
use crate::{ContentPath, Entry, Opened, Precondition, Published, StoreError, Want};

/// Where an answer goes.
pub(crate) type ReplyTo<T> = oneshot::Sender<Result<T, StoreError>>;

/// One thing to do. `root` is the number of a folder among those on the disk.
#[derive(Debug)]
pub(crate) enum Operation {
    /// What a path names.
    LookUp { root: usize, path: ContentPath, reply: ReplyTo<Entry> },
    /// Open a content for reading.
    Open { root: usize, path: ContentPath, want: Want, reply: ReplyTo<Opened> },
    /// The names in a directory.
    Names { root: usize, path: ContentPath, reply: ReplyTo<Vec<String>> },
    /// What these names in a directory are.
    Entries { root: usize, path: ContentPath, names: Vec<String>, reply: ReplyTo<Vec<Entry>> },
    /// Bytes free in the file system of a directory.
    Space { root: usize, path: ContentPath, reply: ReplyTo<u64> },
    /// Remove a content; answered when that is durable.
    Delete { root: usize, path: ContentPath, precondition: Precondition, reply: ReplyTo<()> },
    /// Make ready for an upload.
    Begin { root: usize, path: ContentPath, terms: UploadTerms, reply: ReplyTo<Begun> },
    /// A full chunk of an upload has come.
    Append { upload: UploadId, chunk: Chunk },
    /// All of an upload has come; answered when it is durable.
    Finish { upload: UploadId, last: Option<Chunk>, reply: ReplyTo<Published> },
}
