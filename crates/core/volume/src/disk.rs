//! Reads and writes of a volume's disks, which the callers of this crate make.

use crate::MemberId;

/// A disk that did not give its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the disk could not be read")]
pub struct ReadError;

/// The disks, as this crate reads them.
pub trait ReadDisk {
    /// Fills `buffer` from `position` of the disk: position and length are multiples of [`crate::BLOCK_BYTES`]. Disks are
    /// counted from 0 as their caller does.
    ///
    /// # Errors
    /// The disk gave an error, or is too small for these bytes.
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError>;
}

/// Bytes for a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskWrite {
    /// The disk.
    pub member: MemberId,
    /// Bytes from its start, a multiple of [`crate::BLOCK_BYTES`].
    pub position: u64,
    /// A multiple of [`crate::BLOCK_BYTES`].
    pub bytes: Vec<u8>,
}
