//! Callers that wait until a change of a volume is durable, and their answers.

use store::event::StoreEvent;
use store::operation::{ChangeReply, tell_end};
use store::shared::DiskShared;
use store::{ContentPath, Published, StoreError};

/// A caller that waits until a change is durable.
pub(super) enum Waiter {
    Upload {
        path: ContentPath,
        published: Published,
        reply: Option<ChangeReply<Published>>,
    },
    /// A recording that a crash left has its name.
    Recovered {
        path: ContentPath,
        bytes: u64,
    },
    Removal(ChangeReply<()>),
}

impl Waiter {
    /// Answers the client with the outcome; writes to the log if no client waits for it any more.
    pub(super) fn answer(self, durable: Result<(), StoreError>, front: &DiskShared) {
        let durable = durable.map_err(|_| front.unsettled());
        match self {
            Self::Removal(reply) => reply.send(durable),
            Self::Recovered { path, bytes } => front.events.tell(match durable {
                Ok(()) => StoreEvent::RecordingKept { path, bytes, after_restart: true },
                Err(why) => StoreEvent::RecordingLost { path, why },
            }),
            Self::Upload { path, published, reply } => tell_end(path, reply, durable.map(|()| published), front),
        }
    }
}
