//! An open content, and the checksums of its blocks.
//!
//! Not here: the places of its bytes (`layout`), changes of its file (`watched`).

use units::{ContentVersion, DiskId};

use crate::layout::{ContentFile, ContentLayout};
use crate::watched::WatchedContent;

/// An open content, and the places of its bytes. Shared by all its streams; closed when the last lets go.
#[derive(Debug)]
pub struct Content {
    /// Unique to this version of this content while the process lives; the key under which blocks are shared.
    pub version: ContentVersion,
    /// Bytes.
    pub size: u64,
    /// Places of its bytes.
    pub layout: ContentLayout,
    /// Watch on its first file, where other programs may write to it: the data plane checks it after each read.
    pub watched: Option<WatchedContent>,
    /// The checksums that each read is verified by, where the store has some.
    pub checksums: Option<Box<dyn BlockChecksums>>,
}

/// A content that was just stored, and all its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshContent {
    /// As [`Content::version`] when it is opened.
    pub version: ContentVersion,
    /// Disk of the content.
    pub disk: DiskId,
    /// At most [`STORED_BYTES_MAX`].
    pub bytes: Vec<u8>,
    /// It is media with a rate of its own, so it is read at that rate.
    pub has_rate: bool,
}

/// A longer content is read from its disk: copying this number of bytes takes 2 ms, of the 6 ms of a step of the wheel.
pub const STORED_BYTES_MAX: usize = 8 << 20;

/// The checksums of a content, one for each 64 KiB.
pub trait BlockChecksums: std::fmt::Debug + Send + Sync {
    /// True if `bytes` are those of the content from `offset` on. They begin at a multiple of 64 KiB and end at another or
    /// with the content.
    fn verify(&self, offset: u64, bytes: &[u8]) -> bool;

    /// Reports a copy of the bytes at `offset` that is wrong or cannot be read, on a disk that is good otherwise: the store may
    /// write it anew from another copy. The data plane calls it: it must not block, and not allocate.
    fn copy_failed(&self, offset: u64);
}

impl Content {
    /// The disk on which its first copy begins.
    #[must_use]
    pub fn disk(&self) -> DiskId {
        self.layout.first_disk()
    }

    /// Its first file: the only one of a file in a folder.
    #[must_use]
    pub fn file(&self) -> &ContentFile {
        &self.layout.files()[0]
    }
}
