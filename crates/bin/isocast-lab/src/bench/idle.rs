//! Clients that ask for a stream and then take nothing: they must not touch those that do.
//!
//! Promise: never more than the kernel's least receive buffer is taken from the server; their answers' status is looked
//! at, not read. Not here: those that are measured (`client`).

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};
use units::Nanos;

use super::client::{ClientPlan, RunProgress, request_text};
use super::{Stop, clock};

/// Receive buffer requested; the kernel rounds it up to its least.
const BUFFER_BYTES: usize = 4096;
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Their numbers begin here, so that their sessions are not those of the viewers.
const FIRST_INDEX: usize = 1_000_000;
/// `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;

/// Opens `count` of them evenly over the ramp of `plan`, holds them to its end, and returns how many were answered 200.
pub(super) fn hold(count: usize, plan: &ClientPlan, stop: &Stop, progress: &RunProgress) -> usize {
    if count == 0 {
        return 0;
    }
    let mut sockets = Vec::with_capacity(count);
    for n in 0..count {
        let offset = u128::from(plan.ramp.0) * (n as u128) / (count as u128);
        clock::sleep_until(plan.begin.saturating_add(Nanos(u64::try_from(offset).unwrap_or(0))));
        if stop.is_set() {
            break;
        }
        let path = &plan.paths[n % plan.paths.len()];
        // A client that cannot connect is missing from the count, which the run reports.
        sockets.extend(open(plan.terms.address, &request_text(&plan.authority, path, plan.seed, FIRST_INDEX + n)));
    }
    clock::wait_until(Nanos::MAX, || stop.is_set() || clock::now() >= progress.end(plan));
    sockets.iter().filter(|socket| is_admitted(socket)).count()
}

fn open(address: SocketAddr, request: &str) -> std::io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
    rustix::net::connect(&socket, &address)?;
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(CONNECT_MAX))?;
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

fn is_admitted(socket: &TcpStream) -> bool {
    let mut start = [0_u8; STATUS_BYTES];
    let found = rustix::net::recv(socket, &mut start[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    found.is_ok_and(|(_, n)| n >= STATUS_BYTES) && start.ends_with(b" 200")
}
