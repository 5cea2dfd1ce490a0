//! Writing of contents, decided without touching a disk: the messages of a store thread and its disk's schedule, the life
//! of an upload, and the treatment by a start of the leftovers of a crash.
//!
//! Promise: no I/O, clock, chance or thread in here: the same code runs in the store, in the simulator, and in a
//! test that cuts the power at every sync. Not here: when a disk is used (`schedule`), files (`folder`).

pub mod grant;
pub mod leftover;
pub mod uploads;
