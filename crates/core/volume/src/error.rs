//! Errors in words for the operator: the cause, the loss, the next step.

use crate::FORMAT_VERSION;

/// The reason that a volume cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// A disk has no room for the journal and a few units.
    #[error("a disk of {size} bytes is too small: this volume needs {needed} bytes of each")]
    TooSmall {
        /// Bytes of the disk.
        size: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The unit is none of the sizes allowed.
    #[error("a unit of {0} bytes is not possible: choose a power of two from 64 KiB to 32 MiB")]
    UnitSize(u64),
    /// The disks have more units of this size than a journal can list.
    #[error("a journal cannot list all units of {0} bytes on these disks: choose larger ones")]
    TooManyUnits(u64),
    /// No disk, or too many.
    #[error("a volume has 1 to 32 disks, a mirror at least 2; {0} were named")]
    DiskCount(usize),
    /// The name is empty or too long.
    #[error("a volume's name has 1 to 64 bytes")]
    Name,
}

/// The reason that a disk's superblock does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// No copy can be read.
    #[error("no copy of its superblock can be read: I/O errors, or the disk is too short for one")]
    Unreadable,
    /// No copy bears the mark.
    #[error("it holds no Isocast volume")]
    NotAVolume,
    /// A newer program wrote it.
    #[error("its volume has format version {0}; this program reads {FORMAT_VERSION}: use a newer one")]
    NewerVersion(u32),
    /// No two copies agree.
    #[error("its superblock is damaged: no two of its four copies agree")]
    Damaged,
}

/// The reason that disks cannot be opened as a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeOpenError {
    /// A disk's superblock does not count.
    #[error("disk {disk}")]
    Superblock {
        /// The number among the disks given, from 0.
        disk: usize,
        /// The cause.
        #[source]
        source: SuperblockError,
    },
    /// No disk was given.
    #[error("name the disks of the volume")]
    NoDisk,
    /// A disk belongs to another volume than the first.
    #[error(
        "disk {disk} belongs to the volume `{name}`, another one than the first disk's: name the disks of one volume"
    )]
    OtherVolume {
        /// The number among the disks given, from 0.
        disk: usize,
        /// The name of its volume.
        name: String,
    },
    /// Two of the disks given are the same disk of the volume.
    #[error(
        "disks {first} and {second} are the same disk of the volume (number {member}): name each once; a copy of a disk is none of its volume"
    )]
    Doubled {
        /// The first, from 0.
        first: usize,
        /// The second.
        second: usize,
        /// Its number in the volume.
        member: u8,
    },
    /// A disk is shorter than when the volume was made.
    #[error(
        "disk {disk} has {size} bytes and had {needed} when the volume was made: it is truncated; the bytes behind are lost on it. Replace it, or make it as long as it was to read the rest"
    )]
    Truncated {
        /// The number among the disks given, from 0.
        disk: usize,
        /// Bytes now.
        size: u64,
        /// Bytes then.
        needed: u64,
    },
    /// A disk was taken out of the volume earlier.
    #[error(
        "disk {disk} (number {member} of the volume) was taken out after a failure and is out of date: leave it away, or put it in anew with `isocast volume replace`"
    )]
    Stale {
        /// The number among the disks given, from 0.
        disk: usize,
        /// Its number in the volume.
        member: u8,
    },
    /// Another disk has the place of this one by now.
    #[error(
        "disk {disk} was number {member} of the volume, and another disk has that place by now: name that one instead; or put this \
         one in anew with `isocast volume replace`"
    )]
    Replaced {
        /// The number among the disks given, from 0.
        disk: usize,
        /// The number it had in the volume.
        member: u8,
    },
    /// Two disks were each used without the other.
    #[error(
        "disks {first} and {second} were each used while the other one was away, and each has changes that the other has not: \
         decide which to keep and put the other one in anew with `isocast volume replace --force`; export the contents that only that one has first"
    )]
    Diverged {
        /// The first, from 0.
        first: usize,
        /// The second.
        second: usize,
    },
    /// A disk with the catalogue is missing, and no other has it whole.
    #[error(
        "the catalogue is on the disks {0:?} of the volume, and is on none that is there: name one of them, or make the catalogue anew with `isocast volume rebuild-catalogue`"
    )]
    CatalogueMissing(Vec<u8>),
    /// The journal is damaged where changes were acknowledged.
    #[error(
        "the catalogue is damaged ({0}), in every copy: no content is lost by that; make it anew with `isocast volume rebuild-catalogue`"
    )]
    CatalogueDamaged(&'static str),
}

impl VolumeOpenError {
    /// The disk that cannot be used, of those given, where the volume may be opened without it.
    #[must_use]
    pub const fn unusable_disk(&self) -> Option<usize> {
        match self {
            Self::Truncated { disk, .. }
            | Self::Superblock {
                disk,
                source: SuperblockError::Unreadable | SuperblockError::NotAVolume | SuperblockError::Damaged,
            } => Some(*disk),
            _ => None,
        }
    }
}

/// The reason that a change of an open volume is not possible. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// No content has this name.
    #[error("there is no content of this name")]
    NotFound,
    /// The name is a folder's.
    #[error("this name is a folder's")]
    IsFolder,
    /// The name, or a part of it, cannot be a content's.
    #[error("{0}")]
    Name(&'static str),
    /// A part of the name before a `/` is a content.
    #[error("a part of this name is a content, not a folder")]
    NotAFolder,
    /// No units are free, or not enough for the length announced.
    #[error("the volume is full")]
    Full,
    /// The catalogue would not fit into its place any more.
    #[error("the volume's catalogue is full")]
    CatalogueFull,
    /// A disk failed where no other can stand in: acknowledged contents stay readable.
    #[error("the volume takes no more changes since a disk failed")]
    ReadOnly,
    /// A disk failed that held a part of the content to publish.
    #[error("a disk failed that held a part of this content")]
    PartLost,
    /// The content is longer than a content can be.
    #[error("a content has at most 4 million units")]
    TooLong,
}

/// The reason that a folder cannot have a layout of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FolderLayoutError {
    /// Its name is not possible, or the volume takes no changes.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Two copies would be on one drive.
    #[error("a mirror needs disks on two drives or more")]
    OneDrive,
    /// Too many folders have one.
    #[error("the superblock has no room for the layout of another folder")]
    NoRoom,
}
