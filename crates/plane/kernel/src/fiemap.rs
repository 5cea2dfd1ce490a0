//! Places of a file's bytes on its device (`FS_IOC_FIEMAP`).
//!
//! Promise: bounded steps, bounded result; raw facts only. Not here: the choice of extents to trust (a caller drops
//! those with `flags` of unknown, delayed or inline), and partitions' offsets on the whole disk (`/sys/dev/block`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Extents requested in one call.
const STEP_EXTENTS: usize = 128;

/// Extents of one file at most; a file in more pieces than this has no position worth knowing.
pub const EXTENTS_MAX: usize = 1 << 20;

/// The last extent of the file.
pub const FLAG_LAST: u32 = 0x0001;
/// Its position is not known.
pub const FLAG_UNKNOWN: u32 = 0x0002;
/// Not yet on the disk (delayed allocation).
pub const FLAG_DELALLOC: u32 = 0x0004;
/// Cannot be read from the device as it is (compressed).
pub const FLAG_ENCODED: u32 = 0x0008;
/// Lies within metadata or a block's tail.
pub const FLAG_NOT_ALIGNED: u32 = 0x0100;
/// Space that was taken ahead and not written to: it reads as zeros.
const FLAG_UNWRITTEN: u32 = 0x0800;

/// Bytes that wait in the page cache are written first.
const SYNC: u32 = 0x0001;

const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B;

/// One extent, as the file system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawExtent {
    /// Offset in the file, bytes.
    pub logical: u64,
    /// Offset on the file system's block device (a partition's, not the disk's), bytes.
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    /// `FLAG_…`.
    pub flags: u32,
}

/// `struct fiemap_extent` of `<linux/fiemap.h>`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of `<linux/fiemap.h>` with room for its extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; STEP_EXTENTS],
}

const _: () = assert!(size_of::<FiemapExtent>() == 56 && size_of::<Fiemap>() == 32 + 56 * STEP_EXTENTS);

/// The extents of an open file, ascending by `logical`, holes left out. The file is not synced first: an extent without
/// a place yet carries [`FLAG_DELALLOC`].
///
/// # Errors
/// The kernel's: `EOPNOTSUPP` where the file system has no extents to report (tmpfs, network mounts); `InvalidData` if
/// it reports extents that do not ascend, more than requested, or more than [`EXTENTS_MAX`].
pub fn extents(file: BorrowedFd<'_>) -> io::Result<Vec<RawExtent>> {
    list(file, 0)
}

/// Offset of the first byte in space that was taken ahead and not written to, be it within the file's length or beyond.
///
/// # Errors
/// Those of [`extents`].
pub fn unwritten_from(file: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    let unwritten = list(file, SYNC)?.into_iter().find(|extent| extent.flags & FLAG_UNWRITTEN != 0);
    Ok(unwritten.map(|extent| extent.logical))
}

fn list(file: BorrowedFd<'_>, flags: u32) -> io::Result<Vec<RawExtent>> {
    let mut found: Vec<RawExtent> = Vec::new();
    let mut start = 0;
    loop {
        let step = step(file, start, flags)?;
        let mapped = usize::try_from(step.mapped_extents).unwrap_or(usize::MAX);
        let Some(extents) = step.extents.get(..mapped) else {
            return Err(invalid("FIEMAP reported more extents than it was asked for"));
        };
        for extent in extents {
            let end = extent.logical.checked_add(extent.length);
            let Some(end) = end.filter(|&end| end > start || found.is_empty()) else {
                return Err(invalid("FIEMAP reported extents that do not ascend"));
            };
            if found.len() == EXTENTS_MAX {
                return Err(invalid("the file lies in too many pieces to list"));
            }
            found.push(RawExtent {
                logical: extent.logical,
                physical: extent.physical,
                length: extent.length,
                flags: extent.flags,
            });
            start = end;
            if extent.flags & FLAG_LAST != 0 {
                return Ok(found);
            }
        }
        if extents.is_empty() {
            return Ok(found);
        }
    }
}

fn step(file: BorrowedFd<'_>, start: u64, flags: u32) -> io::Result<Box<Fiemap>> {
    let mut map = Box::new(Fiemap {
        start,
        length: u64::MAX - start,
        flags,
        mapped_extents: 0,
        extent_count: u32::try_from(STEP_EXTENTS).expect("a small constant"),
        reserved: 0,
        extents: [FiemapExtent::default(); STEP_EXTENTS],
    });
    // SAFETY: the kernel writes the header and at most `extent_count` extents, for which `map` has room (checked above).
    match unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) } {
        0 => Ok(map),
        _ => Err(io::Error::last_os_error()),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A file in the build directory, which lies on the file system of the repository (the temporary directory may be
    /// a tmpfs, which has no extents).
    fn file() -> File {
        tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    #[test]
    fn extents_cover_written_bytes_and_leave_holes_out() {
        let file = file();
        // More pieces than one step holds, with holes between them.
        let pieces = STEP_EXTENTS + 20;
        for piece in 0..pieces {
            file.write_all_at(&[1; 4096], u64::try_from(piece).unwrap() * 65536).unwrap();
        }
        file.sync_all().unwrap();
        let found = match extents(file.as_fd()) {
            Ok(found) => found,
            // A file system without extents to report (overlay on tmpfs) must give this error, and no other.
            Err(error) => return assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        };
        assert!(found.windows(2).all(|w| w[0].logical + w[0].length <= w[1].logical));
        for piece in 0..pieces {
            let at = u64::try_from(piece).unwrap() * 65536;
            assert!(found.iter().any(|e| e.logical <= at && at < e.logical + e.length), "offset {at} is in an extent");
        }
        assert_eq!(found.last().unwrap().flags & FLAG_LAST, FLAG_LAST);
    }

    #[test]
    fn an_empty_file_has_no_extents() {
        match extents(file().as_fd()) {
            Ok(found) => assert_eq!(found, []),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
    }
}
