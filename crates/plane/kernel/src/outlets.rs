//! The plane's side of outlets: their readers copy from the arena, and queue the completions of their sends here.
//!
//! Promise: as many completions fit as there are slots, so a reader never waits. The arena lives as long as a reader does. Not here: the
//! states of a send (`dataplane::outlet`).

use std::sync::Arc;

use channel::PlaneWaker;
use crossbeam_queue::ArrayQueue;
use dataplane::outlet::OutletHost;
use dataplane::port::{IoFault, Span, Token};
use units::limits;

use crate::arena::Arena;

/// What all outlets of a plane share.
#[derive(Debug)]
pub(crate) struct Outlets {
    arena: Arc<Arena>,
    done: ArrayQueue<(Token, Result<u32, IoFault>)>,
    plane: PlaneWaker,
}

impl Outlets {
    pub(crate) fn new(arena: &Arc<Arena>, plane: PlaneWaker) -> Self {
        Self { arena: Arc::clone(arena), done: ArrayQueue::new(limits::STREAMS_MAX), plane }
    }

    /// True if a completion waits.
    pub(crate) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// The next completion, if one waits.
    pub(crate) fn next_done(&self) -> Option<(Token, Result<u32, IoFault>)> {
        self.done.pop()
    }
}

impl OutletHost for Outlets {
    fn append(&self, memory: Span, bytes: &mut Vec<u8>) {
        self.arena.append(memory, bytes);
    }

    fn done(&self, token: Token, result: Result<u32, IoFault>, is_awaited: bool) {
        self.done.push((token, result)).expect("each slot has one send");
        if is_awaited {
            self.plane.wake();
        }
    }
}
