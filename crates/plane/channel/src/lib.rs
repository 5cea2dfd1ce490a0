//! The bounded queues between the plane thread and the rest of the process: commands in, reports out; store messages
//! in, grants out.
//!
//! Promise: nothing here allocates, locks or waits on the plane's side; a full queue gives the message back; each push
//! wakes its receiver; the end of the plane wakes every other end, which finds it closed ([`PlaneHandle::is_closed`]).
//! Not here: the messages (`dataplane::control`, `storage::grant`), and the thread itself (`kernel::thread`).

mod eventfd_waker;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use dataplane::control::{Command, Report};
use storage::grant::{Grant, StoreMessage};
use units::{DiskId, limits};

use eventfd_waker::EventFdWaker;

/// Commands that can wait for the plane.
pub const COMMANDS_MAX: usize = 4096;
/// Reports that can wait for the control plane: a start, a send and an end of every stream.
pub const REPORTS_MAX: usize = 3 * limits::STREAMS_MAX;
/// Messages of all store threads that can wait for the plane: an offer for every upload, and as many withdrawals.
pub const STORE_MESSAGES_MAX: usize = 4 * limits::UPLOADS_MAX;
/// Grants that can wait for one store thread: one is out at a time, and an earlier one that came too late may still be queued.
const GRANTS_MAX: usize = 4;

/// Both ends of all queues.
pub struct ChannelEnds {
    /// End of the thread that runs the plane (`kernel::KernelIo`).
    pub plane: PlaneLink,
    /// End of the code that starts streams.
    pub handle: PlaneHandle,
    /// End of the one task that receives reports.
    pub reports: ReportReceiver,
    /// Ends of the disks' store threads, in the order of [`DiskId`].
    pub stores: Vec<StorePort>,
}

/// Makes the queues for disks `0..disks`.
///
/// # Errors
/// The kernel's error, if there are no more descriptors; `InvalidInput` for more than [`limits::DISKS_MAX`] disks.
pub fn connect(disks: u16) -> io::Result<ChannelEnds> {
    if usize::from(disks) > limits::DISKS_MAX {
        let what = format!("{disks} disks are more than the {} that one plane can schedule", limits::DISKS_MAX);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let shared = Arc::new(ChannelShared {
        drains: AtomicBool::new(false),
        shuts_down: AtomicBool::new(false),
        commands: ArrayQueue::new(COMMANDS_MAX),
        messages: ArrayQueue::new(STORE_MESSAGES_MAX),
        reports: ArrayQueue::new(REPORTS_MAX),
        plane_waker: EventFdWaker::new()?,
        report_waker: EventFdWaker::new()?,
        closed: AtomicBool::new(false),
    });
    let stores: Vec<StorePort> = (0..disks)
        .map(|disk| {
            let channel = Arc::new(GrantChannel { grants: ArrayQueue::new(GRANTS_MAX), waker: EventFdWaker::new()? });
            Ok(StorePort { disk: DiskId(disk), channel, shared: Arc::clone(&shared) })
        })
        .collect::<io::Result<_>>()?;
    let channels = stores.iter().map(|store| Arc::clone(&store.channel)).collect();
    Ok(ChannelEnds {
        plane: PlaneLink { shared: Arc::clone(&shared), channels },
        handle: PlaneHandle { shared: Arc::clone(&shared) },
        reports: ReportReceiver { shared },
        stores,
    })
}

#[derive(Debug)]
struct ChannelShared {
    /// The commands `Drain` and `Shutdown` as flags: they need no room in the queue and overtake all other commands, so that a
    /// full queue does not lose them.
    drains: AtomicBool,
    shuts_down: AtomicBool,
    commands: ArrayQueue<Command>,
    messages: ArrayQueue<StoreMessage>,
    reports: ArrayQueue<Report>,
    plane_waker: EventFdWaker,
    report_waker: EventFdWaker,
    /// The plane has ended.
    closed: AtomicBool,
}

#[derive(Debug)]
struct GrantChannel {
    grants: ArrayQueue<Grant>,
    waker: EventFdWaker,
}

/// The plane's end. Dropped when the plane ends: then every other end is woken and finds it closed.
#[derive(Debug)]
pub struct PlaneLink {
    shared: Arc<ChannelShared>,
    channels: Box<[Arc<GrantChannel>]>,
}

impl PlaneLink {
    /// The next command, if one waits.
    #[must_use]
    pub fn command(&self) -> Option<Command> {
        if self.shared.shuts_down.load(Ordering::SeqCst) {
            return Some(Command::Shutdown);
        }
        let drains = self.shared.drains.swap(false, Ordering::SeqCst);
        if drains { Some(Command::Drain) } else { self.shared.commands.pop() }
    }

    /// The next message of a store thread, if one waits.
    #[must_use]
    pub fn store_message(&self) -> Option<StoreMessage> {
        self.shared.messages.pop()
    }

    /// Queues a report and wakes its receiver.
    ///
    /// # Errors
    /// The report, if the queue is full.
    pub fn report(&self, report: Report) -> Result<(), Report> {
        self.shared.reports.push(report)?;
        self.shared.report_waker.wake();
        Ok(())
    }

    /// Hands a grant to the store thread of its disk and wakes it.
    ///
    /// # Panics
    /// If the disk has more than one grant out.
    pub fn grant(&self, grant: Grant) {
        let channel = &self.channels[usize::from(grant.disk.0)];
        // The plane has one grant out per disk, so this queue fills up only if that rule is broken.
        channel.grants.push(grant).expect("at most one grant per disk is out");
        channel.waker.wake();
    }

    /// Number of connected disks.
    #[must_use]
    pub fn disks(&self) -> usize {
        self.channels.len()
    }

    /// Acknowledges the wakes so far, so that the next wake writes an event again. Call it before draining the queues: the
    /// plane watches its descriptor for *edges*, and a wake makes one only after an acknowledgement.
    pub fn acknowledge(&self) {
        self.shared.plane_waker.acknowledge();
    }

    /// Returns a handle with which other threads can wake the plane.
    #[must_use]
    pub fn waker(&self) -> PlaneWaker {
        PlaneWaker(Arc::clone(&self.shared))
    }
}

/// The descriptor that the plane waits for.
impl AsFd for PlaneLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.plane_waker.as_fd()
    }
}

impl Drop for PlaneLink {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.report_waker.wake();
        for channel in &self.channels {
            channel.waker.wake();
        }
        // The sockets of deliveries left in the queue are closed here, not when the last handle goes.
        while self.shared.commands.pop().is_some() {}
    }
}

/// Wakes the plane.
#[derive(Debug, Clone)]
pub struct PlaneWaker(Arc<ChannelShared>);

impl PlaneWaker {
    /// Wakes it. Never blocks.
    pub fn wake(&self) {
        self.0.plane_waker.wake();
    }
}

/// Sends commands to the plane. Clones refer to the same plane.
#[derive(Debug, Clone)]
pub struct PlaneHandle {
    shared: Arc<ChannelShared>,
}

impl PlaneHandle {
    /// Queues a command and wakes the plane.
    ///
    /// # Errors
    /// The command, if the plane has ended or the queue is full (the caller answers 503). A drain or a shutdown never meets a full queue.
    pub fn send(&self, command: Command) -> Result<(), Command> {
        if self.is_closed() {
            return Err(command);
        }
        match command {
            Command::Drain => self.shared.drains.store(true, Ordering::SeqCst),
            Command::Shutdown => self.shared.shuts_down.store(true, Ordering::SeqCst),
            command => self.shared.commands.push(command)?,
        }
        self.shared.plane_waker.wake();
        Ok(())
    }

    /// True once the plane has ended: no further report will come.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::SeqCst)
    }
}

/// Takes the plane's reports.
#[derive(Debug)]
pub struct ReportReceiver {
    shared: Arc<ChannelShared>,
}

impl ReportReceiver {
    /// The next report, if one waits.
    #[must_use]
    pub fn try_recv(&self) -> Option<Report> {
        self.shared.reports.pop().or_else(|| {
            self.shared.report_waker.reset();
            self.shared.reports.pop()
        })
    }

    /// Blocks until a report comes. `None`: the timeout passed, or the plane has ended.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Report> {
        let deadline = Instant::now() + timeout;
        loop {
            let is_closed = self.is_closed();
            let left = deadline.saturating_duration_since(Instant::now());
            let report = self.try_recv();
            if report.is_some() || is_closed || left.is_zero() {
                return report;
            }
            self.shared.report_waker.wait(Some(left));
        }
    }

    /// True once the plane has ended. Reports may still wait.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::SeqCst)
    }
}

/// A store thread's end.
#[derive(Debug)]
pub struct StorePort {
    disk: DiskId,
    channel: Arc<GrantChannel>,
    shared: Arc<ChannelShared>,
}

/// Reason that [`StorePort::next_grant_or_wake`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A grant.
    Grant(Grant),
    /// The [`Waker`] was used, or the plane has ended: the caller checks its own queue and [`StorePort::is_closed`]. May be
    /// spurious.
    Woken,
    /// The timeout passed.
    TimedOut,
}

impl StorePort {
    /// Returns the disk of this port.
    #[must_use]
    pub fn disk(&self) -> DiskId {
        self.disk
    }

    /// Sends a message to the schedule, and wakes the plane.
    ///
    /// # Errors
    /// The message, if the queue is full (try again after the next wake or timeout) or the plane has ended.
    pub fn message(&self, message: StoreMessage) -> Result<(), StoreMessage> {
        if self.is_closed() {
            return Err(message);
        }
        self.shared.messages.push(message)?;
        self.shared.plane_waker.wake();
        Ok(())
    }

    /// A grant, if one waits.
    #[must_use]
    pub fn try_grant(&self) -> Option<Grant> {
        self.channel.grants.pop()
    }

    /// Waits for a grant, a [`Waker`], or the end of `timeout` (`None`: no end). A waiting grant is returned first.
    #[must_use]
    pub fn next_grant_or_wake(&self, timeout: Option<Duration>) -> Wake {
        if let Some(grant) = self.try_grant() {
            return Wake::Grant(grant);
        }
        let woken = self.channel.waker.wait(timeout);
        self.channel.waker.reset();
        match self.try_grant() {
            Some(grant) => Wake::Grant(grant),
            None if woken => Wake::Woken,
            None => Wake::TimedOut,
        }
    }

    /// Returns a handle that wakes this port's thread, for the thread's other queues: push first, then wake.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.channel))
    }

    /// True once the plane has ended: no grant will come any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::SeqCst)
    }
}

/// Wakes a store thread out of [`StorePort::next_grant_or_wake`]. A wake while it does not wait is kept for its next wait.
#[derive(Debug, Clone)]
pub struct Waker(Arc<GrantChannel>);

impl Waker {
    /// Wakes it. Never blocks.
    pub fn wake(&self) {
        self.0.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use dataplane::control::Event;
    use storage::grant::JobId;
    use units::{Nanos, StreamId};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn grant(disk: u16) -> Grant {
        Grant { disk: DiskId(disk), job: JobId(1), bytes_max: 4096, until: Nanos(1) }
    }

    #[test]
    fn a_full_queue_gives_the_command_back() {
        let links = connect(0).unwrap();
        for n in 0..COMMANDS_MAX {
            links.handle.send(Command::Stop(StreamId(u64::try_from(n).unwrap()))).unwrap();
        }
        let one_more = links.handle.send(Command::Stop(StreamId(0)));
        assert!(matches!(one_more, Err(Command::Stop(_))));
        assert!(matches!(links.plane.command(), Some(Command::Stop(StreamId(0)))));
        links.handle.send(Command::Stop(StreamId(0))).unwrap();
    }

    #[test]
    fn that_the_plane_is_to_end_passes_a_full_queue() {
        let links = connect(0).unwrap();
        while links.handle.send(Command::Stop(StreamId(1))).is_ok() {}
        links.handle.send(Command::Drain).unwrap();
        assert!(matches!(links.plane.command(), Some(Command::Drain)));
        assert!(matches!(links.plane.command(), Some(Command::Stop(_))));
        links.handle.send(Command::Shutdown).unwrap();
        assert!(matches!(links.plane.command(), Some(Command::Shutdown)));
    }

    #[test]
    fn reports_wake_a_blocked_receiver_and_the_end_does_too() {
        let ChannelEnds { plane, reports, .. } = connect(0).unwrap();
        let receiver = thread::spawn(move || (reports.recv_timeout(LONG), reports.recv_timeout(LONG), reports));
        plane.report(Report::Event(Event::DiskRecovered { disk: DiskId(3) })).unwrap();
        drop(plane);
        let (first, second, reports) = receiver.join().unwrap();
        assert!(matches!(first, Some(Report::Event(Event::DiskRecovered { disk: DiskId(3) }))));
        assert!(second.is_none() && reports.is_closed());
    }

    #[test]
    fn a_drained_receiver_is_not_readable_and_misses_nothing() {
        let ChannelEnds { plane, reports, .. } = connect(0).unwrap();
        for round in 0..3 {
            assert!(!plane.shared.report_waker.wait(Some(Duration::ZERO)), "round {round}");
            plane.report(Report::Event(Event::DiskRecovered { disk: DiskId(1) })).unwrap();
            plane.report(Report::Event(Event::DiskRecovered { disk: DiskId(2) })).unwrap();
            assert!(plane.shared.report_waker.wait(Some(Duration::ZERO)));
            assert!(reports.try_recv().is_some() && reports.try_recv().is_some() && reports.try_recv().is_none());
        }
    }

    #[test]
    fn grants_reach_their_own_disk_and_wakes_are_kept() {
        let ChannelEnds { plane, stores, .. } = connect(2).unwrap();
        plane.grant(grant(1));
        assert_eq!(stores[0].try_grant(), None);
        assert_eq!(stores[1].next_grant_or_wake(None), Wake::Grant(grant(1)));
        assert_eq!(stores[1].next_grant_or_wake(None), Wake::Woken, "the grant's ring, which was not waited for");
        assert_eq!(stores[1].next_grant_or_wake(Some(Duration::ZERO)), Wake::TimedOut);
        stores[0].waker().wake();
        assert_eq!(stores[0].next_grant_or_wake(None), Wake::Woken);
        assert_eq!(stores[0].next_grant_or_wake(Some(Duration::ZERO)), Wake::TimedOut);
    }

    #[test]
    fn a_store_thread_that_waits_is_woken_by_a_grant_and_by_the_end() {
        let ChannelEnds { plane, mut stores, .. } = connect(1).unwrap();
        let port = stores.pop().unwrap();
        let store = thread::spawn(move || {
            let first = loop {
                if let Wake::Grant(grant) = port.next_grant_or_wake(None) {
                    break grant;
                }
            };
            while !port.is_closed() {
                let _ = port.next_grant_or_wake(None);
            }
            first
        });
        plane.grant(grant(0));
        drop(plane);
        assert_eq!(store.join().unwrap(), grant(0));
    }

    #[test]
    fn after_the_end_nothing_is_taken() {
        let ChannelEnds { plane, handle, stores, .. } = connect(1).unwrap();
        drop(plane);
        assert!(handle.is_closed() && handle.send(Command::Drain).is_err());
        assert!(stores[0].message(StoreMessage::Withdraw { disk: DiskId(0), job: JobId(0) }).is_err());
        assert!(connect(u16::MAX).is_err());
    }
}
