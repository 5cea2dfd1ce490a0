//! The subcommands other than `serve`: each a module with its arguments and a `run`.
//!
//! Promise: they talk to servers over the network like anybody else and to the machine through `/proc` and `/sys`.
//! Not here: anything a running server needs.

pub mod bench;
pub mod disk;
pub mod plan;
