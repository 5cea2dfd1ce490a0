//! The thread of a disk: requests as they come, and writes, commits and steps on grants of the disk's schedule.
//!
//! Promise: it waits for nothing but requests and grants, so only the disk can hold it up; how long it has been at one step shows
//! ([`DiskShared::is_stuck`]). Not here: the work itself, which a [`Backend`] does; the decision on grants (`schedule`).

use std::sync::Arc;
use std::time::Duration;

use kernel::clock::monotonic;
use storage::grant::Grant;
use storage::uploads::{Granted, UploadFile, Uploads};
use units::{Nanos, UploadId, limits};

use crate::StoreError;
use crate::grants::GrantPort;
use crate::operation::ReplyTo;
use crate::shared::DiskShared;

/// The thread's longest sleep; requests and grants wake it, this is for gauges, rescans, and roots that go and come.
const NAP: Duration = Duration::from_secs(1);

/// Time until a message is tried again for which the schedule had no room.
const RETRY: Duration = Duration::from_millis(5);

/// Outcome of a look at the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// There may be more at once.
    More,
    /// All were taken.
    Taken,
    /// There will be none any more: the thread ends.
    Over,
}

/// The work of a disk's thread, for one kind of disk.
pub trait Backend {
    /// An upload to the disk.
    type File: UploadFile;
    /// A removal that a commit makes durable.
    type Removal;

    /// The uploads, the commits, and the messages on them that the schedule has not taken yet.
    fn uploads(&mut self) -> &mut Uploads<Self::File, Self::Removal>;

    /// Does the requests that wait, or some of them.
    fn take_requests(&mut self) -> Requests;

    /// Offers the work that is no upload's.
    fn offer(&mut self);

    /// Writes to an upload, no piece after `until`.
    fn write(&mut self, upload: UploadId, offset: u64, bytes: u64, until: Nanos);

    /// Makes durable all that waits for it.
    fn commit(&mut self);

    /// Does a step of the work that is no upload's, and begins no read after `until`.
    fn step(&mut self, until: Nanos);

    /// No grant will come any more: each waiting client gets its answer.
    fn give_up(&mut self);

    /// Renews the gauges, after each turn.
    fn refresh(&mut self) {}

    /// The thread ends, and needs its way to the schedule no more.
    fn leave(self, port: Box<dyn GrantPort>);
}

/// See the module.
pub struct DiskThread<B> {
    shared: Arc<DiskShared>,
    port: Box<dyn GrantPort>,
    backend: B,
}

impl<B: Backend> DiskThread<B> {
    /// The thread of a disk that gets its grants from `port`.
    pub fn new(shared: Arc<DiskShared>, port: Box<dyn GrantPort>, backend: B) -> Self {
        Self { shared, port, backend }
    }

    /// The thread's life.
    pub fn run(mut self) {
        loop {
            self.shared.set_busy(true);
            let requests = self.backend.take_requests();
            if requests == Requests::Over {
                break;
            }
            let is_granted = self.turn();
            self.shared.set_busy(false);
            if requests == Requests::Taken && !is_granted {
                let nap = self.nap();
                self.port.wait(nap);
            }
        }
        self.send_messages();
        self.shared.set_busy(false);
        self.backend.leave(self.port);
    }

    /// Offers what is to be done, and does what is granted. True if something was.
    fn turn(&mut self) -> bool {
        if self.port.is_closed() {
            self.backend.give_up();
        }
        self.backend.offer();
        self.backend.uploads().begin_blocks(monotonic());
        self.send_messages();
        let granted = self.port.grant();
        if let Some(grant) = granted {
            self.shared.set_busy(true); // a new thing begins: patience is counted from here
            self.use_grant(grant);
            self.backend.offer();
            self.send_messages();
        }
        self.shared.stats.dirty_bytes.set(self.backend.uploads().dirty_bytes());
        self.backend.refresh();
        granted.is_some()
    }

    fn send_messages(&mut self) {
        let port = &mut self.port;
        self.backend.uploads().send_messages(|message| port.send(message));
    }

    fn use_grant(&mut self, grant: Grant) {
        match self.backend.uploads().granted(grant, monotonic()) {
            Granted::Late => {}
            Granted::Unused => self.shared.stats.grants_unused.add(1),
            Granted::Write { upload, offset, bytes } => {
                debug_assert!(bytes <= grant.bytes_max, "no more is written than granted");
                debug_assert!(
                    bytes > 0
                        && bytes.is_multiple_of(limits::DIRECT_ALIGN)
                        && offset.is_multiple_of(limits::DIRECT_ALIGN),
                    "a direct write takes it"
                );
                self.backend.write(upload, offset, bytes, grant.until);
            }
            Granted::Commit => {
                self.shared.stats.commits.add(1);
                self.backend.commit();
            }
            Granted::Chore => {
                self.backend.step(grant.until);
                self.backend.uploads().chore_done(monotonic());
            }
        }
        debug_assert!(
            !self.backend.uploads().has_grant(),
            "the schedule gives the next grant when this one is answered"
        );
    }

    /// For how long it may sleep: until its messages are tried again, or a block of a recording is due.
    fn nap(&mut self) -> Duration {
        let uploads = self.backend.uploads();
        let block = uploads.next_block().map(|at| Duration::from_nanos(at.saturating_sub(monotonic()).0));
        let longest = if uploads.has_messages() { RETRY } else { NAP };
        block.map_or(longest, |block| block.min(longest))
    }
}

/// Answers with the result of `work`, which is not begun if no caller waits for it any more.
pub fn answer<T>(reply: ReplyTo<T>, work: impl FnOnce() -> Result<T, StoreError>) {
    if !reply.is_closed() {
        drop(reply.send(work()));
    }
}
