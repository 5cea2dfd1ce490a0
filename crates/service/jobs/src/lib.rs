//! Times of the configuration's jobs (`[[job]]`): cron expressions in a time zone, spread by jitter, one run at a time, and the
//! fate of a run that missed its time.
//!
//! Promise: the same times give the same runs: the clock is an argument, and jitter follows from a job's name. No I/O, chance or
//! threads. Not here: the work of a job, and running it.

mod schedule;
mod timetable;

pub use schedule::{CronError, CronSchedule};
pub use timetable::{Missed, Timetable};
