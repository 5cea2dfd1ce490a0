//! The system calls no library offers: loop devices, mounts, real-time scheduling. All of this crate's `unsafe`.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_DIRECT_IO: u32 = 16;
const PR_SET_IO_FLUSHER: libc::c_int = 57;

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

/// Puts a loop device with direct I/O over `file`; returns its number.
pub(crate) fn loop_attach(file: &Path) -> anyhow::Result<u32> {
    let control = File::open("/dev/loop-control")
        .context("cannot open /dev/loop-control: loop devices are needed (try `modprobe loop`)")?;
    let backing = OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .with_context(|| format!("cannot open {}", file.display()))?;
    // Another process may take the free device between the two calls: try again, a bounded number of times.
    for _ in 0..32 {
        // SAFETY: the call takes no argument; the descriptor is open while `control` lives.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        let number = u32::try_from(number).map_err(|_| io::Error::last_os_error()).context("no free loop device")?;
        let path = loop_path(number);
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {} (is there a /dev with loop devices?)", path.display()))?;
        let config = loop_config(backing.as_raw_fd());
        // SAFETY: `config` has the layout of struct loop_config (size asserted above) and outlives the call.
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } == 0 {
            return Ok(number);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error).context("LOOP_CONFIGURE failed (Linux 5.8 or newer is needed)");
        }
    }
    bail!("no free loop device: others take them faster than this can")
}

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

/// `/dev/loopN`.
pub(crate) fn loop_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Takes the loop device off its file, now or when its last user closes it.
pub(crate) fn loop_detach(number: u32) -> io::Result<()> {
    let device = File::open(loop_path(number))?;
    // SAFETY: the call takes no argument; the descriptor is open while `device` lives.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Unmounts; `lazily`: out of the tree now, for good when nobody uses it any more.
pub(crate) fn unmount(path: &Path, lazily: Lazily) -> io::Result<()> {
    let path = c_string(path)?;
    let flags = match lazily {
        Lazily::No => 0,
        Lazily::Yes => libc::MNT_DETACH,
    };
    // SAFETY: `path` is a valid C string that outlives the call.
    match unsafe { libc::umount2(path.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether to unmount although it is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lazily {
    /// Fail with EBUSY.
    No,
    /// Detach.
    Yes,
}

/// Gives the calling thread, and those it will start, SCHED_FIFO.
pub(crate) fn real_time(priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameter` outlives the call; 0 names the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Tells the kernel that memory reclaim may wait for this process, so that it must not wait for its disks in turn.
pub(crate) fn declare_io_flusher() -> io::Result<()> {
    // SAFETY: PR_SET_IO_FLUSHER takes integers only.
    match unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the command's process the leader of a session of its own: it outlives the terminal.
pub(crate) fn detached(command: &mut Command) -> &mut Command {
    // SAFETY: setsid is async-signal-safe and touches no memory of the parent.
    unsafe { command.pre_exec(|| if libc::setsid() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }) }
}

/// Has the kernel kill the command's process when the thread that starts it ends.
pub(crate) fn dies_with_this(command: &mut Command) -> &mut Command {
    // SAFETY: prctl with these integers is a plain system call that touches no memory.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    }
}

/// Runs the command under SCHED_FIFO where that is permitted.
pub(crate) fn in_real_time(command: &mut Command, priority: i32) -> &mut Command {
    // SAFETY: sched_setscheduler is a plain system call on a value of the child's own stack.
    unsafe {
        command.pre_exec(move || {
            // Not permitted: it runs as it is, and a busy machine shows in the result.
            let _refused = real_time(priority);
            Ok(())
        })
    }
}

/// Memory aligned for direct I/O, zeroed.
pub(crate) struct Aligned {
    memory: Vec<u8>,
    offset: usize,
    bytes: usize,
}

impl Aligned {
    /// `bytes` zeros.
    pub(crate) fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + 4096];
        let offset = memory.as_ptr().align_offset(4096);
        Self { memory, offset, bytes }
    }

    /// The memory.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.offset..self.offset + self.bytes]
    }
}

/// Opens for direct I/O.
pub(crate) fn open_direct(path: &Path, writable: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).write(writable).custom_flags(libc::O_DIRECT).open(path)
}

const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;

/// `struct fiemap_extent` of linux/fiemap.h.
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

/// `struct fiemap` with room for one extent.
#[repr(C)]
#[derive(Default)]
struct FiemapOne {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extent: FiemapExtent,
}

const _: () = assert!(size_of::<FiemapExtent>() == 56 && size_of::<FiemapOne>() == 32 + 56);

fn fiemap(file: &File, extent_count: u32) -> io::Result<FiemapOne> {
    let mut map = FiemapOne { length: u64::MAX, extent_count, ..FiemapOne::default() };
    // SAFETY: the kernel writes at most `extent_count` extents, for which there is room (0 or 1).
    match unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) } {
        0 => Ok(map),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where on the device the file's first byte lies.
pub(crate) fn first_position(file: &File) -> io::Result<u64> {
    fiemap(file, 1).map(|map| map.extent.physical)
}

/// How many extents the file has.
pub(crate) fn extent_count(file: &File) -> io::Result<u64> {
    fiemap(file, 0).map(|map| u64::from(map.mapped_extents))
}
