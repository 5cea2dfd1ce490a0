//! Makes a volume of very many contents on sparse files, and measures how long one takes to open.
//!
//! `many make CONTENTS BYTES FILE…`: each content has BYTES, in units of 64 KiB, in two copies where there are two files. Only
//! the superblocks and the journal are written, since opening reads nothing else. A tenth of the contents is replaced in small
//! commits, as on a volume in use. Each run of `many open FILE…` then prints the time that opening took.
#![allow(clippy::disallowed_methods, reason = "it measures, on real files")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use volume::{DiskWrite, NewVolume, Placement, ReadDisk, ReadError, Volume};

const UNIT_BYTES: u64 = 64 << 10;
/// Changes that one commit makes durable.
const COMMIT_CHANGES: u64 = 8;

struct Files(Vec<File>);

impl ReadDisk for Files {
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.0[disk].read_exact_at(buffer, position).map_err(|_| ReadError)
    }
}

impl Files {
    fn write(&self, writes: &[DiskWrite]) -> std::io::Result<()> {
        writes.iter().try_for_each(|write| self.0[write.member.index()].write_all_at(&write.bytes, write.position))
    }

    fn commit(&self, volume: &mut Volume) -> std::io::Result<()> {
        while let Some(commit) = volume.commit() {
            self.write(&commit.writes)?;
            volume.committed(Ok(()));
        }
        Ok(())
    }
}

fn put(volume: &mut Volume, number: u64, payload: &[u8]) -> Result<(), Box<dyn Error>> {
    let name = format!("camera-{:03}/2026-11-{:02}/{number:09}.ts", number % 100, number / 100 % 30);
    let mut draft = volume.begin(&name, None)?;
    let mut rest = payload;
    while !rest.is_empty() {
        let (_, room) = volume.room(&mut draft)?;
        let (now, later) = rest.split_at(usize::try_from(room)?.min(rest.len()));
        draft.add(volume.members(), now);
        rest = later;
    }
    let tail = draft.tail();
    let mut rest = tail.as_slice();
    while !rest.is_empty() {
        let (_, room) = volume.room(&mut draft)?;
        let (now, later) = rest.split_at(usize::try_from(room)?.min(rest.len()));
        draft.add(volume.members(), now);
        rest = later;
    }
    draft.end(volume.members(), number);
    volume.publish(draft, number)?;
    Ok(())
}

fn make(contents: u64, bytes: usize, paths: &[String]) -> Result<(), Box<dyn Error>> {
    let placement = if paths.len() > 1 { Placement::Mirror } else { Placement::Span };
    let units = contents * (u64::try_from(bytes)?.div_ceil(UNIT_BYTES) + 1) * 3 / 2;
    let size = units * (UNIT_BYTES + 2048) + (64 << 20);
    let open = |path: &String| OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
    let mut files = Files(paths.iter().map(open).collect::<Result<_, _>>()?);
    files.0.iter().try_for_each(|file| file.set_len(size))?;
    let (name, sizes) = ("many".to_owned(), vec![size; paths.len()]);
    let mut volume = Volume::create(NewVolume { volume: [7; 16], name, placement, unit_bytes: UNIT_BYTES, sizes })?;
    files.commit(&mut volume)?;
    files.write(&volume.members().superblock_writes().concat())?;
    let payload = vec![1; bytes];
    for number in 0..contents {
        put(&mut volume, number, &payload)?;
        if number % 100_000 == 0 {
            files.commit(&mut volume)?;
        }
    }
    files.commit(&mut volume)?;
    drop(volume);
    // As a start of the server does.
    let mut volume = volume_of(&mut files)?;
    files.commit(&mut volume)?;
    for number in 0..contents / 10 {
        put(&mut volume, number * 7 % contents, &payload)?;
        if number % COMMIT_CHANGES == 0 {
            files.commit(&mut volume)?;
        }
    }
    files.commit(&mut volume)?;
    files.0.iter().try_for_each(File::sync_all)?;
    Ok(())
}

fn volume_of(files: &mut Files) -> Result<Volume, Box<dyn Error>> {
    let sizes: Vec<u64> = files.0.iter().map(|file| Ok(file.metadata()?.len())).collect::<std::io::Result<_>>()?;
    let identified = volume::identify(&sizes, files)?;
    Ok(volume::open(&identified, files)?)
}

fn open(paths: &[String]) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let mut files = Files(paths.iter().map(File::open).collect::<Result<_, _>>()?);
    let volume = volume_of(&mut files)?;
    println!("{} contents opened in {:.2} s", volume.len(), begun.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", contents, bytes, _, ..] => make(contents.parse()?, bytes.parse()?, &arguments[3..]),
        ["open", _, ..] => open(&arguments[1..]),
        _ => Err("say `make CONTENTS BYTES FILE…` or `open FILE…`".into()),
    }
}
