//! Does: one loop that feeds sockets and disks on absolute deadlines, through [`port`]'s traits only.
//!
//! Promise: no allocation, lock, log line or call of unknown length after start. Not here: decisions (`schedule`),
//! the kernel (`kernel`), protocols (`http`).

mod admitter;
pub mod cache;
mod config;
mod context;
pub mod control;
mod cursor;
mod fetcher;
mod files;
pub mod gauges;
mod memory;
mod message;
pub mod outlet;
mod pacer;
pub mod plane;
pub mod port;
mod profile;
mod request;

pub use config::{FLASH_ROUND_TICKS, PlaneConfig};
pub use fetcher::BEST_EFFORT_PAGES_SHARE;
pub use plane::Plane;
