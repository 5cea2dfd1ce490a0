//! Advice on an address that cannot be connected to, or listened at.

use std::io::ErrorKind;

use net::ConnectError;
use net::greeting::GreetingError;
use rustix::io::Errno;

/// Remedy where this kernel has no TIPC.
pub(super) const NO_TIPC: &str = "this kernel has no TIPC here: as root on both machines `modprobe tipc`, then `tipc node set \
    address 1.1.N` and `tipc bearer enable media eth device DEV`; or try it in the guests of `isocast lab net up`; \
    --transport tcp works everywhere";

/// Remedy for `error` at a place of `transport`; `None` where the error itself says everything.
pub(super) fn connecting(transport: &str, error: &std::io::Error) -> Option<&'static str> {
    let known = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    Some(match error.kind() {
        _ if transport == "tipc" && known(Errno::AFNOSUPPORT) => NO_TIPC,
        ErrorKind::HostUnreachable if transport == "tipc" => {
            "no node of the cluster offers this service: start `isocast net serve --listen tipc:…` there, and see that \
             `tipc link list` says `up`"
        }
        ErrorKind::ConnectionRefused | ErrorKind::NotFound if transport == "unix" => {
            "no program listens there: start `isocast net serve --listen unix:PATH` first, on this machine"
        }
        ErrorKind::PermissionDenied if transport == "unix" => {
            "the socket is its owner's alone: run both as the same user"
        }
        ErrorKind::ConnectionRefused => {
            "no program listens there: start `isocast net serve --listen ADDR` on that machine first"
        }
        ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "no answer: the machine is off, the address is wrong, or a firewall is in between"
        }
        _ => return None,
    })
}

/// `error` with its remedy.
pub(super) fn advised(transport: &str, error: ConnectError) -> anyhow::Error {
    if let ConnectError::Unreachable(_, source) = &error
        && let Some(advice) = connecting(transport, source)
    {
        return anyhow::anyhow!("{error}: {source}; {advice}");
    }
    if let ConnectError::Greeting(place, GreetingError::Io(io)) = &error {
        return anyhow::anyhow!("{place}: no greeting came ({io}); is it `isocast net serve` that listens there?");
    }
    error.into()
}

/// Remedy for `error` when listening.
pub(super) fn listening(transport: &str, error: &std::io::Error) -> &'static str {
    match error.kind() {
        _ if transport == "tipc" && error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => NO_TIPC,
        ErrorKind::AddrInUse => "another program listens there already: choose another address, or end it",
        ErrorKind::PermissionDenied => "not permitted: choose a port of 1024 or more, or a folder you may write to",
        ErrorKind::AddrNotAvailable => "this machine has no such address: see `ip address`",
        _ => "choose another address",
    }
}
