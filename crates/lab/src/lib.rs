//! `isocast lab`: things to measure with that a machine does not have. For now, emulated hard disks.
//!
//! Promise: what `up` makes, `down` removes, whatever happened between. Errors say what to install or do.
//! Not here: the drive's behaviour (`sim::drive`); this crate gives it a clock, data, and a place below the kernel's
//! block layer: a FUSE file under a loop device.

// They panic where nobody reads any more, and what was made would stay.
#![deny(clippy::print_stdout, clippy::print_stderr)]

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
mod said;
mod state;
mod stats;
mod stop;
mod sys;
mod up;

pub use commands::LabCommand;
pub use said::say;
pub use stop::Stop;
