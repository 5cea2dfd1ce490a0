//! Request for an upload, and its outcome.

use std::sync::Arc;
use std::time::SystemTime;

use content::FreshContent;
use storage::grant::{RecordingPlace, WrittenDisks};
use storage::leftover::part_name;
use units::{BitRate, Nanos, ReservationId};

use crate::buffers::BufferShare;
use crate::entry::{FileId, Precondition};
use crate::path::ContentPath;

/// An upload to be begun.
#[derive(Debug, Clone)]
pub struct UploadRequest {
    /// Its destination. Missing folders of the path are made.
    pub path: ContentPath,
    /// Bytes, if known. It is refused at once if there is no space for all of it; space is taken as it comes.
    pub length: Option<u64>,
    /// Checked at once, and again when it is published.
    pub precondition: Precondition,
    /// The way in which it is written.
    pub class: UploadClass,
    /// Outcome of the upload if it breaks off.
    pub on_break: OnBreak,
    /// Outcome of the upload if its name is another content's by the time it is published.
    pub name_taken: NameTaken,
    /// It need be durable only this time after it is visible and answered, if it is no recording and its file system can do that; else, and
    /// with none, it is durable then.
    pub durable: Option<Nanos>,
    /// The content's modification time; none: the time at which it is complete.
    pub modified: Option<SystemTime>,
    /// The memory of the recording that it continues, in another content.
    pub memory: Option<RecordingMemory>,
}

/// The memory of a recording, which its next content takes over.
#[derive(Debug, Clone)]
pub struct RecordingMemory(pub(crate) Arc<BufferShare>);

/// Outcome of an upload under the name of another content. An upload kept as far as it came ([`OnBreak::Keep`]) replaces nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameTaken {
    /// It replaces that, if its precondition holds.
    #[default]
    Replace,
    /// It gets the next name that is free ([`storage::leftover::numbered_names`]).
    Beside,
}

/// Outcome of an upload that is dropped before it is finished, or for which the disk has no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBreak {
    /// Nothing of it is left.
    #[default]
    Discard,
    /// The received bytes are published under its name. If the server dies, the next start does that.
    Keep,
    /// The written bytes stay for a week under a hidden name. An upload of the same name and with the same number, which stands for the
    /// version of the sent content, continues behind them ([`crate::Upload::begun_with`]). A volume keeps them until the server ends, or
    /// their space or a disk of them is wanted for another use.
    Resume(u64),
}

impl OnBreak {
    /// The hidden name of the bytes that an upload called `name` continues.
    pub fn part_name(self, name: &str) -> Option<String> {
        match self {
            Self::Discard | Self::Keep => None,
            Self::Resume(version) => Some(part_name(name, version)),
        }
    }
}

/// The way in which an upload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadClass {
    /// In the time that streams leave.
    BestEffort,
    /// A recording, at a rate admission has granted.
    Recording {
        /// Payload bits per second.
        rate: BitRate,
        /// Disks on which admission gave it.
        disks: WrittenDisks,
        /// The reservation from admission.
        reservation: ReservationId,
        /// Time that admission has for it.
        place: RecordingPlace,
    },
}

/// Place where an upload comes to lie.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadPlace {
    /// The folders that it may lie in, however they are named: its own, as far as it exists, and all above that.
    pub folders: Vec<FileId>,
    /// Bytes of the content that it replaces: they are free when it is stored.
    pub replaced_bytes: u64,
}

/// A content that is visible, and durable or soon so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Its name: its own, or a numbered one.
    pub path: ContentPath,
    /// Modification time of the content that it replaced.
    pub replaced: Option<SystemTime>,
    /// As [`crate::Entry::etag`].
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// It is durable this time after that; none: it is durable.
    pub durable: Option<Nanos>,
    /// All its bytes, if there are few: a live channel's viewers soon request them.
    pub stored: Option<FreshContent>,
}

impl Published {
    /// True if it replaced no other one.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.replaced.is_none()
    }
}
