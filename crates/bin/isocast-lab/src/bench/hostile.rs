//! Hostile clients during a run, which must not disturb its streams: endless heads, trickling bodies, storms of connections,
//! unread answers.
//!
//! Promise: each client acts once a second, opens a new connection when the server has closed the old one, and is counted; a
//! request of `/health` once a second checks that the server answers other clients. Not here: clients that hold an admitted
//! stream and stall (`idle`).

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use kernel::permissions;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use units::Nanos;

use super::client::{ClientPlan, RunProgress};
use super::{Stop, clock, server};

/// Number of groups of clients; each group acts at its own time of every second.
const TURNS: usize = 20;
const SECOND: Nanos = Nanos::from_secs(1);
/// Longest time of an answer to `/health`.
const HEALTH_MAX: Nanos = Nanos::from_secs(5);
/// Length of a head that exceeds the server's limit.
const HUGE_HEAD_BYTES: usize = 20 * 1024;

/// The action of a client in each second, on a connection that it keeps until the server closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Sends a byte of a head that never ends.
    SlowHead,
    /// Has requested a content, and reads none of it.
    ReadsNothing,
    /// Has requested a content, and reads one byte of it.
    ReadsBytes,
    /// Sends and reads nothing.
    Silent,
    /// Closes the connection with received bytes unread, and opens another.
    Storm,
    /// Sends bytes that are not HTTP.
    Garbage,
    /// Sends a head that is too large.
    HugeHead,
    /// Sends a byte of an upload.
    SlowBody,
}

const HABITS: [Habit; 8] = [
    Habit::SlowHead,
    Habit::ReadsNothing,
    Habit::ReadsBytes,
    Habit::Silent,
    Habit::Storm,
    Habit::Garbage,
    Habit::HugeHead,
    Habit::SlowBody,
];

/// Counts of the hostile clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostileFigures {
    /// Number of clients.
    pub clients: usize,
    /// Connections that the clients opened.
    pub connections: u64,
    /// Connections that the server closed.
    pub closed: u64,
    /// Connections that could not be opened.
    pub failed: u64,
    /// Requests of `/health` during the run.
    pub health_requests: u64,
    /// Requests of `/health` that were answered.
    pub health_answered: u64,
    /// Longest time of such an answer, ms.
    pub health_ms_max: f64,
}

struct Hostile {
    habit: Habit,
    socket: Option<TcpStream>,
}

/// Runs `count` hostile clients from the start of `plan` to its end.
///
/// # Errors
/// The machine's limits allow fewer clients.
pub(super) fn act(
    count: usize,
    plan: &ClientPlan,
    stop: &Stop,
    progress: &RunProgress,
) -> anyhow::Result<HostileFigures> {
    let mut found = HostileFigures { clients: count, ..HostileFigures::default() };
    permissions::allow_open_files((count + plan.paths.len()) as u64)?;
    let mut clients: Vec<Hostile> =
        (0..count).map(|n| Hostile { habit: HABITS[n % HABITS.len()], socket: None }).collect();
    for turn in 0.. {
        clock::sleep_until(plan.begin + Nanos(SECOND.0 / TURNS as u64 * turn));
        if count == 0 || stop.is_set() || clock::now() >= progress.end(plan) {
            break;
        }
        let turn = usize::try_from(turn % TURNS as u64)?;
        for client in clients.iter_mut().skip(turn).step_by(TURNS) {
            client.act(plan, &mut found);
        }
        if turn == 0 {
            let asked = clock::now();
            let answer = server::get(plan.terms.address, "/health", asked + HEALTH_MAX, stop);
            found.health_requests += 1;
            found.health_answered += u64::from(answer.is_some());
            found.health_ms_max = found.health_ms_max.max((clock::now().saturating_sub(asked)).as_millis_f64());
        }
    }
    Ok(found)
}

impl Hostile {
    fn act(&mut self, plan: &ClientPlan, found: &mut HostileFigures) {
        if self.habit == Habit::Storm {
            self.socket = None;
        }
        let continues = match &mut self.socket {
            Some(socket) => go_on(self.habit, socket),
            None => {
                let opened = open(self.habit, plan);
                found.connections += u64::from(opened.is_ok());
                found.failed += u64::from(opened.is_err());
                self.socket = opened.ok();
                true
            }
        };
        if !continues {
            found.closed += 1;
            self.socket = None;
        }
    }
}

fn open(habit: Habit, plan: &ClientPlan) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect(plan.terms.address)?;
    socket.set_nonblocking(true)?;
    let (host, path) = (&plan.authority, plan.paths[0].split('?').next().unwrap_or_default());
    let start = match habit {
        Habit::SlowHead => "GET / HTTP/1.1\r\n".to_owned(),
        Habit::ReadsNothing | Habit::ReadsBytes => {
            sockopt::set_socket_recv_buffer_size(&socket, 4096)?;
            format!("GET {path}?rate=max HTTP/1.1\r\nHost: {host}\r\n\r\n")
        }
        Habit::Silent | Habit::Storm => String::new(),
        Habit::Garbage => "\u{16}\u{3}\u{1} no request\r\n\r\n".to_owned(),
        Habit::HugeHead => format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(HUGE_HEAD_BYTES)),
        Habit::SlowBody => format!("PUT {path}.hostile HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000\r\n\r\n"),
    };
    socket.write_all(start.as_bytes())?;
    Ok(socket)
}

/// Performs the habit's action of one second. Returns whether the connection is still open.
fn go_on(habit: Habit, socket: &mut TcpStream) -> bool {
    let wrote = match habit {
        Habit::SlowHead | Habit::SlowBody => socket.write(b"x").map(drop),
        _ => Ok(()),
    };
    let is_fatal = |error: &std::io::Error| error.kind() != ErrorKind::WouldBlock;
    if wrote.is_err_and(|error| is_fatal(&error)) {
        return false;
    }
    match habit {
        // The end of the connection is behind unread bytes, so this client never sees it.
        Habit::ReadsNothing => true,
        Habit::ReadsBytes => socket.read(&mut [0]).map_or_else(|error| !is_fatal(&error), |n| n > 0),
        _ => socket.read(&mut [0; 4096]).map_or_else(|error| !is_fatal(&error), |n| n > 0),
    }
}
