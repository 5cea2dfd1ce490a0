//! The ZIP format (APPNOTE 6.3.10) of files that are kept as they are, written while they are read.
//!
//! Promise: pure; the length of a whole archive is known before its first byte; files and archives beyond 4 GiB have fields of ZIP64.
//! Not here: the bytes of the files, and their sums.

use bytes::{BufMut, Bytes, BytesMut};

/// Larger numbers stand in a field of ZIP64.
const SHORT_MAX: u64 = 0xffff_fffe;
/// More files stand in the records of ZIP64.
const COUNT_MAX: u64 = 0xfffe;
/// The sum and the sizes stand behind the bytes; the name is UTF-8.
const FLAGS: u16 = (1 << 3) | (1 << 11);
/// 4.5 reads ZIP64.
const VERSION: u16 = 45;
/// Made on Unix, by that version.
const MADE_BY: u16 = (3 << 8) | VERSION;

/// A file or folder of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZipEntry {
    /// Its path in the archive; that of a folder ends with a slash.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Its modification time in UTC, `2026-11-21T22:15:00Z`.
    pub modified: String,
}

impl ZipEntry {
    fn is_long(&self) -> bool {
        self.size > SHORT_MAX
    }

    /// Time and date as MS-DOS has them, from 1980 to 2107.
    fn stamp(&self) -> (u16, u16) {
        let part = |from: usize, to: usize| self.modified.get(from..to).and_then(|part| part.parse::<u16>().ok());
        let [year, month, day, hour, minute, second] = [(0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19)]
            .map(|(from, to)| part(from, to).unwrap_or_default());
        match year {
            1980..=2107 => ((hour << 11) | (minute << 5) | (second / 2), ((year - 1980) << 9) | (month << 5) | day),
            _ => (0, (1 << 5) | 1),
        }
    }
}

/// An archive of which this part is written.
#[derive(Debug, Default)]
pub struct ZipWriter {
    offset: u64,
    count: u64,
    directory: BytesMut,
}

impl ZipWriter {
    /// The length of an archive of these files.
    #[must_use]
    pub fn length(entries: &[ZipEntry]) -> u64 {
        let mut writer = Self::default();
        for entry in entries {
            let _ = writer.begin(entry);
            let _ = writer.end(entry, 0);
        }
        let before = writer.offset;
        before + writer.finish().len() as u64
    }

    /// The head of a file, before its bytes.
    #[must_use]
    pub fn begin(&mut self, entry: &ZipEntry) -> Bytes {
        let mut head = BytesMut::with_capacity(64 + entry.name.len());
        head.put_u32_le(0x0403_4b50);
        head.put_u16_le(VERSION);
        put_common(&mut head, entry, (0, 0));
        head.put_u16_le(if entry.is_long() { 20 } else { 0 });
        head.put_slice(entry.name.as_bytes());
        if entry.is_long() {
            head.put_u16_le(1);
            head.put_u16_le(16);
            head.put_u64_le(0);
            head.put_u64_le(0);
        }
        head.freeze()
    }

    /// The end of a file, behind its bytes with this CRC-32.
    #[must_use]
    pub fn end(&mut self, entry: &ZipEntry, sum: u32) -> Bytes {
        let begun = self.offset;
        let mut end = BytesMut::with_capacity(24);
        end.put_u32_le(0x0807_4b50);
        end.put_u32_le(sum);
        for _ in 0..2 {
            if entry.is_long() {
                end.put_u64_le(entry.size);
            } else {
                end.put_u32_le(short(entry.size));
            }
        }
        self.add(entry, begun, sum);
        self.count += 1;
        let head = 30 + entry.name.len() as u64 + if entry.is_long() { 20 } else { 0 };
        self.offset += head + entry.size + end.len() as u64;
        end.freeze()
    }

    /// The line of a file in the directory at the archive's end.
    fn add(&mut self, entry: &ZipEntry, begun: u64, sum: u32) {
        let directory = &mut self.directory;
        let long: Vec<u64> = [entry.size, entry.size, begun].into_iter().filter(|number| *number > SHORT_MAX).collect();
        directory.put_u32_le(0x0201_4b50);
        directory.put_u16_le(MADE_BY);
        directory.put_u16_le(VERSION);
        put_common(directory, entry, (sum, short(entry.size)));
        directory.put_u16_le(if long.is_empty() { 0 } else { u16::try_from(4 + 8 * long.len()).unwrap_or(0) });
        // No comment, the first disk, no inner attributes.
        directory.put_slice(&[0; 6]);
        let mode: u32 = if entry.name.ends_with('/') { (0o040_755 << 16) | 0x10 } else { 0o100_644 << 16 };
        directory.put_u32_le(mode);
        directory.put_u32_le(short(begun));
        directory.put_slice(entry.name.as_bytes());
        if !long.is_empty() {
            directory.put_u16_le(1);
            directory.put_u16_le(u16::try_from(8 * long.len()).unwrap_or(0));
            long.into_iter().for_each(|number| directory.put_u64_le(number));
        }
    }

    /// The end of the archive.
    #[must_use]
    pub fn finish(self) -> Bytes {
        let (begun, bytes) = (self.offset, self.directory.len() as u64);
        let mut end = self.directory;
        if begun > SHORT_MAX || bytes > SHORT_MAX || self.count > COUNT_MAX {
            end.put_u32_le(0x0606_4b50);
            end.put_u64_le(44);
            end.put_u16_le(MADE_BY);
            end.put_u16_le(VERSION);
            end.put_u64_le(0);
            for number in [self.count, self.count, bytes, begun] {
                end.put_u64_le(number);
            }
            end.put_u32_le(0x0706_4b50);
            end.put_u32_le(0);
            end.put_u64_le(begun + bytes);
            end.put_u32_le(1);
        }
        end.put_u32_le(0x0605_4b50);
        end.put_u32_le(0);
        let count = u16::try_from(self.count).ok().filter(|_| self.count <= COUNT_MAX).unwrap_or(u16::MAX);
        end.put_u16_le(count);
        end.put_u16_le(count);
        end.put_u32_le(short(bytes));
        end.put_u32_le(short(begun));
        end.put_u16_le(0);
        end.freeze()
    }
}

/// All ones say that the number stands in a field of ZIP64.
fn short(number: u64) -> u32 {
    u32::try_from(number).ok().filter(|_| number <= SHORT_MAX).unwrap_or(u32::MAX)
}

/// The fields that a head and a line of the directory share, from the flags to the length of the name.
fn put_common(to: &mut BytesMut, entry: &ZipEntry, (sum, size): (u32, u32)) {
    let (time, date) = entry.stamp();
    let size = if entry.is_long() { u32::MAX } else { size };
    to.put_u16_le(FLAGS);
    to.put_u16_le(0);
    to.put_u16_le(time);
    to.put_u16_le(date);
    to.put_u32_le(sum);
    to.put_u32_le(size);
    to.put_u32_le(size);
    to.put_u16_le(u16::try_from(entry.name.len()).unwrap_or(u16::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, size: u64) -> ZipEntry {
        ZipEntry { name: name.to_owned(), size, modified: "2026-11-21T22:15:00Z".to_owned() }
    }

    #[test]
    fn the_length_is_known_before() {
        let entries = [entry("a.txt", 3), entry("ü/", 0)];
        let mut writer = ZipWriter::default();
        let mut whole = Vec::new();
        for (entry, bytes) in entries.iter().zip([&b"abc"[..], b""]) {
            whole.extend_from_slice(&writer.begin(entry));
            whole.extend_from_slice(bytes);
            whole.extend_from_slice(&writer.end(entry, 0x3524_41c2));
        }
        whole.extend_from_slice(&writer.finish());
        assert_eq!(whole.len() as u64, ZipWriter::length(&entries));
        assert_eq!(entries[0].stamp(), ((22 << 11) | (15 << 5), (46 << 9) | (11 << 5) | 21));
    }

    #[test]
    fn large_files_and_archives_have_the_fields_of_zip64() {
        let large = [entry("large", 5 << 30), entry("behind", 1)];
        let mut writer = ZipWriter::default();
        assert_eq!(writer.begin(&large[0]).len(), 30 + 5 + 20);
        assert_eq!(writer.end(&large[0], 7).len(), 24, "sizes of eight bytes");
        assert_eq!((writer.begin(&large[1]).len(), writer.end(&large[1], 7).len()), (36, 16));
        let end = writer.finish();
        let lines = (46 + 5 + 20) + (46 + 6 + 12);
        assert_eq!(end.len(), lines + 56 + 20 + 22);
        assert_eq!(&end[lines..lines + 4], b"PK\x06\x06");
        assert_eq!(ZipWriter::length(&large), (5 << 30) + 55 + 24 + 36 + 1 + 16 + end.len() as u64);
        let many: Vec<_> = (0..70_000).map(|number| entry(&number.to_string(), 0)).collect();
        assert!(ZipWriter::length(&many) > 70_000 * 92);
    }
}
