//! Choice of the plane's engine: io_uring, or ordinary system calls where it cannot be had.

use std::os::fd::AsFd as _;

use channel::PlaneLink;
use rustix::thread::CpuSet;

use crate::engine::Engine;
use crate::epoll::EpollEngine;
use crate::permissions::{PermissionSubject, Permissions, StartError};
use crate::ring::RingEngine;

/// Engine that the data plane shall use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// io_uring, or ordinary system calls where it cannot be had.
    #[default]
    Auto,
    /// io_uring or nothing.
    IoUring,
    /// Ordinary system calls: epoll for sockets, threads for reads.
    Threads,
}

/// Sets up an engine and notes the choice and its reason.
///
/// # Errors
/// The lack of io_uring, if the configuration demands io_uring; else the lack of any engine.
pub(crate) fn start(
    choice: EngineChoice,
    link: &PlaneLink,
    helper_cpus: Option<&CpuSet>,
    permissions: &mut Permissions,
) -> Result<Box<dyn Engine>, StartError> {
    let why = match choice {
        EngineChoice::Threads => None,
        EngineChoice::Auto | EngineChoice::IoUring => match RingEngine::new(link.as_fd(), helper_cpus) {
            Ok(engine) => {
                permissions.say(PermissionSubject::Engine, true, "the data plane runs on io_uring".to_owned());
                return Ok(Box::new(engine));
            }
            Err(error) if choice == EngineChoice::IoUring => return Err(error),
            Err(error) => Some(error.to_string()),
        },
    };
    let engine = EpollEngine::new(link.as_fd()).map_err(StartError::Helpers)?;
    let sentence = match &why {
        None => "the data plane runs on ordinary system calls, as configured".to_owned(),
        Some(why) => format!(
            "the data plane runs on ordinary system calls, which keep the same promises for some more processor time per \
             read: it {why}"
        ),
    };
    permissions.say(PermissionSubject::Engine, why.is_none(), sentence);
    Ok(Box::new(engine))
}
