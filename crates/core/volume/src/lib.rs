//! The volume: contents in units of one size over one or more disks, so that the shortest run never shrinks with age.
//!
//! Promise: pure state machines. They give the writes and the order in which these must be durable, and take the bytes read; after a crash
//! at any moment they recover the state after some prefix of the changes that holds every acknowledged one. Any bytes on the disks give a
//! state or an error, never a panic.
//! Not here: input and output, clocks, chance, threads (see `clippy.toml`). The format is in
//! docs/reference/volume-format.md.

mod allocator;
mod areas;
mod bytes;
mod catalogue;
mod changes;
mod check;
mod choice;
mod commit;
mod content;
mod copy_plan;
mod disk;
mod draft;
mod drafts;
mod error;
mod frame;
mod grow;
mod journal;
mod members;
mod mend;
mod numbers;
mod open;
mod rebuild;
mod record;
mod recording;
mod space;
mod superblock;
mod tail;
mod tree;
mod unit;
mod upkeep;
mod volume;
mod write_sets;
mod zones;

pub use areas::Areas;
pub use catalogue::ListedName;
pub use changes::GroupCommit;
pub use check::{Damage, DamagedCopy, Depth};
pub use content::{StoredContent, StoredPart, UnitPlace, name_problem, part_count, stored_bytes};
pub use copy_plan::{CopyTask, NewCopy, Upkeep};
pub use disk::{DiskWrite, ReadDisk, ReadError};
pub use draft::Draft;
pub use drafts::{DraftBytes, DraftStep, Drafts};
pub use error::{CreateError, FolderLayoutError, SuperblockError, VolumeError, VolumeOpenError};
pub use grow::AddError;
pub use members::MemberTable;
pub use mend::CopyRewrite;
pub use open::{Identified, identify, may_return, open};
pub use rebuild::{Rebuilt, rebuild};
pub use recording::{Restore, Restored};
pub use superblock::{MemberRecord, MemberState, Placement, Superblock, mark_of};
pub use unit::{CHECKED_BYTES, ChecksumTable, Checksums, UnitHeader};
pub use volume::{NewVolume, Volume};
pub use write_sets::WriteSets;
pub use zones::{ReadCounts, ZoneMove};

/// Everything but payload is read and written in blocks of this many bytes.
pub const BLOCK_BYTES: u64 = 4096;
const BLOCK_LEN: usize = 4096;
/// Disks of a volume, 1 to this many.
pub const MEMBERS_MAX: usize = 32;
/// Bytes of a content's name, 1 to this many: name and checksums fit into a unit's header.
pub const NAME_BYTES_MAX: usize = 1024;
/// The version of the format that this crate writes.
pub const FORMAT_VERSION: u32 = 6;
/// The oldest version that it reads: what came since is read as it was, and a use of the volume begins by writing superblocks anew.
const FORMAT_VERSION_MIN: u32 = 3;

/// The identity of a volume: random, chosen at creation.
pub type VolumeId = [u8; 16];

/// Names a disk of a volume: its number, `0..MEMBERS_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MemberId(pub u8);

impl MemberId {
    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
