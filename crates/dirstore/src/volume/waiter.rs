//! Who waits until a change of a volume is durable, and what they are told.

use crate::event::StoreEvent;
use crate::operation::ChangeReply;
use crate::shared::DiskShared;
use crate::{ContentPath, Published, StoreError};

/// Somebody who waits until a change is durable.
pub(super) enum Waiter {
    Upload { path: ContentPath, published: Published, reply: Option<ChangeReply<Published>> },
    Removal(ChangeReply<()>),
}

impl Waiter {
    /// Tells the client what became of it; of what nobody waits for any more, the log.
    pub(super) fn answer(self, durable: Result<(), StoreError>, front: &DiskShared) {
        let durable = durable.map_err(|_| StoreError::Unsettled(front.id));
        match self {
            Self::Removal(reply) => reply.send(durable),
            Self::Upload { path, published, reply } => {
                let stats = &front.stats;
                if durable.is_ok() { &stats.uploads_published } else { &stats.uploads_failed }.add(1);
                let outcome = durable.map(|()| published);
                match reply.filter(|reply| !reply.is_closed()) {
                    Some(reply) => reply.send(outcome),
                    // Its client is gone, and it is kept.
                    None => front.events.tell(match outcome {
                        Ok(published) => {
                            StoreEvent::RecordingKept { path, bytes: published.size, after_restart: false }
                        }
                        Err(why) => StoreEvent::RecordingLost { path, why },
                    }),
                }
            }
        }
    }
}
