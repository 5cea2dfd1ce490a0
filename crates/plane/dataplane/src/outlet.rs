//! Outlets: a delivery to a task of this process takes its bytes from the arena itself, without a socket between.
//!
//! Promise: a send to an outlet completes once, when the reader has taken all of it, when it is cancelled or when the reader is gone;
//! its memory is read in between only. Neither end waits for the other, and there is no lock. Not here: the memory, the queue of
//! completions ([`OutletHost`], in `kernel`), and the task that waits (`service::pipeline`). See decisions/0068.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::request::{IoFault, Span, Token};

/// State: no send is out. Chosen.
const FREE: u8 = 0;
/// State: a send is out. Chosen.
const POSTED: u8 = 1;
/// State: the reader takes bytes of the send. Chosen.
const TAKING: u8 = 2;
/// State: the reader takes bytes of a send that was cancelled. Chosen.
const CANCELLED: u8 = 3;
/// State: the reader is gone. Chosen.
const CLOSED: u8 = 4;

/// The plane's side of all outlets, as their readers see it.
pub trait OutletHost: std::fmt::Debug + Send + Sync {
    /// Appends the bytes of `memory`, for which a send is out.
    fn append(&self, memory: Span, bytes: &mut Vec<u8>);

    /// A send is over; `is_awaited` if the plane waits for that and is to be woken.
    fn done(&self, token: Token, result: Result<u32, IoFault>, is_awaited: bool);
}

/// The end of a delivery within the process: the plane posts sends, one at a time, and one reader takes them.
#[derive(Debug, Default)]
pub struct Outlet {
    state: AtomicU8,
    token: AtomicU64,
    offset: AtomicU64,
    length: AtomicU32,
    /// Bytes of the send that the reader has taken.
    taken: AtomicU32,
    is_awaited: AtomicBool,
    host: OnceLock<Arc<dyn OutletHost>>,
}

impl Outlet {
    /// The plane's side, before the first send.
    pub fn attach(&self, host: &Arc<dyn OutletHost>) {
        // A delivery that was refused comes again, to the same plane.
        let _ = self.host.set(Arc::clone(host));
    }

    /// Posts a send of `memory`, of which the end is awaited or not. False if the reader is gone: then nothing completes.
    ///
    /// # Panics
    /// If one is out.
    pub fn post(&self, token: Token, memory: Span, is_awaited: bool) -> bool {
        self.token.store(token.0, Ordering::Relaxed);
        self.offset.store(memory.offset, Ordering::Relaxed);
        self.length.store(memory.length, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.is_awaited.store(is_awaited, Ordering::Relaxed);
        let posted = self.passes(FREE, POSTED);
        assert!(posted || self.state.load(Ordering::Relaxed) == CLOSED, "one send at a time");
        posted
    }

    /// Cancels the send that is out, if it is. It completes at once, or with the bytes that the reader takes at this moment.
    pub fn cancel(&self) {
        self.is_awaited.store(true, Ordering::Relaxed);
        loop {
            match self.state.load(Ordering::Acquire) {
                POSTED if self.passes(POSTED, FREE) => {
                    let taken = self.taken.load(Ordering::Relaxed);
                    return self.complete(if taken == 0 { Err(IoFault::Cancelled) } else { Ok(taken) });
                }
                TAKING if self.passes(TAKING, CANCELLED) => return,
                POSTED | TAKING => {} // the reader was faster, and is at most as many steps ahead as a send has pieces
                _ => return,          // it has completed
            }
        }
    }

    /// For the reader: appends up to `most` bytes of the send that is out to `bytes`. True if some of it are left.
    ///
    /// # Panics
    /// Before [`Outlet::attach`].
    pub fn take(&self, most: u32, bytes: &mut Vec<u8>) -> bool {
        if !self.passes(POSTED, TAKING) {
            return false;
        }
        let (length, before) = (self.length.load(Ordering::Relaxed), self.taken.load(Ordering::Relaxed));
        let taken = length.min(before.saturating_add(most));
        let offset = self.offset.load(Ordering::Relaxed) + u64::from(before);
        self.host().append(Span { offset, length: taken - before }, bytes);
        self.taken.store(taken, Ordering::Relaxed);
        if taken < length && self.passes(TAKING, POSTED) {
            return true;
        }
        // First free, then complete: the plane then posts the next one.
        self.state.store(FREE, Ordering::Release);
        self.complete(Ok(taken));
        false
    }

    /// The reader is gone. It is the last call of the reader.
    pub fn close(&self) {
        if self.state.swap(CLOSED, Ordering::AcqRel) == POSTED {
            self.is_awaited.store(true, Ordering::Relaxed);
            self.complete(Err(IoFault::Gone));
        }
    }

    fn complete(&self, result: Result<u32, IoFault>) {
        let is_awaited = self.is_awaited.load(Ordering::Relaxed);
        self.host().done(Token(self.token.load(Ordering::Relaxed)), result, is_awaited);
    }

    fn host(&self) -> &dyn OutletHost {
        &**self.host.get().expect("attached before the first send")
    }

    fn passes(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
