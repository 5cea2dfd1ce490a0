//! Jobs as the configuration describes them.

use std::fmt;
use std::path::PathBuf;

use jobs::{CronSchedule, Missed};
use service::operations::RemovalLimits;
use store::ContentPath;
use units::{BitRate, Nanos};

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobConfig {
    /// Its name, once among all jobs.
    pub name: String,
    /// Its times, as the configuration has them.
    pub cron: String,
    /// The time zone, if one was written; else the machine's.
    pub time_zone: Option<String>,
    /// Each run is put off by up to this.
    pub jitter: Nanos,
    /// The treatment of missed runs.
    pub missed: Missed,
    /// A run that takes longer is stopped.
    pub time_limit: Nanos,
    /// Times, time zone and jitter in one, which gives the next run.
    pub schedule: CronSchedule,
    /// The work to do.
    pub work: JobWork,
}

/// The work of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWork {
    /// Removes the oldest contents of a folder.
    Keep(RemovalLimits),
    /// Copies a folder.
    Copy {
        /// The source.
        from: CopyEnd,
        /// The target.
        to: CopyEnd,
        /// A file with `name:password` for the other server.
        login: Option<PathBuf>,
        /// The rate to reserve; none: best effort.
        rate: Option<BitRate>,
    },
    /// Reads every content of a folder.
    Scrub {
        /// Below `/media/`.
        folder: ContentPath,
        /// The rate to reserve; none: best effort.
        rate: Option<BitRate>,
    },
    /// Measures all disks anew.
    Measure,
    /// Runs a program, with its arguments.
    Command(Vec<String>),
}

/// An end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEnd {
    /// A folder of this server, below `/media/`.
    Served(ContentPath),
    /// An address of another Isocast.
    Isocast(String),
    /// `REMOTE:PATH` of the program `rclone`.
    Rclone(String),
}

impl fmt::Display for CopyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served(path) => f.write_str(&path.joined()),
            Self::Isocast(url) => f.write_str(url),
            Self::Rclone(remote) => write!(f, "rclone:{remote}"),
        }
    }
}

impl JobWork {
    /// The name of the kind, as in `kind`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Keep(_) => "keep",
            Self::Copy { .. } => "copy",
            Self::Scrub { .. } => "scrub",
            Self::Measure => "measure",
            Self::Command(_) => "command",
        }
    }
}
