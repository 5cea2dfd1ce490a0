//! Advice on limits of the system that keep the server from starting.

use std::io;
use std::net::SocketAddr;

use kernel::permissions::OPEN_FILES;
use rustix::io::Errno;

/// The error with its remedy in front, if a limit is its cause and nothing says so yet.
pub(super) fn with_advice(error: anyhow::Error) -> anyhow::Error {
    let said = format!("{error:#}");
    let errno = error.chain().find_map(|cause| {
        let of_io = cause.downcast_ref::<std::io::Error>().and_then(Errno::from_io_error);
        of_io.or_else(|| cause.downcast_ref::<Errno>().copied())
    });
    match errno.and_then(advice) {
        Some(advice) if !said.contains("ulimit") => error.context(advice),
        _ => error,
    }
}

/// The remedy for an address that cannot be listened on.
pub(super) fn on_listening(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program has it: end that, or name another port with `--listen`".to_owned(),
        io::ErrorKind::AddrNotAvailable => format!("{} is no address of this machine", address.ip()),
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE (systemd: `AmbientCapabilities=CAP_NET_BIND_SERVICE`), or root; others do not"
                .to_owned()
        }
        _ => "name another address with `--listen`".to_owned(),
    }
}

fn advice(errno: Errno) -> Option<String> {
    match errno {
        Errno::MFILE | Errno::NFILE => Some(format!(
            "more files must be open at once than is permitted: raise the limit (`ulimit -n {OPEN_FILES}`, systemd: \
             `LimitNOFILE={OPEN_FILES}`)"
        )),
        Errno::NOMEM => Some(
            "there is less memory than the server is to have: permit more (`ulimit -v unlimited`, systemd: \
             `LimitAS=infinity`, `MemoryMax=`), or give it less (`--set plane.memory=64MiB`); up to 640 MiB of address \
             space, a quarter of a small memory, are for uploads"
                .to_owned(),
        ),
        Errno::AGAIN => Some(
            "no more threads can be started: raise the limits of processes and of address space (`ulimit -u`, `ulimit -v`, systemd: \
             `TasksMax=`, `LimitAS=`)"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn why_an_address_cannot_be_had() {
        let said = |errno: Errno| on_listening("192.0.2.1:80".parse().expect("an address"), &io::Error::from(errno));
        assert!(said(Errno::ADDRINUSE).contains("another program"));
        assert!(said(Errno::ADDRNOTAVAIL).contains("192.0.2.1"));
        assert!(said(Errno::ACCESS).contains("CAP_NET_BIND_SERVICE"));
    }

    #[test]
    fn limits_are_named_once() {
        let error = |errno: Errno| anyhow::Error::from(io::Error::from(errno)).context("cannot do this");
        for (errno, word) in [(Errno::MFILE, "ulimit -n"), (Errno::NOMEM, "ulimit -v"), (Errno::AGAIN, "ulimit -u")] {
            let said = format!("{:#}", with_advice(error(errno)));
            assert!(said.contains(word) && said.contains("cannot do this"), "{said}");
        }
        assert_eq!(with_advice(error(Errno::NOENT)).to_string(), "cannot do this");
        let known = Err::<(), _>(error(Errno::MFILE)).context("raise `ulimit -n`").expect_err("an error");
        assert_eq!(with_advice(known).to_string(), "raise `ulimit -n`");
    }
}
