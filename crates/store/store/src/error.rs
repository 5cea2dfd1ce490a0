//! Errors of the store. `http` has the one table of status codes.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use storage::uploads::UploadFailure;
use units::ByteCount;

use crate::path::COMPONENTS_MAX;

/// Reason for which the store refused or failed an operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No such content or directory.
    #[error("not found")]
    NotFound,
    /// The directory that a content was to be put into is gone, or another one is in its place now.
    #[error("the parent directory is gone")]
    ParentMissing,
    /// The caller requested a content, the path names a directory.
    #[error("is a directory")]
    IsDirectory,
    /// A folder that was to be removed holds something.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The caller requested a directory, or the path needs one, and there is another item.
    #[error("not a directory")]
    NotADirectory,
    /// On the way to a name that was to be stored lies this content.
    #[error("`{0}` is a content, so nothing can lie below it")]
    BelowContent(Arc<str>),
    /// Something of that name exists.
    #[error("exists already")]
    Exists,
    /// A precondition (`If-Match`, `If-None-Match: *`) does not hold.
    #[error("the precondition does not hold")]
    PreconditionFailed,
    /// The disk is full, as the system found amid the work; nothing was left behind.
    #[error("no space left on the disk")]
    NoSpace,
    /// A disk or a volume has too little room for it; nothing was left behind.
    #[error("{0}")]
    Full(Arc<FullPlace>),
    /// The file system is mounted read-only, or became so when its disk erred.
    #[error("the file system is read-only")]
    ReadOnly,
    /// It is neither served nor changed.
    #[error("{0}")]
    Forbidden(ForbiddenBy),
    /// A disk of a volume is not there, or was taken out, and no other disk has the bytes to be read.
    #[error("{0}, and its contents have no copy elsewhere")]
    PartAway(Arc<AwayDisk>),
    /// A disk of a volume is not there, was taken out, or failed, and the volume takes no changes without it.
    #[error("{0}: the volume takes no changes until the server is started again with this disk")]
    VolumeReadOnly(Arc<AwayDisk>),
    /// The disk does not answer, or the requested bytes cannot be read from it or written to it.
    #[error("{0} errs or does not answer")]
    DiskFailing(Arc<str>),
    /// The disk fell silent or erred while a change of a name was made durable: it may have been made or not.
    #[error("{0} fell silent or erred while this was made durable: it may be so or not")]
    Unsettled(Arc<str>),
    /// The folder it lies in, or may lie in, is not served for now.
    #[error("{0}")]
    RootAway(RootAway),
    /// A queue or a table is full; try again later.
    #[error("too much is going on; try again later")]
    Busy,
    /// The uploads under way have all the memory there is for them; try again later.
    #[error("as many uploads are under way as there is memory for; try again later")]
    UploadMemory,
    /// The buffers for recordings are all reserved: the MiB needed, and those free.
    #[error("a recording at this rate needs {needed} MiB of buffers, and {free} MiB are free")]
    NoBuffers {
        /// For this recording, in MiB.
        needed: usize,
        /// Free, in MiB.
        free: usize,
    },
    /// More names than are remembered at once.
    #[error("more than {0} names: name a folder with fewer, or read this one in parts")]
    TooManyNames(usize),
    /// Folders lie in each other more deeply than a path can name.
    #[error("folders lie in each other more than {COMPONENTS_MAX} deep: those below are passed over")]
    TooDeep,
    /// A name on the path is longer than the file system allows.
    #[error("a name is too long")]
    NameTooLong,
    /// More bytes were appended than the upload's length says.
    #[error("the upload is longer than announced")]
    TooLong,
    /// Fewer bytes were appended than the upload's length says.
    #[error("the upload is shorter than announced")]
    TooShort,
    /// The store has been shut down.
    #[error("the store is shut down")]
    Closed,
    /// Anything else the system says.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
}

/// Reason for which something is neither served nor changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenBy {
    /// Permission bits, an access control list, or an attribute of the file or folder.
    #[error("the file system does not permit it to the server's user")]
    Permission,
    /// A link.
    #[error("a link on the path leads out of the served folder or to a hidden name, or begins with `/`")]
    Link,
    /// The name, or one above it.
    #[error("the name is hidden, or none that an address can have")]
    Name,
    /// A FIFO, socket or device.
    #[error("it is neither a file nor a folder")]
    Special,
}

/// A place without room for an upload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} has no room for it: {free} are left")]
pub struct FullPlace {
    /// The disk, by a folder on it, or the volume by its name.
    pub place: String,
    /// The room that is left.
    pub free: ByteCount,
}

/// A disk that a volume is without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the disk {disk} of the volume `{volume}` is {state}")]
pub struct AwayDisk {
    /// The volume's name.
    pub volume: String,
    /// As the disk was named last, or its number.
    pub disk: String,
    /// `missing`, `out` of those that are used, or `failed`.
    pub state: &'static str,
}

/// Reason for which a root is not served for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RootAway {
    /// The path leads to no folder that can be opened.
    #[error("the served folder is not there (removed, or not to be opened); it is served again when it is back")]
    Missing,
    /// No file system is mounted at a folder that was a mount.
    #[error("nothing is mounted at the served folder; it is served again when its file system is")]
    NotMounted,
    /// The path leads to another disk than at the start.
    #[error(
        "another disk was mounted at the served folder since the start; it is served as soon as nothing is streamed or uploaded"
    )]
    OtherDisk,
}

impl From<Errno> for StoreError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::NOTDIR => Self::NotADirectory,
            Errno::ISDIR => Self::IsDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::EXIST => Self::Exists,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::NoSpace,
            Errno::ROFS => Self::ReadOnly,
            Errno::ACCESS | Errno::PERM => Self::Forbidden(ForbiddenBy::Permission),
            // XDEV is openat2's answer to a path that leaves the root; LOOP to a chain of links without end or a magic one.
            Errno::XDEV | Errno::LOOP => Self::Forbidden(ForbiddenBy::Link),
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            other => Self::Io(Arc::new(other.into())),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => Self::from(errno),
            None => Self::Io(Arc::new(error)),
        }
    }
}

impl StoreError {
    /// True for an error of the drive, or of a file system that lost blocks it needs.
    pub(crate) fn is_of_drive(&self) -> bool {
        let Self::Io(cause) = self else { return false };
        // UCLEAN and BADMSG are the words of ext4 and xfs for broken data on the disk, NODEV and NXIO those of a drive that is gone.
        let of_drive = [Errno::IO, Errno::UCLEAN, Errno::BADMSG, Errno::NODEV, Errno::NXIO];
        Errno::from_io_error(cause).is_some_and(|errno| of_drive.contains(&errno))
    }

    /// True where there was no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::NoSpace | Self::Full(_))
    }

    /// The failure as the life of an upload and the disk's schedule see it: a full or read-only file system is no disk that errs.
    pub fn trouble(&self) -> UploadFailure {
        match self {
            _ if self.is_full() => UploadFailure::Full,
            Self::Io(_) => UploadFailure::Disk,
            _ => UploadFailure::Other,
        }
    }

    /// True where nothing can be written, but another root may take it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::VolumeReadOnly(_))
    }

    /// True where a root did not answer: it may have the name or not.
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::DiskFailing(_) | Self::RootAway(_))
    }

    /// True where another root may still have a name that this one lacks.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound | Self::NotADirectory)
    }
}
