//! `isocast-lab disk`: emulated hard disks, real block devices with a drive's service times.
//!
//! Promise: `down` removes everything that `up` makes, whatever happened between. Errors name the package to install or the remedy.
//! Not here: the drive's behaviour (`sim::drive`); this module gives it a clock, data, and a place below the kernel's
//! block layer: a FUSE file under a loop device.

mod calibrate;
mod check;
mod commands;
pub(crate) mod control;
mod daemon;
mod down;
mod engine;
mod fill;
mod fuse;
mod image;
mod state;
mod stats;
mod sys;
mod up;

pub(crate) use commands::EmulatedDiskCommand;
pub(crate) use state::Places;
pub(crate) use stats::{ModelLateness, Statistics};
