//! A disk of a volume: a block device, a partition or a preallocated file, read and written past the page cache where the system can.
//!
//! Promise: a disk that another program writes to is not opened, and one open for writing is this process's alone.
//! Not here: the disks of one volume (`disks`), which volume they are of (`find`).

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use content::layout::FileAccess;
use device::{Device, location_of};
use kernel::aligned::AlignedBlock;
use kernel::exclusive::{self, Purpose};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use store::buffers::{count, index};
use volume::{BLOCK_BYTES, VolumeOpenError};

/// Reason for which a volume cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum VolumeDiskError {
    /// A disk cannot be opened.
    #[error("cannot open the disk {}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is neither a device nor a file.
    #[error("{} is neither a block device nor a file: name a disk, a partition or a preallocated file", .0.display())]
    Kind(PathBuf),
    /// It was named more than once.
    #[error("{} is named twice: a volume needs each disk once", .0.display())]
    Twice(PathBuf),
    /// Another program has it.
    #[error("{} is in use: unmount it, or stop the program that uses it", .0.display())]
    InUse(PathBuf),
    /// It takes no writes.
    #[error("{} can only be read: the volume needs to write to it", .0.display())]
    ReadOnly(PathBuf),
    /// A server schedules two of the disks as one.
    #[error(
        "two of the disks are parts of {0}, which a server schedules as one: use one of them, or on a drive of several actuators \
         a partition in the range of each (`isocast disk list` tells the ranges)"
    )]
    SameDevice(String),
    /// All copies would be on one drive.
    #[error("all the disks are parts of {0}: a mirror needs two drives, for one takes all its parts along")]
    SameDrive(String),
    /// A disk of that number was not given.
    #[error("disk number {0} of the volume is missing")]
    Absent(u8),
    /// A disk that was named is not of the volume.
    #[error("{} is not of this volume", .0.display())]
    Foreign(PathBuf),
    /// The disks are no volume, or not all of one.
    #[error("cannot open the volume ({disks})")]
    Volume {
        /// The disks as they are counted in the reason.
        disks: String,
        /// The cause.
        #[source]
        source: VolumeOpenError,
    },
    /// Of the disks that were named none can be used; each with the reason.
    #[error("none of the volume's disks can be used: {0}")]
    NoneThere(String),
    /// More disks are missing than named ones cannot be used.
    #[error(
        "the disks with the numbers {0:?} of the volume are missing: name all of its disks, also one that is gone, as it was named before"
    )]
    Missing(Vec<u8>),
    /// They are older than the generation that a server has seen of the volume.
    #[error(
        "the disks that are there are out of date: the volume went on without them, on those that are missing. Put these back; or \
         remove {} to go on with what the disks had when they were taken out, and lose what came later", .0.display()
    )]
    OutOfDate(PathBuf),
    /// Its units are too small.
    #[error("the volume's units have {0} bytes; a server needs at least 1 MiB")]
    UnitSize(u64),
    /// A disk refused a write.
    #[error("cannot write to {}", path.display())]
    Write {
        /// The disk.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A disk could not make its writes durable.
    #[error("cannot flush {}: nothing since the last success counts", path.display())]
    Flush {
        /// The disk.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Bytes of one read or write, which take a buffer of as many.
const TRANSFER_BYTES: usize = 1 << 20;
/// Bytes at both ends of a disk that hold the mark of every owner.
const BLANK_BYTES: u64 = 1 << 20;

/// An open disk.
#[derive(Debug)]
pub struct OpenDisk {
    /// As it was named.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// The disk that a server schedules. A file counts as a disk of its own.
    pub device: Device,
    pub(crate) file: File,
    pub(crate) access: FileAccess,
    /// Its start on the device, in bytes.
    pub(crate) start_bytes: u64,
}

impl OpenDisk {
    /// Opens a disk: for writing it is this process's alone, which a mounted file system on it forbids.
    ///
    /// # Errors
    /// There is none, it is no disk, or is in use.
    pub fn open(path: &Path, purpose: Purpose) -> Result<Self, VolumeDiskError> {
        let failed = |source: io::Error| match source.kind() {
            _ if exclusive::is_in_use(&source) => VolumeDiskError::InUse(path.to_owned()),
            io::ErrorKind::ReadOnlyFilesystem => VolumeDiskError::ReadOnly(path.to_owned()),
            _ => VolumeDiskError::Open { path: path.to_owned(), source },
        };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        let is_device = metadata.file_type().is_block_device();
        if !is_device && !metadata.is_file() {
            return Err(VolumeDiskError::Kind(path.to_owned()));
        }
        let (file, access) = exclusive::open_disk(path, purpose).map_err(failed)?;
        let size = seek(&file, SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
        let location = location_of(if is_device { metadata.rdev() } else { metadata.dev() });
        let start_bytes = if is_device { location.start_bytes.unwrap_or(0) } else { 0 };
        let device = if is_device { location.device } else { device_of_file(path, size, &location.device) };
        Ok(Self { path: path.to_owned(), size, device, file, access, start_bytes })
    }

    /// Fills `buffer`, whose length and position are multiples of [`volume::BLOCK_BYTES`].
    ///
    /// # Errors
    /// The system's.
    pub fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        debug_assert!(
            position.is_multiple_of(BLOCK_BYTES) && buffer.len().is_multiple_of(index(BLOCK_BYTES)),
            "a direct read takes whole blocks"
        );
        let mut block = AlignedBlock::zeroed(buffer.len().min(TRANSFER_BYTES));
        for (piece, at) in buffer.chunks_mut(TRANSFER_BYTES).zip((position..).step_by(TRANSFER_BYTES)) {
            let aligned = &mut block.bytes_mut()[..piece.len()];
            self.file.read_exact_at(aligned, at)?;
            piece.copy_from_slice(aligned);
        }
        Ok(())
    }

    pub(crate) fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), VolumeDiskError> {
        assert!(position + count(bytes.len()) <= self.size, "a write beyond the disk");
        debug_assert!(
            position.is_multiple_of(BLOCK_BYTES) && bytes.len().is_multiple_of(index(BLOCK_BYTES)),
            "a direct write takes whole blocks"
        );
        let failed = |source| VolumeDiskError::Write { path: self.path.clone(), source };
        let mut pieces = bytes.chunks(TRANSFER_BYTES).zip((position..).step_by(TRANSFER_BYTES));
        pieces.try_for_each(|(piece, at)| self.file.write_all_at(AlignedBlock::new(piece).bytes(), at)).map_err(failed)
    }

    pub(crate) fn flush(&self) -> Result<(), VolumeDiskError> {
        self.file.sync_data().map_err(|source| VolumeDiskError::Flush { path: self.path.clone(), source })
    }

    /// Takes the room of a sparse file now, so that a volume does not find later that it is not there.
    ///
    /// # Errors
    /// There is no room, or the system's.
    pub fn preallocate(&self) -> io::Result<()> {
        if self.device.node.is_some() {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, self.size) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// Zeroes a mebibyte at both ends, where all that a disk may hold has its marks.
    ///
    /// # Errors
    /// The disk refuses it.
    pub fn clear(&self) -> Result<(), VolumeDiskError> {
        let whole = self.size / BLOCK_BYTES * BLOCK_BYTES;
        let zeros = vec![0; index(whole.min(BLANK_BYTES))];
        [0, whole.saturating_sub(BLANK_BYTES)].into_iter().try_for_each(|start| self.write_at(start, &zeros))?;
        self.flush()
    }

    /// True if a disk has no owner's mark.
    pub(crate) fn is_blank(&self) -> io::Result<bool> {
        let whole = self.size / BLOCK_BYTES * BLOCK_BYTES;
        let mut bytes = vec![0; index(whole.min(BLANK_BYTES))];
        for start in [0, whole.saturating_sub(BLANK_BYTES)] {
            self.read_at(start, &mut bytes)?;
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// True if two paths are one disk.
#[must_use]
pub fn is_same_disk(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// A file counts as a disk of its own, as fast as the one it lies on: other users of that disk are not seen.
fn device_of_file(path: &Path, size: u64, under: &Device) -> Device {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let drive = path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string();
    Device { name, drive, model: "file".to_owned(), rotational: under.rotational, capacity_bytes: size, node: None }
}
