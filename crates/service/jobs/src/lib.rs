//! Times of the configuration's jobs (`[[job]]`): cron expressions in a time zone, spread by jitter, one run at a time, and what
//! becomes of a run whose time passed.
//!
//! Promise: the same times give the same runs: the clock is an argument, and jitter follows from a job's name. No I/O, chance or
//! threads. Not here: what a job does, and running it.

mod schedule;
mod timetable;

pub use schedule::{CronError, CronSchedule};
pub use timetable::{Missed, Timetable};
