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
    /// The directory that should receive a content was removed or replaced.
    #[error("the parent directory is gone")]
    ParentMissing,
    /// The caller requested a content, and the path names a directory.
    #[error("is a directory")]
    IsDirectory,
    /// The folder to remove is not empty.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The caller requested a directory, or the path needs one, and the item is none.
    #[error("not a directory")]
    NotADirectory,
    /// A component of the path to store is the name of this content.
    #[error("`{0}` is a content, so there can be no name below it")]
    BelowContent(Arc<str>),
    /// An item of this name exists.
    #[error("exists already")]
    Exists,
    /// A precondition (`If-Match`, `If-None-Match: *`) does not hold.
    #[error("the precondition does not hold")]
    PreconditionFailed,
    /// The system reported a full disk during the operation; nothing was left behind.
    #[error("no space left on the disk")]
    NoSpace,
    /// A disk or a volume has too little free space for the upload; nothing was left behind.
    #[error("{0}")]
    Full(Arc<FullPlace>),
    /// The file system is mounted read-only, or the kernel remounted it read-only after a disk error.
    #[error("the file system is read-only")]
    ReadOnly,
    /// The item may be neither served nor changed.
    #[error("{0}")]
    Forbidden(ForbiddenBy),
    /// A disk of a volume is missing or was taken out, and no other disk has the requested bytes.
    #[error("{0}, and its contents have no copy elsewhere")]
    PartAway(Arc<AwayDisk>),
    /// A disk of a volume is missing, was taken out or has failed, and the volume accepts no changes without it.
    #[error("{0}: the volume takes no changes until the server is started again with this disk")]
    VolumeReadOnly(Arc<AwayDisk>),
    /// The disk does not answer, or the requested bytes cannot be read from it or written to it.
    #[error("{0} errs or does not answer")]
    DiskFailing(Arc<str>),
    /// The disk stopped answering or erred while a change of a name was made durable: the change may be durable or not.
    #[error("{0} stopped answering or erred while the change was made durable: the change may be durable or not")]
    Unsettled(Arc<str>),
    /// The root that has, or may have, the item is not served at present.
    #[error("{0}")]
    RootAway(RootAway),
    /// A queue or a table is full; try again later.
    #[error("too many operations are under way; try again later")]
    Busy,
    /// The uploads under way use all memory for uploads; try again later.
    #[error("the uploads under way use all memory for uploads; try again later")]
    UploadMemory,
    /// The buffers for recordings have too little room left.
    #[error("a recording at this rate needs {needed} MiB of buffers, and {free} MiB are free")]
    NoBuffers {
        /// Buffers that this recording needs, MiB.
        needed: usize,
        /// Free buffers, MiB.
        free: usize,
    },
    /// More names than one operation can hold in memory.
    #[error("more than {0} names: name a folder with fewer, or read this one in parts")]
    TooManyNames(usize),
    /// Folders are nested more deeply than a path can name.
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
    /// Any other error of the system.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
}

/// Reason why an item is neither served nor changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenBy {
    /// Permission bits, an access control list, or an attribute of the file or folder.
    #[error("the file system does not permit it to the server's user")]
    Permission,
    /// A symbolic link on the path.
    #[error("a link on the path leads out of the served folder or to a hidden name, or begins with `/`")]
    Link,
    /// The name, or that of a folder above it.
    #[error("the name is hidden, or cannot be written in an address")]
    Name,
    /// A FIFO, socket or device.
    #[error("it is neither a file nor a folder")]
    Special,
}

/// A disk or volume without room for an upload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} has no room for it: {free} are left")]
pub struct FullPlace {
    /// The disk, by a folder on it, or the volume by its name.
    pub place: String,
    /// The free space.
    pub free: ByteCount,
}

/// A disk that a volume lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the disk {disk} of the volume `{volume}` is {state}")]
pub struct AwayDisk {
    /// The volume's name.
    pub volume: String,
    /// The disk's last known path, or its number.
    pub disk: String,
    /// State of the disk: `missing`, `out` or `failed`.
    pub state: &'static str,
}

/// Reason why a root is not served at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RootAway {
    /// The folder at the path does not exist or cannot be opened.
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
            // openat2 answers XDEV if the path leaves the root, LOOP if its links never end or one of them is magic (as in /proc).
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
        // ext4 and XFS return UCLEAN and BADMSG for broken data on the disk; NODEV and NXIO mean that the drive is gone.
        let of_drive = [Errno::IO, Errno::UCLEAN, Errno::BADMSG, Errno::NODEV, Errno::NXIO];
        Errno::from_io_error(cause).is_some_and(|errno| of_drive.contains(&errno))
    }

    /// True if the disk or volume is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::NoSpace | Self::Full(_))
    }

    /// The error as a failure of an upload: a full or read-only file system does not count as an error of the disk.
    pub fn trouble(&self) -> UploadFailure {
        match self {
            _ if self.is_full() => UploadFailure::Full,
            Self::Io(_) => UploadFailure::Disk,
            _ => UploadFailure::Other,
        }
    }

    /// True if the root cannot be written, so that another root may take the upload.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::VolumeReadOnly(_))
    }

    /// True if a root did not answer: it may have the name or not.
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::DiskFailing(_) | Self::RootAway(_))
    }

    /// True if this root lacks the name, so that another root may have it.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound | Self::NotADirectory)
    }
}
