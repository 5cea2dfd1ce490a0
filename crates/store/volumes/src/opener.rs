//! Opening a content of a volume: a container's rate, and the checksums of a content, are read from a disk, which may be busy or hang.
//!
//! Promise: neither the names nor another content wait for such a read, unless all threads are at one (`store::openers`). Not here:
//! the plane's reads.

use std::sync::Arc;

use content::Content;
use content::layout::ContentLayout;
use media::{ProbeBudget, ProbeError, probe};

use volume::{ChecksumTable, StoredContent};

use super::content::{entry_of, stamp_of};
use super::{SharedCore, granted_reads};
use store::buffers::{count, index};
use store::disk_thread::answer;
use store::lock::lock;
use store::operation::ReplyTo;
use store::shared::DiskShared;
use store::{ContentPath, Opened, StoreCommon, StoreError, Want};

/// A content to be opened.
pub(crate) type OpenRequest = (ContentPath, Want, ReplyTo<Opened>);

/// The state that an open needs.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(super) core: SharedCore,
    pub(super) shared: Arc<DiskShared>,
    pub(super) common: StoreCommon,
}

impl Opener {
    pub(super) fn perform(&self, (path, want, reply): OpenRequest) {
        answer(reply, || self.open(&path, want));
    }

    fn open(&self, path: &ContentPath, want: Want) -> Result<Opened, StoreError> {
        let name = path.joined();
        let core = lock(&self.core);
        let Some(stored) = core.live.volume.find(&name).cloned() else {
            let is_folder = core.live.volume.is_folder(&name);
            return Err(if is_folder { StoreError::IsDirectory } else { StoreError::NotFound });
        };
        let stamp = stamp_of(&core.live.volume, &stored);
        drop(core);
        let content = self.content(&name, &stored)?;
        let media = match (self.common.index.rate(&stamp), want) {
            (Some(known), _) => known,
            (None, Want::File) => None,
            (None, Want::FileAndRate) => {
                self.shared.stats.probes.add(1);
                let mut reader = granted_reads::reader(&self.core, &content.layout, content.size);
                let found = probe(&mut reader, ProbeBudget::default());
                if !matches!(found, Err(ProbeError::Io(_))) {
                    self.common.index.insert(&stamp, found.as_ref().ok().cloned());
                }
                found.ok()
            }
        };
        Ok(Opened { entry: entry_of(&name, &stored, self.shared.id, media), content, media })
    }

    /// The content as the data plane reads it. Its checksums are read first, unless they are known; not under the lock, so that another
    /// thread may have opened it meanwhile.
    fn content(&self, name: &str, stored: &Arc<StoredContent>) -> Result<Arc<Content>, StoreError> {
        let core = lock(&self.core);
        if let Some(content) = core.open_content(stored) {
            return Ok(content);
        }
        let (layout, known) =
            (core.live.members.layout(&core.live.volume, name, stored)?, core.known_checksums(stored));
        let (disks, failing) = (core.disks_read(), core.live.members.disk_of_tail(stored).failing());
        drop(core);
        let table = known.or_else(|| read_checksums(&self.core, &layout, stored).map(Arc::new));
        let table = table.ok_or(failing)?;
        let mut core = lock(&self.core);
        Ok(core.open_content(stored).unwrap_or_else(|| core.add_content(name, stored, (layout, disks), table)))
    }
}

/// The checksums of a content, from the first copy of its tail that is whole.
fn read_checksums(core: &SharedCore, layout: &ContentLayout, stored: &StoredContent) -> Option<ChecksumTable> {
    let (start, length) = stored.tail();
    (0..layout.copies()).find_map(|copy| {
        let mut reader = granted_reads::reader(core, layout, start + length);
        let mut tail = vec![0; index(length)];
        let mut done = 0;
        while done < tail.len() {
            match reader.read_copy(copy, start + count(done), &mut tail[done..]) {
                Ok(got @ 1..) => done += got,
                _ => return None,
            }
        }
        stored.checksums_in(&tail)
    })
}
