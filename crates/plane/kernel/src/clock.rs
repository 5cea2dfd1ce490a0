//! The clocks of deadlines and grants.

use rustix::time::{ClockId, Timespec, clock_gettime};
use units::Nanos;

/// `CLOCK_MONOTONIC`: the data plane's time, and that of every grant.
#[must_use]
pub fn monotonic() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_THREAD_CPUTIME_ID`: processor time the calling thread has used.
#[must_use]
pub fn thread_processor_time() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanos(time: Timespec) -> Nanos {
    // These clocks start at zero and never run back, so neither part is negative.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    Nanos::from_secs(seconds).saturating_add(Nanos(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_do_not_run_back() {
        let (time, used) = (monotonic(), thread_processor_time());
        assert!(time > Nanos::ZERO);
        assert!(monotonic() >= time && thread_processor_time() >= used);
    }
}
