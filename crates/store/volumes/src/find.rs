//! Search for the volume's disks among the named ones, and a start without the missing ones.
//!
//! Promise: a start gives the volume the state that a running server would have given it: of a mirror, a disk that is away is out, and
//! a disk that is back is filled anew; a volume with one copy of the data on a disk that is away takes no changes, and nothing is written
//! to it. A disk that was not named at all, is in use, or is of another volume is no reason to continue without it, but a mistake. Not
//! here: opening a disk (`open_disk`), writing to them (`disks`), the meaning of the superblocks (crate `volume`).

use std::path::PathBuf;

use kernel::exclusive::Purpose;
use rustix::io::Errno;
use volume::{Identified, MemberId, Volume, VolumeError, VolumeOpenError};

use super::disks::VolumeDisks;
use super::open_disk::{OpenDisk, VolumeDiskError, is_same_disk};
use store::event::DiskNotice;

/// Consequence of a disk's absence.
const READ_ELSEWHERE: &str =
    "everything is read from the other copies; put it back, and it is filled, or `isocast volume replace` it";
const NO_OTHER_COPY: &str =
    "there is no other copy of its contents: the rest is served, and nothing is written until it is back";

/// A disk that was named and cannot be used.
#[derive(Debug)]
pub struct UnusableDisk {
    /// As it was named.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// Result of the search among the named disks.
#[derive(Debug)]
pub struct FoundDisks {
    /// The disks that can be used, in the order in which they were named.
    pub given: VolumeDisks,
    /// The volume they are.
    pub identified: Identified,
    /// The disks that cannot be used.
    pub unusable: Vec<UnusableDisk>,
    /// Of the volume, and out of date.
    pub stale: Vec<(OpenDisk, MemberId)>,
}

/// True if the system reports no such disk, or a disk that gives nothing: a disk that may not be opened is another matter.
fn is_away(error: &VolumeDiskError) -> bool {
    let VolumeDiskError::Open { source, .. } = error else { return false };
    let away = [Errno::NOENT, Errno::NXIO, Errno::NODEV, Errno::IO, Errno::NOMEDIUM];
    away.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
}

impl FoundDisks {
    /// Opens them, and finds out which volume they are.
    ///
    /// # Errors
    /// None of them is a volume's, or they are not of one; a disk is in use.
    pub fn of(paths: &[PathBuf], purpose: Purpose) -> Result<Self, VolumeDiskError> {
        let (mut given, mut unusable, mut stale) = (Vec::new(), Vec::new(), Vec::new());
        for (number, path) in paths.iter().enumerate() {
            if paths[..number].iter().any(|other| is_same_disk(other, path)) {
                return Err(VolumeDiskError::Twice(path.clone()));
            }
            match OpenDisk::open(path, purpose) {
                Ok(disk) => given.push(disk),
                Err(error) if is_away(&error) && paths.len() > 1 => {
                    let VolumeDiskError::Open { source, .. } = &error else { return Err(error) };
                    unusable.push(UnusableDisk { path: path.clone(), why: source.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        if given.is_empty() {
            return Err(none_there(&unusable));
        }
        let mut given = VolumeDisks::given(given);
        let identified = loop {
            let sizes: Vec<u64> = given.iter().map(|disk| disk.size).collect();
            let error = match volume::identify(&sizes, &mut given) {
                Ok(identified) => break identified,
                Err(error) => error,
            };
            let (disk, member) = match (&error, error.unusable_disk()) {
                (VolumeOpenError::Stale { disk, member }, _) => (*disk, Some(MemberId(*member))),
                (_, Some(disk)) => (disk, None),
                _ => return Err(failed(&given, error)),
            };
            if given.0.len() < 2 && (unusable.is_empty() || member.is_some()) {
                return Err(failed(&given, error));
            }
            let disk = given.0.remove(disk).expect("all given disks are there");
            match member {
                Some(member) => stale.push((disk, member)),
                None => unusable.push(UnusableDisk { path: disk.path, why: reason(&error) }),
            }
            if given.0.is_empty() {
                return Err(none_there(&unusable));
            }
        };
        Ok(Self { given, identified, unusable, stale })
    }

    /// Opens the volume that they are.
    ///
    /// # Errors
    /// The catalogue is damaged.
    pub fn open(&mut self) -> Result<Volume, VolumeDiskError> {
        volume::open(&self.identified, &mut self.given).map_err(|error| failed(&self.given, error))
    }

    /// Checks that all disks of the volume were named, a disk that is away as well.
    ///
    /// # Errors
    /// More are missing than cannot be used.
    pub fn check_named(&self) -> Result<(), VolumeDiskError> {
        let missing = self.identified.missing();
        if missing.len() > self.unusable.len() {
            return Err(VolumeDiskError::Missing(missing.into_iter().map(|member| member.0).collect()));
        }
        Ok(())
    }

    /// Gives the volume its state without the disks that are away, durably, and takes in again the disks that are back. Gives the disks
    /// by their numbers, the paths of the missing ones, and the notices about them.
    pub(super) fn settle(self, volume: &mut Volume) -> Result<SettledDisks, VolumeDiskError> {
        let Self { given, identified, unusable, stale } = self;
        debug_assert!(given.0.iter().all(Option::is_some), "each disk that was given is one of the volume's");
        let disks = given.in_order(&identified);
        debug_assert!(disks.0.len() == volume.superblock().members.len(), "each disk lies at its number");
        let mut settled = SettledDisks { disks, away: Vec::new(), notices: Vec::new() };
        settled.disks.write_steps(&identified.even_superblocks(volume.members()))?;
        let is_stale = |member: &MemberId| stale.iter().any(|(_, other)| other == member);
        let out = volume.taken_out().filter(|member| !is_stale(member)).collect::<Vec<_>>();
        let mut absent = identified.missing().into_iter().chain(out);
        for UnusableDisk { path, why } in unusable {
            let (state, message) = match absent.next() {
                Some(member) => {
                    settled.away.push((member, path.clone()));
                    let (state, effect) = settled.without(volume, member)?;
                    (state, format!("disk {} of the volume is not served: {why}; {effect}", member.0))
                }
                None => ("left", format!("it is not used: {why}; no disk of the volume is missing: leave it out")),
            };
            settled.tell(volume, path, state, message);
        }
        for (disk, member) in stale {
            let path = disk.path.clone();
            let (state, message) = settled.take_in(volume, disk, member)?;
            settled.tell(volume, path, state, message);
        }
        Ok(settled)
    }
}

/// The disks as they are served.
pub(super) struct SettledDisks {
    /// By their numbers.
    pub(super) disks: VolumeDisks,
    pub(super) away: Vec<(MemberId, PathBuf)>,
    pub(super) notices: Vec<DiskNotice>,
}

impl SettledDisks {
    fn tell(&mut self, volume: &Volume, path: PathBuf, state: &'static str, message: String) {
        self.notices.push(DiskNotice { volume: volume.superblock().name.clone(), path, state, message });
    }

    /// The state of a disk that is away, and the effect.
    fn without(&self, volume: &mut Volume, member: MemberId) -> Result<(&'static str, &'static str), VolumeDiskError> {
        if volume.taken_out().any(|out| out == member) {
            return Ok(("out", READ_ELSEWHERE));
        }
        match volume.take_out(member) {
            Ok(steps) => {
                self.disks.write_steps(&steps)?;
                Ok(("out", READ_ELSEWHERE))
            }
            Err(_) => Ok(("missing", NO_OTHER_COPY)),
        }
    }

    /// Fills a disk that was out with the changes it missed, unless it has left the volume.
    fn take_in(
        &mut self,
        volume: &mut Volume,
        disk: OpenDisk,
        member: MemberId,
    ) -> Result<(&'static str, String), VolumeDiskError> {
        if volume.has_left(member) {
            return Ok(("left", "it has left the volume: leave it out of the server's list of disks".to_owned()));
        }
        match volume.put_in(member, disk.size) {
            Ok(steps) => {
                debug_assert!(self.disks.0[member.index()].is_none(), "a disk that is back comes into its empty place");
                self.disks.0[member.index()] = Some(disk);
                self.disks.write_steps(&steps)?;
                let message = format!(
                    "disk {} of the volume was out of date, and is filled with the changes it missed",
                    member.0
                );
                Ok(("filling", message))
            }
            Err(VolumeError::ReadOnly) => {
                Ok(("out", "it is out of date, and cannot be filled while another disk is away".to_owned()))
            }
            Err(error) => Ok(("out", format!("it is out of date, and cannot be filled: {error}"))),
        }
    }
}

/// Reason for which one disk is not the volume's, without its number among those given: the caller names it.
pub(super) fn reason(error: &VolumeOpenError) -> String {
    match error {
        VolumeOpenError::Superblock { source, .. } => source.to_string(),
        VolumeOpenError::Truncated { size, needed, .. } => {
            format!("it has {size} bytes and had {needed}: it is truncated")
        }
        other => other.to_string(),
    }
}

fn none_there(unusable: &[UnusableDisk]) -> VolumeDiskError {
    let reasons: Vec<String> = unusable.iter().map(|disk| format!("{}: {}", disk.path.display(), disk.why)).collect();
    VolumeDiskError::NoneThere(reasons.join("; "))
}

/// The disks as they are counted in the error.
fn failed(given: &VolumeDisks, source: VolumeOpenError) -> VolumeDiskError {
    let name = |(number, disk): (usize, &OpenDisk)| format!("disk {number}: {}", disk.path.display());
    let disks: Vec<String> = given.iter().enumerate().map(name).collect();
    VolumeDiskError::Volume { disks: disks.join(", "), source }
}
