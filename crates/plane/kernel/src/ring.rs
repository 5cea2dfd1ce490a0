//! The engine on io_uring: one ring, set up for a single thread that feeds many sockets on absolute deadlines.
//!
//! Promise: requests queued are handed over in order; a full submission queue is handed over early, never dropped; task
//! work runs only inside [`Ring::enter`] (deferred), so nothing interrupts the plane in between. Not here: the meaning
//! of the requests (`io`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use dataplane::port::{SocketSlot, Token};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use rustix::thread::CpuSet;
use units::Nanos;

use crate::clock;
use crate::engine::{DirectRead, Engine, EngineReport, OutgoingBytes};
use crate::permissions::StartError;

/// Requests handed over at once; a step of the wheel with more takes several system calls.
const SUBMISSIONS: u32 = 512;
/// Completions that the queue holds; those beyond wait in the kernel (`IORING_FEAT_NODROP`) until some were taken.
///
/// Both queues count as locked memory of the *user* (104 KiB in all), on some kernels, and an ordinary user's limit is 8 MiB:
/// with queues for all requests that can ever be outstanding a user could run 12 servers, with these 81 (Linux 6.18).
const COMPLETIONS: u32 = 4096;

/// One ring and the way it waits.
struct Ring {
    ring: IoUring,
    /// The kernel takes absolute timeouts.
    absolute: bool,
}

impl Ring {
    /// A ring of the calling thread.
    fn new() -> Result<Self, StartError> {
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

    /// Queues a request.
    ///
    /// # Safety
    /// The memory that the request points at stays valid until its completion was taken from [`Ring::next_completion`].
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the caller's promise, handed on.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            // Full: hand over the queued requests. Transient failures (memory, completions to be taken first) are tried
            // again by waiting for nothing, which also runs deferred work.
            let _ = self.enter(None);
        }
    }

    /// Hands over the queued requests, runs deferred work, and, if `until` is given, waits for one completion until then.
    ///
    /// # Errors
    /// The kernel's; the end of the wait is none.
    fn enter(&mut self, until: Option<Nanos>) -> io::Result<()> {
        let queued = u32::try_from(self.ring.submission().len()).expect("the queue has SUBMISSIONS places");
        let Some(until) = until else {
            // SAFETY: no argument is passed; queued requests are covered by `push`.
            return unsafe {
                self.ring.submitter().enter::<libc::sigset_t>(queued, 0, EnterFlags::GETEVENTS.bits(), None)
            }
            .map(drop);
        };
        let time = if self.absolute { until } else { until.saturating_sub(clock::monotonic()) };
        // Cut to the range of the kernel's own arithmetic (292 years).
        let time = types::Timespec::from(Duration::from_nanos(time.0.min(i64::MAX.cast_unsigned())));
        let arg = types::SubmitArgs::new().timespec(&time);
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        // Linux 6.12: a time of `CLOCK_MONOTONIC`, not a span.
        flags.set(EnterFlags::ABS_TIMER, self.absolute);
        // SAFETY: `arg` borrows the time it points at, and is the `struct io_uring_getevents_arg` that EXT_ARG requires;
        // queued requests are covered by `push`.
        match unsafe { self.ring.submitter().enter(queued, 1, flags.bits(), Some(&arg)) } {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            result => result.map(drop),
        }
    }

    /// True if requests wait to be handed over.
    fn has_queued(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// True if a completion waits that was not taken yet.
    fn has_completion(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Takes the next completion.
    fn next_completion(&mut self) -> Option<Cqe> {
        let entry = self.ring.completion().next()?;
        Some(Cqe { user_data: entry.user_data(), result: entry.result(), flags: entry.flags() })
    }

    /// Completions that the kernel could not deliver at all; must stay zero.
    fn lost_completions(&mut self) -> u32 {
        self.ring.completion().overflow()
    }

    /// Keeps io-wq, which should never be needed, few and away from the plane's CPU.
    fn confine_workers(&self, cpus: Option<&CpuSet>) -> io::Result<()> {
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
struct Cqe {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// A wake of the plane.
const WOKEN: u64 = 0xFF << 56;
/// A cancellation failed.
const CANCEL: u64 = WOKEN | 1 << 48;
/// A read, with its place in the table; every other token is a send's. The plane's stay below (`Token`).
const READ: u64 = WOKEN | 2 << 48;

/// The engine on io_uring.
///
/// No request reaches io-wq, since its workers would share the plane's CPU: sockets are polled, and reads that would
/// have to wait are refused by the kernel (`RWF_NOWAIT`), for a reading thread to make.
pub(crate) struct RingEngine {
    ring: Ring,
    waker: RawFd,
    /// Sends handed over and not completed.
    sends: usize,
}

impl RingEngine {
    /// An engine of the calling thread that `waker` wakes; it outlives the engine.
    pub(crate) fn new(waker: BorrowedFd<'_>, helper_cpus: Option<&CpuSet>) -> Result<Self, StartError> {
        let ring = Ring::new()?;
        let _ = ring.confine_workers(helper_cpus); // a second line only: there should be none
        let mut this = Self { ring, waker: waker.as_raw_fd(), sends: 0 };
        this.watch_waker();
        Ok(this)
    }

    /// Makes the ring complete at every wake. The counter behind it is never read: each wake is an edge.
    fn watch_waker(&mut self) {
        let readable = u32::from(libc::POLLIN.unsigned_abs());
        self.push(opcode::PollAdd::new(types::Fd(self.waker), readable).multi(true).build().user_data(WOKEN));
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: entries point at arena memory, which `KernelIo` keeps until the kernel has let go (its `drop`), or
        // descriptors, which the plane keeps open while requests are in flight and which the kernel checks anyway.
        unsafe { self.ring.push(&entry) };
    }
}

impl Engine for RingEngine {
    fn makes_reads(&self) -> bool {
        true
    }

    fn read(&mut self, read: DirectRead) -> bool {
        // Without RWF_NOWAIT the kernel would hand a read that must wait to io-wq.
        let entry = opcode::Read::new(types::Fd(read.file), read.memory, read.length)
            .offset(read.offset)
            .rw_flags(libc::RWF_NOWAIT)
            .build();
        self.push(entry.user_data(READ | u64::from(read.index)));
        true
    }

    fn send(&mut self, outgoing: OutgoingBytes) {
        let OutgoingBytes { token, socket, memory, length, .. } = outgoing;
        // No MSG_WAITALL: done as soon as the socket took some. A full socket is polled by the kernel until it has room.
        let entry = opcode::Send::new(types::Fd(socket), memory, length).flags(libc::MSG_NOSIGNAL).build();
        self.sends += 1;
        self.push(entry.user_data(token.0));
    }

    fn await_room(&mut self, token: Token, _: SocketSlot, socket: RawFd) {
        let room = u32::from(libc::POLLOUT.unsigned_abs());
        self.sends += 1;
        self.push(opcode::PollAdd::new(types::Fd(socket), room).build().user_data(token.0));
    }

    fn cancel_send(&mut self, token: Token) {
        let entry = opcode::AsyncCancel::new(token.0).build().user_data(CANCEL);
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS));
    }

    fn close_socket(&mut self, _: SocketSlot, _: RawFd) {}

    fn has_queued(&mut self) -> bool {
        self.ring.has_queued()
    }

    fn has_done(&mut self) -> bool {
        self.ring.has_completion()
    }

    fn enter(&mut self, until: Option<Nanos>) -> io::Result<()> {
        self.ring.enter(until)
    }

    fn next_done(&mut self) -> Option<EngineReport> {
        loop {
            let cqe = self.ring.next_completion()?;
            match cqe.user_data {
                WOKEN => {
                    if !cqueue::more(cqe.flags) {
                        self.watch_waker();
                    }
                    return Some(EngineReport::Woken);
                }
                CANCEL => {} // only failures complete: the send had completed already
                READ.. => {
                    let index = u32::try_from(cqe.user_data & u64::from(u32::MAX)).expect("masked");
                    return Some(EngineReport::Read(index, cqe.result));
                }
                token => {
                    self.sends -= 1;
                    return Some(EngineReport::Sent(Token(token), cqe.result));
                }
            }
        }
    }

    fn sends(&self) -> usize {
        self.sends
    }

    fn cancel_all(&mut self, patience: Duration) {
        let _ = self.ring.enter(None);
        let patience = types::Timespec::new().sec(patience.as_secs());
        let _ = self.ring.ring.submitter().register_sync_cancel(Some(patience), types::CancelBuilder::any());
    }

    fn lost_completions(&mut self) -> u64 {
        self.ring.lost_completions().into()
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    /// Forty servers of one ordinary user with the limit of 8 MiB that systemd and most distributions give.
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
                // Completions beyond the queue come with the next call.
                ring.enter(None).unwrap();
                ring.next_completion()
            });
            assert_eq!(next.map(|cqe| cqe.user_data), Some(n), "in order");
        }
        assert!(!ring.has_completion());
        assert_eq!(ring.lost_completions(), 0);
    }
}
