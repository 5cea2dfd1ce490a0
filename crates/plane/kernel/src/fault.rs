//! Translation of errno into the faults that the data plane distinguishes, in this one place.

use dataplane::port::IoFault;

/// The fault behind a request's negative result (`-errno`).
fn fault(result: i32) -> IoFault {
    match result.saturating_neg() {
        libc::ECANCELED => IoFault::Cancelled,
        // All errors of TCP for a vanished peer: reset, closed by either side, timed out, unreachable.
        libc::EPIPE
        | libc::ECONNRESET
        | libc::ECONNABORTED
        | libc::ECONNREFUSED
        | libc::ENOTCONN
        | libc::ESHUTDOWN
        | libc::ETIMEDOUT
        | libc::EHOSTUNREACH
        | libc::EHOSTDOWN
        | libc::ENETUNREACH
        | libc::ENETDOWN
        | libc::ENETRESET => IoFault::Gone,
        errno => IoFault::Device(errno),
    }
}

/// A request's result in the plane's terms.
pub(crate) fn result(result: i32) -> Result<u32, IoFault> {
    u32::try_from(result).map_err(|_| fault(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counts_or_faults() {
        assert_eq!(result(0), Ok(0));
        assert_eq!(result(i32::MAX), Ok(0x7fff_ffff));
        assert_eq!(result(-libc::EPIPE), Err(IoFault::Gone));
        assert_eq!(result(-libc::ETIMEDOUT), Err(IoFault::Gone));
        assert_eq!(result(-libc::ECANCELED), Err(IoFault::Cancelled));
        assert_eq!(result(-libc::EIO), Err(IoFault::Device(libc::EIO)));
    }
}
