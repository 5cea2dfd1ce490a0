//! The clocks of the benchmark: monotonic time, the calling thread's processor time, and sleeping until a time.
//!
//! Everything else in `bench` takes `now` as an argument, so that its arithmetic is tested in virtual time.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use units::Nanos;

/// Monotonic time, the same clock for every thread and process of the machine.
pub(crate) fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// Processor time the calling thread has used.
pub(crate) fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// Sleeps until `due` on the monotonic clock; returns at once if it has passed. A signal ends the sleep early.
pub(crate) fn sleep_until(due: Nanos) {
    let seconds = i64::try_from(due.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(due.0 % 1_000_000_000).unwrap_or(0);
    // An interrupted sleep is not an error: every caller looks at the clock and at its stop flag again.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &Timespec { tv_sec: seconds, tv_nsec: nanos });
}

fn read(id: ClockId) -> Nanos {
    let t = clock_gettime(id);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(t.tv_nsec).unwrap_or(0)))
}
