//! Parts of a disk's thread that do not depend on the kind of its disk.

use std::time::Duration;

use kernel::clock::monotonic;
use storage::uploads::{UploadFile, Uploads};

use crate::StoreError;
use crate::operation::ReplyTo;

/// The thread's longest sleep; operations and grants wake it, this is for gauges, rescans, and roots
/// that go and come.
const NAP: Duration = Duration::from_secs(1);

/// Time until a message is tried again for which the schedule had no room.
const RETRY: Duration = Duration::from_millis(5);

/// Answers with the result of `work`, which is not begun if no caller waits for it any more.
pub fn answer<T>(reply: ReplyTo<T>, work: impl FnOnce() -> Result<T, StoreError>) {
    if !reply.is_closed() {
        drop(reply.send(work()));
    }
}

/// For how long a disk's thread may sleep: until its messages are tried again, or a block of a recording is due.
#[must_use]
pub fn nap<F: UploadFile, R>(uploads: &Uploads<F, R>) -> Duration {
    let block = uploads.next_block().map(|at| Duration::from_nanos(at.saturating_sub(monotonic()).0));
    let longest = if uploads.has_messages() { RETRY } else { NAP };
    block.map_or(longest, |block| block.min(longest))
}
