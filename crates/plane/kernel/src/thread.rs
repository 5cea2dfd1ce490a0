//! The plane's thread: a CPU, a priority, no timer slack, where permitted.
//!
//! Promise: starts without a refused permission and reports it. Helper threads and any thread the plane might start
//! inherit neither priority nor CPU. Not here: the loop it runs (`dataplane`).

use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use channel::{PlaneLink, connect};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

use crate::engine_choice::EngineChoice;
use crate::io::{IoConfig, KernelIo};
use crate::permissions::{PermissionSubject, Permissions, StartError};
use crate::scheduling::{ChildScheduling, first_in_first_out};

/// That of the kernel itself (`PID_NS_INIT_INO` in its `linux/nsfs.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Configuration of the plane's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadConfig {
    /// Chunks of the arena (1 MiB each).
    pub chunk_count: u32,
    /// The CPU it is pinned to; none: the scheduler chooses.
    pub cpu: Option<usize>,
    /// Priority of `SCHED_FIFO`, 1 to 99; none: ordinary.
    pub priority: Option<u8>,
    /// The way of requests to the kernel.
    pub engine: EngineChoice,
    /// Threads per disk for reads that the plane's thread must not make: 2 to 4.
    pub readers: usize,
}

/// A running plane.
#[derive(Debug)]
pub struct PlaneThread {
    /// Its permissions, granted and refused.
    pub permissions: Permissions,
    thread: Pid,
    handle: JoinHandle<()>,
}

impl PlaneThread {
    /// Waits for its end.
    ///
    /// # Errors
    /// The payload of its panic.
    pub fn join(self) -> thread::Result<()> {
        self.handle.join()
    }

    /// Workers that io-wq made for it; there must be none (see [`punted_workers`]).
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn punted_workers(&self) -> io::Result<Option<usize>> {
        punted_workers(self.thread)
    }
}

/// Starts the thread and runs `body` (the loop) on it, as soon as memory and ring are there.
///
/// # Errors
/// The resource that is missing, with advice. Nothing runs then.
pub fn start(
    config: ThreadConfig,
    link: PlaneLink,
    body: impl FnOnce(KernelIo) + Send + 'static,
) -> Result<PlaneThread, StartError> {
    let (sender, started) = mpsc::sync_channel(1);
    let handle = thread::Builder::new()
        .name("plane".to_owned())
        .spawn(move || {
            let io_config = IoConfig {
                chunk_count: config.chunk_count,
                engine: config.engine,
                readers: config.readers,
                helper_cpus: config.cpu.and_then(|cpu| other_cpus(cpu).ok().flatten()),
            };
            match KernelIo::new(&io_config, link) {
                Ok((io, mut permissions)) => {
                    // Only now: the helper threads were started as ordinary ones.
                    take_processor(config.cpu, &mut permissions);
                    take_priority(config.priority, &mut permissions);
                    // An ordinary thread's timers may be up to 50 µs late for the sake of batching; ours are not.
                    let _ = set_current_timer_slack(NonZeroU64::new(1));
                    let _ = sender.send(Ok((permissions, gettid()))); // the starter waits for it
                    body(io);
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                }
            }
        })
        .map_err(StartError::Thread)?;
    match started.recv() {
        Ok(Ok((permissions, thread))) => Ok(PlaneThread { permissions, thread, handle }),
        Ok(Err(error)) => {
            let _ = handle.join(); // it has nothing left to do
            Err(error)
        }
        Err(_) => Err(StartError::Thread(io::Error::other("it panicked while starting"))),
    }
}

/// Finds the permissions that a plane would have here, with a small arena: for `doctor`.
///
/// # Errors
/// The resource that is missing, with advice.
pub fn check(config: ThreadConfig) -> Result<Permissions, StartError> {
    let links = connect(0).map_err(StartError::Helpers)?;
    let plane = start(config, links.plane, drop)?;
    let permissions = plane.permissions.clone();
    let _ = plane.join(); // an empty body does not panic
    Ok(permissions)
}

/// The CPUs this process may use, ascending. The last is a good one for the plane: interrupts tend to go to the first.
///
/// # Errors
/// The error that the kernel gave.
pub fn cpus() -> io::Result<Vec<usize>> {
    let permitted = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| permitted.is_set(cpu)).collect())
}

/// The CPUs this thread may use, but for `cpu`; none if there is no other.
fn other_cpus(cpu: usize) -> io::Result<Option<CpuSet>> {
    let mut cpus = sched_getaffinity(None)?;
    if cpu < CpuSet::MAX_CPU {
        cpus.unset(cpu);
    }
    Ok(Some(cpus).filter(|cpus| cpus.count() > 0))
}

fn take_processor(cpu: Option<usize>, permissions: &mut Permissions) {
    let Some(cpu) = cpu else {
        return permissions.say(
            PermissionSubject::Processor,
            true,
            "the data plane runs on any CPU, as configured".to_owned(),
        );
    };
    let taken = if cpu < CpuSet::MAX_CPU {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).map_err(io::Error::from)
    } else {
        Err(io::Error::from(io::ErrorKind::InvalidInput))
    };
    match taken {
        Ok(()) => permissions.say(PermissionSubject::Processor, true, format!("the data plane has CPU {cpu}")),
        Err(error) => {
            let sentence = format!(
                "the data plane could not take CPU {cpu} ({error}): choose one that exists and that the process may use \
                 (`taskset -p 1`, systemd: `AllowedCPUs=`)"
            );
            permissions.say(PermissionSubject::Processor, false, sentence);
        }
    }
}

fn take_priority(priority: Option<u8>, permissions: &mut Permissions) {
    let Some(priority) = priority else {
        return permissions.say(PermissionSubject::RealTime, true, "ordinary priority, as configured".to_owned());
    };
    // Any thread that this one may start (io-wq's workers among them) starts as ordinary.
    let Err(error) = first_in_first_out(priority, ChildScheduling::Ordinary) else {
        return permissions.say(
            PermissionSubject::RealTime,
            true,
            format!("real-time priority (SCHED_FIFO {priority})"),
        );
    };
    let sentence = if (1..=99).contains(&priority) {
        format!(
            "no real-time priority ({error}): other programs can delay streams; permit it (`ulimit -r {priority}`, systemd: \
             `LimitRTPRIO={priority}`) or grant CAP_SYS_NICE (`AmbientCapabilities=CAP_SYS_NICE`); in a control group \
             with CONFIG_RT_GROUP_SCHED also give it cpu.rt_runtime_us"
        )
    } else {
        format!("no real-time priority: {priority} is not between 1 and 99")
    };
    permissions.say(PermissionSubject::RealTime, false, sentence);
}

/// Counts the workers that io-wq made for requests of thread `thread` of this process. For the plane's there must be
/// none: they would run on its CPU. None in a container, where the count is impossible: the workers' names carry the
/// thread's number outside of all containers.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn punted_workers(thread: Pid) -> io::Result<Option<usize>> {
    if std::fs::read_link("/proc/self/ns/pid")?.to_str() != Some(FIRST_PID_NAMESPACE) {
        return Ok(None);
    }
    let name = format!("iou-wrk-{}", thread.as_raw_pid());
    let mut workers = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread that ended meanwhile has no name any more.
        let comm = std::fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
        workers += usize::from(comm.trim_end() == name);
    }
    Ok(Some(workers))
}
