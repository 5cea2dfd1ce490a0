//! TIPC sockets: the kernel's own transport between the nodes of a cluster, for which no library has addresses.
//!
//! Promise: connected and listening stream sockets, in all else as any socket. Not here: the bytes sent over them
//! (`net`), links and bearers (the `tipc` program of iproute2 sets them up).
//! Read more: <https://docs.kernel.org/networking/tipc.html>, `linux/tipc.h`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, listen as start_listening, socket_with};

/// The least service type that programs may take: the kernel keeps 0 to 63 (`TIPC_RESERVED_TYPES`).
pub const SERVICE_MIN: u32 = 64;

/// `TIPC_SERVICE_RANGE`, `TIPC_SERVICE_ADDR`, `TIPC_CLUSTER_SCOPE`, `TIPC_CONN_TIMEOUT` and `TIPC_NODELAY` of `linux/tipc.h`.
const SERVICE_RANGE: u8 = 1;
const SERVICE_ADDRESS: u8 = 2;
const CLUSTER_SCOPE: i8 = 2;
const CONNECT_TIMEOUT_OPTION: libc::c_int = 130;
const NO_DELAY_OPTION: libc::c_int = 138;

/// Address of a service: nodes find each other by the services that they offer, not by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TipcService {
    /// The type of service, [`SERVICE_MIN`] or more.
    pub kind: u32,
    /// Its number among those of that type.
    pub instance: u32,
}

/// `struct sockaddr_tipc`; the kernel's union of three numbers means type, lower, upper or type, instance, domain.
#[repr(C)]
struct SocketAddress {
    family: u16,
    kind: u8,
    scope: i8,
    numbers: [u32; 3],
}

const _: () = assert!(size_of::<SocketAddress>() == 16);

impl SocketAddress {
    fn new(kind: u8, scope: i8, numbers: [u32; 3]) -> Self {
        Self { family: AddressFamily::TIPC.as_raw(), kind, scope, numbers }
    }

    fn length() -> libc::socklen_t {
        libc::socklen_t::try_from(size_of::<Self>()).expect("16 bytes")
    }
}

/// Returns a stream socket connected to one of the nodes that offer `to`.
///
/// # Errors
/// The kernel's: `EAFNOSUPPORT` without TIPC, `EHOSTUNREACH` if no node offers it, `ETIMEDOUT` if none accepted `within`.
pub fn connect(to: TipcService, within: Duration) -> io::Result<OwnedFd> {
    let socket = stream()?;
    let millis = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
    set(&socket, CONNECT_TIMEOUT_OPTION, millis)?;
    let address = SocketAddress::new(SERVICE_ADDRESS, 0, [to.kind, to.instance, 0]);
    // SAFETY: the address lives through the call and is as long as said; the descriptor is owned here.
    let done = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), SocketAddress::length()) };
    checked(done).map(|()| socket)
}

/// Returns a stream socket that listens for clients of `at` anywhere in the cluster; at most `backlog` wait to be accepted.
///
/// # Errors
/// The kernel's: `EAFNOSUPPORT` without TIPC, `EACCES` for a reserved type.
pub fn listen(at: TipcService, backlog: i32) -> io::Result<OwnedFd> {
    let socket = stream()?;
    let address = SocketAddress::new(SERVICE_RANGE, CLUSTER_SCOPE, [at.kind, at.instance, at.instance]);
    // SAFETY: as in `connect`.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), SocketAddress::length()) };
    checked(done)?;
    start_listening(&socket, backlog)?;
    Ok(socket)
}

/// Makes each send leave at once (`on`), or lets small ones wait for an acknowledgement to leave together.
///
/// # Errors
/// The kernel's: `EOPNOTSUPP` for a socket of another kind.
pub fn set_no_delay(socket: impl AsFd, on: bool) -> io::Result<()> {
    set(socket, NO_DELAY_OPTION, u32::from(on))
}

/// Returns true if this kernel has TIPC, loaded now if it is a module that may be.
#[must_use]
pub fn is_available() -> bool {
    stream().is_ok()
}

fn stream() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::TIPC, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

fn set(socket: impl AsFd, option: libc::c_int, value: u32) -> io::Result<()> {
    crate::socket::set(socket, libc::SOL_TIPC, option, value)
}

fn checked(done: libc::c_int) -> io::Result<()> {
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tipc_or_without_the_service_the_kernel_says_so() {
        let nobody = TipcService { kind: 18_999, instance: 4_294_967_295 };
        let error = connect(nobody, Duration::from_millis(100)).expect_err("nobody offers it");
        let expected = if is_available() { libc::EHOSTUNREACH } else { libc::EAFNOSUPPORT };
        assert_eq!(error.raw_os_error(), Some(expected), "{error}");
    }
}
