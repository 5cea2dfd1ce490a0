//! Commands of `isocast` beside the server: each is a module with `Args` and a `run`.

// These macros panic once the reader has closed its end.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod disk;
pub mod doctor;
pub mod top;
pub mod user;
pub mod volume;
