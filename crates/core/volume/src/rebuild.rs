//! Rebuilding a lost catalogue from the units' headers.
//!
//! Promise: finds every content with all its parts, in its newest version. A content gets the name that it had when it was
//! written. Removed contents reappear while their units are whole; empty contents have no unit and are lost.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::changes::PendingChanges;
use crate::content::{StoredContent, StoredPart, UnitPlace, name_problem, stored_bytes};
use crate::disk::ReadDisk;
use crate::journal::{Area, Journal};
use crate::members::MemberTable;
use crate::open::Identified;
use crate::recording::Recordings;
use crate::unit::UnitHeader;
use crate::{BLOCK_LEN, MemberId, Volume};

/// The result of a rebuild.
#[derive(Debug)]
pub struct Rebuilt {
    /// The volume: its first commit writes the new catalogue.
    pub volume: Volume,
    /// Names of contents with a missing part, each with the number of parts that were found.
    pub incomplete: Vec<(String, usize)>,
    /// Units that could not be read.
    pub unreadable: u64,
}

/// One version of one content, gathered from its units' headers.
#[derive(Debug, Default)]
struct RebuiltVersion {
    name: Option<String>,
    parts: BTreeMap<u32, StoredPart>,
    payload: u64,
    /// The number of the last part, the content's modification time, and its length.
    last: Option<(u32, u64, u64)>,
}

impl RebuiltVersion {
    fn add(&mut self, header: &UnitHeader) {
        let place = UnitPlace { member: header.member, unit: header.unit };
        let digest = header.table.digest();
        if header.part == 0 {
            self.name = Some(header.name.clone());
        }
        if let Some((modified, length)) = header.last {
            self.last = Some((header.part, modified, length));
        }
        match self.parts.get_mut(&header.part) {
            None => {
                self.parts.insert(header.part, StoredPart { digest, first: place, second: None });
                self.payload += u64::from(header.payload);
            }
            Some(part) if part.digest == digest && part.second.is_none() && part.first.member != place.member => {
                // First copies lie in the outer halves: the lower number is read first.
                if place.unit < part.first.unit {
                    part.second = Some(std::mem::replace(&mut part.first, place));
                } else {
                    part.second = Some(place);
                }
            }
            Some(_) => {}
        }
    }

    fn complete(&self, unit_bytes: u64) -> Option<(&str, u64, u64)> {
        let (last, modified, length) = self.last?;
        let all = self.parts.len() == usize::try_from(last).ok()? + 1 && self.parts.keys().last() == Some(&last);
        let full = self.payload == stored_bytes(length) && self.payload.div_ceil(unit_bytes) == u64::from(last) + 1;
        let name = self.name.as_deref().filter(|name| name_problem(name).is_none())?;
        (all && full).then_some((name, modified, length))
    }
}

/// Reads the headers of all units on `disks`. `progress` receives the number of units read and the number of all units.
pub fn rebuild(identified: &Identified, disks: &mut impl ReadDisk, mut progress: impl FnMut(u64, u64)) -> Rebuilt {
    let superblock = &identified.superblock;
    let present: Vec<(MemberId, usize)> =
        (0u8..).zip(&identified.disks).filter_map(|(number, disk)| disk.map(|disk| (MemberId(number), disk))).collect();
    let total: u64 = present.iter().map(|(member, _)| u64::from(superblock.areas(*member).units())).sum();
    let (mut done, mut unreadable) = (0, 0);
    let mut versions: HashMap<(u64, u64), RebuiltVersion> = HashMap::new();
    let mut block = vec![0; BLOCK_LEN];
    for (member, disk) in &present {
        let areas = superblock.areas(*member);
        for unit in 0..areas.units() {
            progress(done, total);
            done += 1;
            if disks.read(*disk, areas.header(unit), &mut block).is_err() {
                unreadable += 1;
                continue;
            }
            let header = UnitHeader::decode(&block).filter(|header| {
                let whose = (header.volume, header.member, header.unit);
                whose == (superblock.volume, *member, unit) && u64::from(header.payload) <= areas.unit_bytes
            });
            if let Some(header) = header {
                versions.entry((header.content, header.generation)).or_default().add(&header);
            }
        }
    }
    debug_assert!(done == total, "every unit of the disks given was looked at");
    let numbers = versions.keys().map(|(content, generation)| content.max(generation) + 1).max().unwrap_or(1);
    let (catalogue, incomplete) = newest(versions, superblock.unit_bytes);
    let epoch = journal_epoch(identified, disks);
    let journal = Journal::new(superblock.volume, superblock.journal_half, epoch, superblock.journal_half);
    let members = MemberTable::new(superblock.clone(), identified.disks.iter().map(Option::is_some).collect());
    let mut changes = PendingChanges::behind(journal, Vec::new(), numbers);
    changes.renew_catalogue();
    let volume = Volume::of(members, catalogue, Recordings::default(), changes);
    let volume = volume.expect("each unit has one header, and so one content");
    Rebuilt { volume, incomplete, unreadable }
}

fn journal_epoch(identified: &Identified, disks: &mut impl ReadDisk) -> u64 {
    let areas = identified.superblock.areas(MemberId(0));
    let given: Vec<usize> = identified.disks.iter().flatten().copied().collect();
    Area::new(disks, &given, identified.superblock.volume, areas.journal_start(), areas.journal_half).newest_epoch()
}

/// The newest whole version of each content and of each name, and the contents without a whole version.
fn newest(versions: HashMap<(u64, u64), RebuiltVersion>, unit_bytes: u64) -> (Catalogue, Vec<(String, usize)>) {
    let mut ordered: Vec<((u64, u64), RebuiltVersion)> = versions.into_iter().collect();
    // Newest last: it replaces the others.
    ordered.sort_by_key(|((content, generation), _)| (*generation, *content));
    let mut names: HashMap<u64, Box<str>> = HashMap::new();
    let mut catalogue = Catalogue::default();
    let mut broken = Vec::new();
    for ((content, generation), version) in ordered {
        let Some((name, modified, length)) = version.complete(unit_bytes) else {
            broken.push((content, version.name.unwrap_or_else(|| format!("content {content}")), version.parts.len()));
            continue;
        };
        let name: Box<str> = name.into();
        if let Some(old) = names.insert(content, name.clone()) {
            catalogue.remove(&old);
        }
        let parts = version.parts.into_values().collect();
        catalogue.insert(name, Arc::new(StoredContent { content, generation, length, modified, parts }));
    }
    broken.retain(|(content, _, _)| !names.contains_key(content));
    (catalogue, broken.into_iter().map(|(_, name, parts)| (name, parts)).collect())
}
