//! `down`: takes everything of a disk apart, whatever state it is in.
//!
//! Promise: it finds parts by the existing mounts, loop devices and processes, not only by the state file; safe to repeat.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::Signal;

use super::control;
use super::state::{EmulatorState, Places, ProcessId, has_ended, memory_backing, remove_shared, unless_missing};
use super::sys;
use crate::say;

const PATIENCE: Duration = Duration::from_secs(3);

/// Whether its daemon answers.
pub(crate) fn is_alive(places: &Places) -> bool {
    control::ask_within(places, "ping", PATIENCE).is_ok()
}

/// Whether it is up as far as this user can see: only root may query the daemon, any user sees its process.
pub(crate) fn is_up(places: &Places) -> bool {
    if rustix::process::geteuid().is_root() {
        return is_alive(places);
    }
    places.load().and_then(|state| state.daemon).is_some_and(ProcessId::is_running)
}

/// Takes the disk apart; true if there was something.
pub(crate) fn take_down(places: &Places) -> anyhow::Result<bool> {
    let state = places.load();
    let daemon = state.as_ref().and_then(|s| s.daemon).filter(|id| id.is_running());
    let existed = places.home.exists();
    // A living drive lets go of everything quickly; a silent one is killed, which fails its requests.
    let answers = control::ask_within(places, "fault clear; spike off; slow 1; timing off; revive", PATIENCE).is_ok();
    if !answers && let Some(id) = daemon {
        end_process(id, Duration::ZERO)?;
    }
    let loops = loops_over(&places.disk());
    for number in &loops {
        for target in mounts_of(&format!("/dev/loop{number}")) {
            unmount(&target)?;
        }
    }
    for &number in &loops {
        detach(number, &places.disk())?;
    }
    for target in mounts_at(&places.fuse()) {
        unmount(&target)?;
    }
    if let Some(id) = daemon {
        end_process(id, PATIENCE)?;
    }
    for directory in state.iter().flat_map(|state| &state.made) {
        // Not empty: another program uses it.
        let _kept = fs::remove_dir(directory);
    }
    let backing = match &state {
        Some(state) if state.keep => None,
        Some(state) => Some(state.backing.clone()),
        None => Some(memory_backing(&places.name)),
    };
    if let Some(backing) = backing {
        unless_missing(fs::remove_file(&backing)).with_context(|| format!("cannot remove {}", backing.display()))?;
        if let Some(directory) = backing.parent().filter(|d| d.ends_with("isocast-lab")) {
            remove_shared(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
        }
    }
    places.remove().with_context(|| format!("cannot remove {}", places.home.display()))?;
    Ok(existed)
}

/// Takes down the disks of processes that were killed, where the disk's daemon, which does so by itself, has gone as well.
pub(crate) fn reap() {
    for places in Places::all() {
        let Some(EmulatorState { owner: Some(owner), daemon, .. }) = places.load() else { continue };
        if !owner.is_running()
            && daemon.is_none_or(|id| !id.is_running())
            && let Err(error) = take_down(&places)
        {
            say(format_args!("warning: remains of disk `{}`: {error:#}", places.name));
        }
    }
}

/// Unmounts; a file system in use is detached, with a warning.
fn unmount(target: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        match rustix::mount::unmount(target, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            // A brief use: udev and the like let go within moments.
            Err(Errno::BUSY) if began.elapsed() < PATIENCE / 3 => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(Errno::INVAL) => return Ok(()),
            Err(_) => break,
        }
    }
    say(format_args!("warning: {} is in use: detached; its users will see errors", target.display()));
    rustix::mount::unmount(target, UnmountFlags::DETACH).with_context(|| format!("cannot unmount {}", target.display()))
}

fn detach(number: u32, disk: &Path) -> anyhow::Result<()> {
    match sys::loop_detach(number) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot free /dev/loop{number}")),
    }
    // It is free when its last user has closed it, usually at once.
    let began = Instant::now();
    while loops_over(disk).contains(&number) {
        if began.elapsed() > PATIENCE {
            say(format_args!("warning: /dev/loop{number} is in use: it will be freed when its user closes it"));
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Numbers of the loop devices over a file.
pub(crate) fn loops_over(file: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("loop").and_then(|n| n.parse().ok()) else { continue };
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        // After the FUSE file is gone the kernel appends a mark to its name, and may drop its directory.
        let backing = backing.trim().trim_end_matches(" (deleted)");
        if Path::new(backing) == file {
            found.push(number);
        }
    }
    found
}

/// Mount points of a device, last mounted first.
fn mounts_of(source: &str) -> Vec<PathBuf> {
    mounts(|mount_source, _| mount_source == source)
}

fn mounts_at(target: &Path) -> Vec<PathBuf> {
    mounts(|_, mount_target| Path::new(mount_target) == target)
}

fn mounts(wanted: impl Fn(&str, &str) -> bool) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (source, target) = (fields.next()?, unescaped(fields.next()?));
            wanted(source, &target).then(|| PathBuf::from(target))
        })
        .collect();
    found.reverse();
    found
}

/// Octal escapes of /proc/mounts.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// Waits for a process to end by itself for `patience`, then kills it.
fn end_process(id: ProcessId, patience: Duration) -> anyhow::Result<()> {
    let Some(handle) = id.handle() else { return Ok(()) };
    if has_ended(&handle, Some(patience)) {
        return Ok(());
    }
    match rustix::process::pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error).with_context(|| format!("cannot kill the daemon, process {}", id.pid)),
    }
    if !has_ended(&handle, Some(Duration::from_secs(10))) {
        bail!("the daemon, process {}, does not die", id.pid);
    }
    Ok(())
}
