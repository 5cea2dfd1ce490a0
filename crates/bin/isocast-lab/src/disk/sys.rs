//! Calls of this crate to the kernel: loop devices, mounts, real-time scheduling, memory and files for direct I/O.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, bail};
use kernel::loop_device;
use kernel::scheduling::{ChildScheduling, first_in_first_out};

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
        let number = loop_device::free_number(control.as_fd()).context("no free loop device")?;
        let path = loop_path(number);
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {} (is there a /dev with loop devices?)", path.display()))?;
        match loop_device::configure(device.as_fd(), backing.as_fd()) {
            Ok(()) => return Ok(number),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error).context("LOOP_CONFIGURE failed (Linux 5.8 or newer is needed)"),
        }
    }
    bail!("no free loop device: others take them faster than this can")
}

/// `/dev/loopN`.
pub(crate) fn loop_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Takes the loop device off its file, now or when its last user closes it.
pub(crate) fn loop_detach(number: u32) -> io::Result<()> {
    loop_device::clear(File::open(loop_path(number))?.as_fd())
}

/// Gives the calling thread, and those it will start, SCHED_FIFO.
pub(crate) fn real_time(priority: u8) -> io::Result<()> {
    first_in_first_out(priority, ChildScheduling::Inherited)
}

/// Does `work` in a thread of its own under SCHED_FIFO where that is permitted; processes it starts inherit the class.
pub(crate) fn in_real_time<R: Send>(priority: u8, work: impl FnOnce() -> R + Send) -> anyhow::Result<R> {
    let worked = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // Not permitted: it runs as it is, and a busy machine shows in the result.
            let _refused = real_time(priority);
            work()
        });
        worker.join()
    });
    worked.map_err(|_| anyhow::anyhow!("a thread in real time panicked"))
}

/// Opens for direct I/O.
pub(crate) fn open_direct(path: &Path, writable: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).write(writable).custom_flags(libc::O_DIRECT).open(path)
}
