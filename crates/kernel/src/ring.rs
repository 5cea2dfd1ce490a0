//! One io_uring, set up for a single thread that feeds many sockets on absolute deadlines.
//!
//! Promise: requests queued are handed over in order; a full submission queue is handed over early, never dropped; task
//! work runs only inside [`Ring::enter`] (deferred), so nothing interrupts the plane in between. Not here: what the
//! requests mean (`io`).

use std::io;

use io_uring::{IoUring, squeue};
use rustix::thread::CpuSet;
use units::Nanos;

use crate::clock;
use crate::permissions::StartError;

/// Requests handed over at once; a step of the wheel with more takes several system calls.
const SUBMISSIONS: u32 = 512;
/// Completions that the queue holds; those beyond wait in the kernel (`IORING_FEAT_NODROP`) until some were taken.
///
/// Both queues count as locked memory of the *user* (104 KiB in all), on some kernels, and an ordinary user's limit is 8 MiB:
/// with queues for everything that can ever be outstanding a user could run 12 servers, with these 81 (Linux 6.18).
const COMPLETIONS: u32 = 4096;

const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
/// Linux 6.12: the timeout is a time of `CLOCK_MONOTONIC`, not a span.
const ENTER_ABS_TIMER: u32 = 1 << 5;

/// `struct io_uring_getevents_arg` of `<linux/io_uring.h>`.
#[repr(C)]
struct GetEventsArg {
    sigmask: u64,
    sigmask_size: u32,
    min_wait_micros: u32,
    timespec: u64,
}

/// `struct __kernel_timespec`.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanos: i64,
}

const _: () = assert!(size_of::<GetEventsArg>() == 24 && size_of::<KernelTimespec>() == 16);

/// One ring and the way it waits.
pub(crate) struct Ring {
    ring: IoUring,
    /// The kernel takes absolute timeouts.
    absolute: bool,
}

impl Ring {
    /// A ring of the calling thread.
    pub(crate) fn new() -> Result<Self, StartError> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)
            .map_err(StartError::ring)?;
        let features = ring.params();
        if !features.is_feature_ext_arg() || !features.is_feature_skip_cqe_on_success() || !features.is_feature_nodrop()
        {
            return Err(StartError::ring(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let mut this = Self { ring, absolute: true };
        // An absolute time long ago: ETIME where absolute times are known, EINVAL where not.
        this.absolute = this.enter(Some(Nanos(1))).is_ok();
        Ok(this)
    }

    pub(crate) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.ring.submitter()
    }

    /// Queues a request.
    ///
    /// # Safety
    /// What the request points at stays valid until its completion was taken from [`Ring::next_completion`].
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the caller's promise, handed on.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            // Full: hand over what is there. Transient failures (memory, completions to be taken first) are tried again
            // by waiting for nothing, which also runs what is deferred.
            let _ = self.enter(None);
        }
    }

    /// Hands over what is queued, runs deferred work, and, if `until` is given, waits for one completion until then.
    ///
    /// # Errors
    /// The kernel's; the end of the wait is none.
    pub(crate) fn enter(&mut self, until: Option<Nanos>) -> io::Result<()> {
        let queued = u32::try_from(self.ring.submission().len()).expect("the queue has SUBMISSIONS places");
        let Some(until) = until else {
            // SAFETY: no argument is passed; queued requests are covered by `push`.
            return unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, ENTER_GETEVENTS, None) }
                .map(drop);
        };
        let time = if self.absolute { until } else { until.saturating_sub(clock::monotonic()) };
        let time = kernel_timespec(time);
        let arg =
            GetEventsArg { sigmask: 0, sigmask_size: 0, min_wait_micros: 0, timespec: (&raw const time).addr() as u64 };
        let flags = ENTER_GETEVENTS | ENTER_EXT_ARG | if self.absolute { ENTER_ABS_TIMER } else { 0 };
        // SAFETY: `arg` and the time it points at live until the call returns, and have the layout that EXT_ARG asks
        // for; queued requests are covered by `push`.
        match unsafe { self.ring.submitter().enter(queued, 1, flags, Some(&arg)) } {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Requests wait to be handed over.
    pub(crate) fn has_queued(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// A completion that was not taken yet waits.
    pub(crate) fn has_completion(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Takes the next completion.
    pub(crate) fn next_completion(&mut self) -> Option<Cqe> {
        let entry = self.ring.completion().next()?;
        Some(Cqe { user_data: entry.user_data(), result: entry.result(), flags: entry.flags() })
    }

    /// Completions that the kernel could not deliver at all; must stay zero.
    pub(crate) fn lost_completions(&mut self) -> u32 {
        self.ring.completion().overflow()
    }

    /// Keeps io-wq, which should never be needed, few and away from the plane's CPU.
    pub(crate) fn confine_workers(&self, cpus: Option<&CpuSet>) -> io::Result<()> {
        self.ring.submitter().register_iowq_max_workers(&mut [1, 1])?;
        let Some(cpus) = cpus else { return Ok(()) };
        // SAFETY: a cpu_set_t is a bit set, for which all zeros is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| cpus.is_set(cpu)) {
            // SAFETY: `cpu` is below the set's size.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        self.ring.submitter().register_iowq_aff(&set)
    }
}

/// A completion, copied out of the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cqe {
    pub(crate) user_data: u64,
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

fn kernel_timespec(time: Nanos) -> KernelTimespec {
    // Cut to what the kernel's own arithmetic can hold (292 years).
    let nanos = i64::try_from(time.0).unwrap_or(i64::MAX);
    KernelTimespec { seconds: nanos / 1_000_000_000, nanos: nanos % 1_000_000_000 }
}

#[cfg(test)]
mod tests {
    use io_uring::opcode;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    /// Forty servers of one ordinary user, whose limit is the 8 MiB that systemd and most distributions give.
    #[test]
    fn the_locked_memory_of_an_ordinary_user_carries_many_rings() {
        let rings = || {
            let mut own = capabilities(None).unwrap();
            own.effective.remove(CapabilitySet::IPC_LOCK);
            set_capabilities(None, own).unwrap();
            let limit = getrlimit(Resource::Memlock);
            let current = limit.current.map_or(8 << 20, |current| current.min(8 << 20));
            setrlimit(Resource::Memlock, Rlimit { current: Some(current), ..limit }).unwrap();
            (0..40).map(|_| Ring::new()).filter(Result::is_ok).count()
        };
        assert_eq!(std::thread::spawn(rings).join().unwrap(), 40);
    }

    #[test]
    fn both_ways_of_waiting_end_at_the_deadline_and_not_before() {
        let mut ring = Ring::new().unwrap();
        let absolute = ring.absolute;
        for mode in [false, absolute] {
            ring.absolute = mode;
            for millis in [0, 2, 20] {
                let until = clock::monotonic().saturating_add(Nanos::from_millis(millis));
                while clock::monotonic() < until {
                    ring.enter(Some(until)).unwrap();
                    assert!(ring.next_completion().is_none());
                }
            }
        }
    }

    #[test]
    fn more_requests_than_places_are_handed_over_early_and_none_is_lost() {
        let mut ring = Ring::new().unwrap();
        // More than either queue holds.
        let requests = u64::from(COMPLETIONS + 3 * SUBMISSIONS);
        for n in 0..requests {
            // SAFETY: points at nothing.
            unsafe { ring.push(&opcode::Nop::new().build().user_data(n)) };
        }
        ring.enter(None).unwrap();
        for n in 0..requests {
            let next = ring.next_completion().or_else(|| {
                // What did not fit in the queue comes with the next call.
                ring.enter(None).unwrap();
                ring.next_completion()
            });
            assert_eq!(next.map(|cqe| cqe.user_data), Some(n), "in order");
        }
        assert!(!ring.has_completion());
        assert_eq!(ring.lost_completions(), 0);
    }
}
