//! The disks of a volume as files: block devices, partitions or preallocated files, read and written past the page cache.
//!
//! Promise: a disk that another program holds is not opened; writes and reads are aligned and direct where the system can.
//! Not here: the meaning of the bytes (crate `volume`).

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use device::{Device, location_of};
use kernel::aligned::AlignedBlock;
use kernel::exclusive;
pub(crate) use kernel::exclusive::Purpose;
use rustix::fs::{FlockOperation, SeekFrom};
use rustix::io::Errno;
use volume::{
    BLOCK_BYTES, DiskWrite, GroupCommit, Identified, MemberId, Placement, ReadDisk, ReadError, Volume, VolumeOpenError,
};

/// Bytes of one read or write.
const TRANSFER_BYTES: usize = 1 << 20;

/// An open disk.
#[derive(Debug)]
pub(crate) struct DiskFile {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// The disk that a server would schedule; none of a file, which is a disk of its own.
    pub(crate) device: Option<Device>,
    file: File,
    buffer: AlignedBlock,
}

/// [`BLOCK_BYTES`] as a length in memory.
pub(super) fn block_len() -> usize {
    usize::try_from(BLOCK_BYTES).expect("a small constant")
}

fn offset(length: usize) -> u64 {
    u64::try_from(length).expect("a length in memory fits into 64 bits")
}

impl DiskFile {
    /// Opens a disk and keeps other programs of this kind away from it: a device with a mounted file system is refused.
    pub(crate) fn open(path: &Path, purpose: Purpose) -> anyhow::Result<Self> {
        let about = || format!("cannot open the disk {}", path.display());
        let metadata = std::fs::metadata(path).with_context(about)?;
        let kind = metadata.file_type();
        if !kind.is_block_device() && !kind.is_file() {
            bail!(
                "{} is neither a block device nor a file: name a disk, a partition or a preallocated file",
                path.display()
            );
        }
        let opened = exclusive::open_disk(path, purpose);
        let (mut file, _) = opened.map_err(|error| match error.kind() {
            _ if exclusive::is_in_use(&error) => {
                anyhow!("{} is in use: unmount it, or stop the program that uses it", path.display())
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                anyhow!("{} can only be read: the volume needs to write to it", path.display())
            }
            _ => anyhow::Error::new(error).context(about()),
        })?;
        let size = rustix::fs::seek(&mut file, SeekFrom::End(0)).with_context(about)?;
        Ok(Self {
            path: path.to_owned(),
            size,
            device: kind.is_block_device().then(|| location_of(metadata.rdev()).device),
            file,
            buffer: AlignedBlock::zeroed(TRANSFER_BYTES),
        })
    }

    pub(crate) fn read_at(&mut self, mut position: u64, buffer: &mut [u8]) -> io::Result<()> {
        for piece in buffer.chunks_mut(TRANSFER_BYTES) {
            let aligned = &mut self.buffer.bytes_mut()[..piece.len().next_multiple_of(block_len())];
            self.file.read_exact_at(aligned, position)?;
            piece.copy_from_slice(&aligned[..piece.len()]);
            position += offset(piece.len());
        }
        Ok(())
    }

    pub(crate) fn write_at(&mut self, mut position: u64, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(TRANSFER_BYTES) {
            let aligned = &mut self.buffer.bytes_mut()[..piece.len()];
            aligned.copy_from_slice(piece);
            self.file.write_all_at(aligned, position)?;
            position += offset(piece.len());
        }
        Ok(())
    }

    /// Makes a mebibyte at both ends zero, where everything that a disk may hold has its marks.
    pub(crate) fn clear(mut self) -> io::Result<()> {
        let zeros = vec![0; TRANSFER_BYTES];
        let end = self.size.saturating_sub(offset(TRANSFER_BYTES)).next_multiple_of(BLOCK_BYTES);
        self.write_at(0, &zeros)?;
        let last = usize::try_from((self.size - end) / BLOCK_BYTES * BLOCK_BYTES).unwrap_or(TRANSFER_BYTES);
        self.write_at(end, &zeros[..last])?;
        self.flush()
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    /// Takes the room of a sparse file now: a volume must not find later that it is not there.
    pub(crate) fn preallocate(&self) -> io::Result<()> {
        if self.device.is_some() {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, self.size) {
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            outcome => Ok(outcome?),
        }
    }
}

/// The disks of an open volume, each at its number.
#[derive(Debug)]
pub(crate) struct VolumeDisks(pub(crate) Vec<Option<DiskFile>>);

impl ReadDisk for VolumeDisks {
    fn read(&mut self, disk: usize, position: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let disk = self.0.get_mut(disk).and_then(Option::as_mut).ok_or(ReadError)?;
        disk.read_at(position, buffer).map_err(|_| ReadError)
    }
}

impl VolumeDisks {
    /// Opens disks in any order and identifies their volume. A command that only reads continues without a disk that cannot be used, as a
    /// server does, and prints a line about it: the disk counts as missing.
    pub(crate) fn identify(paths: &[PathBuf], purpose: Purpose) -> anyhow::Result<(Self, Identified)> {
        let mut given = Self(Vec::new());
        for path in paths {
            match DiskFile::open(path, purpose) {
                Err(error) if purpose == Purpose::Read && paths.len() > 1 && is_away(&error) => {
                    tell_left_out(path, &format!("{error:#}"));
                }
                opened => given.0.push(Some(opened?)),
            }
        }
        loop {
            let sizes: Vec<u64> = given.0.iter().flatten().map(|disk| disk.size).collect();
            let error = match volume::identify(&sizes, &mut given) {
                Ok(identified) => return Ok((given, identified)),
                Err(error) => error,
            };
            let stale = match &error {
                VolumeOpenError::Stale { disk, .. } => Some(*disk),
                _ => None,
            };
            let disk = error.unusable_disk().or(stale).filter(|_| purpose == Purpose::Read && given.0.len() > 1);
            let Some(disk) = disk else { return Err(named(error, &given.paths())) };
            let path = given.paths().swap_remove(disk);
            tell_left_out(&path, &format!("{:#}", anyhow::Error::new(error)));
            given.0.remove(disk);
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().flatten().map(|disk| disk.path.clone()).collect()
    }

    /// Opens the volume that these disks are.
    pub(crate) fn open(paths: &[PathBuf], purpose: Purpose) -> anyhow::Result<(Self, Volume)> {
        let (mut given, identified) = Self::identify(paths, purpose)?;
        let opened = volume::open(&identified, &mut given);
        let mut volume = opened.map_err(|error| named(error, &given.paths()))?;
        let mut disks = given.in_order(&identified);
        disks.tell_drives(&mut volume);
        if purpose == Purpose::Write {
            disks.write_steps(&identified.even_superblocks(volume.members()))?;
        }
        Ok((disks, volume))
    }

    /// Tells the volume which of its disks are on one drive.
    pub(crate) fn tell_drives(&self, volume: &mut Volume) {
        let drives = self.0.iter().map(|disk| Some(disk.as_ref()?.device.as_ref()?.drive.as_str()));
        volume.set_drives(&drives.collect::<Vec<_>>());
    }

    /// Each disk at its number in the volume.
    pub(crate) fn in_order(mut self, identified: &Identified) -> Self {
        Self(identified.disks.iter().map(|disk| disk.and_then(|disk| self.0[disk].take())).collect())
    }

    /// The number of the disk with this path.
    pub(crate) fn number_of(&self, path: &Path) -> anyhow::Result<MemberId> {
        let is_it = |disk: &Option<DiskFile>| disk.as_ref().is_some_and(|disk| volumes::is_same_disk(&disk.path, path));
        let number = self.0.iter().position(is_it);
        let number = number.with_context(|| format!("{} is not of this volume", path.display()))?;
        Ok(MemberId(u8::try_from(number)?))
    }

    pub(crate) fn write(&mut self, write: &DiskWrite) -> anyhow::Result<()> {
        let disk = self.disk(write.member)?;
        disk.write_at(write.position, &write.bytes).with_context(|| format!("cannot write to {}", disk.path.display()))
    }

    pub(crate) fn write_payload(&mut self, member: MemberId, position: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let disk = self.disk(member)?;
        disk.write_at(position, bytes).with_context(|| format!("cannot write to {}", disk.path.display()))
    }

    pub(crate) fn flush(&mut self, member: MemberId) -> anyhow::Result<()> {
        let disk = self.disk(member)?;
        disk.flush()
            .with_context(|| format!("cannot flush {}: nothing since the last success counts", disk.path.display()))
    }

    /// Makes all staged changes durable.
    pub(crate) fn commit(&mut self, volume: &mut Volume) -> anyhow::Result<()> {
        while let Some(commit) = volume.commit() {
            self.carry_out(&commit)?;
            volume.committed(Ok(()));
        }
        Ok(())
    }

    fn carry_out(&mut self, commit: &GroupCommit) -> anyhow::Result<()> {
        commit.flush_first.iter().try_for_each(|member| self.flush(*member))?;
        commit.writes.iter().try_for_each(|write| self.write(write))?;
        commit.flush_then.iter().try_for_each(|member| self.flush(*member))
    }

    /// Writes superblocks, each step before the next.
    pub(crate) fn write_steps(&mut self, steps: &[Vec<DiskWrite>]) -> anyhow::Result<()> {
        for step in steps {
            step.iter().try_for_each(|write| self.write(write))?;
            let members: std::collections::BTreeSet<_> = step.iter().map(|write| write.member).collect();
            members.into_iter().try_for_each(|member| self.flush(member))?;
        }
        Ok(())
    }

    fn disk(&mut self, member: MemberId) -> anyhow::Result<&mut DiskFile> {
        let disk = self.0.get_mut(member.index()).and_then(Option::as_mut);
        disk.with_context(|| format!("disk number {} of the volume is missing", member.0))
    }
}

/// Commands that write need every disk: data on a missing one would be out of date when it comes back.
pub(super) fn refuse_missing(volume: &Volume) -> anyhow::Result<()> {
    let count = volume.superblock().members.len();
    let missing = (0..count).filter_map(|number| u8::try_from(number).ok()).map(MemberId);
    let missing: Vec<u8> = missing
        .filter(|member| !volume.is_writable(*member) && !volume.has_left(*member))
        .map(|member| member.0)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("the disks {missing:?} of the volume are missing: name all of them; reading works without")
}

/// Refuses disks that a server could not schedule one by one, and a mirror with all its disks on one drive.
pub(crate) fn check_apart<'a>(
    disks: impl IntoIterator<Item = &'a DiskFile>,
    placement: Placement,
) -> anyhow::Result<()> {
    let devices: Vec<&Device> = disks.into_iter().filter_map(|disk| disk.device.as_ref()).collect();
    for (number, device) in devices.iter().enumerate() {
        if devices[..number].iter().any(|other| other.name == device.name) {
            bail!(
                "two of the disks are parts of {}, which a server schedules as one: use one of them, or on a drive of several actuators \
                 a partition in the range of each (`isocast disk list` tells the ranges)",
                device.name
            );
        }
    }
    match &devices[..] {
        [first, others @ ..] if placement == Placement::Mirror && !others.is_empty() => {
            let one = others.iter().all(|other| other.drive == first.drive);
            ensure!(
                !one,
                "all the disks are parts of {}: a mirror needs two drives, for one takes all its parts along",
                first.drive
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// True if the system reports that there is no such disk: one that may not be opened is another matter.
fn is_away(error: &anyhow::Error) -> bool {
    let errno = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    [Errno::NOENT, Errno::NXIO, Errno::NODEV, Errno::IO, Errno::NOMEDIUM]
        .iter()
        .any(|away| Some(away.raw_os_error()) == errno)
}

fn tell_left_out(path: &Path, why: &str) {
    // Ignore errors on stderr.
    let _ = writeln!(io::stderr(), "{} is left out, and counts as missing: {why}", path.display());
}

/// True if another isocast has the disk now.
pub(super) fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| lock(&file).is_err())
}

/// True if another isocast has the disk, and does not let go of it.
pub(super) fn stays_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| exclusive::retry_while_in_use(|| lock(&file)).is_err())
}

fn lock(disk: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(disk, FlockOperation::NonBlockingLockExclusive)?)
}

/// The error with the disks that were given as a list, since it counts them.
fn named(error: VolumeOpenError, paths: &[PathBuf]) -> anyhow::Error {
    let list = |(number, path): (usize, &PathBuf)| format!("disk {number}: {}", path.display());
    let list: Vec<String> = paths.iter().enumerate().map(list).collect();
    anyhow::Error::new(error).context(format!("cannot open the volume ({})", list.join(", ")))
}

/// Prints the line by which the configuration of a server names the volume from now on.
pub(super) fn tell_configuration(disks: &[PathBuf]) {
    let whole = |disk: &PathBuf| disk.canonicalize().unwrap_or_else(|_| disk.clone()).display().to_string();
    let names: Vec<String> = disks.iter().map(whole).collect();
    // Ignore errors on stderr.
    let _ = writeln!(
        io::stderr(),
        "in the configuration of a server the volume is from now on: volumes = [{:?}]",
        names.join(",")
    );
}
