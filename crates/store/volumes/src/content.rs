//! Contents of a volume as the data plane reads them, and as listings show them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use content::Content;
use content::layout::{ContentFile, ContentLayout, Extent, Positions, Unit};
use media::MediaRate;
use units::DiskId;
use volume::{ChecksumTable, MemberId, Placement, StoredContent, UnitPlace, Volume, stored_bytes};

use super::core::Core;
use super::live::Members;
use super::open_contents::DisksRead;
use store::AwayDisk;
use store::entry::Stamp;
use store::shared::DiskShared;
use store::{Entry, NameKind, StoreError};

/// A content as it is listed.
pub(super) fn entry_of(name: &str, content: &StoredContent, disk: DiskId, rate: Option<MediaRate>) -> Entry {
    Entry {
        name: last_of(name),
        kind: NameKind::File,
        id: None,
        is_link: false,
        size: content.length,
        modified: modified_of(content),
        created: None,
        etag: format!("\"{:x}-{:x}\"", content.content, content.generation),
        disk,
        rate,
    }
}

/// Its time of modification.
pub(super) fn modified_of(content: &StoredContent) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(content.modified)
}

/// A folder in a listing: a common part of names, modified at `changed`, the time of the last change of a name in the volume.
pub(super) fn folder_of(name: &str, changed: SystemTime, disk: DiskId) -> Entry {
    Entry {
        name: last_of(name),
        kind: NameKind::Directory,
        id: None,
        is_link: false,
        size: 0,
        modified: changed,
        created: None,
        etag: "\"folder\"".to_owned(),
        disk,
        rate: None,
    }
}

fn last_of(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// Names a version of a content in the index of rates, as inode and times do for a file.
pub(super) fn stamp_of(volume: &Volume, content: &StoredContent) -> Stamp {
    let identity = volume.superblock().volume;
    let (first, _) = identity.split_first_chunk().expect("an identity has 16 bytes");
    Stamp {
        device: u64::from_le_bytes(*first),
        inode: content.content,
        size: content.length,
        modified_ns: i128::from(content.modified),
        changed_ns: i128::from(content.generation),
    }
}

impl Core {
    /// The content as a viewer already reads it, from disks in the state in which it was opened.
    pub(super) fn open_content(&self, stored: &StoredContent) -> Option<Arc<Content>> {
        self.open.content(stored.generation, self.disks_read())
    }

    /// Another one may have other disks that can be read.
    pub(super) const fn disks_read(&self) -> DisksRead {
        (self.live.volume.superblock().generation, self.live.durable_generation())
    }

    /// The checksums of a content that was read before.
    pub(super) fn known_checksums(&self, stored: &StoredContent) -> Option<Arc<ChecksumTable>> {
        self.open.checksums(stored.generation)
    }

    /// The content as the data plane reads it, from the places of `layout`, which was made when `disks` were read: the same one while a
    /// reader holds it and the disks keep that state.
    pub(super) fn add_content(
        &mut self,
        name: &str,
        stored: &Arc<StoredContent>,
        (layout, disks): (ContentLayout, DisksRead),
        table: Arc<ChecksumTable>,
    ) -> Arc<Content> {
        self.open.add((name, stored), self.live.volume.unit_bytes(), (layout, disks), table)
    }
}

impl Members {
    /// A run for each unit: the copy to be read in normal times, and the others where every part has one.
    pub(super) fn layout(
        &self,
        volume: &Volume,
        name: &str,
        content: &StoredContent,
    ) -> Result<ContentLayout, StoreError> {
        let mut places: Vec<Vec<UnitPlace>> = Vec::with_capacity(content.parts.len());
        for part in &content.parts {
            let there = part.places().filter(|place| volume.is_readable(place.member)).collect::<Vec<_>>();
            if there.is_empty() {
                let away = part.places().next().map(|place| self.away_disk(volume, place.member));
                return Err(away.map_or(self.front.failing(), |away| StoreError::PartAway(Arc::new(away))));
            }
            places.push(there);
        }
        let copies = places.iter().map(Vec::len).min().unwrap_or(1);
        let mut numbers: HashMap<usize, u16> = HashMap::new();
        let mut files = Vec::new();
        let mut runs = vec![Vec::with_capacity(places.len()); copies];
        for (copy, runs) in runs.iter_mut().enumerate() {
            let mut logical = 0;
            for there in &places {
                let place = there[copy];
                let file = match numbers.get(&place.member.index()) {
                    Some(file) => *file,
                    None => {
                        let file = u16::try_from(files.len()).expect("at most 32 disks");
                        files.push(self.file_of(volume, place)?);
                        numbers.insert(place.member.index(), file);
                        file
                    }
                };
                let offset = volume.members().areas(place.member).payload(place.unit);
                let length = volume.unit_bytes().min(stored_bytes(content.length) - logical);
                debug_assert!(length > 0, "a part has bytes");
                runs.push(Unit { logical, length, file, offset });
                logical += length;
            }
            debug_assert!(logical == stored_bytes(content.length), "the parts hold the content and its tail");
        }
        if files.is_empty() {
            // A content without bytes lies nowhere; it is on some disk all the same.
            files.push(self.file_of(volume, self.anywhere(volume)?)?);
            runs = vec![vec![Unit { logical: 0, length: 0, file: 0, offset: 0 }]];
        }
        let runs = runs.into_iter().map(Vec::into_boxed_slice).collect();
        let layout = ContentLayout::new(files.into_boxed_slice(), runs);
        Ok(match volume.members().placement_of(name) {
            Placement::Span => layout,
            Placement::Stripe | Placement::Mirror => layout.spread_over(self.readable_disks(volume)),
        })
    }

    /// The disk of a content's checksums: the first that has a copy.
    pub(super) fn disk_of_tail(&self, content: &StoredContent) -> &DiskShared {
        let places = content.parts.last().into_iter().flat_map(|part| part.places());
        let mut disks = places.filter_map(|place| Some(&*self.get(place.member)?.shared));
        disks.next().unwrap_or(&self.front)
    }

    /// A disk that the volume is without, as people name it.
    pub(super) fn away_disk(&self, volume: &Volume, member: MemberId) -> AwayDisk {
        let named = self.named.get(member.index()).and_then(Option::as_ref);
        let disk = named.map_or_else(|| format!("number {}", member.0), |named| named.path.display().to_string());
        let is_missing = named.is_none_or(|named| named.found.is_none());
        AwayDisk { volume: volume.superblock().name.clone(), disk, state: if is_missing { "missing" } else { "out" } }
    }

    fn readable_disks(&self, volume: &Volume) -> Box<[DiskId]> {
        let numbered = (0u8..).map(MemberId).zip(&self.there);
        let readable = numbered.filter(|(number, _)| volume.is_readable(*number));
        readable.filter_map(|(_, member)| Some(member.as_ref()?.disk)).collect()
    }

    fn anywhere(&self, volume: &Volume) -> Result<UnitPlace, StoreError> {
        let member = volume.superblock().members.len();
        let mut members = (0..member).filter_map(|number| u8::try_from(number).ok()).map(MemberId);
        let member = members.find(|member| volume.is_readable(*member));
        member.map(|member| UnitPlace { member, unit: 0 }).ok_or(self.front.failing())
    }

    fn file_of(&self, volume: &Volume, place: UnitPlace) -> Result<ContentFile, StoreError> {
        let member = self.get(place.member);
        let member = member.ok_or(self.front.failing())?;
        let file: OwnedFd = member.file.try_clone()?;
        let positions = match member.start_bytes {
            0 => Positions::Device,
            start => {
                let length = volume.members().areas(place.member).size;
                Positions::Extents(Box::new([Extent { logical: 0, physical: start, length }]))
            }
        };
        Ok(ContentFile { disk: member.disk, file, access: member.access, positions })
    }
}
