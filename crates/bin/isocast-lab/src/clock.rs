//! The clocks of the benchmark: monotonic time, the calling thread's processor time, and sleeping until a time.
//!
//! Everything else in `bench` takes `now` as an argument, so that its arithmetic is tested in virtual time.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use units::Nanos;

pub(crate) use kernel::clock::{monotonic as now, thread_processor_time as thread_cpu};

/// Period at which a long wait is looked at.
const LOOK: Nanos = Nanos::from_millis(200);

/// Sleeps until `due` on the monotonic clock; returns at once if it has passed. A signal ends the sleep early.
pub(crate) fn sleep_until(due: Nanos) {
    let seconds = i64::try_from(due.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(due.0 % 1_000_000_000).unwrap_or(0);
    // An interrupted sleep is not an error: every caller looks at the clock and at its stop flag again.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &Timespec { tv_sec: seconds, tv_nsec: nanos });
}

/// Sleeps until `due`, or until `is_over` says so, which it looks at every fifth of a second.
pub(crate) fn wait_until(due: Nanos, is_over: impl Fn() -> bool) {
    while now() < due && !is_over() {
        sleep_until(due.min(now() + LOOK));
    }
}
