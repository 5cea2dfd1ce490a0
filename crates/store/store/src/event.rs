//! Events of the store, for the operator.
//!
//! Promise: events before the first listener are kept, a bounded number of them. Not here: writing them to the log.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

use units::ByteCount;

use crate::lock::lock;
use crate::{ContentPath, RootAway, StoreError};

/// Events kept until a listener comes; the oldest are dropped.
const WAITING_MAX: usize = 256;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum StoreEvent {
    /// A folder is not served for now.
    RootAway {
        /// As it was named.
        root: PathBuf,
        /// The reason.
        why: RootAway,
    },
    /// It is served again.
    RootBack {
        /// As it was named.
        root: PathBuf,
    },
    /// A volume is served without a disk, or took one in again, or does not write to one any more.
    VolumeDisk(DiskNotice),
    /// A recording that broke off was kept as far as it came.
    RecordingKept {
        /// The content it is now.
        path: ContentPath,
        /// Its bytes.
        bytes: u64,
        /// True if the server ended in the middle of it, and found it when it started again.
        after_restart: bool,
    },
    /// A recording that broke off could not be given its name.
    RecordingLost {
        /// The name it would have had.
        path: ContentPath,
        /// The reason.
        why: StoreError,
    },
    /// An upload that was answered before it was durable could not be made so.
    UploadLost {
        /// The name it had.
        path: ContentPath,
        /// The reason.
        why: StoreError,
    },
    /// The only copy of a part of a recording is on a disk of a volume that failed before it was durable; the recording continues
    /// elsewhere.
    RecordingDamaged {
        /// The content it will be.
        path: ContentPath,
        /// Bytes that may be wrong, at most.
        bytes: u64,
    },
    /// A copy in a volume was wrong, and was written anew from the other one.
    CopyMended {
        /// The content's name.
        name: String,
        /// Number of the part.
        part: u32,
    },
    /// No copy of a part in a volume is right: the content is damaged.
    CopyLost {
        /// The content's name.
        name: String,
        /// Number of the part.
        part: u32,
    },
    /// A copy of a part in a volume could not be made right: its disk left, or did not give back the written bytes. Another copy is
    /// right.
    CopyUnwritten {
        /// The content's name.
        name: String,
        /// Number of the part.
        part: u32,
    },
    /// A disk of a volume was filled or emptied, or everything was read; or that could not be done.
    UpkeepEnded {
        /// `fill`, `drain` or `scrub`.
        kind: &'static str,
        /// The work that was done.
        report: UpkeepReport,
        /// Reason for which work is left.
        failed: Option<StoreError>,
    },
}

/// Notice of a server about one disk of a volume that it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskNotice {
    /// The name of the volume.
    pub volume: String,
    /// The disk as it was named.
    pub path: PathBuf,
    /// Its state now, as `/api/v1/volumes` shows it.
    pub state: &'static str,
    /// The trouble, its consequence and the remedy.
    pub message: String,
}

/// Progress of an upkeep, or its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpkeepReport {
    /// Bytes of contents that were looked at.
    pub seen: ByteCount,
    /// Bytes of all contents when it began.
    pub total: ByteCount,
    /// Copies that were written.
    pub written: u64,
    /// Their bytes.
    pub written_bytes: ByteCount,
    /// Copies that were right where they lay.
    pub right: u64,
    /// Copies that were written into units they were not in before.
    pub moved: u64,
    /// Copies that could not be made right.
    pub lost: u64,
    /// Contents with a copy that a scrub could not read, for its disk is away: whether that is right is not known.
    pub unknown: u64,
    /// The numbers of these disks.
    pub away: BTreeSet<u8>,
}

/// Takes events, on the threads of the disks: it must not block.
pub type EventListener = Box<dyn Fn(StoreEvent) + Send + Sync>;

/// The way from the disks' threads to the listener.
#[derive(Default)]
pub struct EventSender(Mutex<EventQueue>);

#[derive(Default)]
struct EventQueue {
    listener: Option<EventListener>,
    waiting: VecDeque<StoreEvent>,
}

impl EventSender {
    /// Sends `listener` all events from now on, and the waiting ones.
    pub fn listen(&self, listener: EventListener) {
        let mut state = lock(&self.0);
        state.waiting.drain(..).for_each(&listener);
        debug_assert!(state.waiting.is_empty(), "events come in their order");
        state.listener = Some(listener);
    }

    /// Sends an event to the listener, or keeps it for the first one.
    pub fn tell(&self, event: StoreEvent) {
        let mut state = lock(&self.0);
        match &state.listener {
            Some(listener) => listener(event),
            None => {
                if state.waiting.len() >= WAITING_MAX {
                    state.waiting.pop_front();
                }
                state.waiting.push_back(event);
                debug_assert!(state.waiting.len() <= WAITING_MAX, "events wait in bounded memory");
            }
        }
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
