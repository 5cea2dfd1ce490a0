//! The subcommands other than `serve`: each a module with its arguments and a `run`.
//!
//! Promise: they talk to servers over the network like anybody else and to the machine through `/proc` and `/sys`.
//! Not here: anything a running server needs.

// They panic where nobody reads any more, and what was made would stay.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod disk;
mod files;
pub mod plan;

/// What this program exits with when whoever read its output has gone: as a shell says it of a program that a broken pipe
/// ended (128 + SIGPIPE).
pub const OUTPUT_CLOSED: u8 = 141;
