//! The kernel, and all `unsafe`: the data plane's [`dataplane::port::Io`] on io_uring or ordinary system calls, the memory it reads into,
//! direct writes of the store threads, and the calls of emulated disks that no library offers.
//!
//! Promise: every `unsafe` block names the invariant it relies on and the code that keeps it; no reference is ever made
//! to memory that the kernel may write. Not here: the choice of reads, sends and writes, and of their times
//! (`dataplane`, `schedule`, `folder`, `volumes`).

pub mod aligned;
pub mod clock;
pub mod control_groups;
pub mod direct;
pub mod exclusive;
pub mod fiemap;
pub mod io;
pub mod lease;
pub mod loop_device;
pub mod permissions;
pub mod pool;
pub mod scheduling;
pub mod socket;
pub mod thread;
pub mod tipc;
pub mod version_check;
pub mod write_watch;

mod arena;
mod available_memory;
mod engine;
mod engine_choice;
mod epoll;
mod fault;
mod helpers;
mod lend;
mod mapping;
mod memory_supply;
mod outlets;
mod prefetch;
mod readers;
mod reads;
mod ring;

pub use engine_choice::EngineChoice;
pub use io::{IoConfig, KernelIo};
