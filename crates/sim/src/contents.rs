//! Contents and responses: what lies on the disks, and which parts of it a delivery asks for.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use dataplane::control::{Content, Segment};
use dataplane::layout::{Access, ContentLayout, Extent};
use dataplane::watched::{Facts, Watched};
use units::{ContentVersion, DiskId, limits};

use crate::load::Load;
use crate::random::Random;

/// A content as the world knows it.
#[derive(Debug)]
pub(crate) struct SimContent {
    pub(crate) version: ContentVersion,
    pub(crate) disk: DiskId,
    pub(crate) access: Access,
    /// Its size now; the content the plane was given says what it was.
    pub(crate) size_now: u64,
    /// Somebody wrote into it.
    pub(crate) rewritten: bool,
    pub(crate) shared: Arc<Content>,
}

impl SimContent {
    /// True while it is what the plane was given.
    pub(crate) fn is_whole(&self) -> bool {
        self.size_now == self.shared.size && !self.rewritten
    }

    /// The version whose bytes a read brings now: those of a file that was written into are nobody's.
    pub(crate) fn version_now(&self) -> ContentVersion {
        const OTHER: u64 = 1 << 31;
        if self.rewritten { ContentVersion(self.version.0 | OTHER) } else { self.version }
    }

    /// Where `bytes` from `offset` lie on the device, in order.
    pub(crate) fn places(&self, offset: u64, bytes: u64) -> Vec<(u64, u64)> {
        let mut places = Vec::with_capacity(1);
        let (mut logical, end) = (0, offset + bytes);
        for (physical, length) in self.shared.layout.placed_on(self.disk) {
            let (from, to) = (offset.max(logical), end.min(logical + length));
            if from < to {
                places.push((physical + (from - logical), to - from));
            }
            logical += length;
        }
        places
    }
}

/// A content of random size in random places of its disk; fragments may overlap others', which nobody notices.
pub(crate) fn new_content(
    version: ContentVersion,
    disk: usize,
    capacity: u64,
    load: &Load,
    null: &OwnedFd,
    random: &mut Random,
) -> SimContent {
    let size = random.between(load.content_bytes.0, load.content_bytes.1).min(capacity / 2);
    let aligned = size.next_multiple_of(limits::DIRECT_ALIGN);
    let fragments = random.between(1, load.fragments_max.max(1));
    let part = (aligned / fragments).next_multiple_of(limits::DIRECT_ALIGN).max(limits::DIRECT_ALIGN);
    let mut extents = Vec::new();
    let mut logical = 0;
    while logical < aligned {
        let length = part.min(aligned - logical);
        let physical = random.below((capacity - length) / limits::DIRECT_ALIGN) * limits::DIRECT_ALIGN;
        extents.push(Extent { logical, physical, length });
        logical += length;
    }
    let access = if random.chance(load.buffered_share) { Access::Buffered } else { Access::Direct };
    let disk = DiskId(u16::try_from(disk).expect("few disks"));
    let file = null.try_clone().expect("a descriptor is free");
    let watched = Watched::new(Facts::new(0, size), 0);
    let layout = ContentLayout::of_file(disk, file, access, size, extents.into());
    let shared = Arc::new(Content { version, size, layout, watched: Some(watched) });
    SimContent { version, disk, access, size_now: size, rewritten: false, shared }
}

/// A response: a head, then one range, or several with heads between them.
pub(crate) fn segments(random: &mut Random, size: u64, wanted: u64, ranges_share: f64) -> Box<[Segment]> {
    let literal = |random: &mut Random| {
        let length = random.between(20, 500);
        Segment::Bytes((0..length).map(|n| u8::try_from((n * 31 + length) % 251).unwrap_or(0)).collect())
    };
    let ranges = if random.chance(ranges_share) { random.between(2, 4) } else { 1 };
    let mut all = Vec::new();
    for _ in 0..ranges {
        all.push(literal(random));
        let length = (wanted / ranges).clamp(1, size);
        let offset = if random.chance(0.5) { 0 } else { random.below(size - length + 1) };
        all.push(Segment::Range { offset, length });
    }
    if ranges > 1 {
        all.push(literal(random));
    }
    all.into()
}
