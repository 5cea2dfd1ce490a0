//! The process behind one disk: mounts the FUSE file, serves it in real time, listens for control commands.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use fuser::{Config, MountOption, Session, SessionACL};
use sim::drive::{Drive, DriveProfile, Parameters};

use super::control;
use super::engine::DiskEngine;
use super::fuse::FuseFile;
use super::image::Image;
use super::state::Places;
use super::sys;
use crate::say;

/// Above kernel threads that serve disks on ordinary priority, below the machine's watchdogs.
const PRIORITY: u8 = 50;

/// Runs until the FUSE file is unmounted. Says `ready` on standard output when it serves.
pub(crate) fn run(name: &str) -> anyhow::Result<()> {
    // It outlives the terminal it was started from. Fails only for a process that leads a group already: started by hand.
    let _led = rustix::process::setsid();
    let places = Places::of(name)?;
    let at = places.fuse();
    let state = places.load().context("no state.json: this is started by `isocast lab disk up`")?;
    let profile: DriveProfile = state.profile.parse()?;
    let mut parameters = Parameters::of(profile);
    for pair in &state.parameters {
        parameters.set(pair)?;
    }
    let size = parameters.size;
    let image = Image::open(&state.backing, size)
        .with_context(|| format!("cannot open the backing file {}", state.backing.display()))?;
    let engine = Arc::new(DiskEngine::new(Drive::new(parameters, state.seed)?, image));

    let listener = control::listen(&places)?;
    let controlled = Arc::clone(&engine);
    thread::Builder::new().name("control".into()).spawn(move || control::serve(&listener, &controlled))?;

    thread::Builder::new().name("owner".into()).spawn(move || end_with_owner(&places))?;

    // The threads that follow inherit it.
    if let Err(error) = sys::real_time(PRIORITY) {
        // `up` reads it there and hands it on.
        let _ =
            writeln!(io::stdout(), "warning: no real-time scheduling ({error}): answers may be late on a busy machine");
    }
    // Memory reclaim may wait for this process, so it must not wait for its disks in turn.
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        say(format_args!("warning: PR_SET_IO_FLUSHER: {error} (matters only when memory is nearly exhausted)"));
    }
    let clock = Arc::clone(&engine);
    let clock = thread::Builder::new().name("clock".into()).spawn(move || clock.run_clock())?;

    let mut options = Config::default();
    options.mount_options = vec![
        MountOption::FSName(format!("isocast-lab-{name}")),
        MountOption::Subtype("isocast".into()),
        MountOption::NoAtime,
    ];
    options.acl = SessionACL::All;
    options.n_threads = Some(1);
    let file = FuseFile { engine: Arc::clone(&engine), size };
    let session = match Session::new(file, &at, &options) {
        Ok(session) => session,
        Err(error) => bail!("cannot mount the FUSE file on {}: {error}", at.display()),
    };
    let mut out = io::stdout();
    writeln!(out, "ready").and_then(|()| out.flush()).context("no process waits for `ready`")?;
    let result = session.run();
    engine.stop();
    clock.join().map_err(|_| anyhow::anyhow!("the clock thread panicked"))?;
    result.context("the FUSE session ended")
}

/// Has the disk taken down when the process it was made for ends without having done so.
fn end_with_owner(places: &Places) {
    while let Some(owner) = places.load().and_then(|state| state.owner) {
        owner.wait();
        // `up` may have handed it on before it ended.
        if places.load().is_some_and(|state| state.owner == Some(owner)) {
            // Another process, as it waits for the end of this one.
            let mut down = Command::new("/proc/self/exe");
            down.args(["disk", "down", &places.name]).stdin(Stdio::null()).stdout(Stdio::null());
            if let Err(error) = down.spawn() {
                say(format_args!("its owner has ended, but the disk cannot be taken down: {error}"));
            }
            return;
        }
    }
}
