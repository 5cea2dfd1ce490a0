//! `isocast volume export`: contents out of a volume, each byte verified.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use clap::Args;
use copy::{self, Endpoint, Failures};
use serde_json::json;
use store::buffers::index;
use units::counted;
use volume::{BLOCK_BYTES, CHECKED_BYTES, MemberId, ReadDisk as _, StoredContent, UnitPlace, Volume};
use volumes::VolumeDisks;

use super::disks::{self, Purpose};
use super::print;
use super::progress::ProgressLine;
use super::served::{ServedDisks, VolumeOfServer};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Copy contents out of a volume, each byte verified.
///
/// Of a content that is damaged in every copy the bytes before the damage are exported, of one with a part on a disk that is missing
/// nothing (exit code 1).
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The folder they go to.
    #[arg(long)]
    to: PathBuf,
    /// Export the bytes behind a damage as well: zeros stand for the bytes that are damaged in every copy, or on a missing disk.
    #[arg(long)]
    keep_damaged: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    disks: ServedDisks,
    /// Contents and folders of the volume; everything if none is named.
    contents: Vec<String>,
}

impl Export {
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        fs::create_dir_all(&self.to).with_context(|| format!("cannot make the folder {}", self.to.display()))?;
        if let Some(served) = self.disks.serving()? {
            ensure!(!self.keep_damaged, "a server never sends damaged contents whole: stop it for --keep-damaged");
            return self.get(out, &served);
        }
        let (mut disks, volume) = disks::open(self.disks.all(), Purpose::Read)?;
        let is_wanted =
            |name: &str| self.contents.is_empty() || self.contents.iter().any(|wanted| is_or_has(wanted, name));
        let contents: Vec<_> = volume.contents().filter(|(name, _)| is_wanted(name)).collect();
        let mut failures = Failures::default();
        for wanted in &self.contents {
            let is_there =
                volume.is_folder(wanted.trim_matches('/')) || contents.iter().any(|(name, _)| is_or_has(wanted, name));
            if !is_there {
                failures.add(format_args!(
                    "`{wanted}`: the volume has no content of this name: `isocast volume ls` lists them"
                ));
            }
        }
        let total: u64 = contents.iter().map(|(_, content)| content.length).sum();
        for folder in volume.folders().filter(|folder| is_wanted(folder)) {
            let folder = self.to.join(folder);
            fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let mut progress = ProgressLine::new("export");
        let (mut copied, mut damaged, mut away) = (0, 0, 0);
        for (name, content) in &contents {
            let missing = missing_disks(&volume, content);
            if !missing.is_empty() && !self.keep_damaged {
                away += 1;
                failures.add(format_args!("`{name}`: in part or whole on {}, which is missing", disks_named(&missing)));
                continue;
            }
            let path = self.to.join(name);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
            }
            let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
            let lost = self.read_content(&volume, content, &mut disks, &mut |bytes| {
                copied += bytes.len() as u64;
                progress.show(copied, total);
                file.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
            })?;
            file.set_modified(UNIX_EPOCH + Duration::from_nanos(content.modified))
                .with_context(|| format!("cannot date {}", path.display()))?;
            if !lost.is_empty() {
                damaged += 1;
                failures.add(format_args!("`{name}`: damaged"));
            }
            for Range { start, end } in lost {
                let exported = if self.keep_damaged { "zeros stand there" } else { "those before were exported" };
                let why = match missing.is_empty() {
                    true => "damaged in every copy".to_owned(),
                    false => format!("on {}, which is missing, or damaged in every copy", disks_named(&missing)),
                };
                writeln!(io::stderr(), "`{name}`: bytes {start} to {end} are {why}: {exported}")?;
            }
        }
        drop(progress);
        self.report(out, contents.len() as u64 - damaged - away, copied)?;
        failures.judge("not exported whole")
    }

    /// Through the server that has the volume.
    fn get(&self, out: &mut dyn Write, served: &VolumeOfServer) -> anyhow::Result<()> {
        let media = served.media()?;
        let everything = [String::new()];
        let mut failures = Failures::default();
        let (mut contents, mut bytes) = (0, 0);
        for name in if self.contents.is_empty() { &everything[..] } else { &self.contents[..] } {
            let name = name.trim_matches('/');
            let to = self.to.join(name);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
            }
            match copy::copy_shown(Endpoint::There(media.below(name)), copy::here(to)) {
                Ok(copied) => {
                    (contents, bytes) = (contents + copied.files, bytes + copied.bytes);
                    failures.append(copied.failures);
                }
                Err(error) => failures.add(format_args!("cannot export `{name}`: {error:#}")),
            }
        }
        self.report(out, contents, bytes)?;
        failures.judge("not exported")
    }

    fn report(&self, out: &mut dyn Write, contents: u64, bytes: u64) -> anyhow::Result<()> {
        let json = || json!({ "contents": contents, "bytes": bytes });
        print(out, self.json.then(json), format_args!("{}, {bytes} bytes", counted(contents, "content")))?;
        Ok(out.flush()?)
    }

    /// Gives the bytes of a content without its tail, verified, to `take`: up to the first that are damaged in every copy, or all, with
    /// zeros for these. The bytes that are damaged.
    fn read_content(
        &self,
        volume: &Volume,
        content: &StoredContent,
        disks: &mut VolumeDisks,
        take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Range<u64>>> {
        let mut damaged: Vec<Range<u64>> = Vec::new();
        for (number, part) in (0u32..).zip(&content.parts) {
            let begin = u64::from(number) * volume.unit_bytes();
            let length = volume.members().part_bytes(content, number).min(content.length.saturating_sub(begin));
            let places: Vec<UnitPlace> = part.places().collect();
            let (bytes, wrong) = read_part(volume, content, number, &places, disks);
            let wrong = wrong.into_iter().filter(|wrong| wrong.start < length);
            for wrong in wrong.map(|wrong| begin + wrong.start..begin + wrong.end.min(length)) {
                match damaged.last_mut() {
                    Some(last) if last.end == wrong.start => last.end = wrong.end,
                    _ => damaged.push(wrong),
                }
            }
            let right = damaged.first().filter(|_| !self.keep_damaged).map_or(length, |first| first.start - begin);
            take(&bytes[..usize::try_from(right)?])?;
            if right < length {
                break;
            }
        }
        Ok(damaged)
    }
}

/// The missing disks without which a part of the content has no copy.
fn missing_disks(volume: &Volume, content: &StoredContent) -> BTreeSet<MemberId> {
    let is_read = |place: &UnitPlace| volume.is_readable(place.member);
    let unread = content.parts.iter().filter(|part| !part.places().any(|place| is_read(&place)));
    unread.flat_map(|part| part.places().map(|place| place.member)).collect()
}

fn disks_named(disks: &BTreeSet<MemberId>) -> String {
    let names: Vec<String> = disks.iter().map(|member| format!("disk {}", member.0)).collect();
    names.join(" and ")
}

/// True if the content `name` is the wanted one, or lies in that.
fn is_or_has(wanted: &str, name: &str) -> bool {
    let wanted = wanted.trim_matches('/');
    let below = name.strip_prefix(wanted);
    wanted.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The payload of a part, each piece from a copy in which it is right, and the bytes that are right in none, found by blocks of 64 KiB:
/// zeros.
fn read_part(
    volume: &Volume,
    content: &StoredContent,
    part: u32,
    places: &[UnitPlace],
    disks: &mut VolumeDisks,
) -> (Vec<u8>, Vec<Range<u64>>) {
    let length = index(volume.members().part_bytes(content, part));
    let mut bytes = vec![0; length.next_multiple_of(index(BLOCK_BYTES))];
    let table = places.iter().find_map(|place| volume.members().checksums(content, part, *place, disks).ok());
    let mut is_right = |begin: usize, piece: &mut [u8]| {
        let counted = piece.len().min(length - begin);
        places.iter().any(|place| {
            let position = volume.members().areas(place.member).payload(place.unit) + begin as u64;
            let is_read = disks.read(place.member.index(), position, piece).is_ok();
            is_read && table.as_ref().is_some_and(|table| table.verify(begin, &piece[..counted]).is_ok())
        })
    };
    let mut damaged = Vec::new();
    for (begin, piece) in (0..).step_by(PIECE_BYTES).zip(bytes.chunks_mut(PIECE_BYTES)) {
        if is_right(begin, piece) {
            continue;
        }
        for (begin, block) in (begin..).step_by(CHECKED_BYTES).zip(piece.chunks_mut(CHECKED_BYTES)) {
            if !is_right(begin, block) {
                block.fill(0);
                damaged.push(begin as u64..length.min(begin + CHECKED_BYTES) as u64);
            }
        }
    }
    (bytes, damaged)
}
