//! Packets of a transport stream (ISO/IEC 13818-1): the tables of its programs, and the key frames of its picture.

use std::collections::BTreeMap;

use super::{CutLook, CutPlace};
use crate::codecs::{Codec, CodecSet};
use crate::mpegts::grid;
use crate::{be_u16, be_u32};

const SYNC: u8 = 0x47;
const PACKET: usize = 188;
/// The clock in front of each packet of M2TS.
const CLOCK_BYTES: usize = 4;
/// Programs and packets of one table that are kept.
const PROGRAMS_MAX: usize = 32;
const TABLE_BYTES_MAX: usize = 16 * 204;
/// Stream types that are a picture (ISO/IEC 13818-1 table 2-34, AVS, VC-1).
const PICTURES: [u8; 9] = [0x01, 0x02, 0x10, 0x1b, 0x24, 0x33, 0x42, 0xd1, 0xea];

/// A row of packets.
#[derive(Debug)]
pub(super) struct Packets {
    /// Bytes from one packet to the next, and those of them before the packet itself.
    size: usize,
    prefix: usize,
    /// The packets of the table of programs, and of the map of each by its identifier.
    programs: Vec<u8>,
    maps: BTreeMap<u16, Vec<u8>>,
    /// The stream of the key frames that count: the first program's picture.
    picture: Option<u16>,
}

impl Packets {
    /// Finds the first row of packets in these bytes, and its offset.
    pub(super) fn found(bytes: &[u8]) -> Option<(usize, Self)> {
        let found = grid(bytes)?;
        let prefix = if found.size == PACKET + CLOCK_BYTES { CLOCK_BYTES } else { 0 };
        let first = if found.first < prefix { found.first + found.size } else { found.first } - prefix;
        let (programs, maps) = (Vec::new(), BTreeMap::new());
        Some((first, Self { size: found.size, prefix, programs, maps, picture: None }))
    }

    /// The tables.
    pub(super) fn head(&self) -> Vec<u8> {
        let maps = self.maps.values().flatten();
        self.programs.iter().chain(maps).copied().collect()
    }

    pub(super) fn look(&mut self, bytes: &[u8]) -> CutLook {
        let Some(unit) = bytes.get(..self.size) else { return CutLook::Needs(self.size) };
        let packet = &unit[self.prefix..self.prefix + PACKET];
        if packet[0] != SYNC {
            return CutLook::Lost;
        }
        let place = if self.is_key(packet) { CutPlace::Key } else { CutPlace::Border };
        self.keep_tables(unit, packet);
        CutLook::Passes(self.size, place)
    }

    /// True if random access is possible from this packet on, in the picture if there is one.
    fn is_key(&self, packet: &[u8]) -> bool {
        let is_start = packet[1] & 0x40 != 0;
        let has_random_access = packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & 0x40 != 0;
        is_start && has_random_access && self.picture.is_none_or(|picture| picture == identifier(packet))
    }

    fn keep_tables(&mut self, unit: &[u8], packet: &[u8]) {
        let (pid, is_start) = (identifier(packet), packet[1] & 0x40 != 0);
        if pid == 0 {
            keep(&mut self.programs, unit, is_start);
            if let Some(section) = section(packet).filter(|_| is_start) {
                let maps = programs(section);
                self.maps.retain(|known, _| maps.contains(known));
                for map in maps {
                    self.maps.entry(map).or_default();
                }
            }
        } else if let Some(kept) = self.maps.get_mut(&pid) {
            keep(kept, unit, is_start);
            let is_first = self.maps.keys().next() == Some(&pid);
            if let Some(section) = section(packet).filter(|_| is_start && is_first) {
                self.picture = streams(section).find(|(kind, _)| PICTURES.contains(kind)).map(|(_, pid)| pid);
            }
        }
    }
}

fn identifier(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// Keeps a table's packet, which begins the table anew or continues it.
fn keep(kept: &mut Vec<u8>, unit: &[u8], is_start: bool) {
    if is_start {
        kept.clear();
    }
    if (is_start || !kept.is_empty()) && kept.len() + unit.len() <= TABLE_BYTES_MAX {
        kept.extend_from_slice(unit);
    }
}

/// Returns the bytes of the section that begins in this packet.
fn section(packet: &[u8]) -> Option<&[u8]> {
    let adaptation = if packet[3] & 0x20 != 0 { usize::from(packet[4]) + 1 } else { 0 };
    let payload = packet.get(4 + adaptation..)?;
    let section = payload.get(1 + usize::from(*payload.first()?)..)?;
    // Its length counts from behind itself; four bytes of it are the checksum.
    let length = usize::from(be_u16(section, 1)? & 0xfff);
    section.get(..section.len().min((3 + length).saturating_sub(4)))
}

/// The identifiers of the programs' maps (§2.4.4.3).
fn programs(section: &[u8]) -> Vec<u16> {
    let entries = section.get(8..).unwrap_or_default().chunks_exact(4).filter_map(|entry| be_u32(entry, 0));
    // Program 0 is the network's table.
    let maps = entries.filter(|entry| entry >> 16 != 0).filter_map(|entry| u16::try_from(entry & 0x1fff).ok());
    maps.take(PROGRAMS_MAX).collect()
}

/// The types of the streams in a program's map, and their identifiers (§2.4.4.8).
fn streams(section: &[u8]) -> impl Iterator<Item = (u8, u16)> {
    let mut at = be_u16(section, 10).map_or(usize::MAX, |length| 12 + usize::from(length & 0xfff));
    std::iter::from_fn(move || {
        let rest = section.get(at..)?;
        at += 5 + usize::from(be_u16(rest, 3)? & 0xfff);
        Some((*rest.first()?, be_u16(rest, 1)? & 0x1fff))
    })
}

/// The formats of the streams in the programs' maps of these bytes.
pub(crate) fn codecs(bytes: &[u8]) -> CodecSet {
    let Some((first, mut packets)) = Packets::found(bytes) else { return CodecSet::NONE };
    let mut rest = bytes.get(first..).unwrap_or_default();
    while let CutLook::Passes(count, _) = packets.look(rest) {
        rest = &rest[count..];
    }
    let maps = packets.maps.values().filter_map(|map| section(map.get(packets.prefix..packets.prefix + PACKET)?));
    maps.flat_map(streams).filter_map(|(kind, _)| Codec::of_packets(kind)).collect()
}
