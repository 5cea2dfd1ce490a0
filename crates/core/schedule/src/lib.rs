//! Decides: which request a disk serves next, which stream is admitted, how many bytes are due.
//!
//! Promise: pure state machines. They take events and `now` and return actions and the next wake-up; the same events
//! give the same decisions. Not here: input or output, clocks, randomness, threads (see `clippy.toml`).

pub mod admission;
pub mod cycle;
pub mod disk;
pub mod pace;
pub mod profile;
