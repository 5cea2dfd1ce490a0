//! Cost of feeding many sockets in ticks: N streams of one rate from one buffer over loopback, in staggered groups,
//! as the data plane does it. Prints the sender's processor time per Gbit, how much was delivered, and how late ticks were.
//!
//! `cargo run --release -p kernel --example ticks -- [streams] [bit/s] [tick ms] [groups] [seconds] [threads]`
//! (400 8800000 50 10 10 if not said; with a sixth word on ordinary system calls).

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use channel::connect;
use dataplane::port::{COMPLETIONS_MAX, Io, SendRequest, Sharing, SocketSlot, Span, Token};
use kernel::thread::{ThreadConfig, start};
use kernel::{EngineChoice, KernelIo};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, recv};
use units::{BitRate, Nanos, limits};

#[derive(Clone, Copy)]
struct Plan {
    streams: u32,
    rate: BitRate,
    tick: Nanos,
    groups: u32,
    seconds: u64,
}

struct Outcome {
    bytes: u64,
    processor: Nanos,
    late_max: Nanos,
    late_mean: Nanos,
    enters: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |n: usize, usual: u64| std::env::args().nth(n).map_or(Ok(usual), |text| text.parse());
    let plan = Plan {
        streams: u32::try_from(number(1, 400)?)?,
        rate: BitRate(number(2, 8_800_000)?),
        tick: Nanos::from_millis(number(3, 50)?),
        groups: u32::try_from(number(4, 10)?)?.max(1),
        seconds: number(5, 10)?,
    };
    let (servers, clients) = connections(&plan)?;
    let ended = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicU64::new(0));
    let receiver = {
        let (ended, received) = (Arc::clone(&ended), Arc::clone(&received));
        thread::spawn(move || receive(&clients, &ended, &received))
    };
    let (sender, outcome) = mpsc::channel();
    let cpu = thread::available_parallelism()?.get() - 1;
    let engine = if std::env::args().nth(6).is_some() { EngineChoice::Threads } else { EngineChoice::Auto };
    let config = ThreadConfig { chunk_count: 4, engine, cpu: Some(cpu), priority: Some(10), readers: 1 };
    let plane = start(config, connect(0)?.plane, move |mut io| {
        let _ = sender.send(run(&mut io, &plan, &servers)); // main waits for it
    })?;
    print!("{}", plane.permissions);
    let outcome = outcome.recv()?;
    plane.join().map_err(|_| "the sender panicked")?;
    ended.store(true, Ordering::SeqCst);
    let receiver_processor = receiver.join().map_err(|_| "the receiver panicked")??;
    report(&plan, &outcome, received.load(Ordering::SeqCst), receiver_processor);
    Ok(())
}

fn connections(plan: &Plan) -> io::Result<(Vec<OwnedFd>, Vec<TcpStream>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // As admission counts it: two ticks and 200 ms of the rate.
    let buffer = plan.rate.bytes_in(plan.tick.saturating_mul(2).saturating_add(Nanos::from_millis(200)));
    (0..plan.streams)
        .map(|_| {
            let client = TcpStream::connect(listener.local_addr()?)?;
            let (server, _) = listener.accept()?;
            server.set_nonblocking(true)?;
            socket2::SockRef::from(&server).set_send_buffer_size(usize::try_from(buffer).unwrap_or(usize::MAX))?;
            client.set_nonblocking(true)?;
            Ok((OwnedFd::from(server), client))
        })
        .collect()
}

/// Feeds each group of streams once per tick with the bytes due, derived from the start, never accumulated.
fn run(io: &mut KernelIo, plan: &Plan, servers: &[OwnedFd]) -> Outcome {
    for (slot, server) in (0..).zip(servers) {
        io.open_socket(SocketSlot(slot), server);
    }
    let mut sent = vec![0_u64; servers.len()];
    let mut pending = vec![false; servers.len()];
    let mut completions = Vec::with_capacity(COMPLETIONS_MAX);
    let epoch = io.now().saturating_add(Nanos::from_millis(100));
    let processor = io.processor_time();
    let enters = io.stats().enters;
    let steps = plan.seconds * 1_000_000_000 / plan.tick.0 * u64::from(plan.groups);
    let (mut late_max, mut late_sum) = (Nanos::ZERO, Nanos::ZERO);
    for step in 0..steps {
        let due_at = epoch.saturating_add(Nanos(step * plan.tick.0 / u64::from(plan.groups)));
        while io.now() < due_at {
            io.wait(due_at, &mut completions);
            for done in completions.drain(..) {
                let stream = usize::try_from(done.token.0).expect("it was an index");
                sent[stream] += u64::from(done.result.expect("loopback peers stay"));
                pending[stream] = false;
            }
        }
        let late = io.now().saturating_sub(due_at);
        (late_max, late_sum) = (late_max.max(late), late_sum.saturating_add(late));
        let group = u32::try_from(step % u64::from(plan.groups)).expect("below groups");
        let elapsed = plan.tick.saturating_mul(step / u64::from(plan.groups) + 1);
        for slot in (group..plan.streams).step_by(usize::try_from(plan.groups).expect("small")) {
            let stream = usize::try_from(slot).expect("small");
            let due = plan.rate.bytes_in(elapsed) - sent[stream];
            if due > 0 && !pending[stream] {
                let length = u32::try_from(due.min(limits::CHUNK_BYTES)).expect("at most a chunk");
                let memory = Span { offset: 0, length };
                io.send(SendRequest {
                    token: Token(slot.into()),
                    socket: SocketSlot(slot),
                    memory,
                    then: None,
                    sharing: Sharing::Single,
                    is_awaited: true,
                });
                pending[stream] = true;
            }
        }
    }
    let last = epoch.saturating_add(Nanos::from_secs(plan.seconds));
    while io.now() < last {
        io.wait(last, &mut completions);
        for done in completions.drain(..) {
            sent[usize::try_from(done.token.0).expect("it was an index")] += u64::from(done.result.unwrap_or(0));
        }
    }
    Outcome {
        bytes: sent.iter().sum(),
        processor: io.processor_time().saturating_sub(processor),
        late_max,
        late_mean: Nanos(late_sum.0 / steps.max(1)),
        enters: io.stats().enters - enters,
    }
}

/// Discards the bytes that arrive (`MSG_TRUNC`: without copying them); returns the processor time of that.
fn receive(clients: &[TcpStream], ended: &AtomicBool, received: &AtomicU64) -> io::Result<Nanos> {
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, client) in (0..).zip(clients) {
        epoll::add(&watch, client, epoll::EventData::new_u64(index), epoll::EventFlags::IN)?;
    }
    let mut buffer = vec![0_u8; 1 << 20];
    let mut events = Vec::with_capacity(512);
    let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !ended.load(Ordering::SeqCst) {
        events.clear();
        epoll::wait(&watch, spare_capacity(&mut events), Some(&pause))?;
        for event in &events {
            let client = &clients[usize::try_from(event.data.u64()).expect("it was an index")];
            match recv(client.as_fd(), buffer.as_mut_slice(), RecvFlags::TRUNC) {
                Ok((_, bytes)) => {
                    received.fetch_add(u64::try_from(bytes).expect("usize is at most 64 bits"), Ordering::Relaxed);
                }
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(kernel::clock::thread_processor_time())
}

#[allow(clippy::cast_precision_loss, reason = "for display")]
fn report(plan: &Plan, outcome: &Outcome, received: u64, receiver: Nanos) {
    let asked = plan.rate.bytes_in(Nanos::from_secs(plan.seconds)) * u64::from(plan.streams);
    let gbits = outcome.bytes as f64 * 8e-9;
    println!("{} streams of {}, {} in {} groups, {} s", plan.streams, plan.rate, plan.tick, plan.groups, plan.seconds);
    println!("sent / asked          {:.5}", outcome.bytes as f64 / asked as f64);
    println!("received / sent       {:.5}", received as f64 / outcome.bytes as f64);
    println!("sender   CPU s/Gbit   {:.4}", outcome.processor.as_secs_f64() / gbits);
    println!("receiver CPU s/Gbit   {:.4}", receiver.as_secs_f64() / gbits);
    println!("lateness of ticks     mean {}, worst {}", outcome.late_mean, outcome.late_max);
    println!("enters per second     {}", outcome.enters / plan.seconds.max(1));
}
