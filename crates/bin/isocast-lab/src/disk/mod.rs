//! `isocast-lab disk`: emulated hard disks, real block devices with a drive's service times.
//!
//! Promise: what `up` makes, `down` removes, whatever happened between. Errors say what to install or do.
//! Not here: the drive's behaviour (`sim::drive`); this module gives it a clock, data, and a place below the kernel's
//! block layer: a FUSE file under a loop device.

mod calibrate;
mod check;
mod commands;
mod control;
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
