//! Disks of a volume, each held for this process alone.
//!
//! Not here: which volume they are of (`find`).

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use content::layout::FileAccess;
use device::{Device, location_of};
use kernel::aligned::AlignedBlock;
use kernel::exclusive::{self, Purpose};
use rustix::fs::{SeekFrom, seek};
use volume::{ReadDisk, ReadError, VolumeOpenError};

/// Reason for which a volume cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum VolumeDiskError {
    /// A disk cannot be opened.
    #[error("cannot open the volume's disk {}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is neither a device nor a file.
    #[error("{} is neither a block device nor a file: name the disks of a volume", .0.display())]
    Kind(PathBuf),
    /// It was named more than once.
    #[error("{} is named twice: a volume needs each disk once", .0.display())]
    Twice(PathBuf),
    /// Another program has it.
    #[error("{} is in use: unmount it, or stop the program that uses it", .0.display())]
    InUse(PathBuf),
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
    /// The state that is there could not be made the volume's own.
    #[error("cannot write to the volume's journal on {}", path.display())]
    Journal {
        /// The disk.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A disk of the volume.
#[derive(Debug)]
pub(crate) struct OpenDisk {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) access: FileAccess,
    pub(crate) device: Device,
    /// Its start on the device.
    pub(crate) start_bytes: u64,
    pub(super) size: u64,
}

pub(super) struct GivenDisks(pub(super) Vec<OpenDisk>);

impl ReadDisk for GivenDisks {
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let file = &self.0.get(disk).ok_or(ReadError)?.file;
        // Direct reads need aligned memory.
        let mut block = AlignedBlock::zeroed(buffer.len());
        let aligned = &mut block.bytes_mut()[..buffer.len()];
        file.read_exact_at(aligned, position).map_err(|_| ReadError)?;
        buffer.copy_from_slice(aligned);
        Ok(())
    }
}

pub(super) fn open_disk(path: &Path) -> Result<OpenDisk, VolumeDiskError> {
    let failed = |source: io::Error| VolumeDiskError::Open { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let is_device = metadata.file_type().is_block_device();
    if !is_device && !metadata.is_file() {
        return Err(VolumeDiskError::Kind(path.to_owned()));
    }
    let (file, access) =
        exclusive::open_disk(path, Purpose::Write).map_err(|error| match exclusive::is_in_use(&error) {
            true => VolumeDiskError::InUse(path.to_owned()),
            false => failed(error),
        })?;
    let size = seek(&file, SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
    let location = location_of(if is_device { metadata.rdev() } else { metadata.dev() });
    let start_bytes = if is_device { location.start_bytes.unwrap_or(0) } else { 0 };
    let device = if is_device { location.device } else { device_of_file(path, size, &location.device) };
    Ok(OpenDisk { path: path.to_owned(), file, access, device, start_bytes, size })
}

/// A file counts as a disk of its own, as fast as the one it lies on: other users of that disk are not seen.
fn device_of_file(path: &Path, size: u64, under: &Device) -> Device {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let drive = path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string();
    Device { name, drive, model: "file".to_owned(), rotational: under.rotational, capacity_bytes: size, node: None }
}
