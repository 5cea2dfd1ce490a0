//! What each disk can do: kept from an earlier start, or measured now.
//!
//! Promise: nothing is served before every disk has a profile; the user sees what is measured and how far it is; a disk that
//! hangs holds up the start for seconds only.
//! Not here: measuring (`device::calibrate`).

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use device::calibrate::{CalibrateError, Calibration, Options, Progress, identify, load_or_calibrate};
use schedule::profile::DiskProfile;
use units::ByteCount;

use crate::output::say;

/// A file system in memory, bounded by the processor: no disk time is counted for it. Four gigabytes a second is what one
/// core copies on a slow machine.
const MEMORY_BYTES_PER_SECOND: u64 = 4_000_000_000;

/// A disk that answers nothing for so long hangs. A drive may try for half of this to read one bad place.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// The profile of the disk under `root`, measured with progress on standard error if it is not known yet.
pub(super) fn profile_of(name: &str, root: &Path, state: &Path) -> anyhow::Result<DiskProfile> {
    if in_memory(root) {
        say(format_args!("{name}: a file system in memory, no disk time is counted"));
        return Ok(memory_profile());
    }
    let Some(calibration) = measured(name, root, state)? else {
        let seconds = SILENCE_MAX.as_secs();
        say(format_args!(
            "{name}: no answer for {seconds} s: cautious figures are assumed; it is measured at the next start"
        ));
        let disk = identify(root).with_context(|| format!("cannot examine {}", root.display()))?;
        return Ok(DiskProfile::spindle_default().scaled_to(ByteCount(disk.capacity.0.max(1))));
    };
    say(format_args!("{name}: {}", describe(&calibration.profile)));
    say(format_args!("{name}: {}", calibration.source));
    for note in &calibration.notes {
        say(format_args!("{name}: {note}"));
    }
    Ok(calibration.profile)
}

/// The disk's calibration; `None` if the disk answers nothing for [`SILENCE_MAX`]: then the thread that measures is
/// abandoned, for nobody can call it back from the kernel.
fn measured(name: &str, root: &Path, state: &Path) -> anyhow::Result<Option<Calibration>> {
    let (tell, told) = mpsc::channel();
    let (folder, state) = (root.to_owned(), state.to_owned());
    let measure = move || {
        let mut watch = |progress: Progress| match tell.send(Step::Progress(progress)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let calibration = load_or_calibrate(&state, &folder, Options::default(), &mut watch);
        let _abandoned = tell.send(Step::End(calibration.map(Box::new)));
    };
    thread::Builder::new().name("calibrate".to_owned()).spawn(measure)?;
    let mut last = 0;
    while let Ok(step) = told.recv_timeout(SILENCE_MAX) {
        match step {
            Step::Progress(progress) if progress.permille >= last + 250 || (last == 0 && progress.permille == 0) => {
                say(format_args!("{name}: {} ({} %)", progress.step, progress.permille / 10));
                last = progress.permille.max(1);
            }
            Step::Progress(_) => {}
            Step::End(calibration) => {
                let calibration =
                    calibration.with_context(|| format!("cannot measure the disk under {}", root.display()))?;
                return Ok(Some(*calibration));
            }
        }
    }
    Ok(None)
}

enum Step {
    Progress(Progress),
    End(Result<Box<Calibration>, CalibrateError>),
}

fn describe(profile: &DiskProfile) -> String {
    let mega = |bytes: u64| bytes / 1_000_000;
    let (first, last) = (profile.rate_at(0), profile.rate_at(profile.capacity.0));
    let access = profile.access_time(profile.capacity.0 / 3);
    let kind = if profile.rotational { "spinning" } else { "flash" };
    format!("{kind}, {} to {} MB/s, {access} to a random place", mega(first), mega(last))
}

fn in_memory(root: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58F6;
    rustix::fs::statfs(root).is_ok_and(|facts| {
        let kind = u64::try_from(facts.f_type).unwrap_or(0);
        kind == TMPFS || kind == RAMFS
    })
}

fn memory_profile() -> DiskProfile {
    let mut profile = DiskProfile::flash_default().scaled_to(ByteCount(1 << 40));
    profile.zones.truncate(1);
    profile.zones[0].bytes_per_second = MEMORY_BYTES_PER_SECOND;
    profile.seeks.truncate(1);
    profile.seeks[0].time = units::Nanos::from_micros(50);
    profile.flush = units::Nanos::from_micros(10);
    profile
}
