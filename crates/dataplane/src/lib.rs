//! Does: one loop that feeds sockets and disks on absolute deadlines, through [`port`]'s traits only.
//!
//! Promise: no allocation, lock, log line or call of unknown length after start. Not here: decisions (`schedule`),
//! the kernel (`kernel`), protocols (`http`).

pub mod cache;
pub mod control;
mod files;
pub mod gauges;
pub mod layout;
mod memory;
pub mod plane;
pub mod port;
mod stream;
pub mod watched;
pub mod wheel;

pub use plane::{Plane, PlaneConfig};
