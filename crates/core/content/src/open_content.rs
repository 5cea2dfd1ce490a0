//! An open content, and the checksums of its blocks.
//!
//! Not here: the places of its bytes (`layout`), changes of its file (`watched`).

use units::{ContentVersion, DiskId};

use crate::layout::{ContentFile, ContentLayout};
use crate::watched::WatchedContent;

/// An open content and its layout. All its streams share it; it is closed when the last stream drops it.
#[derive(Debug)]
pub struct Content {
    /// Unique to this version of this content while the process lives; the key under which blocks are shared.
    pub version: ContentVersion,
    /// Size in bytes.
    pub size: u64,
    /// Layout of its bytes.
    pub layout: ContentLayout,
    /// Watch on the first file, if other programs may write to it: the data plane checks the file's version after each read.
    pub watched: Option<WatchedContent>,
    /// The checksums by which each read is verified, if the store has checksums.
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
    /// True for media with a rate of its own: it will be read at that rate.
    pub has_rate: bool,
}

/// Longest content that is put into the buffers when it is stored: copying it takes 2 ms of the 6 ms of a step of the wheel.
pub const STORED_BYTES_MAX: usize = 8 << 20;

/// The checksums of a content, one for each 64 KiB.
pub trait BlockChecksums: std::fmt::Debug + Send + Sync {
    /// True if `bytes` are those of the content from `offset` on. They begin at a multiple of 64 KiB and end at another or
    /// with the content.
    fn verify(&self, offset: u64, bytes: &[u8]) -> bool;

    /// Reports that a copy of the bytes at `offset` is wrong or unreadable, on a disk that is otherwise good: the store may
    /// rewrite it from another copy. The data plane calls this, so it must neither block nor allocate.
    fn copy_failed(&self, offset: u64);
}

impl Content {
    /// The disk on which its first copy begins.
    #[must_use]
    pub fn disk(&self) -> DiskId {
        self.layout.first_disk()
    }

    /// Its first file; a file in a folder has no other.
    #[must_use]
    pub fn file(&self) -> &ContentFile {
        &self.layout.files()[0]
    }
}
