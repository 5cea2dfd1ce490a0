//! Loop devices: files as block devices (`<linux/loop.h>`).
//!
//! Promise: raw calls on open descriptors. Not here: opening `/dev/loop-control` and `/dev/loopN`, and trying again when
//! another process took the free one (emulated disks, `isocast-lab`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Returns the number of a loop device that is not in use at this moment. `control` is `/dev/loop-control`.
///
/// # Errors
/// The error that the kernel gave.
pub fn free_number(control: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: the call takes no argument; the descriptor is borrowed for it.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Puts `device` over the file `backing`, read and written with direct I/O.
///
/// # Errors
/// The kernel's: `EBUSY` if the device is taken, `ENOTTY` or `EINVAL` before Linux 5.8.
pub fn configure(device: BorrowedFd<'_>, backing: BorrowedFd<'_>) -> io::Result<()> {
    let config = loop_config(backing.as_raw_fd());
    // SAFETY: `config` has the layout of struct loop_config (size asserted below) and outlives the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes `device` off its file, now or when its last user closes it.
///
/// # Errors
/// The kernel's: `ENXIO` if it is over none.
pub fn clear(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes no argument; the descriptor is borrowed for it.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo64>() == 232 && size_of::<LoopConfig>() == 304);

fn loop_config(fd: RawFd) -> LoopConfig {
    LoopConfig {
        fd: fd.cast_unsigned(),
        block_size: 0,
        info: LoopInfo64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_DIRECT_IO,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_is_no_loop_device() {
        let file = File::open("/dev/null").unwrap();
        for refused in [clear(file.as_fd()), configure(file.as_fd(), file.as_fd()), free_number(file.as_fd()).map(drop)]
        {
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        }
    }
}
